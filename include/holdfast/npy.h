#pragma once

#include <string>

#include "holdfast/array.h"

#pragma GCC visibility push(default)

namespace holdfast {

// NumPy's .npy files, versions 1 to 3, little-endian, row-major or column-major. The format lacks
// bfloat16, so it is refused: use astype(float32) first. EnvironmentError if the file cannot be
// read or written, UsageError if it does not hold an array of a supported dtype; the message names
// the file.
Array load_npy(const std::string& path, const On& on = {});
// Evaluates the array. The file appears whole or not at all.
void save_npy(const std::string& path, const Array& array);

}  // namespace holdfast

#pragma GCC visibility pop
