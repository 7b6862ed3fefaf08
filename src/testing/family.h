#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/hal/device.h"
#include "holdfast/hal/native_call.h"

namespace holdfast::testing {

// Kinds of devices that tests run on, whatever wraps them. Which driver `cuda` means is for
// cuda_driver() to say.
enum class Family { cpu, vulkan, cuda };
const char* to_string(Family family);
// None where no family is called so.
std::optional<Family> family_called(std::string_view name);

// What tests run on whose kernels have bodies: the CPU, unless HOLDFAST_TEST_BODIES names another
// family, as on a machine with a GPU. std::invalid_argument where there is none of that name.
Family family_of_bodies();

// Why a family cannot be tested here; empty: it can. See why_no_vulkan() and why_no_cuda().
std::string why_no(Family family);

// Loads what its devices need, which then stays until the tests are over: it takes longer than most
// tests. To be called before a simulation, whose first schedule would have other steps than the
// rest.
Failure load(Family family);

// How many queues a test gets that asks for so many (zero: for all): HOLDFAST_TEST_QUEUES is the
// most.
uint32_t limited_queues(uint32_t wanted);

// Takes what the family's driver has complained about so far: the validation layers of Vulkan, the
// stub driver of CUDA. It fails no test then.
std::vector<std::string> take_complaints(Family family);

// A callback that sets every byte of its first binding to a value by a call of the device's own
// driver. Not for the CPU; on Vulkan the bytes are whole words.
hal::NativeCallback native_fill(hal::Device& device, uint8_t value);

// The device behind all wrappers.
hal::Device& innermost(hal::Device& device);

}  // namespace holdfast::testing
