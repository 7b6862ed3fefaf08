#include "holdfast/kernel/targets/cpu/fiber_stack.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "holdfast/base/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace holdfast::kernel {

namespace {

constexpr size_t kStacksPerSlab = 32;

[[noreturn]] void refuse(size_t bytes) {
  throw EnvironmentError(
      fmt::format("no memory for the stacks of a kernel's threads ({}, {} bytes wanted); "
                  "raise vm.max_map_count and the memory limits, or use smaller threadgroups",
                  std::generic_category().message(errno), bytes));
}

}  // namespace

class FiberStacks::Slab {
 public:
  Slab(size_t stride, size_t page) : bytes_(stride * kStacksPerSlab) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory_ == MAP_FAILED) refuse(bytes_);
    for (size_t i = 0; i < kStacksPerSlab; ++i) {
      if (mprotect(at(i * stride), page, PROT_NONE) != 0) {
        const int error = errno;
        munmap(memory_, bytes_);
        errno = error;
        refuse(bytes_);
      }
    }
  }
  ~Slab() {
#if defined(__SANITIZE_ADDRESS__)
    // Whatever is mapped here next must not find the marks of our frames.
    __asan_unpoison_memory_region(memory_, bytes_);
#endif
    munmap(memory_, bytes_);
  }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  std::byte* at(size_t offset) const { return static_cast<std::byte*>(memory_) + offset; }

 private:
  size_t bytes_;
  void* memory_ = nullptr;
};

FiberStacks::FiberStacks(size_t bytes)
    : bytes_(bytes), page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {}
FiberStacks::~FiberStacks() = default;

std::byte* FiberStacks::next() {
  const size_t stride = bytes_ + page_;
  if (slabs_.empty() || used_ == kStacksPerSlab) {
    slabs_.push_back(std::make_unique<Slab>(stride, page_));
    used_ = 0;
  }
  return slabs_.back()->at(used_++ * stride + page_);
}

}  // namespace holdfast::kernel
