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

// When an evaluation submits what it has recorded, so that the device works while the host still
// records, and so that no submission runs for long: whichever limit is met first. The
// number of commands was chosen by the bench row array_early_submit; no row varies the others yet.
struct SubmitLimits {
  uint32_t commands = 64;
  Bytes bytes = 64_MiB;                                // that the recorded commands write
  sync::Duration time = std::chrono::milliseconds(2);  // since the first of them was recorded
};

// HOLDFAST_THREADS: "strong" or "weak"; none where it is not set. EnvironmentError for other
// values.
std::optional<ThreadStyle> thread_style_from_environment();

struct DeviceOptions {
  RuntimeOptions runtime = RuntimeOptions::from_environment();
  KernelOptions kernels{};
  SubmitLimits submit{};
  // The threads that operations choose their bodies for. None: those that the device has.
  std::optional<ThreadStyle> thread_style = thread_style_from_environment();
};

// A device with all that arrays on it need: its memory, its compiled kernels, its streams. A
// handle: cheap to copy, thread-safe. Arrays and Streams keep what they need of it alive.
class Device {
 public:
  // A device of its own, apart from those that device() gives. `device` is taken over.
  explicit Device(Ref<hal::Device> device, DeviceOptions options = {});

  const std::string& name() const noexcept;         // "cpu", "validate(cpu)"
  const std::string& description() const noexcept;  // for people
  // Where its nodes go that name no other stream.
  Stream default_stream() const;
  Stream new_stream(std::string name = {}) const;

  // Waits for everything that was recorded on any of its streams; raises the first failure.
  void synchronize(const WaitLimit& limit = {}) const;

  // Memory that arrays may have at once, pooled memory included. Zero: the device's own limit.
  void set_memory_limit(Bytes limit) const;
  // Free memory that is kept for the next arrays; what is more goes back to the device.
  void set_cache_limit(Bytes limit) const;
  // Gives all free memory back.
  void clear_cache() const;
  void set_submit_limits(const SubmitLimits& limits) const;

  Stats stats() const;
  // Time that kernels take on the device, measured from now on; costs two clock readings a
  // dispatch. UnsupportedError where the device cannot tell.
  void set_profiling(bool on) const;
  // Of each kernel that ran while profiling was on, the one that took longest first.
  std::vector<KernelTime> kernel_times() const;
  // Drops every compiled kernel that nothing recorded needs; bounds them from now on.
  void clear_kernels() const;
  void set_kernel_limits(KernelLimits limits) const;

  // For those who mix arrays with a runtime of their own.
  const Ref<runtime::Context>& context() const noexcept;
  kernel::KernelRuntime& kernels() const noexcept;

  friend bool operator==(const Device& a, const Device& b) noexcept;

  // For the other parts of this layer.
  explicit Device(HiddenRef<array::StreamState> home) noexcept : home_(std::move(home)) {}
  const HiddenRef<array::StreamState>& home() const noexcept { return home_; }

 private:
  HiddenRef<array::StreamState> home_;  // the default stream's: through it everything else
};

// The one device of that name in this process, opened on first use: "cpu", "vulkan:0",
// "validate(adversary(cpu,seed=7))". Raises an error that lists the names there are.
Device device(std::string_view name);
// HOLDFAST_DEVICE, else the best there is; the CPU is always there.
Device default_device();
void set_default_device(const Device& device);
// A device of its own, apart from those that device() gives, by one of the same names.
Device open_device(std::string_view name, DeviceOptions options = {});
// What device() takes here, with a description for people.
std::vector<DeviceListing> devices();

// Of the default device.
void set_memory_limit(Bytes limit);
void set_cache_limit(Bytes limit);
void clear_cache();
Bytes active_memory();
Bytes peak_memory();
Bytes cache_memory();
Stats stats();

}  // namespace holdfast

#pragma GCC visibility pop
