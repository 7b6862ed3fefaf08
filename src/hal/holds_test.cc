#include "holdfast/hal/holds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "holdfast/base/sync/thread.h"

namespace holdfast::hal {
namespace {

using ::testing::ElementsAre;

// Tells of its end.
struct Fate {
  std::atomic<int> dead{0};
  std::atomic<int> destroyed{0};
};
class Thing final : public Resource {
 public:
  explicit Thing(Fate& fate) : Resource(DeviceId{}, "thing"), fate_(fate) {}
  std::string describe() const override { return "thing"; }

 private:
  ~Thing() override { ++fate_.destroyed; }
  void on_dead() noexcept override { ++fate_.dead; }
  Fate& fate_;
};

std::vector<const Resource*> held_by(const Holds& holds) { return {holds.begin(), holds.end()}; }

TEST(Holds, a_held_resource_dies_with_its_last_user_and_is_destroyed_with_its_last_hold) {
  Fate fate;
  auto thing = make_ref<Thing>(fate);
  Holds holds;
  holds.add(*thing, ListId::next());
  EXPECT_EQ(thing->users(), 1U);
  EXPECT_EQ(thing->holds(), 1U);
  thing.reset();
  EXPECT_EQ(fate.dead, 1);
  EXPECT_EQ(fate.destroyed, 0);
  holds.clear();
  EXPECT_EQ(fate.dead, 1);
  EXPECT_EQ(fate.destroyed, 1);
}

TEST(Holds, a_resource_with_a_user_outlives_its_holds) {
  Fate fate;
  auto thing = make_ref<Thing>(fate);
  {
    Holds holds;
    holds.add(*thing, ListId::next());
  }
  EXPECT_EQ(thing->holds(), 0U);
  EXPECT_EQ(fate.dead, 0);
  thing.reset();
  EXPECT_EQ(fate.dead, 1);
  EXPECT_EQ(fate.destroyed, 1);
}

TEST(Holds, a_list_that_binds_a_resource_again_holds_it_no_second_time) {
  Fate fate;
  const auto thing = make_ref<Thing>(fate);
  const auto other = make_ref<Thing>(fate);
  const ListId list = ListId::next();
  Holds holds;
  for (int i = 0; i < 3; ++i) {
    holds.add(*thing, list);
    holds.add(*other, list);
  }
  EXPECT_THAT(held_by(holds), ElementsAre(thing.get(), other.get()));
  EXPECT_EQ(thing->holds(), 1U);
}

TEST(Holds, lists_that_alternate_on_a_resource_drop_every_hold_they_took) {
  Fate fate;
  auto thing = make_ref<Thing>(fate);
  const ListId a = ListId::next();
  const ListId b = ListId::next();
  Holds holds_a;
  Holds holds_b;
  for (int i = 0; i < 3; ++i) {
    holds_a.add(*thing, a);
    holds_b.add(*thing, b);
  }
  EXPECT_EQ(thing->holds(), holds_a.size() + holds_b.size());
  thing.reset();
  holds_a.clear();
  EXPECT_EQ(fate.destroyed, 0) << "the other list still holds it";
  holds_b.clear();
  EXPECT_EQ(fate.destroyed, 1);
}

TEST(Holds, destruction_drops_the_holds) {
  Fate fate;
  {
    Holds holds;
    holds.add(*make_ref<Thing>(fate), ListId::next());
    EXPECT_EQ(fate.destroyed, 0);
  }
  EXPECT_EQ(fate.destroyed, 1);
}

TEST(Holds, a_move_takes_the_holds_along) {
  Fate fate;
  Holds to;
  {
    Holds from;
    from.add(*make_ref<Thing>(fate), ListId::next());
    to = Holds(std::move(from));
    EXPECT_EQ(from.size(), 0U);  // NOLINT(bugprone-use-after-move): empty after a move
  }
  EXPECT_EQ(to.size(), 1U);
  EXPECT_EQ(fate.destroyed, 0);
}

TEST(Holds, assigning_over_holds_drops_them) {
  Fate first;
  Fate second;
  Holds holds;
  holds.add(*make_ref<Thing>(first), ListId::next());
  Holds other;
  other.add(*make_ref<Thing>(second), ListId::next());
  holds = std::move(other);
  EXPECT_EQ(first.destroyed, 1);
  EXPECT_EQ(second.destroyed, 0);
  Holds& same = holds;
  holds = std::move(same);
  EXPECT_EQ(holds.size(), 1U);
  EXPECT_EQ(second.destroyed, 0);
}

TEST(Holds, cleared_holds_serve_another_list) {
  Fate fate;
  auto thing = make_ref<Thing>(fate);
  Holds holds;
  holds.add(*thing, ListId::next());
  holds.clear();
  EXPECT_EQ(holds.size(), 0U);
  holds.add(*thing, ListId::next());
  thing.reset();
  EXPECT_EQ(fate.destroyed, 0);
}

TEST(Holds, room_reserved_is_room_added_to) {
  Fate fate;
  Holds holds;
  holds.reserve(3);
  const ListId list = ListId::next();
  holds.add(*make_ref<Thing>(fate), list);
  const auto* first = &*holds.begin();
  holds.add(*make_ref<Thing>(fate), list);
  holds.add(*make_ref<Thing>(fate), list);
  EXPECT_EQ(&*holds.begin(), first) << "nothing was allocated";
}

TEST(Holds, lists_of_distinct_threads_may_hold_one_resource_at_once) {
  Fate fate;
  auto thing = make_ref<Thing>(fate);
  {
    std::vector<sync::Thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back("lists", [thing] {
        for (int i = 0; i < 500; ++i) {
          Holds holds;
          const ListId list = ListId::next();
          holds.add(*thing, list);
          holds.add(*thing, list);
        }
      });
    }
  }
  EXPECT_EQ(thing->holds(), 0U);
  EXPECT_EQ(thing->users(), 1U);
  thing.reset();
  EXPECT_EQ(fate.destroyed, 1);
}

TEST(Holds, a_resource_is_destroyed_on_the_thread_that_drops_the_last_hold) {
  Fate fate;
  int before = -1;
  int after = -1;
  auto holds = std::make_shared<Holds>();
  holds->add(*make_ref<Thing>(fate), ListId::next());
  sync::Thread("dropper", [&] {
    before = fate.destroyed;
    holds->clear();
    after = fate.destroyed;
  });
  EXPECT_EQ(before, 0);
  EXPECT_EQ(after, 1);
}

}  // namespace
}  // namespace holdfast::hal
