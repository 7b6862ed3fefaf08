#include "holdfast/runtime/hazards.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace holdfast::runtime {
namespace {

using hal::Access;

struct Use {
  uint64_t key;
  ByteRange range;
  Access access;
};
using Command = std::vector<Use>;

bool conflict(const Use& a, const Use& b) {
  return a.key == b.key && a.range.overlaps(b.range) &&
         (hal::writes(a.access) || hal::writes(b.access));
}

bool conflict(const Command& a, const Command& b) {
  for (const Use& x : a) {
    for (const Use& y : b) {
      if (conflict(x, y)) return true;
    }
  }
  return false;
}

// Records as the recorder does and returns the wave of each command.
std::vector<uint32_t> waves_of(HazardTracker& tracker, const std::vector<Command>& commands) {
  std::vector<uint32_t> waves;
  for (const Command& command : commands) {
    bool barrier = tracker.reserve(command.size());
    for (const Use& use : command) {
      barrier = tracker.conflicts(tracker.entry(use.key), use.range, use.access) || barrier;
    }
    if (barrier && !waves.empty()) tracker.next_wave();
    for (const Use& use : command) tracker.add(tracker.entry(use.key), use.range, use.access);
    waves.push_back(tracker.wave());
  }
  return waves;
}

uint32_t barriers_for(const std::vector<Command>& commands) {
  HazardTracker tracker;
  const std::vector<uint32_t> waves = waves_of(tracker, commands);
  return waves.back() - waves.front();
}

Use use(uint64_t key, uint64_t offset, uint64_t length, Access access) {
  return {key, {{offset}, {length}}, access};
}

TEST(HazardTracker, read_after_write_write_after_read_and_write_after_write_need_a_barrier) {
  const Use write = use(1, 0, 16, Access::write);
  const Use read = use(1, 8, 16, Access::read);
  const Use in_place = use(1, 0, 16, Access::read_write);
  EXPECT_EQ(barriers_for({{write}, {read}}), 1U);
  EXPECT_EQ(barriers_for({{read}, {write}}), 1U);
  EXPECT_EQ(barriers_for({{write}, {write}}), 1U);
  EXPECT_EQ(barriers_for({{in_place}, {in_place}}), 1U);
  EXPECT_EQ(barriers_for({{in_place}, {read}}), 1U);
  EXPECT_EQ(barriers_for({{read}, {in_place}}), 1U);
}

TEST(HazardTracker, reads_of_the_same_bytes_share_a_wave) {
  EXPECT_EQ(barriers_for({{use(1, 0, 16, Access::read)},
                          {use(1, 0, 16, Access::read)},
                          {use(1, 4, 100, Access::read)}}),
            0U);
}

TEST(HazardTracker, disjoint_slices_and_distinct_objects_share_a_wave) {
  EXPECT_EQ(barriers_for({{use(1, 0, 16, Access::write)},
                          {use(1, 16, 16, Access::write)},
                          {use(1, 32, 1, Access::read)},
                          {use(2, 0, 16, Access::read_write)}}),
            0U);
}

TEST(HazardTracker, one_shared_byte_is_a_conflict) {
  EXPECT_EQ(barriers_for({{use(1, 0, 17, Access::write)}, {use(1, 16, 16, Access::read)}}), 1U);
}

TEST(HazardTracker, empty_ranges_conflict_with_nothing) {
  EXPECT_EQ(barriers_for({{use(1, 0, 16, Access::write)},
                          {use(1, 8, 0, Access::write)},
                          {use(1, 0, 0, Access::read)}}),
            0U);
}

TEST(HazardTracker, what_a_command_does_to_itself_needs_no_barrier) {
  EXPECT_EQ(barriers_for({{use(1, 0, 16, Access::read), use(1, 0, 16, Access::write)}}), 0U);
}

TEST(HazardTracker, a_barrier_for_one_object_serves_the_others_too) {
  EXPECT_EQ(barriers_for({{use(1, 0, 16, Access::write), use(2, 0, 16, Access::write)},
                          {use(1, 0, 16, Access::read)},
                          {use(2, 0, 16, Access::read)}}),
            1U);
}

TEST(HazardTracker, a_new_list_starts_without_conflicts) {
  HazardTracker tracker;
  ASSERT_FALSE(tracker.reserve(1));
  tracker.add(tracker.entry(1), {{0}, {16}}, Access::write);
  tracker.start_list();
  EXPECT_FALSE(tracker.reserve(1));
  EXPECT_FALSE(tracker.conflicts(tracker.entry(1), {{0}, {16}}, Access::write));
  EXPECT_EQ(tracker.entry(1).told_version, 0U);
}

TEST(HazardTracker, many_objects_make_it_forget_with_a_barrier_instead_of_growing) {
  HazardTracker tracker;
  size_t forgot = 0;
  for (uint64_t key = 1; key <= 20'000; ++key) {
    if (tracker.reserve(1)) {
      ++forgot;
      tracker.next_wave();
    }
    HazardTracker::Entry& entry = tracker.entry(key);
    ASSERT_EQ(entry.key, key);
    ASSERT_FALSE(tracker.conflicts(entry, {{0}, {16}}, Access::write));
    tracker.add(entry, {{0}, {16}}, Access::write);
    ASSERT_TRUE(tracker.conflicts(tracker.entry(key), {{0}, {16}}, Access::read));
  }
  EXPECT_GE(forgot, 1U);
  EXPECT_LE(forgot, 200U) << "a barrier for every few objects costs too much";
}

TEST(HazardTracker, one_command_may_bring_more_objects_than_it_remembers) {
  HazardTracker tracker;
  const bool forgot = tracker.reserve(5000);
  if (forgot) tracker.next_wave();
  for (uint64_t key = 1; key <= 5000; ++key) {
    tracker.add(tracker.entry(key), {{0}, {8}}, Access::write);
  }
  for (uint64_t key = 1; key <= 5000; ++key) {
    ASSERT_TRUE(tracker.conflicts(tracker.entry(key), {{0}, {8}}, Access::read)) << key;
  }
}

TEST(HazardTracker, growing_keeps_what_it_knows) {
  HazardTracker tracker;
  ASSERT_FALSE(tracker.reserve(1));
  tracker.add(tracker.entry(7), {{0}, {8}}, Access::write);
  for (uint64_t key = 100; key < 600; ++key) {
    ASSERT_FALSE(tracker.reserve(1));
    tracker.add(tracker.entry(key), {{0}, {8}}, Access::read);
  }
  EXPECT_TRUE(tracker.conflicts(tracker.entry(7), {{0}, {8}}, Access::read));
}

std::vector<Command> random_commands(std::mt19937_64& random, size_t count, uint64_t objects,
                                     uint64_t bytes, uint64_t longest) {
  const auto pick = [&](uint64_t below) { return random() % below; };
  std::vector<Command> commands(count);
  for (Command& command : commands) {
    for (uint64_t uses = 1 + pick(3); uses > 0; --uses) {
      const uint64_t offset = pick(bytes);
      command.push_back(use(1 + pick(objects), offset, pick(longest) % (bytes - offset + 1),
                            static_cast<Access>(1 + pick(3))));
    }
  }
  return commands;
}

void expect_conflicts_are_separated(const std::vector<Command>& commands,
                                    const std::vector<uint32_t>& waves) {
  for (size_t later = 0; later < commands.size(); ++later) {
    for (size_t earlier = 0; earlier < later; ++earlier) {
      if (!conflict(commands[earlier], commands[later])) continue;
      ASSERT_LT(waves[earlier], waves[later])
          << "commands " << earlier << " and " << later << " conflict in one wave";
    }
  }
}

// The fewest barriers that keep recorded order: one only where a command conflicts with one of its
// wave.
std::vector<uint32_t> greedy_waves(const std::vector<Command>& commands) {
  std::vector<uint32_t> waves;
  uint32_t wave = 1;
  size_t first_of_wave = 0;
  for (size_t i = 0; i < commands.size(); ++i) {
    for (size_t j = first_of_wave; j < i; ++j) {
      if (!conflict(commands[j], commands[i])) continue;
      ++wave;
      first_of_wave = i;
      break;
    }
    waves.push_back(wave);
  }
  return waves;
}

TEST(HazardTracker, random_commands_get_exactly_the_waves_of_a_brute_force_reference) {
  for (uint64_t seed = 1; seed <= 5000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    HazardTracker tracker;
    // At most 30 ranges an object and wave, so that the bounded sets stay exact.
    const auto commands = random_commands(random, 10, 1 + seed % 4, 64, 24);
    const auto waves = waves_of(tracker, commands);
    ASSERT_NO_FATAL_FAILURE(expect_conflicts_are_separated(commands, waves));
    ASSERT_EQ(waves, greedy_waves(commands));
    // The same tracker serves the next list, from the start.
    tracker.start_list();
    ASSERT_EQ(waves_of(tracker, commands), waves);
  }
}

TEST(HazardTracker, sets_that_collapse_stay_on_the_safe_side) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    HazardTracker tracker;
    const auto commands = random_commands(random, 150, 2, 100'000, 40);
    const auto waves = waves_of(tracker, commands);
    ASSERT_NO_FATAL_FAILURE(expect_conflicts_are_separated(commands, waves));
  }
}

TEST(HazardTracker, forgetting_keeps_conflicting_commands_apart) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    HazardTracker tracker;
    const auto commands = random_commands(random, 1500, 2500, 16, 16);
    const auto waves = waves_of(tracker, commands);
    ASSERT_NO_FATAL_FAILURE(expect_conflicts_are_separated(commands, waves));
  }
}

}  // namespace
}  // namespace holdfast::runtime
