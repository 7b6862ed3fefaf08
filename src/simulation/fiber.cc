#include "holdfast/simulation/fiber.h"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/fiber.hpp>
#include <new>
#include <utility>
#include <vector>

#include "holdfast/base/leave_alive.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace holdfast::simulation {
namespace {

// Exceptions that are being thrown or handled hang on the thread. The layout is fixed by the ABI.
struct ExceptionState {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

// Not inlined: the compiler takes the address of what belongs to the thread for a constant.
[[gnu::noinline]] void exchange_exceptions(ExceptionState& with) {
  std::swap(*reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals()), with);
}

#if defined(__SANITIZE_ADDRESS__)
bool stacks_were_left = false;
#endif

// A stack with a guard page below it.
class GuardedStack {
 public:
  GuardedStack() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    memory_ = mmap(nullptr, Fiber::kStackBytes + page_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    if (mprotect(memory_, page_, PROT_NONE) != 0) {
      munmap(memory_, Fiber::kStackBytes + page_);
      throw std::bad_alloc();
    }
  }
  ~GuardedStack() { munmap(memory_, Fiber::kStackBytes + page_); }
  GuardedStack(const GuardedStack&) = delete;
  GuardedStack& operator=(const GuardedStack&) = delete;

  void* bottom() const { return static_cast<std::byte*>(memory_) + page_; }
  boost::context::preallocated whole() const {
    boost::context::stack_context stack;
    stack.size = Fiber::kStackBytes;
    stack.sp = static_cast<std::byte*>(bottom()) + Fiber::kStackBytes;
    return {stack.sp, stack.size, stack};
  }

 private:
  size_t page_;
  void* memory_ = nullptr;
};

// The stack belongs to the worker, not to the context.
struct NotOwned {
  static boost::context::stack_context allocate() { return {}; }
  static void deallocate(boost::context::stack_context&) noexcept {}
};

}  // namespace

// A stack that runs one body after another. It never returns: between bodies it is suspended.
struct Fiber::Worker {
  std::function<void()> body;
  bool ended = false;
  GuardedStack stack;
  boost::context::fiber inside;   // while it is suspended
  boost::context::fiber outside;  // while it runs
  ExceptionState exceptions;

#if defined(__SANITIZE_ADDRESS__)
  void* fake_inside = nullptr;
  void* fake_outside = nullptr;
  const void* outside_bottom = nullptr;
  size_t outside_size = 0;
#endif
#if defined(__SANITIZE_THREAD__)
  void* tsan_inside = __tsan_create_fiber(0);
  void* tsan_outside = nullptr;
#endif

  Worker() {
    // Making a fiber steps onto its stack and back before anything can be told from there.
#if defined(__SANITIZE_ADDRESS__)
    leave_outside();
    __sanitizer_finish_switch_fiber(fake_outside, &outside_bottom, &outside_size);
    __sanitizer_start_switch_fiber(&fake_outside, outside_bottom, outside_size);
#else
    leave_outside();
#endif
    inside = boost::context::fiber(std::allocator_arg, stack.whole(), NotOwned{},
                                   [this](boost::context::fiber&& caller) {
                                     outside = std::move(caller);
                                     entered();
                                     for (;;) {
                                       body();
                                       body = nullptr;
                                       ended = true;
                                       suspend();
                                     }
                                     return std::move(outside);
                                   });
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(tsan_outside, 0);
#endif
    arrive_outside();
  }

  void resume() {
    leave_outside();
    inside = std::move(inside).resume();
    arrive_outside();
  }

  void leave_outside() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake_outside, stack.bottom(), kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
    tsan_outside = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_inside, 0);
#endif
  }
  void arrive_outside() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_outside, nullptr, nullptr);
#endif
  }

  void suspend() {
    exchange_exceptions(exceptions);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake_inside, outside_bottom, outside_size);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(tsan_outside, 0);
#endif
    outside = std::move(outside).resume();
    entered();
  }

  void entered() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_inside, &outside_bottom, &outside_size);
#endif
    exchange_exceptions(exceptions);
  }
};

struct Fiber::Pool {
  std::vector<std::unique_ptr<Worker>> spare;
};

Fiber::Pool& Fiber::pool() {
  // Never destroyed: a suspended stack cannot be unwound.
  static auto* const forever = new Pool;  // NOLINT: see above
  return *forever;
}

Fiber::Fiber(std::function<void()> body) {
  auto& spare = pool().spare;
  if (spare.empty()) {
    worker_ = std::make_unique<Worker>();
  } else {
    worker_ = std::move(spare.back());
    spare.pop_back();
  }
  worker_->body = std::move(body);
  worker_->ended = false;
}

Fiber::~Fiber() {
  if (worker_->ended) {
    pool().spare.push_back(std::move(worker_));
  } else {
    leave_alive(std::move(worker_));
  }
}

void Fiber::note_left_stacks() noexcept {
#if defined(__SANITIZE_ADDRESS__)
  stacks_were_left = true;
#endif
}

bool Fiber::ended() const noexcept { return worker_->ended; }
void Fiber::resume() { worker_->resume(); }
void Fiber::suspend() { worker_->suspend(); }

}  // namespace holdfast::simulation

#if defined(__SANITIZE_ADDRESS__)
// Asked by LeakSanitizer before it looks; it cannot see into stacks that were left.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() {
  return holdfast::simulation::stacks_were_left ? 1 : 0;
}
#endif
