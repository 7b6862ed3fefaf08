#include <optional>

#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/hal/cts/cts.h"

// What only the CPU device can show: faults on request, and functions whose lives can be watched.

namespace holdfast::hal::cts {

namespace {

using ::testing::HasSubstr;

struct CpuRig {
  Ref<CpuDevice> device;
  Ref<Queue> queue;
  Gate gate;

  explicit CpuRig(CpuOptions options = {}) {
    options.close_bound = std::chrono::milliseconds(20);
    device = CpuDevice::open(std::move(options));
    queue = device->queues()[0];
    gate.timeline = device->create_host_timeline("gate").or_raise();
  }
  CommandList list(std::string name = "list") const { return {device->info(), std::move(name)}; }
  Ref<Pipeline> pipeline(HostFunction function, std::string name = "function") const {
    return device->create_pipeline({std::move(name), std::move(function), 0, {}}).or_raise();
  }
};

TEST(CtsCpu, a_host_function_lives_until_the_last_list_that_needs_it_is_retired) {
  CpuRig rig;
  auto token = std::make_shared<Counter>();
  const std::weak_ptr<Counter> watch = token;
  auto work = rig.list();
  work.dispatch(rig.pipeline([token](const HostGroup&) { token->add(); }), {}, {}, {3, 1, 1});
  token.reset();
  EXPECT_FALSE(watch.expired()) << "recorded but not submitted";
  const Point point = rig.queue->submit(work, {rig.gate.data()}).or_raise();
  EXPECT_FALSE(watch.expired()) << "submitted but not finished";
  rig.gate.open();
  ASSERT_TRUE(reached(point));
  ASSERT_FALSE(watch.expired()) << "finished but not seen";
  EXPECT_EQ(watch.lock()->value(), 3);
  rig.queue->retire();
  EXPECT_TRUE(watch.expired());
}

TEST(CtsCpu, an_exception_of_a_host_function_is_the_cause_in_words) {
  CpuRig rig;
  auto work = rig.list("my list");
  const auto kernel =
      rig.pipeline([](const HostGroup&) { throw std::runtime_error("divided by zero"); }, "divide");
  work.dispatch(kernel, {}, {}, {1, 1, 1}, "my label");
  const Point point = rig.queue->submit(work).or_raise();
  ASSERT_TRUE(failed(point));
  EXPECT_EQ(point.failure().code(), ErrorCode::execution);
  for (const char* part : {"divided by zero", "divide", "my label", "my list"}) {
    EXPECT_THAT(point.failure().message(), HasSubstr(part));
  }
}

TEST(CtsCpu, of_several_groups_that_fail_the_first_is_named_whichever_failed_first) {
  CpuOptions options;
  options.helpers = 1;
  CpuRig rig(options);
  for (int i = 0; i < 20; ++i) {
    const auto later_one_fails = std::make_shared<Counter>();
    auto work = rig.list();
    const auto kernel = rig.pipeline([later_one_fails](const HostGroup& call) {
      if (call.group.x == 1) {
        later_one_fails->add();
        throw std::runtime_error("in group one");
      }
      EXPECT_TRUE(later_one_fails->reaches(1));
      throw std::runtime_error("in group zero");
    });
    work.dispatch(kernel, {}, {}, {2, 1, 1});
    const Point point = rig.queue->submit(work).or_raise();
    ASSERT_TRUE(failed(point));
    ASSERT_THAT(point.failure().message(), HasSubstr("in group zero"));
  }
}

TEST(CtsCpu, a_module_for_another_kind_of_device_is_refused) {
  CpuRig rig;
  const auto refused =
      rig.device->create_pipeline({"spirv", SpirvModule{{1, 2, 3}, "main"}, 0, {}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code(), ErrorCode::unsupported);
  EXPECT_THAT(refused.failure().message(), HasSubstr("spirv"));
}

TEST(CtsCpu, limits_on_the_grid_are_those_of_the_options) {
  CpuOptions options;
  options.max_groups = {4, 2, 3};
  CpuRig rig(options);
  EXPECT_EQ(rig.device->info().max_groups, options.max_groups);
  const auto kernel = rig.pipeline([](const HostGroup&) {}, "small");
  auto work = rig.list();
  EXPECT_THROW(work.dispatch(kernel, {}, {}, {5, 1, 1}), UsageError);
  EXPECT_THROW(work.dispatch(kernel, {}, {}, {1, 3, 1}), UsageError);
  EXPECT_THROW(work.dispatch(kernel, {}, {}, {1, 1, 4}), UsageError);
  work.dispatch(kernel, {}, {}, {4, 2, 3});
  EXPECT_TRUE(reached(rig.queue->submit(work).or_raise()));
}

TEST(CtsCpu, a_lost_device_fails_everything_pending_with_the_cause) {
  CpuRig rig;
  Imported data;
  auto memory = rig.device->import_buffer(external(Words(64), "memory", data)).or_raise();
  data.allocation = Allocation::whole(std::move(memory));
  std::vector<Point> points;
  for (const Ref<Queue>& queue : rig.device->queues()) {
    for (int i = 0; i < 2; ++i) {
      auto work = rig.list();
      work.fill(data.allocation, range(0, 4), std::byte{1});
      points.push_back(queue->submit(work, {rig.gate.data()}).or_raise());
    }
  }
  data.allocation.reset();
  auto late = rig.list("late");
  const Failure cause(ErrorCode::device_lost, "fell off the bus");
  rig.device->lose(cause);
  for (const Point& point : points) EXPECT_TRUE(failed_with(point, cause));
  EXPECT_EQ(rig.device->lost(), cause);
  const auto refused = rig.queue->submit(late);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code(), ErrorCode::device_lost);
  EXPECT_EQ(late.ticket()->state(), TicketState::open);
  EXPECT_FALSE(rig.device->create_buffer({{64}, MemoryKind::device, "late"}).ok());
  for (const Ref<Queue>& queue : rig.device->queues()) EXPECT_EQ(queue->retire().size(), 2U);
  EXPECT_TRUE(data.deletions->reaches(1));
  EXPECT_TRUE(rig.device->close(patience()).clean());
}

TEST(CtsCpu, a_list_under_way_when_the_device_is_lost_fails_only_when_it_touches_nothing_more) {
  CpuRig rig;
  const auto entered = std::make_shared<Counter>();
  const auto release = std::make_shared<Counter>();
  const auto calls = std::make_shared<Counter>();
  auto work = rig.list();
  work.native(
      [entered, release](const NativeCall&) {
        entered->add();
        EXPECT_TRUE(release->reaches(1));
      },
      {});
  work.barrier();
  work.dispatch(rig.pipeline([calls](const HostGroup&) { calls->add(); }), {}, {}, {1, 1, 1});
  const Point point = rig.queue->submit(work).or_raise();
  ASSERT_TRUE(entered->reaches(1));
  const Failure cause(ErrorCode::device_lost, "unplugged");
  rig.device->lose(cause);
  EXPECT_TRUE(pending(point));
  release->add();
  EXPECT_TRUE(failed_with(point, cause));
  EXPECT_EQ(calls->value(), 0) << "no further group starts";
}

TEST(CtsCpu, a_list_of_a_lost_device_resolves_only_after_the_lists_it_waits_for) {
  CpuRig rig;
  const auto entered = std::make_shared<Counter>();
  const auto release = std::make_shared<Counter>();
  auto busy = rig.list("busy");
  busy.native(
      [entered, release](const NativeCall&) {
        entered->add();
        EXPECT_TRUE(release->reaches(1));
      },
      {});
  const Point before = rig.queue->submit(busy).or_raise();
  ASSERT_TRUE(entered->reaches(1));
  auto waiting = rig.list("waiting");
  const Wait on_busy{before, WaitKind::order};
  const Point after =
      rig.device->queues()[1]->submit(waiting, {rig.gate.order(), on_busy}).or_raise();
  const Failure cause(ErrorCode::device_lost, "unplugged");
  rig.device->lose(cause);
  // Time to err: the host's gate need not be waited for any more, the busy list must be.
  after.timeline->wait(after.value, sync::Deadline::after(std::chrono::milliseconds(100)));
  EXPECT_TRUE(pending(after) || !pending(before));
  release->add();
  EXPECT_TRUE(failed_with(before, cause));
  EXPECT_TRUE(failed_with(after, cause));
}

TEST(CtsCpu, a_submit_that_the_device_refuses_leaves_list_and_queue_as_they_were) {
  const Failure cause(ErrorCode::out_of_memory, "no room for the list");
  const auto armed = std::make_shared<std::atomic<bool>>(false);
  CpuOptions options;
  options.fail_submit = [armed, cause](const Queue&) { return *armed ? cause : Failure(); };
  CpuRig rig(options);
  Counter calls;
  auto first = rig.list();
  const Point before = rig.queue->submit(first).or_raise();
  auto work = rig.list("refused");
  work.dispatch(rig.pipeline([&](const HostGroup&) { calls.add(); }), {}, {}, {1, 1, 1});
  *armed = true;
  const auto refused = rig.queue->submit(work);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure(), cause);
  EXPECT_EQ(work.ticket()->state(), TicketState::open);
  EXPECT_EQ(rig.queue->in_flight(), 1U);
  *armed = false;
  const Point after = rig.queue->submit(work).or_raise();
  EXPECT_EQ(after.value, before.value.next());
  EXPECT_TRUE(reached(after));
  EXPECT_EQ(calls.value(), 1);
}

TEST(CtsCpu, a_buffer_that_the_device_refuses_is_a_failure_and_the_next_one_is_given) {
  const Failure cause(ErrorCode::out_of_memory, "no room");
  const auto armed = std::make_shared<std::atomic<bool>>(true);
  CpuOptions options;
  options.fail_allocation = [armed, cause](const BufferDesc& desc) {
    return *armed && desc.name == "big" ? cause : Failure();
  };
  CpuRig rig(options);
  const auto refused = rig.device->create_buffer({{64}, MemoryKind::device, "big"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure(), cause);
  EXPECT_TRUE(rig.device->create_buffer({{64}, MemoryKind::device, "small"}).ok());
  *armed = false;
  EXPECT_TRUE(rig.device->create_buffer({{64}, MemoryKind::device, "big"}).ok());
}

TEST(CtsCpu, memory_and_buffers_are_limited_as_the_options_say) {
  CpuOptions options;
  options.memory = 1_MiB;
  options.max_buffers = 2;
  CpuRig rig(options);
  EXPECT_FALSE(rig.device->create_buffer({2_MiB, MemoryKind::device, "too large"}).ok());
  auto one = rig.device->create_buffer({512_KiB, MemoryKind::device, "one"}).or_raise();
  const auto over = rig.device->create_buffer({768_KiB, MemoryKind::device, "over"});
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.failure().code(), ErrorCode::out_of_memory);
  auto two = rig.device->create_buffer({64_B, MemoryKind::device, "two"}).or_raise();
  EXPECT_FALSE(rig.device->create_buffer({64_B, MemoryKind::device, "three"}).ok());
  one.reset();
  EXPECT_TRUE(rig.device->create_buffer({768_KiB, MemoryKind::device, "again"}).ok());
}

TEST(CtsCpu, a_device_without_helpers_and_with_one_queue_works) {
  CpuOptions options;
  options.queues = 1;
  options.helpers = 0;
  CpuRig rig(options);
  ASSERT_EQ(rig.device->queues().size(), 1U);
  Counter calls;
  auto work = rig.list();
  work.dispatch(rig.pipeline([&](const HostGroup&) { calls.add(); }), {}, {}, {10, 10, 1});
  EXPECT_TRUE(reached(rig.queue->submit(work).or_raise()));
  EXPECT_EQ(calls.value(), 100);
}

}  // namespace

}  // namespace holdfast::hal::cts
