#include "holdfast/base/sync/recycled_memory.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "holdfast/base/sanitizers.h"
#include "holdfast/base/sync/thread.h"

namespace holdfast {
namespace {

struct Recycled {
  static void* operator new(size_t bytes) { return RecycledMemory<Recycled>::take(bytes); }
  static void operator delete(void* block) noexcept { RecycledMemory<Recycled>::give(block); }
  uint64_t words[8] = {};
};

TEST(RecycledMemory, a_thread_gets_back_the_block_that_it_gave_last) {
  if (has_sanitizer()) GTEST_SKIP() << "a sanitizer sees every block on the heap";
  const auto* const first = new Recycled;
  const auto* const second = new Recycled;
  delete first;
  delete second;
  const auto* const again = new Recycled;
  EXPECT_EQ(static_cast<const void*>(again), static_cast<const void*>(second));
  delete again;
}

TEST(RecycledMemory, objects_never_share_a_block_however_many_there_are) {
  for (int round = 0; round < 3; ++round) {
    std::vector<Recycled*> all;
    std::set<Recycled*> different;
    for (uint64_t i = 0; i < 1000; ++i) {
      all.push_back(new Recycled{{i}});
      different.insert(all.back());
    }
    EXPECT_EQ(different.size(), all.size());
    for (uint64_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i]->words[0], i);
    for (const Recycled* one : all) delete one;
  }
}

TEST(RecycledMemory, objects_may_be_dropped_by_other_threads_and_after_their_thread) {
  std::vector<Recycled*> of_another;
  {
    sync::Thread maker("maker", [&] {
      for (uint64_t i = 0; i < 300; ++i) of_another.push_back(new Recycled{{i}});
      // Leaves the thread a spare block, which goes with it.
      delete of_another.back();
      of_another.pop_back();
    });
  }
  {
    sync::Thread dropper("dropper", [&] {
      for (size_t i = 0; i < 100; ++i) delete of_another[i];
    });
  }
  of_another.erase(of_another.begin(), of_another.begin() + 100);
  std::set<Recycled*> different(of_another.begin(), of_another.end());
  std::vector<Recycled*> made_since;
  for (int i = 0; i < 300; ++i) {
    made_since.push_back(new Recycled);
    different.insert(made_since.back());
  }
  EXPECT_EQ(different.size(), of_another.size() + made_since.size())
      << "none is in memory of a living one";
  for (uint64_t i = 0; i < of_another.size(); ++i) EXPECT_EQ(of_another[i]->words[0], i + 100);
  for (const Recycled* one : of_another) delete one;
  for (const Recycled* one : made_since) delete one;
}

}  // namespace
}  // namespace holdfast
