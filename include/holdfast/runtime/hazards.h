#pragma once

#include <cstdint>
#include <vector>

#include "holdfast/base/range_set.h"
#include "holdfast/hal/access.h"

#pragma GCC visibility push(default)

namespace holdfast::runtime {

// Decides where barriers must stand among the commands of one list, in recorded order, by the bytes
// they read and write. It knows no device. A command opens a new wave only where it conflicts with
// the present one (RAW, WAR, WAW), which gives the fewest barriers that recorded order allows. Not
// thread-safe.
class HazardTracker {
 public:
  HazardTracker();

  // What a recorder remembers about one memory object while a list is open.
  struct Entry {
    uint64_t key = 0;
    uint64_t generation = 0;  // of the tracker, when the entry was made; others are vacant
    // Bytes used in wave `wave`; of earlier waves nothing is known.
    RangeSet read;
    RangeSet written;
    uint32_t wave = 0;
    // For the recorder: what it has already told the object's history in this list. Exact ranges,
    // never more.
    uint64_t told_version = 0;
    ByteRange told_read;
    ByteRange told_written;
  };

  // Makes room for n further keys; entries stay where they are until the next call. Bounded: it may
  // forget all it knows instead of growing; it then returns true, and a barrier must stand before
  // the next command.
  [[nodiscard]] bool reserve(size_t n);
  // The entry for a key, made on first use. Only after reserve(). Cost: one hash probe.
  Entry& entry(uint64_t key);

  bool conflicts(const Entry& entry, ByteRange range, hal::Access access) const noexcept;
  void add(Entry& entry, ByteRange range, hal::Access access);

  uint32_t wave() const noexcept { return wave_; }
  // A barrier was put: the next commands form a new wave.
  void next_wave() noexcept { ++wave_; }
  // A new list begins: lists are ordered as if by a barrier.
  void start_list() noexcept;

 private:
  // Chosen by bench row hazard_prior: the table stays in the second-level cache, and a barrier for
  // every thousand objects costs nothing.
  static constexpr size_t kMaxEntries = 1024;

  void rehash(size_t slots);

  std::vector<Entry> slots_;
  size_t used_ = 0;
  uint64_t generation_ = 1;
  uint32_t wave_ = 1;
};

}  // namespace holdfast::runtime

#pragma GCC visibility pop
