#include "holdfast/runtime/context.h"

#include <fmt/format.h>

#include "holdfast/base/ablation.h"
#include "holdfast/base/error.h"
#include "holdfast/runtime/core.h"
#include "holdfast/runtime/recorder.h"
#include "holdfast/runtime/stream.h"

namespace holdfast::runtime {

Ref<Context> Context::create(Ref<hal::Device> device, Options options) {
  if (!device) throw UsageError("a context needs a device (was its Ref moved from?)");
  if (Failure lost = device->lost()) lost.raise();
  read_safety_overrides();
  Ref<Context> context(new Context(std::move(device), options));
  context->core_->start_reaper();
  close_at_exit(context->core_);
  return context;
}

Context::Context(Ref<hal::Device> device, Options options)
    : device_(std::move(device)), core_(std::make_shared<Core>(device_, options)) {}

Context::~Context() { core_->close(); }

Ref<Stream> Context::new_stream(StreamOptions options) {
  core_->check_usable();
  const uint32_t number = streams_made_.fetch_add(1, std::memory_order_relaxed);
  const auto queues = device_->queues().first(device_->info().queues);
  const uint32_t queue = options.queue.value_or(number % static_cast<uint32_t>(queues.size()));
  if (queue >= queues.size()) {
    throw UsageError(fmt::format("stream '{}' asks for queue {}; device '{}' has {}", options.name,
                                 queue, device_->info().name, queues.size()));
  }
  if (options.name.empty()) options.name = fmt::format("stream {}", number);
  auto recorder = make_ref<Recorder>(core_, queues[queue], std::move(options.name));
  core_->add_recorder(recorder);
  return Ref<Stream>(new Stream(Ref<Context>(this), std::move(recorder)));
}

Ref<hal::Pipeline> Context::create_pipeline(hal::PipelineDesc desc) {
  core_->check_usable();
  return device_->create_pipeline(std::move(desc)).or_raise();
}

Ref<hal::Allocation> Context::allocate(Bytes size, std::string name, hal::MemoryKind kind,
                                       const std::source_location& site) {
  return core_->allocate(nullptr, size, std::move(name), kind, site);
}

Ref<hal::Allocation> Context::import(hal::ExternalMemory memory) {
  return core_->import(std::move(memory));
}

void Context::add_outside_access(const Ref<hal::Allocation>& allocation, hal::Access access,
                                 const hal::Point& point) {
  check_own(allocation, "an access of others");
  core_->add_outside_access(*allocation, access, point);
}

void Context::make_native_wait(void* native_stream, const Ref<hal::Allocation>& written) {
  check_own(written, "a native stream's wait");
  core_->make_native_wait(native_stream, *written);
}

void Context::check_own(const Ref<hal::Allocation>& allocation, const char* what) const {
  core_->check_usable();
  if (!allocation) {
    throw UsageError(fmt::format("{} names no allocation (was its Ref moved from?)", what));
  }
  if (allocation->device() != device_->id()) {
    throw UsageError(
        fmt::format("{} is for {}, which belongs to another device", what, allocation->describe()));
  }
}

Ref<hal::HostTimeline> Context::new_host_timeline(std::string name) {
  core_->check_usable();
  return device_->create_host_timeline(std::move(name)).or_raise();
}

void Context::wait(const hal::Point& point, const WaitLimit& limit) {
  if (core_->forked()) core_->check_usable();
  const hal::PointState state = core_->waits().wait(point, WaitReason::point, limit);
  if (!core_->closed()) core_->retire();
  if (state == hal::PointState::failed) point.failure().raise();
}

void Context::synchronize(const WaitLimit& limit) {
  core_->check_usable();
  Failure first;
  std::vector<hal::Point> points;
  for (const Ref<Recorder>& recorder : core_->recorders()) {
    Result<hal::Point> flushed = recorder->flush();
    if (!flushed) {
      // A stream that another task drops meanwhile has submitted its last list.
      const bool dropped = flushed.failure().code() == ErrorCode::closed && recorder->ended();
      if (!first && (!dropped || core_->closed())) first = flushed.failure();
      continue;
    }
    points.push_back(std::move(flushed).value());
  }
  // Also what streams submitted that are gone.
  std::vector<hal::Point> newest;
  for (const Ref<hal::Queue>& queue : device_->queues()) {
    hal::Point last;
    queue->visit_in_flight([&](const hal::Submission& s) { last = s.point; });
    newest.push_back(std::move(last));
  }
  for (const hal::Point& point : newest) {
    core_->waits().wait(point, WaitReason::synchronize, limit);
  }
  for (const hal::Point& point : points) {
    const hal::PointState state = core_->waits().wait(point, WaitReason::synchronize, limit);
    if (state == hal::PointState::failed && !first) first = point.failure();
  }
  core_->retire();
  first.raise_if_any();
}

size_t Context::retire() {
  core_->check_usable();
  return core_->retire();
}

void Context::trim() {
  core_->check_usable();
  core_->retire();
  core_->trim();
}

void Context::set_memory_limit(Bytes limit) {
  core_->check_usable();
  core_->allocator().set_memory_limit(limit);
}

void Context::set_cache_limit(Bytes limit) {
  core_->check_usable();
  core_->allocator().set_cache_limit(limit);
  core_->retire();
  core_->trim(limit);
}

RuntimeStats Context::stats() const {
  if (core_->forked()) core_->check_usable();
  return core_->stats();
}

Snapshot Context::who_holds_what() const {
  if (core_->forked()) core_->check_usable();
  return core_->who_holds_what();
}

hal::CloseReport Context::close() {
  // What a list lets go of may be the last Ref to this Context.
  const std::shared_ptr<Core> core = core_;
  return core->close();
}

bool Context::closed() const noexcept { return core_->closed(); }

}  // namespace holdfast::runtime
