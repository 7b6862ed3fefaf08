#include "holdfast/array/compile/fused_program.h"

#include <algorithm>

namespace holdfast::array {
namespace {

using Role = FusedProgram::Role;
using Kind = FusedProgram::Source::Kind;

constexpr size_t kLongestName = 44;

// Whether computing it again costs a CPU more than reading it.
bool is_dear(const FusedProgram::Step& step) {
  if (step.expression.text.find("metal::") == std::string_view::npos) return false;
  constexpr std::string_view kCheap[] = {"sqrt", "rsqrt", "floor", "ceil", "round"};
  return std::ranges::find(kCheap, step.expression.name) == std::end(kCheap);
}

}  // namespace

bool FusedProgram::in_rows() const noexcept {
  return std::ranges::any_of(steps, [](const Step& step) { return step.role == Role::reduction; });
}

std::string FusedProgram::name() const {
  std::string name = "fused";
  size_t left = steps.size();
  for (const Step& step : steps) {
    if (name.size() + 1 + step.expression.name.size() > kLongestName) {
      return name + "_and_" + std::to_string(left) + "_more";
    }
    name += '_';
    name += step.expression.name;
    --left;
  }
  return name;
}

RowPasses::RowPasses(const FusedProgram& program, size_t room) {
  const std::vector<FusedProgram::Step>& steps = program.steps;
  const auto is_output = [&](size_t step) {
    return std::ranges::find(program.outputs, step) != program.outputs.end();
  };
  ready.assign(steps.size(), 0);
  size_t count = 1;
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const FusedProgram::Source& source : steps[i].operands) {
      if (source.kind == Kind::step) ready[i] = std::max(ready[i], ready[source.index]);
    }
    if (steps[i].role != Role::of_row) count = std::max(count, ready[i] + 1);
    if (steps[i].role == Role::reduction) ++ready[i];
  }

  // For each pass, which elements it needs. Those of later passes are asked for first, since what
  // they find in memory has to be put there.
  std::vector<std::vector<bool>> wanted(count, std::vector<bool>(steps.size(), false));
  passes.resize(count);
  last_read.assign(program.inputs.size(), 0);
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].role == Role::element && is_output(i)) wanted[ready[i]][i] = true;
    if (steps[i].role == Role::reduction) {
      const FusedProgram::Source& of = steps[i].operands[0];
      passes[ready[i] - 1].reductions.push_back(i);
      if (of.kind == Kind::step) wanted[ready[i] - 1][of.index] = true;
    }
    if (steps[i].role != Role::of_row) continue;
    (ready[i] < count ? passes[ready[i]].of_row : at_last).push_back(i);
  }
  for (size_t p = count; p-- > 0;) {
    Pass& pass = passes[p];
    pass.reads.assign(program.inputs.size(), false);
    const auto read = [&](size_t input) {
      if (program.inputs[input].of_row) return;
      pass.reads[input] = true;
      last_read[input] = std::max(last_read[input], p);
    };
    for (const size_t i : pass.reductions) {
      const FusedProgram::Source& of = steps[i].operands[0];
      if (of.kind == Kind::input) read(of.index);
    }
    for (size_t i = steps.size(); i-- > 0;) {
      if (!wanted[p][i]) continue;
      if (ready[i] < p) {
        const bool known = is_output(i) || std::ranges::find(kept, i) != kept.end();
        const bool keeps = !known && kept.size() < room && is_dear(steps[i]);
        if (keeps) {
          kept.push_back(i);
          wanted[ready[i]][i] = true;
        }
        if (known || keeps) {
          pass.loads.push_back(i);
          continue;
        }
      }
      pass.elements.push_back(i);
      for (const FusedProgram::Source& source : steps[i].operands) {
        if (source.kind == Kind::input) read(source.index);
        if (source.kind == Kind::step && steps[source.index].role == Role::element) {
          wanted[p][source.index] = true;
        }
      }
    }
    std::ranges::reverse(pass.elements);
  }
  for (size_t p = 0; p < count; ++p) {
    for (const size_t i : passes[p].elements) {
      const bool is_kept = std::ranges::find(kept, i) != kept.end();
      if (ready[i] == p && (is_output(i) || is_kept)) passes[p].stores.push_back(i);
    }
  }
}

}  // namespace holdfast::array
