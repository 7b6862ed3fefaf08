#include "holdfast/array/compile/program_writer.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>

#include "holdfast/base/ablation.h"
#include "holdfast/hal/device.h"

namespace holdfast::array {
namespace {

class ProgramWriter {
 public:
  ProgramWriter(const Capture& capture, const Trace& trace, const BoundMemory& bound,
                hal::Device& device, const std::string& name)
      : capture_(capture),
        trace_(trace),
        bound_(bound),
        device_(device),
        name_(name),
        list_(new_list()) {}

  RecordedProgram run() {
    find_last_uses();
    size_t index = 0;
    for (size_t step = 0; step < trace_.steps.size(); ++step) {
      if (step > 0 && trace_.steps[step].wave != trace_.steps[step - 1].wave) end_wave();
      const hal::CommandList& commands = capture_.commands(step);
      for (const hal::Command& command : commands) add(commands, command, index++);
    }
    if (!list_.empty()) seal();
    program_.arena = arena_.size();
    program_.copies = capture_.copies();
    return std::move(program_);
  }

 private:
  // Memory in the arena.
  struct Place {
    ByteRange bytes;
    uint32_t last_wave = 0;
  };
  struct Uses {
    size_t last = 0;  // command
    bool read = false;
  };
  using Bindings = boost::container::small_vector<hal::Binding, 8>;

  hal::CommandList new_list() const {
    hal::CommandList list(device_.info(), name_);
    list.keep_users();
    return list;
  }

  bool is_in_arena(const hal::Allocation& memory) const {
    return capture_.is_stand_in(memory) && !bound_.contains(&memory);
  }

  void find_last_uses() {
    size_t index = 0;
    for (size_t step = 0; step < trace_.steps.size(); ++step) {
      for (const hal::Command& command : capture_.commands(step)) {
        for (const hal::BoundRange& b : command.bindings()) {
          if (!is_in_arena(*b.allocation)) continue;
          Uses& uses = uses_[b.allocation];
          if (uses.read && ablated(Ablation::arena_freed_after_first_reader)) continue;
          uses.last = index;
          uses.read |= hal::reads(b.access);
        }
        ++index;
      }
    }
  }

  void add(const hal::CommandList& commands, const hal::Command& command, size_t index) {
    // A native command is alone in its program: devices have better ways to run all others.
    const bool is_native = command.kind == hal::CommandKind::native;
    const bool is_full = slots_with(command) > static_cast<size_t>(hal::kMaxSlots);
    if ((is_native || is_full) && !list_.empty()) seal();
    bool barrier = hazards_.reserve(command.binding_count);
    Bindings bindings;
    for (const hal::BoundRange& b : command.bindings()) {
      bindings.push_back(translated(b, barrier));
      if (is_written_by_someone(*b.allocation)) {
        barrier = barrier || hazards_.conflicts(entry_of(b), b.range, b.access);
      }
    }
    if (barrier && !list_.empty()) {
      list_.barrier();
      hazards_.next_wave();
    }
    for (const hal::BoundRange& b : command.bindings()) {
      if (is_written_by_someone(*b.allocation)) hazards_.add(entry_of(b), b.range, b.access);
      const auto place = places_.find(b.allocation);
      if (place == places_.end()) continue;
      place->second.last_wave = hazards_.wave();
      const bool listed = std::ranges::find(over_, b.allocation) != over_.end();
      if (uses_.at(b.allocation).last == index && !listed) over_.push_back(b.allocation);
    }
    append(commands, command, bindings);
    if (is_native) seal();
  }

  // Arguments and constants are only read.
  bool is_written_by_someone(const hal::Allocation& memory) const {
    const auto found = bound_.find(&memory);
    if (found == bound_.end()) return capture_.is_stand_in(memory);
    return found->second.kind != SlotSource::Kind::argument;
  }
  runtime::HazardTracker::Entry& entry_of(const hal::BoundRange& b) {
    return hazards_.entry(b.allocation->id().value);
  }

  // Sets `barrier` where the bytes had an earlier life in the present wave.
  hal::Binding translated(const hal::BoundRange& b, bool& barrier) {
    if (!capture_.is_stand_in(*b.allocation)) {
      return {b.allocation, b.range, b.access, /*slot=*/-1};
    }
    const auto bound = bound_.find(b.allocation);
    if (bound != bound_.end())
      return hal::Binding::of_slot(slot_of(bound->second), b.range, b.access);
    auto place = places_.find(b.allocation);
    if (place == places_.end()) {
      const Arena::Range range = arena_.allocate(b.allocation->size());
      barrier = barrier || range.last_wave >= hazards_.wave();
      place = places_.emplace(b.allocation, Place{range.bytes, hazards_.wave()}).first;
    }
    const ByteRange range{place->second.bytes.offset + b.range.offset, b.range.length};
    return hal::Binding::of_slot(slot_of({SlotSource::Kind::arena, 0}), range, b.access);
  }

  const SlotSource* source_of(const hal::Allocation& memory) const {
    static constexpr SlotSource kArena{SlotSource::Kind::arena, 0};
    if (!capture_.is_stand_in(memory)) return nullptr;
    const auto bound = bound_.find(&memory);
    return bound == bound_.end() ? &kArena : &bound->second;
  }
  uint32_t slot_of(const SlotSource& source) {
    const auto found = std::ranges::find(slots_, source);
    if (found != slots_.end()) return static_cast<uint32_t>(found - slots_.begin());
    slots_.push_back(source);
    return static_cast<uint32_t>(slots_.size() - 1);
  }
  // How many the program would have with this command.
  size_t slots_with(const hal::Command& command) const {
    boost::container::small_vector<SlotSource, 8> more;
    for (const hal::BoundRange& b : command.bindings()) {
      const SlotSource* const source = source_of(*b.allocation);
      if (source == nullptr || std::ranges::find(slots_, *source) != slots_.end()) continue;
      if (std::ranges::find(more, *source) == more.end()) more.push_back(*source);
    }
    return slots_.size() + more.size();
  }

  void append(const hal::CommandList& commands, const hal::Command& command,
              const Bindings& bindings) {
    const std::span<const hal::Binding> all(bindings.data(), bindings.size());
    switch (command.kind) {
      case hal::CommandKind::dispatch:
        list_.dispatch(Ref<hal::Pipeline>(command.pipeline), all, command.parameters(),
                       command.groups, command.label());
        break;
      case hal::CommandKind::copy: list_.copy(all[0], all[1], command.label()); break;
      case hal::CommandKind::fill: list_.fill(all[0], command.fill_value, command.label()); break;
      default: list_.native(commands.native_callback(command), all, command.label()); break;
    }
  }

  void end_wave() {
    for (const hal::Allocation* const memory : over_) {
      const Place& place = places_.at(memory);
      arena_.free(place.bytes, place.last_wave);
    }
    over_.clear();
  }

  void seal() {
    Ref<hal::Program> program = device_.create_program(list_).or_raise();
    program_.segments.push_back({std::move(program), std::exchange(slots_, {})});
    list_ = new_list();
    hazards_.start_list();
  }

  const Capture& capture_;
  const Trace& trace_;
  const BoundMemory& bound_;
  hal::Device& device_;
  const std::string& name_;
  RecordedProgram program_;
  hal::CommandList list_;  // of the present segment
  std::vector<SlotSource> slots_;
  runtime::HazardTracker hazards_;
  Arena arena_;
  std::unordered_map<const hal::Allocation*, Place> places_;
  std::unordered_map<const hal::Allocation*, Uses> uses_;  // of what is in the arena
  std::vector<const hal::Allocation*> over_;  // used for the last time in this wave of the plan
};

}  // namespace

RecordedProgram write_program(const Capture& capture, const Trace& trace, const BoundMemory& bound,
                              hal::Device& device, const std::string& name) {
  return ProgramWriter(capture, trace, bound, device, name).run();
}

}  // namespace holdfast::array
