#include "holdfast/base/ref.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "holdfast/base/sync/thread.h"

namespace holdfast {
namespace {

// Counts how many of its kind live.
class Probe : public RefCounted {
 public:
  explicit Probe(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
  ~Probe() override { --alive_; }

 private:
  std::atomic<int>& alive_;
};
class SpecialProbe final : public Probe {
 public:
  using Probe::Probe;
};

class RefTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(alive_, 0) << "every object is destroyed by its last Ref"; }
  std::atomic<int> alive_{0};
};

TEST_F(RefTest, an_object_is_born_without_a_count_and_its_first_ref_takes_it_to_one) {
  auto* object = new Probe(alive_);
  EXPECT_EQ(object->ref_count(), 0U);
  const Ref<Probe> ref(object);
  EXPECT_EQ(object->ref_count(), 1U);
}

TEST_F(RefTest, a_copy_counts_and_dropping_it_counts_back) {
  const auto ref = make_ref<Probe>(alive_);
  {
    const Ref<Probe> copy = ref;  // NOLINT(performance-unnecessary-copy-initialization)
    EXPECT_EQ(copy.get(), ref.get());
    EXPECT_EQ(ref->ref_count(), 2U);
  }
  EXPECT_EQ(ref->ref_count(), 1U);
}

TEST_F(RefTest, the_last_drop_destroys) {
  auto first = make_ref<Probe>(alive_);
  auto second = first;
  first.reset();
  EXPECT_FALSE(first);
  EXPECT_EQ(alive_, 1);
  second = nullptr;
  EXPECT_EQ(alive_, 0);
}

TEST_F(RefTest, a_move_takes_the_count_along_and_leaves_nothing) {
  auto from = make_ref<Probe>(alive_);
  Probe* const object = from.get();
  Ref<Probe> to = std::move(from);
  EXPECT_EQ(from.get(), nullptr);  // NOLINT(bugprone-use-after-move): empty after a move
  EXPECT_EQ(to.get(), object);
  EXPECT_EQ(to->ref_count(), 1U);
}

TEST_F(RefTest, assignment_drops_what_was_there) {
  auto ref = make_ref<Probe>(alive_);
  ref = make_ref<Probe>(alive_);
  EXPECT_EQ(alive_, 1);
  const auto other = make_ref<Probe>(alive_);
  ref = other;
  EXPECT_EQ(alive_, 1);
  EXPECT_EQ(ref, other);
  EXPECT_EQ(other->ref_count(), 2U);
}

TEST_F(RefTest, assigning_a_ref_to_itself_changes_nothing) {
  auto ref = make_ref<Probe>(alive_);
  Ref<Probe>& same = ref;
  ref = same;
  ASSERT_TRUE(ref);
  EXPECT_EQ(ref->ref_count(), 1U);
  ref = std::move(same);
  ASSERT_TRUE(ref);
  EXPECT_EQ(ref->ref_count(), 1U);
  EXPECT_EQ(alive_, 1);
}

TEST_F(RefTest, a_ref_converts_to_one_of_its_base_by_copy_and_by_move) {
  auto special = make_ref<SpecialProbe>(alive_);
  const Ref<Probe> copied = special;
  EXPECT_EQ(copied.get(), special.get());
  EXPECT_EQ(copied->ref_count(), 2U);
  const Ref<const Probe> moved = std::move(special);
  EXPECT_FALSE(special);  // NOLINT(bugprone-use-after-move): empty after a move
  EXPECT_EQ(moved.get(), copied.get());
  EXPECT_EQ(copied->ref_count(), 2U);
}

TEST_F(RefTest, conversion_goes_to_the_base_only) {
  static_assert(std::is_convertible_v<Ref<SpecialProbe>, Ref<Probe>>);
  static_assert(!std::is_convertible_v<Ref<Probe>, Ref<SpecialProbe>>);
  static_assert(!std::is_convertible_v<Ref<const Probe>, Ref<Probe>>);
  static_assert(!std::is_convertible_v<Probe*, Ref<Probe>>, "to take a count is said aloud");
}

TEST_F(RefTest, detach_gives_the_count_to_the_caller) {
  auto ref = make_ref<Probe>(alive_);
  Probe* const object = ref.detach();
  EXPECT_FALSE(ref);
  EXPECT_EQ(alive_, 1);
  EXPECT_EQ(object->ref_count(), 1U);
  object->release();
  EXPECT_EQ(alive_, 0);
}

TEST_F(RefTest, refs_are_equal_where_they_name_one_object) {
  const auto one = make_ref<Probe>(alive_);
  const auto same = one;  // NOLINT(performance-unnecessary-copy-initialization)
  const auto other = make_ref<Probe>(alive_);
  EXPECT_EQ(one, same);
  EXPECT_NE(one, other);
  EXPECT_EQ(Ref<Probe>(), nullptr);
  EXPECT_NE(one, nullptr);
}

TEST_F(RefTest, swap_exchanges_without_counting) {
  auto a = make_ref<Probe>(alive_);
  auto b = make_ref<Probe>(alive_);
  Probe* const first = a.get();
  a.swap(b);
  EXPECT_EQ(b.get(), first);
  EXPECT_NE(a.get(), first);
  EXPECT_EQ(a->ref_count(), 1U);
  EXPECT_EQ(b->ref_count(), 1U);
}

TEST_F(RefTest, an_object_dies_on_the_thread_that_drops_its_last_ref) {
  auto ref = make_ref<Probe>(alive_);
  int before = -1;
  int after = -1;
  sync::Thread("dropper", [&, mine = std::move(ref)]() mutable {
    before = alive_;
    mine.reset();
    after = alive_;
  });
  EXPECT_EQ(before, 1);
  EXPECT_EQ(after, 0);
}

TEST_F(RefTest, counts_made_by_many_threads_at_once_add_up) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  const auto shared = make_ref<Probe>(alive_);
  {
    std::vector<sync::Thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back("ref", [mine = shared] {
        for (int i = 0; i < kRounds; ++i) {
          Ref<Probe> copy = mine;
          const Ref<const Probe> moved = std::move(copy);
        }
      });
    }
  }
  EXPECT_EQ(shared->ref_count(), 1U);
  EXPECT_EQ(alive_, 1);
}

}  // namespace
}  // namespace holdfast
