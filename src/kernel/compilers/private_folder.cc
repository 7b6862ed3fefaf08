#include "holdfast/kernel/compilers/private_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>

#include "holdfast/base/env.h"
#include "holdfast/base/sync/annotations.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/kernel/compilers/descriptors.h"
#include "holdfast/kernel/compilers/per_process.h"
#include "holdfast/kernel/compilers/subprocess.h"

namespace holdfast::kernel {

namespace {

Failure failure(std::string_view what, std::string_view path, int error) {
  return Failure(ErrorCode::environment,
                 fmt::format("{} '{}': {}; make room there, or set TMPDIR to a folder that can be "
                             "written",
                             what, path, std::generic_category().message(error)));
}

// Before six letters that make the name new.
constexpr std::string_view kPrefix = "holdfast-kernel-";
constexpr size_t kLetters = 6;

// Whoever has it locked uses the folder, or is about to remove it.
struct FolderLock {
  hal::UniqueFd fd{};
  bool taken = false;
  bool by_another = false;
};
FolderLock try_to_lock(const std::string& path) {
  FolderLock lock;
  lock.fd = off_standard(
      hal::UniqueFd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)));
  if (!lock.fd) return lock;
  lock.taken = flock(lock.fd.get(), LOCK_EX | LOCK_NB) == 0;
  lock.by_another = !lock.taken && errno == EWOULDBLOCK;
  return lock;
}

void remove_folder(const std::string& path) {
  // A program that was killed a moment ago may finish a last call.
  constexpr int kAttempts = 10;
  std::error_code error;
  for (int i = 0; i < kAttempts; ++i) {
    std::filesystem::remove_all(path, error);
    if (!error) return;  // else what cannot be removed is the next one's
  }
}

// Removes what processes left there that are no more. Best effort: what cannot be locked (some file
// systems have no locks) or belongs to others stays.
void sweep(const std::string& parent) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(parent, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().native();
    if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kLetters) continue;
    const std::string path = at->path().native();
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
        status.st_uid != geteuid()) {
      continue;
    }
    if (const FolderLock lock = try_to_lock(path); lock.taken) remove_folder(path);
  }
}

// The folders of this process.
struct Folders {
  sync::LeafMutex mutex;  // guards all
  std::set<std::string> live HOLDFAST_GUARDED_BY(mutex);
  std::set<std::string> swept HOLDFAST_GUARDED_BY(mutex);  // where they lie
  bool removed_at_exit HOLDFAST_GUARDED_BY(mutex) = false;
  bool no_more HOLDFAST_GUARDED_BY(mutex) = false;
};
Folders& folders() {
  static PerProcess<Folders> of_process;
  return of_process.get();
}

void remove_at_exit() {
  end_subprocesses();
  std::set<std::string> left;
  {
    Folders& all = folders();
    const sync::LeafLock lock(all.mutex);
    left.swap(all.live);
    all.no_more = true;
  }
  for (const std::string& path : left) remove_folder(path);
}

}  // namespace

Result<PrivateFolder> PrivateFolder::make(std::string_view purpose) {
  Folders& all = folders();
  const std::string parent = env::text("TMPDIR").value_or("/tmp");
  std::error_code error;
  // Relative names in it would mean something else in a program that runs elsewhere.
  std::string place = std::filesystem::absolute(parent, error).string();
  while (place.size() > 1 && place.ends_with('/')) place.pop_back();
  const auto is_ending = [&] {
    const sync::LeafLock lock(all.mutex);
    return all.no_more;
  };
  const auto refusal = [&] {
    return Failure(ErrorCode::closed,
                   fmt::format("no folder was made to {}: the process is ending", purpose));
  };
  if (is_ending()) return refusal();
  bool first = false;
  {
    const sync::LeafLock lock(all.mutex);
    first = all.swept.insert(place).second;
  }
  if (first) sweep(place);
  for (;;) {
    std::string path = fmt::format("{}/{}{}", place, kPrefix, std::string(kLetters, 'X'));
    if (mkdtemp(path.data()) == nullptr) {
      return failure(fmt::format("cannot make a folder, to {}, in", purpose), parent, errno);
    }
    FolderLock lock = try_to_lock(path);
    // Another process may have taken it for one that was left, in the moment before it was locked.
    struct stat status {};
    const bool gone = lstat(path.c_str(), &status) != 0 && errno == ENOENT;
    if (lock.by_another || gone) continue;
    PrivateFolder made(std::move(path), std::move(lock.fd));
    // Asked again once the exit would find the folder.
    if (is_ending()) return refusal();
    return made;
  }
}

PrivateFolder::PrivateFolder(std::string path, hal::UniqueFd lock)
    : path_(std::move(path)), lock_(std::move(lock)) {
  bool first = false;
  {
    Folders& all = folders();
    const sync::LeafLock held(all.mutex);
    all.live.insert(path_);
    first = !std::exchange(all.removed_at_exit, true);
  }
  // A child that was forked in between has its own folders, and none of these.
  if (first) sync::at_exit(remove_at_exit);
}

PrivateFolder::~PrivateFolder() {
  if (path_.empty() || fork_generation_ != sync::fork_generation()) return;
  {
    Folders& all = folders();
    const sync::LeafLock held(all.mutex);
    all.live.erase(path_);
  }
  remove_folder(path_);
}

std::string PrivateFolder::file(std::string_view name) const {
  return fmt::format("{}/{}", path_, name);
}

Failure PrivateFolder::write(std::string_view name, std::span<const std::byte> content) const {
  const std::string path = file(name);
  const hal::UniqueFd fd = off_standard(
      hal::UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)));
  if (!fd) return failure("cannot write", path_, errno);
  while (!content.empty()) {
    const ssize_t written = ::write(fd.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure("cannot write into", path_, errno);
    content = content.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<std::string> PrivateFolder::read(std::string_view name) const {
  const std::string path = file(name);
  const hal::UniqueFd fd = off_standard(hal::UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC)));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0) return failure("cannot read from", path_, errno);
  std::string content(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = ::read(fd.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure("cannot read from", path_, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  content.resize(done);
  return content;
}

}  // namespace holdfast::kernel
