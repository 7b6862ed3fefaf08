#include "holdfast/hal/cts/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

namespace holdfast::hal::cts {

namespace {

std::vector<DeviceUnderTest>& devices() {
  static std::vector<DeviceUnderTest> all;
  return all;
}

bool can_be_part_of_a_test_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

}  // namespace

bool register_device(DeviceUnderTest device) {
  if (!can_be_part_of_a_test_name(device.name)) {
    throw UsageError("cannot register device '" + device.name +
                     "' for conformance: use lower-case letters, digits and underscores");
  }
  for (const DeviceUnderTest& other : devices()) {
    if (other.name == device.name) {
      throw UsageError("device '" + device.name + "' is registered for conformance twice");
    }
  }
  devices().push_back(std::move(device));
  return true;
}

const std::vector<DeviceUnderTest>& registered_devices() { return devices(); }

std::set<std::string> test_names() {
  std::set<std::string> names;
  const ::testing::UnitTest& unit = *::testing::UnitTest::GetInstance();
  for (int s = 0; s < unit.total_test_suite_count(); ++s) {
    const ::testing::TestSuite& suite = *unit.GetTestSuite(s);
    if (!std::string_view(suite.name()).ends_with("/Cts")) continue;
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const std::string_view full = suite.GetTestInfo(t)->name();
      names.emplace(full.substr(0, full.find('/')));
    }
  }
  return names;
}

std::vector<std::string> unknown_names(const DeviceUnderTest& device) {
  const std::set<std::string> known = test_names();
  std::vector<std::string> unknown;
  std::set_difference(device.unsupported.begin(), device.unsupported.end(), known.begin(),
                      known.end(), std::back_inserter(unknown));
  return unknown;
}

void PrintTo(const DeviceUnderTest& device, std::ostream* out) { *out << device.name; }

}  // namespace holdfast::hal::cts
