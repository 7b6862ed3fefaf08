#pragma once

#include <utility>

#pragma GCC visibility push(default)

namespace holdfast::hal {

// Owns a file descriptor.
class UniqueFd {
 public:
  UniqueFd() noexcept = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd();

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// For an eventfd that nobody has written to: every poll of it returns from now on.
void make_readable(const UniqueFd& descriptor) noexcept;

}  // namespace holdfast::hal

#pragma GCC visibility pop
