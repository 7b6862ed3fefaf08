#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "holdfast/array/compile/trace.h"
#include "holdfast/hal/command_list.h"
#include "holdfast/hal/pipeline.h"

namespace holdfast::array {

// The commands of a traced graph, with stand-ins for all memory but that of constants: Allocations
// without bytes, one for each placeholder and for each piece of memory that the steps ask for. Made
// by NodeRecorder::record_into, step by step. Belongs to one task.
class Capture {
 public:
  // `takes`: for each placeholder, whether steps may work in its memory.
  Capture(const Trace& trace, const DeviceState& device, const std::vector<bool>& takes);
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // For the recorder.
  const Ref<hal::Allocation>& memory_of(const Value& value) const;
  void set_memory(const Value& value, Ref<hal::Allocation> memory);
  Ref<hal::Allocation> allocate(Bytes bytes, std::string name);
  // Whether the present step may overwrite the memory of its input: nobody needs it later.
  bool may_take(const Value& value) const;
  hal::CommandList& list() noexcept { return lists_.back(); }
  // The step's commands are in the list, their pipelines still have users, and it needed so many
  // hidden copies.
  void end_step(uint32_t copies);

  // The commands of a step that has ended.
  const hal::CommandList& commands(size_t step) const noexcept { return lists_[step]; }
  uint32_t copies() const noexcept { return copies_; }
  // Whether it stands for memory, and is none itself.
  bool is_stand_in(const hal::Allocation& memory) const { return stand_ins_.contains(&memory); }

 private:
  const Trace& trace_;
  const hal::DeviceInfo& device_;
  const std::vector<bool>& takes_;
  std::vector<hal::CommandList> lists_;  // the last one is the present step's
  std::unordered_map<const hal::Allocation*, Ref<hal::Allocation>> stand_ins_;
  std::unordered_map<const Value*, Ref<hal::Allocation>> memory_;
  std::unordered_map<const Value*, size_t> last_step_;  // that has it as an input
  std::vector<Ref<hal::Pipeline>> pipelines_;
  uint32_t copies_ = 0;
};

}  // namespace holdfast::array
