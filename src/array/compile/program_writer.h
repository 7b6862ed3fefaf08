#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "holdfast/array/compile/arena.h"
#include "holdfast/array/compile/capture.h"
#include "holdfast/hal/program.h"
#include "holdfast/runtime/hazards.h"

namespace holdfast::array {

// What a slot is bound to in each replay.
struct SlotSource {
  enum class Kind : uint8_t { argument, output, arena } kind = Kind::arena;
  size_t index = 0;  // of the placeholder, or among the node's outputs
  friend bool operator==(const SlotSource&, const SlotSource&) = default;
};

// A traced graph as the device runs it. Immutable.
struct RecordedProgram {
  // More than one where there are more slots than a program has, or native commands.
  struct Segment {
    Ref<hal::Program> program;
    std::vector<SlotSource> slots;
  };
  std::vector<Segment> segments;  // to be run one after the other
  Bytes arena;
  // Placeholders whose memory becomes an output's, before anything else happens.
  struct Donated {
    size_t placeholder;
    size_t output;
  };
  std::vector<Donated> donated;
  uint32_t copies = 0;  // hidden ones, in each replay
};

// Which memory of a capture each replay binds anew; the rest goes to the arena.
using BoundMemory = std::unordered_map<const hal::Allocation*, SlotSource>;

// Seals the captured commands into programs: with barriers where the bytes ask for them, and with
// memory of an arena, which is given out again once the last command that uses it is recorded.
// Memory that a wave of the plan lets go is not used again in that wave, where it would force a
// barrier.
RecordedProgram write_program(const Capture& capture, const Trace& trace, const BoundMemory& bound,
                              hal::Device& device, const std::string& name);

}  // namespace holdfast::array
