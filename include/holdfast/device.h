#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/array/stream_state.h"
#include "holdfast/device_options.h"
#include "holdfast/hal/devices.h"
#include "holdfast/stats.h"

namespace holdfast {

class Stream;

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
  void synchronize(const runtime::WaitLimit& limit = {}) const;

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
  void set_kernel_limits(kernel::CacheLimits limits) const;

  // For those who mix arrays with a runtime of their own.
  const Ref<runtime::Context>& context() const noexcept;
  kernel::KernelRuntime& kernels() const noexcept;

  friend bool operator==(const Device& a, const Device& b) noexcept;

  // For the other parts of this layer.
  explicit Device(Ref<array::StreamState> home) noexcept;
  const Ref<array::StreamState>& home() const noexcept { return home_; }

 private:
  Ref<array::StreamState> home_;  // the default stream's: through it everything else
};

// The one device of that name in this process, opened on first use: "cpu", "vulkan:0",
// "validate(adversary(cpu,seed=7))". Raises an error that lists the names there are.
Device device(std::string_view name);
// HOLDFAST_DEVICE, else the best there is; the CPU is always there.
Device default_device();
void set_default_device(const Device& device);
// What device() takes here, with a description for people.
std::vector<hal::DeviceListing> devices();

// Of the default device.
void set_memory_limit(Bytes limit);
void set_cache_limit(Bytes limit);
void clear_cache();
Bytes active_memory();
Bytes peak_memory();
Bytes cache_memory();
Stats stats();

}  // namespace holdfast
