#pragma once

#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/array/ops/fusible.h"

namespace holdfast::array {

// Work of several operations as one kernel does it: step by step, for each element of `shape`. Each
// result is rounded to its dtype, as if it were an array's element.
//
// Steps may also be about rows of the last axis: a reduction makes one value of each row. What is
// computed of such values alone is of the row, too; elements use either.
struct FusedProgram {
  enum class Role : uint8_t { element, reduction, of_row };
  struct Source {
    enum class Kind : uint8_t { input, step, number } kind = Kind::input;
    size_t index = 0;
  };
  struct Step {
    Role role = Role::element;
    Expression expression;  // of a reduction its name alone
    Dtype computed = Dtype::float32;
    Dtype result = Dtype::float32;
    bool chooses = false;              // see ElementStep
    RowKind reduction = RowKind::sum;  // never softmax, which is several steps
    int64_t divisor = 1;               // of a sum
    boost::container::static_vector<Source, kMaxOperands> operands{};
  };
  struct Input {
    Dtype dtype = Dtype::float32;
    // One value for each row, side by side, or one for all; else an element, from an array that is
    // broadcast to `shape`.
    bool of_row = false;
  };

  Shape shape;
  std::vector<Input> inputs;
  std::vector<kernel::Scalar> numbers;
  std::vector<Step> steps;      // each after those that it uses
  std::vector<size_t> outputs;  // which steps' results are kept

  bool in_rows() const noexcept;
  // For a kernel: says what it does, and is no longer than names may be.
  std::string name() const;
};

// A program with reductions goes through each row several times: what comes of a row is known once
// a pass through it is over. A later pass computes elements again, unless they are in memory.
struct RowPasses {
  struct Pass {
    std::vector<size_t> of_row;      // computed before it begins
    std::vector<bool> reads;         // which inputs it reads elements of
    std::vector<size_t> loads;       // elements that earlier passes left in memory
    std::vector<size_t> elements;    // computed for each element, in order
    std::vector<size_t> reductions;  // of elements; of inputs, too
    std::vector<size_t> stores;      // of `elements`: outputs, and what is kept
  };

  // `room`: how many results may be kept in memory though they are no outputs, which pays where
  // their functions are dear.
  RowPasses(const FusedProgram& program, size_t room);

  std::vector<Pass> passes;       // at least one
  std::vector<size_t> at_last;    // of the row, computed after the last pass
  std::vector<size_t> kept;       // steps kept in memory that are no outputs
  std::vector<size_t> last_read;  // for each input, the last pass that reads elements of it
  std::vector<size_t> ready;      // for each step, the first pass in which its value is known
};

}  // namespace holdfast::array
