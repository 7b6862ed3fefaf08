#pragma once

#include <cstdint>
#include <vector>

#include "holdfast/array.h"

namespace holdfast::array {

// What of an argument decides a program. A view is described from the last multiple of kAlignment
// bytes before its first element on, so that slices of one array share a program.
struct ArgumentType {
  static constexpr uint64_t kAlignment = 256;  // of every allocation

  Dtype dtype = Dtype::float32;
  Layout layout;         // in the memory from there on
  int64_t elements = 0;  // of that memory that it may reach
  bool whole = true;     // that is all of the result's memory

  // UsageError for an empty Array.
  explicit ArgumentType(const Array& array);
  friend bool operator==(const ArgumentType&, const ArgumentType&) = default;
};

// How many elements of the result's memory lie before those that the type describes.
int64_t elements_before(const Layout& layout, Dtype dtype);

// An array of that type without elements; `place` says which argument it stands for. Evaluating it
// fails with UsageError.
Array make_placeholder(const ArgumentType& type, const std::string& place, const On& on);

}  // namespace holdfast::array
