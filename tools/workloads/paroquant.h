#pragma once

#include <vector>

#include "workloads/tensor.h"

namespace holdfast::workloads {

// Pairwise rotations of groups of 128 channels, then a product with 4-bit weights (MLX PR 3434,
// where the second dtype of one kernel destroyed the first one's pipeline under a recorded list).
//   v = x * scale; for k: v_i' = v_i c + v_j s, v_j' = v_j c - v_i s over disjoint pairs (i, j)
//   y[r,o] = sum_ch v[r,ch] * (S[o,ch/128] * q[o,ch] + B[o,ch/128])
struct ParoQuant {
  uint32_t rows = 1;
  uint32_t channels = 2560;  // a multiple of 128
  uint32_t outputs = 256;    // a multiple of 4
  uint32_t rotations = 8;
  uint64_t seed = 1;
};

// The weights, which calls with inputs of several dtypes share. All floats are float32, so that the
// product of a float16 input is float32.
class ParoQuantLayer {
 public:
  ParoQuantLayer(runtime::Stream& stream, const ParoQuant& options);

  // The stored input of a dtype, the same for every call.
  std::vector<float> input(kernel::Dtype dtype) const;
  struct Outputs {
    Tensor rotated;  // in the input's dtype
    Tensor product;  // float32
  };
  // Records both kernels; nothing is submitted. With the stored input, which is uploaded; or with
  // one that is on the device.
  Outputs record(runtime::Stream& stream, kernel::KernelRuntime& kernels,
                 kernel::Dtype dtype) const;
  Outputs record(runtime::Stream& stream, kernel::KernelRuntime& kernels, const Tensor& x) const;

  // In double precision, from the stored input.
  std::vector<double> rotated_reference(kernel::Dtype dtype) const;
  std::vector<double> product_reference(kernel::Dtype dtype) const;
  // The largest relative errors that rounding explains: float arithmetic, and one rounding when the
  // rotated values are stored.
  static double tolerance(kernel::Dtype dtype);

  // What both kernels read, for those who compute the same by other means.
  struct Weights {
    Tensor pairs, cosine, sine, scale;
    Tensor packed, scales, biases;
  };
  const Weights& weights() const noexcept { return on_device_; }

 private:
  double weight(uint32_t output, uint32_t channel) const;

  ParoQuant options_;
  std::vector<uint32_t> pairs_;  // [rotations, channels / 2]: i | j << 16
  std::vector<float> cos_, sin_, scale_;
  std::vector<uint32_t> packed_;  // [outputs, channels / 8]
  std::vector<float> scales_, biases_;
  Weights on_device_;
  Kernel rotate_, product_;
};

}  // namespace holdfast::workloads
