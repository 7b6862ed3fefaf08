#pragma once

#include <memory>

#include "holdfast/hal/validate/violation.h"
#include "holdfast/hal/wrapping_device.h"

namespace holdfast::hal {

class ValidateTimeline;
class ValidationModel;

struct ValidateOptions {
  ViolationHandler handler = print_and_abort;
};

// A device that checks, at every submission, host access and destruction, that nothing in flight is
// freed, reused or touched without order. It judges by what is ordered, not by what happened to be
// finished: the model (validation_model.h) knows vector clocks over the queues and the host, and
// for each byte who touched it last and in whose life.
//
// A condemned list is not handed on: submit answers with a failure that has the violation's
// message. What is destroyed while a list in flight needs it is reported and kept alive until that
// list is over, so that the process survives to tell. Cost: bench row validate_dispatch.
// Thread-safe.
class ValidateDevice final : public WrappingDevice {
 public:
  static Ref<ValidateDevice> wrap(Ref<Device> inner, ValidateOptions options = {});
  ~ValidateDevice() override;

  // Replaces the handler; for tests that collect.
  void set_handler(ViolationHandler handler);

  Result<Ref<Pipeline>> create_pipeline(PipelineDesc desc) override;
  Result<Ref<Program>> create_program(CommandList& list) override;
  Result<UniqueFd> export_point(const Point& point) override;
  Failure make_native_wait(void* native_stream, const Point& point) override;

 private:
  ValidateDevice(Ref<Device> inner, ValidateOptions options);

  // Buffers, Pipelines and Points may outlive the device, and the model with them.
  std::shared_ptr<ValidationModel> model_;
  std::shared_ptr<const std::vector<Ref<ValidateTimeline>>> timelines_;
};

}  // namespace holdfast::hal
