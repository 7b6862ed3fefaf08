#include "holdfast/hal/gpu/gpu_core.h"

#include <fmt/format.h>

#include <utility>

#include "holdfast/base/sync/thread.h"

namespace holdfast::hal {

GpuObject::GpuObject(std::shared_ptr<GpuCore> core) : owner_(std::move(core)) {
  const sync::LeafLock lock(owner_->registry_mutex_);
  after_ = owner_->objects_;
  if (after_ != nullptr) after_->before_ = this;
  owner_->objects_ = this;
}

GpuObject::~GpuObject() = default;

void GpuObject::give_back() noexcept {
  if (owner_->forked() || owner_->abandoned_.load()) return;
  const GpuCore::Use use(*owner_);
  sync::LeafLock lock(owner_->registry_mutex_);
  if (given_back_) return;
  given_back_ = true;
  (before_ != nullptr ? before_->after_ : owner_->objects_) = after_;
  if (after_ != nullptr) after_->before_ = before_;
  // Where the device is being closed, it exists for as long as an object is registered.
  if (use) lock.unlock();
  destroy_native();
}

bool GpuCore::enter() const noexcept {
  if (forked()) return false;
  if ((inside_.fetch_add(2, std::memory_order_acquire) & 1) == 0) return true;
  leave();
  return false;
}

void GpuCore::close() noexcept {
  if (abandoned_.load() || forked()) return;
  if ((inside_.fetch_or(1, std::memory_order_acq_rel) & 1) != 0) return;
  for (unsigned attempt = 0; inside_.load(std::memory_order_acquire) != 1; ++attempt) {
    sync::relax(attempt);
  }
  begin_closing();
  const sync::LeafLock lock(registry_mutex_);
  while (objects_ != nullptr) {
    GpuObject* const object = std::exchange(objects_, objects_->after_);
    object->given_back_ = true;
    object->destroy_native();
  }
  finish_closing();
}

void GpuCore::stop(Failure cause) const {
  const sync::LeafLock lock(stop_mutex_);
  if (!stop_cause_) stop_cause_ = std::move(cause);
  stopped_.store(true);
}

Failure GpuCore::stop_cause() const {
  if (!stopped()) return {};
  const sync::LeafLock lock(stop_mutex_);
  return stop_cause_;
}

Failure GpuCore::lose(const Failure& cause) const {
  stop(cause);
  dead_.store(true);
  return stop_cause();
}

uint64_t GpuCore::look(GpuProgress& progress) const noexcept {
  std::optional<uint64_t> now;
  // Reports are read while the device's memory is there.
  const Use use(*this);
  if (use) now = read(progress);
  const uint64_t seen = progress.seen.load(std::memory_order_acquire);
  if (!now || *now <= seen) return seen;
  const sync::LeafLock lock(stop_mutex_);
  // What is seen after the end was resolved otherwise before.
  if (!ended_.load() && progress.seen.load() < *now && progress.outcomes.settle_locked(*now)) {
    progress.seen.store(*now);
  }
  return progress.seen.load();
}

void GpuCore::expect(GpuProgress& progress, uint64_t value, GpuOutcomes::Read read) const {
  const sync::LeafLock lock(stop_mutex_);
  progress.outcomes.expect_locked(value, std::move(read));
}

void GpuCore::withdraw(GpuProgress& progress, uint64_t value) const {
  const sync::LeafLock lock(stop_mutex_);
  progress.outcomes.withdraw_locked(value);
}

bool GpuCore::is_open(const GpuProgress& progress, uint64_t value) const {
  if (progress.outcomes.none()) return false;
  const sync::LeafLock lock(stop_mutex_);
  return progress.outcomes.is_open_locked(value);
}

bool GpuCore::seems_idle() const noexcept {
  for (const GpuProgress* progress : progress_) {
    if (progress->seen.load() < progress->started.load()) return false;
  }
  return true;
}

bool GpuCore::try_end() const noexcept {
  if (ended_.load(std::memory_order_acquire)) return true;
  if (forked()) return true;
  if (!stopped() || starting_.load() != 0) return false;
  for (GpuProgress* progress : progress_) {
    if (look(*progress) < progress->started.load() && !dead_.load()) return false;
  }
  if (!dead_.load() && !others_are_done()) return false;
  const sync::LeafLock lock(stop_mutex_);
  ended_.store(true, std::memory_order_release);
  return true;
}

Failure GpuCore::end_cause() const {
  if (Failure cause = stop_cause()) return cause;
  return Failure(ErrorCode::usage,
                 fmt::format("device '{}' was opened before a fork and belongs to the parent "
                             "process; open one in this process",
                             name));
}

}  // namespace holdfast::hal
