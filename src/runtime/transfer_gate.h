#pragma once

#include <memory>
#include <string>

#include "holdfast/hal/relay_timeline.h"
#include "holdfast/runtime/core.h"

namespace holdfast::runtime {

// What a transfer's list on its destination waits for: the list of the source device that makes the
// bytes ready. Fails where those bytes are bad, with their cause. Keeps nothing of the source but
// that list's Point. Thread-safe.
class TransferGate final : public hal::RelayTimeline {
 public:
  // `proof`: what the source's list writes only if all that it reads is good.
  TransferGate(const std::shared_ptr<Core>& source, hal::Point ready, const hal::Allocation& proof);

  // Null once it is gone.
  std::shared_ptr<Core> source() const noexcept { return source_.lock(); }
  // Null for a Point of any other kind.
  static const TransferGate* of(const hal::Point& point) noexcept;

  Failure failure(hal::TimelineValue value) const override;

 private:
  const std::weak_ptr<Core> source_;
  const std::string device_name_;
};

}  // namespace holdfast::runtime
