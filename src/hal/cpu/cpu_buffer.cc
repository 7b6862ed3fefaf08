#include "holdfast/hal/cpu/cpu_buffer.h"

#include <fmt/format.h>

#include <cstdlib>

#include "holdfast/base/rounding.h"
#include "holdfast/hal/deleter.h"

namespace holdfast::hal {
namespace {

constexpr size_t kAlignment = 4096;
// What a device that recycles keeps for the next request.
constexpr size_t kMaxSpareBlocks = 64;

size_t rounded(Bytes size) { return round_up(size.value, kAlignment); }

}  // namespace

CpuMemory::~CpuMemory() {
  for (const Spare& spare : spare_) std::free(spare.data);  // NOLINT: pairs with aligned_alloc
}

std::byte* CpuMemory::take(size_t bytes) {
  if (recycles) {
    const sync::LeafLock lock(mutex_);
    for (size_t i = spare_.size(); i-- > 0;) {
      if (spare_[i].bytes != bytes) continue;
      std::byte* const data = spare_[i].data;
      spare_.erase(spare_.begin() + static_cast<std::ptrdiff_t>(i));
      return data;
    }
  }
  return static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes));
}

void CpuMemory::give_back(std::byte* data, size_t bytes) noexcept {
  if (recycles) {
    const sync::LeafLock lock(mutex_);
    if (spare_.size() < kMaxSpareBlocks) {
      spare_.push_back({data, bytes});
      return;
    }
  }
  std::free(data);  // NOLINT: pairs with aligned_alloc
}

Result<Ref<Buffer>> CpuBuffer::create(DeviceId device, const BufferDesc& desc, bool host_visible,
                                      std::shared_ptr<CpuMemory> memory) {
  const auto refuse = [&](const std::string& why) {
    return Failure(ErrorCode::out_of_memory,
                   fmt::format("the CPU device cannot give {} for buffer '{}': {}",
                               to_string(desc.size), desc.name, why));
  };
  if (memory->buffers.fetch_add(1) >= memory->max_buffers) {
    memory->buffers.fetch_sub(1);
    return refuse(fmt::format("it has given out {} buffers, its limit", memory->max_buffers));
  }
  if (desc.size > memory->limit) {
    memory->buffers.fetch_sub(1);
    const auto [wanted, in_all] = told_apart(desc.size, memory->limit);
    return refuse(fmt::format("it has {} in all, which is less than {}", in_all, wanted));
  }
  const uint64_t before = memory->used.fetch_add(desc.size.value);
  const bool fits = before <= memory->limit.value && desc.size <= memory->limit - Bytes{before};
  std::byte* const data = fits ? memory->take(rounded(desc.size)) : nullptr;
  if (data == nullptr) {
    memory->used.fetch_sub(desc.size.value);
    memory->buffers.fetch_sub(1);
    const auto [used, limit] = told_apart(Bytes{before}, memory->limit);
    return refuse(fits ? "the system has no memory left"
                       : fmt::format("{} of {} are in use", used, limit));
  }
  Ref<CpuBuffer> buffer(new CpuBuffer(device, desc.size, desc.kind, desc.name, false));
  buffer->data_ = data;
  buffer->host_visible_ = host_visible || desc.kind != MemoryKind::device;
  buffer->memory_ = std::move(memory);
  return Ref<Buffer>(std::move(buffer));
}

Ref<Buffer> CpuBuffer::import(DeviceId device, ExternalMemory memory) {
  Ref<CpuBuffer> buffer(
      new CpuBuffer(device, memory.size, MemoryKind::device, std::move(memory.name), true));
  buffer->data_ = static_cast<std::byte*>(memory.data);
  buffer->deleter_ = std::move(memory.deleter);
  return buffer;
}

CpuBuffer::~CpuBuffer() {
  if (memory_) {
    memory_->give_back(data_, rounded(size()));
    memory_->used.fetch_sub(size().value);
    memory_->buffers.fetch_sub(1);
  } else if (fork_generation_ == sync::fork_generation()) {
    run_deleter(deleter_, name());
  }
}

}  // namespace holdfast::hal
