#pragma once

#include <span>
#include <string>
#include <string_view>

#include "holdfast/base/error.h"

namespace holdfast::kernel {

// A new folder that only this user can enter, in TMPDIR or /tmp; it goes with the object, with all
// that is in it.
class PrivateFolder {
 public:
  // `purpose` completes "to ...", for the message: ErrorCode::environment.
  static Result<PrivateFolder> make(std::string_view purpose);
  ~PrivateFolder();
  PrivateFolder(PrivateFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  PrivateFolder& operator=(PrivateFolder&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }

  const std::string& path() const noexcept { return path_; }
  std::string file(std::string_view name) const;
  Failure write(std::string_view name, std::span<const std::byte> content) const;
  Failure write(std::string_view name, std::string_view content) const {
    return write(name, std::as_bytes(std::span(content)));
  }
  Result<std::string> read(std::string_view name) const;

 private:
  explicit PrivateFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace holdfast::kernel
