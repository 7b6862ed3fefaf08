#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/array/scenarios/random_graphs_reference_test.h"

// Programs that build, evaluate, read and drop arrays: plain data, made from a seed. Every list of
// Ops is a program: what one needs and lacks is made up first, so any of them may be left out.
namespace holdfast::random_graphs {

enum class Verb : uint8_t {
  // Arrays out of nothing, into c.
  upload,
  full,
  arange,
  external,
  // Operations on a (and b), into c.
  binary,       // with broadcasting
  number,       // with a C++ number
  wrap,         // remainder: keeps numbers small
  compare,      // a comparison, converted
  choose,       // where, by a comparison
  reduce,       // sum or max over some axes
  matmul,       // with b where it fits, else with itself transposed
  concatenate,  // with b where it fits, else with itself
  take,         // by b's elements
  copy,
  // Views of a, into c.
  slice,
  transpose,
  reshape,
  broadcast,
  squeeze,
  expand,
  strided,
  // a with a slice that is replaced by b, into c.
  update,
  // Kernels: out of place; on inputs as they lie; in place with an input; in place with two
  // arguments; with two outputs; with init_value.
  affine,
  affine_as_it_lies,
  mix,
  pair,
  split,
  sparse,
  // Operations of the user's own: through scratch; in memory that is taken; by a native callback.
  scratched,
  taken,
  native,
  // Handles.
  share,  // a's array is c's as well
  drop,
  drop_elsewhere,  // by a task that only drops
  // Evaluations.
  eval,        // a and b
  async_eval,  // a and b
  async_all,   // every array of the task
  read,        // a
  map,         // a
  hold_map,    // a; looked at again when the task maps or holds another, or ends
  // All else.
  flush,
  wait_for,
  synchronize,
  synchronize_all,
  new_stream,
  clear_cache,
  cache_limit,
  clear_kernels,
  kernel_limits,
  submit_limits,
};
inline constexpr unsigned kVerbs = 50;
inline const char* to_string(Verb verb) {
  constexpr std::array<const char*, kVerbs> kNames{
      "upload",        "full",           "arange",      "external",
      "binary",        "number",         "wrap",        "compare",
      "choose",        "reduce",         "matmul",      "concatenate",
      "take",          "copy",           "slice",       "transpose",
      "reshape",       "broadcast",      "squeeze",     "expand",
      "strided",       "update",         "affine",      "affine_as_it_lies",
      "mix",           "pair",           "split",       "sparse",
      "scratched",     "taken",          "native",      "share",
      "drop",          "drop_elsewhere", "eval",        "async_eval",
      "async_all",     "read",           "map",         "hold_map",
      "flush",         "wait_for",       "synchronize", "synchronize_all",
      "new_stream",    "clear_cache",    "cache_limit", "clear_kernels",
      "kernel_limits", "submit_limits"};
  return kNames.at(static_cast<size_t>(verb));
}

inline constexpr unsigned kTasks = 3;
// How a task names arrays: its own, the shared ones, its neighbour's first.
inline constexpr unsigned kOwnSlots = 3;
inline constexpr unsigned kSharedSlots = 2;
inline constexpr unsigned kChoices = kOwnSlots + kSharedSlots + 1;
inline constexpr unsigned kSlots = kTasks * kOwnSlots + kSharedSlots;

struct Op {
  Verb verb = Verb::upload;
  unsigned task = 0;
  unsigned stream = 0;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  bool gives_up = false;  // a and b: the operation gets the handles themselves
  uint64_t detail = 0;    // what all else is drawn from
};

struct Program {
  unsigned queues = 1;
  unsigned streams = 1;
  bool host_visible = true;  // whether the host reaches device memory
  bool tight = false;        // budgets so small that they are used up all the time
  bool reaper = false;
  bool compiles = false;   // every node is built by a compiled function
  unsigned commands = 64;  // SubmitLimits
  uint64_t seed = 1;       // of its first schedule
  std::vector<Op> ops;
};

// What a program comes to. Handles are numbered by their lives: each belongs to one Array object,
// and is written where that is assigned, moved from or dropped.
struct Use {
  enum class Of : uint8_t { handle, stream } of = Of::handle;
  unsigned index = 0;
  bool writes = false;
};

struct Step {
  Verb verb = Verb::upload;
  unsigned task = 0;
  unsigned stream = 0;
  unsigned other_stream = 0;
  struct In {
    unsigned handle = 0;
    bool moved = false;
  };
  std::vector<In> in;
  std::vector<unsigned> out;
  std::vector<unsigned> drops;  // once it is done
  // Details, as the verb has them.
  Dtype dtype = float32;
  Shape shape;
  Strides strides;
  int64_t offset = 0;
  Dims axes;
  std::vector<Slice> slices;
  int32_t value = 0;
  bool flag = false;
  // Of `out`, or where there is none of `in`: what they must show.
  std::vector<Eager> shows;

  std::vector<Use> uses;
  std::array<size_t, kTasks> after{};  // how many steps of each task must be over
};

struct Plan {
  std::vector<Step> steps;
  unsigned handles = 0;
  unsigned streams = 1;
};

// "task 1, stream 0: #7 float32(3, 4) = mix(#3 moved, #5) 12, drops #4, after task 0's 9".
inline std::string to_string(const Step& step) {
  std::string text = fmt::format("task {}, stream {}: ", step.task, step.stream);
  for (size_t i = 0; i < step.out.size(); ++i) {
    text += fmt::format("#{} {}{} ", step.out[i], kernel::to_string(step.shows[i].dtype),
                        holdfast::to_string(step.shows[i].shape));
  }
  text += fmt::format("{}{}(", step.out.empty() ? "" : "= ", to_string(step.verb));
  for (const Step::In& in : step.in) {
    text += fmt::format("{}#{}{}", &in == step.in.data() ? "" : ", ", in.handle,
                        in.moved ? " moved" : "");
  }
  text += ")";
  for (const Slice& s : step.slices) {
    const auto end = [](const std::optional<int64_t>& at) { return at ? std::to_string(*at) : ""; };
    text += fmt::format(" {}:{}:{}", end(s.start), end(s.stop), s.step);
  }
  for (const Dims* dims : {&step.shape, &step.strides, &step.axes}) {
    if (!dims->empty()) text += " " + holdfast::to_string(*dims);
  }
  text += fmt::format(" {}", step.value);
  if (step.offset != 0) text += fmt::format(" at {}", step.offset);
  if (step.flag) text += " flag";
  if (!step.drops.empty()) text += fmt::format(", drops #{}", fmt::join(step.drops, ", #"));
  for (unsigned task = 0; task < kTasks; ++task) {
    if (step.after[task] > 0) text += fmt::format(", after task {}'s {}", task, step.after[task]);
  }
  return text;
}

// As source, to be pasted into a test.
inline std::string source_of(const Op& op) {
  std::string text = fmt::format("{{.verb = Verb::{}", to_string(op.verb));
  const auto add = [&](const char* name, uint64_t value) {
    if (value > 0) text += fmt::format(", .{} = {}", name, value);
  };
  add("task", op.task);
  add("stream", op.stream);
  add("a", op.a);
  add("b", op.b);
  add("c", op.c);
  if (op.gives_up) text += ", .gives_up = true";
  add("detail", op.detail);
  return text + "}";
}
inline std::string source_of(const Program& program) {
  std::string text = fmt::format(
      "{{.queues = {}, .streams = {}, .host_visible = {}, .tight = {}, .reaper = {}, .compiles = "
      "{}, "
      ".commands = {}, .seed = {}, .ops = {{\n",
      program.queues, program.streams, program.host_visible, program.tight, program.reaper,
      program.compiles, program.commands, program.seed);
  for (const Op& op : program.ops) text += "    " + source_of(op) + ",\n";
  return text + "}}\n";
}

}  // namespace holdfast::random_graphs
