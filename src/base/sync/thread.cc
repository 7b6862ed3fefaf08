#include "holdfast/base/sync/thread.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <system_error>

#include "holdfast/base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace holdfast::sync {

namespace {

// Signals that arrive meanwhile wait; a thread started meanwhile inherits that for good.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

Thread::Thread(std::string name, std::function<void()> body) {
  if (Scheduler* scheduler = Scheduler::current()) {
    task_ = scheduler->start(std::move(name), std::move(body));
    return;
  }
  const SignalsBlocked blocked;
  try {
    // The system's limit for a thread's name is 15 characters.
    thread_ = std::thread([label = name.substr(0, 15), run = std::move(body)] {
      pthread_setname_np(pthread_self(), label.c_str());
      run();
    });
  } catch (const std::system_error& error) {
    throw EnvironmentError(fmt::format(
        "the thread '{}' could not be started: {}; raise the process's limit of threads "
        "or open fewer devices",
        name, error.what()));
  }
}

Thread& Thread::operator=(Thread&& other) noexcept {
  join();
  thread_ = std::move(other.thread_);
  task_ = std::move(other.task_);
  return *this;
}

Thread::~Thread() { join(); }

bool Thread::is_current() const noexcept {
  Scheduler* const scheduler = Scheduler::current();
  if (task_ != nullptr) return scheduler != nullptr && scheduler->is_current(*task_);
  return scheduler == nullptr && thread_.get_id() == std::this_thread::get_id();
}

void Thread::join(const Where& where) noexcept {
  if (task_ != nullptr) {
    Scheduler* const scheduler = Scheduler::current();
    if (scheduler != nullptr && !is_current()) scheduler->join(*task_, where);
    task_.reset();
    return;
  }
  if (!thread_.joinable()) return;
  if (is_current()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void Thread::detach() noexcept {
  task_.reset();
  if (thread_.joinable()) thread_.detach();
}

unsigned hardware_threads() noexcept { return std::max(1U, std::thread::hardware_concurrency()); }

void relax(unsigned attempt, const Where& where) noexcept {
  if (Scheduler* scheduler = Scheduler::current()) {
    scheduler->spin(where);
    return;
  }
  // Most waits end within a few breaths; after that the core may be what the other side lacks.
  if (attempt % 16 == 15) {
    std::this_thread::yield();
    return;
  }
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void nap(Duration duration) noexcept {
  if (duration.count() > 0) {
    std::this_thread::sleep_for(duration);
  } else {
    std::this_thread::yield();
  }
}

}  // namespace holdfast::sync
