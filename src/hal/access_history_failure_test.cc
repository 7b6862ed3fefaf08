#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "holdfast/base/range_test.h"
#include "holdfast/hal/access_history.h"
#include "holdfast/hal/damage.h"
#include "holdfast/hal/host_timeline.h"

// How the failure of a writer reaches those who read its bytes, and only those.

namespace holdfast::hal {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

constexpr ByteRange kWhole = range(0, 100);

class AccessHistoryFailureTest : public ::testing::Test {
 protected:
  static Ref<Ticket> open() { return make_ref<Ticket>(ListId::next(), LaneId::next()); }
  void submit(const Ref<Ticket>& ticket) {
    ticket->mark_submitted({timeline_, last_ = last_.next()});
  }
  ListWaits tell(ByteRange bytes, Access access, const Ref<Ticket>& own,
                 AccessHistory::Extent extent = AccessHistory::Extent::exact) {
    ListWaits waits;
    history_.add_access(bytes, access, own, waits, extent);
    return waits;
  }
  std::vector<Wait> add(ByteRange bytes, Access access, const Ref<Ticket>& own) {
    return tell(bytes, access, own).waits;
  }
  Ref<Ticket> submitted(ByteRange bytes, Access access) {
    Ref<Ticket> ticket = open();
    add(bytes, access, ticket);
    submit(ticket);
    return ticket;
  }
  Ref<Ticket> failed(ByteRange bytes, const Failure& cause) {
    Ref<Ticket> ticket = submitted(bytes, Access::write);
    ticket->mark_seen(cause);
    return ticket;
  }
  // Damage of these bytes of the history's own Allocation.
  std::shared_ptr<const Damage> bad(ByteRange bytes) const {
    Damage damage;
    damage.add(of_, bytes, cause_);
    return std::make_shared<const Damage>(damage);
  }
  AccessHistory::Obstacles look(ByteRange bytes, Access access) const {
    AccessHistory::Obstacles obstacles;
    history_.find_obstacles(bytes, access, LaneId::next(), nullptr, obstacles,
                            [] { return "allocation 'x'"; });
    return obstacles;
  }

  const ResourceId of_ = ResourceId::next();
  AccessHistory history_{of_};
  Ref<HostTimeline> timeline_ = make_ref<HostTimeline>(DeviceId{}, "timeline");
  TimelineValue last_;
  const Failure cause_{ErrorCode::execution, "cause"};
};

TEST_F(AccessHistoryFailureTest, a_failed_writer_poisons_exactly_its_bytes) {
  failed(range(10, 20), cause_);
  EXPECT_EQ(history_.poison(range(29, 1)), cause_);
  EXPECT_EQ(history_.poison(range(0, 11)), cause_);
  EXPECT_FALSE(history_.poison(range(0, 10)));
  EXPECT_FALSE(history_.poison(range(30, 70)));
}

TEST_F(AccessHistoryFailureTest, readers_of_poisoned_bytes_are_refused_with_the_cause_itself) {
  failed(range(10, 20), cause_);
  EXPECT_EQ(look(kWhole, Access::read).refusal, cause_);
  EXPECT_EQ(look(range(10, 1), Access::read_write).refusal, cause_);
  EXPECT_TRUE(look(range(30, 70), Access::read).none());
  EXPECT_TRUE(look(kWhole, Access::write).none()) << "whoever overwrites needs nothing of it";
}

TEST_F(AccessHistoryFailureTest, the_first_cause_found_stays) {
  const Failure second(ErrorCode::execution, "second");
  failed(range(0, 10), cause_);
  failed(range(10, 10), second);
  EXPECT_EQ(look(kWhole, Access::read).refusal, cause_);
  AccessHistory::Obstacles obstacles;
  obstacles.refusal = second;
  history_.find_obstacles(range(0, 10), Access::read, LaneId::next(), nullptr, obstacles,
                          [] { return "x"; });
  EXPECT_EQ(obstacles.refusal, second) << "one Obstacles serves several looks";
}

TEST_F(AccessHistoryFailureTest, an_abandoned_writer_poisons_and_an_abandoned_reader_does_not) {
  const auto writer = open();
  add(range(0, 10), Access::write, writer);
  const auto reader = open();
  add(range(50, 10), Access::read, reader);
  writer->mark_abandoned(cause_);
  reader->mark_abandoned(cause_);
  EXPECT_EQ(history_.poison(range(0, 10)), cause_);
  EXPECT_FALSE(history_.poison(range(10, 90)));
}

TEST_F(AccessHistoryFailureTest, a_full_overwrite_clears_the_poison) {
  failed(range(10, 20), cause_);
  submitted(kWhole, Access::write);
  EXPECT_FALSE(history_.poison(kWhole));
  EXPECT_TRUE(look(kWhole, Access::read).none());
}

TEST_F(AccessHistoryFailureTest, a_partial_overwrite_clears_the_bytes_it_wrote) {
  failed(range(10, 20), cause_);
  submitted(range(15, 5), Access::write);
  EXPECT_FALSE(history_.poison(range(15, 5)));
  EXPECT_EQ(history_.poison(range(14, 1)), cause_);
  EXPECT_EQ(history_.poison(range(20, 1)), cause_);
}

TEST_F(AccessHistoryFailureTest, tiles_that_together_overwrite_clear_the_poison) {
  failed(kWhole, cause_);
  for (const uint64_t offset : {75U, 0U, 50U}) submitted(range(offset, 25), Access::write);
  EXPECT_EQ(history_.poison(kWhole), cause_) << "one tile is missing";
  submitted(range(25, 25), Access::write);
  EXPECT_FALSE(history_.poison(kWhole));
}

TEST_F(AccessHistoryFailureTest,
       an_update_in_place_of_a_failed_writers_bytes_leaves_them_poisoned) {
  const auto writer = submitted(kWhole, Access::write);
  const auto update = open();
  const auto waits = add(range(0, 50), Access::read_write, update);
  ASSERT_THAT(waits, ElementsAre(Wait{writer->point(), WaitKind::data}));
  submit(update);
  writer->mark_seen(cause_);
  update->mark_seen(cause_);  // as the device passes it on
  EXPECT_EQ(history_.poison(range(0, 1)), cause_);
  EXPECT_EQ(history_.poison(range(99, 1)), cause_);
}

TEST_F(AccessHistoryFailureTest, the_host_clears_the_bytes_it_overwrote) {
  failed(kWhole, cause_);
  history_.host_wrote(range(0, 60));
  EXPECT_FALSE(history_.poison(range(0, 60)));
  EXPECT_EQ(history_.poison(range(60, 1)), cause_);
  history_.host_wrote(range(60, 40));
  EXPECT_FALSE(history_.poison(kWhole));
}

TEST_F(AccessHistoryFailureTest, a_poisoned_overwriter_poisons_in_its_turn) {
  const Failure later(ErrorCode::execution, "later");
  failed(range(0, 50), cause_);
  failed(range(25, 50), later);
  EXPECT_EQ(history_.poison(range(0, 25)), cause_);
  EXPECT_EQ(history_.poison(range(25, 50)), later);
}

TEST_F(AccessHistoryFailureTest, where_it_is_known_which_bytes_are_bad_the_others_are_good) {
  const Failure of_the_list(ErrorCode::execution, "the list's");
  submitted(kWhole, Access::write)->mark_seen(of_the_list, bad(range(10, 20)));
  EXPECT_EQ(history_.poison(kWhole), cause_) << "the bytes' own cause";
  EXPECT_EQ(look(range(29, 1), Access::read).refusal, cause_);
  EXPECT_FALSE(history_.poison(range(0, 10)));
  EXPECT_FALSE(history_.poison(range(30, 70)));
  EXPECT_TRUE(look(range(30, 70), Access::read_write).none());
}

TEST_F(AccessHistoryFailureTest, damage_of_another_allocation_is_nothing_to_this_one) {
  Damage elsewhere;
  elsewhere.add(ResourceId::next(), kWhole, cause_);
  submitted(kWhole, Access::write)->mark_seen(cause_, std::make_shared<const Damage>(elsewhere));
  EXPECT_FALSE(history_.poison(kWhole));
  EXPECT_TRUE(look(kWhole, Access::read).none());
  const auto own = open();
  EXPECT_TRUE(add(kWhole, Access::read, own).empty());
  own->mark_abandoned({});
  EXPECT_TRUE(history_.frontier().empty());
}

TEST_F(AccessHistoryFailureTest, bad_bytes_heal_where_they_are_overwritten_and_only_there) {
  submitted(kWhole, Access::write)->mark_seen(cause_, bad(range(10, 20)));
  submitted(range(0, 15), Access::write);
  EXPECT_FALSE(history_.poison(range(0, 15)));
  EXPECT_EQ(history_.poison(range(15, 1)), cause_);
  EXPECT_FALSE(history_.poison(range(30, 70)));
}

TEST_F(AccessHistoryFailureTest, a_data_wait_names_the_bytes_that_its_writer_left) {
  const auto first = submitted(kWhole, Access::write);
  const auto second = submitted(range(20, 10), Access::write);
  const ListWaits waits = tell(range(10, 30), Access::read, open());
  ASSERT_EQ(waits.waits.size(), 2U);
  ASSERT_EQ(waits.waits[0].point, first->point());
  ASSERT_EQ(waits.waits[1].point, second->point());
  std::vector<std::pair<uint32_t, uint64_t>> named;
  for (const AwaitedBytes& bytes : waits.bytes) {
    EXPECT_EQ(bytes.allocation, of_);
    EXPECT_FALSE(bytes.answers);
    named.emplace_back(bytes.wait, bytes.range.offset.value);
    EXPECT_EQ(bytes.range.length, 10_B);
  }
  EXPECT_THAT(named, ElementsAre(std::pair{0U, uint64_t{10}}, std::pair{0U, uint64_t{30}},
                                 std::pair{1U, uint64_t{20}}))
      << "of what was overwritten, the failure does not matter any more";
}

TEST_F(AccessHistoryFailureTest, who_takes_over_bytes_that_it_may_leave_alone_answers_for_them) {
  submitted(kWhole, Access::write);
  const ListWaits exact = tell(range(0, 10), Access::read_write, open());
  ASSERT_EQ(exact.bytes.size(), 1U);
  EXPECT_FALSE(exact.bytes[0].answers) << "it reads all of them";
  const ListWaits reads = tell(range(20, 10), Access::read, open(), AccessHistory::Extent::hull);
  ASSERT_EQ(reads.bytes.size(), 1U);
  EXPECT_FALSE(reads.bytes[0].answers) << "it takes nothing over";
  const ListWaits hull =
      tell(range(20, 10), Access::read_write, open(), AccessHistory::Extent::hull);
  ASSERT_EQ(hull.bytes.size(), 1U);
  EXPECT_TRUE(hull.bytes[0].answers);
}

// Tickets are marked seen by whoever retires, which the history's mutex does not keep out.
TEST_F(AccessHistoryFailureTest, a_writer_seen_to_fail_just_after_the_look_is_still_waited_for) {
  for (const Access access : {Access::read, Access::read_write}) {
    SCOPED_TRACE(to_string(access));
    history_ = AccessHistory(of_);
    const auto writer = submitted(kWhole, Access::write);
    ASSERT_TRUE(look(kWhole, access).none());
    writer->mark_seen(cause_);
    EXPECT_THAT(add(kWhole, access, open()), ElementsAre(Wait{writer->point(), WaitKind::data}))
        << "otherwise the list runs on what the failed one left behind";
  }
}

// Values of a timeline resolve in order: a wait for a later one vouches for those before it.
bool covers(const std::vector<Wait>& waits, const Point& point) {
  return std::any_of(waits.begin(), waits.end(), [&](const Wait& wait) {
    return wait.point.timeline == point.timeline && wait.point.value >= point.value;
  });
}

TEST_F(AccessHistoryFailureTest, a_writer_waits_for_every_one_of_many_readers) {
  std::vector<Ref<Ticket>> readers;
  for (int i = 0; i < 60; ++i) readers.push_back(submitted(kWhole, Access::read));
  const auto waits = add(kWhole, Access::write, open());
  for (const auto& reader : readers) EXPECT_TRUE(covers(waits, reader->point()));
  for (const Wait& wait : waits) EXPECT_EQ(wait.kind, WaitKind::order);
}

// Many lists in flight, each of which writes a tile of its own: more than a history tells apart.
class ManyWriters : public AccessHistoryFailureTest {
 protected:
  static constexpr uint64_t kWriters = 60;

  static ByteRange tile(uint64_t i) { return range(i * 10, 10); }
  void SetUp() override {
    for (uint64_t i = 0; i < kWriters; ++i) {
      const auto writer = open();
      const ListWaits waits = tell(tile(i), Access::write, writer);
      for (const AwaitedBytes& bytes : waits.bytes) EXPECT_TRUE(bytes.answers);
      waits_[writer.get()] = waits.waits;
      submit(writer);
      writers_.push_back(writer);
    }
  }
  // Whether a list with these waits fails when `first` does, as devices pass failure on.
  bool fails_with(const std::vector<Wait>& waits, const Ref<Ticket>& first) const {
    return std::any_of(waits.begin(), waits.end(), [&](const Wait& wait) {
      if (wait.kind != WaitKind::data) return false;
      const auto waited = std::find_if(writers_.begin(), writers_.end(),
                                       [&](const auto& t) { return t->point() == wait.point; });
      return waited != writers_.end() &&
             (*waited == first || fails_with(waits_.at(waited->get()), first));
    });
  }

  std::vector<Ref<Ticket>> writers_;
  std::map<const Ticket*, std::vector<Wait>> waits_;
};

TEST_F(ManyWriters, are_joined_so_that_a_reader_of_all_has_fewer_to_take_failure_from) {
  const auto waits = add(range(0, kWriters * 10), Access::read, open());
  const auto data = std::count_if(waits.begin(), waits.end(),
                                  [](const Wait& w) { return w.kind == WaitKind::data; });
  EXPECT_LT(data, static_cast<std::ptrdiff_t>(kWriters / 2));
}

TEST_F(ManyWriters, pass_the_failure_of_any_on_to_the_readers_of_its_tile) {
  for (uint64_t i = 0; i < kWriters; ++i) {
    const auto waits = add(tile(i), Access::read, open());
    EXPECT_TRUE(fails_with(waits, writers_[i])) << "tile " << i;
  }
}

TEST_F(ManyWriters, poison_the_tile_of_the_one_that_failed_once_all_are_seen) {
  for (uint64_t i = 0; i < kWriters; ++i) {
    const bool fails = i == 2 || fails_with(waits_.at(writers_[i].get()), writers_[2]);
    writers_[i]->mark_seen(fails ? cause_ : Failure());
  }
  EXPECT_EQ(history_.poison(tile(2)), cause_);
  EXPECT_EQ(look(tile(2), Access::read).refusal, cause_);
  EXPECT_FALSE(history_.poison(tile(kWriters - 1)));
}

TEST_F(ManyWriters, that_were_joined_poison_no_more_than_the_tile_that_is_bad) {
  for (uint64_t i = 0; i < kWriters; ++i) {
    const bool fails = i == 2 || fails_with(waits_.at(writers_[i].get()), writers_[2]);
    writers_[i]->mark_seen(fails ? cause_ : Failure(), fails ? bad(tile(2)) : nullptr);
  }
  for (uint64_t i = 0; i < kWriters; ++i) {
    EXPECT_EQ(history_.poison(tile(i)), i == 2 ? cause_ : Failure()) << "tile " << i;
  }
}

TEST_F(ManyWriters, are_all_waited_for_by_who_overwrites_all) {
  const auto waits = add(range(0, kWriters * 10), Access::write, open());
  for (const auto& writer : writers_) EXPECT_TRUE(covers(waits, writer->point()));
}

}  // namespace
}  // namespace holdfast::hal
