#include <poll.h>

#include <array>
#include <atomic>
#include <cstring>

#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/cuda/stub_gpu_test.h"
#include "holdfast/hal/program.h"

// A kernel that faults, and other ways to lose the device: who hears of it, and what it says.

namespace holdfast::hal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CudaLoss : public StubGpu, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    StubGpu::SetUp();
    if (IsSkipped()) return;
    CudaOptions with = options();
    with.stream_memory_operations = GetParam();
    open(with);
    // None can be made later.
    for (const char* kernel : {"affine", "twice", "increment", "fault"}) (void)pipeline(kernel);
  }

  // Held until released: else the call that submits it may be told already.
  Point submit_held_fault() {
    stub().hold();
    auto work = list("faulty");
    fault(work);
    return submit(work);
  }
  Point submit_fault() {
    Point point = submit_held_fault();
    stub().release();
    return point;
  }
  // What everybody is told of a kernel that faulted.
  static void expect_told(const Failure& failure, const char* list_name = "'faulty'") {
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure.code(), ErrorCode::device_lost);
    EXPECT_THAT(
        failure.message(),
        AllOf(HasSubstr("device 'cuda:0' is lost: CUDA_ERROR_ILLEGAL_ADDRESS"),
              HasSubstr(list_name), HasSubstr("with kernel 'fault'"), HasSubstr("end the process"),
              HasSubstr("HOLDFAST_VALIDATE=1"), HasSubstr("compute-sanitizer")));
  }
};

TEST_P(CudaLoss, a_fault_fails_every_waiter_on_every_queue_and_names_list_and_kernel) {
  const auto data = uploaded({1});
  auto early = list("early");
  affine(early, data, 2, 0);
  const Point done = submit(early);
  EXPECT_TRUE(stub_reached(done));
  const auto gate = device().create_host_timeline("gate").or_raise();
  const Point faulty = submit_held_fault();
  std::vector<Point> points{faulty};
  for (const size_t on : {size_t{0}, size_t{1}}) {
    auto after = list("after");
    affine(after, data, 2, 0);
    points.push_back(submit(after, {{faulty, WaitKind::order}}, on));
    auto kept = list("kept back");
    affine(kept, data, 2, 0);
    points.push_back(submit(kept, {{{gate, {1}}, WaitKind::order}}, on));
  }
  {
    std::vector<sync::Thread> waiters;
    for (const Point& point : points) {
      waiters.emplace_back("waits", [&] { EXPECT_TRUE(stub_failed(point)); });
    }
    stub().release();
  }
  for (const Point& point : points) expect_told(point.failure());
  EXPECT_EQ(done.query(), PointState::reached);
  expect_told(device().lost());
  gate->signal({1});
}

TEST_P(CudaLoss, is_found_by_a_waiter_alone) {
  const Point faulty = submit_fault();
  ASSERT_TRUE(stub_failed(faulty));
  expect_told(faulty.failure());
}

TEST_P(CudaLoss, is_found_by_a_poller_alone) {
  const Point faulty = submit_fault();
  const sync::Deadline limit = stub_patience();
  while (faulty.query() == PointState::pending && !limit.passed()) sync::relax(1);
  EXPECT_EQ(faulty.query(), PointState::failed);
  expect_told(faulty.failure());
}

TEST_P(CudaLoss, is_found_by_retiring_alone) {
  submit_fault();
  const sync::Deadline limit = stub_patience();
  Retired finished;
  while (finished.empty() && !limit.passed()) finished = queue()->retire();
  ASSERT_EQ(finished.size(), 1U);
  expect_told(finished[0]->point.failure());
}

TEST_P(CudaLoss, makes_an_exported_descriptor_readable) {
  const Point faulty = submit_held_fault();
  const auto descriptor = device().export_point(faulty).or_raise();
  stub().release();
  pollfd polled{descriptor.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&polled, 1, 600'000), 1);
  EXPECT_EQ(faulty.query(), PointState::failed);
  expect_told(faulty.failure());
}

TEST_P(CudaLoss, is_told_to_every_later_call) {
  const auto data = uploaded({1});
  ASSERT_TRUE(stub_failed(submit_fault()));
  for (const size_t on : {size_t{0}, size_t{1}}) {
    auto late = list("late");
    affine(late, data, 2, 0);
    const auto refused = queue(on)->submit(late);
    ASSERT_FALSE(refused.ok());
    expect_told(refused.failure());
  }
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::upload}) {
    expect_told(device().create_buffer({4_KiB, kind, "late"}).failure());
  }
  expect_told(device().create_pipeline(described("affine")).failure());
  alignas(4096) static std::array<std::byte, 4096> memory;
  int deleted = 0;
  expect_told(
      device().import_buffer({memory.data(), {4096}, [&] { ++deleted; }, "late"}).failure());
  EXPECT_EQ(deleted, 1);
}

TEST_P(CudaLoss, closes_cleanly_and_objects_may_outlive_it) {
  const auto data = uploaded({1});
  const auto kernel = make_pipeline("affine");
  const Point faulty = submit_fault();
  const CloseReport report = device().close(stub_patience());
  EXPECT_TRUE(report.clean()) << report.details;
  expect_told(faulty.failure());
  drop_device();
  expect_told(faulty.failure());
  EXPECT_EQ(stub().live().count("context"), 0U);
}

TEST_P(CudaLoss, another_device_on_the_context_is_refused_until_the_last_is_closed) {
  ASSERT_TRUE(stub_failed(submit_fault()));
  const auto second = CudaDevice::open(options());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.failure().code(), ErrorCode::device_lost);
  EXPECT_THAT(second.failure().message(),
              AllOf(HasSubstr("'cuda:0' is lost"), HasSubstr("ILLEGAL_ADDRESS"),
                    HasSubstr("end the process")));
  EXPECT_EQ(stub().live()["context"], 1U);
  drop_device();
  // The driver made the context anew.
  open();
  EXPECT_EQ(read(uploaded({4})), StubWords{4});
}

TEST_P(CudaLoss, ends_another_device_on_the_context_too) {
  const auto other = CudaDevice::open(options()).or_raise();
  CommandList theirs(other->info(), "theirs");
  const auto memory =
      Allocation::whole(other->create_buffer({64_B, MemoryKind::device, "theirs"}).or_raise());
  theirs.fill(memory, {{}, 64_B}, std::byte{1});
  const Point faulty = submit_held_fault();
  const auto gate = other->create_host_timeline("gate").or_raise();
  const Point point =
      other->queues()[0]->submit(theirs, {{{gate, {1}}, WaitKind::order}}).or_raise();
  stub().release();
  ASSERT_TRUE(stub_failed(faulty));
  gate->signal({1});
  ASSERT_TRUE(stub_failed(point));
  EXPECT_EQ(point.failure().code(), ErrorCode::device_lost);
  EXPECT_THAT(point.failure().message(), Not(HasSubstr("'faulty'")));
}

TEST_P(CudaLoss, in_a_graph_names_the_list_and_its_first_kernels) {
  const auto data = uploaded({1});
  bool faults = false;
  stub().register_kernel("may_fault", [&](const testing::StubLaunch&) {
    return faults ? cu::CUDA_ERROR_ILLEGAL_ADDRESS : cu::CUDA_SUCCESS;
  });
  const auto may_fault =
      device().create_pipeline({"may_fault", stub_kernel("may_fault", " "), 0, {}}).or_raise();
  const auto submitted = [&] {
    auto work = list("many kernels");
    for (const char* kernel : {"twice", "increment", "twice", "increment"}) {
      apply(work, kernel, data);
      work.barrier();
    }
    work.dispatch(may_fault, {}, {}, {1, 1, 1});
    return submit(work);
  };
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(stub_reached(submitted()));
  EXPECT_EQ(stub().calls("cuGraphLaunch"), 1U);
  faults = true;
  stub().hold();
  const Point point = submitted();
  stub().release();
  EXPECT_EQ(stub().calls("cuGraphLaunch"), 2U);
  ASSERT_TRUE(stub_failed(point));
  EXPECT_THAT(point.failure().message(),
              AllOf(HasSubstr("'many kernels'"),
                    HasSubstr("with kernel 'twice', 'increment', 'twice', 'increment', ...")));
}

TEST_P(CudaLoss, in_a_program_names_the_replay_and_its_kernels) {
  auto steps = list("steps");
  fault(steps);
  const auto program = device().create_program(steps).or_raise();
  auto replay = make_replay(device().info(), program, {}, {}, "replayed");
  stub().hold();
  const Point point = submit(replay);
  stub().release();
  ASSERT_TRUE(stub_failed(point));
  expect_told(point.failure(), "'replayed'");
}

TEST_P(CudaLoss, of_idle_hardware_is_told_to_the_next_list) {
  const auto data = uploaded({1});
  stub().lose(0, cu::CUDA_ERROR_ECC_UNCORRECTABLE);
  auto work = list("next");
  affine(work, data, 2, 0);
  const auto refused = queue()->submit(work);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code(), ErrorCode::device_lost);
  EXPECT_THAT(refused.failure().message(),
              AllOf(HasSubstr("ECC_UNCORRECTABLE"), HasSubstr("end the process")));
}

TEST_P(CudaLoss, by_the_end_of_the_driver_says_to_close_the_device_before) {
  const auto data = uploaded({1});
  stub().hold();
  auto work = list("in flight");
  affine(work, data, 2, 0);
  const Point point = submit(work);
  stub().shut_down();
  ASSERT_TRUE(stub_failed(point));
  EXPECT_EQ(point.failure().code(), ErrorCode::device_lost);
  EXPECT_THAT(point.failure().message(),
              AllOf(HasSubstr("driver has shut down"), HasSubstr("close the device before")));
  EXPECT_TRUE(device().close(stub_patience()).clean());
}

TEST_P(CudaLoss, of_an_immediate_device_is_told_at_once) {
  drop_device();
  CudaOptions immediate = options();
  immediate.immediate = true;
  immediate.stream_memory_operations = GetParam();
  open(immediate);
  // So that it is found by the wait inside the call, and not by the call's next command.
  std::atomic<bool> handed_over{false};
  stub().register_kernel("late", [&](const testing::StubLaunch&) {
    while (!handed_over.load()) sync::relax(1);
    return cu::CUDA_ERROR_ILLEGAL_ADDRESS;
  });
  const auto late = device().create_pipeline({"fault", stub_kernel("late", " "), 0, {}}).or_raise();
  auto work = list("faulty");
  work.dispatch(late, {}, {}, {1, 1, 1});
  const auto asked = stub().calls("cuStreamQuery");
  sync::Thread opens("opens", [&] {
    while (stub().calls("cuStreamQuery") == asked) sync::relax(1);
    handed_over = true;
  });
  const Point faulty = submit(work);
  EXPECT_EQ(faulty.query(), PointState::failed);
  expect_told(faulty.failure());
}

// Under a sanitizer, whoever names a list that is gone is seen.
TEST_P(CudaLoss, is_described_while_lists_of_other_queues_end_and_go) {
  for (int round = 0; round < 20; ++round) {
    drop_device();
    CudaOptions with = options();
    with.stream_memory_operations = GetParam();
    open(with);
    const auto data = words(1);
    for (const char* kernel : {"affine", "fault"}) (void)pipeline(kernel);
    std::atomic<int> ended{0};
    {
      sync::Thread worker("works", [&] {
        for (;;) {
          auto work = list("short");
          affine(work, data, 2, 1);
          const auto point = queue(1)->submit(work);
          if (!point || !point.value().timeline ||
              point.value().timeline->wait(point.value().value, stub_patience()) !=
                  PointState::reached) {
            return;
          }
          queue(1)->retire();
          ended.fetch_add(1);
        }
      });
      while (ended.load() < 3) sync::relax(1);
      auto work = list("faulty");
      fault(work);
      const auto point = queue()->submit(work);
      if (point) {
        EXPECT_TRUE(stub_failed(point.value()));
      }
    }
    EXPECT_EQ(device().lost().code(), ErrorCode::device_lost);
  }
}

INSTANTIATE_TEST_SUITE_P(Streams, CudaLoss, ::testing::Bool(), [](const auto& test) {
  return test.param ? "with_memory_operations" : "without";
});

// Nothing waits unasked.

class CudaSteadyState : public StubGpu {};

TEST_F(CudaSteadyState, no_call_waits_for_work_of_others) {
  open();
  const auto a = uploaded(StubWords(64, 1), "a");
  const auto b = uploaded(StubWords(64, 2), "b");
  const auto round = [&](uint32_t i) {
    auto first = list("first");
    for (int k = 0; k < 4; ++k) {
      affine(first, a, 3, i);
      first.barrier();
    }
    const Point one = submit(first);
    auto second = list("second");
    blend(second, a, b, i);
    const Point two = submit(second, {{one, WaitKind::data}}, 1);
    auto third = list("third");
    affine(third, a, 1, 1);
    Point three = submit(third, {{two, WaitKind::order}});
    // Freed while all of that may run.
    (void)words(100, "staging", MemoryKind::upload);
    (void)words(200, "back", MemoryKind::readback);
    for (size_t on = 0; on < 2; ++on) queue(on)->retire();
    return three;
  };
  for (uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(stub_reached(round(i)));
  stub().drain();
  const auto before = stub().calls("cuStreamSynchronize");
  const auto waited = stub().synchronising_calls();
  stub().hold();
  std::vector<Point> points;
  for (uint32_t i = 0; i < 8; ++i) points.push_back(round(i));
  stub().release();
  for (uint32_t i = 0; i < 32; ++i) points.push_back(round(i));
  for (const Point& point : points) EXPECT_TRUE(stub_reached(point));
  EXPECT_EQ(stub().calls("cuStreamSynchronize"), before);
  EXPECT_EQ(stub().synchronising_calls(), waited);
  EXPECT_EQ(stub().synchronising_calls(), 0U);
}

TEST_F(CudaSteadyState, device_memory_comes_and_goes_beside_work_in_flight) {
  open();
  stub().register_kernel("waits", [](const testing::StubLaunch& launch) {
    auto* const flag = stub_cuda::pointer_of<uint64_t>(launch.argument<uint64_t>(0));
    while (std::atomic_ref<uint64_t>(*flag).load() == 0) sync::relax(1);
    return cu::CUDA_SUCCESS;
  });
  const auto kernel =
      device().create_pipeline({"waits", stub_kernel("waits", "8"), 1, {}}).or_raise();
  const auto flag = words(2, "flag", MemoryKind::upload);
  std::memset(flag->host_pointer(), 0, 8);
  auto waits = list("waits");
  waits.dispatch(kernel, std::array{Binding::of(flag, Access::read)}, {}, {1, 1, 1});
  const Point point = submit(waits);
  for (int i = 0; i < 10; ++i) {
    const auto memory = words(1000);
    auto fill = list("fill");
    fill.fill(memory, {{}, memory->size()}, std::byte{1});
    EXPECT_TRUE(stub_reached(submit(fill, {}, 1)));
    queue(1)->retire();
  }
  EXPECT_EQ(point.query(), PointState::pending);
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(flag->host_pointer())).store(1);
  EXPECT_TRUE(stub_reached(point));
  EXPECT_EQ(stub().synchronising_calls(), 0U);
}

TEST_F(CudaSteadyState, pinned_memory_freed_in_flight_is_reused_and_freed_later) {
  open();
  const auto data = uploaded({1});
  stub().drain();
  const auto pinned = stub().live()["pinned memory"];
  auto staging = words(64, "first", MemoryKind::upload);
  const std::byte* const at = staging->host_pointer();
  stub().hold();
  auto work = list();
  affine(work, data, 2, 0);
  const Point point = submit(work);
  staging.reset();
  EXPECT_EQ(stub().live()["pinned memory"], pinned + 1);
  const auto allocated = stub().calls("cuMemHostAlloc");
  // Another size takes other memory; the same size takes this.
  auto other = words(65, "other", MemoryKind::upload);
  auto second = words(64, "second", MemoryKind::readback);
  EXPECT_EQ(second->host_pointer(), at);
  EXPECT_EQ(stub().calls("cuMemHostAlloc"), allocated + 1);
  second.reset();
  other.reset();
  EXPECT_EQ(stub().live()["pinned memory"], pinned + 2);
  stub().release();
  EXPECT_TRUE(stub_reached(point));
  // The next that is freed takes all of them along.
  words(1, "last", MemoryKind::upload).reset();
  EXPECT_EQ(stub().live()["pinned memory"], pinned);
  EXPECT_EQ(stub().synchronising_calls(), 0U);
}

}  // namespace
}  // namespace holdfast::hal
