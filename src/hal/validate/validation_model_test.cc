#include "holdfast/hal/validate/validation_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "holdfast/base/ablation.h"
#include "holdfast/base/range_test.h"
#include "holdfast/hal/cpu/cpu_device.h"

namespace holdfast::hal {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint32_t kQueues = 3;

class NobodysRanges final : public RangeOwner {
 public:
  void range_died(Allocation&) noexcept override {}
};

// A model that is told of lives, lists and host accesses by hand. Nothing runs.
class ValidationModelTest : public ::testing::Test {
 protected:
  ValidationModelTest() {
    for (uint32_t q = 0; q < kQueues; ++q) {
      timelines_[q] = make_ref<HostTimeline>(device_->id(), "queue " + std::to_string(q));
    }
    block_ = device_->create_buffer({64_KiB, MemoryKind::device, "block"}).or_raise();
    block_->set_owner(make_ref<NobodysRanges>());
  }

  Ref<Allocation> cut(uint64_t offset, uint64_t length, std::string name,
                      std::source_location site = {}) {
    auto life = make_ref<Allocation>(block_, range(offset, length), std::move(name), nullptr, site);
    model_.born(*life);
    return life;
  }
  // Cut, and written by a list that the host has seen.
  Ref<Allocation> filled(uint64_t offset, uint64_t length, const std::string& name) {
    auto life = cut(offset, length, name);
    auto work = list("fill of " + name);
    fill(work, life);
    see(submit(0, work));
    return life;
  }
  Ref<Pipeline> kernel(const std::string& name, uint32_t bindings, Bytes parameters = {}) {
    auto made =
        device_
            ->create_pipeline({name, HostFunction([](const HostGroup&) {}), bindings, parameters})
            .or_raise();
    model_.made(*made);
    return made;
  }

  CommandList list(std::string name) { return {device_->info(), std::move(name)}; }
  static void fill(CommandList& to, const Ref<Allocation>& a) {
    to.fill(a, {{}, a->size()}, std::byte{1});
  }
  // Reads or writes all of it, by a kernel of one binding.
  void touch(CommandList& to, const Ref<Allocation>& a, Access access,
             const std::string& name = "k") {
    const std::array bindings{Binding::of(a, access)};
    to.dispatch(kernel(name, 1), bindings, {}, {1, 1, 1});
  }
  void read(CommandList& to, const Ref<Allocation>& a) { touch(to, a, Access::read, "reader"); }

  // The Point of a list that was entered; none where it was condemned.
  Point submit(uint32_t queue, const CommandList& list, const std::vector<Wait>& waits = {}) {
    Point point{timelines_[queue], values_[queue].next()};
    answer_ = model_.submit(queue, {&list, nullptr, point, waits, nullptr});
    if (answer_) return {};
    values_[queue] = point.value;
    timelines_[queue]->note_issued(point.value);
    return point;
  }
  void see(const Point& point) {
    for (uint32_t q = 0; q < kQueues; ++q) {
      if (timelines_[q] == point.timeline) model_.host_saw(q, point.value);
    }
  }

  // Reads here and writes there, in pieces.
  void work_on_parts(CommandList& to, const Ref<Allocation>& a) {
    const std::array bindings{Binding::of(a, range(10, 100), Access::read)};
    to.dispatch(kernel("k", 1), bindings, {}, {1, 1, 1});
    to.barrier();
    to.fill(a, range(50, 100), std::byte{});
    to.fill(a, range(1000, 100), std::byte{});
    to.barrier();
    read(to, a);
    to.barrier();
    to.fill(a, range(0, 2000), std::byte{});
  }

  // Lists on random queues that use random parts of a few lives, which end and begin. Each waits
  // for the newest list of each other queue, or its host has seen them; without `ordered`, not.
  void run_random_program(uint32_t seed, bool ordered) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    constexpr uint32_t kParts = 8;
    const auto k = kernel("k", 3);
    std::array<Ref<Allocation>, kParts> lives;
    std::array<Point, kQueues> newest;
    for (int step = 0; step < 200; ++step) {
      const uint32_t q = below(kQueues);
      auto work = list("step " + std::to_string(step));
      for (uint32_t wave = below(4); wave > 0; --wave) {
        std::array<Binding, 3> bindings;
        uint32_t part = below(kParts);
        for (Binding& binding : bindings) {
          Ref<Allocation>& life = lives[part];
          if (!life || below(8) == 0) {
            if (life) model_.died(*life);
            life = cut(part * 4096, 4096, "life");
            work.mark_birth(*life);
          }
          const auto access = below(2) == 0 ? Access::write : Access::read_write;
          const uint32_t begin = below(4096);
          binding = Binding::of(life, range(begin, below(4096 - begin)), access);
          part = (part + 1) % kParts;
        }
        work.dispatch(k, bindings, {}, {1, 1, 1});
        work.barrier();
      }
      std::vector<Wait> waits;
      for (const Point& point : newest) {
        if (!ordered) continue;
        if (below(4) == 0) {
          see(point);
        } else {
          waits.push_back({point, WaitKind::order});
        }
      }
      newest[q] = submit(q, work, waits);
      EXPECT_TRUE(newest[q].timeline || !ordered);
      if (ordered && below(16) == 0) {
        for (const Point& point : newest) see(point);
        const Ref<Allocation>& life = lives[below(kParts)];
        if (!life) continue;
        model_.host_access_begins(*life, range(0, 4096), Access::write, "map");
        model_.host_access_ends(*life, range(0, 4096), Access::write);
      }
    }
    for (const Point& point : newest) see(point);
  }

  std::vector<ViolationKind> kinds() const {
    std::vector<ViolationKind> result;
    for (const Violation& violation : found_) result.push_back(violation.kind);
    return result;
  }
  std::string message() const { return found_.empty() ? "" : found_.back().message; }

  Ref<CpuDevice> device_ = CpuDevice::open({.queues = 1, .immediate = true});
  std::vector<Violation> found_;
  ValidationModel model_{kQueues, [this](const Violation& v) { found_.push_back(v); }};
  std::array<Ref<Timeline>, kQueues> timelines_;
  std::array<TimelineValue, kQueues> values_{};
  Ref<Buffer> block_;
  Failure answer_;
};

// Commands of one list.

TEST_F(ValidationModelTest, commands_of_one_wave_that_conflict_are_reported_with_names) {
  const auto a = filled(4096, 4096, "scratch");
  auto work = list("decode");
  touch(work, a, Access::read, "add");
  touch(work, a, Access::write, "rms");
  EXPECT_FALSE(submit(1, work).timeline);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::unordered_access));
  const std::string listed = "list 'decode' (id " + std::to_string(work.id().value) + ")";
  EXPECT_THAT(message(), AllOf(HasSubstr("kernel 'rms' (command 1 of " + listed +
                                         " on queue 1 @ 1) writes bytes "
                                         "0..4096 of " +
                                         a->describe()),
                               HasSubstr("kernel 'add' (command 0 of " + listed +
                                         " on queue 1 @ 1) may still read"),
                               HasSubstr("nothing orders the two; put a barrier between")));
  EXPECT_EQ(answer_.code(), ErrorCode::usage);
  EXPECT_EQ(answer_.message(), message());
}

TEST_F(ValidationModelTest, a_barrier_orders_commands_of_one_list) {
  const auto a = filled(0, 4096, "a");
  auto work = list("list");
  for (const Access access : {Access::read, Access::write, Access::read_write, Access::read}) {
    touch(work, a, access);
    work.barrier();
  }
  EXPECT_TRUE(submit(0, work).timeline);
  EXPECT_THAT(found_, IsEmpty());
}

TEST_F(ValidationModelTest, reads_of_one_wave_and_writes_of_other_bytes_never_conflict) {
  const auto a = filled(0, 4096, "a");
  auto work = list("list");
  read(work, a);
  read(work, a);
  work.barrier();
  work.fill(a, range(0, 100), std::byte{});
  work.fill(a, range(100, 1), std::byte{});
  work.fill(a, range(101, 3995), std::byte{});
  EXPECT_TRUE(submit(0, work).timeline);
  EXPECT_THAT(found_, IsEmpty());
}

TEST_F(ValidationModelTest, one_byte_of_overlap_is_a_conflict) {
  const auto a = filled(0, 4096, "a");
  auto work = list("list");
  work.fill(a, range(0, 100), std::byte{}, "left");
  work.fill(a, range(99, 10), std::byte{}, "right");
  submit(0, work);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::unordered_access));
  EXPECT_THAT(message(), AllOf(HasSubstr("a fill labelled 'right' (command 1 of"),
                               HasSubstr("writes bytes 99..100"),
                               HasSubstr("a fill labelled 'left' (command 0 of")));
}

TEST_F(ValidationModelTest, bindings_of_one_command_may_overlap) {
  const auto a = filled(0, 4096, "a");
  const auto both = kernel("both", 2);
  auto work = list("list");
  const std::array bindings{Binding::of(a, Access::read), Binding::of(a, Access::write)};
  work.dispatch(both, bindings, {}, {1, 1, 1});
  EXPECT_TRUE(submit(0, work).timeline);
  EXPECT_THAT(found_, IsEmpty());
}

TEST_F(ValidationModelTest, a_command_that_reads_what_it_writes_hides_no_other_reader) {
  const auto a = filled(0, 4096, "a");
  const auto out = filled(4096, 4096, "out");
  const auto both = kernel("both", 2);
  auto work = list("list");
  work.copy(a, range(0, 4096), out, range(0, 4096), "reader");
  const std::array bindings{Binding::of(a, Access::read), Binding::of(a, Access::write)};
  work.dispatch(both, bindings, {}, {1, 1, 1});
  submit(0, work);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::unordered_access));
  EXPECT_THAT(message(), HasSubstr("a copy labelled 'reader'"));
}

TEST_F(ValidationModelTest, a_dispatch_of_no_groups_touches_nothing) {
  const auto a = filled(0, 4096, "a");
  const auto k = kernel("k", 1);
  auto work = list("list");
  const std::array bindings{Binding::of(a, Access::write)};
  work.dispatch(k, bindings, {}, {0, 1, 1});
  work.dispatch(k, bindings, {}, {1, 1, 1});
  EXPECT_TRUE(submit(0, work).timeline);
  EXPECT_THAT(found_, IsEmpty());
}

// Lists and queues.

TEST_F(ValidationModelTest, lists_of_one_queue_are_ordered) {
  const auto a = filled(0, 4096, "a");
  for (int i = 0; i < 3; ++i) {
    auto work = list("list");
    fill(work, a);
    EXPECT_TRUE(submit(1, work).timeline);
  }
  EXPECT_THAT(found_, IsEmpty());
}

TEST_F(ValidationModelTest, lists_of_two_queues_that_conflict_need_a_wait) {
  const auto a = filled(0, 4096, "a");
  auto first = list("prefill");
  read(first, a);
  const Point point = submit(0, first);
  auto second = list("decode");
  fill(second, a);
  EXPECT_FALSE(submit(1, second).timeline);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::unordered_access));
  EXPECT_THAT(message(),
              AllOf(HasSubstr("a fill (command 0 of list 'decode'"),
                    HasSubstr("kernel 'reader' (command 0 of list 'prefill'"),
                    HasSubstr(" on queue 0 @ 2) may still read them"),
                    HasSubstr("let list 'decode' (id " + std::to_string(second.id().value) +
                              ") wait for queue 0 @ 2")));
  for (const WaitKind kind : {WaitKind::order, WaitKind::data}) {
    auto again = list("decode");
    fill(again, a);
    EXPECT_TRUE(submit(1, again, {{point, kind}}).timeline);
  }
  EXPECT_EQ(found_.size(), 1U);
}

TEST_F(ValidationModelTest, reads_of_two_queues_need_no_wait) {
  const auto a = filled(0, 4096, "a");
  for (uint32_t q = 0; q < kQueues; ++q) {
    auto work = list("list");
    read(work, a);
    EXPECT_TRUE(submit(q, work).timeline);
  }
  // A writer must come after all of them, and knows one.
  auto writer = list("writer");
  fill(writer, a);
  EXPECT_FALSE(submit(0, writer).timeline);
  EXPECT_THAT(kinds(), ElementsAre(ViolationKind::unordered_access));
  EXPECT_TRUE(submit(0, writer, {{{timelines_[1], {1}}}, {{timelines_[2], {1}}}}).timeline);
}

TEST_F(ValidationModelTest, waits_pass_on_what_the_awaited_list_knew) {
  const auto a = filled(0, 4096, "a");
  auto first = list("first");
  fill(first, a);
  const Point one = submit(0, first);
  const Point two = submit(1, list("second"), {{one, WaitKind::order}});
  const Point two_later = submit(1, list("later on the same queue"));
  auto third = list("third");
  fill(third, a);
  EXPECT_TRUE(submit(2, third, {{two_later, WaitKind::order}}).timeline);
  EXPECT_TRUE(two.timeline);
  EXPECT_THAT(found_, IsEmpty());
}

TEST_F(ValidationModelTest, a_wait_for_an_older_list_does_not_cover_a_newer_one) {
  const auto a = filled(0, 4096, "a");
  const Point before = submit(0, list("before"));
  auto writer = list("writer");
  fill(writer, a);
  submit(0, writer);
  auto other = list("other");
  read(other, a);
  EXPECT_FALSE(submit(1, other, {{before, WaitKind::order}}).timeline);
  EXPECT_THAT(kinds(), ElementsAre(ViolationKind::unordered_access));
}

TEST_F(ValidationModelTest, what_the_host_has_seen_is_ordered_before_all_it_submits) {
  const auto a = filled(0, 4096, "a");
  auto first = list("first");
  fill(first, a);
  const Point one = submit(0, first);
  // Seeing a list is seeing what that list waited for.
  const Point two = submit(1, list("second"), {{one, WaitKind::data}});
  see(two);
  auto third = list("third");
  fill(third, a);
  EXPECT_TRUE(submit(2, third).timeline);
  EXPECT_THAT(found_, IsEmpty());
  EXPECT_EQ(model_.lists_in_flight(), 1U);
}

TEST_F(ValidationModelTest, an_imported_point_orders_after_what_was_exported) {
  const auto a = filled(0, 4096, "a");
  auto first = list("first");
  fill(first, a);
  const Point one = submit(0, first);
  const Point imported =
      device_->import_point(device_->export_point({}).or_raise(), "imported").or_raise();
  auto second = list("second");
  fill(second, a);
  EXPECT_FALSE(submit(1, second, {{imported, WaitKind::order}}).timeline);
  model_.exported(one);
  EXPECT_TRUE(submit(1, second, {{imported, WaitKind::order}}).timeline);
}

TEST_F(ValidationModelTest, a_refused_list_leaves_no_trace) {
  const auto a = filled(0, 4096, "a");
  auto reader = list("reader");
  read(reader, a);
  const Point read_point = submit(0, reader);

  auto refused = list("refused");
  work_on_parts(refused, a);
  const Point point{timelines_[1], {1}};
  const std::vector<Wait> waits{{read_point, WaitKind::order}};
  const Work work{&refused, nullptr, point, waits, nullptr};
  ASSERT_FALSE(model_.submit(1, work));
  model_.refused(1, work);

  // Nothing of the refused list is in the way, and what was there before still is.
  auto other = list("other");
  read(other, a);
  EXPECT_TRUE(submit(2, other).timeline);
  EXPECT_THAT(found_, IsEmpty());
  auto writer = list("writer");
  fill(writer, a);
  EXPECT_FALSE(submit(1, writer, {{{timelines_[2], {1}}}}).timeline) << "the first reader";
  EXPECT_THAT(message(), HasSubstr("list 'reader'"));
  EXPECT_FALSE(submit(1, writer, waits).timeline) << "the second one";
  EXPECT_THAT(message(), HasSubstr("list 'other'"));
}

TEST_F(ValidationModelTest, a_refused_list_gives_lives_and_initialization_back) {
  const auto a = filled(0, 4096, "old");
  const auto b = cut(0, 4096, "new");
  auto refused = list("refused");
  fill(refused, b);
  const Work work{&refused, nullptr, {timelines_[1], {1}}, {}, nullptr};
  ASSERT_FALSE(model_.submit(1, work));
  model_.refused(1, work);
  auto old = list("old life");
  read(old, a);
  EXPECT_TRUE(submit(2, old).timeline);
  EXPECT_THAT(found_, IsEmpty());
  EXPECT_FALSE(model_.keeps(*b)) << "no list in flight needs it";
  EXPECT_THAT(found_, IsEmpty());
}

TEST_F(ValidationModelTest, a_condemned_list_leaves_no_trace) {
  const auto a = filled(0, 4096, "a");
  const auto b = filled(4096, 4096, "b");
  auto bad = list("bad");
  fill(bad, b);
  fill(bad, a);
  fill(bad, a);
  EXPECT_FALSE(submit(0, bad).timeline);
  EXPECT_EQ(found_.size(), 1U);
  auto good = list("good");
  fill(good, b);
  EXPECT_TRUE(submit(1, good).timeline);
  EXPECT_EQ(found_.size(), 1U);
}

// Lives.

TEST_F(ValidationModelTest, death_before_submit_and_before_the_end_is_legal) {
  auto a = filled(0, 4096, "a");
  auto work = list("list");
  read(work, a);
  model_.died(*a);
  EXPECT_TRUE(submit(0, work).timeline);
  EXPECT_THAT(found_, IsEmpty());
}

TEST_F(ValidationModelTest, an_unordered_next_life_is_reported_with_both_lives) {
  const auto old = filled(4096, 4096, "old");
  auto first = list("prefill");
  read(first, old);
  submit(0, first);
  model_.died(*old);
  const auto next = cut(4096, 2048, "next", std::source_location::current());
  const auto line = std::to_string(next->site().line());
  auto second = list("decode");
  fill(second, next);
  EXPECT_FALSE(submit(1, second).timeline);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::unordered_reuse));
  EXPECT_THAT(
      message(),
      AllOf(HasSubstr("writes bytes 0..2048 of " + next->describe() +
                      ", created at src/hal/validate/validation_model_test.cc:" + line),
            HasSubstr("which were " + old->describe() +
                      " (it lost its last user after list 'prefill' (id "),
            HasSubstr("kernel 'reader' (command 0 of list 'prefill'"), HasSubstr("queue 0 @ 2")));
}

TEST_F(ValidationModelTest, a_death_before_anything_was_submitted_says_so) {
  const auto old = cut(0, 4096, "old");
  model_.died(*old);
  auto first = list("first");
  fill(first, old);
  submit(0, first);
  const auto next = cut(0, 4096, "next");
  auto second = list("second");
  fill(second, next);
  submit(1, second);
  EXPECT_THAT(message(), HasSubstr("it lost its last user before anything was submitted"));
}

TEST_F(ValidationModelTest, even_a_read_must_come_after_the_reads_of_the_earlier_life) {
  // As for a write: the bytes a next life reads were written for it.
  const auto old = filled(0, 4096, "old");
  auto first = list("first");
  read(first, old);
  submit(0, first);
  const auto next = cut(0, 4096, "next");
  auto second = list("second");
  touch(second, next, Access::read_write);
  EXPECT_FALSE(submit(1, second).timeline);
  EXPECT_THAT(kinds(), ElementsAre(ViolationKind::unordered_reuse));
}

TEST_F(ValidationModelTest, a_next_life_that_waits_or_is_seen_or_is_on_the_same_queue_is_fine) {
  for (const int way : {0, 1, 2}) {
    const auto old = filled(0, 4096, "old");
    auto first = list("first");
    read(first, old);
    const Point point = submit(0, first);
    const auto next = cut(0, 4096, "next");
    auto second = list("second");
    fill(second, next);
    std::vector<Wait> waits;
    if (way == 1) waits = {{point, WaitKind::order}};
    if (way == 2) see(point);
    see(submit(way == 0 ? 0 : 1, second, waits));
  }
  EXPECT_THAT(found_, IsEmpty());
}

TEST_F(ValidationModelTest, reuse_inside_one_list_needs_a_barrier) {
  const auto old = filled(0, 4096, "old");
  const auto next = cut(0, 4096, "next");
  for (const bool with_barrier : {false, true}) {
    auto work = list("list");
    read(work, old);
    work.mark_death(old->id(), block_->id(), range(0, 4096));
    work.mark_birth(*next);
    if (with_barrier) work.barrier();
    fill(work, next);
    EXPECT_EQ(submit(0, work).timeline != nullptr, with_barrier);
  }
  EXPECT_THAT(kinds(), ElementsAre(ViolationKind::unordered_reuse));
}

TEST_F(ValidationModelTest, a_use_of_the_earlier_life_after_the_next_one_began_is_reported) {
  const auto old = filled(0, 4096, "old");
  const auto next = cut(0, 4096, "next");
  auto marked = list("marked");
  marked.mark_birth(*next);
  marked.barrier();
  read(marked, old);
  EXPECT_FALSE(submit(0, marked).timeline);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::unordered_reuse));
  EXPECT_THAT(message(), AllOf(HasSubstr("of " + old->describe()), HasSubstr("are still used by"),
                               HasSubstr("have been given to " + next->describe())));

  auto begins = list("begins");
  fill(begins, next);
  EXPECT_TRUE(submit(0, begins).timeline);
  auto late = list("late");
  read(late, old);
  EXPECT_FALSE(submit(0, late).timeline) << "also where order exists";
  EXPECT_EQ(found_.size(), 2U);
}

TEST_F(ValidationModelTest, a_mark_that_comes_late_does_not_bring_an_older_life_back) {
  const auto never_used = cut(0, 4096, "never used");
  auto late = list("late");
  late.mark_birth(*never_used);
  const auto next = filled(0, 4096, "next");
  EXPECT_TRUE(submit(1, late).timeline);
  auto reader = list("reader");
  read(reader, next);
  EXPECT_TRUE(submit(0, reader).timeline);
  EXPECT_THAT(found_, IsEmpty());
}

TEST_F(ValidationModelTest, views_of_a_buffer_without_an_owner_share_one_life) {
  const auto buffer = device_->create_buffer({4_KiB, MemoryKind::device, "plain"}).or_raise();
  const auto part = make_ref<Allocation>(buffer, range(1024, 1024), "part", nullptr);
  model_.born(*part);
  const auto all = Allocation::whole(buffer);
  model_.born(*all);
  auto work = list("list");
  fill(work, all);
  work.barrier();
  fill(work, part);
  work.barrier();
  read(work, all);
  EXPECT_TRUE(submit(0, work).timeline);
  auto other = list("other");
  fill(other, part);
  EXPECT_FALSE(submit(1, other).timeline);
  EXPECT_THAT(kinds(), ElementsAre(ViolationKind::unordered_access));
}

// Destruction: recorded, submitted, finished but not seen.

TEST_F(ValidationModelTest, a_list_that_needs_a_destroyed_allocation_is_condemned) {
  const auto a = filled(0, 4096, "gone");
  auto work = list("list");
  work.fill(filled(8192, 16, "other"), range(0, 4), std::byte{});
  read(work, a);
  model_.died(*a);
  EXPECT_FALSE(model_.keeps(*a));
  EXPECT_FALSE(submit(0, work).timeline);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::use_after_free));
  EXPECT_THAT(message(), AllOf(HasSubstr("kernel 'reader' (command 1 of list 'list'"),
                               HasSubstr("needs " + a->describe()),
                               HasSubstr("destroyed before the list was submitted"),
                               HasSubstr("it lost its last user after")));
}

TEST_F(ValidationModelTest, a_list_that_needs_a_destroyed_pipeline_is_condemned) {
  const auto a = filled(0, 4096, "a");
  const auto k = kernel("evicted", 1);
  auto work = list("list");
  const std::array bindings{Binding::of(a, Access::read)};
  work.dispatch(k, bindings, {}, {1, 1, 1}, "my call");
  EXPECT_FALSE(model_.keeps(*k));
  EXPECT_FALSE(submit(0, work).timeline);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::use_after_free));
  EXPECT_THAT(message(), AllOf(HasSubstr("kernel 'evicted' labelled 'my call' (command 0 of"),
                               HasSubstr("needs " + k->describe())));
}

TEST_F(ValidationModelTest, a_replay_of_a_destroyed_program_is_condemned) {
  auto commands = list("plan");
  fill(commands, filled(0, 4096, "a"));
  const auto program = device_->create_program(commands).or_raise();
  model_.made(*program);
  const auto replay = make_replay(device_->info(), program, {}, {}, "replay");
  EXPECT_FALSE(model_.keeps(*program));
  EXPECT_FALSE(submit(0, replay).timeline);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::use_after_free));
  EXPECT_THAT(message(), AllOf(HasSubstr("list 'replay'"), HasSubstr(program->describe())));
}

TEST_F(ValidationModelTest, what_is_destroyed_in_flight_is_reported_once_and_kept_until_seen) {
  const auto a = filled(0, 4096, "a");
  const auto k = kernel("k", 1);
  auto commands = list("plan");
  const std::array slot{Binding::of_slot(0, range(0, 4096), Access::read)};
  commands.dispatch(k, slot, {}, {1, 1, 1});
  const auto program = device_->create_program(commands).or_raise();
  model_.made(*program);
  const std::array bound{Binding::of(a, Access::read)};
  const auto replay = make_replay(device_->info(), program, bound, {}, "replay");
  const uint32_t holds = a->holds();
  const Point point = submit(0, replay);
  ASSERT_TRUE(point.timeline);

  EXPECT_TRUE(model_.keeps(*a));
  EXPECT_THAT(message(),
              AllOf(HasSubstr(a->describe() + " is being destroyed while kernel 'k' (command 0 of "
                                              "list 'replay'"),
                    HasSubstr("a replay of " + program->describe()), HasSubstr("queue 0 @ 2")));
  EXPECT_TRUE(model_.keeps(*k));
  EXPECT_THAT(message(), HasSubstr(k->describe()));
  EXPECT_TRUE(model_.keeps(*program));
  EXPECT_THAT(message(), HasSubstr(program->describe()));
  EXPECT_TRUE(model_.keeps(*block_));
  EXPECT_THAT(message(), HasSubstr("buffer 'block'"));
  EXPECT_EQ(kinds(), std::vector(4, ViolationKind::use_after_free));
  EXPECT_EQ(a->holds(), holds + 1);

  model_.let_go();
  EXPECT_EQ(a->holds(), holds + 1) << "not seen";
  see(point);
  EXPECT_EQ(a->holds(), holds + 1) << "not asked to";
  model_.let_go();
  EXPECT_EQ(a->holds(), holds);
  EXPECT_FALSE(model_.keeps(*a));
  EXPECT_FALSE(model_.keeps(*block_));
  EXPECT_EQ(found_.size(), 4U);
}

TEST_F(ValidationModelTest, what_only_the_model_keeps_cannot_be_used_any_more) {
  const auto a = filled(0, 4096, "a");
  auto work = list("first");
  read(work, a);
  submit(0, work);
  EXPECT_TRUE(model_.keeps(*a));
  auto again = list("again");
  read(again, a);
  EXPECT_FALSE(submit(0, again).timeline);
  EXPECT_THAT(kinds(), ElementsAre(ViolationKind::use_after_free, ViolationKind::use_after_free));
}

TEST_F(ValidationModelTest, what_no_list_in_flight_needs_is_not_kept) {
  const auto a = filled(0, 4096, "a");
  auto dropped = list("never submitted");
  read(dropped, a);
  EXPECT_FALSE(model_.keeps(*a));
  EXPECT_THAT(found_, IsEmpty());
}

TEST_F(ValidationModelTest, what_was_made_before_the_model_is_trusted) {
  const auto stranger =
      Allocation::whole(device_->create_buffer({4_KiB, MemoryKind::device, "stranger"}).or_raise());
  const auto k =
      device_->create_pipeline({"k", HostFunction([](const HostGroup&) {}), 1, {}}).or_raise();
  auto work = list("list");
  const std::array bindings{Binding::of(stranger, Access::read)};
  work.dispatch(k, bindings, {}, {1, 1, 1});
  EXPECT_TRUE(submit(0, work).timeline);
  EXPECT_FALSE(model_.keeps(*stranger));
  EXPECT_FALSE(model_.keeps(*k));
  EXPECT_THAT(found_, IsEmpty());
}

TEST_F(ValidationModelTest, what_was_destroyed_long_ago_is_still_known_to_be_gone) {
  const auto a = filled(0, 4096, "a");
  auto work = list("list");
  read(work, a);
  EXPECT_FALSE(model_.keeps(*a));
  for (int i = 0; i < 5000; ++i) model_.keeps(*cut(8192, 16, "short-lived"));
  EXPECT_FALSE(submit(0, work).timeline);
  EXPECT_THAT(kinds(), ElementsAre(ViolationKind::use_after_free));
  EXPECT_THAT(message(), HasSubstr("(id " + std::to_string(a->id().value) + ")"));
}

// The host.

TEST_F(ValidationModelTest, a_host_access_must_come_after_the_lists_it_conflicts_with) {
  const auto a = filled(0, 4096, "a");
  auto reader = list("reader");
  read(reader, a);
  const Point point = submit(0, reader);
  model_.host_access_begins(*a, range(16, 16), Access::read, "peek");
  model_.host_access_ends(*a, range(16, 16), Access::read);
  EXPECT_THAT(found_, IsEmpty());
  model_.host_access_begins(*a, range(16, 16), Access::write, "poke");
  model_.host_access_ends(*a, range(16, 16), Access::write);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::unordered_host));
  EXPECT_THAT(message(),
              AllOf(HasSubstr("the host access 'poke' writes bytes 16..32 of " + a->describe()),
                    HasSubstr("kernel 'reader' (command 0 of list 'reader'"),
                    HasSubstr("let the host wait for queue 0 @ 2 first")));
  see(point);
  model_.host_access_begins(*a, range(16, 16), Access::write, "poke");
  model_.host_access_ends(*a, range(16, 16), Access::write);
  EXPECT_EQ(found_.size(), 1U);
}

TEST_F(ValidationModelTest, a_list_must_not_conflict_with_an_open_host_access) {
  const auto a = filled(0, 4096, "a");
  auto reader = list("reader");
  read(reader, a);
  auto writer = list("writer");
  fill(writer, a);
  model_.host_access_begins(*a, range(0, 16), Access::read, "map of a");
  EXPECT_TRUE(submit(0, reader).timeline) << "both read";
  EXPECT_FALSE(submit(0, writer).timeline);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::unordered_host));
  EXPECT_THAT(message(), AllOf(HasSubstr("a fill (command 0 of list 'writer'"),
                               HasSubstr("bytes 0..16 of " + a->describe()),
                               HasSubstr("while the host access 'map of a' still reads them")));
  model_.host_access_ends(*a, range(0, 16), Access::read);
  EXPECT_TRUE(submit(0, writer).timeline);
  EXPECT_EQ(found_.size(), 1U);
}

TEST_F(ValidationModelTest, a_host_access_of_the_next_life_must_come_after_the_earlier_one) {
  const auto old = filled(0, 4096, "old");
  auto reader = list("reader");
  read(reader, old);
  const Point point = submit(0, reader);
  const auto next = cut(0, 4096, "next");
  model_.host_access_begins(*next, range(0, 16), Access::write, "upload");
  model_.host_access_ends(*next, range(0, 16), Access::write);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::unordered_reuse));
  EXPECT_THAT(message(), AllOf(HasSubstr("'upload'"), HasSubstr("'next'"), HasSubstr("'old'")));
  see(point);
  model_.host_access_begins(*next, range(0, 16), Access::write, "upload");
  model_.host_access_ends(*next, range(0, 16), Access::write);
  auto late = list("late");
  read(late, old);
  EXPECT_FALSE(submit(0, late).timeline) << "the host has begun the next life";
  EXPECT_EQ(kinds().back(), ViolationKind::unordered_reuse);
  EXPECT_EQ(found_.size(), 2U);
}

// Initialization.

TEST_F(ValidationModelTest, a_read_of_what_nobody_wrote_is_condemned) {
  const auto a = cut(4096, 4096, "fresh");
  auto work = list("list");
  read(work, a);
  EXPECT_FALSE(submit(0, work).timeline);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::uninitialized_read));
  EXPECT_THAT(message(), AllOf(HasSubstr("kernel 'reader' (command 0 of list 'list'"),
                               HasSubstr("reads bytes 0..4096 of " + a->describe())));
}

TEST_F(ValidationModelTest, what_the_earlier_life_wrote_does_not_count) {
  const auto old = filled(0, 4096, "old");
  const auto next = cut(0, 4096, "next");
  auto work = list("list");
  read(work, next);
  EXPECT_FALSE(submit(0, work).timeline);
  EXPECT_THAT(kinds(), ElementsAre(ViolationKind::uninitialized_read));
}

TEST_F(ValidationModelTest, a_read_of_what_was_partly_written_is_noted_once) {
  const auto a = cut(0, 4096, "a");
  auto work = list("list");
  work.fill(a, range(100, 50), std::byte{});
  work.barrier();
  read(work, a);
  read(work, a);
  EXPECT_TRUE(submit(0, work).timeline);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::partly_initialized));
  EXPECT_TRUE(found_[0].is_note());
  EXPECT_THAT(message(), HasSubstr("only 50 bytes"));
  auto elsewhere = list("elsewhere");
  const std::array bindings{Binding::of(a, range(150, 10), Access::read)};
  elsewhere.dispatch(kernel("k", 1), bindings, {}, {1, 1, 1});
  EXPECT_FALSE(submit(0, elsewhere).timeline) << "of this range nothing was written";
}

TEST_F(ValidationModelTest, updates_in_place_and_host_writes_initialize) {
  const auto updated = cut(0, 64, "updated");
  const auto uploaded = cut(64, 64, "uploaded");
  auto update = list("update");
  touch(update, updated, Access::read_write);
  EXPECT_TRUE(submit(0, update).timeline);
  model_.host_access_begins(*uploaded, range(0, 64), Access::write, "upload");
  model_.host_access_ends(*uploaded, range(0, 64), Access::write);
  auto work = list("list");
  read(work, updated);
  read(work, uploaded);
  EXPECT_TRUE(submit(0, work).timeline);
  EXPECT_THAT(found_, IsEmpty());
}

TEST_F(ValidationModelTest, the_host_reads_nothing_that_nobody_wrote) {
  const auto a = cut(0, 64, "a");
  model_.host_access_begins(*a, range(0, 64), Access::read, "readback");
  model_.host_access_ends(*a, range(0, 64), Access::read);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::uninitialized_read));
  EXPECT_THAT(message(), HasSubstr("the host access 'readback' reads bytes 0..64"));
}

TEST_F(ValidationModelTest, where_the_host_may_write_unseen_initialization_is_not_judged) {
  const auto plain =
      Allocation::whole(device_->create_buffer({64_B, MemoryKind::upload, "plain"}).or_raise());
  model_.born(*plain);
  std::array<std::byte, 64> memory{};
  const auto imported = Allocation::whole(
      device_->import_buffer({memory.data(), {memory.size()}, {}, "imported"}).or_raise());
  model_.born(*imported);
  auto work = list("list");
  read(work, plain);
  read(work, imported);
  EXPECT_TRUE(submit(0, work).timeline);
  EXPECT_THAT(found_, IsEmpty());
}

// Programs.

TEST_F(ValidationModelTest, a_replay_is_judged_with_its_slots_bound) {
  auto commands = list("plan");
  const auto k = kernel("k", 1);
  const std::array slot{Binding::of_slot(0, range(16, 16), Access::write)};
  commands.fill(cut(8192, 16, "fixed"), range(0, 16), std::byte{});
  commands.dispatch(k, slot, {}, {1, 1, 1});
  const auto program = device_->create_program(commands).or_raise();
  model_.made(*program);
  const auto a = filled(4096, 4096, "a");
  const std::array bound{Binding::of(a, range(100, 32), Access::write)};
  const auto replay = make_replay(device_->info(), program, bound, {}, "replay");
  EXPECT_TRUE(submit(0, replay).timeline);
  auto beside = list("beside");
  beside.fill(a, range(100, 16), std::byte{});
  beside.fill(a, range(132, 16), std::byte{});
  EXPECT_TRUE(submit(1, beside).timeline);
  EXPECT_THAT(found_, IsEmpty());
  auto inside = list("inside");
  inside.fill(a, range(131, 1), std::byte{});
  EXPECT_FALSE(submit(1, inside).timeline);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::unordered_access));
  EXPECT_THAT(message(), AllOf(HasSubstr("writes bytes 131..132 of " + a->describe()),
                               HasSubstr("kernel 'k' (command 1 of list 'replay'"),
                               HasSubstr("a replay of " + program->describe())));
}

TEST_F(ValidationModelTest, replays_of_a_program_go_through_its_lives_again_and_again) {
  const auto one = cut(0, 4096, "one");
  const auto two = cut(0, 4096, "two");
  auto commands = list("plan");
  commands.mark_birth(*one);
  fill(commands, one);
  commands.barrier();
  commands.mark_birth(*two);
  fill(commands, two);
  commands.barrier();
  const auto program = device_->create_program(commands).or_raise();
  model_.made(*program);
  for (int i = 0; i < 3; ++i) {
    const auto replay = make_replay(device_->info(), program, {}, {}, "replay");
    EXPECT_TRUE(submit(0, replay).timeline);
  }
  EXPECT_THAT(found_, IsEmpty());
  const auto elsewhere = make_replay(device_->info(), program, {}, {}, "elsewhere");
  EXPECT_FALSE(submit(1, elsewhere).timeline);
  EXPECT_THAT(kinds(), ElementsAre(ViolationKind::unordered_reuse));
}

TEST_F(ValidationModelTest, parameters_of_a_program_that_were_changed_are_reported) {
  const auto k = kernel("k", 0, 4_B);
  auto commands = list("plan");
  const uint32_t parameter = 7;
  commands.dispatch(k, {}, Parameters::of(parameter), {1, 1, 1});
  const auto program = device_->create_program(commands).or_raise();
  model_.made(*program);
  const auto first = make_replay(device_->info(), program, {}, {}, "first");
  EXPECT_TRUE(submit(0, first).timeline);
  const auto bytes = (*program->list().begin()).parameters();
  *const_cast<std::byte*>(bytes.data()) = std::byte{8};
  const auto second = make_replay(device_->info(), program, {}, {}, "second");
  EXPECT_FALSE(submit(0, second).timeline);
  ASSERT_THAT(kinds(), ElementsAre(ViolationKind::changed_parameters));
  EXPECT_THAT(message(), AllOf(HasSubstr("kernel 'k' (command 0 of list 'second'"),
                               HasSubstr(program->describe())));
}

#ifdef HOLDFAST_ABLATIONS

TEST_F(ValidationModelTest, parameters_overwritten_in_a_shared_slot_are_reported) {
  const ScopedAblation shared(Ablation::shared_parameter_slot);
  const auto k = kernel("k", 0, 4_B);
  const auto record = [&](CommandList& to, uint32_t parameter) {
    to.dispatch(k, {}, Parameters::of(parameter), {1, 1, 1});
  };
  auto both = list("both");
  record(both, 1);
  record(both, 2);
  EXPECT_FALSE(submit(0, both).timeline);
  EXPECT_THAT(message(), HasSubstr("kernel 'k' (command 0 of list 'both'"));

  auto first = list("first");
  record(first, 3);
  const Point point = submit(0, first);
  ASSERT_TRUE(point.timeline);
  auto second = list("second");
  record(second, 4);
  EXPECT_FALSE(submit(0, second).timeline) << "the first may read them yet";
  EXPECT_THAT(message(), HasSubstr("kernel 'k' (command 0 of list 'first'"));
  EXPECT_THAT(kinds(),
              ElementsAre(ViolationKind::changed_parameters, ViolationKind::changed_parameters));
  see(point);
  EXPECT_TRUE(submit(0, second).timeline);
}

#endif

// Memory, and programs at large.

TEST_F(ValidationModelTest, memory_does_not_grow_with_what_is_over) {
  size_t largest = 0;
  for (int i = 0; i < 5000; ++i) {
    const auto life = cut(static_cast<uint64_t>(i) % 256 * 256, 256, "life");
    auto work = list("list");
    work.fill(life, range(0, 100), std::byte{});
    work.fill(life, range(100, 156), std::byte{});
    see(submit(static_cast<uint32_t>(i) % kQueues, work));
    EXPECT_FALSE(model_.keeps(*life));
    largest = std::max(largest, model_.interval_count());
  }
  EXPECT_THAT(found_, IsEmpty());
  EXPECT_EQ(model_.lists_in_flight(), 0U);
  EXPECT_LE(largest, 128U);
}

TEST_F(ValidationModelTest, random_programs_in_which_all_is_ordered_are_never_reported) {
  for (const uint32_t seed : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U}) {
    SCOPED_TRACE(seed);
    run_random_program(seed, true);
    EXPECT_THAT(found_, IsEmpty()) << message();
  }
}

TEST_F(ValidationModelTest, random_programs_without_waits_are_found_out) {
  run_random_program(1, false);
  EXPECT_THAT(found_, Not(IsEmpty()));
}

}  // namespace
}  // namespace holdfast::hal
