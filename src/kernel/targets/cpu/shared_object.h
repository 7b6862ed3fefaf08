#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/base/error.h"
#include "holdfast/kernel/compilers/private_folder.h"

namespace holdfast::kernel {

// A shared object in the process, from bytes; unloaded when the last holder lets go. Objects see
// nothing of each other, whatever their symbols are called. Failures name the kernel and no file.
class SharedObject {
 public:
  // From memory that no other process can reach; where the system does not allow that, from a
  // private folder that is gone when this returns.
  static Result<std::shared_ptr<const SharedObject>> load(std::string_view kernel,
                                                          std::span<const std::byte> bytes);
  // From a file `kernel.so` in the folder, which stays until the object is unloaded: for debuggers
  // and reports, which read symbols from there.
  static Result<std::shared_ptr<const SharedObject>> load_in(PrivateFolder folder,
                                                             std::string_view kernel,
                                                             std::span<const std::byte> bytes);
  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  // Null where it does not have the symbol.
  void* find(const std::string& symbol) const;

 private:
  explicit SharedObject(void* handle) noexcept : handle_(handle) {}
  std::optional<PrivateFolder> folder_;
  void* handle_;
};

}  // namespace holdfast::kernel
