#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "holdfast/base/bytes.h"
#include "holdfast/kernel/cache/content_key.h"

namespace holdfast::kernel {

struct DiskCacheStats {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t damaged = 0;  // files that were torn, foreign, of another key or not to be trusted
  uint64_t writes = 0;
  uint64_t failed_writes = 0;
  uint64_t evictions = 0;
};

// Compiled code on disk, one checked file for each key (base/checked_file.h), named by its digest.
// Safe for many processes at once and for many threads. Losing anything in it loses time only; no
// call ever fails: what cannot be read is missing, and what cannot be written is not kept, with one
// warning for each cause in the life of the object.
//
// Trust: code from here is executed, so it is used only where nobody else could have written it:
// the folder and its files must belong to the user and be writable by no one else. Elsewhere the
// cache says so once and stays off. Each file is reached through the folder that was looked at, so
// that whoever may rename a folder further up gains nothing.
//
// Size: at most `cap` (default 1 GiB, HOLDFAST_CACHE_LIMIT), by access: reading a file renews its
// time; a write that goes over removes the oldest, a tenth more than it must. Counted at the first
// write, then kept up, and counted again now and then for what other processes wrote. An entry
// larger than the cap is not kept.
class DiskCache {
 public:
  // An empty folder: off, and nothing is ever touched.
  explicit DiskCache(std::filesystem::path folder, Bytes cap = 1_GiB);
  // cache_folder()/kernels; off where that is. EnvironmentError where a variable cannot be read.
  static std::shared_ptr<DiskCache> from_environment();
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  bool on() const;
  std::optional<Code> read(const ContentKey& key);
  void write(const ContentKey& key, std::span<const std::byte> code);
  // Removes every entry of this folder.
  void clear();
  DiskCacheStats stats() const;
  std::filesystem::path path_of(const ContentKey& key) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::kernel
