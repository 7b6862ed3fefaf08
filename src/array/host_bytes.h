#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "holdfast/array.h"

namespace holdfast::array {

// The elements in row-major order, whatever their dtype. Evaluates, and waits for this array alone.
// `to` has room for all of them.
void read_bytes(const Array& array, std::span<std::byte> to, const WaitLimit& limit = {});
std::vector<std::byte> host_bytes(const Array& array);

}  // namespace holdfast::array
