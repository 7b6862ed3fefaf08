#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "holdfast/base/bytes.h"
#include "holdfast/hal/native_call.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

// What all three matrices of a product are made of. Two-byte elements are summed up as float32, the
// others as they are.
enum class MatrixElement : uint8_t { float16, bfloat16, float32, float64 };

// How a matrix that is read lies in its binding, whose first byte is the matrix's first.
struct MatrixLayout {
  bool transposed = false;   // its columns lie one after another, not its rows
  int64_t pitch = 0;         // elements from one row (column) to the next; at least its length
  uint64_t alignment = 256;  // of the first byte: a power of two that the address is a multiple of
};

// An axis of a batch: elements from each matrix to the next. Zero for a or b: all are the same.
struct MatrixBatch {
  int64_t count = 1;
  int64_t a = 0;
  int64_t b = 0;
  int64_t c = 0;
};

// c = a x b, for each matrix of a batch: a has rows x depth, b depth x columns, c rows x columns.
// The rows of c lie one after another, without gaps. No length is zero.
struct MatrixProduct {
  MatrixElement element = MatrixElement::float32;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;
  MatrixLayout a{};
  MatrixLayout b{};
  std::vector<MatrixBatch> batch{};  // no axes: one product
};

// The matrix products of a library that knows the device better than our kernels do: see
// Device::matrix_products. Thread-safe.
class MatrixProducts {
 public:
  MatrixProducts() = default;
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;
  virtual ~MatrixProducts() = default;

  // A `native` command that computes a product. It reads a and b, in this order, and writes c and,
  // unless that is empty, a workspace of its own. It may be submitted any number of times, on any
  // queue.
  struct Way {
    NativeCallback callback;
    Bytes workspace{};
  };
  // Nothing where the library cannot compute it, or the device is closed.
  virtual std::optional<Way> find(const MatrixProduct& product) = 0;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
