#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "holdfast/base/sync/mutex.h"
#include "holdfast/base/sync/process.h"
#include "holdfast/hal/buffer.h"
#include "holdfast/hal/device.h"

namespace holdfast::hal {

// Counts what a CPU device has given out; outlives the device with its buffers.
struct CpuMemory {
  CpuMemory() = default;
  CpuMemory(const CpuMemory&) = delete;
  CpuMemory& operator=(const CpuMemory&) = delete;
  ~CpuMemory();

  // Null where the system has none left.
  std::byte* take(size_t bytes);
  void give_back(std::byte* data, size_t bytes) noexcept;

  Bytes limit;
  uint32_t max_buffers = 0;
  std::atomic<uint64_t> used{0};
  std::atomic<uint32_t> buffers{0};
  bool recycles = false;

 private:
  struct Spare {
    std::byte* data;
    size_t bytes;
  };
  sync::LeafMutex mutex_;                                 // guards spare_
  std::vector<Spare> spare_ HOLDFAST_GUARDED_BY(mutex_);  // newest last
};

// Host memory, ours or imported. Dropping it calls no driver and needs no device.
class CpuBuffer final : public Buffer {
 public:
  static Result<Ref<Buffer>> create(DeviceId device, const BufferDesc& desc, bool host_visible,
                                    std::shared_ptr<CpuMemory> memory);
  static Ref<Buffer> import(DeviceId device, ExternalMemory memory);
  ~CpuBuffer() override;

  std::byte* host_pointer() const noexcept override { return host_visible_ ? data_ : nullptr; }
  std::byte* data() const noexcept { return data_; }

 private:
  CpuBuffer(DeviceId device, Bytes size, MemoryKind kind, std::string name, bool imported)
      : Buffer(device, size, kind, std::move(name), imported) {}
  std::byte* data_ = nullptr;
  bool host_visible_ = true;
  std::shared_ptr<CpuMemory> memory_;  // null: imported
  std::function<void()> deleter_;
  uint32_t fork_generation_ =
      sync::fork_generation();  // a forked child leaves the deleter to its parent
};

}  // namespace holdfast::hal
