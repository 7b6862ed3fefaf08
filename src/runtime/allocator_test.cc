#include "holdfast/runtime/allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "holdfast/hal/cpu/cpu_device.h"

namespace holdfast::runtime {
namespace {

using hal::Access;
using Effort = Allocator::Effort;

// An Allocator without a runtime around it: the test plays the lists.
struct Bare {
  explicit Bare(Options options = {}) : allocator(make_ref<Allocator>(device, options)) {}
  ~Bare() {
    for (const auto& list : lists) {
      if (!list->is_over()) finish(*list);
    }
    const auto garbage = allocator->close();
  }

  Ref<hal::CpuDevice> device = hal::CpuDevice::open({.queues = 1, .helpers = 0});
  Ref<Allocator> allocator;
  hal::LaneId lane = new_lane();
  std::vector<Ref<hal::Ticket>> lists;

  Allocator::Given ask(Bytes size, hal::LaneId who, Effort effort = Effort::pool,
                       hal::MemoryKind kind = hal::MemoryKind::device) const {
    Allocator::Request request{size, kind, "x", who};
    return allocator->allocate(request, effort);
  }
  hal::LaneId new_lane() const {
    const hal::LaneId made = hal::LaneId::next();
    allocator->add_lane(made);
    return made;
  }
  Ref<hal::Ticket> open_list(hal::LaneId who) {
    return lists.emplace_back(make_ref<hal::Ticket>(hal::ListId::next(), who));
  }
  static void touch(const Ref<hal::Allocation>& allocation, const Ref<hal::Ticket>& ticket) {
    hal::ListWaits waits;
    allocation->history().add_access({{}, allocation->size()}, Access::write, ticket, waits);
  }
  void finish(hal::Ticket& ticket) const {
    if (ticket.state() == hal::TicketState::open) ticket.mark_submitted({});
    ticket.mark_seen({});
    const auto garbage = allocator->ticket_over(ticket);
  }
};

struct Place {
  hal::BufferId buffer;
  ByteRange range;
  explicit Place(const hal::Allocation& a)
      : buffer(a.buffer()->id()), range{a.offset(), std::max(a.size(), 1_B)} {}
  bool overlaps(const Place& o) const { return buffer == o.buffer && range.overlaps(o.range); }
};

TEST(Allocator, an_unused_range_is_free_as_soon_as_it_is_dropped) {
  Bare bare;
  auto first = bare.ask(1_KiB, bare.lane).allocation;
  const Place place(*first);
  first.reset();
  EXPECT_EQ(bare.allocator->deferred_bytes(), 0_B);
  EXPECT_TRUE(Place(*bare.ask(1_KiB, hal::LaneId::next()).allocation).overlaps(place));
}

TEST(Allocator, a_dead_range_in_an_open_list_goes_to_its_own_lane_only) {
  Bare bare;
  const auto list = bare.open_list(bare.lane);
  auto first = bare.ask(1_KiB, bare.lane).allocation;
  bare.touch(first, list);
  const Place place(*first);
  const hal::ResourceId id = first->id();
  first.reset();
  EXPECT_EQ(bare.allocator->deferred_bytes(), 1_KiB);
  EXPECT_EQ(bare.allocator->deferred_objects(), 1U);

  const auto others = bare.ask(1_KiB, hal::LaneId::next(), Effort::any_submitted);
  EXPECT_FALSE(Place(*others.allocation).overlaps(place));
  EXPECT_FALSE(others.ended);
  const auto nobody = bare.ask(1_KiB, {}, Effort::any_submitted);
  EXPECT_FALSE(Place(*nobody.allocation).overlaps(place));

  const auto own = bare.ask(1_KiB, bare.lane);
  EXPECT_TRUE(Place(*own.allocation).overlaps(place));
  EXPECT_EQ(own.ended, id);
  EXPECT_EQ(bare.allocator->deferred_bytes(), 0_B);
  EXPECT_EQ(bare.allocator->stats().reused_in_order, 1U);
}

TEST(Allocator, a_reused_range_carries_its_earlier_life_in_its_history) {
  Bare bare;
  const auto list = bare.open_list(bare.lane);
  auto first = bare.ask(1_KiB, bare.lane).allocation;
  bare.touch(first, list);
  first.reset();
  auto second = bare.ask(1_KiB, bare.lane).allocation;
  const hal::Frontier frontier = second->history().frontier();
  ASSERT_EQ(frontier.size(), 1U);
  EXPECT_EQ(*frontier.begin(), list);
  // Dropped without a use of its own it still waits for the first life.
  second.reset();
  EXPECT_EQ(bare.allocator->deferred_bytes(), 1_KiB);
  bare.finish(*list);
  EXPECT_EQ(bare.allocator->deferred_bytes(), 0_B);
}

TEST(Allocator, a_range_used_by_two_lanes_belongs_to_neither_until_both_are_over) {
  Bare bare;
  const hal::LaneId other = bare.new_lane();
  const auto list = bare.open_list(bare.lane);
  const auto other_list = bare.open_list(other);
  auto x = bare.ask(1_KiB, bare.lane).allocation;
  bare.touch(x, list);
  hal::ListWaits waits;
  x->history().add_access({{}, 1_KiB}, Access::read, other_list, waits);
  const Place place(*x);
  x.reset();
  EXPECT_FALSE(Place(*bare.ask(1_KiB, bare.lane).allocation).overlaps(place));
  EXPECT_FALSE(Place(*bare.ask(1_KiB, other).allocation).overlaps(place));
  bare.finish(*list);
  EXPECT_EQ(bare.allocator->deferred_bytes(), 1_KiB);
  EXPECT_FALSE(Place(*bare.ask(1_KiB, bare.lane).allocation).overlaps(place));
  bare.finish(*other_list);
  EXPECT_EQ(bare.allocator->deferred_bytes(), 0_B);
}

TEST(Allocator, other_lanes_submitted_ranges_are_given_only_with_that_effort) {
  Bare bare({.memory_limit = 1_MiB});
  const auto list = bare.open_list(bare.lane);
  auto x = bare.ask(1_MiB, bare.lane).allocation;
  ASSERT_TRUE(x);
  bare.touch(x, list);
  x.reset();
  const hal::LaneId other = bare.new_lane();
  EXPECT_FALSE(bare.ask(1_MiB, other, Effort::any_submitted).allocation) << "still open";
  list->mark_submitted({});
  EXPECT_FALSE(bare.ask(1_MiB, other).allocation);
  const auto given = bare.ask(1_MiB, other, Effort::any_submitted);
  ASSERT_TRUE(given.allocation);
  EXPECT_EQ(given.allocation->history().frontier().size(), 1U);
}

TEST(Allocator, memory_that_the_host_fills_is_never_given_out_before_it_is_over) {
  for (const auto kind : {hal::MemoryKind::upload, hal::MemoryKind::readback}) {
    Bare bare;
    const auto list = bare.open_list(bare.lane);
    auto first = bare.ask(1_KiB, bare.lane, Effort::pool, kind).allocation;
    bare.touch(first, list);
    list->mark_submitted({});
    const Place place(*first);
    first.reset();
    for (const Effort effort : {Effort::pool, Effort::any_submitted}) {
      EXPECT_FALSE(Place(*bare.ask(1_KiB, bare.lane, effort, kind).allocation).overlaps(place))
          << hal::to_string(kind);
    }
    bare.finish(*list);
    EXPECT_TRUE(Place(*bare.ask(1_KiB, bare.lane, Effort::pool, kind).allocation).overlaps(place));
  }
}

TEST(Allocator, abandoned_lists_free_what_waited_for_them) {
  Bare bare;
  const auto list = bare.open_list(bare.lane);
  auto x = bare.ask(1_KiB, bare.lane).allocation;
  bare.touch(x, list);
  x.reset();
  EXPECT_TRUE(bare.allocator->keeps_deferred(*list));
  list->mark_abandoned({});
  const auto garbage = bare.allocator->ticket_over(*list);
  EXPECT_FALSE(bare.allocator->keeps_deferred(*list));
  EXPECT_EQ(bare.allocator->deferred_bytes(), 0_B);
}

TEST(Allocator, a_forgotten_lane_still_gets_its_memory_back) {
  Bare bare;
  const auto list = bare.open_list(bare.lane);
  auto early = bare.ask(1_KiB, bare.lane).allocation;
  auto late = bare.ask(1_KiB, bare.lane).allocation;
  bare.touch(early, list);
  bare.touch(late, list);
  early.reset();
  bare.allocator->forget_lane(bare.lane);
  late.reset();
  EXPECT_EQ(bare.allocator->deferred_bytes(), 2_KiB);
  bare.finish(*list);
  EXPECT_EQ(bare.allocator->deferred_bytes(), 0_B);
  EXPECT_EQ(bare.allocator->stats().pooled, bare.allocator->stats().reserved);
}

TEST(Allocator, trim_keeps_as_much_as_it_is_told) {
  Bare bare;
  std::vector<Ref<hal::Allocation>> large;
  for (int i = 0; i < 4; ++i) large.push_back(bare.ask(8_MiB, bare.lane).allocation);
  EXPECT_EQ(bare.allocator->stats().device_buffers, 4U);
  large.clear();
  { const auto garbage = bare.allocator->trim(16_MiB); }
  EXPECT_EQ(bare.allocator->stats().pooled, 16_MiB);
  { const auto garbage = bare.allocator->trim(); }
  EXPECT_EQ(bare.allocator->stats().reserved, 0_B);
  EXPECT_EQ(bare.allocator->stats().device_buffers, 0U);
}

TEST(Allocator, what_was_given_back_while_the_device_refused_a_block_is_used) {
  Ref<hal::Allocation> returned;
  bool refuse = false;
  const auto device = hal::CpuDevice::open(
      {.queues = 1, .helpers = 0, .fail_allocation = [&](const hal::BufferDesc&) -> Failure {
         if (!refuse) return {};
         returned.reset();
         return Failure(ErrorCode::out_of_memory, "refused");
       }});
  const auto allocator = make_ref<Allocator>(device, Options{});
  Allocator::Request first{8_MiB, hal::MemoryKind::device, "first", {}};
  returned = allocator->allocate(first, Effort::pool).allocation;
  refuse = true;
  Allocator::Request second{8_MiB, hal::MemoryKind::device, "second", {}};
  Allocator::Given given = allocator->allocate(second, Effort::pool);
  ASSERT_TRUE(given.allocation);
  EXPECT_EQ(given.allocation->name(), "second");
  Allocator::Request third{8_MiB, hal::MemoryKind::device, "third", {}};
  const Allocator::Given none = allocator->allocate(third, Effort::pool);
  EXPECT_FALSE(none.allocation);
  EXPECT_EQ(none.refusal.message(), "refused");
  EXPECT_EQ(third.name, "third") << "kept for the next attempt";
  EXPECT_EQ(allocator->stats().reserved, 8_MiB) << "what was refused is not counted";
  EXPECT_EQ(allocator->stats().device_buffers, 1U);
  given.allocation.reset();
  const auto garbage = allocator->close();
}

TEST(Allocator, a_request_larger_than_any_class_finds_no_room) {
  Bare bare;
  EXPECT_FALSE(bare.ask(kMaxBytes, bare.lane).allocation);
  EXPECT_FALSE(bare.ask(Bytes{uint64_t{1} << 62}, bare.lane).allocation);
  EXPECT_EQ(bare.allocator->stats().reserved, 0_B);
}

TEST(Allocator, a_closed_allocator_gives_nothing_and_takes_back_everything) {
  Bare bare;
  auto x = bare.ask(1_KiB, bare.lane).allocation;
  { const auto garbage = bare.allocator->close(); }
  EXPECT_FALSE(bare.ask(1_KiB, bare.lane).allocation);
  EXPECT_EQ(bare.allocator->stats().device_buffers, 1U);
  x.reset();
  EXPECT_EQ(bare.allocator->stats().device_buffers, 0U);
  EXPECT_EQ(bare.allocator->stats().reserved, 0_B);
}

// Random lives on three lanes against a model of who may still touch what.
class RandomLives {
 public:
  explicit RandomLives(uint64_t seed) : random_(seed) {
    for (auto& lane : lanes_) {
      lane.id = bare_.new_lane();
      lane.open = bare_.open_list(lane.id);
    }
  }

  void step() {
    Lane& lane = lanes_[random_() % lanes_.size()];
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2: allocate(lane); break;
      case 3:
      case 4:
        if (!live_.empty()) touch(lane, live_[random_() % live_.size()]);
        break;
      case 5:
        if (!live_.empty()) kill(random_() % live_.size());
        break;
      case 6: submit(lane); break;
      default: finish_oldest(lane); break;
    }
    check();
  }

  void end() {
    while (!live_.empty()) kill(live_.size() - 1);
    for (Lane& lane : lanes_) {
      submit(lane);
      while (!lane.submitted.empty()) finish_oldest(lane);
    }
    const MemoryStats now = bare_.allocator->stats();
    EXPECT_EQ(now.live, 0_B);
    EXPECT_EQ(now.live_objects, 0U);
    EXPECT_EQ(now.deferred, 0_B);
    EXPECT_EQ(now.deferred_objects, 0U);
    EXPECT_EQ(now.pooled, now.reserved);
    { const auto garbage = bare_.allocator->trim(); }
    EXPECT_EQ(bare_.allocator->stats().reserved, 0_B) << "free neighbours were not joined";
    EXPECT_EQ(bare_.allocator->stats().device_buffers, 0U);
  }
  uint64_t reused() const { return bare_.allocator->stats().reused_in_order; }

 private:
  struct Lane {
    hal::LaneId id;
    Ref<hal::Ticket> open;
    std::vector<Ref<hal::Ticket>> submitted;
  };
  using Tickets = std::vector<Ref<hal::Ticket>>;
  struct Life {
    Ref<hal::Allocation> allocation;
    Tickets touched_by;
  };
  struct Dead {
    Place place;
    Tickets touched_by;
  };

  void allocate(Lane& lane) {
    const Effort effort = random_() % 2 == 0 ? Effort::pool : Effort::any_submitted;
    auto given = bare_.ask(Bytes{1 + random_() % 40'000}, lane.id, effort);
    if (!given.allocation) return;
    const Place place(*given.allocation);
    for (const Life& life : live_) {
      ASSERT_FALSE(Place(*life.allocation).overlaps(place)) << "two lives share bytes";
    }
    Life life{given.allocation, {}};
    for (const Dead& dead : dead_) {
      if (!dead.place.overlaps(place)) continue;
      for (const auto& ticket : dead.touched_by) {
        if (ticket->is_over()) continue;
        const bool own = ticket->lane() == lane.id;
        const bool submitted = ticket->state() == hal::TicketState::submitted;
        ASSERT_TRUE(own || (submitted && effort == Effort::any_submitted))
            << "given out while another lane's list may touch it";
        life.touched_by.push_back(ticket);
      }
    }
    std::erase_if(dead_, [&](const Dead& dead) { return dead.place.overlaps(place); });
    live_.push_back(std::move(life));
  }

  void touch(Lane& lane, Life& life) {
    hal::ListWaits waits;
    const Access access = random_() % 2 == 0 ? Access::read : Access::write;
    // As the recorder does: what other lanes have open is submitted first.
    for (Lane& other : lanes_) {
      if (&other != &lane && std::ranges::count(life.touched_by, other.open) > 0) submit(other);
    }
    life.allocation->history().add_access({{}, life.allocation->size()}, access, lane.open, waits);
    life.touched_by.push_back(lane.open);
  }

  void kill(size_t index) {
    std::swap(live_[index], live_.back());
    dead_.push_back({Place(*live_.back().allocation), std::move(live_.back().touched_by)});
    live_.pop_back();
  }

  void submit(Lane& lane) {
    lane.open->mark_submitted({});
    lane.submitted.push_back(std::exchange(lane.open, bare_.open_list(lane.id)));
  }

  void finish_oldest(Lane& lane) {
    if (lane.submitted.empty()) return;
    bare_.finish(*lane.submitted.front());
    lane.submitted.erase(lane.submitted.begin());
  }

  void check() {
    const MemoryStats now = bare_.allocator->stats();
    ASSERT_EQ(now.live + now.deferred + now.pooled, now.reserved);
    ASSERT_EQ(now.live_objects, live_.size());
  }

  std::mt19937_64 random_;
  Bare bare_{{.memory_limit = 2_MiB}};
  std::array<Lane, 3> lanes_;
  std::vector<Life> live_;
  std::vector<Dead> dead_;
};

TEST(Allocator, random_lives_never_overlap_add_up_and_join_in_the_end) {
  uint64_t reused = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomLives lives(seed);
    for (int i = 0; i < 500; ++i) ASSERT_NO_FATAL_FAILURE(lives.step()) << "step " << i;
    reused += lives.reused();
    ASSERT_NO_FATAL_FAILURE(lives.end());
  }
  EXPECT_GT(reused, 100U) << "the test must exercise reuse before the end";
}

TEST(Allocator, memory_that_outlives_it_keeps_the_buffer_until_it_dies) {
  Ref<hal::Allocation> last;
  {
    Bare bare;
    last = bare.ask(1_KiB, bare.lane).allocation;
    const auto gone = bare.ask(1_KiB, bare.lane).allocation;
  }
  ASSERT_TRUE(last->buffer());
  EXPECT_GE(last->buffer()->size(), 1_KiB);
  last.reset();
}

}  // namespace
}  // namespace holdfast::runtime
