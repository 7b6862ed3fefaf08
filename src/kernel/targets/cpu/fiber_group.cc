#include "holdfast/kernel/targets/cpu/fiber_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/context/fiber.hpp>
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

// Why an item does not run on.
constexpr size_t kAtBarrier = 0;
constexpr size_t kAtSimdBarrier = 1;
constexpr size_t kReturned = 2;

// Tops of stacks lie a multiple of pages apart; without this they would share one set of the cache.
constexpr size_t kCacheLine = 64;
constexpr size_t kColours = 64;

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
    host->parity = &parity[thread];
    go(items[thread]);
  }

  // --- the items' side ---

  void stop(size_t why, unsigned line) {
    if (giving_up) throw GivenUp();
    const unsigned thread = host->item;
    stopped[why] += 1;
    if (lines[why] == 0) lines[why] = line;
    if (lines[why] != line) other_lines[why] = line;
    if (thread != last_lane) {
      go_to_item(thread + 1);
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

  // All lanes of the simdgroup have stopped: who runs next.
  unsigned after_pass() {
    const unsigned lanes = last_lane - first_lane + 1;
    const unsigned at_barrier = std::exchange(stopped[kAtBarrier], 0);
    const unsigned at_simd_barrier = std::exchange(stopped[kAtSimdBarrier], 0);
    const unsigned ended = std::exchange(stopped[kReturned], 0);
    if (at_simd_barrier == lanes) {
      if (other_lines[kAtSimdBarrier] != 0) {
        return fail(met_at_different("simdgroup", "operations", kAtSimdBarrier));
      }
      lines[kAtSimdBarrier] = 0;
      return first_lane;
    }
    if (at_simd_barrier != 0) return fail(lanes_did_not_meet(lanes, at_barrier, ended));
    if (other_lines[kAtBarrier] != 0) {
      return fail(met_at_different("threadgroup", "barriers", kAtBarrier));
    }
    parked += at_barrier;
    returned += ended;
    if (last_lane + 1 < threads) {
      begin_simdgroup(last_lane + 1);
      return first_lane;
    }
    if (returned == threads) return kOutside;
    if (parked != threads) {
      return fail(
          fmt::format("{} of {} threads returned before the barrier at line {}; all threads "
                      "of a threadgroup must reach it",
                      returned, threads, lines[kAtBarrier]));
    }
    parked = 0;
    lines[kAtBarrier] = 0;
    begin_simdgroup(0);
    return 0;
  }
  void begin_simdgroup(unsigned first) {
    first_lane = first;
    last_lane = std::min(first + kSimdgroupLanes, threads) - 1;
  }
  std::string lanes_did_not_meet(unsigned lanes, unsigned at_barrier, unsigned ended) const {
    const std::string who =
        fmt::format("of {} lanes of simdgroup {}", lanes, first_lane / kSimdgroupLanes);
    const std::string where =
        fmt::format("the simdgroup operation at line {}; all lanes of a simdgroup must reach it",
                    lines[kAtSimdBarrier]);
    if (ended != 0) return fmt::format("{} {} returned before {}", ended, who, where);
    return fmt::format("{} {} are at the barrier at line {} instead of {}", at_barrier, who,
                       lines[kAtBarrier], where);
  }
  std::string met_at_different(std::string_view whose, std::string_view what, size_t why) const {
    const auto [first, second] = std::minmax(lines[why], other_lines[why]);
    return fmt::format("threads of one {} met at different {}: lines {} and {}", whose, what, first,
                       second);
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
      stopped[kReturned] += 1;
      const unsigned next = thread != last_lane ? thread + 1 : after_pass();
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
    begin_simdgroup(0);
    stopped = {};
    lines = {};
    other_lines = {};
    parked = 0;
    returned = 0;
    std::fill_n(parity.begin(), threads, static_cast<unsigned char>(0));
    host->items = threads;
    host->slots = slots.data();
#if defined(__SANITIZE_THREAD__)
    outside.tsan = __tsan_get_current_fiber();
#endif
    running = &outside;
    go_to_item(0);
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
  unsigned first_lane = 0;  // of the simdgroup that runs
  unsigned last_lane = 0;
  std::array<unsigned, 3> stopped{};  // of its lanes, by why
  // Of those who wait, at barriers of the whole group; 0: nobody does.
  std::array<unsigned, 3> lines{};
  std::array<unsigned, 3> other_lines{};  // of one that waits elsewhere; 0: nobody does
  bool giving_up = false;
  bool ending = false;  // the stacks go
  FiberPlace outside;
  std::array<FiberPlace, kMaxGroupThreads> items;

  unsigned made = 0;  // of the items' stacks
  unsigned threads = 0;
  unsigned parked = 0;    // at the barrier, of all threads
  unsigned returned = 0;  // of all threads
  Item item = nullptr;
  void* data = nullptr;
  std::string_view kernel;
  std::string message;           // why the group is given up
  std::exception_ptr exception;  // the same, thrown by an item
  alignas(kCacheLine) std::array<unsigned char[kSimdgroupLanes][16], 2> slots{};
  std::array<unsigned char, kMaxGroupThreads> parity{};
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
  state_->stop(kAtBarrier, line);
}
void FiberGroup::simd_barrier(unsigned line) {
  if (state_->running == nullptr) throw ExecutionError("a simdgroup barrier outside run_group");
  state_->stop(kAtSimdBarrier, line);
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
