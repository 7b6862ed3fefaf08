#include "holdfast/npy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>

#include "holdfast/array/host_bytes.h"
#include "holdfast/array/npy_header.h"
#include "holdfast/base/error.h"
#include "holdfast/hal/unique_fd.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using array::NpyHeader;
using hal::UniqueFd;

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw UsageError(fmt::format("load_npy: the file '{}' {}", path, why));
}

[[noreturn]] void cannot_read(const std::string& path, const std::string& why) {
  throw EnvironmentError(fmt::format("load_npy: the file '{}' cannot be read: {}", path, why));
}

[[noreturn]] void cannot_write(const std::string& path, const char* step, const std::string& why) {
  throw EnvironmentError(
      fmt::format("save_npy: the file '{}' was not written, {} failed: {}; make "
                  "room, or choose a folder that you may write to",
                  path, step, why));
}

// A file being read, from its beginning.
class Reader {
 public:
  explicit Reader(const std::string& path)
      // O_NONBLOCK: opening a pipe must not wait for its writer.
      : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat info {};
    if (!file_ || ::fstat(file_.get(), &info) != 0) cannot_read(path, reason(errno));
    if (!S_ISREG(info.st_mode)) cannot_read(path, "it is no regular file");
    left_ = static_cast<uint64_t>(info.st_size);
  }

  uint64_t left() const noexcept { return left_; }
  // Raises where there are not as many.
  void read(std::span<std::byte> into, const char* what) {
    while (!into.empty()) {
      const ssize_t got = ::read(file_.get(), into.data(), into.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) cannot_read(path_, reason(errno));
      if (got == 0) refuse(path_, fmt::format("ends within {}: it is truncated", what));
      left_ -= std::min(left_, static_cast<uint64_t>(got));
      into = into.subspan(static_cast<size_t>(got));
    }
  }

 private:
  const std::string& path_;
  UniqueFd file_;
  uint64_t left_ = 0;
};

NpyHeader read_header(Reader& reader, const std::string& path) {
  std::array<std::byte, 8> start{};
  reader.read(start, "its first bytes");
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (std::string_view(reinterpret_cast<const char*>(start.data()), kMagic.size()) != kMagic) {
    refuse(path, "is no .npy file: it does not begin as one");
  }
  const auto version = std::to_integer<unsigned>(start[6]);
  if (version < 1 || version > 3) {
    refuse(path, fmt::format("is of version {} of the format; 1 to 3 are known", version));
  }
  std::array<std::byte, 4> length_bytes{};
  reader.read(std::span(length_bytes).first(version == 1 ? 2 : 4), "the length of its header");
  uint64_t length = 0;
  for (size_t i = 4; i-- > 0;) length = length << 8 | std::to_integer<uint64_t>(length_bytes.at(i));
  // The header of an array that can be loaded has about a hundred.
  constexpr uint64_t kMostHeaderBytes = uint64_t{1} << 16;
  if (length > kMostHeaderBytes || length > reader.left()) {
    refuse(path, fmt::format("announces a header of {} bytes, more than there are or ever should "
                             "be: it is damaged",
                             length));
  }
  std::string text(length, '\0');
  reader.read(std::as_writable_bytes(std::span(text)), "its header");
  try {
    return array::parse_npy_header(text);
  } catch (const UsageError& error) {
    refuse(path, error.what());
  }
}

// A file beside the one to be written, gone with this object unless it took its place.
class Replacement {
 public:
  // Where it cannot be made, ok() is false and errno says why.
  explicit Replacement(const std::filesystem::path& target) : target_(target) {
    // Others may write beside it at the same time, and killed ones may have left names behind.
    constexpr int kAttempts = 100;
    for (int i = 0; i < kAttempts && !exists_; ++i) {
      uint64_t random = 0;
      if (::getentropy(&random, sizeof random) != 0) return;
      name_ = target.parent_path() / fmt::format(".holdfast-{:016x}", random);
      file_ = UniqueFd(::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      exists_ = static_cast<bool>(file_);
      if (!exists_ && errno != EEXIST) return;
    }
  }
  ~Replacement() {
    if (exists_) ::unlink(name_.c_str());
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  bool ok() const noexcept { return exists_; }
  // False, with errno, where it failed; as the two below.
  bool write(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t put = ::write(file_.get(), bytes.data(), bytes.size());
      if (put < 0 && errno != EINTR) return false;
      if (put > 0) bytes = bytes.subspan(static_cast<size_t>(put));
    }
    return true;
  }
  bool sync() const { return ::fsync(file_.get()) == 0; }
  bool take_place() {
    if (::rename(name_.c_str(), target_.c_str()) != 0) return false;
    exists_ = false;
    return true;
  }

 private:
  const std::filesystem::path& target_;
  std::filesystem::path name_;
  UniqueFd file_;
  bool exists_ = false;
};

// The file that is to be replaced: a link stays one. Devices and folders are not replaced.
std::filesystem::path target_of(const std::string& path) {
  std::error_code error;
  std::filesystem::path real = std::filesystem::canonical(path, error);
  if (error) return path;
  if (!std::filesystem::is_regular_file(real, error)) {
    cannot_write(path, "replacing it", "it is no regular file");
  }
  return real;
}

}  // namespace

Array load_npy(const std::string& path, const On& on) {
  Reader reader(path);
  const NpyHeader header = read_header(reader, path);
  int64_t count = 0;
  try {
    count = elements(header.shape);
  } catch (const UsageError& error) {
    refuse(path, fmt::format("cannot be loaded: {}", error.what()));
  }
  const Bytes size = size_of(header.dtype) * static_cast<uint64_t>(count);
  // Before memory is taken for what the header says.
  if (size.value > reader.left()) {
    refuse(path, fmt::format("has {} of data where an array of shape {} and dtype {} has {}: it is "
                             "truncated",
                             to_string(Bytes{reader.left()}), to_string(header.shape),
                             kernel::to_string(header.dtype), to_string(size)));
  }
  std::unique_ptr<std::byte[]> memory;
  try {
    memory = std::make_unique_for_overwrite<std::byte[]>(size.value);
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError(fmt::format("load_npy: there is no memory for the {} of the file '{}'",
                                       to_string(size), path));
  }
  const std::span<std::byte> bytes(memory.get(), size.value);
  reader.read(bytes, "its data");
  if (header.dtype == Dtype::bool_) {
    // Other values are bools in Python, and none in C++.
    for (std::byte& b : bytes) b = std::byte{b != std::byte{0}};
  }
  std::string name = std::filesystem::path(path).filename().native();
  if (!header.column_major) return {header.dtype, header.shape, bytes, std::move(name), on};
  Shape reversed;
  for (size_t i = header.shape.size(); i-- > 0;) reversed.push_back(header.shape[i]);
  return transpose(Array(header.dtype, reversed, bytes, std::move(name), on));
}

void save_npy(const std::string& path, const Array& array) {
  if (array.dtype() == Dtype::bfloat16) {
    throw UsageError(
        fmt::format("save_npy: the array for '{}' is of bfloat16, which .npy files do "
                    "not have; use astype(float32) first",
                    path));
  }
  const std::vector<std::byte> bytes = array::host_bytes(array);
  const std::string header =
      array::npy_beginning({.dtype = array.dtype(), .column_major = false, .shape = array.shape()});
  const std::filesystem::path target = target_of(path);
  Replacement file(target);
  if (!file.ok()) cannot_write(path, "making a temporary file beside it", reason(errno));
  if (!file.write(std::as_bytes(std::span(header))) || !file.write(bytes) || !file.sync()) {
    cannot_write(path, "writing a temporary file beside it", reason(errno));
  }
  if (!file.take_place()) {
    cannot_write(path, "renaming a temporary file to it", reason(errno));
  }
}

}  // namespace holdfast
