#pragma once

#include <optional>

#include "holdfast/hal/matrix_products.h"
#include "holdfast/operation.h"

namespace holdfast::array {

// The matrix products of the device's own library (hal::Device::matrix_products), as operations use
// them. A product by the library is a native command, which a device may have to submit apart from
// the kernels around it: on CUDA, a list with one is not a graph. So small products stay with our
// kernels; DeviceOptions::matmul overrides that.
class MatrixLibrary {
 public:
  // For out = a x b, whose matrices are the last two axes; no operand is empty.
  MatrixLibrary(Encoder& encoder, const Operand& a, const Operand& b, const Operand& out);

  // Whether the product is to be computed by a library, which is there.
  explicit operator bool() const noexcept { return products_ != nullptr; }
  // How the last two axes lie, for a library; nothing if it cannot read them so.
  static std::optional<hal::MatrixLayout> layout_of(const Operand& operand);
  // Records it: a [batch..., M, K] and b [batch..., K, N] in any layout, with the same batch, which
  // stretches over all matrices of the row-contiguous out. False: nothing was recorded, since the
  // library is not wanted, or does not take it.
  bool record(const Operand& a, const Operand& b, const Operand& out);

 private:
  Encoder& encoder_;
  bool forced_ = false;
  hal::MatrixProducts* products_ = nullptr;
};

}  // namespace holdfast::array
