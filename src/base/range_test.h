#pragma once

#include "holdfast/base/bytes.h"

namespace holdfast {

constexpr ByteRange range(uint64_t offset, uint64_t length) { return {{offset}, {length}}; }

}  // namespace holdfast
