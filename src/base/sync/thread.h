#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "holdfast/base/sync/clock.h"
#include "holdfast/base/sync/scheduler.h"

namespace holdfast::sync {

// A thread, or a task of the Scheduler where there is one, that is joined when its object goes.
// Should the thread itself drop that object (its body ran the last release of its owner), it is
// detached instead of waiting for itself.
class Thread {
 public:
  Thread() noexcept = default;
  // Raises EnvironmentError, naming the thread, where the system gives no more threads. The body
  // must not throw. Signals are left to the application's own threads: all are blocked in this one.
  Thread(std::string name, std::function<void()> body);
  Thread(Thread&& other) noexcept = default;
  Thread& operator=(Thread&& other) noexcept;
  ~Thread();

  bool joinable() const noexcept { return thread_.joinable() || task_ != nullptr; }
  bool is_current() const noexcept;
  // Detaches instead where called by the thread itself.
  void join(const Where& where = Where::current()) noexcept;
  // Lets the thread run on alone. Whatever it touches must then outlive it.
  void detach() noexcept;

 private:
  std::thread thread_;
  std::shared_ptr<ScheduledTask> task_;
};

unsigned hardware_threads() noexcept;

// One breath of a busy wait; gives the core away where others want it.
void relax(unsigned attempt, const Where& where = Where::current()) noexcept;
// Lets the core go for about this long; for zero, to whoever wants it. For those who can only look
// again and again at what a device does; no scheduler knows of it.
void nap(Duration duration) noexcept;

// Where others want the core, one breath can last as long as their turns: then it is better to
// sleep, since whoever is woken gets the core soon.
inline constexpr Duration kLongestSpin = std::chrono::microseconds(250);

// Spins until done(), until the attempts are used up, or for kLongestSpin; returns the last answer.
template <typename Predicate>
bool spin_for(unsigned attempts, Predicate done, const Where& where = Where::current()) {
  // To a scheduler spinning is waiting: one look shows as much as many.
  if (Scheduler::current() != nullptr && attempts > 1) attempts = 1;
  const TimePoint start = now();
  for (unsigned i = 0; i < attempts; ++i) {
    if (done()) return true;
    relax(i, where);
    if (i % 16 == 15 && now() - start > kLongestSpin) break;
  }
  return done();
}

}  // namespace holdfast::sync
