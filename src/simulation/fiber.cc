#include "holdfast/simulation/fiber.h"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/fiber.hpp>
#include <cstdint>
#include <new>
#include <utility>

#include "holdfast/base/leave_alive.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace holdfast::simulation {
namespace {

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// Exceptions that are being thrown or handled hang on the thread. The layout is fixed by the ABI.
struct ExceptionState {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

ExceptionState& of_thread() { return *reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals()); }

// Gives boost::context a stack that is the pool's.
struct Borrowed {
  StackPool* pool;
  void* bottom;

  boost::context::stack_context allocate() const { return {}; }
  void deallocate(boost::context::stack_context&) const noexcept { pool->give_back(bottom); }
};

}  // namespace

StackPool::~StackPool() {
  for (void* bottom : spare_) {
    munmap(static_cast<std::byte*>(bottom) - page_bytes(), kStackBytes + page_bytes());
  }
}

void* StackPool::take() {
  if (!spare_.empty()) {
    void* const bottom = spare_.back();
    spare_.pop_back();
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(bottom, kStackBytes);
#endif
    return bottom;
  }
  void* const memory = mmap(nullptr, kStackBytes + page_bytes(), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, page_bytes(), PROT_NONE);
  return static_cast<std::byte*>(memory) + page_bytes();
}

void StackPool::give_back(void* bottom) noexcept { spare_.push_back(bottom); }

struct Fiber::State {
  std::function<void()> body;
  void* bottom = nullptr;
  boost::context::fiber inside;   // while it is suspended
  boost::context::fiber outside;  // while it runs
  bool ended = false;
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

  void entered() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_inside, &outside_bottom, &outside_size);
#endif
    std::swap(of_thread(), exceptions);
  }
  void leaving(bool for_good) {
    std::swap(of_thread(), exceptions);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_inside, outside_bottom, outside_size);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(tsan_outside, 0);
#endif
    (void)for_good;
  }
};

Fiber::Fiber(StackPool& stacks, std::function<void()> body) : state_(std::make_unique<State>()) {
  State* const s = state_.get();
  s->body = std::move(body);
  s->bottom = stacks.take();
  boost::context::stack_context stack;
  stack.size = StackPool::kStackBytes;
  stack.sp = static_cast<std::byte*>(s->bottom) + StackPool::kStackBytes;
  const boost::context::preallocated place(stack.sp, stack.size, stack);
  s->inside = boost::context::fiber(std::allocator_arg, place, Borrowed{&stacks, s->bottom},
                                    [s](boost::context::fiber&& outside) {
                                      s->outside = std::move(outside);
                                      s->entered();
                                      s->body();
                                      s->body = nullptr;
                                      s->ended = true;
                                      s->leaving(true);
                                      return std::move(s->outside);
                                    });
}

Fiber::~Fiber() {
  if (!state_->ended) {
    leave_alive(std::move(state_));
    return;
  }
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(state_->tsan_inside);
#endif
}

bool Fiber::ended() const noexcept { return state_->ended; }

void Fiber::resume() {
  State& s = *state_;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&s.fake_outside, s.bottom, StackPool::kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  s.tsan_outside = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(s.tsan_inside, 0);
#endif
  s.inside = std::move(s.inside).resume();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(s.fake_outside, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
  State& s = *state_;
  s.leaving(false);
  s.outside = std::move(s.outside).resume();
  s.entered();
}

}  // namespace holdfast::simulation
