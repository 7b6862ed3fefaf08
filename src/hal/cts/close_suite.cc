#include <atomic>

#include "holdfast/hal/cts/cts.h"

// Closing a device, idle or with work that cannot finish.

namespace holdfast::hal::cts {

namespace {

using ::testing::HasSubstr;

constexpr size_t kCloseElements = 4096;

sync::Deadline at_once() { return sync::Deadline::after({}); }

}  // namespace

TEST_P(Cts, closing_an_idle_device_is_clean_and_may_be_repeated) {
  for (int i = 0; i < 2; ++i) {
    const CloseReport report = device().close(patience());
    EXPECT_TRUE(report.clean());
    EXPECT_EQ(report.lists_left, 0U);
    EXPECT_EQ(report.details, "");
  }
  ASSERT_TRUE(device().lost());
  EXPECT_EQ(device().lost().code(), ErrorCode::closed);
}

TEST_P(Cts, closing_lets_lists_in_flight_finish) {
  Imported data = imported(Words(kCloseElements, 1));
  const auto scratch = words(kCloseElements, "scratch");
  std::vector<Point> points;
  for (size_t i = 0; i < 10; ++i) {
    auto work = list();
    mix(work, data.allocation, scratch, 500);
    work.barrier();
    increment(work, data.allocation);
    std::vector<Wait> waits;
    if (!points.empty()) waits.push_back({points.back(), WaitKind::data});
    points.push_back(submit(queue(i % device().queues().size()), work, waits));
  }
  const CloseReport report = device().close(patience());
  EXPECT_TRUE(report.clean()) << report.details;
  for (const Point& point : points) EXPECT_EQ(point.query(), PointState::reached);
  EXPECT_EQ(data.words[0], 11U);
}

TEST_P(Cts, closing_fails_what_cannot_finish_in_time) {
  const Gate closed = gate();
  // Queues share nothing that is written: nothing orders them.
  std::vector<Imported> data;
  std::vector<Point> points;
  for (const Ref<Queue>& each : device().queues()) {
    data.push_back(imported(Words(kCloseElements, 1)));
    for (int i = 0; i < 2; ++i) {
      auto work = list("stuck");
      increment(work, data.back().allocation);
      points.push_back(submit(each, work, {closed.order()}));
    }
  }
  const CloseReport report = device().close(at_once());
  EXPECT_EQ(report.clean(), report.details.empty());
  for (const Point& point : points) {
    ASSERT_TRUE(failed(point));
    EXPECT_EQ(point.failure().code(), ErrorCode::closed);
  }
  for (const Imported& each : data) EXPECT_EQ(each.words[0], 1U) << "nothing of it ran";
  // What the host does now comes too late.
  closed.open();
  for (const Point& point : points) EXPECT_EQ(point.query(), PointState::failed);
  for (const Ref<Queue>& each : device().queues()) each->retire();
  for (Imported& each : data) {
    EXPECT_EQ(each.deletions->value(), 0) << "the test still uses it";
    each.allocation.reset();
    EXPECT_TRUE(each.deletions->reaches(1));
  }
}

TEST_P(Cts, a_closed_device_refuses_new_work_and_leaves_it_with_the_caller) {
  const auto data = uploaded(Words(kCloseElements, 1), "data");
  auto steps = list("steps");
  auto work = list("too late");
  increment(work, data);
  device().close(patience());
  const auto refused = queue()->submit(work);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code(), ErrorCode::closed);
  EXPECT_EQ(work.ticket()->state(), TicketState::open);
  EXPECT_EQ(work.command_count(), 1U);
  EXPECT_EQ(queue()->in_flight(), 0U);
  EXPECT_FALSE(device().create_buffer({{64}, MemoryKind::device, "late"}).ok());
  EXPECT_FALSE(device().create_pipeline({"late", GetParam().module("increment", {}), 1, {}}).ok());
  EXPECT_FALSE(device().create_program(steps).ok());
}

TEST_P(Cts, points_of_a_closed_device_keep_their_answers) {
  auto good = list();
  const Point before = submit(queue(), good);
  ASSERT_TRUE(reached(before));
  const Failure cause(ErrorCode::execution, "long ago");
  const Point bad = failed_point(queue(), cause);
  device().close(patience());
  EXPECT_EQ(before.query(), PointState::reached);
  EXPECT_EQ(bad.query(), PointState::failed);
  EXPECT_EQ(bad.failure(), cause);
  drop_device();
  EXPECT_EQ(before.query(), PointState::reached);
  EXPECT_EQ(bad.failure(), cause);
}

TEST_P(Cts, a_thread_that_waits_for_a_point_is_woken_when_its_device_goes) {
  const Gate closed = gate();
  auto work = list();
  const Point point = submit(queue(), work, {closed.data()});
  const auto waiting = std::make_shared<Counter>();
  PointState answer = PointState::pending;
  sync::Thread waiter("waiter", [&, waiting] {
    waiting->add();
    answer = point.timeline->wait(point.value, patience());
  });
  EXPECT_TRUE(waiting->reaches(1));
  drop_device();
  waiter.join();
  EXPECT_EQ(answer, PointState::failed);
}

TEST_P(Cts, a_point_of_a_dropped_device_can_be_waited_for_by_the_host_and_by_no_other_device) {
  const Gate closed = gate();
  auto work = list();
  const Point point = submit(queue(), work, {closed.data()});
  const Ref<Device> other = open_another();
  drop_device();
  EXPECT_TRUE(resolved(point));
  CommandList waiting(other->info(), "waiting");
  EXPECT_FALSE(other->queues()[0]->submit(waiting, {{point, WaitKind::data}}).ok());
  EXPECT_TRUE(reached(submit(other->queues()[0], waiting)));
}

TEST_P(Cts, closing_from_two_threads_at_once_is_one_close) {
  const Gate closed = gate();
  auto work = list();
  const Point point = submit(queue(), work, {closed.data()});
  sync::Thread second("second", [&] { device().close(at_once()); });
  device().close(at_once());
  second.join();
  EXPECT_TRUE(failed(point));
}

TEST_P(Cts, submits_that_race_with_a_close_are_run_or_refused) {
  constexpr int kThreads = 3;
  Counter submitted;
  std::vector<std::vector<Point>> points(kThreads);
  std::atomic<bool> refused_otherwise{false};
  {
    std::vector<sync::Thread> threads;
    threads.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back("submitter", [&, t] {
        for (;;) {
          auto work = list();
          const auto point = queue(static_cast<size_t>(t) % device().queues().size())->submit(work);
          if (!point.ok()) {
            if (point.failure().code() != ErrorCode::closed) refused_otherwise = true;
            return;
          }
          points[static_cast<size_t>(t)].push_back(point.value());
          submitted.add();
        }
      });
    }
    EXPECT_TRUE(submitted.reaches(30));
    device().close(patience());
  }
  EXPECT_FALSE(refused_otherwise);
  for (const auto& of_thread : points) {
    for (const Point& point : of_thread) ASSERT_TRUE(resolved(point));
  }
}

TEST_P(Cts, a_native_callback_that_does_not_return_is_reported_and_its_memory_left_alone) {
  const auto entered = std::make_shared<Counter>();
  const auto release = std::make_shared<Counter>();
  auto data = uploaded(Words(kCloseElements, 1), "data");
  auto work = list("stubborn");
  const std::vector bindings{Binding::of(data, Access::read_write)};
  work.native(
      [entered, release](const NativeCall& call) {
        entered->add();
        EXPECT_TRUE(release->reaches(1));
        std::ranges::fill(call.host_bindings[0], std::byte{7});
      },
      bindings);
  data.reset();
  const Point point = submit(queue(), work);
  ASSERT_TRUE(entered->reaches(1));
  const CloseReport report = device().close(at_once());
  EXPECT_FALSE(report.clean());
  EXPECT_EQ(report.lists_left, 1U);
  EXPECT_THAT(report.details, HasSubstr("stubborn"));
  EXPECT_TRUE(pending(point)) << "its list can still touch memory";
  queue()->retire();
  release->add();
  EXPECT_TRUE(resolved(point));
}

TEST_P(Cts, a_second_close_does_not_say_clean_while_a_list_runs) {
  const auto entered = std::make_shared<Counter>();
  const auto release = std::make_shared<Counter>();
  auto work = list("busy");
  work.native(
      [entered, release](const NativeCall&) {
        entered->add();
        EXPECT_TRUE(release->reaches(1));
      },
      {});
  const Point point = submit(queue(), work);
  ASSERT_TRUE(entered->reaches(1));
  sync::Thread first("first", [&] { device().close(patience()); });
  // The first close has begun once new work is refused.
  for (const sync::Deadline limit = patience(); !limit.passed();) {
    auto probe = list("probe");
    if (!queue()->submit(probe).ok()) break;
  }
  Counter returned;
  bool clean = false;
  bool was_resolved = false;
  sync::Thread second("second", [&] {
    clean = device().close(at_once()).clean();
    was_resolved = !point.pending();
    returned.add();
  });
  // A second close may also wait for the first, which the list must then let go.
  returned.reaches(1, sync::Deadline::after(std::chrono::seconds(1)));
  release->add();
  second.join();
  first.join();
  EXPECT_TRUE(!clean || was_resolved);
}

TEST_P(Cts, no_value_of_a_timeline_is_pending_once_its_device_is_gone) {
  const Ref<Timeline> timeline = queue()->timeline();
  auto work = list();
  const Point point = submit(queue(), work);
  ASSERT_TRUE(reached(point));
  EXPECT_EQ(timeline->query(point.value.next()), PointState::pending);
  drop_device();
  EXPECT_EQ(timeline->query(point.value), PointState::reached);
  EXPECT_EQ(timeline->wait(point.value.next(), at_once()), PointState::failed);
  EXPECT_TRUE(timeline->failure(point.value.next()));
}

// What a list owns is dropped where its device is closed, and may close it again.

TEST_P(Cts, a_deleter_may_close_the_device_that_lets_go_of_it) {
  const Gate closed = gate();
  Imported data;
  ExternalMemory memory = external(Words(64), "memory", data);
  Device* const own = &device();
  const auto returned = std::make_shared<Counter>();
  memory.deleter = [free = memory.deleter, own, returned] {
    free();
    own->close(at_once());
    returned->add();
  };
  data.allocation = Allocation::whole(device().import_buffer(std::move(memory)).or_raise());
  auto work = list("stuck");
  increment(work, data.allocation);
  const Point point = submit(queue(), work, {closed.data()});
  data.allocation.reset();
  device().close(at_once());
  queue()->retire();
  EXPECT_TRUE(returned->reaches(1));
  EXPECT_TRUE(failed(point));
  EXPECT_TRUE(device().close(at_once()).clean()) << "the first close has its own report";
}

TEST_P(Cts, a_callback_may_own_the_last_ref_to_its_device) {
  struct Owner {
    Ref<Device> device;
    std::shared_ptr<Counter> gone;
    Owner(Ref<Device> d, std::shared_ptr<Counter> g) : device(std::move(d)), gone(std::move(g)) {}
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    ~Owner() {
      device.reset();
      gone->add();
    }
  };
  const auto gone = std::make_shared<Counter>();
  const Gate closed = gate();
  auto owner = std::make_shared<Owner>(open_another(), gone);
  Device& own = *owner->device;
  CommandList work(own.info(), "owner");
  work.native([owner](const NativeCall&) {}, {});
  const Point point = submit(own.queues()[0], work, {closed.data()});
  owner.reset();
  own.close(at_once());  // from here on there is no device
  EXPECT_TRUE(gone->reaches(1));
  EXPECT_TRUE(failed(point));
}

TEST_P(Cts, a_deleter_may_own_the_last_ref_to_its_device) {
  const Gate closed = gate();
  auto holder = std::make_shared<Ref<Device>>(open_another());
  Device& own = **holder;
  Imported data;
  ExternalMemory memory = external(Words(64), "memory", data);
  const auto returned = std::make_shared<Counter>();
  memory.deleter = [free = memory.deleter, holder, returned] {
    free();
    holder->reset();
    returned->add();
  };
  data.allocation = Allocation::whole(own.import_buffer(std::move(memory)).or_raise());
  CommandList work(own.info(), "owner");
  work.fill(data.allocation, range(0, 256), std::byte{1});
  const Point point = submit(own.queues()[0], work, {closed.data()});
  data.allocation.reset();
  holder.reset();
  own.close(at_once());  // from here on there is no device
  EXPECT_TRUE(returned->reaches(1));
  EXPECT_TRUE(failed(point));
}

}  // namespace holdfast::hal::cts
