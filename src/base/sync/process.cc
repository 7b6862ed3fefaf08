#include "holdfast/base/sync/process.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <vector>

#include "holdfast/base/sync/mutex.h"

namespace holdfast::sync {
namespace {

std::atomic<uint32_t> generation{0};

[[maybe_unused]] const int kForkHandler =
    pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });

using Actions = Guarded<std::vector<std::function<void()>>>;
Actions& exit_actions() {
  static Actions* const forever = new Actions;  // NOLINT: read by the exit handler itself
  return *forever;
}

void run_exit_actions() {
  for (;;) {
    std::function<void()> action;
    {
      auto actions = exit_actions().lock();
      if (actions->empty()) return;
      action = std::move(actions->back());
      actions->pop_back();
    }
    action();
  }
}

}  // namespace

uint32_t fork_generation() noexcept { return generation.load(std::memory_order_relaxed); }

void at_exit(std::function<void()> action) {
  static const int registered = std::atexit(run_exit_actions);
  (void)registered;
  exit_actions().lock()->push_back(std::move(action));
}

}  // namespace holdfast::sync
