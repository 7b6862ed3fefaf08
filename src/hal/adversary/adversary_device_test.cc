#include "holdfast/hal/adversary/adversary_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <stdexcept>

#include "holdfast/base/error.h"
#include "holdfast/base/sync/condition.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/hal/damage.h"
#include "holdfast/simulation/explore.h"

namespace holdfast::hal {
namespace {

using ::testing::HasSubstr;

Ref<AdversaryDevice> open(const char* options = "") {
  return AdversaryDevice::wrap(
      CpuDevice::open({.queues = 2, .immediate = true, .recycles_memory = true}),
      AdversaryOptions::parse(options));
}

// Inside a simulation whose every decision is the default: the device does only what it must.
void simulated(const std::function<void()>& body) {
  simulation::Deviations driver;
  const simulation::Outcome outcome = simulation::simulate(driver, body);
  EXPECT_EQ(outcome.ending, simulation::Ending::finished) << outcome.report;
}

struct Bench {
  explicit Bench(Ref<AdversaryDevice> d) : device(std::move(d)) {}

  Ref<Allocation> buffer(const char* name) {
    auto made =
        Allocation::whole(device->create_buffer({64_B, MemoryKind::device, name}).or_raise());
    std::fill_n(made->host_pointer(), 64, std::byte{0});
    return made;
  }
  static uint8_t first(const Ref<Allocation>& a) {
    return std::to_integer<uint8_t>(*a->host_pointer());
  }
  CommandList list(const char* name = "list") const { return {device->info(), name}; }
  // byte = 2 * byte + value: the order of two shows.
  Ref<Pipeline> affine(uint8_t value) {
    return device
        ->create_pipeline({"affine",
                           HostFunction([value](const HostGroup& g) {
                             for (uint8_t& b : g.binding<uint8_t>(0)) {
                               b = static_cast<uint8_t>(2 * b + value);
                             }
                           }),
                           1,
                           {}})
        .or_raise();
  }
  void add(CommandList& to, const Ref<Allocation>& at, uint8_t value) {
    const Binding binding = Binding::of(at, Access::read_write);
    to.dispatch(affine(value), {&binding, 1}, {}, {1, 1, 1});
  }
  Point submit(uint32_t queue, CommandList list, std::vector<Wait> waits = {}) {
    return device->queues()[queue]->submit(std::move(list), std::move(waits)).or_raise();
  }

  Ref<AdversaryDevice> device;
};

uint64_t digest_of_seed(uint64_t seed) {
  simulation::SeededDriver driver(seed);
  return simulation::simulate(driver,
                              [] {
                                Bench b(open());
                                const auto x = b.buffer("x");
                                for (uint32_t i = 0; i < 4; ++i) {
                                  CommandList list = b.list();
                                  b.add(list, x, 1);
                                  b.add(list, x, 2);
                                  b.submit(i % 2, std::move(list));
                                }
                              })
      .digest;
}

TEST(Adversary, closing_it_ends_its_thread_long_before_the_deadline) {
  EXPECT_TRUE(open()->close(sync::Deadline::after(std::chrono::hours(1))).clean());
}

TEST(Adversary, a_seed_gives_the_same_schedule_again_and_another_seed_another_one) {
  EXPECT_EQ(digest_of_seed(7), digest_of_seed(7));
  EXPECT_NE(digest_of_seed(7), digest_of_seed(8));
}

// The script

TEST(Adversary, nothing_runs_before_it_must) {
  simulated([] {
    Bench b(open());
    const auto x = b.buffer("x");
    CommandList list = b.list();
    list.fill(x, {{}, 64_B}, std::byte{7});
    const Point point = b.submit(0, std::move(list));
    EXPECT_EQ(Bench::first(x), 0);
    EXPECT_EQ(point.query(), PointState::pending);
    EXPECT_EQ(point.timeline->wait(point.value, sync::Deadline::never()), PointState::reached);
    EXPECT_EQ(Bench::first(x), 7);
  });
}

TEST(Adversary, a_step_runs_one_command_and_visibility_is_a_step_of_its_own) {
  simulated([] {
    Bench b(open());
    b.device->hold_back_all();
    const auto x = b.buffer("x");
    CommandList list = b.list();
    list.fill(x, {{}, 64_B}, std::byte{1});
    list.barrier();
    list.fill(x, {{}, 64_B}, std::byte{2});
    const Point point = b.submit(0, std::move(list));
    EXPECT_TRUE(b.device->step(0));
    EXPECT_EQ(Bench::first(x), 1);
    EXPECT_TRUE(b.device->step(0));
    EXPECT_EQ(Bench::first(x), 2);
    EXPECT_TRUE(point.pending()) << "finished, and not visible yet";
    EXPECT_TRUE(b.device->step(0));
    EXPECT_EQ(point.query(), PointState::reached);
    EXPECT_FALSE(b.device->step());
  });
}

TEST(Adversary, run_until_does_what_the_point_needs_on_other_queues_too) {
  simulated([] {
    Bench b(open());
    b.device->hold_back_all();
    const auto x = b.buffer("x");
    CommandList first = b.list("first");
    b.add(first, x, 1);
    const Point one = b.submit(0, std::move(first));
    CommandList second = b.list("second");
    b.add(second, x, 1);
    const Point two = b.submit(1, std::move(second), {{one}});
    EXPECT_FALSE(b.device->step(1)) << "it waits for the first";
    EXPECT_EQ(b.device->run_until(two), PointState::reached);
    EXPECT_EQ(Bench::first(x), 3);
    EXPECT_EQ(one.query(), PointState::reached) << "a Point vouches for those its list waits for";
  });
}

TEST(Adversary, a_host_wait_overrides_what_is_held_back_and_the_schedule_says_so) {
  simulation::Deviations driver;
  const auto outcome =
      simulation::simulate(driver,
                           [] {
                             Bench b(open());
                             b.device->hold_back(0);
                             const auto x = b.buffer("x");
                             CommandList list = b.list();
                             list.fill(x, {{}, 64_B}, std::byte{1});
                             const Point point = b.submit(0, std::move(list));
                             point.timeline->wait(point.value, sync::Deadline::never());
                           },
                           {}, {.trace = true});
  EXPECT_THAT(outcome.trace, ::testing::Contains(HasSubstr("forced")));
}

TEST(Adversary, a_script_outside_a_simulation_is_refused) {
  const auto device = open();
  EXPECT_THROW(device->hold_back(0), UsageError);
  EXPECT_THROW(device->step(), UsageError);
  EXPECT_THROW(device->step(0), UsageError);
  EXPECT_THROW(device->run_until({}), UsageError);
}

// Faults

TEST(Adversary, the_nth_allocation_and_submission_fail_and_the_next_ones_work) {
  simulated([] {
    Bench b(open("faults=alloc@2+submit@1"));
    const auto x = b.buffer("x");
    EXPECT_THAT(b.device->create_buffer({64_B, MemoryKind::device, "y"}).failure().message(),
                HasSubstr("alloc@2"));
    EXPECT_TRUE(b.device->create_buffer({64_B, MemoryKind::device, "z"}).ok());
    CommandList list = b.list();
    list.fill(x, {{}, 64_B}, std::byte{1});
    EXPECT_THAT(b.device->queues()[0]->submit(list).failure().message(), HasSubstr("submit@1"));
    EXPECT_TRUE(b.device->queues()[0]->submit(list).ok()) << "the list is still the caller's";
  });
}

TEST(Adversary, a_command_that_fails_fails_its_list_and_whoever_waits_for_its_data) {
  simulated([] {
    Bench b(open("faults=command@1"));
    const auto x = b.buffer("x");
    CommandList bad = b.list("bad");
    b.add(bad, x, 1);
    bad.barrier();
    b.add(bad, x, 1);
    const Point failed = b.submit(0, std::move(bad));
    CommandList dependent = b.list("dependent");
    b.add(dependent, x, 1);
    const Point inherits = b.submit(1, std::move(dependent), {{failed, WaitKind::data}});
    CommandList later = b.list("later");
    b.add(later, x, 5);
    const Point fine = b.submit(1, std::move(later), {{failed, WaitKind::order}});
    EXPECT_EQ(fine.timeline->wait(fine.value, sync::Deadline::never()), PointState::reached);
    EXPECT_EQ(failed.query(), PointState::failed);
    EXPECT_THAT(failed.failure().message(), HasSubstr("command@1"));
    EXPECT_EQ(inherits.failure(), failed.failure());
    EXPECT_EQ(Bench::first(x), 5) << "nothing of the failed lists ran after the failure";
  });
}

// One list of four independent commands and their readers, of which one fails and one is hit by
// what it reads: whatever runs first, the same bytes are bad, for the same cause.
TEST(Adversary, the_same_bytes_are_bad_in_whichever_order_commands_run) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    simulation::SeededDriver driver(seed);
    const auto body = [] {
      Bench b(open());
      std::vector<Ref<Allocation>> low;
      std::vector<Ref<Allocation>> high;
      CommandList list = b.list("list");
      for (int i = 0; i < 4; ++i) {
        low.push_back(b.buffer("low"));
        high.push_back(b.buffer("high"));
        const Binding written = Binding::of(low.back(), Access::write);
        list.native(
            [i](const NativeCall&) {
              if (i == 1 || i == 2) throw std::runtime_error("number " + std::to_string(i));
            },
            {&written, 1}, "low");
      }
      list.barrier();
      for (size_t i = 0; i < 4; ++i) {
        list.copy(low[i], {{}, 64_B}, high[i], {{}, 64_B}, "high");
      }
      const Point point = b.submit(0, std::move(list));
      EXPECT_EQ(point.timeline->wait(point.value, sync::Deadline::never()), PointState::failed);
      EXPECT_THAT(point.failure().message(), HasSubstr("number 1")) << "the first as recorded";
      const std::shared_ptr<const Damage> damage = point.damage();
      ASSERT_NE(damage, nullptr);
      for (size_t i = 0; i < 4; ++i) {
        for (const auto& each : {low[i], high[i]}) {
          const Failure found = damage->find(each->id(), {{}, 64_B});
          EXPECT_EQ(static_cast<bool>(found), i == 1 || i == 2) << each->name() << " " << i;
          if (!found) continue;
          EXPECT_THAT(found.message(), HasSubstr("number " + std::to_string(i)));
        }
      }
    };
    const simulation::Outcome outcome = simulation::simulate(driver, body);
    EXPECT_EQ(outcome.ending, simulation::Ending::finished) << outcome.report;
  }
}

TEST(Adversary, a_device_lost_at_a_step_fails_everything_pending) {
  simulated([] {
    Bench b(open("faults=lost@2"));
    const auto x = b.buffer("x");
    CommandList too_late = b.list();
    b.add(too_late, x, 1);
    std::vector<Point> points;
    for (int i = 0; i < 3; ++i) {
      CommandList list = b.list();
      b.add(list, x, 1);
      points.push_back(b.submit(static_cast<uint32_t>(i % 2), std::move(list)));
    }
    for (const Point& point : points) {
      point.timeline->wait(point.value, sync::Deadline::never());
      EXPECT_EQ(point.query(), PointState::failed);
      EXPECT_EQ(point.failure().code(), ErrorCode::device_lost);
    }
    EXPECT_TRUE(b.device->lost());
    EXPECT_EQ(b.device->queues()[0]->submit(too_late).failure().code(), ErrorCode::device_lost);
  });
}

// Memory

TEST(Adversary, memory_destroyed_in_flight_shows_as_garbage_and_not_as_a_crash) {
  simulated([] {
    Bench b(open());
    const auto out = b.buffer("out");
    auto in = b.device->create_buffer({64_B, MemoryKind::device, "in"}).or_raise();
    std::fill_n(in->host_pointer(), 64, std::byte{7});
    // By hand, since no list lets go of what it holds: the memory goes while a command needs it.
    CommandList list = b.list();
    auto whole = Allocation::whole(in);
    list.copy(whole, {{}, 64_B}, out, {{}, 64_B});
    const Point point = b.submit(0, std::move(list));
    EXPECT_EQ(point.timeline->wait(point.value, sync::Deadline::never()), PointState::reached);
    EXPECT_EQ(Bench::first(out), 7) << "what is held is left alone";
  });
}

TEST(Adversary, given_back_addresses_are_given_out_again_newest_first_and_ids_never) {
  simulated([] {
    Bench b(open());
    auto first = b.device->create_buffer({64_B, MemoryKind::device, "first"}).or_raise();
    auto second = b.device->create_buffer({64_B, MemoryKind::device, "second"}).or_raise();
    const BufferId first_id = first->id();
    const std::byte* const first_place = first->host_pointer();
    const std::byte* const second_place = second->host_pointer();
    second.reset();
    first.reset();
    const auto again = b.device->create_buffer({64_B, MemoryKind::device, "again"}).or_raise();
    EXPECT_EQ(again->host_pointer(), first_place);
    EXPECT_NE(again->id(), first_id);
    const auto more = b.device->create_buffer({64_B, MemoryKind::device, "more"}).or_raise();
    EXPECT_EQ(more->host_pointer(), second_place);
  });
}

// All orders. Each program's classes can be counted by hand: the host submits everything and then
// sleeps until nothing is left to happen, so only the device's steps can be exchanged.

struct Explored {
  uint64_t classes = 0;
  std::set<uint8_t> results;
};

void sleep_until_all_is_done() {
  sync::Mutex mutex;
  sync::Condition never;
  sync::Lock lock(mutex);
  never.wait_until(lock, sync::Deadline::after(std::chrono::hours(1)), [] { return false; });
}

Explored explore_all(const std::function<void(Bench&, const Ref<Allocation>&)>& submit_all) {
  Explored explored;
  simulation::Exhaustive driver;
  do {
    simulation::simulate(driver, [&] {
      Bench b(open());
      b.device->hold_back_all();
      const auto x = b.buffer("x");
      submit_all(b, x);
      b.device->let_go(0);
      b.device->let_go(1);
      sleep_until_all_is_done();
      explored.results.insert(Bench::first(x));
    });
  } while (driver.next());
  explored.classes = driver.classes();
  return explored;
}

TEST(Exhaustive, commands_on_different_bytes_have_one_order) {
  const Explored explored = explore_all([](Bench& b, const Ref<Allocation>& x) {
    const auto y = b.buffer("y");
    CommandList first = b.list();
    b.add(first, x, 1);
    b.submit(0, std::move(first));
    CommandList second = b.list();
    b.add(second, y, 1);
    b.submit(1, std::move(second));
  });
  EXPECT_EQ(explored.classes, 1U);
  EXPECT_EQ(explored.results, (std::set<uint8_t>{1}));
}

TEST(Exhaustive, two_queues_on_the_same_bytes_have_two_orders) {
  const Explored explored = explore_all([](Bench& b, const Ref<Allocation>& x) {
    for (uint32_t queue = 0; queue < 2; ++queue) {
      CommandList list = b.list();
      b.add(list, x, static_cast<uint8_t>(queue + 1));
      b.submit(queue, std::move(list));
    }
  });
  EXPECT_EQ(explored.classes, 2U);
  EXPECT_EQ(explored.results, (std::set<uint8_t>{4, 5})) << "2 * 1 + 2 and 2 * 2 + 1";
}

TEST(Exhaustive, a_wave_of_three_on_the_same_bytes_has_all_six_orders) {
  const Explored explored = explore_all([](Bench& b, const Ref<Allocation>& x) {
    CommandList list = b.list();
    for (uint8_t i = 1; i <= 3; ++i) b.add(list, x, i);
    b.submit(0, std::move(list));
  });
  EXPECT_EQ(explored.classes, 6U);
  // 4a + 2b + c over the permutations of 1, 2, 3.
  EXPECT_EQ(explored.results, (std::set<uint8_t>{11, 12, 13, 15, 16, 17}));
}

TEST(Exhaustive, barriers_leave_one_order_and_two_ordered_pairs_have_as_many_as_they_interleave) {
  const auto pair = [](Bench& b, const Ref<Allocation>& x) {
    CommandList list = b.list();
    b.add(list, x, 1);
    list.barrier();
    b.add(list, x, 2);
    return list;
  };
  const Explored one =
      explore_all([&](Bench& b, const Ref<Allocation>& x) { b.submit(0, pair(b, x)); });
  EXPECT_EQ(one.classes, 1U);
  const Explored two = explore_all([&](Bench& b, const Ref<Allocation>& x) {
    b.submit(0, pair(b, x));
    b.submit(1, pair(b, x));
  });
  EXPECT_EQ(two.classes, 6U) << "four steps, two of them the first queue's: 4! / (2! * 2!)";
  const Explored ordered = explore_all([&](Bench& b, const Ref<Allocation>& x) {
    const Point first = b.submit(0, pair(b, x));
    b.submit(1, pair(b, x), {{first}});
  });
  EXPECT_EQ(ordered.classes, 1U);
}

TEST(Exhaustive, readers_need_no_order_among_each_other) {
  const Explored explored = explore_all([](Bench& b, const Ref<Allocation>& x) {
    const auto y = b.buffer("y");
    const auto z = b.buffer("z");
    CommandList first = b.list();
    first.copy(x, {{}, 64_B}, y, {{}, 64_B});
    b.submit(0, std::move(first));
    CommandList second = b.list();
    second.copy(x, {{}, 64_B}, z, {{}, 64_B});
    b.submit(1, std::move(second));
  });
  EXPECT_EQ(explored.classes, 1U);
}

}  // namespace
}  // namespace holdfast::hal
