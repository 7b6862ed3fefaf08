#include "holdfast/base/checked_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "holdfast/base/env.h"
#include "holdfast/base/hash.h"

namespace holdfast {
namespace {

// The file: these words, little-endian, then the key, then the payload.
struct Header {
  static constexpr uint64_t kMagicAndVersion = 0x31'00'65'6c'69'46'66'48;  // "HfFile", 0, '1'
  uint64_t magic = kMagicAndVersion;
  uint64_t key_bytes = 0;
  uint64_t payload_bytes = 0;
  uint64_t checksum = 0;  // of key and payload
};
constexpr size_t kHeaderBytes = 32;
using HeaderBytes = std::array<std::byte, kHeaderBytes>;

HeaderBytes encoded(const Header& header) {
  HeaderBytes bytes{};
  size_t at = 0;
  for (const uint64_t word :
       {header.magic, header.key_bytes, header.payload_bytes, header.checksum}) {
    for (unsigned i = 0; i < 8; ++i) bytes.at(at++) = static_cast<std::byte>(word >> (8 * i));
  }
  return bytes;
}

Header decoded(const HeaderBytes& bytes) {
  Header header;
  size_t at = 0;
  for (uint64_t* word :
       {&header.magic, &header.key_bytes, &header.payload_bytes, &header.checksum}) {
    *word = 0;
    for (unsigned i = 0; i < 8; ++i) *word |= std::to_integer<uint64_t>(bytes.at(at++)) << (8 * i);
  }
  return header;
}

uint64_t checksum_of(std::string_view key, std::span<const std::byte> payload) {
  return Hasher().add(key).add(payload).digest().words[0];
}

class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  explicit operator bool() const noexcept { return fd_ >= 0; }
  int get() const noexcept { return fd_; }
  // False, with errno, where the system tells only now that a write failed.
  bool close() noexcept { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

enum class ReadEnd { full, short_file, error };

ReadEnd read_all(int fd, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::read(fd, into.data(), into.size());
    if (got == 0) return ReadEnd::short_file;
    if (got < 0 && errno != EINTR) return ReadEnd::error;
    if (got > 0) into = into.subspan(static_cast<size_t>(got));
  }
  return ReadEnd::full;
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno != EINTR) return false;
    if (put > 0) bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return true;
}

FileState state_after(ReadEnd end) {
  return end == ReadEnd::error ? FileState::missing : FileState::damaged;
}

CheckedBytes read_open_file(int fd, std::string_view key) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return {};
  HeaderBytes start{};
  if (const ReadEnd end = read_all(fd, start); end != ReadEnd::full) return {state_after(end), {}};

  // Lengths are believed, and memory is taken, only where they add up to the file.
  const Header header = decoded(start);
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  if (header.magic != Header::kMagicAndVersion || header.key_bytes != key.size() ||
      file_bytes < kHeaderBytes || file_bytes - kHeaderBytes < key.size() ||
      file_bytes - kHeaderBytes - key.size() != header.payload_bytes) {
    return {FileState::damaged, {}};
  }
  std::string held_key(key.size(), '\0');
  const auto key_room = std::as_writable_bytes(std::span(held_key));
  if (const ReadEnd end = read_all(fd, key_room); end != ReadEnd::full) {
    return {state_after(end), {}};
  }
  if (held_key != key) return {FileState::damaged, {}};
  std::vector<std::byte> payload(header.payload_bytes);
  if (const ReadEnd end = read_all(fd, payload); end != ReadEnd::full) {
    return {state_after(end), {}};
  }
  if (checksum_of(key, payload) != header.checksum) return {FileState::damaged, {}};
  return {FileState::good, std::move(payload)};
}

std::string reason(int error) { return std::generic_category().message(error); }

Failure cannot_write(const std::filesystem::path& path, const char* step, int error) {
  return {ErrorCode::environment,
          fmt::format("the file '{}' was not written, {} failed: {}; make its folder writable, "
                      "or choose another with HOLDFAST_CACHE_DIR",
                      path.native(), step, reason(error))};
}

// As mkdir -p, with folders that only the user can enter. Returns errno, 0 where all are there.
int make_private_folders(const std::filesystem::path& folder) {
  std::filesystem::path sofar;
  for (const auto& part : folder) {
    sofar /= part;
    if (::mkdir(sofar.c_str(), 0700) == 0) continue;
    const int error = errno;
    // Not only EEXIST: a folder that is there may lie where nothing can be made.
    std::error_code ignored;
    if (!std::filesystem::is_directory(sofar, ignored)) return error;
  }
  return 0;
}

constexpr std::string_view kTemporaryPrefix = ".holdfast-";

// A file in an open folder under a name of its own, gone with this object unless it was moved to
// another name.
class TemporaryFile {
 public:
  // Where it cannot be made, ok() is false and errno says why. Mode 0600.
  explicit TemporaryFile(int folder) : folder_(folder) {
    // Others may use the folder at the same time, and killed ones may have left names behind.
    constexpr int kAttempts = 100;
    for (int i = 0; i < kAttempts && !exists_; ++i) {
      uint64_t random = 0;
      if (::getentropy(&random, sizeof random) != 0) return;
      name_ = fmt::format("{}{:016x}", kTemporaryPrefix, random);
      file_ = Descriptor(
          ::openat(folder, name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      exists_ = static_cast<bool>(file_);
      if (!exists_ && errno != EEXIST) return;
    }
  }
  ~TemporaryFile() {
    if (exists_) ::unlinkat(folder_, name_.c_str(), 0);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool ok() const noexcept { return exists_; }
  bool write(std::span<const std::byte> bytes) const { return write_all(file_.get(), bytes); }
  bool close() noexcept { return file_.close(); }
  bool move_to(const std::string& name) noexcept {
    if (::renameat(folder_, name_.c_str(), folder_, name.c_str()) != 0) return false;
    exists_ = false;
    return true;
  }

 private:
  int folder_;
  std::string name_;
  Descriptor file_{-1};
  bool exists_ = false;
};

}  // namespace

CheckedBytes read_checked_file(const std::filesystem::path& path, std::string_view key) {
  // O_NONBLOCK: opening a pipe that somebody put there must not wait for its writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return {};
  return read_checked_file(file.get(), key);
}

CheckedBytes read_checked_file(int descriptor, std::string_view key) {
  try {
    return read_open_file(descriptor, key);
  } catch (const std::bad_alloc&) {
    return {};
  } catch (const std::length_error&) {
    return {};
  }
}

Failure write_checked_file(const std::filesystem::path& path, std::string_view key,
                           std::span<const std::byte> bytes) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (const int error = make_private_folders(folder)) {
    return cannot_write(path, "making its folder", error);
  }
  const Descriptor opened(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return cannot_write(path, "opening its folder", errno);
  return write_checked_file(opened.get(), path.filename().native(), path, key, bytes);
}

Failure write_checked_file(int folder, const std::string& name, const std::filesystem::path& path,
                           std::string_view key, std::span<const std::byte> bytes) {
  TemporaryFile file(folder);
  if (!file.ok()) return cannot_write(path, "making a temporary file beside it", errno);
  const Header header{
      .key_bytes = key.size(), .payload_bytes = bytes.size(), .checksum = checksum_of(key, bytes)};
  if (!file.write(encoded(header)) || !file.write(std::as_bytes(std::span(key))) ||
      !file.write(bytes) || !file.close()) {
    return cannot_write(path, "writing a temporary file beside it", errno);
  }
  if (!file.move_to(name)) return cannot_write(path, "renaming a temporary file to it", errno);
  return {};
}

Failure make_private_folder(const std::filesystem::path& path) {
  const int error = make_private_folders(path);
  if (error == 0) return {};
  return {ErrorCode::environment,
          fmt::format("the folder '{}' cannot be made: {}; choose another with HOLDFAST_CACHE_DIR",
                      path.native(), reason(error))};
}

bool is_temporary_name(std::string_view name) { return name.starts_with(kTemporaryPrefix); }

std::filesystem::path cache_folder() {
  if (!env::flag("HOLDFAST_DISK_CACHE").value_or(true)) return {};
  if (const auto own = env::text("HOLDFAST_CACHE_DIR")) return *own;
  // Its specification tells to ignore a relative path.
  if (const auto xdg = env::text("XDG_CACHE_HOME"); xdg && xdg->front() == '/') {
    return std::filesystem::path(*xdg) / "holdfast";
  }
  if (const auto home = env::text("HOME")) {
    return std::filesystem::path(*home) / ".cache" / "holdfast";
  }
  return {};
}

}  // namespace holdfast
