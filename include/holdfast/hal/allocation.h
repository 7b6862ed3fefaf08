#pragma once

#include <atomic>
#include <source_location>

#include "holdfast/hal/access_history.h"
#include "holdfast/hal/buffer.h"
#include "holdfast/hal/resource.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

// Where in a list a range was last used. A later life of the range in the same list learns from it
// whether a barrier already stands between the two. One word, so that it is never torn. Lists whose
// ids are too large for the word count as one list, in an unknown wave: that costs at most an
// unneeded barrier.
class LastUse {
 public:
  static constexpr uint32_t kAnyWave = 0xffffff;  // somewhere in the list

  LastUse() = default;
  LastUse(ListId list, uint32_t wave) noexcept
      : packed_((kept(list) << kWaveBits) |
                (wave < kAnyWave && list.value < kLargeLists ? wave : kAnyWave)) {}
  // Whether the last use was, or may have been, in this list.
  bool in(ListId list) const noexcept { return packed_ != 0 && packed_ >> kWaveBits == kept(list); }
  // Only if in(list): whether a command of `wave` could run beside the last use.
  bool reaches(uint32_t wave) const noexcept {
    const auto last = static_cast<uint32_t>(packed_ & kAnyWave);
    return last == kAnyWave || last >= wave;
  }

 private:
  friend class Allocation;
  static constexpr unsigned kWaveBits = 24;
  static constexpr uint64_t kLargeLists = (uint64_t{1} << (64 - kWaveBits)) - 1;  // and above
  static constexpr uint64_t kept(ListId list) noexcept {
    return list.value < kLargeLists ? list.value : kLargeLists;
  }
  explicit LastUse(uint64_t packed) noexcept : packed_(packed) {}
  uint64_t packed_ = 0;
};

// A range of a Buffer with its own identity. Lists bind and hold Allocations, not whole blocks.
class Allocation final : public Resource {
 public:
  // All of a buffer, for users without an allocator: imports, the conformance suite.
  static Ref<Allocation> whole(Ref<Buffer> buffer);
  // The same for commands of a wrapping device: neither the owner of the ranges nor the probe is
  // told about it.
  static Ref<Allocation> unseen(Ref<Buffer> buffer);
  // The range must lie in the buffer; `range_tag` is the range owner's own mark; `site` is where
  // the user asked for the memory, if known.
  Allocation(Ref<Buffer> buffer, ByteRange range, std::string name, void* range_tag,
             std::source_location site = {});
  // For a range owner, who makes many.
  struct Part {
    Buffer& buffer;
    ByteRange range;
    void* range_tag;
    std::source_location site;
  };
  static Ref<Allocation> make(const Part& of, std::string&& name);

  // Results of small kernels are made and dropped all the time.
  static void* operator new(size_t bytes);
  static void operator delete(void* block) noexcept;

  const Ref<Buffer>& buffer() const noexcept { return buffer_; }
  Bytes offset() const noexcept { return range_.offset; }
  Bytes size() const noexcept { return range_.length; }
  // The host's view of the first byte; null where the buffer has none.
  std::byte* host_pointer() const noexcept;
  // The first byte as others know it; see Buffer. Zero where the buffer has no address.
  uint64_t device_address() const noexcept;
  void* range_tag() const noexcept { return range_tag_; }
  const std::source_location& site() const noexcept { return site_; }

  // "allocation 'weights' (id 17, 64.0 KiB)"; "an unnamed allocation (id 17, 64.0 KiB)".
  std::string describe() const override;
  static std::string describe(std::string_view name, ResourceId id, Bytes size);
  Bytes held_bytes() const noexcept override { return range_.length; }

  // The lane that asked for the memory; none: nobody in particular. Set before anybody else knows
  // the Allocation.
  LaneId made_for() const noexcept { return made_for_; }
  void set_made_for(LaneId lane) noexcept { made_for_ = lane; }

  // Who used it, and who used the range before. Guarded by a lock of the one Context that records
  // on this device; stable once dead.
  AccessHistory& history() noexcept { return history_; }
  // Grows with every change of the history: a recorder that has seen this value has seen every
  // change. Whoever makes a change, and so holds the lock of the history, bumps it.
  uint64_t history_version() const noexcept { return version_.load(std::memory_order_acquire); }
  void bump_history_version() noexcept {
    version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // Reads by the host that no list of this device orders: those of transfers to other devices.
  // While there is one, the bytes must not change. Thread-safe.
  void begin_outside_read() noexcept { outside_reads_.fetch_add(1, std::memory_order_relaxed); }
  void end_outside_read() noexcept { outside_reads_.fetch_sub(1, std::memory_order_release); }
  bool is_read_outside() const noexcept {
    return outside_reads_.load(std::memory_order_acquire) != 0;
  }

  // Written by recorders; one relaxed store. With several streams the last one to write wins.
  LastUse last_use() const noexcept { return LastUse(last_use_.load(std::memory_order_relaxed)); }
  void set_last_use(LastUse use) noexcept {
    last_use_.store(use.packed_, std::memory_order_relaxed);
  }
  // The last use of the range's earlier life, if that was in a list still open at the time. Set at
  // birth, cleared by the recorder once a barrier stands between.
  LastUse earlier_life() const noexcept {
    return LastUse(earlier_life_.load(std::memory_order_relaxed));
  }
  void set_earlier_life(LastUse use) noexcept {
    earlier_life_.store(use.packed_, std::memory_order_relaxed);
  }

 private:
  enum class Seen : bool { no, yes };
  Allocation(const Part& of, std::string&& name);
  Allocation(Ref<Buffer> buffer, ByteRange range, std::string name, void* range_tag,
             std::source_location site, Seen seen);
  ~Allocation() override;
  void on_dead() noexcept override;

  Ref<Buffer> buffer_;
  ByteRange range_;
  void* range_tag_;
  std::source_location site_;
  Seen seen_;
  LaneId made_for_;
  AccessHistory history_;
  std::atomic<uint64_t> version_{1};
  std::atomic<uint64_t> last_use_{0};
  std::atomic<uint64_t> earlier_life_{0};
  std::atomic<uint32_t> outside_reads_{0};
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
