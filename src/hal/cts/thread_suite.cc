#include <atomic>

#include "holdfast/hal/cts/cts.h"

// Several threads on one queue, and the turn that lets them.

namespace holdfast::hal::cts {

namespace {

constexpr uint32_t kThreads = 4;

// Runs body(i) on kThreads threads at once and returns when all have.
void on_threads(const std::function<void(uint32_t)>& body) {
  Counter ready;
  std::vector<sync::Thread> threads;
  threads.reserve(kThreads);
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back("cts " + std::to_string(i), [&, i] {
      ready.add();
      EXPECT_TRUE(ready.reaches(kThreads));
      body(i);
    });
  }
  for (sync::Thread& thread : threads) thread.join();
}

}  // namespace

TEST_P(Cts, threads_may_submit_to_one_queue_at_once) {
  constexpr uint32_t kLists = 100;
  const auto shared = uploaded(Words(64), "shared");
  std::vector<Ref<Allocation>> own;
  std::vector<std::vector<Point>> points(kThreads);
  for (uint32_t i = 0; i < kThreads; ++i) own.push_back(uploaded(Words(64, 1), "own"));
  // Made before: the fixture is not for several threads.
  pipeline("increment");
  pipeline("affine");
  on_threads([&](uint32_t i) {
    for (uint32_t step = 0; step < kLists; ++step) {
      auto work = list();
      increment(work, shared);
      affine(work, own[i], 2 * step + 3, step);
      points[i].push_back(submit(queue(), work));
    }
  });
  std::set<TimelineValue> values;
  for (const auto& of_thread : points) {
    for (size_t step = 0; step < of_thread.size(); ++step) {
      ASSERT_TRUE(reached(of_thread[step]));
      values.insert(of_thread[step].value);
      if (step > 0) {
        ASSERT_LT(of_thread[step - 1].value, of_thread[step].value);
      }
    }
  }
  EXPECT_EQ(values.size(), kThreads * kLists);
  EXPECT_EQ(read(shared), Words(64, kThreads * kLists));
  uint32_t expected = 1;
  for (uint32_t step = 0; step < kLists; ++step) expected = expected * (2 * step + 3) + step;
  for (const auto& each : own) EXPECT_EQ(read(each), Words(64, expected));
}

TEST_P(Cts, every_list_is_retired_once_when_threads_submit_and_retire_at_once) {
  constexpr uint32_t kLists = 100;
  std::atomic<size_t> retired{0};
  std::vector<Imported> data;
  for (uint32_t i = 0; i < kThreads; ++i) data.push_back(imported(Words(64)));
  pipeline("increment");
  std::vector<Point> last(kThreads);
  on_threads([&](uint32_t i) {
    for (uint32_t step = 0; step < kLists; ++step) {
      auto work = list();
      increment(work, data[i].allocation);
      last[i] = submit(queue(), work);
      retired += queue()->retire().size();
    }
    data[i].allocation.reset();
  });
  for (const Point& point : last) ASSERT_TRUE(reached(point));
  retired += queue()->retire().size();
  EXPECT_EQ(retired, kThreads * kLists);
  EXPECT_EQ(queue()->in_flight(), 0U);
  for (const Imported& each : data) {
    EXPECT_TRUE(each.deletions->reaches(1));
    EXPECT_EQ(each.deletions->value(), 1);
  }
}

TEST_P(Cts, threads_on_their_own_queues_may_share_memory_they_read) {
  const Words input = counting(4096);
  const auto shared = uploaded(input, "shared");
  std::vector<Ref<Allocation>> out;
  for (uint32_t i = 0; i < kThreads; ++i) out.push_back(words(4096, "out"));
  pipeline("mix");
  std::vector<Point> last(kThreads);
  on_threads([&](uint32_t i) {
    for (uint32_t step = 1; step <= 20; ++step) {
      auto work = list();
      mix(work, shared, out[i], step + i);
      last[i] = submit(queue(i % device().queues().size()), work);
    }
  });
  for (uint32_t i = 0; i < kThreads; ++i) {
    ASSERT_TRUE(reached(last[i]));
    EXPECT_EQ(read(out[i]), mixed(input, 20 + i));
  }
}

TEST_P(Cts, threads_may_wait_for_one_point_at_once) {
  const Gate closed = gate();
  auto work = list();
  const Point point = submit(queue(), work, {closed.data()});
  std::atomic<int> woken{0};
  on_threads([&](uint32_t i) {
    // The last to come lets the others go.
    if (i == 0) closed.open();
    if (reached(point)) ++woken;
  });
  EXPECT_EQ(woken, static_cast<int>(kThreads));
}

TEST_P(Cts, threads_may_create_and_drop_objects_at_once) {
  on_threads([&](uint32_t i) {
    for (int step = 0; step < 20; ++step) {
      const auto data = words(64, "data " + std::to_string(i));
      const auto kernel = make_pipeline("increment");
      auto work = list();
      const std::vector bindings{Binding::of(data, Access::read_write)};
      work.fill(data, {{}, data->size()}, std::byte{0});
      work.barrier();
      work.dispatch(kernel, bindings, {}, groups_for(64));
      submit(queue(), work);
      queue()->retire();
    }
  });
  auto last = list();
  EXPECT_TRUE(reached(submit(queue(), last)));
}

TEST_P(Cts, a_turn_belongs_to_one_at_a_time) {
  auto turn = queue()->try_take_turn();
  ASSERT_TRUE(turn.has_value());
  bool given = true;
  bool given_late = true;
  sync::Thread other("other", [&] {
    given = queue()->try_take_turn().has_value();
    given_late =
        queue()->take_turn(sync::Deadline::after(std::chrono::milliseconds(1))).has_value();
  });
  other.join();
  EXPECT_FALSE(given);
  EXPECT_FALSE(given_late);
  EXPECT_FALSE(queue()->try_take_turn().has_value()) << "not even twice to one task";
  if (has_two_queues()) {
    EXPECT_TRUE(queue(1)->try_take_turn().has_value()) << "each queue has its own";
  }
  turn.reset();
  EXPECT_TRUE(queue()->try_take_turn().has_value());
}

TEST_P(Cts, a_turn_given_back_goes_to_who_waits_for_it) {
  auto turn = queue()->take_turn(patience());
  ASSERT_TRUE(turn.has_value());
  const auto started = std::make_shared<Counter>();
  bool given = false;
  sync::Thread other("other", [&, started] {
    started->add();
    given = queue()->take_turn(patience()).has_value();
  });
  EXPECT_TRUE(started->reaches(1));
  turn.reset();
  other.join();
  EXPECT_TRUE(given);
  EXPECT_TRUE(queue()->try_take_turn().has_value()) << "and came back from there";
}

TEST_P(Cts, a_moved_turn_is_given_back_once) {
  auto turn = queue()->take_turn(patience());
  ASSERT_TRUE(turn.has_value());
  {
    const Queue::Turn moved(std::move(*turn));
    turn.reset();
    EXPECT_FALSE(queue()->try_take_turn().has_value());
    auto work = list();
    EXPECT_TRUE(reached(queue()->submit(moved, work).or_raise()));
  }
  EXPECT_TRUE(queue()->try_take_turn().has_value());
}

TEST_P(Cts, nobody_submits_between_two_lists_of_one_turn) {
  std::atomic<bool> stop{false};
  std::vector<Point> others;
  sync::Thread noise("noise", [&] {
    while (!stop) {
      auto work = list();
      others.push_back(submit(queue(), work));
      queue()->retire();
    }
  });
  std::vector<std::pair<Point, Point>> pairs;
  for (int i = 0; i < 50; ++i) {
    auto one = list("one");
    auto two = list("two");
    const auto turn = queue()->take_turn(patience());
    ASSERT_TRUE(turn.has_value());
    const Point first = queue()->submit(*turn, one).or_raise();
    const Point second = queue()->submit(*turn, two, {{first, WaitKind::data}}).or_raise();
    pairs.emplace_back(first, second);
  }
  stop = true;
  noise.join();
  for (const auto& [first, second] : pairs) {
    EXPECT_TRUE(reached(second));
    for (const Point& other : others) {
      ASSERT_FALSE(first.value < other.value && other.value < second.value);
    }
  }
}

TEST_P(Cts, recording_query_and_retirement_need_no_turn) {
  auto before = list();
  const Point point = submit(queue(), before);
  const auto turn = queue()->take_turn(patience());
  ASSERT_TRUE(turn.has_value());
  auto work = list();
  const auto data = words(64, "data");
  store(work, data, 1);
  EXPECT_TRUE(reached(point));
  EXPECT_EQ(queue()->retire().size(), 1U);
  EXPECT_FALSE(queue()->oldest().has_value());
  EXPECT_TRUE(reached(queue()->submit(*turn, work).or_raise()));
}

TEST_P(Cts, the_turn_of_another_queue_is_refused) {
  if (!has_two_queues()) GTEST_SKIP() << "one queue";
  auto work = list();
  const auto turn = queue(1)->take_turn(patience());
  ASSERT_TRUE(turn.has_value());
  bool refused = false;
  try {
    refused = !queue(0)->submit(*turn, work).ok();
  } catch (const UsageError&) {
    refused = true;
  }
  ASSERT_TRUE(refused);
  EXPECT_EQ(work.ticket()->state(), TicketState::open);
  EXPECT_TRUE(reached(queue(1)->submit(*turn, work).or_raise()));
}

}  // namespace holdfast::hal::cts
