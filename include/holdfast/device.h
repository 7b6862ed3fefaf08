#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/ref.h"
#include "holdfast/hal/device_info.h"
#include "holdfast/runtime/options.h"
#include "holdfast/runtime/wait_limit.h"
#include "holdfast/stats.h"

namespace holdfast::array {
class StreamState;
}

#pragma GCC visibility push(default)

namespace holdfast {

class Stream;
namespace hal {
class Device;
}
namespace kernel {
class KernelRuntime;
}
namespace runtime {
class Context;
}

using KernelLimits = kernel::CacheLimits;
using KernelOptions = kernel::Options;
using RuntimeOptions = runtime::Options;
using hal::DeviceInfo;
using hal::DeviceListing;
using hal::KernelTime;
using hal::ThreadStyle;
using runtime::interrupt_waits;
using runtime::WaitLimit;

// When an evaluation submits what it has recorded: as soon as any of these limits is met. The
// device then works while the host still records, and no submission runs for long. The bench row
// array_early_submit chose the number of commands; no row varies the others yet. Commands and bytes
// cut the same graph at the same nodes each time; a cut for time comes on top and moves no other.
struct SubmitLimits {
  uint32_t commands = 64;
  Bytes bytes = 64_MiB;                                // written by the recorded commands
  sync::Duration time = std::chrono::milliseconds(2);  // since the first command was recorded
};

// The style that HOLDFAST_THREADS names ("strong" or "weak"); none if it is not set.
// EnvironmentError for other values.
std::optional<ThreadStyle> thread_style_from_environment();

// Who computes matrix products.
enum class MatmulBy : uint8_t {
  own,      // kernels of Holdfast
  library,  // the device's own library (cuBLASLt), however small the product, if it takes it
};
// What HOLDFAST_MATMUL names ("own" or "library"); none if it is not set. EnvironmentError for
// other values.
std::optional<MatmulBy> matmul_from_environment();

struct DeviceOptions {
  RuntimeOptions runtime = RuntimeOptions::from_environment();
  KernelOptions kernels{};
  SubmitLimits submit{};
  // The kind of threads that operations choose their bodies for. None: the device's own.
  std::optional<ThreadStyle> thread_style = thread_style_from_environment();
  // None: the device's library, where it has one, for products that are worth it.
  std::optional<MatmulBy> matmul = matmul_from_environment();
};

// A device and everything that arrays on it need: memory, compiled kernels, streams. A handle:
// cheap to copy, thread-safe. Arrays and Streams keep alive what they need of it.
class Device {
 public:
  // A separate device, not one of those that device() returns. Takes over `device`.
  explicit Device(Ref<hal::Device> device, DeviceOptions options = {});

  const std::string& name() const noexcept;         // "cpu", "validate(cpu)"
  const std::string& description() const noexcept;  // for people
  // The stream of nodes that name no other.
  Stream default_stream() const;
  Stream new_stream(std::string name = {}) const;

  // Waits for everything recorded on any of its streams; raises the first failure.
  void synchronize(const WaitLimit& limit = {}) const;

  // The most memory that arrays may use at once, pooled memory included. Zero: the device's own
  // limit.
  void set_memory_limit(Bytes limit) const;
  // How much free memory is kept for later arrays; the excess goes back to the device.
  void set_cache_limit(Bytes limit) const;
  // Gives all free memory back to the device.
  void clear_cache() const;
  void set_submit_limits(const SubmitLimits& limits) const;

  Stats stats() const;
  // Starts or stops measuring how long kernels run on the device. Costs two clock readings per
  // dispatch. UnsupportedError if the device cannot measure.
  void set_profiling(bool on) const;
  // One entry for each kernel that ran while profiling was on, longest first.
  std::vector<KernelTime> kernel_times() const;
  // clear_kernels drops every compiled kernel that no recorded work needs; set_kernel_limits bounds
  // what is kept from now on.
  void clear_kernels() const;
  void set_kernel_limits(KernelLimits limits) const;

  // For code that uses the runtime directly beside arrays.
  const Ref<runtime::Context>& context() const noexcept;
  kernel::KernelRuntime& kernels() const noexcept;

  friend bool operator==(const Device& a, const Device& b) noexcept;

  // For other parts of this layer.
  explicit Device(HiddenRef<array::StreamState> home) noexcept : home_(std::move(home)) {}
  const HiddenRef<array::StreamState>& home() const noexcept { return home_; }

 private:
  HiddenRef<array::StreamState> home_;  // of the default stream; leads to everything else
};

// The process's one device of that name, opened on first use: "cpu", "vulkan:0",
// "validate(adversary(cpu,seed=7))"; the same by all of its names, as "cuda" and "cuda:0". For an
// unknown name, the error lists the names that exist.
Device device(std::string_view name);
// The device that HOLDFAST_DEVICE names; otherwise the first GPU for which kernels can be compiled
// here (through CUDA, else through Vulkan), else the CPU, which is always there. Opened on first
// use.
Device default_device();
void set_default_device(const Device& device);
// Opens a separate device, not shared with device(), by one of the same names.
Device open_device(std::string_view name, DeviceOptions options = {});
// The names that device() accepts on this machine, each with a description for people. A kind of
// device of which there is none is listed too, with what is missing and how to get it.
std::vector<DeviceListing> devices();

// The same for the default device.
void set_memory_limit(Bytes limit);
void set_cache_limit(Bytes limit);
void clear_cache();
Bytes active_memory();
Bytes peak_memory();
Bytes cache_memory();
Stats stats();

}  // namespace holdfast

#pragma GCC visibility pop
