#pragma once

// The switch that mutated sources ask; ./dev mutants includes it in them by its full path.
//
// One build holds every mutant of a sample. HOLDFAST_MUTANT=N turns mutant N on, for this process
// and those it starts. HOLDFAST_MUTANT_REACHED=FILE has every mutant's place write a 1 to the byte
// N of FILE when it is reached; the file is mapped, so that other processes' marks are seen, too.

#include <atomic>
#include <cstdint>

namespace holdfast::mutants {

// 0 where none is on.
extern uint32_t active;
// Null where nothing is recorded.
extern std::atomic<uint8_t>* reached;
extern uint32_t reached_size;

// Whether mutant `number` is on. Never constant: where C++ asks for a constant, a mutant does not
// compile, and is dropped.
inline bool on(uint32_t number) {
  if (reached != nullptr && number < reached_size) {
    reached[number].store(1, std::memory_order_relaxed);
  }
  return number == active;
}

}  // namespace holdfast::mutants
