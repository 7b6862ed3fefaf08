#include "holdfast/hal/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "holdfast/base/log.h"
#include "holdfast/hal/cuda/cuda_products.h"
#include "holdfast/hal/cuda/cuda_queue.h"
#include "holdfast/hal/cuda/cuda_resources.h"
#include "holdfast/hal/program.h"

namespace holdfast::hal {
namespace {

// Streams beyond these share the GPU's hardware queues, and gain nothing.
constexpr uint32_t kQueues = 8;

// Its list is translated anew for each replay.
class CudaProgram final : public Program {
 public:
  explicit CudaProgram(CommandList&& list) : Program(std::move(list)) {}
};

}  // namespace

Result<Ref<CudaDevice>> CudaDevice::open(const CudaOptions& options) {
  Result<std::shared_ptr<CudaCore>> opened = CudaCore::open(options);
  if (!opened) return opened.failure();
  const std::shared_ptr<CudaCore>& core = opened.value();
  DeviceInfo info;
  info.id = DeviceId::next();
  info.name = core->name;
  info.description = core->description;
  info.queues = options.queues > 0 ? options.queues : kQueues;
  info.copy_queues = options.copy_queues.value_or(core->copy_engines > 0 ? 1 : 0);
  info.max_group_threads = core->max_group_threads;
  info.module_form = ModuleForm::cuda;
  info.architecture = core->architecture;
  info.thread_style = ThreadStyle::many_weak;
  info.max_groups = {std::min(core->max_groups.x, 0x7fffffffU),
                     std::min(core->max_groups.y, 0xffffU), std::min(core->max_groups.z, 0xffffU)};
  info.max_buffer = core->memory_limit;
  info.memory = core->memory_limit;
  info.max_buffers = ~uint32_t{0};
  info.device_memory_host_visible = false;
  info.driver_ordinal = core->device;

  Ref<CudaDevice> device(new CudaDevice(std::move(info), options, core));
  const CudaCore::Current current(*core);
  if (Failure failure = current.failure()) return failure;
  auto counter = std::make_shared<std::atomic<uint64_t>>(0);
  std::vector<Ref<GpuQueue>> queues;
  const uint32_t computing = device->info().queues;
  for (uint32_t i = 0; i < computing + device->info().copy_queues; ++i) {
    const bool computes = i < computing;
    std::string name = computes ? fmt::format("{} queue {}", core->name, i)
                                : fmt::format("{} copy queue {}", core->name, i - computing);
    Result<CudaProgress*> progress = core->make_progress();
    if (!progress) return progress.failure();
    auto timeline = make_ref<GpuTimeline>(device->id(), std::move(name), core, *progress.value());
    queues.emplace_back(make_ref<CudaQueue>(device->id(), i, std::move(timeline), core,
                                            *progress.value(), computes, device->watcher(),
                                            counter));
  }
  device->set_gpu_queues(std::move(queues));
  core->profiler.profile().set_collector([core = std::weak_ptr<CudaCore>(core)] {
    const std::shared_ptr<CudaCore> alive = core.lock();
    if (!alive) return;
    const CudaCore::Use use(*alive);
    if (!use) return;
    const CudaCore::Current entered(*alive);
    alive->profiler.collect(*alive);
  });
  return device;
}

CudaDevice::CudaDevice(DeviceInfo info, const CudaOptions& options, std::shared_ptr<CudaCore> core)
    : GpuDevice(std::move(info), core, options.immediate, options.close_bound),
      core_(std::move(core)),
      matrix_library_(options.matrix_library || !options.driver.empty()
                          ? options.matrix_library
                          : std::optional(std::string())) {}

CudaDevice::~CudaDevice() { end(); }

Result<Ref<Buffer>> CudaDevice::create_buffer(const BufferDesc& desc) {
  return while_open([&]() -> Result<Ref<Buffer>> {
    if (!desc.size) {
      return Failure(ErrorCode::usage, fmt::format("buffer '{}' would have no bytes", desc.name));
    }
    return CudaBuffer::create(id(), desc, core_);
  });
}

Result<Ref<Buffer>> CudaDevice::import_buffer(ExternalMemory memory) {
  return import_while_open(memory, [&] { return CudaBuffer::import(id(), memory, core_); });
}

Result<Ref<Pipeline>> CudaDevice::create_pipeline(PipelineDesc desc) {
  return while_open([&] { return CudaPipeline::create(id(), std::move(desc), core_); });
}

Result<Ref<Program>> CudaDevice::create_program(CommandList& list) {
  if (Failure gone = lost()) return gone;
  if (Failure refused = check_sealable(list, id())) return refused;
  return Ref<Program>(make_ref<CudaProgram>(std::move(list)));
}

Result<Point> CudaDevice::point_of_native(void* native_stream, std::string name) {
  return while_open([&]() -> Result<Point> {
    const CudaCore::Current current(*core_);
    if (Failure failure = current.failure()) return failure;
    int capturing = 0;
    const auto stream = static_cast<cu::CUstream>(native_stream);
    if (core_->cu.cuStreamIsCapturing != nullptr &&
        core_->cu.cuStreamIsCapturing(stream, &capturing) == cu::CUDA_SUCCESS && capturing != 0) {
      return Failure(
          ErrorCode::usage,
          fmt::format("the CUstream of the Point '{}' is being captured: nothing runs on "
                      "it now; end the capture first",
                      name));
    }
    Result<CudaCore::Marked> marked =
        CudaCore::mark(core_, static_cast<cu::CUstream>(native_stream),
                       fmt::format("no Point '{}' of a CUstream", name));
    if (!marked) return marked.failure();
    const auto& [progress, value] = marked.value();
    return Point{make_ref<GpuTimeline>(DeviceId{}, std::move(name), core_, *progress, progress),
                 TimelineValue{value}};
  });
}

Failure CudaDevice::make_native_wait(void* native_stream, const Point& point) {
  if (!point.pending()) return point.failure();
  const CudaCore::Use use(*core_);
  if (Failure gone = lost()) return gone;
  if (!use) return closed();
  const auto* const timeline = dynamic_cast<const GpuTimeline*>(point.timeline.get());
  if (timeline == nullptr || !timeline->is_of(*core_)) {
    return Failure(ErrorCode::usage,
                   fmt::format("a CUstream cannot wait for the Point {}: it is none of device '{}'",
                               to_string(point), info().name));
  }
  if (timeline->started() < point.value) {
    return Failure(ErrorCode::usage,
                   fmt::format("a CUstream cannot wait for the Point {}: its list still waits for "
                               "the host; try again once that has been signalled",
                               to_string(point)));
  }
  if (const ListFailure known = timeline->known_failure(point.value)) return known.cause;
  const CudaCore::Current current(*core_);
  if (Failure failure = current.failure()) return failure;
  core_->note_shared_counter();
  return core_->make_wait(static_cast<cu::CUstream>(native_stream),
                          static_cast<const CudaProgress&>(timeline->progress()), point.value.value,
                          "a CUstream cannot wait for a list");
}

Result<void*> CudaDevice::native_stream() {
  return while_open([&]() -> Result<void*> {
    const CudaCore::Current current(*core_);
    if (Failure failure = current.failure()) return failure;
    const Result<cu::CUstream> stream = core_->shared_stream();
    if (!stream) return stream.failure();
    return static_cast<void*>(stream.value());
  });
}

MatrixProducts* CudaDevice::matrix_products() {
  if (const auto known = products_.lock(); known->asked) return known->found.get();
  Products products{true, nullptr};
  if (matrix_library_) {
    // No lock is held meanwhile; whoever comes first stays.
    const Result<std::shared_ptr<CudaProducts>> opened =
        while_open([&] { return CudaProducts::open(core_, *matrix_library_); });
    if (opened) products.found = opened.value();
    logging::note(logging::Topic::device, "device '{}': matrix products are {}", info().name,
                  opened ? "those of " + products.found->describe()
                         : "our own: " + opened.failure().message());
  }
  const auto known = products_.lock();
  if (!known->asked) std::swap(*known, products);
  return known->found.get();
}

KernelProfile* CudaDevice::profile() const { return &core_->profiler.profile(); }

void* CudaDevice::context() const noexcept {
  const CudaCore::Use use(*core_);
  return use ? core_->context : nullptr;
}

std::vector<DeviceListing> list_cuda_devices(const std::string& driver) {
  const auto none = [](const std::string& why) {
    return std::vector<DeviceListing>{{"cuda", fmt::format("none: {}", why), why}};
  };
  const Result<std::shared_ptr<const CudaApi>> api = CudaApi::load(driver);
  if (!api) return none(api.failure().message());
  const Result<std::vector<CudaCandidate>> found = cuda_candidates(*api.value());
  if (!found) return none(found.failure().message());
  if (found.value().empty()) return none("NVIDIA's driver lists no GPU");
  std::vector<DeviceListing> devices;
  for (const CudaCandidate& candidate : found.value()) {
    devices.push_back(
        {fmt::format("cuda:{}", devices.size()),
         candidate.skipped.empty()
             ? candidate.description
             : fmt::format("{}; cannot be used: {}", candidate.description, candidate.skipped),
         candidate.skipped, true});
  }
  return devices;
}

}  // namespace holdfast::hal
