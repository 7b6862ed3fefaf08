#pragma once

#include <atomic>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "holdfast/hal/device.h"
#include "holdfast/runtime/options.h"
#include "holdfast/runtime/stats.h"

namespace holdfast::runtime {

struct RangeNode;

// Gives out ranges of large blocks and takes them back when they die. A dead range whose Frontier
// is not over is deferred. Before that it is given out again only
//  - to the lane whose lists are all that it still waits for: the recorder orders the new life
//  after the old one;
//  - or, where there is no other room, to anybody, if all its lists are submitted: the new life
//  starts with the old one's
//    Frontier as its history, from which binding derives device-side waits.
// Memory that the host fills (upload, readback) is never given out before its Frontier is over.
//
// Never waits and never submits: where it finds no room it says so, and the caller decides what to
// do. Thread-safe; its lock is held for no driver call.
class Allocator final : public hal::RangeOwner {
 public:
  Allocator(Ref<hal::Device> device, const Options& options);
  ~Allocator() override;

  enum class Effort {
    pool,          // what is free, what the lane may reuse, and new blocks within the limits
    any_submitted  // also other lanes' deferred ranges
  };
  struct Request {
    Bytes size;
    hal::MemoryKind kind = hal::MemoryKind::device;
    std::string name;
    // Who will use it first; none: anybody.
    hal::LaneId lane;
    // Where the user asked for it, if that is known.
    std::source_location site{};
  };
  struct Given {
    Ref<hal::Allocation> allocation;  // null: no room
    // Where an earlier life of the range has not ended on the device yet: whose.
    hal::ResourceId ended;
    // What the device answered, where it was asked for a block and refused.
    Failure refusal;
  };
  // Keeps the request's name only on success. Cost: bench row pool_allocate_free.
  Given allocate(Request& request, Effort effort);
  // Whether the device takes another import.
  bool has_room_for_an_import() const;
  // The deleter runs in any case.
  Result<Ref<hal::Allocation>> import(hal::ExternalMemory memory);

  // Buffers to be dropped by the caller, where no lock is held.
  using Garbage = std::vector<Ref<hal::Buffer>>;
  // A Ticket is over: what waited for it alone becomes free.
  [[nodiscard]] Garbage ticket_over(hal::Ticket& ticket);
  // A lane that will ask, and one that will ask for nothing any more. Requests may name other lanes
  // too, but only a lane that was added has dead ranges kept for it.
  void add_lane(hal::LaneId lane);
  void forget_lane(hal::LaneId lane);
  // Gives wholly free blocks back, until at most `keep` bytes are pooled.
  [[nodiscard]] Garbage trim(Bytes keep = {});

  void set_memory_limit(Bytes limit);
  // From now on, whenever a range becomes free: wholly free blocks go back until at most this much
  // is pooled.
  void set_cache_limit(Bytes limit);
  // What new requests could have at best: all within the limit that no live allocation has. (Less
  // where the rest lies in pieces, or where the device has less than it says.) Two relaxed loads.
  Bytes room() const noexcept;
  // One relaxed load each.
  Bytes deferred_bytes() const noexcept {
    return Bytes{deferred_bytes_.load(std::memory_order_relaxed)};
  }
  uint64_t deferred_objects() const noexcept {
    return deferred_objects_.load(std::memory_order_relaxed);
  }
  // Whether something deferred waits for this Ticket.
  bool keeps_deferred(const hal::Ticket& ticket) const;
  MemoryStats stats() const;
  void snapshot(Snapshot& snapshot) const;
  // Why a request found no room, in numbers, and which setting would give it more. `refusal` is
  // what the device said, if it was asked.
  struct Shortage {
    std::string what;
    std::string remedy;  // "raise HOLDFAST_MEMORY_LIMIT"; empty where no setting would help
  };
  Shortage describe_shortage(const Request& request, const Failure& refusal) const;

  // No more requests; blocks go back to the device as soon as nobody has a range of them.
  [[nodiscard]] Garbage close();

#ifdef HOLDFAST_ABLATIONS
  // Frees dead ranges although lists may still use them.
  [[nodiscard]] Garbage release_deferred_ranges();
#endif

  void range_died(hal::Allocation& allocation) noexcept override;

 private:
  struct State;
  // A deferred range whose Frontier is over. With the lock held.
  void release_deferred(RangeNode& node, Garbage& garbage);
  // One more that is deferred (1), or one less (-1). With the lock held.
  void count_deferred(const RangeNode& node, int nodes);
  std::unique_ptr<State> state_;
  std::atomic<uint64_t> deferred_bytes_{0};
  std::atomic<uint64_t> deferred_objects_{0};
};

}  // namespace holdfast::runtime
