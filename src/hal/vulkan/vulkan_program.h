#pragma once

#include <memory>
#include <vector>

#include "holdfast/hal/gpu/gpu_timeline.h"
#include "holdfast/hal/program.h"
#include "holdfast/hal/vulkan/vulkan_encoder.h"

namespace holdfast::hal {

// A Program with its recorded command buffers. Each is exclusive until its Point; a replay takes
// one that was recorded for the same bindings and parameters, else records one.
class VulkanProgram final : public Program {
 public:
  VulkanProgram(CommandList&& list, std::shared_ptr<VulkanCore> core);

  // Whether its commands can be recorded ahead: a native callback wants to be called each time.
  bool is_recordable() const noexcept { return recordable_; }

  // A slot's memory, as far as recorded commands know it.
  struct Place {
    BufferId buffer;
    Bytes offset;
    friend bool operator==(const Place&, const Place&) = default;
  };
  // Commands for one replay at a time.
  struct Recorded {
    std::unique_ptr<VulkanCommands> commands;
    // Whether the commands are those of the two below.
    bool valid = false;
    std::vector<Place> slots;
    std::vector<std::byte> parameters;
    Ref<GpuTimeline> timeline;  // with the value: when the driver is done with them
    TimelineValue value;
    // Guarded by the program's mutex; while it is taken, the others belong to who took it.
    bool taken = false;
    uint64_t last_used = 0;
  };
  // Commands that the driver does not have: those recorded for this replay, else some that are to
  // be translated anew. Exclusive: see Taken. `timeline` is the one to ask for progress.
  Result<Recorded*> take(const CommandList& replay, uint32_t family,
                         const GpuTimeline& timeline) const;
  // Ends the exclusive use when it goes.
  class Taken {
   public:
    Taken(const VulkanProgram& program, Recorded& recorded) noexcept
        : program_(program), recorded_(recorded) {}
    ~Taken() {
      const sync::LeafLock lock(program_.mutex_);
      recorded_.taken = false;
    }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;

   private:
    const VulkanProgram& program_;
    Recorded& recorded_;
  };

 private:
  // Takes a recording for the replay that the driver is known not to have; null where there is
  // none. Sets `oldest` to the index of the least used one among the others.
  Recorded* find_locked(const std::vector<Place>& slots, std::span<const std::byte> parameters,
                        uint32_t family, size_t& oldest) const HOLDFAST_REQUIRES(mutex_);

  std::shared_ptr<VulkanCore> core_;
  bool recordable_ = true;
  mutable sync::LeafMutex mutex_;  // guards the two below
  mutable std::vector<std::unique_ptr<Recorded>> recorded_ HOLDFAST_GUARDED_BY(mutex_);
  mutable uint64_t uses_ HOLDFAST_GUARDED_BY(mutex_) = 0;
};

}  // namespace holdfast::hal
