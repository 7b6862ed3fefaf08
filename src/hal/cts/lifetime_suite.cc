#include "holdfast/hal/cts/cts.h"

// What a queue keeps, until when, and what it says about it.

namespace holdfast::hal::cts {

namespace {

std::vector<std::string> names_in_flight(const Queue& queue) {
  std::vector<std::string> names;
  queue.visit_in_flight([&](const Submission& s) { names.push_back(s.list.name()); });
  return names;
}

}  // namespace

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_P(Cts, memory_dropped_after_recording_lives_until_its_list_is_retired) {
  const Gate closed = gate();
  Imported data = imported(Words(64, 1));
  auto work = list();
  increment(work, data.allocation);
  data.allocation.reset();
  EXPECT_EQ(data.deletions->value(), 0) << "recorded but not submitted";
  const Point point = submit(queue(), work, {closed.data()});
  EXPECT_THAT(queue()->retire(), IsEmpty());
  EXPECT_EQ(data.deletions->value(), 0) << "submitted but not finished";
  closed.open();
  ASSERT_TRUE(reached(point));
  EXPECT_EQ(data.words[63], 2U);
  EXPECT_EQ(data.deletions->value(), 0) << "finished but not seen";
  {
    const Retired retired = queue()->retire();
    EXPECT_EQ(retired.size(), 1U);
    EXPECT_EQ(data.deletions->value(), 0) << "the caller decides where the holds drop";
  }
  EXPECT_TRUE(data.deletions->reaches(1));
  EXPECT_EQ(data.deletions->value(), 1);
}

TEST_P(Cts, memory_dropped_after_submit_lives_until_its_list_is_retired) {
  const Gate closed = gate();
  Imported data = imported(Words(64, 1));
  auto work = list();
  increment(work, data.allocation);
  const Point point = submit(queue(), work, {closed.data()});
  data.allocation.reset();
  EXPECT_EQ(data.deletions->value(), 0);
  closed.open();
  ASSERT_TRUE(reached(point));
  EXPECT_EQ(data.deletions->value(), 0);
  queue()->retire();
  EXPECT_TRUE(data.deletions->reaches(1));
}

TEST_P(Cts, memory_that_still_has_a_user_outlives_its_lists) {
  Imported data = imported(Words(64, 1));
  auto work = list();
  increment(work, data.allocation);
  ASSERT_TRUE(reached(submit(queue(), work)));
  queue()->retire();
  EXPECT_EQ(data.deletions->value(), 0);
  data.allocation.reset();
  EXPECT_TRUE(data.deletions->reaches(1));
}

TEST_P(Cts, memory_used_by_several_lists_lives_until_the_last_is_retired) {
  const Gate closed = gate();
  Imported data = imported(Words(64, 1));
  auto first = list("first");
  auto second = list("second");
  // Alternating, which a hold that is remembered on the Resource must survive.
  for (int i = 0; i < 3; ++i) {
    increment(first, data.allocation);
    first.barrier();
    increment(second, data.allocation);
    second.barrier();
  }
  data.allocation.reset();
  const Point one = submit(queue(), first);
  const Point two = submit(queue(), second, {closed.order()});
  ASSERT_TRUE(reached(one));
  EXPECT_EQ(queue()->retire().size(), 1U);
  EXPECT_EQ(data.deletions->value(), 0);
  closed.open();
  ASSERT_TRUE(reached(two));
  EXPECT_EQ(data.words[0], 7U);
  EXPECT_EQ(queue()->retire().size(), 1U);
  EXPECT_TRUE(data.deletions->reaches(1));
}

TEST_P(Cts, every_kind_of_command_holds_what_it_binds) {
  const Gate closed = gate();
  Imported a = imported(Words(64, 1), "a");
  Imported b = imported(Words(64, 1), "b");
  Imported c = imported(Words(64, 1), "c");
  Imported d = imported(Words(64, 1), "d");
  auto work = list();
  work.copy(a.allocation, range(0, 256), b.allocation, range(0, 256));
  work.fill(c.allocation, range(3, 5), std::byte{9});
  work.hold(*d.allocation);
  for (Imported* dropped : {&a, &b, &c, &d}) dropped->allocation.reset();
  const Point point = submit(queue(), work, {closed.data()});
  for (const Imported* dropped : {&a, &b, &c, &d}) EXPECT_EQ(dropped->deletions->value(), 0);
  closed.open();
  ASSERT_TRUE(reached(point));
  for (const Imported* dropped : {&a, &b, &c, &d}) EXPECT_EQ(dropped->deletions->value(), 0);
  queue()->retire();
  for (const Imported* dropped : {&a, &b, &c, &d}) EXPECT_TRUE(dropped->deletions->reaches(1));
}

TEST_P(Cts, a_pipeline_dropped_after_recording_still_runs) {
  const Gate closed = gate();
  const auto data = uploaded(Words(64, 1), "data");
  auto work = list();
  {
    const auto kernel = make_pipeline("increment", {}, "short-lived");
    const std::vector bindings{Binding::of(data, Access::read_write)};
    work.dispatch(kernel, bindings, {}, groups_for(64));
  }
  const Point point = submit(queue(), work, {closed.data()});
  // A pipeline that was destroyed would leave its place to this one.
  const auto other = make_pipeline("affine");
  closed.open();
  EXPECT_TRUE(reached(point));
  EXPECT_EQ(read(data), Words(64, 2));
}

TEST_P(Cts, a_list_dropped_before_submit_drops_its_holds_and_abandons_its_ticket) {
  Imported data = imported(Words(64));
  Ref<Ticket> ticket;
  {
    auto work = list();
    ticket = work.ticket();
    increment(work, data.allocation);
    data.allocation.reset();
    EXPECT_EQ(ticket->state(), TicketState::open);
    EXPECT_EQ(data.deletions->value(), 0);
  }
  EXPECT_EQ(ticket->state(), TicketState::abandoned);
  EXPECT_TRUE(ticket->is_over());
  EXPECT_TRUE(data.deletions->reaches(1));
}

TEST_P(Cts, a_moved_list_keeps_its_holds_and_its_ticket) {
  Imported data = imported(Words(64, 1));
  auto work = list("moved");
  increment(work, data.allocation);
  data.allocation.reset();
  const auto ticket = work.ticket();
  CommandList moved(std::move(work));
  EXPECT_EQ(moved.ticket(), ticket);
  EXPECT_EQ(ticket->state(), TicketState::open);
  EXPECT_EQ(data.deletions->value(), 0);
  ASSERT_TRUE(reached(submit(queue(), moved)));
  EXPECT_EQ(data.words[0], 2U);
  queue()->retire();
  EXPECT_TRUE(data.deletions->reaches(1));
}

TEST_P(Cts, a_list_submitted_as_an_rvalue_runs_like_any_other) {
  Imported data = imported(Words(64, 1));
  auto work = list();
  increment(work, data.allocation);
  ASSERT_TRUE(reached(queue()->submit(std::move(work)).or_raise()));
  EXPECT_EQ(data.words[0], 2U);
}

TEST_P(Cts, a_ticket_goes_from_open_to_submitted_to_seen) {
  const Gate closed = gate();
  auto work = list();
  const auto ticket = work.ticket();
  EXPECT_EQ(ticket->state(), TicketState::open);
  EXPECT_EQ(ticket->list(), work.id());
  const Point point = submit(queue(), work, {closed.data()});
  EXPECT_EQ(ticket->state(), TicketState::submitted);
  EXPECT_EQ(ticket->point(), point);
  closed.open();
  ASSERT_TRUE(reached(point));
  EXPECT_EQ(ticket->state(), TicketState::submitted) << "reached, but nobody has looked";
  queue()->retire();
  EXPECT_EQ(ticket->state(), TicketState::seen);
  EXPECT_FALSE(ticket->failure());
}

TEST_P(Cts, retire_takes_out_what_is_resolved_in_order_and_no_more) {
  const Gate second = gate("second");
  const Gate fourth = gate("fourth");
  std::vector<Point> points;
  std::vector<Ref<Ticket>> tickets;
  for (const char* name : {"one", "two", "three", "four", "five"}) {
    auto work = list(name);
    tickets.push_back(work.ticket());
    std::vector<Wait> waits;
    if (points.size() == 1) waits.push_back(second.data());
    if (points.size() == 3) waits.push_back(fourth.data());
    points.push_back(submit(queue(), work, waits));
  }
  EXPECT_EQ(queue()->in_flight(), 5U);
  EXPECT_THAT(names_in_flight(*queue()), ElementsAre("one", "two", "three", "four", "five"));
  EXPECT_EQ(queue()->oldest()->point, points[0]);

  ASSERT_TRUE(reached(points[0]));
  EXPECT_EQ(queue()->in_flight(), 5U) << "reached, but nobody has looked";
  EXPECT_EQ(queue()->retire().size(), 1U);
  EXPECT_EQ(queue()->in_flight(), 4U);
  EXPECT_EQ(queue()->oldest()->point, points[1]);
  EXPECT_EQ(tickets[0]->state(), TicketState::seen);
  EXPECT_EQ(tickets[1]->state(), TicketState::submitted);

  second.open();
  ASSERT_TRUE(reached(points[2]));
  const Retired retired = queue()->retire();
  ASSERT_EQ(retired.size(), 2U);
  EXPECT_EQ(retired[0]->list.name(), "two");
  EXPECT_EQ(retired[0]->point, points[1]);
  EXPECT_EQ(retired[1]->list.name(), "three");
  EXPECT_THAT(names_in_flight(*queue()), ElementsAre("four", "five"));
  EXPECT_THAT(queue()->retire(), IsEmpty());

  fourth.open();
  ASSERT_TRUE(reached(points[4]));
  EXPECT_EQ(queue()->retire().size(), 2U);
  EXPECT_EQ(queue()->in_flight(), 0U);
  EXPECT_FALSE(queue()->oldest().has_value());
}

TEST_P(Cts, sequences_give_the_order_of_submission_over_all_queues) {
  const Gate closed = gate();
  std::vector<Point> points;
  for (size_t i = 0; i < 3 * device().queues().size(); ++i) {
    auto work = list(std::to_string(i));
    points.push_back(submit(queue(i % device().queues().size()), work, {closed.data()}));
  }
  std::map<uint64_t, std::string> by_sequence;
  for (const Ref<Queue>& each : device().queues()) {
    each->visit_in_flight(
        [&](const Submission& s) { by_sequence.emplace(s.sequence, s.list.name()); });
  }
  ASSERT_EQ(by_sequence.size(), points.size());
  size_t expected = 0;
  for (const auto& [sequence, name] : by_sequence) EXPECT_EQ(name, std::to_string(expected++));
  EXPECT_EQ(queue(0)->oldest()->sequence, by_sequence.begin()->first);
  closed.open();
  for (const Point& point : points) EXPECT_TRUE(reached(point));
}

TEST_P(Cts, retiring_one_queue_leaves_the_others_lists) {
  if (!has_two_queues()) GTEST_SKIP() << "one queue";
  auto one = list("one");
  auto two = list("two");
  const Point here = submit(queue(0), one);
  const Point there = submit(queue(1), two);
  ASSERT_TRUE(reached(here));
  ASSERT_TRUE(reached(there));
  EXPECT_EQ(queue(0)->retire().size(), 1U);
  EXPECT_EQ(queue(1)->in_flight(), 1U);
  EXPECT_EQ(queue(1)->retire().size(), 1U);
}

TEST_P(Cts, users_and_holds_are_counted_apart) {
  const auto data = uploaded(Words(64), "data");
  EXPECT_EQ(data->users(), 1U);
  EXPECT_EQ(data->holds(), 0U);
  {
    auto work = list();
    increment(work, data);
    EXPECT_EQ(data->users(), 1U);
    EXPECT_GE(data->holds(), 1U);
    EXPECT_EQ(work.holds().size(), 2U) << "the allocation and the pipeline";
    work.barrier();
    increment(work, data);
    EXPECT_EQ(work.holds().size(), 2U) << "a repeated bind holds no second time";
  }
  EXPECT_EQ(data->holds(), 0U);
  std::vector<Ref<Allocation>> users{data};
  EXPECT_EQ(data->users(), 2U);
  users.clear();
  EXPECT_EQ(data->users(), 1U);
}

TEST_P(Cts, storage_taken_from_a_list_serves_another) {
  Imported data = imported(Words(64, 1));
  auto first = list("first");
  increment(first, data.allocation);
  ASSERT_TRUE(reached(submit(queue(), first)));
  auto retired = queue()->retire();
  ASSERT_EQ(retired.size(), 1U);
  auto storage = retired[0]->list.take_storage();
  EXPECT_EQ(storage.holds.size(), 0U);
  retired.clear();
  CommandList second(device().info(), "second", LaneId::next(), std::move(storage));
  EXPECT_TRUE(second.empty());
  EXPECT_EQ(second.holds().size(), 0U);
  affine(second, data.allocation, 5, 0);
  data.allocation.reset();
  ASSERT_TRUE(reached(submit(queue(), second)));
  EXPECT_EQ(data.words[0], 10U);
  queue()->retire();
  EXPECT_TRUE(data.deletions->reaches(1));
}

TEST_P(Cts, a_thousand_lists_in_flight_are_kept_and_retired) {
  constexpr uint32_t kLists = 1000;
  const Gate closed = gate();
  Imported data = imported(Words(16));
  Point last;
  for (uint32_t i = 0; i < kLists; ++i) {
    auto work = list();
    dispatch(work, "increment", {Binding::of(data.allocation, range(0, 64), Access::read_write)},
             {}, groups_for(16));
    last = submit(queue(), work, {closed.order()});
  }
  data.allocation.reset();
  EXPECT_EQ(queue()->in_flight(), kLists);
  EXPECT_THAT(queue()->retire(), IsEmpty());
  closed.open();
  ASSERT_TRUE(reached(last));
  EXPECT_EQ(Words(data.words, data.words + 16), Words(16, kLists));
  EXPECT_EQ(queue()->retire().size(), kLists);
  EXPECT_TRUE(data.deletions->reaches(1));
}

TEST_P(Cts, a_list_that_is_assigned_over_drops_its_holds_and_abandons_its_ticket) {
  Imported data = imported(Words(64));
  auto work = list("overwritten");
  const auto ticket = work.ticket();
  increment(work, data.allocation);
  data.allocation.reset();
  auto other = list("other");
  const auto kept = other.ticket();
  work = std::move(other);
  EXPECT_EQ(ticket->state(), TicketState::abandoned);
  EXPECT_EQ(kept->state(), TicketState::open);
  EXPECT_EQ(work.name(), "other");
  EXPECT_TRUE(data.deletions->reaches(1));
  EXPECT_TRUE(reached(submit(queue(), work)));
}

TEST_P(Cts, a_list_whose_storage_was_taken_records_no_use_without_a_hold) {
  Imported data = imported(Words(64));
  auto work = list();
  increment(work, data.allocation);
  work.take_storage();
  bool recorded = false;
  try {
    increment(work, data.allocation);
    recorded = true;
  } catch (const UsageError&) {
  }
  data.allocation.reset();
  EXPECT_EQ(data.deletions->value(), recorded ? 0 : 1);
}

}  // namespace holdfast::hal::cts
