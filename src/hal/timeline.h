#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <string>

#include "holdfast/base/error.h"
#include "holdfast/base/ref.h"
#include "holdfast/base/sync/clock.h"
#include "holdfast/hal/ids.h"

namespace holdfast::hal {

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
  // None for a timeline that any device may wait on (host-signalled, imported).
  DeviceId device() const noexcept { return device_; }
  const std::string& name() const noexcept { return name_; }

  // Wait-free; a load, or one cheap driver query. Once it answers reached, what the list wrote is
  // visible to maps; once it answers failed, failure() has the cause and the list touches nothing
  // any more.
  virtual PointState query(TimelineValue value) const noexcept = 0;
  // The cause of a failed value; none for others.
  virtual Failure failure(TimelineValue value) const = 0;
  // Whether a list with this value was submitted: only then does its Point exist, and can be waited
  // for by lists. Always true where no device owns the timeline.
  bool was_issued(TimelineValue value) const noexcept {
    return !device_ || value.value <= issued_.load(std::memory_order_acquire);
  }
  // Called by the queue that owns it.
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
  friend bool operator==(const Point&, const Point&) = default;
};
// "queue 0 @ 17", for messages.
std::string to_string(const Point& point);

enum class WaitKind {
  data,  // the list reads what the other wrote: a failure there is a failure here
  order  // the list must only come later: met by reached and by failed
};
struct Wait {
  Point point;
  WaitKind kind = WaitKind::data;
  friend bool operator==(const Wait&, const Wait&) = default;
};

}  // namespace holdfast::hal
