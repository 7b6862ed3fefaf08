#include "holdfast/runtime/allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <unordered_map>

#include "holdfast/base/ablation.h"
#include "holdfast/base/error.h"
#include "holdfast/base/log.h"
#include "holdfast/base/rounding.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/base/sync/process.h"
#include "holdfast/hal/deleter.h"
#include "holdfast/runtime/range_pool.h"

namespace holdfast::runtime {
namespace {

// Blocks grow with what is in use, so that a small program stays small and a large one asks the
// driver seldom.
constexpr Bytes kSmallestBlock = 1_MiB;
constexpr Bytes kLargestBlock = 64_MiB;
// What the pool may keep free of wholly unused blocks when it has to ask for another one: a
// fraction of the live bytes, and this.
constexpr Bytes kPoolSlack = 16_MiB;
constexpr uint64_t kPoolFraction = 4;

// A count that is written with the lock held and read without.
void change(std::atomic<uint64_t>& count, uint64_t by) {
  count.store(count.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

void attach(RangeNode& node, hal::Ticket& ticket) {
  node.ticket = &ticket;
  node.previous = nullptr;
  node.next = ticket.waiters;
  if (ticket.waiters != nullptr) ticket.waiters->previous = &node;
  ticket.waiters = &node;
}

void detach(RangeNode& node) {
  if (node.previous != nullptr) {
    node.previous->next = node.next;
  } else {
    node.ticket->waiters = node.next;
  }
  if (node.next != nullptr) node.next->previous = node.previous;
  node.ticket = nullptr;
  node.previous = node.next = nullptr;
}

// The lane of all tickets, if it is one.
hal::LaneId only_lane(const hal::Frontier& frontier) {
  hal::LaneId lane;
  for (const Ref<hal::Ticket>& ticket : frontier) {
    if (lane && lane != ticket->lane()) return {};
    lane = ticket->lane();
  }
  return lane;
}

// Where the next life of a range must expect its last life's commands, if a list that used it is
// still open.
hal::LastUse last_use_for_next_life(const hal::Allocation& dead, const hal::Frontier& frontier) {
  // Of two open lists of a lane the older one is on its way to the queue; the next life comes in
  // the newer one or later.
  hal::ListId newest;
  for (const Ref<hal::Ticket>& ticket : frontier) {
    if (ticket->state() == hal::TicketState::open) newest = std::max(newest, ticket->list());
  }
  if (!newest) return {};
  if (dead.last_use().in(newest)) return dead.last_use();
  // Never used in that list itself, or used elsewhere since: the life before may have been.
  if (dead.earlier_life().in(newest)) return dead.earlier_life();
  return {newest, hal::LastUse::kAnyWave};
}

}  // namespace

struct Allocator::State {
  struct LaneCache {
    std::array<RangeNode*, kSizeClasses> deferred{};
    size_t nodes = 0;
    bool forgotten = false;
  };
  struct Kind {
    RangePool pool;
    std::vector<std::unique_ptr<Block>> blocks;
  };

  Ref<hal::Device> device;  // dropped by close()
  std::string device_name;
  Ref<hal::Probe> probe;
  Bytes device_limit;
  uint32_t object_limit = 0;
  bool object_limit_is_option = false;
  uint32_t import_limit = 0;  // zero: none
  uint32_t fork_generation = sync::fork_generation();
  // Written with the mutex held, read without: limit(), and the live bytes of blocks of our own.
  std::atomic<uint64_t> limit_now{0};
  std::atomic<uint64_t> own_live{0};

  mutable sync::Mutex mutex{sync::LockOrder::allocator};  // guards all below
  std::array<Kind, hal::kMemoryKinds> kinds HOLDFAST_GUARDED_BY(mutex);
  std::unordered_map<uint64_t, std::unique_ptr<LaneCache>> lanes HOLDFAST_GUARDED_BY(mutex);
  // Lanes that asked lately, by the last bits of their numbers.
  struct KnownLane {
    uint64_t lane = 0;
    LaneCache* cache = nullptr;
  };
  std::array<KnownLane, 32> known_lanes HOLDFAST_GUARDED_BY(mutex){};
  Bytes memory_limit HOLDFAST_GUARDED_BY(mutex);
  const char* memory_limit_setting HOLDFAST_GUARDED_BY(mutex) = "";
  Bytes cache_limit HOLDFAST_GUARDED_BY(mutex) = kMaxBytes;
  bool closed HOLDFAST_GUARDED_BY(mutex) = false;
  MemoryStats stats HOLDFAST_GUARDED_BY(mutex);

  LaneCache* lane_cache(hal::LaneId lane) HOLDFAST_REQUIRES(mutex) {
    KnownLane& known = known_lanes[lane.value % known_lanes.size()];
    if (known.lane == lane.value) return known.cache;
    const auto found = lanes.find(lane.value);
    if (found == lanes.end()) return nullptr;
    known = {lane.value, found->second.get()};
    return known.cache;
  }

  void erase_lane_if_done(uint64_t lane, const LaneCache& cache) HOLDFAST_REQUIRES(mutex) {
    if (!cache.forgotten || cache.nodes > 0) return;
    KnownLane& known = known_lanes[lane % known_lanes.size()];
    if (known.lane == lane) known = {};
    lanes.erase(lane);
  }

  // Unless the lane is gone.
  void link_to_lane(RangeNode& node, hal::LaneId lane) HOLDFAST_REQUIRES(mutex) {
    LaneCache* const known = lane_cache(lane);
    if (known == nullptr || known->forgotten) return;
    LaneCache& cache = *known;
    const size_t c = class_within(node.range.length);
    node.lane = lane;
    node.class_previous = nullptr;
    node.class_next = cache.deferred[c];
    if (node.class_next != nullptr) node.class_next->class_previous = &node;
    cache.deferred[c] = &node;
    ++cache.nodes;
  }

  void unlink_from_lane(RangeNode& node) HOLDFAST_REQUIRES(mutex) {
    if (!node.lane) return;
    const uint64_t lane = node.lane.value;
    LaneCache& cache = *lane_cache(node.lane);
    if (node.class_previous != nullptr) {
      node.class_previous->class_next = node.class_next;
    } else {
      cache.deferred[class_within(node.range.length)] = node.class_next;
    }
    if (node.class_next != nullptr) node.class_next->class_previous = node.class_previous;
    node.class_previous = node.class_next = nullptr;
    node.lane = {};
    --cache.nodes;
    erase_lane_if_done(lane, cache);
  }

  Kind& kind_of(const RangeNode& node) HOLDFAST_REQUIRES(mutex) {
    return kinds[static_cast<unsigned>(node.block->buffer->kind())];
  }

  // A range that nobody uses and nothing waits for.
  void release(RangeNode& node, Garbage& garbage) HOLDFAST_REQUIRES(mutex) {
    Block& block = *node.block;
    Kind& kind = kind_of(node);
    if (block.imported) {
      kind.pool.remove_block(block);
      remove_block(kind, block, garbage);
      return;
    }
    const RangeNode* free = kind.pool.give_back(node);
    if (closed && RangePool::is_whole_and_free(*free->block)) {
      kind.pool.remove_block(block);
      remove_block(kind, block, garbage);
    }
    if (cache_limit != kMaxBytes) trim(cache_limit, garbage);
  }

  void remove_block(Kind& kind, Block& block, Garbage& garbage) HOLDFAST_REQUIRES(mutex) {
    if (block.imported) {
      --stats.imports;
    } else {
      stats.reserved -= block.buffer->size();
    }
    --stats.device_buffers;
    garbage.push_back(std::move(block.buffer));
    const size_t index = block.index;
    std::swap(kind.blocks[index], kind.blocks.back());
    kind.blocks[index]->index = index;
    kind.blocks.pop_back();
  }

  void trim(Bytes keep, Garbage& garbage) HOLDFAST_REQUIRES(mutex) {
    for (Kind& kind : kinds) {
      for (size_t i = kind.blocks.size(); i-- > 0;) {
        if (pooled() <= keep) return;
        Block& block = *kind.blocks[i];
        if (!RangePool::is_whole_and_free(block)) continue;
        kind.pool.remove_block(block);
        remove_block(kind, block, garbage);
      }
    }
  }

  // The newest of a lane's dead ranges of one class, or whichever the device's probe prefers; null:
  // rather a free one.
  RangeNode* choose_deferred(RangeNode* newest) const {
    if (newest == nullptr || !probe) return newest;
    size_t candidates = 1;  // a free range
    for (const RangeNode* node = newest; node != nullptr; node = node->class_next) ++candidates;
    RangeNode* chosen = newest;
    for (size_t skip = probe->choose_range(candidates); skip > 0 && chosen != nullptr; --skip) {
      chosen = chosen->class_next;
    }
    return chosen;
  }

  // The smallest dead range that is large enough; `submitted`: whose lists all are.
  static RangeNode* find_deferred(const Kind& kind, Bytes bytes, bool submitted) {
    RangeNode* best = nullptr;
    for (const auto& block : kind.blocks) {
      if (block->imported) continue;
      for (RangeNode* node = block->first; node != nullptr; node = node->right) {
        if (node->state != RangeNode::State::deferred || node->range.length < bytes) continue;
        if (best != nullptr && best->range.length <= node->range.length) continue;
        const auto is_submitted = [](const Ref<hal::Ticket>& ticket) {
          return ticket->state() != hal::TicketState::open;
        };
        if (!submitted || std::all_of(node->frontier.begin(), node->frontier.end(), is_submitted)) {
          best = node;
        }
      }
    }
    return best;
  }

  Bytes pooled() const HOLDFAST_REQUIRES(mutex) {
    Bytes all;
    for (const Kind& kind : kinds) all += kind.pool.free_bytes();
    return all;
  }

  uint64_t blocks() const HOLDFAST_REQUIRES(mutex) { return stats.device_buffers - stats.imports; }
  bool takes_imports() const HOLDFAST_REQUIRES(mutex) {
    return import_limit == 0 || stats.imports < import_limit;
  }

  Bytes limit() const HOLDFAST_REQUIRES(mutex) {
    return memory_limit ? std::min(memory_limit, device_limit) : device_limit;
  }

  // A range on its way to a new life. What is left of the one before is in the node still, which
  // belongs to whoever makes the Allocation.
  struct Chosen {
    RangeNode* node;
    hal::ResourceId ended{};  // none: the range had no life that anybody waits for
  };

  Chosen give_out(RangeNode& node) HOLDFAST_REQUIRES(mutex) {
    node.state = RangeNode::State::live;
    stats.live += node.range.length;
    if (!node.block->imported) {
      change(own_live, node.range.length.value);
    }
    stats.live_peak = std::max(stats.live_peak, stats.live);
    ++stats.live_objects;
    ++stats.allocations;
    return {&node};
  }

  // Who has the range from now on. Without the lock: nobody else knows the range.
  static Ref<hal::Allocation> make_allocation(const Chosen& chosen, Request& request) {
    RangeNode& node = *chosen.node;
    Ref<hal::Allocation> allocation = hal::Allocation::make(
        {*node.block->buffer, {node.range.offset, request.size}, &node, request.site},
        std::move(request.name));
    allocation->set_made_for(request.lane);
    if (chosen.ended && !ablated(Ablation::cross_queue_reuse_unordered)) {
      allocation->history().set_earlier_life(std::move(node.frontier));
      allocation->set_earlier_life(node.last_use);
    }
    node.frontier.clear();
    node.allocation.store(allocation.get(), std::memory_order_release);
    return allocation;
  }
  static Given make_given(const Chosen& chosen, Request& request) {
    return {make_allocation(chosen, request), chosen.ended, {}};
  }
};

Allocator::Allocator(Ref<hal::Device> device, const Options& options)
    : state_(std::make_unique<State>()) {
  const hal::DeviceInfo& info = device->info();
  if (kSmallestClass.value % std::max<uint64_t>(info.buffer_alignment.value, 1) != 0) {
    throw UsageError(
        fmt::format("device '{}' wants allocations aligned to {}; {} is the most there is",
                    info.name, info.buffer_alignment.value, kSmallestClass.value));
  }
  state_->device_name = info.name;
  state_->device_limit = info.memory;
  state_->memory_limit = options.memory_limit;
  state_->limit_now = state_->limit().value;
  state_->memory_limit_setting =
      options.memory_limit_from_environment ? "HOLDFAST_MEMORY_LIMIT" : "Options::memory_limit";
  state_->object_limit_is_option = options.object_limit > 0;
  state_->object_limit = options.object_limit > 0 ? options.object_limit : info.max_buffers;
  state_->import_limit = info.max_imports;
  state_->probe = device->probe();
  state_->device = std::move(device);
}

Allocator::~Allocator() = default;

Allocator::Given Allocator::allocate(Request& request, Effort effort) {
  State& s = *state_;
  // Multiples of the smallest class are classes or lie below ones that are, so every cut is
  // aligned.
  const Bytes least = std::max(request.size, kSmallestClass);
  if (least > class_bytes(kSizeClasses - 1)) return {};
  const uint64_t steps = ceil_div(least.value, kSmallestClass.value);
  const size_t c = class_that_holds(kSmallestClass * steps);
  const Bytes bytes = class_bytes(c);
  const bool host_first = request.kind != hal::MemoryKind::device;
  sync::Lock lock(s.mutex);
  if (s.closed) return {};
  State::Kind& kind = s.kinds[static_cast<unsigned>(request.kind)];

  std::optional<State::Chosen> chosen;
  const auto reuse = [&](RangeNode& node) {
    s.mutex.assert_held();
    detach(node);
    s.unlink_from_lane(node);
    count_deferred(node, -1);
    chosen = s.give_out(node);
    chosen->ended = node.dead_id;
    ++s.stats.reused_in_order;
  };

#ifdef HOLDFAST_ABLATIONS
  if (ablated(Ablation::cross_queue_reuse_unordered) && !host_first) {
    if (RangeNode* node = s.find_deferred(kind, bytes, false)) reuse(*node);
  }
#endif
  if (!chosen && request.lane && !host_first) {
    if (State::LaneCache* cache = s.lane_cache(request.lane)) {
      if (RangeNode* node = s.choose_deferred(cache->deferred[c])) reuse(*node);
    }
  }
  if (!chosen) {
    if (RangeNode* node = kind.pool.take(bytes)) chosen = s.give_out(*node);
  }
  if (!chosen && effort == Effort::any_submitted && !host_first) {
    if (RangeNode* best = s.find_deferred(kind, bytes, true)) reuse(*best);
  }
  if (chosen) {
    lock.unlock();
    return State::make_given(*chosen, request);
  }

  // A new block, sized by what is in use, or by the request where the limit leaves no more.
  Garbage garbage;
  s.trim(s.stats.live / kPoolFraction + kPoolSlack, garbage);
  Bytes size = std::clamp(Bytes{std::bit_ceil(std::max<uint64_t>(s.stats.reserved.value / 4, 1))},
                          kSmallestBlock, kLargestBlock);
  if (bytes * 2 > size) size = bytes;
  const Bytes room = s.stats.reserved < s.limit() ? s.limit() - s.stats.reserved : Bytes{};
  if (size > room) size = bytes;
  if (size > room || s.blocks() >= s.object_limit) {
    lock.unlock();
    return {};
  }
  s.stats.reserved += size;
  s.stats.reserved_peak = std::max(s.stats.reserved_peak, s.stats.reserved);
  ++s.stats.device_buffers;
  const Ref<hal::Device> device = s.device;
  lock.unlock();
  garbage.clear();
  Result<Ref<hal::Buffer>> created = device->create_buffer(
      {size, request.kind, fmt::format("block of {} memory", to_string(request.kind))});
  logging::note(logging::Topic::memory, "a block of {} of {} memory for '{}': {}", to_string(size),
                hal::to_string(request.kind), request.name,
                created ? "created" : created.failure().message());
  lock.lock();
  if (!created || s.closed) {
    s.stats.reserved -= size;
    --s.stats.device_buffers;
    // Somebody may have given memory back while the device was asked.
    RangeNode* freed = s.closed ? nullptr : kind.pool.take(bytes);
    if (freed != nullptr) chosen = s.give_out(*freed);
    lock.unlock();  // a buffer that came too late is dropped without it
    if (chosen) return State::make_given(*chosen, request);
    return {nullptr, {}, created.failure()};
  }
  auto block = std::make_unique<Block>();
  block->buffer = std::move(created).value();
  block->buffer->set_owner(Ref<hal::RangeOwner>(this));
  block->index = kind.blocks.size();
  kind.pool.add_block(*block);
  kind.blocks.push_back(std::move(block));
  RangeNode* node = kind.pool.take(bytes);
  // Another thread may have been faster; the caller asks again.
  if (node == nullptr) return {};
  chosen = s.give_out(*node);
  lock.unlock();
  return State::make_given(*chosen, request);
}

bool Allocator::has_room_for_an_import() const {
  sync::Lock lock(state_->mutex);
  return state_->takes_imports();
}

Result<Ref<hal::Allocation>> Allocator::import(hal::ExternalMemory memory) {
  State& s = *state_;
  Ref<hal::Device> device;
  Failure refused;
  {
    sync::Lock lock(s.mutex);
    device = s.device;
    if (s.closed) {
      refused = Failure(ErrorCode::closed, "the context is closed");
    } else if (!s.takes_imports()) {
      refused = Failure(
          ErrorCode::out_of_memory,
          fmt::format("{} cannot be imported: {} imports are alive, and device '{}' takes no more; "
                      "drop some of them, or copy into memory of the device",
                      memory.name.empty() ? "memory" : fmt::format("'{}'", memory.name),
                      s.stats.imports, s.device_name));
    } else {
      ++s.stats.imports;
      ++s.stats.device_buffers;
    }
  }
  if (refused) {
    hal::run_deleter(memory.deleter, memory.name);
    return refused;
  }
  Request request{{}, {}, memory.name, {}};
  Result<Ref<hal::Buffer>> created = device->import_buffer(std::move(memory));
  if (!created) {
    sync::Lock lock(s.mutex);
    --s.stats.imports;
    --s.stats.device_buffers;
    return created.failure();
  }
  auto block = std::make_unique<Block>();
  block->buffer = std::move(created).value();
  block->imported = true;
  request.size = block->buffer->size();
  block->buffer->set_owner(Ref<hal::RangeOwner>(this));
  sync::Lock lock(s.mutex);
  State::Kind& kind = s.kinds[static_cast<unsigned>(block->buffer->kind())];
  RangeNode* node = kind.pool.adopt(*block);
  block->index = kind.blocks.size();
  kind.blocks.push_back(std::move(block));
  State::Chosen chosen = s.give_out(*node);
  lock.unlock();
  return State::make_allocation(chosen, request);
}

void Allocator::range_died(hal::Allocation& allocation) noexcept {
  State& s = *state_;
  // In a forked child another thread may have held the lock for ever.
  if (s.fork_generation != sync::fork_generation()) return;
  // Of a living range's node these are nobody else's.
  RangeNode& node = *static_cast<RangeNode*>(allocation.range_tag());
  allocation.history().leave_to(node.frontier);
  node.dead_name = allocation.name();
  node.last_use = last_use_for_next_life(allocation, node.frontier);
  // Buffers may be the last to know this Allocator, which must outlive the call.
  Ref<Allocator> self;
  Garbage garbage;
  sync::Lock lock(s.mutex);
  node.allocation = nullptr;
  s.stats.live -= node.range.length;
  if (!node.block->imported) {
    change(s.own_live, -node.range.length.value);
  }
  --s.stats.live_objects;
  if (node.frontier.is_over() || s.closed || ablated(Ablation::range_recycled_at_death)) {
    node.frontier.clear();
    s.release(node, garbage);
    lock.unlock();
    if (!garbage.empty()) self = Ref<Allocator>(this);
    return;
  }
  node.state = RangeNode::State::deferred;
  node.dead_id = allocation.id();
  attach(node, **node.frontier.begin());
  const hal::LaneId lane = only_lane(node.frontier);
  node.lane = {};
  if (lane && !node.block->imported && node.block->buffer->kind() == hal::MemoryKind::device) {
    s.link_to_lane(node, lane);
  }
  count_deferred(node, 1);
  s.stats.deferred_peak = std::max(s.stats.deferred_peak, deferred_bytes());
  lock.unlock();
}

Allocator::Garbage Allocator::ticket_over(hal::Ticket& ticket) {
  State& s = *state_;
  Garbage garbage;
  sync::Lock lock(s.mutex);
  while (ticket.waiters != nullptr) {
    auto& node = static_cast<RangeNode&>(*ticket.waiters);
    detach(node);
    if (!node.frontier.is_over() && !s.closed) {
      attach(node, **node.frontier.begin());
      continue;
    }
    release_deferred(node, garbage);
  }
  lock.unlock();
  return garbage;
}

void Allocator::release_deferred(RangeNode& node, Garbage& garbage) {
  state_->mutex.assert_held();
  node.frontier.clear();
  state_->unlink_from_lane(node);
  count_deferred(node, -1);
  state_->release(node, garbage);
}

void Allocator::count_deferred(const RangeNode& node, int nodes) {
  state_->mutex.assert_held();
  const auto sign = static_cast<uint64_t>(int64_t{nodes});
  change(deferred_bytes_, sign * node.range.length.value);
  change(deferred_objects_, sign);
}

void Allocator::add_lane(hal::LaneId lane) {
  sync::Lock lock(state_->mutex);
  state_->lanes.emplace(lane.value, std::make_unique<State::LaneCache>());
}

void Allocator::forget_lane(hal::LaneId lane) {
  State& s = *state_;
  sync::Lock lock(s.mutex);
  State::LaneCache* cache = s.lane_cache(lane);
  if (cache == nullptr) return;
  cache->forgotten = true;
  s.erase_lane_if_done(lane.value, *cache);
}

#ifdef HOLDFAST_ABLATIONS
Allocator::Garbage Allocator::release_deferred_ranges() {
  State& s = *state_;
  Garbage garbage;
  sync::Lock lock(s.mutex);
  std::vector<RangeNode*> dead;
  for (State::Kind& kind : s.kinds) {
    for (const auto& block : kind.blocks) {
      for (RangeNode* node = block->first; node != nullptr; node = node->right) {
        if (node->state == RangeNode::State::deferred) dead.push_back(node);
      }
    }
  }
  for (RangeNode* node : dead) {
    detach(*node);
    release_deferred(*node, garbage);
  }
  lock.unlock();
  return garbage;
}
#endif

Allocator::Garbage Allocator::trim(Bytes keep) {
  Garbage garbage;
#ifdef HOLDFAST_ABLATIONS
  if (ablated(Ablation::trim_frees_in_flight)) garbage = release_deferred_ranges();
#endif
  sync::Lock lock(state_->mutex);
  state_->trim(keep, garbage);
  lock.unlock();
  return garbage;
}

void Allocator::set_memory_limit(Bytes limit) {
  sync::Lock lock(state_->mutex);
  state_->memory_limit = limit;
  state_->limit_now = state_->limit().value;
  state_->memory_limit_setting = "the limit by set_memory_limit()";
}

void Allocator::set_cache_limit(Bytes limit) {
  sync::Lock lock(state_->mutex);
  state_->cache_limit = limit;
}

bool Allocator::keeps_deferred(const hal::Ticket& ticket) const {
  sync::Lock lock(state_->mutex);
  return ticket.waiters != nullptr;
}

Bytes Allocator::room() const noexcept {
  const uint64_t limit = state_->limit_now.load(std::memory_order_relaxed);
  const uint64_t live = state_->own_live.load(std::memory_order_relaxed);
  return Bytes{live < limit ? limit - live : 0};
}

MemoryStats Allocator::stats() const {
  sync::Lock lock(state_->mutex);
  MemoryStats stats = state_->stats;
  stats.deferred = deferred_bytes();
  stats.deferred_objects = deferred_objects();
  stats.pooled = state_->pooled();
  return stats;
}

void Allocator::snapshot(Snapshot& snapshot) const {
  const State& s = *state_;
  sync::Lock lock(s.mutex);
  for (const State::Kind& kind : s.kinds) {
    for (const auto& block : kind.blocks) {
      for (const RangeNode* node = block->first; node != nullptr; node = node->right) {
        if (node->state == RangeNode::State::free) continue;
        Snapshot::Range range;
        range.bytes = node->range.length;
        if (node->state == RangeNode::State::live) {
          const hal::Allocation* const allocation = node->allocation.load();
          range.what = allocation != nullptr ? allocation->describe() : "an allocation being made";
          range.users = allocation != nullptr ? allocation->users() : 0;
        } else {
          range.what = fmt::format(
              "dead: {}",
              hal::Allocation::describe(node->dead_name, node->dead_id, node->range.length));
          range.deferred = true;
          for (const Ref<hal::Ticket>& ticket : node->frontier) {
            range.waits_for.push_back(
                fmt::format("list {} ({})", ticket->list().value, hal::to_string(ticket->state())));
          }
        }
        snapshot.ranges.push_back(std::move(range));
      }
    }
  }
  lock.unlock();
  std::stable_sort(snapshot.ranges.begin(), snapshot.ranges.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
}

Allocator::Shortage Allocator::describe_shortage(const Request& request,
                                                 const Failure& refusal) const {
  const MemoryStats now = stats();
  const State& s = *state_;
  sync::Lock lock(s.mutex);
  const Bytes limit = s.limit();
  const auto [wanted, most] = told_apart(request.size, limit);
  Shortage shortage;
  std::string why;
  if (request.size > limit || now.reserved > limit || request.size > limit - now.reserved) {
    const bool of_device = limit == s.device_limit;
    const std::string whose = of_device ? fmt::format("the memory of device '{}'", s.device_name)
                                        : std::string(s.memory_limit_setting);
    why = fmt::format("the limit is {} ({})", most, whose);
    if (!of_device) shortage.remedy = fmt::format("raise {}", s.memory_limit_setting);
  } else if (s.blocks() >= s.object_limit) {
    const std::string whose = s.object_limit_is_option
                                  ? std::string("Options::object_limit")
                                  : fmt::format("a limit of device '{}'", s.device_name);
    why = fmt::format("all {} device buffers are in use ({})", s.object_limit, whose);
    if (s.object_limit_is_option) shortage.remedy = "raise Options::object_limit";
  } else {
    why = fmt::format("the limit of {} is not reached", most);
  }
  if (refusal) why += fmt::format("; the device said: {}", refusal.message());
  shortage.what = fmt::format(
      "no room for {} of {} memory for {}: {}; {} are live, {} wait for the device, {} are pooled, "
      "{} are reserved in {} buffers",
      wanted, hal::to_string(request.kind),
      request.name.empty() ? "an unnamed allocation" : fmt::format("'{}'", request.name), why,
      to_string(now.live), to_string(now.deferred), to_string(now.pooled), to_string(now.reserved),
      now.device_buffers - now.imports);
  return shortage;
}

Allocator::Garbage Allocator::close() {
  State& s = *state_;
  Garbage garbage;
  Ref<hal::Device> device;
  sync::Lock lock(s.mutex);
  s.closed = true;
  device.swap(s.device);
  // The device has stopped: what it will not touch any more goes with it.
  std::vector<RangeNode*> over;
  for (State::Kind& kind : s.kinds) {
    for (const auto& block : kind.blocks) {
      for (RangeNode* node = block->first; node != nullptr; node = node->right) {
        // Looks without pruning: the node is linked to one of these Tickets.
        if (node->state == RangeNode::State::deferred &&
            std::all_of(node->frontier.begin(), node->frontier.end(),
                        [](const auto& ticket) { return ticket->is_over(); })) {
          over.push_back(node);
        }
      }
    }
  }
  for (RangeNode* node : over) {
    detach(*node);
    release_deferred(*node, garbage);
  }
  s.trim({}, garbage);
  lock.unlock();
  return garbage;
}

}  // namespace holdfast::runtime
