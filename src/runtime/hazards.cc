#include "holdfast/runtime/hazards.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "holdfast/base/ablation.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kFirstSlots = 64;

// Ids are consecutive; this spreads them so that probes stay short.
size_t spread(uint64_t key) { return static_cast<size_t>((key * 0x9E3779B97F4A7C15ULL) >> 32); }

}  // namespace

HazardTracker::HazardTracker() : slots_(kFirstSlots) {}

bool HazardTracker::reserve(size_t n) {
  if ((used_ + n) * 2 <= slots_.size()) return false;
  if (used_ + n <= kMaxEntries) {
    rehash(std::bit_ceil((used_ + n) * 2));
    return false;
  }
  ++generation_;
  used_ = 0;
  if (n * 2 > slots_.size()) rehash(std::bit_ceil(n * 2));
  return true;
}

void HazardTracker::rehash(size_t slots) {
  std::vector<Entry> before(slots);
  before.swap(slots_);
  used_ = 0;
  for (Entry& old : before) {
    if (old.generation == generation_) entry(old.key) = std::move(old);
  }
}

HazardTracker::Entry& HazardTracker::entry(uint64_t key) {
  const size_t mask = slots_.size() - 1;
  for (size_t i = spread(key) & mask;; i = (i + 1) & mask) {
    Entry& candidate = slots_[i];
    if (candidate.generation == generation_) {
      if (candidate.key == key) return candidate;
      continue;
    }
    candidate.key = key;
    candidate.generation = generation_;
    candidate.wave = 0;
    candidate.told_version = 0;
    candidate.told_read = {};
    candidate.told_written = {};
    ++used_;
    return candidate;
  }
}

bool HazardTracker::conflicts(const Entry& entry, ByteRange range,
                              hal::Access access) const noexcept {
  if (entry.wave != wave_) return false;
  if (ablated(Ablation::hazards_by_view)) {
    const auto same = [&](const RangeSet& set) {
      return std::find(set.begin(), set.end(), range) != set.end();
    };
    return same(entry.written) || (hal::writes(access) && same(entry.read));
  }
  if (ablated(Ablation::war_ignored)) return entry.written.overlaps(range);
  return entry.written.overlaps(range) || (hal::writes(access) && entry.read.overlaps(range));
}

void HazardTracker::add(Entry& entry, ByteRange range, hal::Access access) {
  if (entry.wave != wave_) {
    entry.read.clear();
    entry.written.clear();
    entry.wave = wave_;
  }
  // What is written conflicts with everything, so its being read as well adds nothing.
  (hal::writes(access) ? entry.written : entry.read).add(range);
}

void HazardTracker::start_list() noexcept {
  ++generation_;
  used_ = 0;
  wave_ = 1;
}

}  // namespace holdfast::runtime
