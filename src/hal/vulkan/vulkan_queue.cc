#include "holdfast/hal/vulkan/vulkan_queue.h"

#include <fmt/format.h>

#include <new>

#include "holdfast/hal/vulkan/vulkan_program.h"
#include "holdfast/hal/vulkan/vulkan_watcher.h"

namespace holdfast::hal {
namespace {

// Command buffers kept for later lists; more than these were needed only for a while.
constexpr size_t kMaxSpareCommands = 64;

}  // namespace

VulkanQueue::VulkanQueue(DeviceId device, uint32_t index, Ref<VulkanTimeline> timeline,
                         std::shared_ptr<VulkanCore> core, VulkanNativeQueue& native, bool computes,
                         std::shared_ptr<VulkanWatcher> watcher,
                         std::shared_ptr<std::atomic<uint64_t>> counter)
    : Queue(device, index, timeline->name(), timeline, std::move(counter)),
      semaphore_(std::move(timeline)),
      core_(std::move(core)),
      native_(native),
      computes_(computes),
      watcher_(std::move(watcher)) {
  spare_.reserve(kMaxSpareCommands);
}

VulkanQueue::~VulkanQueue() = default;

const VulkanTimeline* VulkanQueue::own(const Wait& wait) const noexcept {
  if (!wait.point.timeline || wait.point.timeline->device() != device()) return nullptr;
  return dynamic_cast<const VulkanTimeline*>(wait.point.timeline.get());
}

bool VulkanQueue::may_start(const Work& work) const {
  for (const Wait& wait : work.waits) {
    const VulkanTimeline* const timeline = own(wait);
    if (timeline != nullptr ? timeline->started() < wait.point.value : wait.point.pending()) {
      return false;
    }
  }
  return true;
}

void VulkanQueue::inherit(const Work& work, ListDamage& damage) const {
  for (size_t i = 0; i < work.waits.size(); ++i) {
    const Wait& wait = work.waits[i];
    if (wait.kind != WaitKind::data || !wait.point.timeline) continue;
    const VulkanTimeline* const timeline = own(wait);
    const ListFailure failure = timeline != nullptr
                                    ? timeline->known_failure(wait.point.value)
                                    : ListFailure{wait.point.failure(), wait.point.damage()};
    if (failure) damage.wait_failed(i, failure);
  }
}

Failure VulkanQueue::execute(const Work& work) {
  try {
    const VulkanCore::Use use(*core_);
    const VulkanCore::Start right(*core_);
    if (!right) return core_->stop_cause();
    bool at_once = use && may_start(work);
    {
      const sync::LeafLock lock(mutex_);
      if (refusing_ || !use) {
        return Failure(ErrorCode::closed, fmt::format("{} is closed", name()));
      }
      // Only the task that has the turn keeps lists back: what is so now stays so below.
      at_once = at_once && kept_back_.empty();
    }
    if (!at_once) return keep_back(work);
    const TimelineValue value = work.point.value;
    Failure failure = start(work);
    const sync::LeafLock lock(mutex_);
    if (!failure) accepted_ = value.value;
    return failure;
  } catch (const std::bad_alloc&) {
    return Failure(ErrorCode::out_of_memory,
                   fmt::format("{} has no host memory to translate a list", name()));
  }
}

Failure VulkanQueue::keep_back(const Work& work) {
  if (!watcher_) {
    return Failure(ErrorCode::usage,
                   fmt::format("{} runs lists at once, and {} waits for what is not resolved",
                               name(), work.list->describe()));
  }
  if (Failure failure = watcher_->begin()) return failure;
  {
    const sync::LeafLock lock(mutex_);
    kept_back_.push_back(&work);
    accepted_ = work.point.value.value;
  }
  watcher_->wake();
  return {};
}

bool VulkanQueue::start_kept_back(std::vector<Point>& waits_for) {
  bool started = false;
  for (;;) {
    // While the device cannot end, what is kept back stays as it is.
    const VulkanCore::Start right(*core_);
    if (!right) return started;
    const Work* work = nullptr;
    {
      const sync::LeafLock lock(mutex_);
      if (kept_back_.empty()) return started;
      work = kept_back_.front();
    }
    if (!may_start(*work)) {
      const size_t before = waits_for.size();
      for (const Wait& wait : work->waits) {
        if (own(wait) == nullptr && wait.point.pending()) waits_for.push_back(wait.point);
      }
      // What was pending a moment ago may have been resolved meanwhile.
      if (waits_for.size() == before && may_start(*work)) continue;
      return started;
    }
    Failure failure;
    try {
      failure = start(*work);
      // It was accepted, so it has to come to an end: if not well, then as a failure.
      if (failure) {
        ListDamage damage(*work);
        inherit(*work, damage);
        const Failure cause = damage.finish().cause;
        failure = start_failed(*work, {cause ? cause : failure, nullptr});
      }
    } catch (const std::bad_alloc&) {
      failure = Failure(ErrorCode::out_of_memory, "no host memory");
    }
    if (failure) {
      core_->stop(Failure(ErrorCode::device_lost,
                          fmt::format("{} takes no work any more, not even to say that a list "
                                      "failed: {}",
                                      name(), failure.message())));
      return started;
    }
    const sync::LeafLock lock(mutex_);
    kept_back_.pop_front();
    started = true;
  }
}

Failure VulkanQueue::start(const Work& work) {
  ListDamage damage(work);
  inherit(work, damage);
  if (damage.forbids_all()) return start_failed(work, damage.finish());
  if (damage.any()) return start_damaged(work, damage);
  if (work.list->empty()) return submit(work, VK_NULL_HANDLE);
  if (const Program* program = work.list->program(); program != nullptr && work.only == nullptr) {
    const auto& ours = static_cast<const VulkanProgram&>(*program);
    if (ours.is_recordable()) return start_replay(work, ours);
  }
  return start_list(work);
}

Failure VulkanQueue::start_damaged(const Work& work, ListDamage& damage) {
  const Program* const program = work.list->program();
  std::vector<const Command*> skipped;
  for (const Command& command : program != nullptr ? program->list() : *work.list) {
    if (!damage.enter(command)) skipped.push_back(&command);
  }
  return start_list(work, skipped, damage.finish());
}

Failure VulkanQueue::start_list(const Work& work, std::span<const Command* const> skipped,
                                ListFailure known) {
  std::unique_ptr<VulkanCommands> commands = take_spare();
  if (!commands) {
    Result<std::unique_ptr<VulkanCommands>> made = VulkanCommands::create(core_, native_.family);
    if (!made) return made.failure();
    commands = std::move(made).value();
  }
  const auto keep = [&](std::unique_ptr<VulkanCommands> unused) {
    if (spare_.size() < kMaxSpareCommands) spare_.push_back(std::move(unused));
  };
  translating_for_.store(work.queue);
  Failure failure = translate(*core_, work, *commands, true, computes_, skipped);
  translating_for_.store(nullptr);
  // A native callback takes its time, and may close the device.
  if (!failure && core_->stopped()) {
    keep(std::move(commands));
    return start_failed(work, {core_->stop_cause(), nullptr});
  }
  if (failure) {
    keep(std::move(commands));
    // The list's own fault is how it ends; the driver's is that it was never taken. What a callback
    // recorded before it threw cannot be taken out again, so nothing of the list runs.
    return failure.code() == ErrorCode::execution
               ? start_failed(work, {std::move(failure), nullptr})
               : failure;
  }
  const VkCommandBuffer handle = commands->handle();
  in_flight_.push_back({std::move(commands), work.point.value});
  failure = known ? start_failed(work, std::move(known), handle) : submit(work, handle);
  if (failure) {
    keep(std::move(in_flight_.back().commands));
    in_flight_.pop_back();
  }
  return failure;
}

Failure VulkanQueue::start_replay(const Work& work, const VulkanProgram& program) {
  // Once the driver has the list, nobody else need have the program.
  const KeptResource kept(program);
  Result<VulkanProgram::Recorded*> found = program.take(*work.list, native_.family, *semaphore_);
  if (!found) return found.failure();
  VulkanProgram::Recorded& recorded = *found.value();
  const VulkanProgram::Taken taken(program, recorded);
  if (!recorded.valid) {
    if (Failure failure = translate(*core_, work, *recorded.commands, false, computes_))
      return failure;
    recorded.valid = true;
  }
  const TimelineValue value = work.point.value;
  if (Failure failure = submit(work, recorded.commands->handle())) return failure;
  recorded.timeline = semaphore_;
  recorded.value = value;
  return {};
}

Failure VulkanQueue::start_failed(const Work& work, ListFailure failure, VkCommandBuffer commands) {
  const TimelineValue value = work.point.value;
  semaphore_->will_fail(value, std::move(failure));
  try {
    Failure refused = submit(work, commands);
    if (refused) semaphore_->withdraw(value);
    return refused;
  } catch (...) {
    semaphore_->withdraw(value);
    throw;
  }
}

Failure VulkanQueue::submit(const Work& work, VkCommandBuffer commands) {
  const TimelineValue value = work.point.value;
  wait_infos_.clear();
  for (const Wait& wait : work.waits) {
    const VulkanTimeline* const timeline = own(wait);
    // Its own queue's order needs no waiting.
    if (timeline == nullptr || timeline == semaphore_.get() || !wait.point.pending()) continue;
    VkSemaphoreSubmitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO};
    info.semaphore = timeline->semaphore();
    info.value = wait.point.value.value;
    info.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT;
    wait_infos_.push_back(info);
  }
  VkCommandBufferSubmitInfo command_info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO};
  command_info.commandBuffer = commands;
  VkSemaphoreSubmitInfo signal{VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO};
  signal.semaphore = semaphore_->semaphore();
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
    if (result == VK_SUCCESS) semaphore_->note_started(value);
  }
  if (result != VK_SUCCESS) {
    return core_->check(result, fmt::format("{} refuses {}", name(), work.list->describe()));
  }
  if (!watcher_) semaphore_->wait_unseen(value);
  return {};
}

std::unique_ptr<VulkanCommands> VulkanQueue::take_spare() {
  const auto collect = [this] {
    while (!in_flight_.empty() && semaphore_->was_seen(in_flight_.front().value)) {
      if (spare_.size() < kMaxSpareCommands)
        spare_.push_back(std::move(in_flight_.front().commands));
      in_flight_.pop_front();
    }
  };
  collect();
  // The driver is asked only where nothing else is left.
  if (spare_.empty() && !in_flight_.empty() &&
      semaphore_->query(in_flight_.front().value) != PointState::pending) {
    collect();
  }
  if (spare_.empty()) return nullptr;
  std::unique_ptr<VulkanCommands> commands = std::move(spare_.back());
  spare_.pop_back();
  return commands;
}

void VulkanQueue::refuse_new_work() {
  const sync::LeafLock lock(mutex_);
  refusing_ = true;
}

bool VulkanQueue::wait_idle(sync::Deadline deadline) const {
  uint64_t last = 0;
  {
    const sync::LeafLock lock(mutex_);
    last = accepted_;
  }
  return semaphore_->wait({last}, deadline) != PointState::pending;
}

bool VulkanQueue::is_translating_here() const noexcept {
  return executing() != nullptr && executing() == translating_for_.load();
}

}  // namespace holdfast::hal
