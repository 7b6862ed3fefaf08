#include "holdfast/array/compile/fused_operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "holdfast/array/layouts.h"
#include "holdfast/array/ops/work.h"

namespace holdfast::array {
namespace {

using Role = FusedProgram::Role;

// Threads of a group that do not meet.
constexpr uint32_t kGroup = 256;
// Elements of a CPU thread's block: see elementwise.cc.
constexpr int64_t kBlock = 64;
// Threads of a launch that counts them by x alone.
constexpr int64_t kMostThreads = int64_t{1} << 30;
// Packs of a row for each of the weak threads that share it, where rows are long enough.
constexpr int64_t kPacksOfLane = 4;

}  // namespace

// What one call of record() gathers.
struct FusedOperation::Call {
  Call(Encoder& to, const RowPasses& with) : encoder(to), passes(with) {}

  Encoder& encoder;
  const RowPasses& passes;
  FusedPattern pattern;
  std::vector<Operand> inputs{};   // all of them, in order
  std::vector<Operand> outputs{};  // and those that are kept
  std::vector<kernel::Constant> constants{};
  std::vector<kernel::Param> params{};
};

FusedOperation::FusedOperation(FusedProgram program)
    : program_(std::move(program)), name_(program_.name()) {}

Kernel FusedOperation::kernel_for(const RowPasses& passes, const FusedPattern& pattern) const {
  const auto kernels = kernels_.lock();
  for (const auto& [known, kernel] : *kernels) {
    if (known == pattern) return kernel;
  }
  kernels->emplace_back(pattern, Kernel(fused_definition(program_, passes, pattern)));
  return kernels->back().second;
}

void FusedOperation::record(Encoder& encoder) const {
  const bool rows = program_.in_rows();
  const bool cpu = is_cpu(encoder);
  const RowPasses passes(program_, rows && cpu ? kMaxKept : 0);
  Call call(encoder, passes);
  call.pattern.blocked = cpu;
  call.pattern.access.assign(program_.inputs.size(), Access::flat);
  call.pattern.takes.assign(program_.outputs.size(), std::nullopt);
  const int64_t size = elements(program_.shape);
  for (size_t i = 0; i < program_.inputs.size(); ++i) {
    const Operand& input = encoder.input(i);
    const bool backwards = input.layout().has_negative_strides() && input.size() != 1;
    call.inputs.push_back(backwards ? encoder.contiguous(input) : input);
  }
  // An element is read by the thread that overwrites it, before it does.
  for (size_t o = 0; o < program_.outputs.size(); ++o) {
    const size_t step = program_.outputs[o];
    const bool is_element = program_.steps[step].role == Role::element;
    for (size_t i = 0; i < program_.inputs.size() && !call.pattern.takes[o]; ++i) {
      if (!is_element || program_.inputs[i].of_row || !encoder.can_take(i, o)) continue;
      if (passes.last_read[i] > passes.ready[step]) continue;
      const auto& taken = call.pattern.takes;
      if (std::ranges::find(taken, std::optional(i)) == taken.end()) call.pattern.takes[o] = i;
    }
    call.outputs.push_back(call.pattern.takes[o] ? encoder.take(*call.pattern.takes[o], o)
                                                 : encoder.output(o));
  }
  if (size == 0) return;
  for (const size_t step : passes.kept) {
    call.outputs.push_back(encoder.scratch(program_.shape, program_.steps[step].result));
  }
  for (size_t k = 0; k < program_.numbers.size(); ++k) {
    call.params.push_back({fmt::format("n{}", k), program_.numbers[k]});
  }
  rows ? record_rows(call) : record_elements(call);
}

void FusedOperation::record_rows(Call& call) const {
  const Shape& shape = program_.shape;
  const int64_t length = shape[shape.size() - 1];
  const int64_t rows = elements(shape) / length;
  // The axes but the last have to be walked through in the same way by all inputs.
  std::vector<Layout> layouts;
  std::vector<size_t> apart;
  for (size_t i = 0; i < program_.inputs.size(); ++i) {
    Operand& input = call.inputs[i];
    if (program_.inputs[i].of_row) {
      call.pattern.access[i] = input.size() == 1 ? Access::one : Access::held;
      input = input.with_layout({{input.size()}, {1}, input.layout().offset});
    } else if (input.size() == 1) {
      call.pattern.access[i] = Access::one;
      input = input.with_layout({{1}, {1}, input.layout().offset});
    } else if (input.size() == elements(shape) && input.is_row_contiguous()) {
      call.pattern.access[i] = Access::flat;
    } else {
      apart.push_back(i);
    }
  }
  Layout leading = Layout::row_contiguous(shape);
  layouts.push_back(leading);
  for (const size_t i : apart) layouts.push_back(broadcast_to(call.inputs[i].layout(), shape));
  std::vector<int64_t> steps;
  for (Layout& layout : layouts) {
    steps.push_back(layout.strides[layout.strides.size() - 1]);
    Layout without{{}, {}, layout.offset};
    for (size_t k = 0; k + 1 < layout.shape.size(); ++k) {
      without.shape.push_back(layout.shape[k]);
      without.strides.push_back(layout.strides[k]);
    }
    layout = without;
  }
  collapse({layouts.data(), layouts.size()});
  for (size_t k = 0; k < layouts.size(); ++k) {
    layouts[k].shape.push_back(length);
    layouts[k].strides.push_back(steps[k]);
    layouts[k] = with_usual_rank(layouts[k]);
  }
  const Shape& walked = layouts[0].shape;
  const int64_t lines = walked[walked.size() - 2];
  for (size_t k = 0; k < apart.size(); ++k) {
    const size_t i = apart[k];
    const int64_t step = layouts[k + 1].strides[walked.size() - 1];
    call.pattern.access[i] = step == 1 ? Access::row : step == 0 ? Access::held : Access::strided;
    call.inputs[i] = call.inputs[i].with_layout(layouts[k + 1]);
  }
  call.params.push_back({"length", static_cast<int32_t>(length)});
  call.params.push_back({"lines", lines});
  const double steps_in_all =
      static_cast<double>(elements(shape)) * static_cast<double>(program_.steps.size());
  if (call.pattern.blocked) {
    call.constants.push_back({"BLOCK", kBlock});
    const kernel::Size3 grid{grid_axis(rows, name_.c_str()), 1, 1};
    launch(call, grid, group_of(call.encoder, grid), share_of(steps_in_all, grid));
    return;
  }
  uint64_t widest = 1;
  const auto widen = [&](Dtype dtype) { widest = std::max(widest, size_of(dtype).value); };
  for (const FusedProgram::Input& input : program_.inputs) widen(input.dtype);
  for (const Operand& output : call.outputs) widen(output.dtype());
  const bool weak = is_many_weak(call.encoder);
  const int64_t vector = weak ? std::max<int64_t>(kPackBytes / static_cast<int64_t>(widest), 1) : 1;
  const auto wanted = static_cast<uint64_t>(
      std::clamp<int64_t>(ceil_div(length, vector * kPacksOfLane), 1, kWeakGroup));
  const int64_t lanes = weak ? static_cast<int64_t>(std::bit_ceil(wanted)) : 1;
  const int64_t threads = weak ? int64_t{kWeakGroup} : 1;
  const WeakGroups groups = weak_groups(ceil_div(rows, threads / lanes),
                                        {static_cast<uint32_t>(threads), 1, 1}, 1, name_.c_str());
  call.constants.push_back({"VECTOR", vector});
  call.constants.push_back({"LANES", lanes});
  call.constants.push_back({"GROUP", threads});
  call.params.push_back({"rows", rows});
  call.params.push_back(groups.count);
  launch(call, groups.grid, groups.group, share_of(steps_in_all, groups.grid));
}

void FusedOperation::record_elements(Call& call) const {
  const Shape& whole = program_.shape;
  const int64_t size = elements(whole);
  bool flat = true;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    Operand& input = call.inputs[i];
    if (input.size() == size && input.is_row_contiguous()) {
      // An operand without axes would be a plain value in the kernel.
      input = input.with_layout({{size}, {1}, input.layout().offset});
    } else if (input.size() == 1) {
      call.pattern.access[i] = Access::one;
      input = input.with_layout({{1}, {1}, input.layout().offset});
    } else {
      flat = false;
    }
  }
  kernel::Size3 counts;
  std::vector<Operand> inputs = call.inputs;
  if (!flat) {
    call.pattern.in_space = true;
    std::vector<Layout> layouts{Layout::row_contiguous(whole)};
    for (const Operand& input : call.inputs) {
      const bool is_flat = input.size() == size;
      layouts.push_back(is_flat && input.is_row_contiguous()
                            ? Layout{whole, layouts[0].strides, input.layout().offset}
                            : broadcast_to(input.layout(), whole));
    }
    collapse({layouts.data(), layouts.size()});
    for (Layout& layout : layouts) layout = with_usual_rank(layout);
    const Shape& shape = layouts[0].shape;
    const size_t rank = shape.size();
    const int64_t x = shape[rank - 1];
    const int64_t y = shape[rank - 2];
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (call.pattern.access[i] == Access::one) continue;
      const Layout& layout = layouts[i + 1];
      const int64_t step = layout.strides[rank - 1];
      const bool is_whole = layout.strides == layouts[0].strides;
      call.pattern.access[i] = is_whole    ? Access::flat
                               : step == 1 ? Access::row
                               : step == 0 ? Access::held
                                           : Access::strided;
      call.inputs[i] = call.inputs[i].with_layout(layout);
    }
    counts = {grid_axis(x, name_.c_str()), grid_axis(y, name_.c_str()),
              grid_axis(size / x / y, name_.c_str())};
  }
  uint64_t widest = 1;
  uint64_t narrowest = kPackBytes;
  const auto widen = [&](Dtype dtype) {
    widest = std::max(widest, size_of(dtype).value);
    narrowest = std::min(narrowest, size_of(dtype).value);
  };
  for (const FusedProgram::Input& input : program_.inputs) widen(input.dtype);
  for (const Operand& output : call.outputs) widen(output.dtype());
  const bool weak = is_many_weak(call.encoder);
  const int64_t vector =
      call.pattern.blocked ? kBlock
      : weak ? std::max<int64_t>(std::min(kPackBytes / static_cast<int64_t>(narrowest),
                                          2 * kPackBytes / static_cast<int64_t>(widest)),
                                 1)
             : 1;
  call.constants.push_back({call.pattern.blocked ? "BLOCK" : "VECTOR", vector});
  const auto work = static_cast<uint32_t>(vector * static_cast<int64_t>(program_.steps.size()));
  const size_t numbers = call.params.size();
  const auto launch_threads = [&](const kernel::Size3& of) {
    call.params.resize(numbers);
    call.params.push_back({"count", of.x});
    if (call.pattern.blocked && call.pattern.in_space) call.params.push_back({"lines", of.y});
    kernel::Size3 grid = of;
    grid.x = static_cast<uint32_t>(ceil_div(int64_t{of.x}, vector));
    const uint32_t wide = std::min(grid.x, kGroup);
    launch(call, grid, {wide, call.pattern.in_space ? std::min(grid.y, kGroup / wide) : 1, 1},
           work);
  };
  if (call.pattern.in_space) return launch_threads(counts);

  const std::vector<Operand> outputs = call.outputs;
  inputs = call.inputs;
  for (int64_t first = 0; first < size; first += kMostThreads) {
    const int64_t threads = std::min(size - first, kMostThreads);
    const auto part = [&](const Operand& operand) {
      if (operand.size() == 1 && size != 1) return operand;
      return operand.with_layout({{threads}, {1}, operand.layout().offset + first});
    };
    for (size_t i = 0; i < inputs.size(); ++i) call.inputs[i] = part(inputs[i]);
    for (size_t o = 0; o < outputs.size(); ++o) call.outputs[o] = part(outputs[o]);
    launch_threads({static_cast<uint32_t>(threads), 1, 1});
  }
}

void FusedOperation::launch(Call& call, const kernel::Size3& grid, const kernel::Size3& group,
                            uint32_t work) const {
  std::vector<Operand> inputs;
  std::vector<Operand> in_place;
  std::vector<Operand> outputs;
  const auto& takes = call.pattern.takes;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (std::ranges::find(takes, std::optional(i)) == takes.end()) inputs.push_back(call.inputs[i]);
  }
  for (size_t o = 0; o < call.outputs.size(); ++o) {
    const bool taken = o < takes.size() && takes[o];
    (taken ? in_place : outputs).push_back(with_dimension(call.outputs[o]));
  }
  call.encoder.launch(kernel_for(call.passes, call.pattern), {.inputs = inputs,
                                                              .outputs = outputs,
                                                              .in_place = in_place,
                                                              .grid = grid,
                                                              .threadgroup = group,
                                                              .constants = call.constants,
                                                              .params = call.params,
                                                              .work_per_thread = work});
}

}  // namespace holdfast::array
