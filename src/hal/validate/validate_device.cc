#include "holdfast/hal/validate/validate_device.h"

#include <fmt/format.h>

#include "holdfast/hal/validate/validate_queue.h"
#include "holdfast/hal/validate/validation_model.h"

namespace holdfast::hal {
namespace {

class ValidateProbe final : public Probe {
 public:
  ValidateProbe(Ref<Probe> next, std::shared_ptr<ValidationModel> model)
      : Probe(std::move(next)), model_(std::move(model)) {}

  void born(const Allocation& allocation) noexcept override {
    model_->born(allocation);
    Probe::born(allocation);
  }
  void died(const Allocation& allocation) noexcept override {
    model_->died(allocation);
    Probe::died(allocation);
  }
  bool keeps(const Resource& resource) noexcept override {
    return model_->keeps(resource) || Probe::keeps(resource);
  }
  bool keeps(Buffer& buffer) noexcept override {
    return model_->keeps(buffer) || Probe::keeps(buffer);
  }
  void host_access_begins(const Allocation& allocation, ByteRange range, Access access,
                          std::string_view name) noexcept override {
    model_->host_access_begins(allocation, range, access, name);
    Probe::host_access_begins(allocation, range, access, name);
  }
  void host_access_ends(const Allocation& allocation, ByteRange range,
                        Access access) noexcept override {
    model_->host_access_ends(allocation, range, access);
    Probe::host_access_ends(allocation, range, access);
  }

 private:
  std::shared_ptr<ValidationModel> model_;
};

}  // namespace

Ref<ValidateDevice> ValidateDevice::wrap(Ref<Device> inner, ValidateOptions options) {
  return Ref<ValidateDevice>(new ValidateDevice(std::move(inner), std::move(options)));
}

ValidateDevice::ValidateDevice(Ref<Device> wrapped, ValidateOptions options)
    : WrappingDevice(wrapped, fmt::format("validate({})", wrapped->info().name)),
      model_(
          std::make_shared<ValidationModel>(inner()->queues().size(), std::move(options.handler))) {
  set_probe(make_ref<ValidateProbe>(inner()->probe(), model_));
  auto timelines = std::make_shared<ValidateTimelines>();
  for (const Ref<Queue>& queue : inner()->queues()) {
    timelines->push_back(make_ref<ValidateTimeline>(queue->timeline(), queue->index(), model_));
  }
  timelines_ = std::move(timelines);
  auto counter = std::make_shared<std::atomic<uint64_t>>(0);
  std::vector<Ref<Queue>> queues;
  for (const Ref<Queue>& queue : inner()->queues()) {
    queues.emplace_back(make_ref<ValidateQueue>(queue, timelines_, counter, model_));
  }
  set_queues(std::move(queues));
}

ValidateDevice::~ValidateDevice() = default;

void ValidateDevice::set_handler(ViolationHandler handler) {
  model_->set_handler(std::move(handler));
}

Result<Ref<Pipeline>> ValidateDevice::create_pipeline(PipelineDesc desc) {
  auto made = WrappingDevice::create_pipeline(std::move(desc));
  if (made) model_->made(*made.value());
  return made;
}

Result<Ref<Program>> ValidateDevice::create_program(CommandList& list) {
  auto made = WrappingDevice::create_program(list);
  if (made) model_->made(*made.value());
  return made;
}

Failure ValidateDevice::make_native_wait(void* native_stream, const Point& point) {
  return inner()->make_native_wait(native_stream, inner_point(*timelines_, point));
}

Result<UniqueFd> ValidateDevice::export_point(const Point& point) {
  auto exported = inner()->export_point(inner_point(*timelines_, point));
  if (exported) model_->exported(point);
  return exported;
}

}  // namespace holdfast::hal
