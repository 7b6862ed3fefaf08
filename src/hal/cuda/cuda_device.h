#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/sync/mutex.h"
#include "holdfast/hal/devices.h"
#include "holdfast/hal/gpu/gpu_device.h"

namespace holdfast::hal {

class CudaCore;
class CudaProducts;

struct CudaOptions {
  // Which GPU: its index ("0"), a part of its name ("h200"), or empty for the first.
  std::string device{};
  uint32_t queues = 0;  // streams; zero: eight
  // Queues for copies alone, which run beside kernels. Unset: one where the GPU has engines for
  // that.
  std::optional<uint32_t> copy_queues{};
  // The driver's library: see CudaApi::load.
  std::string driver{};
  // The library of matrix products: see CublasLtApi::load. Unset: as if empty, unless `driver`
  // names one; such a driver comes with no library.
  std::optional<std::string> matrix_library{};
  // Off: as with a driver that has no stream memory operations.
  bool stream_memory_operations = true;
  // Off: every list is launched command by command.
  bool graphs = true;
  // A list is waited for inside the call that submits it, so it may wait only for what is resolved.
  // For a device that wraps this one and decides itself when something runs.
  bool immediate = false;
  Bytes memory{};  // zero: the GPU's
  // How long dropping the device lets lists in flight finish.
  sync::Duration close_bound = std::chrono::seconds(10);
};

// An NVIDIA GPU through its driver, which is loaded when the first such device is opened. It runs
// CudaModule kernels.
//
// - The GPU's primary context, shared with whatever else in the process uses CUDA; never reset.
// - Each Queue is a stream, and its timeline a counter in host memory that the stream writes:
//   query() is a load.
// - A list whose waits are resolved, or are on lists that the driver has, goes to the driver inside
//   submit(); one that waits for the host is kept back, with all behind it.
// - Whether a list fails is known when it is handed over: GPU code cannot fail, except with the
//   whole device. An illegal access or the like loses the device, as the driver then refuses all.
// - A native callback is given the CUstream. It is called inside submit(), after the list's earlier
//   commands were handed over; if it throws, these run, and everything the list writes is bad.
// - Device memory comes from a pool of the device's own, so that neither allocating nor freeing it
//   waits for work. The driver may wait where kernels are unloaded and imports of host memory end.
class CudaDevice final : public GpuDevice {
 public:
  // A failure says what is missing here, and lists the devices there are.
  static Result<Ref<CudaDevice>> open(const CudaOptions& options = {});
  ~CudaDevice() override;

  Result<Ref<Buffer>> create_buffer(const BufferDesc& desc) override;
  // Memory of the host, or of this GPU: of its driver's allocators, by whoever.
  Result<Ref<Buffer>> import_buffer(ExternalMemory memory) override;
  Result<Ref<Pipeline>> create_pipeline(PipelineDesc desc) override;
  Result<Ref<Program>> create_program(CommandList& list) override;
  // A CUstream of the same GPU's primary context.
  Result<Point> point_of_native(void* native_stream, std::string name) override;
  Failure make_native_wait(void* native_stream, const Point& point) override;
  Result<void*> native_stream() override;

  KernelProfile* profile() const override;
  // cuBLASLt, if there is one that works here. HOLDFAST_LOG=device says which, or why there is
  // none.
  MatrixProducts* matrix_products() override;

  // The CUcontext, for users of `native` commands and of other libraries. Valid while the device is
  // open.
  void* context() const noexcept;

 private:
  CudaDevice(DeviceInfo info, const CudaOptions& options, std::shared_ptr<CudaCore> core);

  struct Products {
    bool asked = false;
    std::shared_ptr<CudaProducts> found;  // null: there are none
  };
  std::shared_ptr<CudaCore> core_;
  const std::optional<std::string> matrix_library_;  // unset: none
  sync::Guarded<Products> products_;
};

// "cuda:0", ...; those that cannot be used say why, and one line says why there are none and how to
// get them. `driver`: see CudaApi::load.
std::vector<DeviceListing> list_cuda_devices(const std::string& driver = {});

}  // namespace holdfast::hal
