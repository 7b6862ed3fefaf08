#pragma once

#include "holdfast/dtypes.h"
#include "holdfast/kernel/signature.h"

namespace holdfast::array {

// A number as an element of the dtype. UsageError where it does not exist there: a fraction or a
// number out of range for integers. Floats are rounded.
kernel::Scalar scalar_of(double value, Dtype dtype);
kernel::Scalar scalar_of(int64_t value, Dtype dtype);
// The same for a Scalar of another dtype.
kernel::Scalar converted(const kernel::Scalar& value, Dtype dtype);

}  // namespace holdfast::array
