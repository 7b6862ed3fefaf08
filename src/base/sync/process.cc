#include "holdfast/base/sync/process.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>
#include <vector>

#include "holdfast/base/error.h"

namespace holdfast::sync {
namespace {

// Fork

using internal::generation;
constinit std::atomic<uint32_t> forks{0};   // under way
constinit std::atomic<uint32_t> inside{0};  // threads that have a NoFork
constinit thread_local uint32_t depth = 0;  // how many this one has

constexpr std::chrono::seconds kLongestWait{10};

void before_fork() {
  forks.fetch_add(1);
  const uint32_t own = depth > 0 ? 1 : 0;
  const auto limit = std::chrono::steady_clock::now() + kLongestWait;
  for (unsigned attempt = 0; inside.load() > own; ++attempt) {
    if (attempt < 64) {
      std::this_thread::yield();
    } else if (std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    } else {
      return;
    }
  }
}

void after_fork() {
  forks.fetch_sub(1);
  forks.notify_all();
}

void in_child() {
  // Of the threads that were inside, or forking, this one alone exists.
  inside.store(depth > 0 ? 1 : 0);
  forks.store(0);
  generation.fetch_add(1, std::memory_order_relaxed);
}

[[maybe_unused]] const int kForkHandler = pthread_atfork(before_fork, after_fork, in_child);

// Exit

constinit std::atomic<pthread_t> exiting_thread{};
constinit std::atomic<std::terminate_handler> terminate_before{nullptr};

[[noreturn]] void end_this_thread() {
  // Not pthread_exit: it would unwind through std::terminate, which lets nothing pass. The system
  // tells whoever joins the thread either way.
  for (;;) ::syscall(SYS_exit, 0);
}

[[noreturn]] void terminate_at_exit() {
  const std::exception_ptr uncaught = std::current_exception();
  if (uncaught && !pthread_equal(exiting_thread.load(), pthread_self())) {
    try {
      std::rethrow_exception(uncaught);
    } catch (const ClosedError&) {
      end_this_thread();
    } catch (...) {  // NOLINT(bugprone-empty-catch): left to the handler before
    }
  }
  if (const std::terminate_handler before = terminate_before.load()) before();
  std::abort();
}

using Actions = ProcessGuarded<std::vector<std::function<void()>>>;
Actions& exit_actions() {
  static Actions* const forever = new Actions;  // NOLINT: read by the exit handler itself
  return *forever;
}

void run_exit_actions() {
  exiting_thread.store(pthread_self());
  if (std::get_terminate() != terminate_at_exit) {
    terminate_before.store(std::set_terminate(terminate_at_exit));
  }
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

NoFork::NoFork() noexcept {
  if (depth++ > 0) return;
  for (;;) {
    inside.fetch_add(1);
    const uint32_t under_way = forks.load();
    if (under_way == 0) return;
    inside.fetch_sub(1);
    forks.wait(under_way);
  }
}

NoFork::~NoFork() {
  if (--depth == 0) inside.fetch_sub(1);
}

void at_exit(std::function<void()> action) {
  // A forked child registers again: what others registered in the parent comes after its actions.
  static std::atomic<uint32_t> registered_in{~uint32_t{0}};
  const uint32_t now = fork_generation();
  if (registered_in.exchange(now) != now) (void)std::atexit(run_exit_actions);
  exit_actions().lock()->push_back(std::move(action));
}

}  // namespace holdfast::sync
