#pragma once

#include <chrono>
#include <set>
#include <string>

#include "holdfast/base/sync/deadline.h"
#include "holdfast/hal/device.h"

// What GPUs have in common in this suite, whoever made them.

namespace holdfast::hal::cts {

// With this many queues and more all tests that want several mean something.
inline constexpr uint32_t kGpuQueues = 4;

// Long enough for what can finish, short for what cannot.
inline constexpr sync::Duration kGpuCloseBound = std::chrono::milliseconds(20);

// Tests that no GPU can pass.
const std::set<std::string>& unsupported_by_gpus();
// The same behind the adversary. Its thread calls callbacks, as a device's does, and hands on one
// command at a time, so that it can tell which one failed.
const std::set<std::string>& unsupported_by_hostile_gpus();

// What a device is wrapped in before the suite gets it.
using GpuWrapper = Ref<Device> (*)(const Ref<Device>&);
Ref<Device> plain_gpu(const Ref<Device>& device);
Ref<Device> validated_gpu(const Ref<Device>& device);
// The adversary on a thread of its own: hostile, and still what the contract allows. It needs a
// device that runs everything inside submit().
Ref<Device> hostile_gpu(const Ref<Device>& device);

}  // namespace holdfast::hal::cts
