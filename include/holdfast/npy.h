#pragma once

#include <string>

#include "holdfast/array.h"

#pragma GCC visibility push(default)

namespace holdfast {

// NumPy's .npy files, versions 1 to 3, little-endian, row-major or column-major. bfloat16, which
// the format does not have, is refused: astype(float32) first. EnvironmentError where the file
// cannot be read or written, UsageError where it is no array of a dtype we have; the message names
// the file.
Array load_npy(const std::string& path, const On& on = {});
// Evaluates. The file appears whole or not at all.
void save_npy(const std::string& path, const Array& array);

}  // namespace holdfast

#pragma GCC visibility pop
