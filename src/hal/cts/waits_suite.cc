#include "holdfast/hal/cts/cts.h"
#include "holdfast/hal/relay_timeline.h"

// Order across queues and with the host, through waits on Points.

namespace holdfast::hal::cts {

namespace {

constexpr size_t kWaitsElements = 16384;
constexpr uint32_t kSlowWait = 400;

}  // namespace

TEST_P(Cts, a_list_waits_for_the_host) {
  for (const WaitKind kind : {WaitKind::data, WaitKind::order}) {
    const auto out = words(64, "out", MemoryKind::readback);
    auto before = list("before");
    before.fill(out, {{}, out->size()}, std::byte{0x11});
    ASSERT_TRUE(reached(submit(queue(), before)));

    const Gate closed = gate();
    auto after = list("after");
    after.fill(out, {{}, out->size()}, std::byte{0x22});
    const Point point = submit(queue(), after, {{closed.point(), kind}});
    EXPECT_TRUE(pending(point));
    EXPECT_EQ(*out->host_pointer(), std::byte{0x11});
    closed.open();
    EXPECT_TRUE(reached(point));
    EXPECT_EQ(*out->host_pointer(), std::byte{0x22});
  }
}

TEST_P(Cts, a_list_waits_for_a_relayed_point_of_another_device) {
  const auto other = make_ref<HostTimeline>(DeviceId::next(), "queue of another device");
  const auto relayed = [&](uint64_t value) {
    return Point{make_ref<RelayTimeline>(Point{other, {value}}, ResourceId::next(),
                                         ByteRange{{}, 4_B}, "relay"),
                 {1}};
  };
  auto first = list("first");
  const Point point = submit(queue(), first, {{relayed(1), WaitKind::data}});
  auto second = list("second");
  const Point later = submit(queue(), second, {{relayed(2), WaitKind::data}});
  EXPECT_TRUE(pending(point));
  other->signal({1});
  EXPECT_TRUE(reached(point));
  EXPECT_TRUE(pending(later));
  const Failure cause(ErrorCode::execution, "it broke over there");
  other->fail({2}, cause);
  EXPECT_TRUE(failed_with(later, cause));
}

TEST_P(Cts, a_wait_with_a_passed_deadline_answers_pending_at_once) {
  const Gate closed = gate();
  auto work = list();
  const Point point = submit(queue(), work, {closed.data()});
  EXPECT_EQ(point.timeline->wait(point.value, sync::Deadline::after({})), PointState::pending);
  EXPECT_FALSE(point.failure());
  closed.open();
  EXPECT_TRUE(reached(point));
  EXPECT_EQ(point.timeline->wait(point.value, sync::Deadline::after({})), PointState::reached);
  EXPECT_FALSE(point.failure());
}

TEST_P(Cts, a_list_waits_for_all_its_points) {
  const Gate first = gate("first");
  const Gate second = gate("second");
  const Gate third = gate("third");
  auto work = list();
  const Point point = submit(queue(), work, {first.data(), second.order(), third.data()});
  second.open();
  EXPECT_TRUE(pending(point));
  third.open();
  EXPECT_TRUE(pending(point));
  first.open();
  EXPECT_TRUE(reached(point));
}

TEST_P(Cts, waits_count_values_of_a_host_timeline) {
  const Gate steps = gate("steps");
  auto early = list("early");
  auto late = list("late");
  const Point two = submit(queue(), early, {{{steps.timeline, {2}}, WaitKind::data}});
  const Point five = submit(queue(), late, {{{steps.timeline, {5}}, WaitKind::data}});
  steps.timeline->signal({1});
  EXPECT_TRUE(pending(two));
  steps.timeline->signal({4});
  EXPECT_TRUE(reached(two));
  EXPECT_TRUE(pending(five));
  steps.timeline->signal({9});
  EXPECT_TRUE(reached(five));
}

TEST_P(Cts, a_wait_on_what_is_already_over_is_met) {
  const Gate opened = gate();
  opened.open();
  auto first = list("first");
  const Point before = submit(queue(), first);
  ASSERT_TRUE(reached(before));
  auto work = list();
  EXPECT_TRUE(reached(
      submit(queue(), work, {opened.data(), {before, WaitKind::data}, {before, WaitKind::order}})));
}

TEST_P(Cts, a_default_point_is_nothing_to_wait_for) {
  EXPECT_EQ(Point().query(), PointState::reached);
  EXPECT_FALSE(Point().failure());
  auto work = list();
  EXPECT_TRUE(reached(submit(queue(), work, {Wait{}, Wait{Point(), WaitKind::order}})));
}

TEST_P(Cts, a_gated_list_keeps_later_lists_of_its_queue_behind_it) {
  const Gate closed = gate();
  const auto data = uploaded(Words(64, 1), "data");
  auto first = list("first");
  affine(first, data, 3, 0);
  auto second = list("second");
  affine(second, data, 1, 1);
  const Point one = submit(queue(), first, {closed.data()});
  const Point two = submit(queue(), second);
  EXPECT_TRUE(pending(one));
  EXPECT_TRUE(pending(two));
  closed.open();
  EXPECT_TRUE(reached(two));
  EXPECT_EQ(read(data), Words(64, 4));
}

TEST_P(Cts, a_gated_queue_leaves_the_others_alone) {
  if (!has_two_queues()) GTEST_SKIP() << "one queue";
  const Gate closed = gate();
  auto gated = list("gated");
  const Point stuck = submit(queue(0), gated, {closed.data()});
  for (size_t i = 1; i < device().queues().size(); ++i) {
    auto work = list("free");
    EXPECT_TRUE(reached(submit(queue(i), work)));
  }
  EXPECT_TRUE(pending(stuck));
  closed.open();
  EXPECT_TRUE(reached(stuck));
}

TEST_P(Cts, a_data_wait_orders_a_read_on_another_queue_after_the_write) {
  if (!has_two_queues()) GTEST_SKIP() << "one queue";
  const Words input = counting(kWaitsElements);
  const auto a = uploaded(input, "a");
  const auto b = uploaded(Words(kWaitsElements), "b");
  const auto c = words(kWaitsElements, "c");
  auto write = list("write");
  mix(write, a, b, kSlowWait);
  auto read_it = list("read");
  mix(read_it, b, c, 1);
  const Point written = submit(queue(0), write);
  EXPECT_TRUE(reached(submit(queue(1), read_it, {{written, WaitKind::data}})));
  EXPECT_EQ(read(c), mixed(mixed(input, kSlowWait), 1));
}

TEST_P(Cts, an_order_wait_keeps_a_write_on_another_queue_behind_the_read) {
  if (!has_two_queues()) GTEST_SKIP() << "one queue";
  const Words input = counting(kWaitsElements);
  const auto data = uploaded(input, "data");
  const auto out = words(kWaitsElements, "out");
  auto read_it = list("read");
  mix(read_it, data, out, kSlowWait);
  auto overwrite = list("overwrite");
  store(overwrite, data, 0);
  const Point seen = submit(queue(0), read_it);
  EXPECT_TRUE(reached(submit(queue(1), overwrite, {{seen, WaitKind::order}})));
  EXPECT_EQ(read(out), mixed(input, kSlowWait));
  EXPECT_EQ(read(data), Words(kWaitsElements));
}

TEST_P(Cts, work_handed_from_queue_to_queue_runs_in_order) {
  Words expected = counting(512);
  const auto data = uploaded(expected, "data");
  Point last;
  for (uint32_t step = 0; step < 200; ++step) {
    auto work = list("step " + std::to_string(step));
    affine(work, data, 2 * step + 3, step);
    last = submit(queue(step % device().queues().size()), work, {{last, WaitKind::data}});
    for (uint32_t& x : expected) x = x * (2 * step + 3) + step;
  }
  EXPECT_TRUE(reached(last));
  EXPECT_EQ(read(data), expected);
}

TEST_P(Cts, a_diamond_of_waits_joins_both_branches) {
  if (!has_two_queues()) GTEST_SKIP() << "one queue";
  const Words input = counting(kWaitsElements);
  const auto source = uploaded(input, "source");
  const auto top = words(kWaitsElements, "top");
  const auto left = words(kWaitsElements, "left");
  const auto right = words(kWaitsElements, "right");
  const auto size = top->size();
  const auto joined = buffer(size + size, "joined");
  auto first = list("top");
  mix(first, source, top, kSlowWait);
  const Point above = submit(queue(0), first);
  auto one = list("left");
  mix(one, top, left, kSlowWait);
  auto two = list("right");
  mix(two, top, right, 2);
  const Point on_left = submit(queue(1), one, {{above, WaitKind::data}});
  const Point on_right =
      submit(queue(device().queues().size() - 1), two, {{above, WaitKind::data}});
  auto join = list("join");
  join.copy(left, {{}, size}, joined, {{}, size});
  join.copy(right, {{}, size}, joined, {size, size});
  EXPECT_TRUE(
      reached(submit(queue(0), join, {{on_left, WaitKind::data}, {on_right, WaitKind::data}})));
  Words expected = mixed(mixed(input, kSlowWait), kSlowWait);
  const Words rest = mixed(mixed(input, kSlowWait), 2);
  expected.insert(expected.end(), rest.begin(), rest.end());
  EXPECT_EQ(read(joined), expected);
}

TEST_P(Cts, a_chain_of_gated_lists_across_queues_runs_once_the_first_is_let_go) {
  const Gate closed = gate();
  std::vector<Point> points;
  Wait wait = closed.data();
  for (size_t i = 0; i < 3 * device().queues().size(); ++i) {
    auto work = list();
    points.push_back(submit(queue(i % device().queues().size()), work, {wait}));
    wait = {points.back(), i % 2 == 0 ? WaitKind::data : WaitKind::order};
  }
  for (const Point& point : points) EXPECT_TRUE(pending(point));
  closed.open();
  for (const Point& point : points) EXPECT_TRUE(reached(point));
}

TEST_P(Cts, a_list_with_a_hundred_waits_waits_for_the_last) {
  std::vector<Gate> gates;
  std::vector<Wait> waits;
  for (int i = 0; i < 100; ++i) {
    gates.push_back(gate());
    waits.push_back(i % 2 == 0 ? gates.back().data() : gates.back().order());
  }
  auto work = list();
  const Point point = submit(queue(), work, waits);
  for (size_t i = gates.size() - 1; i > 0; --i) gates[i].open();
  EXPECT_TRUE(pending(point));
  gates[0].open();
  EXPECT_TRUE(reached(point));
}

TEST_P(Cts, a_host_timeline_belongs_to_no_device_and_serves_two) {
  const Ref<Device> other = open_another();
  const Gate shared = gate("shared");
  EXPECT_FALSE(shared.timeline->device());
  EXPECT_EQ(shared.timeline->name(), "shared");
  auto here = list("here");
  CommandList there(other->info(), "there");
  const Point one = submit(queue(), here, {shared.data()});
  const Point two = submit(other->queues()[0], there, {shared.data()});
  EXPECT_TRUE(pending(one));
  EXPECT_TRUE(pending(two));
  shared.open();
  EXPECT_TRUE(reached(one));
  EXPECT_TRUE(reached(two));
}

TEST_P(Cts, a_host_timeline_keeps_its_answers) {
  const auto timeline = gate("answers").timeline;
  const Failure cause(ErrorCode::execution, "the third step went wrong");
  EXPECT_EQ(timeline->query({0}), PointState::reached);
  timeline->signal({2});
  EXPECT_THROW(timeline->signal({1}), UsageError);
  timeline->fail({4}, cause);
  timeline->signal({5});
  const Failure end(ErrorCode::closed, "the end");
  timeline->fail_all_pending(end);
  timeline->fail_all_pending(Failure(ErrorCode::closed, "a second end"));
  timeline->signal({7});
  for (const uint64_t value : {1U, 2U, 3U, 5U}) {
    EXPECT_EQ(timeline->query({value}), PointState::reached) << value;
    EXPECT_FALSE(timeline->failure({value})) << value;
  }
  EXPECT_EQ(timeline->query({4}), PointState::failed);
  EXPECT_EQ(timeline->failure({4}), cause);
  for (const uint64_t value : {6U, 7U, 1000U}) {
    EXPECT_EQ(timeline->query({value}), PointState::failed) << value;
    EXPECT_EQ(timeline->failure({value}), end) << value;
  }
}

}  // namespace holdfast::hal::cts
