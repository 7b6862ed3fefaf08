#include "holdfast/hal/damage.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "holdfast/base/range_test.h"

namespace holdfast::hal {
namespace {

const Failure kFirst(ErrorCode::execution, "first");
const Failure kSecond(ErrorCode::execution, "second");
const ResourceId kX = ResourceId::next();
const ResourceId kY = ResourceId::next();

TEST(Damage, names_the_cause_of_bytes_that_are_bad_and_of_no_others) {
  Damage damage;
  EXPECT_TRUE(damage.empty());
  damage.add(kX, range(10, 20), kFirst);
  EXPECT_FALSE(damage.empty());
  EXPECT_EQ(damage.find(kX, range(29, 100)), kFirst);
  EXPECT_EQ(damage.find(kX, range(0, 11)), kFirst);
  EXPECT_FALSE(damage.find(kX, range(0, 10)));
  EXPECT_FALSE(damage.find(kX, range(30, 10)));
  EXPECT_FALSE(damage.find(kX, range(15, 0))) << "no bytes are never bad";
  EXPECT_FALSE(damage.find(kY, range(0, 100))) << "ids decide, not places";
}

TEST(Damage, the_later_cause_of_a_byte_counts_and_the_rest_keeps_its_own) {
  Damage damage;
  damage.add(kX, range(0, 30), kFirst);
  damage.add(kX, range(10, 10), kSecond);
  EXPECT_EQ(damage.find(kX, range(9, 1)), kFirst);
  EXPECT_EQ(damage.find(kX, range(10, 10)), kSecond);
  EXPECT_EQ(damage.find(kX, range(20, 1)), kFirst);
  EXPECT_EQ(damage.find(kX, range(0, 30)), kFirst) << "that of the first bad byte";
}

TEST(Damage, what_is_removed_is_good_to_the_byte) {
  Damage damage;
  damage.add(kX, range(0, 30), kFirst);
  damage.remove(kX, range(10, 10));
  EXPECT_FALSE(damage.find(kX, range(10, 10)));
  EXPECT_EQ(damage.find(kX, range(9, 1)), kFirst);
  EXPECT_EQ(damage.find(kX, range(20, 1)), kFirst);
  damage.remove(kX, range(0, 100));
  EXPECT_TRUE(damage.empty());
}

TEST(Damage, is_exact_however_many_pieces_there_are) {
  std::mt19937 random(1);
  Damage damage;
  std::map<std::pair<ResourceId, uint64_t>, Failure> bytes;
  for (int step = 0; step < 3000; ++step) {
    const ResourceId id = random() % 2 == 0 ? kX : kY;
    const ByteRange at = range(random() % 400, random() % 12);
    const bool adds = random() % 3 != 0;
    const Failure& cause = random() % 2 == 0 ? kFirst : kSecond;
    if (adds) {
      damage.add(id, at, cause);
    } else {
      damage.remove(id, at);
    }
    for (uint64_t b = at.offset.value; b < at.end().value; ++b) {
      bytes[{id, b}] = adds ? cause : Failure();
    }
    const ByteRange look = range(random() % 400, 1 + random() % 20);
    Failure expected;
    std::map<uint64_t, Failure> pieces;
    for (uint64_t b = look.offset.value; b < look.end().value; ++b) {
      const auto found = bytes.find({id, b});
      if (found == bytes.end() || !found->second) continue;
      if (!expected) expected = found->second;
      pieces[b] = found->second;
    }
    ASSERT_EQ(damage.find(id, look), expected) << "step " << step;
    std::map<uint64_t, Failure> visited;
    damage.visit(id, look, [&](ByteRange piece, const Failure& why) {
      for (uint64_t b = piece.offset.value; b < piece.end().value; ++b) visited[b] = why;
    });
    ASSERT_EQ(visited, pieces) << "step " << step;
  }
  size_t bad = 0;
  for (const auto& [at, cause] : bytes) bad += cause ? 1 : 0;
  damage.visit_all([&](ResourceId, ByteRange piece, const Failure&) { bad -= piece.length.value; });
  EXPECT_EQ(bad, 0U);
}

}  // namespace
}  // namespace holdfast::hal
