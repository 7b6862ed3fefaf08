#include "holdfast/base/range_set.h"

#include <gtest/gtest.h>

#include <bitset>
#include <random>

#include "holdfast/base/range_test.h"

namespace holdfast {
namespace {

// What a RangeSet should be: one bit a byte.
template <size_t kSize>
class Bitmap {
 public:
  void set(ByteRange r, bool on) {
    for (uint64_t i = r.offset.value; i < r.end().value; ++i) bits_.set(i, on);
  }
  bool any(ByteRange r) const {
    for (uint64_t i = r.offset.value; i < r.end().value; ++i) {
      if (bits_.test(i)) return true;
    }
    return false;
  }
  bool all(ByteRange r) const {
    for (uint64_t i = r.offset.value; i < r.end().value; ++i) {
      if (!bits_.test(i)) return false;
    }
    return true;
  }
  bool test(uint64_t i) const { return bits_.test(i); }
  size_t runs() const {
    size_t count = 0;
    for (size_t i = 0; i < kSize; ++i) count += bits_.test(i) && (i == 0 || !bits_.test(i - 1));
    return count;
  }

 private:
  std::bitset<kSize> bits_;
};

ByteRange random_range(std::mt19937& random, uint64_t size, uint64_t longest) {
  const uint64_t offset = random() % size;
  return range(offset, random() % (std::min(longest, size - offset) + 1));
}

// Sorted, disjoint, non-touching, without empty ranges.
void expect_well_formed(const RangeSet& set) {
  EXPECT_EQ(set.empty(), set.begin() == set.end());
  const ByteRange* before = nullptr;
  for (const ByteRange& r : set) {
    EXPECT_FALSE(r.empty());
    if (before != nullptr) {
      EXPECT_LT(before->end(), r.offset);
    }
    before = &r;
  }
}

TEST(RangeSet, a_new_set_is_empty) {
  const RangeSet set;
  EXPECT_TRUE(set.empty());
  EXPECT_FALSE(set.overlaps(range(0, 100)));
  EXPECT_FALSE(set.contains(range(0, 1)));
}

TEST(RangeSet, ranges_that_touch_or_overlap_become_one) {
  RangeSet set(range(10, 5));
  set.add(range(15, 5));
  set.add(range(5, 6));
  ASSERT_EQ(set.size(), 1U);
  EXPECT_EQ(*set.begin(), range(5, 15));
  set.add(range(30, 1));
  EXPECT_EQ(set.size(), 2U);
  set.add(range(18, 20));
  ASSERT_EQ(set.size(), 1U);
  EXPECT_EQ(*set.begin(), range(5, 33));
}

TEST(RangeSet, a_removal_cuts_exactly_its_bytes) {
  RangeSet set(range(0, 30));
  set.remove(range(10, 5));
  ASSERT_EQ(set.size(), 2U);
  EXPECT_EQ(*set.begin(), range(0, 10));
  EXPECT_EQ(*(set.begin() + 1), range(15, 15));
  set.remove(range(5, 20));
  ASSERT_EQ(set.size(), 2U);
  EXPECT_EQ(*set.begin(), range(0, 5));
  EXPECT_EQ(*(set.begin() + 1), range(25, 5));
  set.remove(range(0, 30));
  EXPECT_TRUE(set.empty());
}

TEST(RangeSet, empty_ranges_change_nothing_and_are_always_contained) {
  RangeSet set;
  set.add(range(7, 0));
  EXPECT_TRUE(set.empty());
  set.add(range(0, 10));
  set.remove(range(5, 0));
  EXPECT_EQ(set.size(), 1U);
  EXPECT_TRUE(set.contains(range(100, 0)));
  EXPECT_FALSE(set.overlaps(range(5, 0)));
}

TEST(RangeSet, a_range_across_a_hole_overlaps_but_is_not_contained) {
  RangeSet set(range(0, 10));
  set.add(range(11, 10));
  EXPECT_TRUE(set.overlaps(range(5, 10)));
  EXPECT_FALSE(set.contains(range(5, 10)));
  EXPECT_FALSE(set.overlaps(range(10, 1)));
}

TEST(RangeSet, clear_forgets_everything) {
  RangeSet set(range(0, 10));
  set.add(range(20, 10));
  set.clear();
  EXPECT_TRUE(set.empty());
  EXPECT_FALSE(set.overlaps(range(0, 30)));
}

TEST(RangeSet, ranges_at_the_end_of_the_address_space_are_kept_apart) {
  const uint64_t max = kMaxBytes.value;
  RangeSet set(range(max - 4, 4));
  set.add(range(0, 4));
  EXPECT_EQ(set.size(), 2U);
  EXPECT_TRUE(set.contains(range(max - 1, 1)));
  EXPECT_FALSE(set.overlaps(range(4, max - 8)));
}

// 64 bytes have room for 32 ranges, kMaxRanges, so the set must be exact.
TEST(RangeSet, below_its_bound_it_does_what_a_bitmap_does) {
  constexpr uint64_t kSize = 64;
  static_assert(kSize / 2 <= RangeSet::kMaxRanges);
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const uint64_t longest = 1 + seed % 12;
    RangeSet set;
    Bitmap<kSize> bits;
    for (int step = 0; step < 150; ++step) {
      const ByteRange changed = random_range(random, kSize, longest);
      const bool add = random() % 5 < 3;
      add ? set.add(changed) : set.remove(changed);
      bits.set(changed, add);
      expect_well_formed(set);
      ASSERT_EQ(set.size(), bits.runs());
      for (uint64_t i = 0; i < kSize; ++i) ASSERT_EQ(set.overlaps(range(i, 1)), bits.test(i));
      for (int i = 0; i < 8; ++i) {
        const ByteRange asked = random_range(random, kSize, kSize);
        ASSERT_EQ(set.overlaps(asked), bits.any(asked));
        ASSERT_EQ(set.contains(asked), bits.all(asked));
      }
    }
  }
}

TEST(RangeSet, past_its_bound_it_never_claims_fewer_bytes) {
  constexpr uint64_t kSize = 2048;
  bool joined = false;
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const bool removes = seed % 2 == 0;
    RangeSet set;
    Bitmap<kSize> bits;
    for (int step = 0; step < 300; ++step) {
      const ByteRange changed = random_range(random, kSize, 12);
      const bool add = !removes || random() % 4 < 3;
      add ? set.add(changed) : set.remove(changed);
      bits.set(changed, add);
      expect_well_formed(set);
      if (!removes) {
        ASSERT_LE(set.size(), RangeSet::kMaxRanges);
      }
      joined = joined || bits.runs() > RangeSet::kMaxRanges;
      for (uint64_t i = 0; i < kSize; ++i) {
        if (bits.test(i)) {
          ASSERT_TRUE(set.contains(range(i, 1))) << "byte " << i;
        }
      }
    }
  }
  EXPECT_TRUE(joined) << "the bound was never met: this test proved nothing";
}

TEST(RangeSet, a_hole_cut_into_a_full_set_loses_no_other_byte) {
  RangeSet set;
  for (uint64_t i = 0; i < RangeSet::kMaxRanges; ++i) set.add(range(i * 100, 50));
  set.remove(range(510, 5));
  EXPECT_FALSE(set.overlaps(range(510, 5)));
  for (uint64_t i = 0; i < RangeSet::kMaxRanges; ++i) {
    if (i != 5) {
      EXPECT_TRUE(set.contains(range(i * 100, 50)));
    }
  }
  EXPECT_TRUE(set.contains(range(500, 10)));
  EXPECT_TRUE(set.contains(range(515, 35)));
}

TEST(RangeSet, past_its_bound_it_joins_the_neighbours_with_the_smallest_gap) {
  RangeSet set;
  for (uint64_t i = 0; i < RangeSet::kMaxRanges; ++i) set.add(range(i * 100, i == 7 ? 95 : 50));
  EXPECT_EQ(set.size(), RangeSet::kMaxRanges);
  EXPECT_FALSE(set.contains(range(795, 5)));
  set.add(range(RangeSet::kMaxRanges * 100, 50));
  EXPECT_EQ(set.size(), RangeSet::kMaxRanges);
  EXPECT_TRUE(set.contains(range(700, 150))) << "the gap of five bytes is claimed";
  for (uint64_t i = 0; i < RangeSet::kMaxRanges; ++i) {
    if (i != 7) {
      EXPECT_FALSE(set.overlaps(range(i * 100 + 50, 50))) << "gap " << i;
    }
  }
}

TEST(RangeSet, what_was_removed_piece_by_piece_stays_removed) {
  RangeSet set(ByteRange{{}, 8000_B});
  for (uint64_t piece = 0; piece < 80; piece += 2) set.remove({Bytes{piece * 100}, 100_B});
  for (uint64_t piece = 1; piece < 80; piece += 2) set.remove({Bytes{piece * 100}, 100_B});
  EXPECT_TRUE(set.empty());
}

}  // namespace
}  // namespace holdfast
