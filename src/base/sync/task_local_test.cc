#include "holdfast/base/sync/task_local.h"

#include <gtest/gtest.h>

#include "holdfast/base/sync/thread.h"

namespace holdfast::sync {
namespace {

const TaskLocalPointer<int> kNumber;
const TaskLocalPointer<const int> kConstant;

class TaskLocalTest : public ::testing::Test {
 protected:
  void TearDown() override {
    kNumber.set(nullptr);
    kConstant.set(nullptr);
  }
};

TEST_F(TaskLocalTest, it_is_null_at_first) {
  int* in_thread = reinterpret_cast<int*>(1);
  Thread("fresh", [&] { in_thread = kNumber.get(); });
  EXPECT_EQ(in_thread, nullptr);
}

TEST_F(TaskLocalTest, each_thread_has_its_own) {
  int mine = 1;
  int theirs = 2;
  kNumber.set(&mine);
  int* seen_before = &mine;
  int* seen_after = nullptr;
  Thread("other", [&] {
    seen_before = kNumber.get();
    kNumber.set(&theirs);
    seen_after = kNumber.get();
  });
  EXPECT_EQ(seen_before, nullptr);
  EXPECT_EQ(seen_after, &theirs);
  EXPECT_EQ(kNumber.get(), &mine);
}

TEST_F(TaskLocalTest, two_purposes_do_not_share_a_pointer) {
  int a = 1;
  const int b = 2;
  kNumber.set(&a);
  kConstant.set(&b);
  EXPECT_EQ(kNumber.get(), &a);
  EXPECT_EQ(kConstant.get(), &b);
}

TEST_F(TaskLocalTest, a_scope_restores_what_was_there) {
  int outer = 1;
  int inner = 2;
  {
    const TaskLocalPointer<int>::Scope one(kNumber, &outer);
    {
      const TaskLocalPointer<int>::Scope two(kNumber, &inner);
      EXPECT_EQ(kNumber.get(), &inner);
    }
    EXPECT_EQ(kNumber.get(), &outer);
  }
  EXPECT_EQ(kNumber.get(), nullptr);
}

TEST_F(TaskLocalTest, a_scheduler_gives_each_of_its_tasks_its_own) {
  int first = 1;
  kNumber.set(&first);
  const void* const thread = this_task();
  internal::TaskSlots other_task{};
  internal::scheduled_slots = &other_task;
  EXPECT_EQ(kNumber.get(), nullptr);
  EXPECT_NE(this_task(), thread);
  internal::scheduled_slots = nullptr;
  EXPECT_EQ(kNumber.get(), &first);
  EXPECT_EQ(this_task(), thread);
}

}  // namespace
}  // namespace holdfast::sync
