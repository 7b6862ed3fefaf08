#include "holdfast/base/id.h"

#include <gtest/gtest.h>

#include <array>
#include <unordered_set>
#include <vector>

#include "holdfast/base/sync/thread.h"

namespace holdfast {
namespace {

using AppleId = Id<struct AppleTag>;
using PearId = Id<struct PearTag>;

template <typename A, typename B>
concept Comparable = requires(A a, B b) { a == b; };

TEST(Id, a_default_id_is_nobody) {
  EXPECT_FALSE(AppleId());
  EXPECT_EQ(AppleId(), AppleId{0});
  EXPECT_TRUE(AppleId::next());
}

TEST(Id, later_ids_are_greater) {
  const AppleId first = AppleId::next();
  const AppleId second = AppleId::next();
  EXPECT_LT(first, second);
  EXPECT_NE(first, second);
}

TEST(Id, ids_of_different_things_cannot_be_compared) {
  static_assert(Comparable<AppleId, AppleId>);
  static_assert(!Comparable<AppleId, PearId>);
  static_assert(!std::is_convertible_v<AppleId, PearId>);
  static_assert(!std::is_convertible_v<AppleId, uint64_t>);
}

TEST(Id, each_kind_counts_for_itself) {
  using CherryId = Id<struct CherryTag>;
  const CherryId before = CherryId::next();
  for (int i = 0; i < 10; ++i) AppleId::next();
  EXPECT_EQ(CherryId::next(), CherryId{before.value + 1});
}

TEST(Id, ids_taken_by_many_threads_at_once_are_distinct) {
  constexpr size_t kThreads = 4;
  constexpr size_t kEach = 5000;
  std::array<std::vector<AppleId>, kThreads> taken;
  {
    std::vector<sync::Thread> threads;
    for (auto& mine : taken) {
      threads.emplace_back("ids", [&mine] {
        for (size_t i = 0; i < kEach; ++i) mine.push_back(AppleId::next());
      });
    }
  }
  std::unordered_set<AppleId> distinct;
  for (const auto& mine : taken) distinct.insert(mine.begin(), mine.end());
  EXPECT_EQ(distinct.size(), kThreads * kEach);
  EXPECT_FALSE(distinct.contains(AppleId()));
}

}  // namespace
}  // namespace holdfast
