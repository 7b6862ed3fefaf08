#include "holdfast/hal/vulkan/vulkan_queue.h"

#include <fmt/format.h>

#include <cstring>

#include "holdfast/hal/vulkan/vulkan_program.h"
#include "holdfast/hal/vulkan/vulkan_resources.h"

namespace holdfast::hal {
namespace {

// Command buffers kept for later lists; more than these were needed only for a while.
constexpr size_t kMaxSpareCommands = 64;

VkSemaphore semaphore_of(const GpuTimeline& timeline) {
  return static_cast<const VulkanProgress&>(timeline.progress()).semaphore;
}

// What the kernel of a command says of its failure; none: it has not failed.
Failure failure_in(const VulkanCommands::Report& report, const CommandList& commands,
                   const CommandList& replay) {
  const std::span memory(report.host, report.pipeline->report()->size.value);
  uint32_t first = 0;
  std::memcpy(&first, memory.data(), sizeof first);
  if (first == 0) return {};
  const Command& c = *report.command;
  std::string what = report.pipeline->describe();
  if (!c.label().empty()) what += fmt::format(", labelled '{}',", c.label());
  return Failure(ErrorCode::execution,
                 fmt::format("{} failed as command {} of {}: {}", what, commands.index_of(c),
                             replay.describe(), report.pipeline->report()->read(memory)));
}

// How a work that has run ends by what its kernels reported, with the damage of its waits.
ListFailure outcome_of(const Work& work, const VulkanCommands& ran, ListDamage damage) {
  const Program* const program = work.list->program();
  const CommandList& commands = program != nullptr ? program->list() : *work.list;
  auto next = ran.reports().begin();  // these stand in recorded order
  for (const Command& command : commands) {
    if (work.only != nullptr && work.only != &command) continue;
    const bool entered = damage.enter(command);
    if (next == ran.reports().end() || next->command != &command) continue;
    const VulkanCommands::Report& report = *next++;
    if (!entered) continue;
    if (Failure failure = failure_in(report, commands, *work.list)) damage.fail(command, failure);
  }
  return damage.finish();
}

}  // namespace

VulkanQueue::VulkanQueue(DeviceId device, uint32_t index, Ref<GpuTimeline> timeline,
                         std::shared_ptr<VulkanCore> core, VulkanNativeQueue& native, bool computes,
                         std::shared_ptr<GpuWatcher> watcher,
                         std::shared_ptr<std::atomic<uint64_t>> counter)
    : GpuQueue(device, index, std::move(timeline), core, std::move(watcher), std::move(counter)),
      core_(std::move(core)),
      native_(native),
      computes_(computes) {
  spare_.reserve(kMaxSpareCommands);
}

VulkanQueue::~VulkanQueue() = default;

Failure VulkanQueue::hand_over(const Work& work, std::span<const Command* const> skipped,
                               ListFailure known) {
  const Program* const program = work.list->program();
  const bool profiled = native_.has_timestamps && core_->profiler.enabled();
  if (program != nullptr && work.only == nullptr && !known && !profiled) {
    const auto& ours = static_cast<const VulkanProgram&>(*program);
    if (ours.is_recordable()) return replay(work, ours);
  }
  std::unique_ptr<VulkanCommands> commands = take_spare();
  if (!commands) {
    Result<std::unique_ptr<VulkanCommands>> made = VulkanCommands::create(core_, native_.family);
    if (!made) return made.failure();
    commands = std::move(made).value();
  }
  const auto keep = [&](std::unique_ptr<VulkanCommands> unused) {
    if (spare_.size() < kMaxSpareCommands) spare_.push_back(std::move(unused));
  };
  std::unique_ptr<VulkanProfiler::Recording> timing;
  if (profiled) timing = core_->profiler.record();
  Failure failure;
  {
    const Translating scope(*this, work);
    failure = translate(*core_, work, *commands, true, computes_, skipped, timing.get());
  }
  const auto end_timing = [&, value = work.point.value.value](bool taken) {
    if (!timing) return;
    if (taken) {
      core_->profiler.add(static_cast<const VulkanProgress&>(counter().progress()), value,
                          std::move(timing));
    } else {
      core_->profiler.discard(std::move(timing));
    }
  };
  // A native callback takes its time, and may close the device.
  if (!failure && core_->stopped()) {
    end_timing(false);
    keep(std::move(commands));
    return hand_over_failed(work, {core_->stop_cause(), nullptr});
  }
  if (failure) {
    end_timing(false);
    keep(std::move(commands));
    // The list's own fault is how it ends; the driver's is that it was never taken. What a callback
    // recorded before it threw cannot be taken out again, so nothing of the list runs.
    return failure.code() == ErrorCode::execution
               ? hand_over_failed(work, {std::move(failure), nullptr})
               : failure;
  }
  const VulkanCommands& handed = *commands;
  in_flight_.push_back({std::move(commands), work.point.value});
  if (!handed.reports().empty()) {
    failure = submit_reporting(work, handed);
  } else if (known) {
    failure = failing(work, std::move(known), [&] { return submit(work, handed.handle()); });
  } else {
    failure = submit(work, handed.handle());
  }
  end_timing(!failure);
  if (failure) {
    keep(std::move(in_flight_.back().commands));
    in_flight_.pop_back();
  }
  return failure;
}

Failure VulkanQueue::replay(const Work& work, const VulkanProgram& program) {
  // Once the driver has the list, nobody else need have the program.
  const KeptResource kept(program);
  Result<VulkanProgram::Recorded*> found = program.take(*work.list, native_.family, counter());
  if (!found) return found.failure();
  VulkanProgram::Recorded& recorded = *found.value();
  const VulkanProgram::Taken taken(program, recorded);
  if (!recorded.valid) {
    if (Failure failure = translate(*core_, work, *recorded.commands, false, computes_))
      return failure;
    recorded.valid = true;
  }
  const TimelineValue value = work.point.value;
  const VulkanCommands& commands = *recorded.commands;
  if (Failure failure = commands.reports().empty() ? submit(work, commands.handle())
                                                   : submit_reporting(work, commands)) {
    return failure;
  }
  recorded.timeline = counter_ref();
  recorded.value = value;
  return {};
}

Failure VulkanQueue::submit_reporting(const Work& work, const VulkanCommands& commands) {
  const TimelineValue value = work.point.value;
  commands.clear_reports();
  ListDamage inherited(work);
  inherit(work, inherited);
  // Nobody else uses the commands, and the work stays where it is, until the value was seen.
  counter().will_tell(value, [&work, &commands, inherited = std::move(inherited)] {
    return outcome_of(work, commands, inherited);
  });
  Failure failure;
  try {
    failure = submit(work, commands.handle());
  } catch (...) {
    counter().withdraw_telling(value);
    throw;
  }
  if (failure) counter().withdraw_telling(value);
  return failure;
}

Failure VulkanQueue::submit(const Work& work, VkCommandBuffer commands) {
  const TimelineValue value = work.point.value;
  wait_infos_.clear();
  for (const Wait& wait : work.waits) {
    const GpuTimeline* const timeline = own(wait);
    // Its own queue's order needs no waiting.
    if (timeline == nullptr || timeline == &counter() || !wait.point.pending()) continue;
    VkSemaphoreSubmitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO};
    info.semaphore = semaphore_of(*timeline);
    info.value = wait.point.value.value;
    info.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT;
    wait_infos_.push_back(info);
  }
  VkCommandBufferSubmitInfo command_info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO};
  command_info.commandBuffer = commands;
  VkSemaphoreSubmitInfo signal{VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO};
  signal.semaphore = semaphore_of(counter());
  signal.value = value.value;
  signal.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT;
  VkSubmitInfo2 info{VK_STRUCTURE_TYPE_SUBMIT_INFO_2};
  info.waitSemaphoreInfoCount = static_cast<uint32_t>(wait_infos_.size());
  info.pWaitSemaphoreInfos = wait_infos_.data();
  info.commandBufferInfoCount = commands != VK_NULL_HANDLE ? 1 : 0;
  info.pCommandBufferInfos = &command_info;
  info.signalSemaphoreInfoCount = 1;
  info.pSignalSemaphoreInfos = &signal;
  VkResult result = VK_SUCCESS;
  {
    const sync::LeafLock lock(native_.mutex);
    result = core_->queue_submit(native_.handle, 1, &info, VK_NULL_HANDLE);
    if (result == VK_SUCCESS) counter().note_started(value);
  }
  if (result != VK_SUCCESS) {
    return core_->check(result, fmt::format("{} refuses {}", name(), work.list->describe()));
  }
  if (is_immediate()) counter().wait_unseen(value);
  return {};
}

std::unique_ptr<VulkanCommands> VulkanQueue::take_spare() {
  const auto collect = [this] {
    while (!in_flight_.empty() && counter().was_seen(in_flight_.front().value)) {
      if (spare_.size() < kMaxSpareCommands)
        spare_.push_back(std::move(in_flight_.front().commands));
      in_flight_.pop_front();
    }
  };
  collect();
  // The driver is asked only where nothing else is left.
  if (spare_.empty() && !in_flight_.empty() &&
      counter().query(in_flight_.front().value) != PointState::pending) {
    collect();
  }
  if (spare_.empty()) return nullptr;
  std::unique_ptr<VulkanCommands> commands = std::move(spare_.back());
  spare_.pop_back();
  return commands;
}

}  // namespace holdfast::hal
