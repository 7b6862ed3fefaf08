#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "holdfast/base/log.h"

#include "holdfast/hal/cts/cts.h"

// External memory: used in place, deleted once and late.

namespace holdfast::hal::cts {

namespace {

using ::testing::HasSubstr;

// Collects warnings for a scope.
class Warnings {
 public:
  Warnings() {
    before_ = logging::set_sink([all = all_](const logging::Message& message) {
      if (!message.warning) return;
      const auto held = all->lock();
      *held += message.text;
      *held += '\n';
    });
  }
  ~Warnings() { logging::set_sink(before_); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;
  std::string text() const { return *all_->lock(); }

 private:
  std::shared_ptr<sync::Guarded<std::string>> all_ = std::make_shared<sync::Guarded<std::string>>();
  logging::Sink before_;
};

}  // namespace

TEST_P(Cts, imported_memory_is_used_in_place) {
  Imported data = imported(counting(1024, 5), "mine");
  EXPECT_EQ(data.allocation->buffer()->name(), "mine");
  EXPECT_EQ(data.allocation->size(), Bytes{4096});
  EXPECT_EQ(static_cast<void*>(data.allocation->host_pointer()), static_cast<void*>(data.words));
  auto work = list();
  increment(work, data.allocation);
  ASSERT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(Words(data.words, data.words + 1024), counting(1024, 6));
  data.words[3] = 100;
  auto more = list();
  affine(more, data.allocation, 2, 0);
  ASSERT_TRUE(reached(submit(queue(), more)));
  EXPECT_EQ(data.words[3], 200U);
  EXPECT_EQ(data.deletions->value(), 0);
}

TEST_P(Cts, imported_memory_copies_to_and_from_device_memory) {
  Imported from = imported(counting(1024), "from");
  Imported to = imported(Words(1024), "to");
  const auto between = words(1024, "between");
  const ByteRange all = range(0, 4096);
  auto work = list();
  work.copy(from.allocation, all, between, all);
  work.barrier();
  work.copy(between, range(3, 4093), to.allocation, range(1, 4093));
  ASSERT_TRUE(reached(submit(queue(), work)));
  ByteVector expected(4096);
  const Words source = counting(1024);
  std::memcpy(expected.data() + 1, reinterpret_cast<const std::byte*>(source.data()) + 3, 4093);
  EXPECT_EQ(std::memcmp(to.words, expected.data(), expected.size()), 0);
}

TEST_P(Cts, an_import_that_no_list_used_is_deleted_with_its_last_user) {
  Imported data = imported(Words(64));
  EXPECT_EQ(data.deletions->value(), 0);
  data.allocation.reset();
  EXPECT_TRUE(data.deletions->reaches(1));
  EXPECT_EQ(data.deletions->value(), 1);
}

TEST_P(Cts, the_deleter_runs_outside_every_lock) {
  Imported data;
  ExternalMemory memory = external(Words(64), "memory", data);
  // What takes locks of the queue or of the device must not hang in the deleter.
  Queue* const own = queue().get();
  Device* const its_device = &device();
  const auto reentered = std::make_shared<Counter>();
  memory.deleter = [free = memory.deleter, own, its_device, reentered] {
    free();
    own->retire();
    (void)own->oldest();
    (void)its_device->lost();
    CommandList inner(its_device->info(), "from the deleter");
    if (own->submit(inner).ok()) reentered->add();
    if (its_device->create_buffer({{64}, MemoryKind::device, "inner"}).ok()) reentered->add();
  };
  data.allocation = Allocation::whole(device().import_buffer(std::move(memory)).or_raise());
  auto work = list();
  increment(work, data.allocation);
  data.allocation.reset();
  ASSERT_TRUE(reached(submit(queue(), work)));
  queue()->retire();
  EXPECT_TRUE(data.deletions->reaches(1));
  EXPECT_TRUE(reentered->reaches(2));
}

TEST_P(Cts, a_refused_import_is_deleted_once) {
  Imported empty;
  ExternalMemory nothing = external(Words(64), "empty", empty);
  nothing.size = {};
  const auto refused = device().import_buffer(std::move(nothing));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.failure().message(), HasSubstr("empty"));
  EXPECT_TRUE(empty.deletions->reaches(1));

  Imported null;
  ExternalMemory nowhere = external(Words(64), "nowhere", null);
  nowhere.data = nullptr;
  const auto also_refused = device().import_buffer(std::move(nowhere));
  ASSERT_FALSE(also_refused.ok());
  EXPECT_THAT(also_refused.failure().message(), HasSubstr("nowhere"));
  EXPECT_TRUE(null.deletions->reaches(1));

  Imported late;
  ExternalMemory too_late = external(Words(64), "too late", late);
  device().close(patience());
  EXPECT_FALSE(device().import_buffer(std::move(too_late)).ok());
  EXPECT_TRUE(late.deletions->reaches(1));

  for (const Imported* each : {&empty, &null, &late}) EXPECT_EQ(each->deletions->value(), 1);
}

TEST_P(Cts, an_import_needs_no_deleter) {
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  const std::unique_ptr<void, Free> page(std::aligned_alloc(4096, 4096));
  std::memset(page.get(), 0, 4096);
  auto data = Allocation::whole(
      device().import_buffer({page.get(), {4096}, nullptr, "borrowed"}).or_raise());
  auto work = list();
  increment(work, data);
  data.reset();
  ASSERT_TRUE(reached(submit(queue(), work)));
  queue()->retire();
  EXPECT_EQ(*static_cast<uint32_t*>(page.get()), 1U);
}

TEST_P(Cts, one_block_may_be_imported_twice) {
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  const std::unique_ptr<void, Free> page(std::aligned_alloc(4096, 4096));
  std::memset(page.get(), 0, 4096);
  const auto deletions = std::make_shared<Counter>();
  const auto import = [&](std::string name) {
    return Allocation::whole(
        device()
            .import_buffer({page.get(), {4096}, [deletions] { deletions->add(); }, std::move(name)})
            .or_raise());
  };
  auto one = import("one");
  auto two = import("two");
  EXPECT_NE(one->id(), two->id());
  auto work = list();
  increment(work, one);
  work.barrier();
  increment(work, two);
  ASSERT_TRUE(reached(submit(queue(), work)));
  queue()->retire();
  EXPECT_EQ(*static_cast<uint32_t*>(page.get()), 2U);
  one.reset();
  EXPECT_TRUE(deletions->reaches(1));
  EXPECT_EQ(deletions->value(), 1);
  two.reset();
  EXPECT_TRUE(deletions->reaches(2));
}

TEST_P(Cts, a_deleter_that_throws_is_logged_and_everything_else_goes_on) {
  const Warnings warnings;
  Imported first;
  Imported second;
  Imported third;
  const auto import = [&](std::string name, Imported& out, const std::function<void()>& raise) {
    ExternalMemory memory = external(Words(64), std::move(name), out);
    memory.deleter = [free = memory.deleter, raise] {
      free();
      raise();
    };
    return memory;
  };
  const auto raise_error = [] { throw std::runtime_error("cannot let go"); };
  first.allocation =
      Allocation::whole(device().import_buffer(import("first", first, raise_error)).or_raise());
  second.allocation = Allocation::whole(
      device().import_buffer(import("second", second, [] { throw 3; })).or_raise());
  third.allocation =
      Allocation::whole(device().import_buffer(import("third", third, [] {})).or_raise());
  auto work = list();
  for (Imported* each : {&first, &second, &third}) {
    increment(work, each->allocation);
    each->allocation.reset();
  }
  ASSERT_TRUE(reached(submit(queue(), work)));
  queue()->retire();
  for (Imported* each : {&first, &second, &third}) EXPECT_TRUE(each->deletions->reaches(1));
  EXPECT_THAT(warnings.text(), HasSubstr("'first'"));
  EXPECT_THAT(warnings.text(), HasSubstr("cannot let go"));
  EXPECT_THAT(warnings.text(), HasSubstr("'second'"));
  EXPECT_THAT(warnings.text(), ::testing::Not(HasSubstr("'third'")));

  Imported refused;
  ExternalMemory nothing = import("refused", refused, raise_error);
  nothing.size = {};
  const auto answer = device().import_buffer(std::move(nothing));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.failure().code(), ErrorCode::usage) << "the refusal's own cause";
  EXPECT_TRUE(refused.deletions->reaches(1));
  EXPECT_THAT(warnings.text(), HasSubstr("'refused'"));

  const auto data = uploaded(Words(64, 1), "data");
  auto more = list();
  increment(more, data);
  EXPECT_TRUE(reached(submit(queue(), more)));
  EXPECT_EQ(read(data), Words(64, 2));
}

TEST_P(Cts, a_forked_child_leaves_imports_to_its_parent_and_is_refused_new_ones) {
  Imported data = imported(Words(64, 1), "the parent's");
  auto work = list();
  increment(work, data.allocation);
  ASSERT_TRUE(reached(submit(queue(), work)));
  queue()->retire();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(300);  // a child that hangs is killed, and the test fails
    data.allocation.reset();
    if (data.deletions->value() != 0) _exit(1);
    Imported own;
    const auto refused = device().import_buffer(external(Words(64), "the child's", own));
    if (refused.ok()) _exit(2);
    if (own.deletions->value() != 1) _exit(3);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "the child crashed or hung";
  EXPECT_EQ(WEXITSTATUS(status), 0)
      << "1: the parent's deleter ran; 2: the import was not refused; 3: it was not deleted once";
  EXPECT_EQ(data.deletions->value(), 0);
  data.allocation.reset();
  EXPECT_TRUE(data.deletions->reaches(1));
}

}  // namespace holdfast::hal::cts
