#include "holdfast/kernel/cache/disk_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "holdfast/base/checked_file.h"
#include "holdfast/base/env.h"
#include "holdfast/base/log.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/kernel/cache/cache_folder.h"

namespace holdfast::kernel {
namespace {

// A process that is killed while it writes leaves a file under a temporary name. No write takes
// nearly this long.
constexpr int64_t kStale = int64_t{3600} * 1'000'000'000;

// Why something is not kept or not read; each is told once.
enum Cause : unsigned { foreign_folder = 1, foreign_file = 2, damaged_file = 4, unwritable = 8 };

struct EntryPlace {
  std::string folder;
  std::string name;
};
EntryPlace place_of(const ContentKey& key) {
  const std::string digits = to_string(key.digest());
  return {digits.substr(0, 2), digits.substr(2)};
}

}  // namespace

struct DiskCache::State {
  State(std::filesystem::path where, Bytes most)
      : folder(std::move(where)), cap(most), off(folder.empty()) {}

  const std::filesystem::path folder;
  const Bytes cap;

  mutable sync::Mutex mutex;  // guards all below; never held while files are touched
  DiskCacheStats stats HOLDFAST_GUARDED_BY(mutex);
  bool off HOLDFAST_GUARDED_BY(mutex);
  unsigned told HOLDFAST_GUARDED_BY(mutex) = 0;  // Causes
  bool counted HOLDFAST_GUARDED_BY(mutex) = false;
  bool counting HOLDFAST_GUARDED_BY(mutex) = false;  // by somebody, now
  Bytes size HOLDFAST_GUARDED_BY(mutex){};           // of all entries, as far as known
  Bytes uncounted HOLDFAST_GUARDED_BY(mutex){};      // written since it was counted

  bool is_off() const {
    const sync::Lock lock(mutex);
    return off;
  }
  void count(uint64_t DiskCacheStats::*what, uint64_t by = 1) {
    const sync::Lock lock(mutex);
    stats.*what += by;
  }
  void tell(Cause cause, const std::string& text) {
    {
      const sync::Lock lock(mutex);
      if ((std::exchange(told, told | cause) & cause) != 0) return;
    }
    logging::warn_text(logging::Topic::kernels, text);
  }
  void distrust(const std::filesystem::path& path, int descriptor) {
    {
      const sync::Lock lock(mutex);
      off = true;
    }
    tell(foreign_folder,
         fmt::format("the kernel cache does not use '{}': {}. Code from it would be executed, so "
                     "it must be yours alone; chmod or remove it, or choose another folder with "
                     "HOLDFAST_CACHE_DIR. Until then kernels are kept in memory only",
                     path.native(), describe_foreign(descriptor)));
  }
  // The folder of an entry; empty where it cannot be used.
  hal::UniqueFd open(const EntryPlace& place, bool make) {
    const Opened top = open_folder(folder, make);
    if (top.trust == Trust::foreign) distrust(folder, top.descriptor.get());
    if (top.trust != Trust::good) return {};
    Opened below = open_folder_in(top.descriptor.get(), place.folder, make);
    if (below.trust == Trust::foreign) distrust(folder / place.folder, below.descriptor.get());
    if (below.trust != Trust::good) return {};
    return std::move(below.descriptor);
  }
  std::optional<Code> read(const ContentKey& key);
  void write(const ContentKey& key, std::span<const std::byte> code);
  void written(Bytes bytes, Bytes before, const EntryPlace& place);
  void recount(const EntryPlace& newest);
};

DiskCache::DiskCache(std::filesystem::path folder, Bytes cap)
    : state_(std::make_unique<State>(std::move(folder), cap)) {}
DiskCache::~DiskCache() = default;

std::shared_ptr<DiskCache> DiskCache::from_environment() {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return std::make_shared<DiskCache>(std::filesystem::path());
  return std::make_shared<DiskCache>(folder / "kernels",
                                     env::bytes("HOLDFAST_CACHE_LIMIT").value_or(1_GiB));
}

bool DiskCache::on() const { return !state_->is_off(); }

DiskCacheStats DiskCache::stats() const {
  const sync::Lock lock(state_->mutex);
  return state_->stats;
}

std::filesystem::path DiskCache::path_of(const ContentKey& key) const {
  const EntryPlace place = place_of(key);
  return state_->folder / place.folder / place.name;
}

std::optional<Code> DiskCache::read(const ContentKey& key) {
  if (state_->is_off()) return std::nullopt;
  std::optional<Code> code = state_->read(key);
  state_->count(code ? &DiskCacheStats::hits : &DiskCacheStats::misses);
  return code;
}

std::optional<Code> DiskCache::State::read(const ContentKey& key) {
  const EntryPlace place = place_of(key);
  const hal::UniqueFd below = open(place, false);
  if (!below) return std::nullopt;
  const Opened file = open_file_in(below.get(), place.name);
  if (file.trust == Trust::missing) return std::nullopt;
  const auto path = [&] { return (folder / place.folder / place.name).native(); };
  if (file.trust == Trust::foreign) {
    count(&DiskCacheStats::damaged);
    tell(foreign_file, fmt::format("the kernel cache ignores and replaces '{}': {}; whatever else "
                                   "it finds like this it replaces silently",
                                   path(), describe_foreign(file.descriptor.get())));
    return std::nullopt;
  }
  CheckedBytes read = read_checked_file(file.descriptor.get(), key.bytes());
  if (read.state == FileState::damaged) {
    count(&DiskCacheStats::damaged);
    tell(damaged_file,
         fmt::format("the kernel cache ignores and replaces '{}', which is damaged or of another "
                     "kernel; whatever else it finds like this it replaces silently",
                     path()));
  }
  if (read.state != FileState::good) return std::nullopt;
  // Which files were used last decides which ones stay; a mount may keep no access times.
  const std::array<timespec, 2> times{timespec{0, UTIME_OMIT}, timespec{0, UTIME_NOW}};
  ::futimens(file.descriptor.get(), times.data());
  return std::move(read.bytes);
}

void DiskCache::write(const ContentKey& key, std::span<const std::byte> code) {
  if (!state_->is_off()) state_->write(key, code);
}

void DiskCache::State::write(const ContentKey& key, std::span<const std::byte> code) {
  if (Bytes{code.size() + key.bytes().size()} > cap) {
    logging::note(logging::Topic::kernels,
                  "the kernel cache in '{}' keeps no entry of {}: its limit is {}", folder.native(),
                  to_string(Bytes{code.size()}), to_string(cap));
    return;
  }
  const EntryPlace place = place_of(key);
  const std::filesystem::path path = folder / place.folder / place.name;
  const hal::UniqueFd below = open(place, true);
  struct stat info {};
  Bytes before{};
  Failure failure;
  if (below) {
    if (::fstatat(below.get(), place.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
      before = {static_cast<uint64_t>(info.st_size)};
    }
    failure = write_checked_file(below.get(), place.name, path, key.bytes(), code);
  } else {
    if (is_off()) return count(&DiskCacheStats::failed_writes);
    failure = make_private_folder(path.parent_path());
    if (!failure) failure = {ErrorCode::environment, "its folder cannot be opened"};
  }
  if (failure) {
    count(&DiskCacheStats::failed_writes);
    return tell(unwritable, fmt::format("the kernel cache cannot keep '{}', so that kernel is kept "
                                        "in memory only: {}",
                                        path.native(), failure.message()));
  }
  Bytes after{};
  if (::fstatat(below.get(), place.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    after = {static_cast<uint64_t>(info.st_size)};
  }
  written(after, before, place);
}

void DiskCache::State::written(Bytes bytes, Bytes before, const EntryPlace& place) {
  {
    const sync::Lock lock(mutex);
    ++stats.writes;
    size += bytes;
    size -= std::min(size, before);
    uncounted += bytes;
    const bool due = !counted || size > cap || uncounted > cap / 8;
    if (!due || counting) return;
    counting = true;
    uncounted = {};
  }
  recount(place);
}

// Looks at what is there, and removes what is too much. One task at a time.
void DiskCache::State::recount(const EntryPlace& newest) {
  FolderContent content;
  uint64_t removed = 0;
  if (const Opened top = open_folder(folder, false); top.trust == Trust::good) {
    const int fd = top.descriptor.get();
    content = list_content(fd);
    std::ranges::sort(content.entries, {}, [](const FolderEntry& entry) {
      return std::pair(entry.time, std::string_view(entry.name));
    });
    const int64_t now =
        content.entries.empty() ? std::numeric_limits<int64_t>::min() : content.entries.back().time;
    const Bytes target = content.size > cap ? cap - cap / 10 : cap;
    for (const FolderEntry& entry : content.entries) {
      if (content.size <= target) break;
      if (entry.folder == newest.folder && entry.name == newest.name) continue;
      if (remove_in(fd, entry)) ++removed;
      content.size -= entry.size;
    }
    for (const FolderEntry& entry : content.temporary) {
      if (entry.time < now && now - entry.time > kStale) remove_in(fd, entry);
    }
  }
  const sync::Lock lock(mutex);
  stats.evictions += removed;
  size = content.size + uncounted;
  counted = true;
  counting = false;
}

void DiskCache::clear() {
  if (state_->is_off()) return;
  const Opened top = open_folder(state_->folder, false);
  if (top.trust == Trust::foreign) state_->distrust(state_->folder, top.descriptor.get());
  if (top.trust != Trust::good) return;
  const FolderContent content = list_content(top.descriptor.get());
  for (const FolderEntry& entry : content.entries) remove_in(top.descriptor.get(), entry);
  const sync::Lock lock(state_->mutex);
  state_->counted = false;
  state_->size = {};
}

}  // namespace holdfast::kernel
