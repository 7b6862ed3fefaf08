#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace holdfast::kernel {

// Stacks of one size with a guard page below each, from as few mappings as the guards allow.
class FiberStacks {
 public:
  // A size that is a multiple of the page's.
  explicit FiberStacks(size_t bytes);
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

  // The lowest byte of the next one, for the life of this object. EnvironmentError where the system
  // has no more.
  std::byte* next();

 private:
  class Slab;
  size_t bytes_;
  size_t page_;
  size_t used_ = 0;  // of the last slab
  std::vector<std::unique_ptr<Slab>> slabs_;
};

}  // namespace holdfast::kernel
