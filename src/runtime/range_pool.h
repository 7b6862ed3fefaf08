#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "holdfast/base/bytes.h"
#include "holdfast/hal/allocation.h"

namespace holdfast::runtime {

struct Block;

// One range of a Block: in use, deferred (dead, its Frontier not over) or free. Its neighbours in
// the block are linked, so that free ones can be joined.
struct RangeNode : hal::TicketWaiter {
  enum class State : uint8_t { live, deferred, free };
  State state = State::free;
  Block* block = nullptr;
  ByteRange range;
  RangeNode* left = nullptr;
  RangeNode* right = nullptr;
  // Among those of the same class: free ranges, or a lane's deferred ones.
  RangeNode* class_previous = nullptr;
  RangeNode* class_next = nullptr;
  // live: who has it; null while that one is being made.
  std::atomic<hal::Allocation*> allocation{nullptr};
  // deferred: what it waits for, where it was last used, and the one lane it waits for, if it is
  // one.
  hal::Frontier frontier;
  hal::LastUse last_use;
  hal::LaneId lane;
  // deferred: the life that ended.
  hal::ResourceId dead_id;
  std::string dead_name;
};

// A Buffer that ranges are cut from, or that is given out whole.
struct Block {
  Ref<hal::Buffer> buffer;
  RangeNode* first = nullptr;
  bool imported = false;
  size_t index = 0;  // in the allocator's table
};

// Size classes: eight between each power of two and the next, from 256 bytes up. A request is
// rounded up to its class, which costs at most an eighth of it, and a dead range serves the next
// request of its class.
inline constexpr unsigned kFirstPower = 8;
inline constexpr Bytes kSmallestClass{1U << kFirstPower};
inline constexpr unsigned kStepPower = 3;
inline constexpr unsigned kSteps = 1U << kStepPower;  // classes between a power of two and the next
inline constexpr size_t kSizeClasses = size_t{kSteps} * 48;

constexpr Bytes class_bytes(size_t size_class) noexcept {
  const uint64_t base = uint64_t{1} << (kFirstPower + size_class / kSteps);
  return Bytes{base + base / kSteps * (size_class % kSteps)};
}
// The largest class of at most this; bytes >= kSmallestClass.
constexpr size_t class_within(Bytes bytes) noexcept {
  const auto power = static_cast<unsigned>(std::bit_width(bytes.value)) - 1;
  const uint64_t step = (bytes.value >> (power - kStepPower)) - kSteps;
  return std::min<size_t>((power - kFirstPower) * size_t{kSteps} + step, kSizeClasses - 1);
}
// The smallest class of at least this.
constexpr size_t class_that_holds(Bytes bytes) noexcept {
  if (bytes <= kSmallestClass) return 0;
  const size_t below = class_within(bytes);
  return class_bytes(below) == bytes ? below : below + 1;
}

// The free ranges of all blocks of one memory kind, by class, joined with their free neighbours at
// once. It knows nothing of Tickets: what is in here is free for anybody. Good fit, constant time.
// Not thread-safe.
class RangePool {
 public:
  RangePool() = default;
  RangePool(const RangePool&) = delete;
  RangePool& operator=(const RangePool&) = delete;
  // A node for a block's whole range, free.
  RangeNode* add_block(Block& block);
  // A node for a block that is given out whole, in use.
  RangeNode* adopt(Block& block);
  // A free range of `bytes`, which must be a class's, cut to size and taken out; null where there
  // is none.
  RangeNode* take(Bytes bytes);
  // Back among the free, joined with free neighbours; the node may be gone afterwards. Returns the
  // free node.
  RangeNode* give_back(RangeNode& node);
  // The block's one node goes with it: free, or in nobody's use any more.
  void remove_block(Block& block);
  static bool is_whole_and_free(const Block& block) noexcept;

  Bytes free_bytes() const noexcept { return free_bytes_; }

 private:
  void link(RangeNode& node);
  void unlink(RangeNode& node);
  RangeNode* new_node();
  void delete_node(RangeNode* node);
  void unlink_neighbour(RangeNode& node);

  std::array<RangeNode*, kSizeClasses> free_{};
  std::array<uint64_t, (kSizeClasses + 63) / 64> nonempty_{};
  Bytes free_bytes_;
  std::deque<RangeNode> nodes_;  // all there ever were; an address is reused, never freed
  std::vector<RangeNode*> spare_;
};

}  // namespace holdfast::runtime
