#pragma once

#include <boost/container/static_vector.hpp>
#include <optional>
#include <string>

#include "holdfast/array/ops/elementwise_kernels.h"
#include "holdfast/operation.h"

// What operations tell of themselves to those who make one kernel of several; see
// array/compile/fusion.h.
namespace holdfast::array {

// What an elementwise operation makes of its operands' elements.
struct ElementStep {
  struct Operand {
    std::optional<size_t> input{};  // of the node; none: a number
    kernel::Scalar number{};
  };
  Expression expression;
  Dtype computed;  // C in the expression
  Dtype result;    // R
  bool chooses;    // the first operand is a bool in the expression
  boost::container::static_vector<Operand, kMaxOperands> operands;
};

// One result, of the shape to which its inputs are broadcast.
class ElementOperation : public Operation {
 public:
  virtual ElementStep element_step() const = 0;
};

// What an operation of one input does with each row of its last axis: it makes one value of a row,
// or, as softmax, a row of it.
enum class RowKind : uint8_t { sum, prod, max, min, softmax };
struct RowStep {
  RowKind kind;
  Dtype computed;       // what elements are converted to first
  int64_t divisor = 1;  // of the sum
};
class RowOperation : public Operation {
 public:
  // None where the operation, on an input of that shape and dtype, is about something else than
  // rows; then `why` is set to a phrase that says so.
  virtual std::optional<RowStep> row_step(const Shape& input, Dtype dtype,
                                          std::string& why) const = 0;
};

}  // namespace holdfast::array
