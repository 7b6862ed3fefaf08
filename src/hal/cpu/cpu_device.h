#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "holdfast/hal/device.h"

namespace holdfast::hal {

struct CpuOptions {
  uint32_t queues = 4;
  // Threads that help the queues' own; by default one for each further hardware thread.
  std::optional<unsigned> helpers{};
  // Off: memory of kind device cannot be mapped, as on a discrete GPU.
  bool device_memory_host_visible = true;
  Bytes memory{};  // zero: the machine's
  uint32_t max_buffers = 65536;
  uint32_t max_imports = 0;  // zero: no limit but memory
  Groups max_groups{0x7fffffff, 65535, 65535};
  // No threads: a list runs inside the call that submits it, so it may wait only for what is
  // resolved. For a device that wraps this one and decides itself when something runs.
  bool immediate = false;
  // Memory that was given back is given out again newest first, as drivers like to do.
  bool recycles_memory = false;
  // How long dropping the device lets lists in flight finish.
  sync::Duration close_bound = std::chrono::seconds(10);

  // Faults for tests: asked before each creation of a buffer and each submit; a failure is returned
  // as the device's own. Called from any thread, with no lock held.
  std::function<Failure(const BufferDesc&)> fail_allocation{};
  std::function<Failure(const Queue&)> fail_submit{};
};

// The host CPU as a device: queues that run asynchronously to the caller, each on a thread of its
// own; the commands of one wave and the groups of one dispatch run in parallel on a pool that all
// queues share. It runs HostFunction modules. Host memory is its memory.
class CpuDevice final : public Device {
 public:
  // EnvironmentError where the system gives no threads.
  static Ref<CpuDevice> open(CpuOptions options = {});
  ~CpuDevice() override;

  Result<Ref<Buffer>> create_buffer(const BufferDesc& desc) override;
  Result<Ref<Buffer>> import_buffer(ExternalMemory memory) override;
  Result<Ref<Pipeline>> create_pipeline(PipelineDesc desc) override;
  Result<Ref<Program>> create_program(CommandList& list) override;
  KernelProfile* profile() const override { return profile_.get(); }
  Failure lost() const override;
  CloseReport close(sync::Deadline deadline) override;

  // As if the hardware fell off the bus: groups under way finish, no further one starts, and
  // everything pending fails with this cause once its list can touch nothing more.
  void lose(Failure cause);

 private:
  struct State;
  CpuDevice(DeviceInfo info, CpuOptions options);
  CpuOptions options_;
  std::shared_ptr<KernelProfile> profile_ = std::make_shared<KernelProfile>();
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::hal
