#pragma once

#include <string>
#include <string_view>

#include "holdfast/dtypes.h"
#include "holdfast/shape.h"

namespace holdfast::array {

// What a .npy file says of its array.
struct NpyHeader {
  Dtype dtype = Dtype::float32;
  bool column_major = false;
  Shape shape{};
  friend bool operator==(const NpyHeader&, const NpyHeader&) = default;
};

// From the Python dictionary after magic, version and length. UsageError where it is no such
// dictionary or none of an array that we have; its message follows upon the name of the file.
// Lengths are as they stand there, zero or more: see elements().
NpyHeader parse_npy_header(std::string_view text);
// All that comes before the elements. Not of bfloat16.
std::string npy_beginning(const NpyHeader& header);

}  // namespace holdfast::array
