#include "holdfast/hal/cts/cts.h"

// Failures as values on Points, and whom they reach.

namespace holdfast::hal::cts {

namespace {

using testing::HasSubstr;

Failure cause_named(const std::string& name) { return {ErrorCode::execution, name}; }

}  // namespace

TEST_P(Cts, a_kernel_that_fails_fails_the_point_of_its_list) {
  auto work = list("unlucky list");
  dispatch(work, "fail", {}, {}, {1, 1, 1}, "unlucky kernel");
  const Point point = submit(queue(), work);
  ASSERT_TRUE(failed(point));
  EXPECT_EQ(point.query(), PointState::failed);
  EXPECT_EQ(point.failure().code(), ErrorCode::execution);
  EXPECT_THAT(point.failure().message(), HasSubstr("unlucky kernel"));
  EXPECT_FALSE(device().lost());
}

TEST_P(Cts, a_kernel_that_fails_in_many_groups_fails_its_list_once) {
  auto work = list();
  dispatch(work, "fail", {}, {}, {1000, 1, 1});
  dispatch(work, "fail", {}, {}, {1000, 1, 1});
  const Point point = submit(queue(), work);
  ASSERT_TRUE(failed(point));
  const Failure first = point.failure();
  EXPECT_TRUE(failed_with(point, first));
}

TEST_P(Cts, lists_behind_a_failed_kernel_run) {
  const auto data = uploaded(Words(64, 1), "data");
  for (uint32_t i = 0; i < 10; ++i) {
    auto bad = list("bad");
    dispatch(bad, "fail", {}, {}, {3, 1, 1});
    auto good = list("good");
    increment(good, data);
    const Point failing = submit(queue(), bad);
    const Point after = submit(queue(), good);
    EXPECT_TRUE(reached(after));
    EXPECT_TRUE(failed(failing));
    EXPECT_FALSE(after.failure());
  }
  EXPECT_EQ(read(data), Words(64, 11));
}

TEST_P(Cts, each_failed_list_has_a_cause_of_its_own) {
  auto first = list("first");
  dispatch(first, "fail", {}, {}, {1, 1, 1}, "kernel one");
  auto second = list("second");
  dispatch(second, "fail", {}, {}, {1, 1, 1}, "kernel two");
  const Point one = submit(queue(), first);
  const Point two = submit(queue(), second);
  ASSERT_TRUE(failed(one));
  ASSERT_TRUE(failed(two));
  EXPECT_NE(one.failure(), two.failure());
  EXPECT_THAT(one.failure().message(), HasSubstr("kernel one"));
  EXPECT_THAT(two.failure().message(), HasSubstr("kernel two"));
}

TEST_P(Cts, a_program_that_fails_fails_the_replay_only) {
  auto steps = list("failing program");
  dispatch(steps, "fail", {}, {}, {1, 1, 1});
  const auto program = device().create_program(steps).or_raise();
  for (int i = 0; i < 3; ++i) {
    auto one = replay(program, {});
    EXPECT_TRUE(failed(submit(queue(), one)));
  }
  auto good = list();
  EXPECT_TRUE(reached(submit(queue(), good)));
}

TEST_P(Cts, the_cause_is_stored_before_the_point_answers) {
  for (int round = 0; round < 50; ++round) {
    const Gate closed = gate();
    auto work = list();
    const Point point = submit(queue(), work, {closed.data()});
    bool seen = false;
    bool had_cause = false;
    sync::Thread watcher("watcher", [&] {
      const sync::Deadline limit = patience();
      while (point.query() != PointState::failed && !limit.passed()) {
      }
      had_cause = static_cast<bool>(point.failure());
      seen = point.query() == PointState::failed;
    });
    closed.fail(cause_named("round"));
    watcher.join();
    ASSERT_TRUE(seen);
    ASSERT_TRUE(had_cause);
  }
}

TEST_P(Cts, a_data_wait_passes_failure_on_with_the_same_cause_and_runs_nothing) {
  const Failure cause = cause_named("spilled coffee");
  for (size_t on = 0; on < device().queues().size(); ++on) {
    const auto data = uploaded(Words(64, 1), "data");
    const Point bad = failed_point(queue(0), cause);
    auto work = list("dependant");
    store(work, data, 99);
    const Point point = submit(queue(on), work, {{bad, WaitKind::data}});
    EXPECT_TRUE(failed_with(point, cause)) << "on queue " << on;
    EXPECT_EQ(read(data), Words(64, 1));
  }
}

TEST_P(Cts, a_data_wait_on_a_point_that_fails_later_passes_it_on) {
  const Failure cause = cause_named("late");
  const auto data = uploaded(Words(64, 1), "data");
  const Gate closed = gate();
  auto first = list("first");
  auto second = list("second");
  store(second, data, 2);
  const Point one = submit(queue(0), first, {closed.data()});
  const Point two = submit(queue(device().queues().size() - 1), second, {{one, WaitKind::data}});
  EXPECT_TRUE(pending(two));
  closed.fail(cause);
  EXPECT_TRUE(failed_with(two, cause));
  EXPECT_TRUE(failed_with(one, cause));
  EXPECT_EQ(read(data), Words(64, 1));
}

TEST_P(Cts, an_order_wait_is_met_by_a_failure) {
  const Failure cause = cause_named("not yours");
  for (size_t on = 0; on < device().queues().size(); ++on) {
    const auto data = uploaded(Words(64, 1), "data");
    const Point bad = failed_point(queue(0), cause);
    auto work = list("later");
    store(work, data, 99);
    const Point point = submit(queue(on), work, {{bad, WaitKind::order}});
    EXPECT_TRUE(reached(point)) << "on queue " << on;
    EXPECT_FALSE(point.failure());
    EXPECT_EQ(read(data), Words(64, 99));
  }
}

TEST_P(Cts, of_a_data_and_an_order_wait_on_one_failed_point_the_data_wait_counts) {
  const Failure cause = cause_named("both");
  const Point bad = failed_point(queue(), cause);
  auto one = list();
  EXPECT_TRUE(
      failed_with(submit(queue(), one, {{bad, WaitKind::order}, {bad, WaitKind::data}}), cause));
  auto two = list();
  EXPECT_TRUE(
      failed_with(submit(queue(), two, {{bad, WaitKind::data}, {bad, WaitKind::order}}), cause));
}

TEST_P(Cts, failure_travels_along_data_waits_from_queue_to_queue) {
  const Failure cause = cause_named("root");
  const Gate closed = gate();
  Wait wait = closed.data();
  std::vector<Point> points;
  for (size_t i = 0; i < 3 * device().queues().size(); ++i) {
    auto work = list();
    points.push_back(submit(queue(i % device().queues().size()), work, {wait}));
    wait = {points.back(), WaitKind::data};
  }
  auto bystander = list("bystander");
  const Point unharmed = submit(queue(), bystander, {{points.back(), WaitKind::order}});
  closed.fail(cause);
  for (const Point& point : points) EXPECT_TRUE(failed_with(point, cause));
  EXPECT_TRUE(reached(unharmed));
}

TEST_P(Cts, a_failed_kernel_passes_its_cause_along_data_waits) {
  auto bad = list("bad");
  dispatch(bad, "fail", {}, {}, {1, 1, 1});
  const auto data = uploaded(Words(64, 1), "data");
  auto dependant = list("dependant");
  store(dependant, data, 2);
  const Point root = submit(queue(), bad);
  const Point same = submit(queue(), dependant, {{root, WaitKind::data}});
  ASSERT_TRUE(failed(root));
  EXPECT_TRUE(failed_with(same, root.failure()));
  EXPECT_EQ(read(data), Words(64, 1));
}

TEST_P(Cts, a_list_that_fails_early_resolves_only_after_all_it_waits_for) {
  const Failure cause = cause_named("early");
  const Point bad = failed_point(queue(), cause);
  for (const bool bad_first : {true, false}) {
    for (const WaitKind kind : {WaitKind::data, WaitKind::order}) {
      const Gate closed = gate();
      const Wait early{bad, WaitKind::data};
      const Wait late{closed.point(), kind};
      auto work = list();
      const Point point =
          submit(queue(), work, bad_first ? std::vector{early, late} : std::vector{late, early});
      // A list behind it gives the queue time to err.
      if (has_two_queues()) {
        auto elsewhere = list();
        EXPECT_TRUE(reached(submit(queue(1), elsewhere)));
      }
      EXPECT_TRUE(pending(point));
      EXPECT_FALSE(point.failure());
      closed.open();
      EXPECT_TRUE(failed_with(point, cause));
    }
  }
}

TEST_P(Cts, a_list_that_fails_early_resolves_only_after_the_lists_before_it) {
  const Failure cause = cause_named("early");
  const Point bad = failed_point(queue(), cause);
  const Gate closed = gate();
  auto before = list("before");
  auto doomed = list("doomed");
  const Point first = submit(queue(), before, {closed.data()});
  const Point second = submit(queue(), doomed, {{bad, WaitKind::data}});
  EXPECT_TRUE(pending(first));
  EXPECT_TRUE(pending(second));
  closed.open();
  EXPECT_TRUE(failed_with(second, cause));
  EXPECT_EQ(first.query(), PointState::reached);
  EXPECT_FALSE(first.failure());
}

TEST_P(Cts, failed_and_reached_points_of_one_timeline_keep_their_answers) {
  const Failure cause = cause_named("odd ones");
  const Gate failing = gate();
  failing.fail(cause);
  std::vector<Point> points;
  for (size_t i = 0; i < 40; ++i) {
    auto work = list();
    points.push_back(submit(
        queue(), work, i % 2 == 1 ? std::vector{failing.data()} : std::vector{failing.order()}));
  }
  ASSERT_TRUE(resolved(points.back()));
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < 40; ++i) {
      EXPECT_EQ(points[i].query(), i % 2 == 1 ? PointState::failed : PointState::reached) << i;
      EXPECT_EQ(points[i].failure(), i % 2 == 1 ? cause : Failure()) << i;
    }
    queue()->retire();
  }
}

TEST_P(Cts, a_failed_list_is_retired_and_tells_its_ticket_the_cause) {
  const Failure cause = cause_named("for the ticket");
  const Gate closed = gate();
  auto work = list();
  const auto ticket = work.ticket();
  Imported data = imported(Words(64));
  increment(work, data.allocation);
  data.allocation.reset();
  const Point point = submit(queue(), work, {closed.data()});
  closed.fail(cause);
  ASSERT_TRUE(failed_with(point, cause));
  EXPECT_FALSE(ticket->is_over());
  EXPECT_FALSE(ticket->failure()) << "none before it is over";
  EXPECT_EQ(data.deletions->value(), 0);
  EXPECT_EQ(queue()->retire().size(), 1U);
  EXPECT_EQ(ticket->state(), TicketState::seen);
  EXPECT_EQ(ticket->failure(), cause);
  EXPECT_TRUE(data.deletions->reaches(1));
}

}  // namespace holdfast::hal::cts
