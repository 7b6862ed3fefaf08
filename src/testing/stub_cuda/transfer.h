#pragma once

#include "holdfast/testing/stub_cuda/state.h"

namespace holdfast::stub_cuda {

// Rows of bytes, from one place to another.
struct Copy {
  uint64_t to = 0;
  uint64_t from = 0;
  size_t width = 0;
  size_t height = 1;
  size_t depth = 1;
  size_t to_pitch = 0;  // from row to row
  size_t from_pitch = 0;
  size_t to_slice = 0;  // from slice to slice
  size_t from_slice = 0;

  bool is_flat() const { return height == 1 && depth == 1; }
  size_t to_bytes() const;
  size_t from_bytes() const;
};

// An element, again and again.
struct Fill {
  uint64_t to = 0;
  unsigned value = 0;
  unsigned element = 1;  // bytes: 1, 2 or 4
  size_t width = 0;      // elements
  size_t height = 1;
  size_t pitch = 0;

  size_t bytes() const;
};

// What the driver would refuse.
CUresult check(const Copy& copy);
CUresult check(const Fill& fill);

// The memory that it touches is the operation's. `pageable`: see use().
CUresult use_by(State& state, Operation& operation, const Copy& copy, bool* pageable);
CUresult use_by(State& state, Operation& operation, const Fill& fill);

void run(const Copy& copy);
void run(const Fill& fill);

}  // namespace holdfast::stub_cuda
