#pragma once

#include <string>
#include <vector>

#include "holdfast/kernel/launch.h"

namespace holdfast::workloads {

// Memory with a type and a shape, as the workloads pass it from kernel to kernel.
struct Tensor {
  Ref<hal::Allocation> memory{};
  kernel::Dtype dtype = kernel::Dtype::float32;
  std::vector<int64_t> shape{};
  Bytes offset{};

  kernel::ArrayRef ref() const { return {memory, dtype, shape, {}, offset}; }
  uint64_t elements() const;
};

Tensor make_tensor(runtime::Stream& stream, kernel::Dtype dtype, std::vector<int64_t> shape,
                   std::string name);
// Float dtypes: rounded to the nearest.
Tensor upload(runtime::Stream& stream, kernel::Dtype dtype, std::vector<int64_t> shape,
              const std::vector<float>& values, std::string name);
Tensor upload_words(runtime::Stream& stream, kernel::Dtype dtype, std::vector<int64_t> shape,
                    const std::vector<uint32_t>& words, std::string name);
void write(runtime::Stream& stream, const Tensor& to, const std::vector<float>& values);
std::vector<float> read(runtime::Stream& stream, const Tensor& from);
// What a value becomes when it is stored as the dtype.
std::vector<float> rounded(kernel::Dtype dtype, const std::vector<float>& values);

// The same numbers everywhere, in [-1, 1).
std::vector<float> random_values(uint64_t seed, size_t count);

// The largest distance between the two, divided by the largest absolute value of the reference.
double relative_error(const std::vector<float>& values, const std::vector<double>& reference);

}  // namespace holdfast::workloads
