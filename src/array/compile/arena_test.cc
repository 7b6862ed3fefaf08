#include "holdfast/array/compile/arena.h"

#include <gtest/gtest.h>

#include <random>

namespace holdfast::array {
namespace {

TEST(Arena, gives_the_smallest_free_range_that_will_do) {
  Arena arena;
  const Arena::Range large = arena.allocate(1000_B);
  const Arena::Range small = arena.allocate(1_B);
  const Arena::Range last = arena.allocate(10_B);
  EXPECT_EQ(large.bytes, (ByteRange{0_B, 1024_B}));
  EXPECT_EQ(small.bytes, (ByteRange{1024_B, 256_B}));
  EXPECT_EQ(small.last_wave, 0U);
  arena.free(large.bytes, 3);
  arena.free(small.bytes, 5);
  EXPECT_EQ(arena.allocate(100_B).last_wave, 5U) << "neighbours are joined, and the later counts";
  arena.free(last.bytes, 7);
  EXPECT_EQ(arena.size(), 1536_B);
}

TEST(Arena, a_free_range_at_the_end_grows) {
  Arena arena;
  const Arena::Range first = arena.allocate(256_B);
  arena.free(first.bytes, 2);
  const Arena::Range second = arena.allocate(600_B);
  EXPECT_EQ(second.bytes, (ByteRange{0_B, 768_B}));
  EXPECT_EQ(second.last_wave, 2U);
  EXPECT_EQ(arena.size(), 768_B);
}

TEST(Arena, nothing_needs_no_bytes) {
  Arena arena;
  EXPECT_TRUE(arena.allocate(0_B).bytes.empty());
  arena.free({}, 1);
  EXPECT_EQ(arena.size(), 0_B);
}

TEST(Arena, ranges_in_use_never_overlap) {
  std::mt19937 random(1);
  Arena arena;
  std::vector<ByteRange> used;
  uint64_t most = 0;
  for (uint32_t i = 1; i < 3000; ++i) {
    if (!used.empty() && random() % 2 == 0) {
      const size_t which = random() % used.size();
      arena.free(used[which], i);
      used.erase(used.begin() + static_cast<std::ptrdiff_t>(which));
      continue;
    }
    const ByteRange given = arena.allocate({1 + random() % 5000}).bytes;
    uint64_t all = given.length.value;
    for (const ByteRange& other : used) {
      ASSERT_FALSE(other.overlaps(given));
      all += other.length.value;
    }
    ASSERT_LE(given.end(), arena.size());
    used.push_back(given);
    most = std::max(most, all);
  }
  EXPECT_LT(arena.size().value, 2 * most);
}

}  // namespace
}  // namespace holdfast::array
