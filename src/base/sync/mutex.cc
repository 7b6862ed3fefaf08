#include "holdfast/base/sync/mutex.h"

namespace holdfast::sync {
namespace {

// How long a task looks for a taken mutex before it sleeps: a few microseconds, which is longer
// than any holder needs and less than going to sleep and being woken costs. Bench row
// array_scaling_one_stream.
constexpr int kRounds = 12;
constexpr int kLongestRound = 64;

void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

}  // namespace

void Mutex::take_slowly() noexcept {
  internal::lock_waits.fetch_add(1, std::memory_order_relaxed);
  int length = 1;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < length; ++i) pause();
    length = length < kLongestRound ? 2 * length : kLongestRound;
    if (word_.load(std::memory_order_relaxed) == vacant && try_take()) return;
  }
  // From here on the mutex counts as awaited: whoever gives it back wakes one.
  while (word_.exchange(awaited, std::memory_order_acquire) != vacant) {
    word_.wait(awaited, std::memory_order_relaxed);
  }
}

}  // namespace holdfast::sync
