#include "holdfast/hal/cpu/cpu_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include "holdfast/base/leave_alive.h"
#include "holdfast/base/sync/process.h"
#include "holdfast/hal/close_once.h"
#include "holdfast/hal/cpu/cpu_buffer.h"
#include "holdfast/hal/cpu/cpu_queue.h"
#include "holdfast/hal/deleter.h"

namespace holdfast::hal {
namespace {

// After its work is done or refused, a worker needs only to notice.
constexpr sync::Duration kJoinGrace = std::chrono::milliseconds(200);

Bytes machine_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0 ? Bytes{static_cast<uint64_t>(pages)} * static_cast<uint64_t>(page)
                               : 1_GiB;
}

class CpuProgram final : public Program {
 public:
  explicit CpuProgram(CommandList&& list) : Program(std::move(list)) {}
};

}  // namespace

struct CpuDevice::State {
  std::shared_ptr<CpuShared> shared;
  std::shared_ptr<CpuMemory> memory = std::make_shared<CpuMemory>();
  std::vector<Ref<CpuQueue>> queues;
  uint32_t fork_generation = sync::fork_generation();
  CloseOnce close;
};

Ref<CpuDevice> CpuDevice::open(CpuOptions options) {
  if (options.queues == 0) throw UsageError("a CPU device needs at least one queue");
  if (!options.memory) options.memory = machine_memory();
  DeviceInfo info;
  info.id = DeviceId::next();
  info.name = "cpu";
  info.description = fmt::format("the host CPU, {} hardware threads", sync::hardware_threads());
  info.queues = options.queues;
  info.max_groups = options.max_groups;
  info.thread_style = ThreadStyle::few_strong;
  info.max_buffer = options.memory;
  info.memory = options.memory;
  info.max_buffers = options.max_buffers;
  info.max_imports = options.max_imports;
  info.device_memory_host_visible = options.device_memory_host_visible;
  return Ref<CpuDevice>(new CpuDevice(std::move(info), std::move(options)));
}

CpuDevice::CpuDevice(DeviceInfo info, CpuOptions options)
    : Device(std::move(info)), options_(std::move(options)), state_(std::make_shared<State>()) {
  state_->shared = std::make_shared<CpuShared>(
      options_.immediate ? 0 : options_.helpers.value_or(sync::hardware_threads() - 1));
  state_->memory->limit = options_.memory;
  state_->memory->max_buffers = options_.max_buffers;
  state_->memory->recycles = options_.recycles_memory;
  auto counter = std::make_shared<std::atomic<uint64_t>>(0);
  std::vector<Ref<Queue>> queues;
  for (uint32_t i = 0; i < options_.queues; ++i) {
    auto timeline = make_ref<HostTimeline>(id(), fmt::format("cpu queue {}", i));
    state_->queues.push_back(make_ref<CpuQueue>(id(), i, std::move(timeline), state_->shared,
                                                counter, options_.fail_submit, options_.immediate));
    queues.emplace_back(state_->queues.back());
  }
  set_queues(std::move(queues));
}

CpuDevice::~CpuDevice() {
  if (state_->fork_generation != sync::fork_generation()) {
    for (const Ref<CpuQueue>& queue : state_->queues) queue->forget_thread();
    leave_alive(state_);  // the threads of its pool are the parent's; nothing may join them
    return;
  }
  close(sync::Deadline::after(options_.close_bound));
}

Result<Ref<Buffer>> CpuDevice::create_buffer(const BufferDesc& desc) {
  if (Failure gone = lost()) return gone;
  if (!desc.size) {
    return Failure(ErrorCode::usage, fmt::format("buffer '{}' would have no bytes", desc.name));
  }
  if (options_.fail_allocation) {
    if (Failure injected = options_.fail_allocation(desc)) return injected;
  }
  return CpuBuffer::create(id(), desc, options_.device_memory_host_visible, state_->memory);
}

Result<Ref<Buffer>> CpuDevice::import_buffer(ExternalMemory memory) {
  Failure refused = lost();
  if (!refused && (memory.data == nullptr || !memory.size)) {
    refused = Failure(ErrorCode::usage,
                      fmt::format("external memory '{}' has no bytes to import", memory.name));
  }
  if (refused) {
    run_deleter(memory.deleter, memory.name);
    return refused;
  }
  return CpuBuffer::import(id(), std::move(memory));
}

Result<Ref<Pipeline>> CpuDevice::create_pipeline(PipelineDesc desc) {
  if (Failure gone = lost()) return gone;
  const auto* function = std::get_if<HostFunction>(&desc.module);
  if (function == nullptr || !*function) {
    return Failure(
        ErrorCode::unsupported,
        fmt::format("kernel '{}': the CPU device runs host functions, and this module is "
                    "none",
                    desc.name));
  }
  if (Failure refused = check_limits(desc)) return refused;
  return Ref<Pipeline>(make_ref<CpuPipeline>(id(), std::move(desc), profile_));
}

Result<Ref<Program>> CpuDevice::create_program(CommandList& list) {
  if (Failure gone = lost()) return gone;
  if (Failure refused = check_sealable(list, id())) return refused;
  return Ref<Program>(make_ref<CpuProgram>(std::move(list)));
}

Failure CpuDevice::lost() const { return state_->shared->stop_cause(); }

void CpuDevice::lose(Failure cause) {
  if (!cause) throw UsageError("a device cannot be lost without a cause");
  state_->shared->stop(std::move(cause));
}

CloseReport CpuDevice::close(sync::Deadline deadline) {
  // What a list lets go of may be the last Ref to this device.
  const std::shared_ptr<State> state = state_;
  if (auto report = state->close.begin(fmt::format("device '{}'", info().name))) return *report;
  for (const Ref<CpuQueue>& queue : state->queues) queue->refuse_new_work();
  for (const Ref<CpuQueue>& queue : state->queues) queue->wait_idle(deadline);
  lose(Failure(ErrorCode::closed,
               fmt::format("device '{}' was closed before the list could run", info().name)));
  CloseReport report;
  for (const Ref<CpuQueue>& queue : state->queues) {
    queue->join(sync::Deadline::after(kJoinGrace));
    const Retired finished = queue->retire();
    report.add_left(*queue);
  }
  state->close.finish(report);
  return report;
}

}  // namespace holdfast::hal
