#pragma once

#include <memory>
#include <vector>

#include "holdfast/hal/close_once.h"
#include "holdfast/hal/device.h"
#include "holdfast/hal/gpu/gpu_queue.h"

namespace holdfast::hal {

class GpuWatcher;

// What devices over a driver share: how they are closed, lost and forked.
class GpuDevice : public Device {
 public:
  Result<UniqueFd> export_point(const Point& point) final;
  Failure lost() const final { return gpu_->stop_cause(); }
  CloseReport close(sync::Deadline deadline) final;
  // As if the hardware fell off the bus: lists that the driver has finish, no further one starts,
  // and everything pending fails with this cause.
  void lose(Failure cause);

 protected:
  // `immediate`: lists are waited for inside the call that submits them, and none is kept back.
  GpuDevice(DeviceInfo info, std::shared_ptr<GpuCore> core, bool immediate,
            sync::Duration close_bound);
  // To be called by the destructor of the last class.
  void end();

  // Null for an immediate device.
  const std::shared_ptr<GpuWatcher>& watcher() const noexcept;
  // Once, before anybody else knows the device.
  void set_gpu_queues(std::vector<Ref<GpuQueue>> queues);
  Failure closed() const;

  // Runs `make`, which calls the driver, unless the device is lost or closed.
  template <typename Make>
  auto while_open(const Make& make) -> decltype(make()) {
    const GpuCore::Use use(*gpu_);
    if (Failure gone = lost()) return gone;
    if (!use) return closed();
    return make();
  }
  // The same for an import, whose deleter runs where it is refused.
  template <typename Import>
  Result<Ref<Buffer>> import_while_open(ExternalMemory& memory, const Import& import) {
    Result<Ref<Buffer>> imported = while_open([&]() -> Result<Ref<Buffer>> {
      if (Failure refused = check_external(memory)) return refused;
      return import();
    });
    if (!imported) drop(memory);
    return imported;
  }

 private:
  static Failure check_external(const ExternalMemory& memory);
  static void drop(ExternalMemory& memory);

  struct State;
  sync::Duration close_bound_;
  std::shared_ptr<GpuCore> gpu_;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::hal
