#include "holdfast/runtime/range_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "holdfast/hal/cpu/cpu_device.h"

namespace holdfast::runtime {
namespace {

struct Blocks {
  Ref<hal::CpuDevice> device = hal::CpuDevice::open({.queues = 1, .helpers = 0});
  std::vector<std::unique_ptr<Block>> all;
  RangePool pool;

  Block& add(Bytes size) {
    auto& block = all.emplace_back(std::make_unique<Block>());
    block->buffer = device->create_buffer({size, hal::MemoryKind::device, "block"}).or_raise();
    pool.add_block(*block);
    return *block;
  }
};

TEST(RangePool, a_class_holds_its_request_and_wastes_at_most_an_eighth) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const Bytes bytes{256 + (random() >> (24 + random() % 38))};
    const size_t c = class_that_holds(bytes);
    ASSERT_LT(c, kSizeClasses);
    ASSERT_GE(class_bytes(c), bytes);
    ASSERT_LE((class_bytes(c) - bytes).value, bytes.value / 8) << bytes.value;
    ASSERT_LE(class_bytes(class_within(bytes)), bytes);
  }
}

TEST(RangePool, classes_grow_strictly_and_find_themselves) {
  EXPECT_EQ(class_bytes(0), kSmallestClass);
  EXPECT_EQ(class_that_holds(kSmallestClass), 0U);
  for (size_t c = 1; c < kSizeClasses; ++c) {
    ASSERT_GT(class_bytes(c), class_bytes(c - 1));
    ASSERT_EQ(class_that_holds(class_bytes(c)), c);
    ASSERT_EQ(class_within(class_bytes(c)), c);
    ASSERT_EQ(class_within(class_bytes(c) - 1_B), c - 1);
  }
  EXPECT_EQ(class_that_holds({}), 0U);
  EXPECT_GE(class_that_holds(kMaxBytes), kSizeClasses);
}

TEST(RangePool, takes_until_the_block_is_used_up_and_then_says_so) {
  Blocks blocks;
  blocks.add(4_KiB);
  std::vector<RangeNode*> taken;
  while (RangeNode* node = blocks.pool.take(1_KiB)) taken.push_back(node);
  EXPECT_EQ(taken.size(), 4U);
  EXPECT_EQ(blocks.pool.free_bytes(), 0_B);
  EXPECT_EQ(blocks.pool.take(256_B), nullptr);
}

TEST(RangePool, neighbours_join_in_every_order_of_return) {
  std::array<size_t, 4> order{0, 1, 2, 3};
  do {
    Blocks blocks;
    Block& block = blocks.add(4_KiB);
    std::array<RangeNode*, 4> nodes{};
    for (RangeNode*& node : nodes) node = blocks.pool.take(1_KiB);
    for (size_t i : order) {
      EXPECT_FALSE(RangePool::is_whole_and_free(block));
      blocks.pool.give_back(*nodes[i]);
    }
    EXPECT_TRUE(RangePool::is_whole_and_free(block));
    EXPECT_NE(blocks.pool.take(4_KiB), nullptr);
  } while (std::ranges::next_permutation(order).found);
}

TEST(RangePool, an_adopted_block_is_given_out_whole_and_not_free) {
  Blocks blocks;
  auto block = std::make_unique<Block>();
  block->buffer =
      blocks.device->create_buffer({3_KiB, hal::MemoryKind::device, "whole"}).or_raise();
  const RangeNode* node = blocks.pool.adopt(*block);
  EXPECT_EQ(node->range, (ByteRange{{}, 3_KiB}));
  EXPECT_EQ(node->state, RangeNode::State::live);
  EXPECT_EQ(blocks.pool.free_bytes(), 0_B);
  EXPECT_EQ(blocks.pool.take(256_B), nullptr);
  blocks.pool.remove_block(*block);
  EXPECT_EQ(block->first, nullptr);
}

TEST(RangePool, a_removed_block_is_no_longer_given_out) {
  Blocks blocks;
  Block& first = blocks.add(4_KiB);
  blocks.add(1_KiB);
  blocks.pool.remove_block(first);
  EXPECT_EQ(blocks.pool.free_bytes(), 1_KiB);
  EXPECT_EQ(blocks.pool.take(2_KiB), nullptr);
  EXPECT_NE(blocks.pool.take(1_KiB), nullptr);
}

TEST(RangePool, random_use_never_overlaps_adds_up_and_joins_again) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    Blocks blocks;
    Bytes total;
    for (uint64_t i = 0; i < 1 + seed % 3; ++i) {
      const Bytes size = 64_KiB * (1 + random() % 4);
      blocks.add(size);
      total += size;
    }
    std::vector<RangeNode*> live;
    Bytes live_bytes;
    const auto check = [&] {
      ASSERT_EQ(blocks.pool.free_bytes() + live_bytes, total);
      Bytes walked_free;
      for (const auto& block : blocks.all) {
        Bytes at;
        bool free_before = false;
        for (const RangeNode* n = block->first; n != nullptr; n = n->right) {
          ASSERT_EQ(n->range.offset, at) << "ranges leave a gap or overlap";
          ASSERT_EQ(n->block, block.get());
          at += n->range.length;
          const bool is_free = n->state == RangeNode::State::free;
          ASSERT_FALSE(is_free && free_before) << "two free neighbours were not joined";
          if (is_free) walked_free += n->range.length;
          free_before = is_free;
        }
        ASSERT_EQ(at, block->buffer->size());
      }
      ASSERT_EQ(walked_free, blocks.pool.free_bytes());
    };
    for (int step = 0; step < 400; ++step) {
      if (live.empty() || random() % 5 < 3) {
        const Bytes bytes = class_bytes(random() % 60);
        if (RangeNode* node = blocks.pool.take(bytes)) {
          ASSERT_EQ(node->state, RangeNode::State::live);
          ASSERT_GE(node->range.length, bytes);
          live.push_back(node);
          live_bytes += node->range.length;
        }
      } else {
        std::swap(live[random() % live.size()], live.back());
        live_bytes -= live.back()->range.length;
        blocks.pool.give_back(*live.back());
        live.pop_back();
      }
      ASSERT_NO_FATAL_FAILURE(check());
    }
    for (RangeNode* node : live) blocks.pool.give_back(*node);
    EXPECT_EQ(blocks.pool.free_bytes(), total);
    for (const auto& block : blocks.all) EXPECT_TRUE(RangePool::is_whole_and_free(*block));
  }
}

}  // namespace
}  // namespace holdfast::runtime
