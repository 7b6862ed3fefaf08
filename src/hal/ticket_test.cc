#include "holdfast/hal/ticket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>

#include "holdfast/hal/damage.h"
#include "holdfast/hal/host_timeline.h"

namespace holdfast::hal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

Ref<Ticket> open_ticket(LaneId lane) { return make_ref<Ticket>(ListId::next(), lane); }
Ref<Ticket> submitted_ticket(LaneId lane) {
  Ref<Ticket> ticket = open_ticket(lane);
  ticket->mark_submitted({});
  return ticket;
}
std::vector<Ref<Ticket>> tickets_of(const Frontier& frontier) {
  return {frontier.begin(), frontier.end()};
}

TEST(Ticket, it_is_born_open) {
  const ListId list = ListId::next();
  const LaneId lane = LaneId::next();
  const auto ticket = make_ref<Ticket>(list, lane);
  EXPECT_EQ(ticket->list(), list);
  EXPECT_EQ(ticket->lane(), lane);
  EXPECT_EQ(ticket->state(), TicketState::open);
  EXPECT_FALSE(ticket->is_over());
  EXPECT_FALSE(ticket->failure());
}

TEST(Ticket, once_submitted_it_has_its_point_and_is_not_over) {
  const auto ticket = open_ticket(LaneId::next());
  const Point point{make_ref<HostTimeline>(DeviceId{}, "t"), {7}};
  ticket->mark_submitted(point);
  EXPECT_EQ(ticket->state(), TicketState::submitted);
  EXPECT_EQ(ticket->point(), point);
  EXPECT_FALSE(ticket->is_over());
  EXPECT_FALSE(ticket->failure());
}

TEST(Ticket, once_seen_it_is_over_and_keeps_its_cause) {
  const Failure cause(ErrorCode::execution, "cause");
  const auto failed = submitted_ticket(LaneId::next());
  failed->mark_seen(cause);
  EXPECT_EQ(failed->state(), TicketState::seen);
  EXPECT_TRUE(failed->is_over());
  EXPECT_EQ(failed->failure(), cause);
  const auto succeeded = submitted_ticket(LaneId::next());
  succeeded->mark_seen({});
  EXPECT_TRUE(succeeded->is_over());
  EXPECT_FALSE(succeeded->failure());
}

TEST(Ticket, of_a_failed_list_whose_damage_is_known_only_those_bytes_have_failed) {
  const Failure list_cause(ErrorCode::execution, "the list's");
  const Failure byte_cause(ErrorCode::execution, "the bytes'");
  const ResourceId x = ResourceId::next();
  const ResourceId y = ResourceId::next();
  const ByteRange low{{}, 8_B};
  const ByteRange high{8_B, 8_B};
  Damage damage;
  damage.add(x, low, byte_cause);
  const auto ticket = submitted_ticket(LaneId::next());
  EXPECT_FALSE(ticket->failure_of(x, low)) << "none before it is over";
  ticket->mark_seen(list_cause, std::make_shared<const Damage>(damage));
  EXPECT_EQ(ticket->failure(), list_cause);
  EXPECT_EQ(ticket->failure_of(x, low), byte_cause);
  EXPECT_FALSE(ticket->failure_of(x, high));
  EXPECT_FALSE(ticket->failure_of(y, low));
  const auto unknown = submitted_ticket(LaneId::next());
  unknown->mark_seen(list_cause);
  EXPECT_EQ(unknown->failure_of(y, high), list_cause) << "nobody can tell";
  const auto good = submitted_ticket(LaneId::next());
  good->mark_seen({});
  EXPECT_FALSE(good->failure_of(x, low));
}

TEST(Ticket, abandoned_counts_as_over_with_the_reason_given) {
  const Failure cause(ErrorCode::closed, "dropped");
  const auto ticket = open_ticket(LaneId::next());
  ticket->mark_abandoned(cause);
  EXPECT_EQ(ticket->state(), TicketState::abandoned);
  EXPECT_TRUE(ticket->is_over());
  EXPECT_EQ(ticket->failure(), cause);
}

TEST(Ticket, every_state_has_a_name) {
  EXPECT_STREQ(to_string(TicketState::open), "open");
  EXPECT_STREQ(to_string(TicketState::submitted), "submitted");
  EXPECT_STREQ(to_string(TicketState::seen), "seen");
  EXPECT_STREQ(to_string(TicketState::abandoned), "abandoned");
}

TEST(Frontier, a_new_one_is_over) {
  Frontier frontier;
  EXPECT_TRUE(frontier.empty());
  EXPECT_TRUE(frontier.is_over());
}

TEST(Frontier, a_ticket_is_kept_once) {
  Frontier frontier;
  const auto ticket = open_ticket(LaneId::next());
  frontier.add(ticket);
  frontier.add(ticket);
  EXPECT_THAT(tickets_of(frontier), ElementsAre(ticket));
  EXPECT_FALSE(frontier.is_over());
}

TEST(Frontier, what_is_over_is_not_added_and_is_pruned) {
  Frontier frontier;
  const auto ticket = submitted_ticket(LaneId::next());
  frontier.add(ticket);
  ticket->mark_seen({});
  EXPECT_EQ(frontier.size(), 1U);
  frontier.prune();
  EXPECT_TRUE(frontier.empty());
  frontier.add(ticket);
  EXPECT_TRUE(frontier.empty());
}

TEST(Frontier, lanes_do_not_vouch_for_each_other) {
  Frontier frontier;
  const auto a = submitted_ticket(LaneId::next());
  const auto b = submitted_ticket(LaneId::next());
  frontier.add(a);
  frontier.add(b);
  EXPECT_THAT(tickets_of(frontier), UnorderedElementsAre(a, b));
}

TEST(Frontier, a_submitted_ticket_replaces_an_older_one_of_its_lane) {
  const LaneId lane = LaneId::next();
  const auto older = submitted_ticket(lane);
  const auto newer = submitted_ticket(lane);
  Frontier frontier;
  frontier.add(older);
  frontier.add(newer);
  EXPECT_THAT(tickets_of(frontier), ElementsAre(newer));
}

TEST(Frontier, an_older_ticket_is_not_added_to_a_submitted_newer_one) {
  const LaneId lane = LaneId::next();
  const auto older = submitted_ticket(lane);
  const auto newer = submitted_ticket(lane);
  Frontier frontier;
  frontier.add(newer);
  frontier.add(older);
  EXPECT_THAT(tickets_of(frontier), ElementsAre(newer));
}

TEST(Frontier, an_open_ticket_does_not_vouch_for_a_submitted_one) {
  const LaneId lane = LaneId::next();
  const auto older = submitted_ticket(lane);
  const auto newer = open_ticket(lane);
  Frontier one;
  one.add(older);
  one.add(newer);
  Frontier other;
  other.add(newer);
  other.add(older);
  newer->mark_abandoned({});
  EXPECT_FALSE(one.is_over());
  EXPECT_FALSE(other.is_over());
  EXPECT_THAT(tickets_of(one), ElementsAre(older));
  EXPECT_THAT(tickets_of(other), ElementsAre(older));
}

TEST(Frontier, two_open_tickets_of_one_lane_are_both_kept) {
  const LaneId lane = LaneId::next();
  const auto older = open_ticket(lane);
  const auto newer = open_ticket(lane);
  Frontier frontier;
  frontier.add(older);
  frontier.add(newer);
  EXPECT_THAT(tickets_of(frontier), UnorderedElementsAre(older, newer));
  Frontier reversed;
  reversed.add(newer);
  reversed.add(older);
  EXPECT_THAT(tickets_of(reversed), UnorderedElementsAre(older, newer));
}

TEST(Frontier, an_abandoned_ticket_is_dropped_by_the_next_of_its_lane) {
  const LaneId lane = LaneId::next();
  const auto abandoned = open_ticket(lane);
  Frontier frontier;
  frontier.add(abandoned);
  abandoned->mark_abandoned({});
  const auto next = open_ticket(lane);
  frontier.add(next);
  EXPECT_THAT(tickets_of(frontier), ElementsAre(next));
}

TEST(Frontier, it_has_at_most_two_tickets_of_a_lane_that_records_one_list_at_a_time) {
  const LaneId lane = LaneId::next();
  Frontier frontier;
  for (int i = 0; i < 10; ++i) {
    const auto ticket = open_ticket(lane);
    frontier.add(ticket);
    EXPECT_LE(frontier.size(), 2U) << "after list " << i;
    ticket->mark_submitted({});
  }
}

TEST(Frontier, a_merge_keeps_what_either_waits_for) {
  const LaneId shared = LaneId::next();
  const auto older = submitted_ticket(shared);
  const auto newer = submitted_ticket(shared);
  const auto alone = open_ticket(LaneId::next());
  Frontier one;
  one.add(older);
  Frontier other;
  other.add(newer);
  other.add(alone);
  one.add(other);
  EXPECT_THAT(tickets_of(one), UnorderedElementsAre(newer, alone));
  EXPECT_EQ(other.size(), 2U);
}

TEST(Frontier, clear_forgets_everything) {
  Frontier frontier;
  frontier.add(open_ticket(LaneId::next()));
  frontier.clear();
  EXPECT_THAT(tickets_of(frontier), IsEmpty());
  EXPECT_TRUE(frontier.is_over());
}

// A lane as a stream drives it: lists are opened, submitted and seen in order; an open one may be
// abandoned at any time.
class Lane {
 public:
  std::vector<Ref<Ticket>> all;

  void step(unsigned choice) {
    if (choice % 4 == 0 || all.empty()) {
      all.push_back(open_ticket(id_));
      open_.push_back(all.back());
    } else if (choice % 4 == 1 && !open_.empty()) {
      open_.front()->mark_submitted({});
      submitted_.push_back(open_.front());
      open_.pop_front();
    } else if (choice % 4 == 2 && !submitted_.empty()) {
      submitted_.front()->mark_seen({});
      submitted_.pop_front();
    } else if (choice % 16 == 3 && !open_.empty()) {
      const auto victim = open_.begin() + choice / 16 % static_cast<unsigned>(open_.size());
      (*victim)->mark_abandoned({});
      open_.erase(victim);
    }
  }

 private:
  LaneId id_ = LaneId::next();
  std::deque<Ref<Ticket>> open_;
  std::deque<Ref<Ticket>> submitted_;
};

struct Tracked {
  Frontier frontier;
  std::set<const Ticket*> added;

  bool expected_over() const {
    return std::all_of(added.begin(), added.end(), [](const Ticket* t) { return t->is_over(); });
  }
};

TEST(Frontier, it_is_over_if_and_only_if_every_ticket_ever_added_is) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::vector<Lane> lanes(1 + seed % 3);
    std::vector<Tracked> tracked(2);
    for (int i = 0; i < 150; ++i) {
      Lane& lane = lanes[random() % lanes.size()];
      Tracked& one = tracked[random() % 2];
      const auto choice = static_cast<unsigned>(random());
      if (choice % 8 < 6 || lane.all.empty()) {
        lane.step(static_cast<unsigned>(random()));
      } else if (choice % 8 == 6) {
        const size_t recent = std::min<size_t>(lane.all.size(), 4);
        const Ref<Ticket>& ticket = lane.all[lane.all.size() - 1 - random() % recent];
        one.frontier.add(ticket);
        one.added.insert(ticket.get());
      } else if (choice % 32 == 7) {
        Tracked& other = tracked[&one == &tracked[0] ? 1 : 0];
        one.frontier.add(other.frontier);
        one.added.insert(other.added.begin(), other.added.end());
      }
      for (const Tracked& t : tracked) {
        ASSERT_EQ(Frontier(t.frontier).is_over(), t.expected_over())
            << "seed " << seed << ", step " << i;
      }
    }
  }
}

}  // namespace
}  // namespace holdfast::hal
