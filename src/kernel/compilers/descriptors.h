#pragma once

#include "holdfast/hal/unique_fd.h"

namespace holdfast::kernel {

// The same file under a number above those of stdin, stdout and stderr. In a process without these,
// a new descriptor would take the place of one, and what others print would go into our file. None,
// with errno, where there are no more numbers.
hal::UniqueFd off_standard(hal::UniqueFd fd);

}  // namespace holdfast::kernel
