#include "holdfast/hal/access_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/base/range_test.h"
#include "holdfast/hal/host_timeline.h"

namespace holdfast::hal {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr ByteRange kAll = range(0, 100);

class AccessHistoryTest : public ::testing::Test {
 protected:
  static Ref<Ticket> open(LaneId lane = LaneId::next()) {
    return make_ref<Ticket>(ListId::next(), lane);
  }
  void submit(const Ref<Ticket>& ticket) {
    ticket->mark_submitted({timeline_, last_ = last_.next()});
  }
  // A list that has recorded this access and was submitted.
  Ref<Ticket> submitted(ByteRange bytes, Access access, LaneId lane = LaneId::next()) {
    Ref<Ticket> ticket = open(lane);
    add(bytes, access, ticket);
    submit(ticket);
    return ticket;
  }
  std::vector<Wait> add(ByteRange bytes, Access access, const Ref<Ticket>& own) {
    ListWaits waits;
    history_.add_access(bytes, access, own, waits);
    return waits.waits;
  }
  AccessHistory::Obstacles look(ByteRange bytes, Access access, LaneId lane = LaneId::next(),
                                const Ticket* own = nullptr) const {
    AccessHistory::Obstacles obstacles;
    history_.find_obstacles(bytes, access, lane, own, obstacles, [] { return "allocation 'x'"; });
    return obstacles;
  }
  AccessHistory::Tickets collected(ByteRange bytes, Access access) const {
    AccessHistory::Tickets tickets;
    history_.collect(bytes, access, tickets);
    return tickets;
  }
  static Wait data(const Ref<Ticket>& ticket) { return {ticket->point(), WaitKind::data}; }
  static Wait order(const Ref<Ticket>& ticket) { return {ticket->point(), WaitKind::order}; }

  AccessHistory history_;
  Ref<HostTimeline> timeline_ = make_ref<HostTimeline>(DeviceId{}, "timeline");
  TimelineValue last_;
  const Failure cause_{ErrorCode::execution, "cause"};
};

TEST_F(AccessHistoryTest, a_reader_waits_for_the_data_of_writers_of_any_lane) {
  const LaneId lane = LaneId::next();
  const auto elsewhere = submitted(range(0, 50), Access::write);
  const auto here = submitted(range(50, 50), Access::write, lane);
  EXPECT_THAT(add(kAll, Access::read, open(lane)),
              UnorderedElementsAre(data(elsewhere), data(here)))
      << "its own lane's too: order is given, but failure must arrive";
}

TEST_F(AccessHistoryTest, a_writer_waits_in_order_for_readers_and_writers_of_other_lanes) {
  const auto writer = submitted(range(0, 50), Access::write);
  const auto reader = submitted(range(50, 50), Access::read);
  EXPECT_THAT(add(kAll, Access::write, open()), UnorderedElementsAre(order(writer), order(reader)));
}

TEST_F(AccessHistoryTest, a_writer_waits_for_nobody_of_its_own_lane) {
  const LaneId lane = LaneId::next();
  submitted(range(0, 50), Access::write, lane);
  submitted(range(50, 50), Access::read, lane);
  EXPECT_THAT(add(kAll, Access::write, open(lane)), IsEmpty());
}

TEST_F(AccessHistoryTest, a_first_access_waits_for_earlier_lives_of_other_lanes_alone) {
  const LaneId lane = LaneId::next();
  const auto life = [&](LaneId of) {
    auto ticket = open(of);
    submit(ticket);
    Frontier frontier;
    frontier.add(ticket);
    history_ = AccessHistory();
    history_.set_earlier_life(std::move(frontier));
    return ticket;
  };
  const auto of_the_lane = life(lane);
  const auto first = open(lane);
  EXPECT_THAT(add(kAll, Access::write, first), IsEmpty());
  const Frontier both = history_.frontier();
  EXPECT_THAT(std::vector(both.begin(), both.end()), AllOf(Contains(of_the_lane), Contains(first)));
  const auto of_another = life(LaneId::next());
  EXPECT_THAT(add(kAll, Access::read, open(lane)), ElementsAre(order(of_another)));
}

TEST_F(AccessHistoryTest, an_update_in_place_waits_for_data_of_writers_and_in_order_for_readers) {
  const auto writer = submitted(range(0, 50), Access::read_write);
  const auto reader = submitted(range(50, 50), Access::read);
  EXPECT_THAT(add(kAll, Access::read_write, open()),
              UnorderedElementsAre(data(writer), order(reader)));
}

TEST_F(AccessHistoryTest, readers_do_not_wait_for_readers_nor_anybody_for_other_bytes) {
  submitted(range(0, 50), Access::read);
  submitted(range(50, 50), Access::write);
  EXPECT_THAT(add(range(0, 50), Access::read, open()), IsEmpty());
  EXPECT_THAT(add(range(100, 50), Access::write, open()), IsEmpty());
}

TEST_F(AccessHistoryTest, a_list_does_not_wait_for_itself) {
  const auto own = open();
  add(kAll, Access::write, own);
  EXPECT_THAT(add(kAll, Access::read_write, own), IsEmpty());
  EXPECT_TRUE(look(kAll, Access::read_write, own->lane(), own.get()).none());
}

TEST_F(AccessHistoryTest, what_is_over_need_not_be_waited_for) {
  submitted(range(0, 50), Access::write)->mark_seen({});
  submitted(range(50, 50), Access::read)->mark_seen(cause_);
  EXPECT_THAT(add(kAll, Access::read_write, open()), IsEmpty());
  EXPECT_EQ(history_.frontier().size(), 1U) << "only the list that just came";
}

TEST_F(AccessHistoryTest, one_point_is_waited_for_once_and_data_outweighs_order) {
  const auto both = submitted(kAll, Access::read_write);
  const auto own = open();
  ListWaits waits;
  history_.add_access(range(0, 10), Access::write, own, waits);
  EXPECT_THAT(waits.waits, ElementsAre(order(both)));
  history_.add_access(range(10, 10), Access::read, own, waits);
  EXPECT_THAT(waits.waits, ElementsAre(data(both)));
  history_.add_access(range(20, 10), Access::write, own, waits);
  EXPECT_THAT(waits.waits, ElementsAre(data(both)));
}

TEST_F(AccessHistoryTest,
       a_list_that_overwrote_another_must_still_be_waited_for_as_must_the_other) {
  const auto first = submitted(kAll, Access::write);
  const auto second = submitted(kAll, Access::write);
  EXPECT_THAT(add(kAll, Access::write, open()), Contains(order(second)));
  const Frontier all = history_.frontier();
  EXPECT_THAT(std::vector(all.begin(), all.end()), AllOf(Contains(first), Contains(second)));
}

TEST_F(AccessHistoryTest, every_access_waits_in_order_for_an_earlier_life) {
  const auto earlier = open();
  submit(earlier);
  Frontier life;
  life.add(earlier);
  history_.set_earlier_life(life);
  EXPECT_THAT(add(range(0, 10), Access::read, open()), ElementsAre(order(earlier)));
  EXPECT_THAT(add(range(50, 10), Access::write, open()), ElementsAre(order(earlier)));
  EXPECT_THAT(collected(range(90, 10), Access::write), ElementsAre(earlier));
}

TEST_F(AccessHistoryTest, open_lists_of_an_earlier_life_must_be_submitted_by_other_lanes_first) {
  const auto earlier = open();
  Frontier life;
  life.add(earlier);
  history_.set_earlier_life(life);
  EXPECT_THAT(look(range(0, 1), Access::read).open, ElementsAre(earlier));
  EXPECT_TRUE(look(range(0, 1), Access::write, earlier->lane()).none());
}

TEST_F(AccessHistoryTest, an_open_writer_of_another_lane_must_be_submitted_first) {
  const auto writer = open();
  add(range(0, 50), Access::write, writer);
  EXPECT_THAT(look(kAll, Access::read).open, ElementsAre(writer));
  EXPECT_THAT(look(kAll, Access::write).open, ElementsAre(writer));
  EXPECT_TRUE(look(range(50, 50), Access::read_write).none());
  submit(writer);
  EXPECT_TRUE(look(kAll, Access::read).none());
}

TEST_F(AccessHistoryTest, an_open_writer_of_the_same_lane_stands_in_the_way_of_readers_only) {
  const auto writer = open();
  add(kAll, Access::write, writer);
  EXPECT_THAT(look(kAll, Access::read, writer->lane()).open, ElementsAre(writer))
      << "it has no Point yet to take a failure from";
  EXPECT_TRUE(look(kAll, Access::write, writer->lane()).none());
}

TEST_F(AccessHistoryTest, an_open_reader_stands_in_the_way_of_writers_of_other_lanes_only) {
  const auto reader = open();
  add(kAll, Access::read, reader);
  EXPECT_THAT(look(kAll, Access::write).open, ElementsAre(reader));
  EXPECT_TRUE(look(kAll, Access::read).none());
  EXPECT_TRUE(look(kAll, Access::write, reader->lane()).none());
}

TEST_F(AccessHistoryTest, obstacles_of_several_looks_are_collected_without_repetition) {
  const auto writer = open();
  add(kAll, Access::write, writer);
  AccessHistory::Obstacles obstacles;
  const auto what = [] { return "x"; };
  for (int i = 0; i < 2; ++i) {
    history_.find_obstacles(kAll, Access::read, LaneId::next(), nullptr, obstacles, what);
  }
  EXPECT_THAT(obstacles.open, ElementsAre(writer));
}

TEST_F(AccessHistoryTest, a_map_is_named_to_lists_that_conflict_with_it) {
  history_.begin_host_access({range(10, 20), Access::read, "peek", true, 1});
  EXPECT_TRUE(look(kAll, Access::read).none());
  EXPECT_TRUE(look(range(30, 20), Access::write).none());
  const Failure refusal = look(kAll, Access::write).refusal;
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal.code(), ErrorCode::usage);
  for (const char* part : {"allocation 'x'", "peek", "10", "30", "end the map"}) {
    EXPECT_THAT(refusal.message(), HasSubstr(part));
  }
  history_.begin_host_access({range(50, 20), Access::write, "poke", true, 2});
  EXPECT_TRUE(look(kAll, Access::read).refusal) << "a map for writing excludes readers too";
}

TEST_F(AccessHistoryTest, a_readback_is_waited_for_and_not_refused) {
  history_.begin_host_access({kAll, Access::read, "readback", false, 1});
  const auto obstacles = look(kAll, Access::write);
  EXPECT_TRUE(obstacles.readback_under_way);
  EXPECT_FALSE(obstacles.refusal);
  EXPECT_FALSE(obstacles.none());
  EXPECT_TRUE(look(kAll, Access::read).none());
}

TEST_F(AccessHistoryTest, a_host_access_is_ended_by_its_serial) {
  const AccessHistory::HostAccess first{kAll, Access::write, "same", true, 1};
  const AccessHistory::HostAccess second{kAll, Access::write, "same", true, 2};
  history_.begin_host_access(first);
  history_.begin_host_access(second);
  history_.end_host_access(first);
  ASSERT_NE(history_.host_conflict(kAll, Access::read), nullptr);
  EXPECT_EQ(history_.host_conflict(kAll, Access::read)->serial, 2U);
  history_.end_host_access(first);
  EXPECT_NE(history_.host_conflict(kAll, Access::read), nullptr);
  history_.end_host_access(second);
  EXPECT_EQ(history_.host_conflict(kAll, Access::write), nullptr);
}

TEST_F(AccessHistoryTest, host_accesses_conflict_where_they_overlap_and_one_of_them_writes) {
  history_.begin_host_access({range(0, 50), Access::read, "reader", true, 1});
  EXPECT_EQ(history_.host_conflict(kAll, Access::read), nullptr);
  EXPECT_NE(history_.host_conflict(kAll, Access::write), nullptr);
  EXPECT_EQ(history_.host_conflict(range(50, 50), Access::write), nullptr);
}

TEST_F(AccessHistoryTest, a_host_read_waits_for_writers_and_a_host_write_for_all_users) {
  const auto writer = submitted(range(0, 50), Access::write);
  const auto reader = submitted(range(0, 50), Access::read);
  submitted(range(50, 50), Access::write);
  submitted(range(0, 50), Access::read)->mark_seen({});
  EXPECT_THAT(collected(range(0, 50), Access::read), ElementsAre(writer));
  EXPECT_THAT(collected(range(0, 50), Access::write), UnorderedElementsAre(writer, reader));
}

TEST_F(AccessHistoryTest, its_frontier_has_every_list_that_is_not_over) {
  const auto writer = submitted(range(0, 50), Access::write);
  const auto reader = open();
  add(range(60, 10), Access::read, reader);
  submitted(range(80, 10), Access::write)->mark_seen({});
  const Frontier all = history_.frontier();
  EXPECT_THAT(std::vector(all.begin(), all.end()), UnorderedElementsAre(writer, reader));
}

TEST_F(AccessHistoryTest, of_dead_memory_it_leaves_to_a_frontier_who_may_still_touch_it) {
  const LaneId lane = LaneId::next();
  const auto earlier = submitted(kAll, Access::write, lane);
  const auto writer = open(lane);
  const auto over = open();
  over->mark_abandoned({});
  const auto left = [&](const std::vector<Ref<Ticket>>& before,
                        const std::vector<Ref<Ticket>>& users) {
    AccessHistory history;
    Frontier lives;
    for (const auto& ticket : before) lives.add(ticket);
    history.set_earlier_life(std::move(lives));
    ListWaits waits;
    for (const auto& ticket : users) history.add_access(kAll, Access::read, ticket, waits);
    Frontier frontier;
    history.leave_to(frontier);
    return std::vector<Ref<Ticket>>(frontier.begin(), frontier.end());
  };
  EXPECT_THAT(left({}, {}), IsEmpty());
  EXPECT_THAT(left({}, {writer}), ElementsAre(writer));
  EXPECT_THAT(left({writer}, {writer}), ElementsAre(writer));
  EXPECT_THAT(left({earlier}, {writer}), UnorderedElementsAre(earlier, writer));
  EXPECT_THAT(left({earlier}, {}), ElementsAre(earlier));
  EXPECT_THAT(left({over}, {writer}), ElementsAre(writer));
  EXPECT_THAT(left({}, {over}), IsEmpty());
  const auto other = open();
  EXPECT_THAT(left({}, {writer, other}), UnorderedElementsAre(writer, other));
}

}  // namespace
}  // namespace holdfast::hal
