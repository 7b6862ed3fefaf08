#pragma once

#include <algorithm>
#include <utility>

#include "holdfast/array/scenarios/array_rig_test.h"

// What the scenarios compute with.
namespace holdfast {

using Floats = std::vector<float>;

inline constexpr int64_t kLength = 64;
inline constexpr Bytes kSize{sizeof(float) * kLength};

inline const Kernel& plus_one() {
  static const Kernel kernel = elementwise_kernel("plus_one", "a[i] + T(1)");
  return kernel;
}

inline const Kernel& twice() {
  static const Kernel kernel({.name = "twice",
                              .in_place = {"x"},
                              .source = "uint i = thread_position_in_grid.x; x[i] = 2.0f * x[i];"});
  return kernel;
}

// In the array's own memory where nobody else sees it.
inline Array double_in_place(Array x, const On& on = {}) {
  const auto n = static_cast<uint32_t>(x.size());
  std::vector<Array> one;
  one.push_back(std::move(x));
  return twice()(
      {}, {.grid = {n, 1, 1}, .threadgroup = {32, 1, 1}, .in_place = std::move(one), .on = on})[0];
}

inline Array filled(double value, const Stream& on) { return full({kLength}, value, float32, on); }

inline Floats mapped(const Floats& values, float (*f)(float)) {
  Floats result(values.size());
  std::transform(values.begin(), values.end(), result.begin(), f);
  return result;
}

inline uint64_t waits(const ArrayRig& rig, runtime::WaitReason reason) {
  return rig.stats().runtime.waits_for(reason).count;
}

}  // namespace holdfast
