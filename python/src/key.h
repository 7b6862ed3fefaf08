#pragma once

#include <vector>

#include "python/src/bindings.h"

namespace holdfast::python {

// A key in two parts. First x is seen through slices, one for each of its axes, and given a shape
// in which the axes that integers pick are gone, those of None are there, and the axes of an array
// of bool are one. Then arrays of positions pick along some axes of that.
struct Key {
  std::vector<Slice> slices;     // one for each axis of x
  bool whole = true;             // no slice leaves anything out
  Shape shape;                   // of the first part
  std::vector<size_t> axes;      // of `shape`, that arrays pick along; ascending
  std::vector<Array> positions;  // one for each of them
  bool together = true;          // no slice, None or Ellipsis stands between the arrays
};

// The key that Python gives for x. An array of bool in it is evaluated: an accounted wait.
// IndexError for what does not fit x.
Key parse_key(const Array& x, nb::handle given);

// How many positions a slice has along an axis of this length.
int64_t length_of(const Slice& slice, int64_t length);

}  // namespace holdfast::python
