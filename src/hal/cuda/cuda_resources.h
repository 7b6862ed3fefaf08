#pragma once

#include <cstring>
#include <functional>
#include <memory>

#include "holdfast/hal/cuda/cuda_core.h"
#include "holdfast/hal/device.h"

namespace holdfast::hal {

class CudaBuffer final : public Buffer, private CudaObject {
 public:
  static Result<Ref<Buffer>> create(DeviceId device, const BufferDesc& desc,
                                    const std::shared_ptr<CudaCore>& core);
  // Takes the deleter on success only.
  static Result<Ref<Buffer>> import(DeviceId device, ExternalMemory& memory,
                                    const std::shared_ptr<CudaCore>& core);
  ~CudaBuffer() override;

  std::byte* host_pointer() const noexcept override { return memory_.host; }
  uint64_t device_address() const noexcept override { return memory_.address; }
  cu::CUdeviceptr address() const noexcept { return memory_.address; }

 private:
  CudaBuffer(DeviceId device, Bytes size, MemoryKind kind, std::string name, bool imported,
             const std::shared_ptr<CudaCore>& core, const CudaCore::Memory& memory)
      : Buffer(device, size, kind, std::move(name), imported), CudaObject(core), memory_(memory) {}
  void destroy_native() noexcept override;

  CudaCore::Memory memory_;
  std::function<void()> deleter_;
  uint32_t fork_generation_ = sync::fork_generation();
};

class CudaPipeline final : public Pipeline, private CudaObject {
 public:
  static Result<Ref<Pipeline>> create(DeviceId device, PipelineDesc desc,
                                      const std::shared_ptr<CudaCore>& core);
  ~CudaPipeline() override;

  cu::CUfunction function() const noexcept { return function_; }
  bool takes_lengths() const noexcept { return takes_lengths_; }
  // Of the addresses, lengths and parameters of a dispatch, one after another, its kernel takes
  // this many bytes.
  uint32_t argument_bytes() const noexcept { return argument_bytes_; }
  // The threads of a group of this dispatch.
  Groups threads(std::span<const std::byte> parameters) const noexcept {
    if (threads_fixed_) return threads_;
    Groups said;
    std::memcpy(&said, parameters.data() + threads_at_, sizeof said);
    return said;
  }
  uint32_t shared_memory() const noexcept { return shared_memory_; }
  Groups cluster() const noexcept { return cluster_; }
  bool is_cooperative() const noexcept { return cooperative_; }
  // See CudaModule; false where the driver cannot make use of it.
  bool waits_for_grids() const noexcept { return waits_for_grids_; }
  bool has_attributes() const noexcept { return cooperative_ || cluster_.count() > 1; }

 private:
  CudaPipeline(DeviceId device, const PipelineDesc& desc, const CudaModule& module,
               const std::shared_ptr<CudaCore>& core);
  Failure find_arguments(const CudaModule& module);
  void destroy_native() noexcept override;

  cu::CUmodule module_ = nullptr;
  cu::CUfunction function_ = nullptr;
  bool takes_lengths_;
  bool cooperative_;
  bool waits_for_grids_;
  uint32_t argument_bytes_ = 0;
  bool threads_fixed_;
  Groups threads_;
  size_t threads_at_;
  Groups cluster_;
  uint32_t shared_memory_;
};

}  // namespace holdfast::hal
