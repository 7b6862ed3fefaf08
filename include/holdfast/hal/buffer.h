#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "holdfast/base/bytes.h"
#include "holdfast/base/ref.h"
#include "holdfast/hal/ids.h"
#include "holdfast/hal/probe.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

class Allocation;

enum class MemoryKind {
  device,   // where kernels are fastest; the host may or may not reach it
  upload,   // the host writes it, the device reads it; always host visible
  readback  // the device writes it, the host reads it; always host visible
};
inline constexpr unsigned kMemoryKinds = 3;
const char* to_string(MemoryKind kind);

// Gives out the ranges of a Buffer (the runtime's allocator) and is told when they die.
class RangeOwner : public RefCounted {
 public:
  // The Allocation has lost its last user; its Tickets may be unfinished. Any thread, no lock held.
  virtual void range_died(Allocation& allocation) noexcept = 0;
};

// Memory that a device gave us or that was imported. Destroying one gives it back to the device at
// once, so whoever drops the last Ref must know that no list can touch it: the allocator and the
// Holds do.
class Buffer : public RefCounted {
 public:
  BufferId id() const noexcept { return id_; }
  DeviceId device() const noexcept { return device_; }
  Bytes size() const noexcept { return size_; }
  MemoryKind kind() const noexcept { return kind_; }
  const std::string& name() const noexcept { return name_; }
  // Whether the memory is the user's own: others may then use it in ways that Holdfast does not
  // see.
  bool is_imported() const noexcept { return imported_; }
  // Where the host reaches this memory; null if it cannot. Constant. What a list wrote is visible
  // here once its Point is reached; what the host wrote is visible to lists submitted afterwards.
  virtual std::byte* host_pointer() const noexcept = 0;
  // The address by which others who use the device through its driver know this memory (a
  // CUdeviceptr); zero if there is none. Constant.
  virtual uint64_t device_address() const noexcept { return 0; }

  // Set once, before the first Allocation is cut from it; null for a buffer used whole.
  void set_owner(Ref<RangeOwner> owner) noexcept { owner_ = std::move(owner); }
  RangeOwner* owner() const noexcept { return owner_.get(); }
  // Set once, before anybody else knows the Buffer, by each device that hands it on.
  void set_probe(Ref<Probe> probe) noexcept { probe_ = std::move(probe); }
  const Ref<Probe>& probe() const noexcept { return probe_; }

 protected:
  Buffer(DeviceId device, Bytes size, MemoryKind kind, std::string name, bool imported)
      : id_(BufferId::next()),
        device_(device),
        size_(size),
        kind_(kind),
        imported_(imported),
        name_(std::move(name)) {}
  void destroy() const noexcept override {
    if (probe_ && probe_->keeps(const_cast<Buffer&>(*this))) return;
    delete this;
  }

 private:
  BufferId id_;
  DeviceId device_;
  Bytes size_;
  MemoryKind kind_;
  bool imported_;
  std::string name_;
  Ref<RangeOwner> owner_;
  Ref<Probe> probe_;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
