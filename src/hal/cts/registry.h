#pragma once

#include <functional>
#include <iosfwd>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/hal/device.h"

namespace holdfast::hal::cts {

// A device that the conformance suite runs on.
struct DeviceUnderTest {
  // Part of the tests' names: lower-case letters, digits and underscores.
  std::string name;
  // Opens a device of its own at each call. Dropping one with work that cannot finish should give
  // up soon: the suite does so hundreds of times.
  std::function<Result<Ref<Device>>()> open;
  // The finished module of a kernel of kernels.h for that many parameters, in a form that this
  // device takes.
  std::function<Module(std::string_view kernel, Bytes parameter_bytes)> module;
  // Tests that this device cannot pass, by name without suite and device. They are skipped, aloud;
  // a name that no test has fails the suite.
  std::set<std::string> unsupported;
  // Why this machine has no such device, so that all its tests are skipped, aloud; empty, or null:
  // it has one.
  std::function<std::string()> missing{};
};

// To be called before main. UsageError where the name is taken or cannot be part of a test's name.
bool register_device(DeviceUnderTest device);
// In the order of registration, which is that of linking.
const std::vector<DeviceUnderTest>& registered_devices();

// The names of all conformance tests, without suite and device.
std::set<std::string> test_names();
// Those names in `unsupported` that no conformance test has.
std::vector<std::string> unknown_names(const DeviceUnderTest& device);

// For GoogleTest's messages.
void PrintTo(const DeviceUnderTest& device,
             std::ostream* out);  // NOLINT(readability-identifier-naming)

}  // namespace holdfast::hal::cts
