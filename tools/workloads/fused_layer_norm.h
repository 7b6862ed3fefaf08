#pragma once

#include <vector>

#include "workloads/tensor.h"

namespace holdfast::workloads {

// Layers of a fused layer norm and matrix-vector product, all through one kernel name, each with
// weights of its own; the output of one is the input of the next (MLX issue 3263, where layer 2
// computed with layer 1's weights).
//   h = (x - mean(x)) / sqrt(var(x) + 1e-5) * gamma + beta;  y_o = bias_o + sum_j W[o,j] h_j
struct FusedLayerNorm {
  uint32_t width = 768;
  uint32_t layers = 12;
  kernel::Dtype dtype = kernel::Dtype::float16;
  bool sliced_weights = false;  // all W are slices of one buffer
  bool two_sources = false;     // every second layer has another source under the same name
  uint32_t rows = 0;            // outputs of a threadgroup; zero: what suits the device
};

struct LayerWeights {
  std::vector<float> w, gamma, beta, bias;  // as stored
};

class FusedLayerNormRun {
 public:
  FusedLayerNormRun(runtime::Stream& stream, const FusedLayerNorm& options);

  // Records all layers; nothing is submitted.
  void record(runtime::Stream& stream, kernel::KernelRuntime& kernels);
  std::vector<float> result(runtime::Stream& stream) const { return read(stream, last_); }
  // In double precision, from the stored inputs.
  std::vector<double> reference() const;
  // The largest relative error that rounding explains: each layer stores its output once, and later
  // layers normalize what they get.
  double tolerance() const;

  // What the layers read, for those who compute the same by other means.
  struct Layer {
    Tensor w, gamma, beta, bias;
  };
  const Tensor& input() const noexcept { return input_; }
  const std::vector<Layer>& layers() const noexcept { return layers_; }

 private:
  FusedLayerNorm options_;
  std::vector<float> x_;
  std::vector<LayerWeights> weights_;
  Tensor input_;
  std::vector<Layer> layers_;
  Kernel first_, second_;
  Tensor last_;
};

// `second`: computes the same in another way.
Kernel fused_layer_norm_kernel(uint32_t width, bool second = false);

}  // namespace holdfast::workloads
