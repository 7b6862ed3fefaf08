#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "holdfast/base/bytes.h"
#include "holdfast/testing/world.h"

// Programs of a few verbs and small numbers, and what a host that does one thing after another
// would compute. Every list of Ops is a program: what one needs and lacks is made up first.
namespace holdfast::testing::random_programs {

enum class Verb : uint8_t {
  fill,
  affine,           // a in place
  add,              // a to b
  mix,              // a and b into c, which is read too
  copy,             // a to b
  native,           // a in place, by a callback: flipped on the CPU, filled on a GPU
  transaction,      // a to b, through scratch
  rollback,         // the same, given up
  replay,           // a to b, by a program with two slots
  record_fixed,     // a program that changes a part of a in place and copies it to a slot
  replay_fixed,     // that one, to b
  upload,           // to a
  readback,         // of a
  map_read,         // of a
  map_write,        // of a
  map_update,       // of a, read and written
  map_beside,       // of a for reading; while it lives, b is changed in place
  allocate,         // anew in a's place
  import,           // host memory in a's place
  drop,             // a
  drop_elsewhere,   // a, on a task that only drops
  flush,            // the stream
  wait_for,         // the stream waits for what another one has recorded
  synchronize,      // the stream
  synchronize_all,  // every stream
  retire,           // what is finished
  trim,             // what is free
  new_stream,       // in the stream's place
};
inline constexpr unsigned kVerbs = 28;
const char* to_string(Verb verb);

inline constexpr unsigned kTasks = 3;
// How a task names arrays. Most are its own; the others are shared or a neighbour's.
inline constexpr unsigned kArrayChoices = 8;

// All numbers are taken modulo what there is of them.
struct Op {
  Verb verb = Verb::fill;
  unsigned task = 0;
  unsigned stream = 0;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned at = 0;      // where a range begins, in eighths of the array
  unsigned length = 0;  // how many eighths more than one it has, and how large a new array is
  unsigned to = 0;      // where the range that is written begins
  unsigned value = 0;
};

struct Program {
  // Where it runs. On a GPU a native callback adds commands of its own. On Vulkan ranges also begin
  // at multiples of 16 bytes, which is what kernels there can be given, and imports are whole
  // pages.
  Family family = Family::cpu;
  unsigned queues = 1;
  unsigned streams = 1;
  // Whether the host reaches device memory.
  bool host_visible = true;
  // Budgets so small that they are used up all the time.
  bool tight = false;
  bool reaper = false;
  uint64_t seed = 1;  // of its first schedule
  std::vector<Op> ops;
};

// As source, to be pasted into a scenario, and as the steps that come of it.
std::ostream& operator<<(std::ostream& out, const Program& program);
// How many steps come of it.
size_t step_count(const Program& program);

// Runs it; every byte that it reads must be the sequential host's. Whatever raises is a failure,
// unless a fault may have caused it (`may_raise`) and it says nothing of usage; then what the
// failed call would have written is not looked at until it is overwritten, and all else must still
// be right.
void run_program(World& world, const Program& program, bool may_raise);
inline void run_program(World& world, const Program& program) {
  run_program(world, program, world.has_faults());
}

}  // namespace holdfast::testing::random_programs
