#include "holdfast/array/compile/capture.h"

#include <limits>

#include "holdfast/hal/buffer.h"

namespace holdfast::array {
namespace {

constexpr size_t kNeeded = std::numeric_limits<size_t>::max();  // by whoever called the function

// Memory that has a size and no bytes. It never reaches a device.
class StandIn final : public hal::Buffer {
 public:
  StandIn(hal::DeviceId device, Bytes size)
      : Buffer(device, size, hal::MemoryKind::device, "stand-in", /*imported=*/false) {}
  std::byte* host_pointer() const noexcept override { return nullptr; }
};

}  // namespace

Capture::Capture(const Trace& trace, const DeviceState& device, const std::vector<bool>& takes)
    : trace_(trace), device_(device.info), takes_(takes) {
  lists_.emplace_back(device_, "traced");
  for (const Array& array : trace.placeholders) {
    set_memory(*array.value(), allocate(array.value()->bytes(), "traced argument"));
  }
  for (const Array& array : trace.constants) set_memory(*array.value(), array.value()->memory());
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    for (const Array& input : trace.steps[i].node->inputs()) {
      last_step_[input.value().get()] = i;
    }
  }
  for (const Array& array : trace.results) last_step_[array.value().get()] = kNeeded;
  // A constant is the program's for good.
  for (const Array& array : trace.constants) last_step_[array.value().get()] = kNeeded;
}

const Ref<hal::Allocation>& Capture::memory_of(const Value& value) const {
  return memory_.at(&value);
}

void Capture::set_memory(const Value& value, Ref<hal::Allocation> memory) {
  memory_.insert_or_assign(&value, std::move(memory));
}

Ref<hal::Allocation> Capture::allocate(Bytes bytes, std::string name) {
  const ByteRange all{{}, bytes};
  Ref<hal::Allocation> memory = make_ref<hal::Allocation>(make_ref<StandIn>(device_.id, bytes), all,
                                                          std::move(name), nullptr);
  stand_ins_.emplace(memory.get(), memory);
  return memory;
}

bool Capture::may_take(const Value& value) const {
  const size_t place = trace_.place_of(value);
  if (place < trace_.placeholders.size() && !takes_[place]) return false;
  return last_step_.at(&value) == lists_.size() - 1;
}

void Capture::end_step(uint32_t copies) {
  for (const hal::Command& command : lists_.back()) {
    if (command.kind == hal::CommandKind::dispatch) pipelines_.emplace_back(command.pipeline);
  }
  lists_.emplace_back(device_, "traced");
  copies_ += copies;
}

}  // namespace holdfast::array
