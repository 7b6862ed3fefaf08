#include "holdfast/kernel/cache/cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "holdfast/base/checked_file.h"

namespace holdfast::kernel {
namespace {

constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;

// `kind` is S_IFDIR or S_IFREG. With access lists the group's bits say what others may do at most.
Opened judged(int fd, mode_t kind) {
  if (fd < 0) return {};
  Opened opened{Trust::foreign, hal::UniqueFd(fd)};
  struct stat info {};
  if (::fstat(fd, &info) == 0 && (info.st_mode & S_IFMT) == kind && info.st_uid == ::geteuid() &&
      (info.st_mode & kWritableByOthers) == 0) {
    opened.trust = Trust::good;
  }
  return opened;
}

bool is_hexadecimal(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Calls visit(name) for everything in the folder.
template <typename Visit>
void for_each_name(int folder, const Visit& visit) {
  // A descriptor of its own: reading a folder moves its position.
  const int fd = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd), ::closedir);
  if (!stream) {
    ::close(fd);
    return;
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this call's own
  while (const dirent* entry = ::readdir(stream.get())) visit(std::string(entry->d_name));
}

}  // namespace

Opened open_folder(const std::filesystem::path& path, bool make) {
  if (make && make_private_folder(path)) return {};
  return judged(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), S_IFDIR);
}

Opened open_folder_in(int folder, const std::string& name, bool make) {
  if (make) ::mkdirat(folder, name.c_str(), 0700);
  const int fd = ::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return judged(fd, S_IFDIR);
}

Opened open_file_in(int folder, const std::string& name) {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  const int fd = ::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 && errno == ELOOP) return {Trust::foreign, {}};
  return judged(fd, S_IFREG);
}

std::string describe_foreign(int descriptor) {
  struct stat info {};
  if (descriptor < 0) return "it is a link";
  if (::fstat(descriptor, &info) != 0) return "it cannot be looked at";
  if (info.st_uid != ::geteuid()) {
    return fmt::format("it belongs to user {}, not to {}", info.st_uid, ::geteuid());
  }
  if ((info.st_mode & kWritableByOthers) != 0) {
    return fmt::format("others can write to it (mode {:04o})", info.st_mode & 07777U);
  }
  return "it is of another kind";
}

FolderContent list_content(int folder) {
  FolderContent content;
  for_each_name(folder, [&](const std::string& sub) {
    if (sub.size() != 2 || !is_hexadecimal(sub)) return;
    const Opened opened = open_folder_in(folder, sub, false);
    if (opened.trust != Trust::good) return;
    const int fd = opened.descriptor.get();
    for_each_name(fd, [&](const std::string& name) {
      const bool temporary = is_temporary_name(name);
      struct stat info {};
      if ((!temporary && !is_hexadecimal(name)) ||
          ::fstatat(fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) {
        return;
      }
      FolderEntry entry{
          sub,
          name,
          {static_cast<uint64_t>(info.st_size)},
          int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + int64_t{info.st_mtim.tv_nsec}};
      if (temporary) {
        content.temporary.push_back(std::move(entry));
      } else {
        content.size += entry.size;
        content.entries.push_back(std::move(entry));
      }
    });
  });
  return content;
}

bool remove_in(int folder, const FolderEntry& entry) {
  const Opened opened = open_folder_in(folder, entry.folder, false);
  return opened.trust == Trust::good &&
         ::unlinkat(opened.descriptor.get(), entry.name.c_str(), 0) == 0;
}

}  // namespace holdfast::kernel
