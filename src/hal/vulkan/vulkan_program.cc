#include "holdfast/hal/vulkan/vulkan_program.h"

#include <algorithm>

namespace holdfast::hal {
namespace {

// Recordings kept for other bindings and parameters before the least used one is recorded anew.
constexpr size_t kMaxIdle = 8;

bool has_native(const CommandList& list) {
  for (const Command& command : list) {
    if (command.kind == CommandKind::native) return true;
  }
  return false;
}

std::vector<VulkanProgram::Place> places(const CommandList& replay) {
  std::vector<VulkanProgram::Place> result;
  result.reserve(replay.slots().size());
  for (const BoundRange& slot : replay.slots()) {
    result.push_back(slot.allocation == nullptr
                         ? VulkanProgram::Place{}
                         : VulkanProgram::Place{slot.allocation->buffer()->id(),
                                                slot.allocation->offset() + slot.range.offset});
  }
  return result;
}

}  // namespace

VulkanProgram::VulkanProgram(CommandList&& list, std::shared_ptr<VulkanCore> core)
    : Program(std::move(list)), core_(std::move(core)), recordable_(!has_native(this->list())) {}

VulkanProgram::Recorded* VulkanProgram::find_locked(const std::vector<Place>& slots,
                                                    std::span<const std::byte> parameters,
                                                    uint32_t family, size_t& oldest) const {
  oldest = recorded_.size();
  for (size_t i = 0; i < recorded_.size(); ++i) {
    Recorded& r = *recorded_[i];
    if (r.taken || r.commands->family() != family) continue;
    if (r.timeline && !r.timeline->was_seen(r.value)) continue;
    if (r.valid && r.slots == slots && std::ranges::equal(r.parameters, parameters)) return &r;
    if (oldest == recorded_.size() || r.last_used < recorded_[oldest]->last_used) oldest = i;
  }
  return nullptr;
}

Result<VulkanProgram::Recorded*> VulkanProgram::take(const CommandList& replay, uint32_t family,
                                                     const GpuTimeline& timeline) const {
  std::vector<Place> slots = places(replay);
  const std::span<const std::byte> parameters = replay.replay_parameters();
  std::vector<std::byte> own_parameters(parameters.begin(), parameters.end());
  std::unique_ptr<Recorded> surplus;
  {
    const sync::LeafLock lock(mutex_);
    size_t oldest = 0;
    Recorded* found = find_locked(slots, parameters, family, oldest);
    if (found == nullptr && !recorded_.empty()) {
      (void)timeline.query(timeline.started());  // what has finished since is seen now
      found = find_locked(slots, parameters, family, oldest);
    }
    const bool replaceable = oldest < recorded_.size() && recorded_.size() >= kMaxIdle;
    if (found == nullptr && replaceable) {
      found = recorded_[oldest].get();
      found->valid = false;
      found->slots = slots;
      found->parameters = own_parameters;
    } else if (replaceable && recorded_.size() > kMaxIdle) {
      // More were in flight once.
      surplus = std::move(recorded_[oldest]);
      recorded_[oldest] = std::move(recorded_.back());
      recorded_.pop_back();
    }
    if (found != nullptr) {
      found->taken = true;
      found->last_used = ++uses_;
      return found;
    }
  }
  Result<std::unique_ptr<VulkanCommands>> commands = VulkanCommands::create(core_, family);
  if (!commands) return commands.failure();
  auto fresh = std::make_unique<Recorded>();
  fresh->commands = std::move(commands).value();
  fresh->slots = std::move(slots);
  fresh->parameters = std::move(own_parameters);
  fresh->taken = true;
  const sync::LeafLock lock(mutex_);
  fresh->last_used = ++uses_;
  recorded_.push_back(std::move(fresh));
  return recorded_.back().get();
}

}  // namespace holdfast::hal
