#include "holdfast/shape.h"

#include <fmt/format.h>

#include <limits>

#include "holdfast/base/error.h"

namespace holdfast {
namespace {

// No memory has as many elements, and no byte offset of fewer overflows.
constexpr int64_t kMaxElements = int64_t{1} << 48;
}  // namespace

void Dims::raise_too_many(size_t size) {
  throw UsageError(
      fmt::format("an array of {} dimensions was asked for, and {} are the most there "
                  "can be; join some of them with reshape",
                  size, kMaxDims));
}

std::string to_string(const Dims& dims) {
  return fmt::format("({}{})", fmt::join(dims.span(), ", "), dims.size() == 1 ? "," : "");
}

int64_t elements(const Shape& shape) {
  bool none = false;
  for (const int64_t length : shape) {
    if (length < 0 || length > kMaxLength) {
      throw UsageError(fmt::format("shape {} has the length {}; lengths go from 0 to {}",
                                   to_string(shape), length, kMaxLength));
    }
    none |= length == 0;
  }
  if (none) return 0;
  int64_t count = 1;
  for (const int64_t length : shape) {
    if (__builtin_mul_overflow(count, length, &count) || count > kMaxElements) {
      throw UsageError(fmt::format("shape {} has more elements than any memory, which is above {}",
                                   to_string(shape), kMaxElements));
    }
  }
  return count;
}

}  // namespace holdfast
