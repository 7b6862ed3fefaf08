#pragma once

#include <cstddef>
#include <new>
#include <utility>

namespace holdfast {

// For a function's static that threads may still use while the process exits: made on first use,
// and never destroyed.
//   static const NeverDestroyed<Kernel> kernel(Definition{...});
template <typename T>
class NeverDestroyed {
 public:
  template <typename... Args>
  explicit NeverDestroyed(Args&&... args) {
    new (storage_) T(std::forward<Args>(args)...);
  }
  NeverDestroyed(const NeverDestroyed&) = delete;
  NeverDestroyed& operator=(const NeverDestroyed&) = delete;

  T& get() noexcept { return *std::launder(reinterpret_cast<T*>(storage_)); }
  const T& get() const noexcept { return *std::launder(reinterpret_cast<const T*>(storage_)); }
  operator const T&() const noexcept { return get(); }

 private:
  alignas(T) std::byte storage_[sizeof(T)];
};

}  // namespace holdfast
