#pragma once

#include <string>
#include <utility>
#include <vector>

#include "holdfast/array/compile/fused_program.h"
#include "holdfast/array/compile/fused_text.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/kernel.h"

namespace holdfast::array {

// Arguments of a fused kernel, at most: what devices bind, less what is kept between passes.
inline constexpr size_t kMaxFusedArguments = 24;
inline constexpr size_t kMaxFusedSteps = 48;
// Results that are kept in memory between passes, at most.
inline constexpr size_t kMaxKept = 4;

// A program as one node: its inputs are the program's, its results those of program.outputs. One
// kernel, made for the ways in which the inputs lie. Thread-safe.
class FusedOperation final : public Operation {
 public:
  explicit FusedOperation(FusedProgram program);

  std::string_view name() const noexcept override { return name_; }
  void record(Encoder& encoder) const override;

  const FusedProgram& program() const noexcept { return program_; }

 private:
  struct Call;
  void record_rows(Call& call) const;
  void record_elements(Call& call) const;
  void launch(Call& call, const kernel::Size3& grid, const kernel::Size3& group,
              uint32_t work) const;
  Kernel kernel_for(const RowPasses& passes, const FusedPattern& pattern) const;

  const FusedProgram program_;
  const std::string name_;
  mutable sync::Guarded<std::vector<std::pair<FusedPattern, Kernel>>> kernels_;
};

}  // namespace holdfast::array
