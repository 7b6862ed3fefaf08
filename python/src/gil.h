#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <optional>
#include <utility>

#include "holdfast/base/error.h"
#include "holdfast/device.h"

namespace holdfast::python {

namespace nb = nanobind;

// Without the GIL for a scope. A thread that comes back after the interpreter has ended stops here
// for good: Python would otherwise unwind it through code that cannot be unwound.
class ReleaseGil {
 public:
  ReleaseGil() : state_(PyEval_SaveThread()) {}
  ~ReleaseGil();
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

 private:
  PyThreadState* state_;
};

// How long a call from Python waits: until `timeout` seconds are over, or until a signal handler of
// Python raises. For calls made without the GIL.
WaitLimit limit_of(std::optional<double> timeout = {});

// Calls f(limit) without the GIL. Everything that can wait for a device or for a compiler goes
// through here. `f` must touch no Python object, and no Array that another thread may assign to:
// give it copies. If a signal handler raised during the wait, its exception is raised here.
template <typename F>
auto without_gil(F&& f, std::optional<double> timeout = {}) {
  const WaitLimit limit = limit_of(timeout);
  try {
    const ReleaseGil released;
    return std::forward<F>(f)(limit);
  } catch (const InterruptedError&) {
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    throw;
  }
}

// Runs `task` with the GIL, soon: the main thread runs it between two instructions of Python, or
// the next call that drains. Takes no GIL itself, so that the runtime's threads may call it. After
// the interpreter has ended, the task is dropped without running.
void run_with_gil_later(std::function<void()> task) noexcept;
// Runs what was put off. The GIL is held.
void drain_tasks() noexcept;

void bind_gil(nb::module_& m);

}  // namespace holdfast::python
