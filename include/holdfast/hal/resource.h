#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "holdfast/base/bytes.h"
#include "holdfast/base/ref.h"
#include "holdfast/hal/ids.h"
#include "holdfast/hal/probe.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

class Holds;
class KeptResource;

// Anything a device may touch. It has two counts. Users (Refs: arrays, nodes, maps, caches) say
// whether somebody can still ask for it; holds (lists) only keep it from destruction. Without users
// it is dead, and on_dead() is called once. Without users and holds it is destroyed, on the thread
// that dropped the last of them. Nothing can bring a dead Resource back.
class Resource {
 public:
  Resource(const Resource&) = delete;
  Resource& operator=(const Resource&) = delete;

  ResourceId id() const noexcept { return id_; }
  DeviceId device() const noexcept { return device_; }
  // The user's label; may be empty.
  const std::string& name() const noexcept { return name_; }
  // "allocation 'weights' (id 17, 64.0 KiB)": for messages.
  virtual std::string describe() const = 0;
  // Device memory that a hold on this keeps; zero where it does not count.
  virtual Bytes held_bytes() const noexcept { return {}; }

  // Users; called by Ref.
  void retain() const noexcept { users_.fetch_add(1, std::memory_order_relaxed); }
  void release() const noexcept;

  // Set once, before anybody else knows the Resource.
  void set_probe(Ref<Probe> probe) noexcept { probe_ = std::move(probe); }
  Probe* probe() const noexcept { return probe_.get(); }

  // For reports: may be stale when they arrive.
  uint32_t users() const noexcept { return users_.load(std::memory_order_relaxed); }
  uint32_t holds() const noexcept;

 protected:
  Resource(DeviceId device, std::string&& name, ResourceId id = ResourceId::next())
      : id_(id), device_(device), name_(std::move(name)) {}
  // A thread takes many ids at a time, so that threads that make Resources do not meet. For what no
  // probe sees: probes tell by their ids which of two Resources is the older one.
  static ResourceId next_id_of_thread() noexcept;
  // Counts a first user, made by Ref::adopt, before anybody else knows the Resource.
  void count_first_user() const noexcept { users_.store(1, std::memory_order_relaxed); }
  virtual ~Resource() = default;
  // The last user is gone. Called once, with no lock of ours held; must not throw.
  virtual void on_dead() noexcept {}

 private:
  friend class Holds;
  friend class KeptResource;
  void hold() const noexcept { holds_.fetch_add(1, std::memory_order_relaxed); }
  void unhold() const noexcept {
    if (holds_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy();
  }
  void destroy() const noexcept;

  ResourceId id_;
  DeviceId device_;
  mutable std::atomic<uint32_t> users_{0};
  // All users together count as one hold.
  mutable std::atomic<uint32_t> holds_{1};
  // The list that took the last hold: a hint that lets a list skip a second hold without looking it
  // up.
  mutable std::atomic<uint64_t> last_holder_{0};
  std::string name_;
  Ref<Probe> probe_;
};

// A hold that belongs to no list: keeps a Resource from destruction, not from death.
class KeptResource {
 public:
  explicit KeptResource(const Resource& resource) noexcept : resource_(&resource) {
    resource.hold();
  }
  KeptResource(KeptResource&& other) noexcept
      : resource_(std::exchange(other.resource_, nullptr)) {}
  KeptResource& operator=(KeptResource&& other) noexcept {
    std::swap(resource_, other.resource_);
    return *this;
  }
  ~KeptResource() {
    if (resource_ != nullptr) resource_->unhold();
  }
  const Resource& operator*() const noexcept { return *resource_; }

 private:
  const Resource* resource_;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
