#include "holdfast/kernel/compilers/descriptors.h"

#include <fcntl.h>
#include <unistd.h>

namespace holdfast::kernel {

hal::UniqueFd off_standard(hal::UniqueFd fd) {
  if (!fd || fd.get() > STDERR_FILENO) return fd;
  return hal::UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

}  // namespace holdfast::kernel
