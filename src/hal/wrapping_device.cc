#include "holdfast/hal/wrapping_device.h"

namespace holdfast::hal {
namespace {

DeviceInfo renamed(DeviceInfo info, std::string name) {
  info.name = std::move(name);
  return info;
}

}  // namespace

WrappingDevice::WrappingDevice(Ref<Device> inner, std::string name)
    : Device(renamed(inner->info(), std::move(name))), inner_(std::move(inner)) {}

Result<Ref<Buffer>> WrappingDevice::create_buffer(const BufferDesc& desc) {
  return with_probe(inner_->create_buffer(desc));
}

Result<Ref<Buffer>> WrappingDevice::import_buffer(ExternalMemory memory) {
  return with_probe(inner_->import_buffer(std::move(memory)));
}

Result<Ref<Pipeline>> WrappingDevice::create_pipeline(PipelineDesc desc) {
  return with_probe(inner_->create_pipeline(std::move(desc)));
}

Result<Ref<Program>> WrappingDevice::create_program(CommandList& list) {
  return with_probe(inner_->create_program(list));
}

Result<Ref<HostTimeline>> WrappingDevice::create_host_timeline(std::string name) {
  return inner_->create_host_timeline(std::move(name));
}

Result<UniqueFd> WrappingDevice::export_point(const Point& point) {
  return inner_->export_point(point);
}

Result<Point> WrappingDevice::point_of_native(void* native_stream, std::string name) {
  return inner_->point_of_native(native_stream, std::move(name));
}

Failure WrappingDevice::make_native_wait(void* native_stream, const Point& point) {
  return inner_->make_native_wait(native_stream, point);
}

Result<Point> WrappingDevice::import_point(UniqueFd descriptor, std::string name) {
  return inner_->import_point(std::move(descriptor), std::move(name));
}

CloseReport WrappingDevice::close(sync::Deadline deadline) {
  return close_with(inner_, {queues().begin(), queues().end()}, deadline);
}

CloseReport WrappingDevice::close_with(Ref<Device> inner, std::vector<Ref<Queue>> queues,
                                       sync::Deadline deadline) {
  // Its own queues were given nothing to keep, so they have nothing to report.
  inner->close(deadline);
  CloseReport report;
  for (const Ref<Queue>& queue : queues) {
    const Retired finished = queue->retire();
    report.add_left(*queue);
  }
  return report;
}

}  // namespace holdfast::hal
