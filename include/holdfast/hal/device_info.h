#pragma once

#include <cstdint>
#include <string>

#include "holdfast/base/bytes.h"
#include "holdfast/base/sync/deadline.h"
#include "holdfast/hal/ids.h"
#include "holdfast/hal/module.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

// The form of Module that a device takes.
enum class ModuleForm : uint8_t { host_function, spirv, cuda };

// What the device's threads are good at; operations choose between two bodies by it.
enum class ThreadStyle : uint8_t {
  few_strong,  // a CPU: each thread does much, in loops over elements that lie side by side
  many_weak,   // a GPU: each does little, beside neighbours of its threadgroup that work with it
};

struct DeviceInfo {
  DeviceId id;
  std::string name;         // "cpu", "vulkan:0"
  std::string description;  // for people: "host CPU, 2 threads"
  uint32_t queues = 1;
  uint32_t copy_queues = 0;  // further queues, after those, for copies and fills only
  Groups max_groups{0x7fffffff, 65535, 65535};  // their product fits in 63 bits
  uint32_t max_group_threads = 1024;            // of a kernel that counts threads
  ModuleForm module_form = ModuleForm::host_function;
  // What code is compiled for, where one form has several: "sm_90"; of Vulkan, what floating
  // numbers keep, "simd32" where subgroups are simdgroups, and the driver where it needs code of
  // its own: "nan32 nan16 simd32".
  std::string architecture{};
  ThreadStyle thread_style = ThreadStyle::few_strong;
  Bytes max_buffer;             // of one Buffer
  Bytes memory;                 // in all
  uint32_t max_buffers = 0;     // live at once, imports not counted
  uint32_t max_imports = 0;     // live at once; zero: no limit but memory
  Bytes buffer_alignment{256};  // of every Allocation's offset; divides 256
  bool device_memory_host_visible = false;
  // The number by which others who use the driver know the device (CUDA's ordinal); -1: none.
  int32_t driver_ordinal = -1;
};

// A device that can be opened by this name.
struct DeviceListing {
  std::string name;
  std::string description;  // for people
  std::string missing{};    // why it cannot be opened, and what to do; empty: it can
  bool is_gpu = false;      // and no software that stands in for one
};

// Device time of one kernel: of all its pipelines that share a name.
struct KernelTime {
  std::string kernel;
  uint64_t dispatches = 0;
  sync::Duration total{};  // of all its threads together, where a device runs several
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
