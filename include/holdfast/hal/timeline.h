#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/bytes.h"
#include "holdfast/base/error.h"
#include "holdfast/base/ref.h"
#include "holdfast/base/sync/clock.h"
#include "holdfast/hal/ids.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

class Damage;

struct TimelineValue {
  uint64_t value = 0;
  friend auto operator<=>(const TimelineValue&, const TimelineValue&) = default;
  TimelineValue next() const noexcept { return {value + 1}; }
};

enum class PointState { pending, reached, failed };
const char* to_string(PointState state);

// A counter that its device (or the host) advances. Values resolve in order: none answers reached
// or failed before all smaller ones do. A value that was resolved stays so, with the same answer.
// Outlives its device as an object: by then every value has been resolved.
// Thread-safe.
class Timeline : public RefCounted {
 public:
  TimelineId id() const noexcept { return id_; }
  // None for a timeline that any device may wait on (host-signalled, imported, relayed).
  DeviceId device() const noexcept { return device_; }
  const std::string& name() const noexcept { return name_; }

  // Wait-free; a load, or one cheap driver query. Once it answers reached, what the list wrote is
  // visible to maps; once it answers failed, failure() has the cause and the list touches nothing
  // any more.
  virtual PointState query(TimelineValue value) const noexcept = 0;
  // The cause of a failed value; none for others.
  virtual Failure failure(TimelineValue value) const = 0;
  // The bytes that a failed value's list left bad; all others that it writes are good. Null if the
  // value did not fail, or if nobody can tell: then everything its list writes is bad.
  virtual std::shared_ptr<const Damage> damage([[maybe_unused]] TimelineValue value) const {
    return nullptr;
  }
  // Whether a list with this value was submitted: only then does its Point exist, and lists can
  // wait for it. Always true if no device owns the timeline.
  bool was_issued(TimelineValue value) const noexcept {
    return !device_ || value.value <= issued_.load(std::memory_order_acquire);
  }
  // Called by the queue that owns the timeline.
  void note_issued(TimelineValue value) noexcept {
    issued_.store(value.value, std::memory_order_release);
  }
  // Blocks until the value is resolved or the deadline has passed (then: pending). The runtime
  // calls it from one place only, which accounts for it.
  virtual PointState wait(TimelineValue value, sync::Deadline deadline) const = 0;

 protected:
  Timeline(DeviceId device, std::string name)
      : id_(TimelineId::next()), device_(device), name_(std::move(name)) {}

 private:
  TimelineId id_;
  DeviceId device_;
  std::string name_;
  std::atomic<uint64_t> issued_{0};
};

// "When this much is done." A default-constructed Point is nothing to wait for: always reached.
struct Point {
  Ref<Timeline> timeline;
  TimelineValue value;

  PointState query() const noexcept {
    return timeline ? timeline->query(value) : PointState::reached;
  }
  bool pending() const noexcept { return query() == PointState::pending; }
  Failure failure() const { return timeline ? timeline->failure(value) : Failure(); }
  std::shared_ptr<const Damage> damage() const {
    return timeline ? timeline->damage(value) : nullptr;
  }
  friend bool operator==(const Point&, const Point&) = default;
};
// "queue 0 @ 17", for messages.
std::string to_string(const Point& point);

enum class WaitKind {
  // The list reads what the other list wrote. Commands that read bad bytes do not run and fail with
  // the same cause, and so does this list. Its other commands run, if the device can tell them
  // apart. A failure without Damage is one of the whole other list.
  data,
  order  // the list must only come later: met by reached and by failed
};
struct Wait {
  Point point;
  WaitKind kind = WaitKind::data;
  friend bool operator==(const Wait&, const Wait&) = default;
};

// Bytes that a data wait is about: those that the list uses as the other list left them. If none
// are named for a wait, it is about everything that its list reads. If some are, only those count,
// since another list may have overwritten the rest.
struct AwaitedBytes {
  uint32_t wait = 0;  // its place among the list's waits
  // The list answers for these bytes from now on: if they are bad, it fails and hands the damage
  // on, even if it neither reads nor overwrites them.
  bool answers = false;
  ResourceId allocation;
  ByteRange range;
};

// What a list waits for.
struct ListWaits {
  std::vector<Wait> waits;
  std::vector<AwaitedBytes> bytes;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
