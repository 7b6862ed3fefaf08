#include "holdfast/hal/validate/validate_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <stdexcept>

#include "holdfast/base/ablation.h"
#include "holdfast/base/sanitizers.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/hal/host_touch.h"

namespace holdfast::hal {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr size_t kElements = 64;

void increment(const HostGroup& group) {
  for (uint32_t& element : group.binding<uint32_t>(0)) ++element;
}

PointState wait_for(const Point& point) {
  return point.timeline->wait(point.value, sync::Deadline::after(std::chrono::seconds(30)));
}

// Violations, from whichever thread.
class Collected {
 public:
  ViolationHandler handler() {
    return [this](const Violation& violation) { violations_.lock()->push_back(violation); };
  }
  std::vector<ViolationKind> kinds() {
    std::vector<ViolationKind> result;
    for (const Violation& violation : *violations_.lock()) result.push_back(violation.kind);
    return result;
  }
  std::string last_message() {
    const auto violations = violations_.lock();
    return violations->empty() ? "" : violations->back().message;
  }

 private:
  sync::Guarded<std::vector<Violation>> violations_;
};

class ValidateDeviceTest : public ::testing::Test {
 protected:
  explicit ValidateDeviceTest(CpuOptions options = {}) {
    options.queues = 2;
    options.close_bound = std::chrono::milliseconds(50);
    options.fail_submit = [this](const Queue&) { return fail_submit_; };
    cpu_ = CpuDevice::open(options);
    device_ = ValidateDevice::wrap(cpu_, {found_.handler()});
    gate_ = device_->create_host_timeline("gate").or_raise();
    kernel_ = device_->create_pipeline({"increment", HostFunction(increment), 1, {}}).or_raise();
  }
  ~ValidateDeviceTest() override {
    gate_->fail_all_pending(Failure(ErrorCode::closed, "the test is over"));
  }

  Queue& queue(size_t index = 0) { return *device_->queues()[index]; }
  CommandList list(std::string name) { return {device_->info(), std::move(name)}; }
  Wait gated() const { return {{gate_, {1}}, WaitKind::order}; }

  Ref<Allocation> words(std::string name, uint32_t value = 1) {
    auto made = Allocation::whole(
        device_->create_buffer({{kElements * 4}, MemoryKind::device, std::move(name)}).or_raise());
    std::fill_n(view(made), kElements, value);
    return made;
  }
  static uint32_t* view(const Ref<Allocation>& memory) {
    return reinterpret_cast<uint32_t*>(memory->host_pointer());
  }
  void increment_in(CommandList& to, const Ref<Allocation>& memory) {
    const std::array bindings{Binding::of(memory, Access::read_write)};
    to.dispatch(kernel_, bindings, {}, {1, 1, 1});
  }

  Collected found_;
  Failure fail_submit_;
  Ref<CpuDevice> cpu_;
  Ref<ValidateDevice> device_;
  Ref<HostTimeline> gate_;
  Ref<Pipeline> kernel_;
};

TEST_F(ValidateDeviceTest, it_is_the_inner_device_under_another_name) {
  EXPECT_EQ(device_->info().name, "validate(cpu)");
  EXPECT_EQ(device_->id(), cpu_->id());
  ASSERT_EQ(device_->queues().size(), 2U);
  EXPECT_EQ(queue(1).name(), cpu_->queues()[1]->name());
  EXPECT_EQ(queue(1).index(), 1U);
  EXPECT_NE(queue(1).timeline(), cpu_->queues()[1]->timeline());
}

TEST_F(ValidateDeviceTest, ordered_work_runs_without_a_word) {
  const auto data = words("data");
  Point point;
  for (size_t i = 0; i < 10; ++i) {
    auto work = list("step");
    increment_in(work, data);
    std::vector<Wait> waits;
    if (point.timeline) waits.push_back({point, WaitKind::data});
    point = queue(i % 2).submit(work, waits).or_raise();
  }
  EXPECT_EQ(wait_for(point), PointState::reached);
  EXPECT_EQ(view(data)[kElements - 1], 11U);
  EXPECT_THAT(found_.kinds(), IsEmpty());
}

TEST_F(ValidateDeviceTest, nothing_is_kept_of_lists_that_are_over) {
  if (has_sanitizer()) GTEST_SKIP() << "the heap is another";
  const auto submit_many = [&] {
    for (int i = 0; i < 4000; ++i) {
      auto work = list("step");
      const Point point = queue().submit(work, {}).or_raise();
      ASSERT_EQ(wait_for(point), PointState::reached);
      queue().retire();
    }
  };
  submit_many();  // what there is once: tables, spare lists
  const size_t before = mallinfo2().uordblks;
  submit_many();
  EXPECT_LT(mallinfo2().uordblks, before + 4000 * 8) << "less than a pointer for each";
}

TEST_F(ValidateDeviceTest, a_condemned_list_is_not_handed_on_and_stays_the_callers) {
  const auto data = words("data");
  auto first = list("first");
  increment_in(first, data);
  const Point one = queue(0).submit(first, {gated()}).or_raise();
  auto bad = list("bad");
  increment_in(bad, data);
  const auto refused = queue(1).submit(bad);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(found_.kinds(), ElementsAre(ViolationKind::unordered_access));
  EXPECT_EQ(refused.failure().code(), ErrorCode::usage);
  EXPECT_EQ(refused.failure().message(), found_.last_message());
  EXPECT_THAT(found_.last_message(),
              AllOf(HasSubstr("kernel 'increment' (command 0 of list 'bad'"),
                    HasSubstr("on cpu queue 1 @ 1) updates bytes 0..256 of " + data->describe()),
                    HasSubstr("wait for cpu queue 0 @ 1")));
  EXPECT_EQ(bad.ticket()->state(), TicketState::open);
  EXPECT_EQ(queue(1).in_flight(), 0U);
  // With the order that was missing it is as good as any.
  const Point two = queue(1).submit(bad, {{one, WaitKind::data}}).or_raise();
  EXPECT_EQ(two.value.value, 1U);
  EXPECT_EQ(two.query(), PointState::pending);
  gate_->signal({1});
  EXPECT_EQ(wait_for(two), PointState::reached);
  EXPECT_EQ(view(data)[0], 3U);
}

TEST_F(ValidateDeviceTest, it_judges_by_order_and_not_by_what_happens_to_be_finished) {
  const auto data = words("data");
  auto first = list("first");
  increment_in(first, data);
  const Point one = queue(0).submit(first).or_raise();
  // The device is done, but the host, as far as its device can tell, does not know.
  const Ref<Timeline>& unseen = cpu_->queues()[0]->timeline();
  ASSERT_EQ(wait_for({unseen, one.value}), PointState::reached);
  auto second = list("second");
  increment_in(second, data);
  EXPECT_FALSE(queue(1).submit(second).ok());
  EXPECT_EQ(one.query(), PointState::reached);
  EXPECT_TRUE(queue(1).submit(second).ok());
  EXPECT_EQ(found_.kinds().size(), 1U);
}

TEST_F(ValidateDeviceTest, the_host_knows_what_it_queried_waited_for_retired_or_saw_fail) {
  for (const int way : {0, 1, 2, 3}) {
    SCOPED_TRACE(way);
    const auto data = words("data");
    auto first = list("first");
    increment_in(first, data);
    if (way == 3) {
      first.native([](const NativeCall&) { throw std::runtime_error("asked to"); }, {});
    }
    const Point one = queue(0).submit(first).or_raise();
    wait_for({cpu_->queues()[0]->timeline(), one.value});
    switch (way) {
      case 0: EXPECT_EQ(one.query(), PointState::reached); break;
      case 1: EXPECT_EQ(wait_for(one), PointState::reached); break;
      case 2: EXPECT_GE(queue(0).retire().size(), 1U); break;
      default: EXPECT_TRUE(one.failure()); break;
    }
    auto second = list("second");
    increment_in(second, data);
    EXPECT_TRUE(queue(1).submit(second).ok());
  }
  EXPECT_THAT(found_.kinds(), IsEmpty());
}

TEST_F(ValidateDeviceTest, waits_reach_the_inner_device) {
  const Failure cause(ErrorCode::execution, "cause");
  const auto data = words("data");
  auto first = list("first");
  increment_in(first, data);
  const Point one = queue(0).submit(first, {{{gate_, {1}}, WaitKind::data}}).or_raise();
  auto second = list("second");
  increment_in(second, data);
  const Point two = queue(1).submit(second, {{one, WaitKind::data}}).or_raise();
  auto third = list("third");
  increment_in(third, data);
  const Point three = queue(1).submit(third).or_raise();
  EXPECT_EQ(three.query(), PointState::pending);
  gate_->fail({1}, cause);
  EXPECT_EQ(wait_for(two), PointState::failed);
  EXPECT_EQ(two.failure(), cause);
  EXPECT_EQ(wait_for(three), PointState::reached);
  EXPECT_EQ(view(data)[0], 2U);
}

TEST_F(ValidateDeviceTest, a_submit_that_the_inner_device_refuses_is_forgotten) {
  const auto data = words("data");
  auto work = list("work");
  increment_in(work, data);
  fail_submit_ = Failure(ErrorCode::out_of_memory, "no room");
  const auto refused = queue(0).submit(work);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure(), fail_submit_);
  fail_submit_ = {};
  auto other = list("other");
  increment_in(other, data);
  EXPECT_TRUE(queue(1).submit(other).ok()) << "nothing of the refused list is in its way";
  EXPECT_THAT(found_.kinds(), IsEmpty());
}

TEST_F(ValidateDeviceTest, an_exported_point_becomes_readable) {
  auto work = list("work");
  const Point point = queue(0).submit(work, {gated()}).or_raise();
  const UniqueFd descriptor = device_->export_point(point).or_raise();
  pollfd look{descriptor.get(), POLLIN, 0};
  EXPECT_EQ(poll(&look, 1, 0), 0);
  gate_->signal({1});
  EXPECT_EQ(poll(&look, 1, 30'000), 1);
}

TEST_F(ValidateDeviceTest, an_imported_point_orders_after_what_was_exported) {
  const auto data = words("data");
  auto first = list("first");
  increment_in(first, data);
  const Point one = queue(0).submit(first).or_raise();
  const Point imported =
      device_->import_point(device_->export_point(one).or_raise(), "imported").or_raise();
  auto second = list("second");
  // It touches nothing: a thread sanitizer does not know that descriptors order.
  const std::array declared{Binding::of(data, Access::read_write)};
  second.native([](const NativeCall&) {}, declared);
  const Point two = queue(1).submit(second, {{imported, WaitKind::data}}).or_raise();
  EXPECT_EQ(wait_for(two), PointState::reached);
  EXPECT_THAT(found_.kinds(), IsEmpty());
}

TEST_F(ValidateDeviceTest, host_accesses_are_told_through_the_memory_itself) {
  const auto data = words("data");
  auto work = list("work");
  increment_in(work, data);
  const Point point = queue(0).submit(work, {gated()}).or_raise();
  { const HostTouch touch(*data, {{}, 16_B}, Access::read, "too early"); }
  EXPECT_THAT(found_.kinds(), ElementsAre(ViolationKind::unordered_host));
  EXPECT_THAT(found_.last_message(), HasSubstr("'too early'"));
  gate_->signal({1});
  wait_for(point);
  const HostTouch touch(*data, {{}, 16_B}, Access::read, "in time");
  auto next = list("next");
  increment_in(next, data);
  EXPECT_FALSE(queue(0).submit(next).ok());
  EXPECT_THAT(found_.kinds(),
              ElementsAre(ViolationKind::unordered_host, ViolationKind::unordered_host));
}

TEST_F(ValidateDeviceTest, replays_run_and_are_checked) {
  auto commands = list("plan");
  const std::array slot{Binding::of_slot(0, {{}, {kElements * 4}}, Access::read_write)};
  commands.dispatch(kernel_, slot, {}, {1, 1, 1});
  const auto program = device_->create_program(commands).or_raise();
  const auto data = words("data");
  const std::array bound{Binding::of(data, Access::read_write)};
  auto first = make_replay(device_->info(), program, bound, {}, "first");
  auto second = make_replay(device_->info(), program, bound, {}, "second");
  const Point one = queue(0).submit(first).or_raise();
  EXPECT_FALSE(queue(1).submit(second).ok());
  EXPECT_THAT(found_.last_message(), HasSubstr(program->describe()));
  EXPECT_EQ(wait_for(one), PointState::reached);
  EXPECT_EQ(view(data)[0], 2U);
}

TEST_F(ValidateDeviceTest, memory_kernels_and_points_outlive_the_device) {
  const auto data = words("data");
  auto work = list("work");
  increment_in(work, data);
  const Point point = queue(0).submit(work).or_raise();
  const Ref<Queue> kept = device_->queues()[0];
  device_.reset();
  cpu_.reset();
  EXPECT_NE(point.query(), PointState::pending);
  kept->retire();
  EXPECT_THAT(found_.kinds(), IsEmpty());
}

TEST_F(ValidateDeviceTest, closing_reports_what_is_left_and_fails_the_rest) {
  auto work = list("stuck");
  const Point point = queue(0).submit(work, {gated()}).or_raise();
  EXPECT_TRUE(device_->close(sync::Deadline::after({})).clean());
  EXPECT_EQ(point.query(), PointState::failed);
  EXPECT_TRUE(device_->lost());
  auto late = list("late");
  EXPECT_FALSE(queue(0).submit(late).ok());
}

TEST_F(ValidateDeviceTest, it_wraps_itself) {
  Collected outer_found;
  const auto outer = ValidateDevice::wrap(device_, {outer_found.handler()});
  EXPECT_EQ(outer->info().name, "validate(validate(cpu))");
  const auto data = Allocation::whole(
      outer->create_buffer({{kElements * 4}, MemoryKind::device, "data"}).or_raise());
  std::fill_n(view(data), kElements, 0U);
  for (size_t i = 0; i < 4; ++i) {
    CommandList work(outer->info(), "work");
    increment_in(work, data);
    EXPECT_EQ(wait_for(outer->queues()[i % 2]->submit(work).or_raise()), PointState::reached);
  }
  EXPECT_EQ(view(data)[0], 4U);
  EXPECT_THAT(outer_found.kinds(), IsEmpty());
  EXPECT_THAT(found_.kinds(), IsEmpty());
}

TEST_F(ValidateDeviceTest, two_threads_submit_to_two_queues) {
  const auto shared = words("shared");
  const auto reader = device_
                          ->create_pipeline({"reader",
                                             HostFunction([](const HostGroup& group) {
                                               group.binding<uint32_t>(1)[0] +=
                                                   group.binding<const uint32_t>(0)[0];
                                             }),
                                             2,
                                             {}})
                          .or_raise();
  std::array<Ref<Allocation>, 2> own{words("own 0", 0), words("own 1", 0)};
  const auto body = [&](size_t index) {
    for (int i = 0; i < 500; ++i) {
      auto work = list("work");
      const std::array bindings{Binding::of(shared, Access::read),
                                Binding::of(own[index], Access::read_write)};
      work.dispatch(reader, bindings, {}, {1, 1, 1});
      queue(index).submit(work).or_raise();
      const Retired finished = queue(index).retire();
    }
    auto last = list("last");
    wait_for(queue(index).submit(last).or_raise());
  };
  sync::Thread other("other", [&] { body(1); });
  body(0);
  other.join();
  EXPECT_EQ(view(own[0])[0], 500U);
  EXPECT_EQ(view(own[1])[0], 500U);
  EXPECT_THAT(found_.kinds(), IsEmpty());
}

TEST_F(ValidateDeviceTest, of_two_threads_that_race_one_is_found_out) {
  const auto data = words("data");
  std::atomic<int> refused{0};
  const auto body = [&](size_t index) {
    auto work = list("work");
    increment_in(work, data);
    if (!queue(index).submit(work, {gated()}).ok()) ++refused;
  };
  sync::Thread other("other", [&] { body(1); });
  body(0);
  other.join();
  EXPECT_EQ(refused, 1);
  EXPECT_THAT(found_.kinds(), ElementsAre(ViolationKind::unordered_access));
}

#ifdef HOLDFAST_ABLATIONS

// Without holds, memory is destroyed with its last user: in each of the three windows.

TEST_F(ValidateDeviceTest, memory_destroyed_before_its_list_is_submitted_is_found_out) {
  auto data = words("weights");
  const std::string described = data->describe();
  auto work = list("work");
  {
    const ScopedAblation off(Ablation::bound_not_held);
    increment_in(work, data);
  }
  data.reset();
  EXPECT_FALSE(queue(0).submit(work).ok());
  EXPECT_THAT(found_.kinds(), ElementsAre(ViolationKind::use_after_free));
  EXPECT_THAT(found_.last_message(), AllOf(HasSubstr(described), HasSubstr("list 'work'")));
}

TEST_F(ValidateDeviceTest, memory_destroyed_in_flight_is_found_out_and_kept_until_it_is_over) {
  auto data = words("weights");
  uint32_t* const bytes = view(data);
  bool deleted = false;
  std::array<uint32_t, kElements> memory{};
  auto imported = Allocation::whole(
      device_
          ->import_buffer(
              {memory.data(), {sizeof memory}, [&deleted] { deleted = true; }, "imported"})
          .or_raise());
  auto work = list("work");
  {
    const ScopedAblation off(Ablation::bound_not_held);
    increment_in(work, data);
    increment_in(work, imported);
  }
  const Point point = queue(0).submit(work, {gated()}).or_raise();
  data.reset();
  EXPECT_THAT(found_.kinds(), ElementsAre(ViolationKind::use_after_free));
  EXPECT_THAT(found_.last_message(),
              AllOf(HasSubstr("allocation 'weights'"), HasSubstr("command 0 of list 'work'"),
                    HasSubstr("cpu queue 0 @ 1")));
  imported.reset();
  EXPECT_EQ(found_.kinds().size(), 2U);
  gate_->signal({1});
  // Finished, not seen.
  ASSERT_EQ(wait_for({cpu_->queues()[0]->timeline(), point.value}), PointState::reached);
  EXPECT_EQ(bytes[0], 2U);
  EXPECT_EQ(memory[0], 1U);
  EXPECT_FALSE(deleted);
  EXPECT_EQ(wait_for(point), PointState::reached);
  EXPECT_TRUE(deleted);
  EXPECT_EQ(found_.kinds().size(), 2U);
}

TEST_F(ValidateDeviceTest, memory_destroyed_when_its_list_is_finished_but_not_seen_is_found_out) {
  auto data = words("weights");
  auto work = list("work");
  {
    const ScopedAblation off(Ablation::bound_not_held);
    increment_in(work, data);
  }
  const Point point = queue(0).submit(work).or_raise();
  ASSERT_EQ(wait_for({cpu_->queues()[0]->timeline(), point.value}), PointState::reached);
  data.reset();
  EXPECT_THAT(found_.kinds(), ElementsAre(ViolationKind::use_after_free));
}

#endif

TEST(PrintAndAbort, a_violation_is_printed_and_ends_the_process) {
  EXPECT_DEATH(print_and_abort({ViolationKind::unordered_access, "the sentence"}),
               "unordered access: the sentence");
}

TEST(PrintAndAbort, a_note_is_printed_once_and_ends_nothing) {
  ::testing::internal::CaptureStderr();
  print_and_abort({ViolationKind::partly_initialized, "the first sentence"});
  print_and_abort({ViolationKind::partly_initialized, "the second sentence"});
  const std::string printed = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(printed, HasSubstr("note: partly initialized read: the first sentence"));
  EXPECT_THAT(printed, Not(HasSubstr("second")));
}

TEST(Violation, every_kind_has_a_name) {
  std::set<std::string> names;
  for (unsigned kind = 0; kind < kViolationKinds; ++kind) {
    names.insert(to_string(static_cast<ViolationKind>(kind)));
  }
  EXPECT_EQ(names.size(), kViolationKinds);
  EXPECT_FALSE(names.contains("unknown"));
}

}  // namespace
}  // namespace holdfast::hal
