#include "holdfast/kernel/targets/cpu/fiber_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <boost/context/fiber.hpp>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "holdfast/base/error.h"
#include "holdfast/kernel/targets/cpu/fiber_stack.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace holdfast::kernel {

namespace {

using boost::context::fiber;

// Unwinds an item that will never be resumed.
struct GivenUp {};

// A simdgroup: which of its lanes stopped, and why; and what they exchange. A lane is in one of the
// sets, or runs.
struct Simdgroup {
  using Lanes = uint32_t;  // a bit each
  using Slots = unsigned char (*)[16];

  unsigned first = 0;  // its first item
  Lanes to_run = 0;    // in its next pass
  Lanes active = 0;    // of those, who have met
  Lanes at_operation = 0;
  Lanes at_barrier = 0;
  Lanes returned = 0;
  // Of those at an operation: the line of one of them, and whether another is elsewhere.
  unsigned line = 0;
  bool at_several = false;
  unsigned last_line = 0;       // where its lanes met last
  bool follows_rounds = false;  // since lanes came to several operations, until a barrier
  Slots written = nullptr;      // by lanes that wait at an operation
  Slots met = nullptr;          // what those wrote that met last
};

// Tops of stacks lie a multiple of pages apart; without this they would share one set of the cache.
constexpr size_t kCacheLine = 64;
constexpr size_t kColours = 64;
constexpr size_t kMaxSimdgroups = kMaxGroupThreads / kSimdgroupLanes;

// The stack belongs to FiberStacks.
struct NotOwned {
  static boost::context::stack_context allocate() { return {}; }
  static void deallocate(boost::context::stack_context&) noexcept {}
};

// A stack, and where it goes on while it does not run. Its fiber is never destroyed, which would
// unwind it: an idle stack holds nothing, and one that could not be emptied must not be touched.
struct FiberPlace {
  FiberPlace() noexcept { new (&suspended) fiber(); }
  ~FiberPlace() {}  // NOLINT(modernize-use-equals-default): see above
  FiberPlace(const FiberPlace&) = delete;
  FiberPlace& operator=(const FiberPlace&) = delete;

  union {
    fiber suspended;
  };
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  const void* bottom = nullptr;
  size_t size = 0;
#endif
#if defined(__SANITIZE_THREAD__)
  void* tsan = nullptr;
#endif
};

}  // namespace

struct FiberGroup::State {
  // --- switching ---

  // From where we are to `to`; returns when somebody comes back.
  void go(FiberPlace& to) {
    FiberPlace& here = *running;
    left = &here;
    running = &to;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&here.fake_stack, to.bottom, to.size);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(to.tsan, 0);
#endif
    arrived(std::move(to.suspended).resume());
  }
  void arrived(fiber&& from) {
#if defined(__SANITIZE_ADDRESS__)
    const void* bottom = nullptr;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(running->fake_stack, &bottom, &size);
    if (left == &outside) {
      outside.bottom = bottom;
      outside.size = size;
    }
#endif
    left->suspended = std::move(from);
  }
  void go_to_item(unsigned thread) {
    host->item = thread;
    go(items[thread]);
  }

  // --- the items' side ---

  void stop_at_barrier(unsigned line) {
    if (giving_up) throw GivenUp();
    if (barrier_line == 0) barrier_line = line;
    if (barrier_line != line) other_barrier_line = line;
    const unsigned thread = host->item;
    const Simdgroup::Lanes bit = bit_of(thread);
    current->at_barrier |= bit;
    go_on(thread, bit);
  }
  void stop_at_operation(unsigned line) {
    if (giving_up) throw GivenUp();
    const unsigned thread = host->item;
    const Simdgroup::Lanes bit = bit_of(thread);
    operation_lines[thread] = line;
    Simdgroup& own = *current;
    own.at_several |= own.at_operation != 0 && own.line != line;
    own.line = line;
    own.at_operation |= bit;
    go_on(thread, bit);
  }
  // Returns when the item that has stopped may run on.
  void go_on(unsigned thread, Simdgroup::Lanes bit) {
    const Simdgroup::Lanes behind = pass & ~(bit * 2 - 1);
    if (behind != 0) [[likely]] {
      go_to_item(first_of(behind));
    } else {
      const unsigned next = after_pass();
      if (next == kOutside) {
        go(outside);
      } else if (next != thread) {
        go_to_item(next);
      }
    }
    if (giving_up) throw GivenUp();
  }

  static Simdgroup::Lanes bit_of(unsigned thread) {
    return Simdgroup::Lanes{1} << thread % kSimdgroupLanes;
  }
  // The item behind this one in the pass; behind the last one, the first of another pass.
  unsigned next_after(unsigned thread) {
    const Simdgroup::Lanes behind = pass & ~(bit_of(thread) * 2 - 1);
    return behind != 0 ? first_of(behind) : after_pass();
  }
  unsigned first_of(Simdgroup::Lanes lanes) const {
    return current->first + static_cast<unsigned>(std::countr_zero(lanes));
  }

  // All lanes that ran have stopped: those at the earliest operation meet there, and the next
  // simdgroup has its turn, so that all of them come from one operation to the next together.
  [[gnu::noinline]] unsigned after_pass() {
    if (current->at_operation != 0) meet(*current);
    if (skewed_line != 0) {
      return fail(fmt::format(
          "lanes of one simdgroup meet at line {} in different rounds of a loop; let all lanes "
          "come "
          "to the operations in it, or make the one in the branch the last one of the loop",
          skewed_line));
    }
    for (size_t i = 0; i < count; ++i) {
      current = current + 1 == simdgroups.data() + count ? simdgroups.data() : current + 1;
      if (current->to_run != 0) return begin_pass();
    }
    return after_all();
  }
  unsigned begin_pass() {
    pass = std::exchange(current->to_run, 0);
    host->slots = current->written;
    host->met = current->met;
    host->active = current->active;
    return first_of(pass);
  }
  void meet(Simdgroup& simdgroup) {
    if (simdgroup.at_several || simdgroup.follows_rounds) return meet_at_earliest(simdgroup);
    std::swap(simdgroup.met, simdgroup.written);
    simdgroup.last_line = simdgroup.line;
    simdgroup.active = simdgroup.to_run = std::exchange(simdgroup.at_operation, 0);
  }
  // What lanes at other operations have written stays where it is. A lane that goes back to a line
  // begins another round of a loop. Where one comes to a line at which lanes of a later round met
  // while it waited behind, these rounds should have been one: lines alone cannot tell whether an
  // operation stands in the loop, too, or behind its end.
  void meet_at_earliest(Simdgroup& simdgroup) {
    const Simdgroup::Lanes waiting = simdgroup.at_operation;
    const unsigned* const lines = operation_lines.data() + simdgroup.first;
    Round* const rounds = rounds_of.data() + simdgroup.first;
    if (!std::exchange(simdgroup.follows_rounds, true)) {
      std::fill_n(rounds, kSimdgroupLanes, Round{.line = simdgroup.last_line});
    }
    unsigned earliest = ~0U;
    each_lane(waiting, [&](unsigned lane) {
      earliest = std::min(earliest, lines[lane]);
      const bool is_new = !std::exchange(rounds[lane].waits, true);
      if (is_new && lines[lane] <= rounds[lane].line) ++rounds[lane].number;
    });
    Simdgroup::Lanes met = 0;
    unsigned next = 0;  // a line of those that go on waiting
    bool several = false;
    unsigned latest = 0;  // round of those that meet
    each_lane(waiting, [&](unsigned lane) {
      if (lines[lane] == earliest) {
        met |= Simdgroup::Lanes{1} << lane;
        latest = std::max(latest, rounds[lane].number);
        std::memcpy(simdgroup.met[lane], simdgroup.written[lane], sizeof(*simdgroup.met));
      } else {
        several |= next != 0 && next != lines[lane];
        next = lines[lane];
      }
    });
    each_lane(waiting & ~met, [&](unsigned lane) {
      if (latest <= rounds[lane].number) return;
      rounds[lane].passed_by |= met;
      rounds[lane].passed_at = std::max(rounds[lane].passed_at, earliest);
    });
    each_lane(met, [&](unsigned lane) {
      Round& round = rounds[lane];
      const bool have_met_again = (round.passed_by & ~met) == 0;
      if (!have_met_again && earliest <= round.passed_at) skewed_line = earliest;
      if (have_met_again) round = {};
      round.waits = false;
      round.line = earliest;
      round.number = latest;
    });
    simdgroup.at_operation = waiting & ~met;
    simdgroup.line = next;
    simdgroup.at_several = several;
    simdgroup.active = simdgroup.to_run = met;
  }
  template <typename Do>
  static void each_lane(Simdgroup::Lanes lanes, const Do& with) {
    for (; lanes != 0; lanes &= lanes - 1) with(static_cast<unsigned>(std::countr_zero(lanes)));
  }
  // Nobody can run before all have come to a barrier.
  unsigned after_all() {
    unsigned parked = 0;
    unsigned returned = 0;
    for (size_t i = 0; i < count; ++i) {
      parked += static_cast<unsigned>(std::popcount(simdgroups[i].at_barrier));
      returned += static_cast<unsigned>(std::popcount(simdgroups[i].returned));
    }
    if (returned == threads) return kOutside;
    if (other_barrier_line != 0) {
      const auto [first, second] = std::minmax(barrier_line, other_barrier_line);
      return fail(fmt::format(
          "threads of one threadgroup met at different barriers: lines {} and {}", first, second));
    }
    if (parked != threads) {
      return fail(
          fmt::format("{} of {} threads returned before the barrier at line {}; all threads "
                      "of a threadgroup must reach it",
                      returned, threads, barrier_line));
    }
    barrier_line = 0;
    for (size_t i = 0; i < count; ++i) {
      simdgroups[i].to_run = std::exchange(simdgroups[i].at_barrier, 0);
      simdgroups[i].follows_rounds = false;  // all lanes have met
      simdgroups[i].last_line = 0;
    }
    current = simdgroups.data();
    return begin_pass();
  }
  unsigned fail(std::string_view why) {
    message = fmt::format("kernel '{}': {}", kernel, why);
    return kOutside;
  }

  // One item after another, on the stack of thread number `thread`.
  [[noreturn]] void work(unsigned thread) {
    for (;;) {
#if defined(__SANITIZE_ADDRESS__)
      if (ending) leave_for_good();
#endif
      inside[thread] = true;
      try {
        item(data, thread);
      } catch (const GivenUp&) {
      } catch (...) {
        if (!exception) exception = std::current_exception();
      }
      inside[thread] = false;
      if (giving_up || exception) {
        go(outside);
        continue;
      }
      current->returned |= bit_of(thread);
      const unsigned next = next_after(thread);
      if (next == kOutside) {
        go(outside);
      } else {
        go_to_item(next);
      }
    }
  }

#if defined(__SANITIZE_ADDRESS__)
  // Without a place to save them, the frames that ASan has for this stack are freed at once: this
  // one must not be among them.
  [[noreturn, gnu::noinline, gnu::no_sanitize_address]] void leave_for_good() {
    left = running;
    running = &outside;
    __sanitizer_start_switch_fiber(nullptr, outside.bottom, outside.size);
    std::move(outside.suspended).resume();
    std::terminate();
  }
#endif

  // --- the caller's side ---

  void add_item() {
    const unsigned thread = made;
    FiberPlace& place = items[thread];
    std::byte* const bottom = stacks.next();
    const size_t size = kStackBytes - thread % kColours * kCacheLine;
    boost::context::stack_context stack;
    stack.size = size;
    stack.sp = bottom + size;
    // Making a fiber steps onto its stack and back before anything can be told from there.
#if defined(__SANITIZE_ADDRESS__)
    place.bottom = bottom;
    place.size = size;
    __sanitizer_start_switch_fiber(&outside.fake_stack, bottom, size);
    __sanitizer_finish_switch_fiber(nullptr, &outside.bottom, &outside.size);
    __sanitizer_start_switch_fiber(&place.fake_stack, outside.bottom, outside.size);
#endif
#if defined(__SANITIZE_THREAD__)
    place.tsan = __tsan_create_fiber(0);
    outside.tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(place.tsan, 0);
#endif
    place.suspended =
        fiber(std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack),
              NotOwned{}, [this, thread](fiber&& from) -> fiber {
                arrived(std::move(from));
                work(thread);
              });
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(outside.tsan, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(outside.fake_stack, nullptr, nullptr);
#endif
    ++made;
  }

  // Items that wait throw from there, and end.
  void give_up_all() {
    giving_up = true;
    for (unsigned t = 0; t < threads; ++t) {
      if (inside[t]) go_to_item(t);
    }
    giving_up = false;
  }

  void run() {
    barrier_line = 0;
    other_barrier_line = 0;
    skewed_line = 0;
    count = (threads + kSimdgroupLanes - 1) / kSimdgroupLanes;
    for (size_t i = 0; i < count; ++i) {
      const unsigned lanes =
          std::min(threads - static_cast<unsigned>(i) * kSimdgroupLanes, kSimdgroupLanes);
      simdgroups[i] = {.first = static_cast<unsigned>(i) * kSimdgroupLanes,
                       .to_run = ~Simdgroup::Lanes{0} >> (kSimdgroupLanes - lanes),
                       .written = slots[2 * i],
                       .met = slots[2 * i + 1]};
    }
    current = simdgroups.data();
    const unsigned first = begin_pass();
    host->items = threads;
#if defined(__SANITIZE_THREAD__)
    outside.tsan = __tsan_get_current_fiber();
#endif
    running = &outside;
    go_to_item(first);
    if (exception || !message.empty()) give_up_all();
    running = nullptr;
    host->items = 0;
  }

#if defined(__SANITIZE_ADDRESS__)
  ~State() {
    ending = true;
    running = &outside;
    for (unsigned t = 0; t < made; ++t) go(items[t]);
  }
#elif defined(__SANITIZE_THREAD__)
  ~State() {
    for (unsigned t = 0; t < made; ++t) __tsan_destroy_fiber(items[t].tsan);
  }
#endif

  static constexpr unsigned kOutside = ~0U;

  // Hot: every switch touches these.
  FiberPlace* running = nullptr;  // null: no group runs
  FiberPlace* left = nullptr;     // from where `running` was entered
  hf_host* host = nullptr;
  Simdgroup* current = nullptr;  // whose lanes run
  Simdgroup::Lanes pass = 0;     // which of them run one after the other, until each has stopped
  // Of those who wait at a barrier of the whole group; 0: nobody does.
  unsigned barrier_line = 0;
  unsigned other_barrier_line = 0;  // of one that waits elsewhere; 0: nobody does
  bool giving_up = false;
  bool ending = false;  // the stacks go
  FiberPlace outside;
  std::array<FiberPlace, kMaxGroupThreads> items;

  unsigned made = 0;  // of the items' stacks
  unsigned threads = 0;
  size_t count = 0;  // of the simdgroups that the group has
  Item item = nullptr;
  void* data = nullptr;
  std::string_view kernel;
  std::string message;           // why the group is given up
  std::exception_ptr exception;  // the same, thrown by an item
  std::array<Simdgroup, kMaxSimdgroups> simdgroups{};
  // Of each item, while its simdgroup follows rounds: the line where it met last, how often it went
  // back in all, and which lanes of a later round met, and where, while it waited; none once they
  // have met again.
  struct Round {
    unsigned line = 0;
    unsigned number = 0;
    bool waits = false;
    Simdgroup::Lanes passed_by = 0;
    unsigned passed_at = 0;
  };
  std::array<Round, kMaxGroupThreads> rounds_of{};
  unsigned skewed_line = 0;  // where lanes met that are in different rounds; 0: nowhere
  std::array<unsigned, kMaxGroupThreads> operation_lines{};  // at which each item waits
  alignas(kCacheLine) unsigned char slots[2 * kMaxSimdgroups][kSimdgroupLanes][16] = {};
  std::array<bool, kMaxGroupThreads> inside{};
  FiberStacks stacks{kStackBytes};
};

FiberGroup::FiberGroup() : state_(std::make_unique<State>()) {}
FiberGroup::~FiberGroup() = default;

void FiberGroup::run(hf_host& host, std::string_view kernel, unsigned threads, Item item,
                     void* data) {
  State& s = *state_;
  if (s.running != nullptr) {
    throw ExecutionError(fmt::format("kernel '{}': run_group inside run_group", kernel));
  }
  if (threads > kMaxGroupThreads) {
    throw ExecutionError(fmt::format("kernel '{}': a threadgroup of {} threads; {} are the most",
                                     kernel, threads, kMaxGroupThreads));
  }
  if (threads == 0) return;
  while (s.made < threads) s.add_item();
  s.host = &host;
  s.kernel = kernel;
  s.threads = threads;
  s.item = item;
  s.data = data;
  s.run();
  const std::exception_ptr exception = std::exchange(s.exception, nullptr);
  const std::string message = std::exchange(s.message, {});
  if (!message.empty()) throw ExecutionError(message);
  if (exception) std::rethrow_exception(exception);
}

void FiberGroup::barrier(unsigned line) {
  if (state_->running == nullptr) throw ExecutionError("a barrier outside run_group");
  state_->stop_at_barrier(line);
}
void FiberGroup::simd_barrier(unsigned line) {
  if (state_->running == nullptr) throw ExecutionError("a simdgroup barrier outside run_group");
  state_->stop_at_operation(line);
}

FiberGroupPool::Lease::Lease(FiberGroupPool& pool) : pool_(pool) {
  {
    sync::LeafLock lock(pool_.mutex_);
    if (!pool_.spare_.empty()) {
      group_ = std::move(pool_.spare_.back());
      pool_.spare_.pop_back();
    }
  }
  if (!group_) group_ = std::make_unique<FiberGroup>();
}

FiberGroupPool::Lease::~Lease() {
  sync::LeafLock lock(pool_.mutex_);
  pool_.spare_.push_back(std::move(group_));
}

}  // namespace holdfast::kernel
