#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "holdfast/base/never_destroyed.h"
#include "holdfast/device.h"
#include "holdfast/hal/devices.h"

namespace holdfast {

// A device of the usual kind whose operations take the bodies for such threads: one for each style
// in this process, so that kernels are compiled once.
inline const Device& device_of_style(hal::ThreadStyle style) {
  static NeverDestroyed<std::map<hal::ThreadStyle, Device>> devices;
  std::map<hal::ThreadStyle, Device>& made = devices.get();
  if (!made.contains(style)) {
    DeviceOptions options;
    options.thread_style = style;
    made.emplace(style, Device(hal::open_device(hal::default_device_name()).or_raise(), options));
  }
  return made.at(style);
}

// Tests of operations that have two bodies run with each of them: the default device is of the
// style meanwhile.
class BothStyles : public ::testing::TestWithParam<hal::ThreadStyle> {
 protected:
  void SetUp() override {
    before_ = default_device();
    set_default_device(device_of_style(GetParam()));
  }
  void TearDown() override { set_default_device(*before_); }

 private:
  std::optional<Device> before_;
};

inline auto both_styles() {
  return ::testing::Values(hal::ThreadStyle::few_strong, hal::ThreadStyle::many_weak);
}
inline std::string style_name(const ::testing::TestParamInfo<hal::ThreadStyle>& info) {
  return info.param == hal::ThreadStyle::few_strong ? "few_strong" : "many_weak";
}

}  // namespace holdfast
