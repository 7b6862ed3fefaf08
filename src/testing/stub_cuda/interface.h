#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

// What a test and the stub driver's library both know of each other. Tests reach it by
// holdfast/testing/stub_cuda.h.

#pragma GCC visibility push(default)

namespace holdfast::stub_cuda {

// A device address is one of this process.
template <typename T>
T* pointer_of(uint64_t address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

struct Size3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

// What a kernel sees while it runs as one block.
struct StubLaunch {
  Size3 grid;
  Size3 block;
  Size3 block_index;
  unsigned shared_bytes = 0;
  const std::byte* arguments = nullptr;  // the launch's own copy
  size_t argument_bytes = 0;

  // A copy of the value at this byte of the arguments.
  template <typename T>
  T argument(size_t at) const {
    T value;
    std::memcpy(&value, arguments + at, sizeof(T));
    return value;
  }
};

// Called once for each block, one after another, on the stream's thread. Anything but CUDA_SUCCESS
// is a fault: the context keeps it as its sticky error. What a kernel throws is
// CUDA_ERROR_LAUNCH_FAILED.
using StubKernel = std::function<int(const StubLaunch&)>;

// A GPU of the stub.
struct StubDevice {
  std::string name = "Stub GPU 0";
  uint64_t memory = uint64_t{8} << 30;
  std::map<int, int> attributes{};  // CU_DEVICE_ATTRIBUTE_* that differ from the defaults
};

// An executable graph.
struct StubGraphShape {
  size_t nodes = 0;
  size_t edges = 0;
  size_t roots = 0;         // nodes that wait for no other
  size_t programmatic = 0;  // of the edges
  friend bool operator==(const StubGraphShape&, const StubGraphShape&) = default;
};

// The driver as tests steer it: one for the process, shared by whoever loads the library.
// Thread-safe.
//
// What the driver is (devices, version, hidden calls) is for tests to set before a device is
// opened. reset() and everything that changes the driver is for a moment when no device is open.
class StubControl {
 public:
  // One default device, nothing hidden, planned, held, counted or violated. Kernels stay
  // registered, and the driver initialized. A context that somebody has not released is left behind
  // with its error: whoever retains next gets a new one.
  virtual void reset() = 0;

  virtual void set_devices(std::vector<StubDevice> devices) = 0;
  virtual void set_driver_version(int version) = 0;  // 12080 by default: CUDA 12.8
  // cuGetProcAddress does not find this call any more.
  virtual void hide(const std::string& call) = 0;
  virtual void register_kernel(const std::string& name, StubKernel kernel) = 0;

  // The calls `nth` to `nth + times - 1` of this entry point, counted from now and from one, return
  // `result` and do nothing. A result after which a driver's context does nothing any more is
  // sticky: every context has it from then on.
  virtual void fail(const std::string& call, uint64_t nth, int result, uint64_t times = 1) = 0;
  // Nothing is planned any more.
  virtual void fail_no_more() = 0;
  // As if the hardware failed: the device's context has this error from now on.
  virtual void lose(int device, int result) = 0;
  // As the driver at the end of a process: work in flight is dropped, and every call returns
  // CUDA_ERROR_DEINITIALIZED until reset(). At exit: in a handler that the first cuInit registered.
  virtual void shut_down() = 0;
  virtual void shut_down_at_exit() = 0;

  // A held stream accepts work and starts none. Null: every stream, also those made later.
  virtual void hold(const void* stream = nullptr) = 0;
  // Null: every stream, also those held one by one.
  virtual void release(const void* stream = nullptr) = 0;
  // Operations that are queued or run, in all streams.
  virtual size_t in_flight() const = 0;
  // Waits until nothing is in flight.
  virtual void drain() = 0;

  // How many of each kind callers have and did not give back; kinds without any are left out.
  // "context" counts each time that one was retained.
  virtual std::map<std::string, size_t> live() const = 0;
  // Of the latest that was instantiated.
  virtual StubGraphShape latest_graph() const = 0;

  // How often this entry point was called, failed calls included.
  virtual uint64_t calls(const std::string& call) const = 0;
  // Calls that waited for work of others on a real driver: made while a stream of the context was
  // busy. Empty: of all entry points.
  virtual uint64_t synchronising_calls(const std::string& call = {}) const = 0;
  // What was done that a driver leaves undefined, in sentences; each was printed to stderr too.
  virtual std::vector<std::string> violations() const = 0;
  virtual std::vector<std::string> take_violations() = 0;

 protected:
  ~StubControl() = default;
};

}  // namespace holdfast::stub_cuda

#pragma GCC visibility pop
