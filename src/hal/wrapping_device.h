#pragma once

#include <string>
#include <vector>

#include "holdfast/hal/device.h"

namespace holdfast::hal {

// Base of devices that stand before another one. The objects it hands out are the inner device's
// own, with the wrapper's probe on them, and it has the inner device's id: a list recorded for it
// can be handed on as it is. Its queues are its own.
class WrappingDevice : public Device {
 public:
  Result<Ref<Buffer>> create_buffer(const BufferDesc& desc) override;
  Result<Ref<Buffer>> import_buffer(ExternalMemory memory) override;
  Result<Ref<Pipeline>> create_pipeline(PipelineDesc desc) override;
  Result<Ref<Program>> create_program(CommandList& list) override;
  Result<Ref<HostTimeline>> create_host_timeline(std::string name) override;
  Result<UniqueFd> export_point(const Point& point) override;
  Result<Point> import_point(UniqueFd descriptor, std::string name) override;
  Result<Point> point_of_native(void* native_stream, std::string name) override;
  Failure make_native_wait(void* native_stream, const Point& point) override;
  Result<void*> native_stream() override { return inner_->native_stream(); }
  Failure lost() const override { return inner_->lost(); }
  // Closes the inner device; reports the lists that are left in this one's queues.
  CloseReport close(sync::Deadline deadline) override;
  Ref<Probe> probe() const override { return probe_; }
  KernelProfile* profile() const override { return inner_->profile(); }
  MatrixProducts* matrix_products() override { return inner_->matrix_products(); }

  const Ref<Device>& inner() const noexcept { return inner_; }

 protected:
  // The inner device's, under another name: "validate(cpu)".
  WrappingDevice(Ref<Device> inner, std::string name);
  // What close() does. It touches nothing of the object: what a list lets go of may be the last Ref
  // to it.
  static CloseReport close_with(Ref<Device> inner, std::vector<Ref<Queue>> queues,
                                sync::Deadline deadline);
  // Before the first object is handed out.
  void set_probe(Ref<Probe> probe) { probe_ = std::move(probe); }

 private:
  template <typename T>
  Result<Ref<T>> with_probe(Result<Ref<T>> made) const {
    if (made) made.value()->set_probe(probe_);
    return made;
  }

  Ref<Device> inner_;
  Ref<Probe> probe_;
};

}  // namespace holdfast::hal
