#include "python/src/gil.h"

#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <vector>

#include "holdfast/base/sync/mutex.h"

namespace holdfast::python {
namespace {

// Python ends a thread that wants the GIL after the interpreter has ended by unwinding it. Its
// frames here are not written for that; the thread stays where it is, and the process exits.
[[noreturn]] void stay() {
  for (;;) pause();
}

class AcquireGil {
 public:
  AcquireGil() noexcept : state_(ensure()) {}
  ~AcquireGil() { PyGILState_Release(state_); }
  AcquireGil(const AcquireGil&) = delete;
  AcquireGil& operator=(const AcquireGil&) = delete;

 private:
  static PyGILState_STATE ensure() noexcept {
    try {
      return PyGILState_Ensure();
    } catch (const abi::__forced_unwind&) {
      stay();
    }
  }
  PyGILState_STATE state_;
};

struct Tasks {
  sync::LeafMutex mutex;
  std::vector<std::function<void()>> waiting;
  std::atomic<bool> any{false};
  std::atomic<bool> ended{false};  // the interpreter is about to end
};

// Never destroyed: the runtime's threads may outlive the interpreter.
Tasks& tasks() {
  static Tasks& all = *std::make_unique<Tasks>().release();
  return all;
}

// Python runs signal handlers on this thread alone.
unsigned long main_thread = 0;
bool on_main_thread() noexcept { return PyThread_get_thread_ident() == main_thread; }

// Whether a signal handler of Python raised; the exception is then set. Other threads than the main
// one have nothing to see, and stay away from an interpreter that may be gone.
bool signalled() {
  if (!on_main_thread()) return false;
  const AcquireGil held;
  return PyErr_CheckSignals() != 0;
}

}  // namespace

ReleaseGil::~ReleaseGil() {
  if (tasks().ended.load() && !on_main_thread()) stay();
  try {
    PyEval_RestoreThread(state_);
  } catch (const abi::__forced_unwind&) {
    stay();
  }
}

WaitLimit limit_of(std::optional<double> timeout) {
  WaitLimit limit;
  if (timeout) {
    if (std::isnan(*timeout)) throw nb::value_error("a timeout is a number of seconds, not NaN");
    // Beyond a century, a duration in nanoseconds would overflow.
    const double seconds = std::min(std::max(*timeout, 0.0), 3e9);
    limit = WaitLimit::after(
        std::chrono::duration_cast<sync::Duration>(std::chrono::duration<double>(seconds)));
  }
  limit.interrupted = signalled;
  return limit;
}

void run_with_gil_later(std::function<void()> task) noexcept {
  Tasks& all = tasks();
  if (all.ended.load()) {
    // Dropping it could touch objects of an interpreter that is gone: it is left alone.
    (void)std::make_unique<std::function<void()>>(std::move(task)).release();
    return;
  }
  {
    const sync::LeafLock lock(all.mutex);
    all.waiting.push_back(std::move(task));
  }
  if (all.any.exchange(true)) return;
  // Where Python's own queue is full, the next call that drains runs it.
  Py_AddPendingCall(
      [](void*) {
        drain_tasks();
        return 0;
      },
      nullptr);
}

void drain_tasks() noexcept {
  Tasks& all = tasks();
  if (!all.any.exchange(false)) return;
  std::vector<std::function<void()>> taken;
  {
    const sync::LeafLock lock(all.mutex);
    taken.swap(all.waiting);
  }
  for (const std::function<void()>& task : taken) task();
}

void bind_gil(nb::module_& m) {
  m.def("_end", [] {
    drain_tasks();
    tasks().ended.store(true);
  });
  main_thread = nb::cast<unsigned long>(
      nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  nb::module_::import_("atexit").attr("register")(m.attr("_end"));
}

}  // namespace holdfast::python
