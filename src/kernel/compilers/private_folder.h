#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/base/error.h"
#include "holdfast/base/sync/process.h"
#include "holdfast/hal/unique_fd.h"

namespace holdfast::kernel {

// A new folder that only this user can enter, in TMPDIR or /tmp; it goes with the object, with all
// that is in it, or when the process exits: what run() still runs is killed before, and nothing is
// started or made any more. In a forked child it is the parent's, and stays. What a process leaves
// that was killed is removed by the next one that makes a folder in the same place: whoever uses a
// folder has it locked (flock).
class PrivateFolder {
 public:
  // `purpose` completes "to ...", for the message: ErrorCode::environment, or closed while the
  // process exits.
  static Result<PrivateFolder> make(std::string_view purpose);
  ~PrivateFolder();
  PrivateFolder(PrivateFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})),
        lock_(std::move(other.lock_)),
        fork_generation_(other.fork_generation_) {}
  PrivateFolder& operator=(PrivateFolder&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(lock_, other.lock_);
    std::swap(fork_generation_, other.fork_generation_);
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
  PrivateFolder(std::string path, hal::UniqueFd lock);
  std::string path_;
  hal::UniqueFd lock_;
  uint32_t fork_generation_ = sync::fork_generation();
};

}  // namespace holdfast::kernel
