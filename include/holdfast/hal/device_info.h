#pragma once

#include <string>

#include "holdfast/hal/pipeline.h"

namespace holdfast::hal {

// The form of Module that a device takes.
enum class ModuleForm : uint8_t { host_function, spirv };

struct DeviceInfo {
  DeviceId id;
  std::string name;         // "cpu", "vulkan:0"
  std::string description;  // for people: "host CPU, 2 threads"
  uint32_t queues = 1;
  uint32_t copy_queues = 0;  // further ones, after those, that take copies and fills alone
  Groups max_groups{0x7fffffff, 65535, 65535};  // their product fits in 63 bits
  uint32_t max_group_threads = 1024;            // of a kernel that counts threads
  ModuleForm module_form = ModuleForm::host_function;
  Bytes max_buffer;             // of one Buffer
  Bytes memory;                 // in all
  uint32_t max_buffers = 0;     // live at once, imports not counted
  uint32_t max_imports = 0;     // live at once; zero: no limit but memory
  Bytes buffer_alignment{256};  // of every Allocation's offset; divides 256
  bool device_memory_host_visible = false;
};

}  // namespace holdfast::hal
