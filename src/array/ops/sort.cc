#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <vector>

#include "holdfast/array/ops/sort_kernels.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/base/error.h"
#include "holdfast/sorting.h"

namespace holdfast {
namespace {

using array::Sorted;

// Elements that are sorted at once, and those of a row that one weak thread has for itself.
constexpr int64_t kBlockSorted = 1024;
constexpr int64_t kFewSorted = 32;

// How a row lies that is made of runs, each of `run` elements but for the last.
struct Runs {
  int64_t count;
  int64_t run;
  int64_t last;
  int64_t total() const { return (count - 1) * run + last; }
};

class SortOperation final : public Operation {
 public:
  // The first `keep` elements stay.
  SortOperation(size_t axis, bool descending, bool positions, int64_t keep)
      : axis_(axis), descending_(descending), positions_(positions), keep_(keep) {}
  std::string_view name() const noexcept override { return positions_ ? "argsort" : "sort"; }

  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    if (out.size() == 0) return;
    Operand in = encoder.input(0);
    if (in.layout().has_negative_strides()) in = encoder.contiguous(in);
    const Operand x = array::as_keys(in).with_layout(array::with_axis_last(in.layout(), axis_));
    const Operand result = positions_ ? out : array::as_keys(out);

    const int64_t length = x.shape().back();
    const int64_t rows = x.size() / length;
    const int64_t inner = out.layout().strides[axis_];
    const bool weak = array::is_many_weak(encoder) && length > kFewSorted;
    const int64_t block = array::is_many_weak(encoder) && !weak ? kFewSorted : kBlockSorted;
    const int64_t blocks = ceil_div(length, block);
    Runs runs{blocks, std::min(block, keep_), std::min(length - (blocks - 1) * block, keep_)};

    const Step step{encoder, in.dtype(), rows, weak};
    Target now =
        blocks == 1 ? Target{{&result, 1}, inner, true} : scratch(encoder, step, runs.total());
    record_blocks(step, x, block, runs, now);
    if (blocks == 1) return;
    Target then = scratch(encoder, step, runs.total());
    while (runs.count > 1) {
      const int64_t run = std::min(2 * runs.run, keep_);
      const Runs merged{ceil_div(runs.count, int64_t{2}), run,
                        std::min(runs.count % 2 == 0 ? runs.run + runs.last : runs.last, run)};
      if (merged.count == 1) then = Target{{&result, 1}, inner, true};
      record_merge(step, now, runs, then, merged);
      std::swap(now, then);
      runs = merged;
    }
  }

 private:
  struct Step {
    Encoder& encoder;
    Dtype dtype;
    int64_t rows;
    bool weak;
  };
  // Where a step writes: keys, places, or both in this order.
  struct Target {
    Target(std::span<const Operand> of, int64_t inner_of, bool is_final)
        : operands(of.begin(), of.end()), inner(inner_of), final(is_final) {}
    std::vector<Operand> operands;
    int64_t inner;
    bool final;
  };

  Target scratch(Encoder& encoder, const Step& step, int64_t total) const {
    Target target({}, 1, false);
    target.operands.push_back(encoder.scratch({step.rows, total}, array::key_type(step.dtype)));
    if (positions_) target.operands.push_back(encoder.scratch({step.rows, total}, Dtype::uint32));
    return target;
  }

  Sorted results_of(const Target& target) const {
    return !positions_ ? Sorted::keys : target.final ? Sorted::places : Sorted::both;
  }
  // What all kernels are given; `mantissa` only where elements become keys.
  std::vector<kernel::Param> params_of(const Step& step, const Target& target,
                                       bool has_elements) const {
    const auto key = array::key_params(step.dtype);
    std::vector<kernel::Param> params{
        key[0], {"descending", descending_}, {"as_elements", target.final}};
    if (has_elements) params.push_back(key[1]);
    return params;
  }

  // A thread or a threadgroup for each number below `count`.
  static void launch(const Step& step, const Kernel& kernel, std::span<const Operand> inputs,
                     std::span<const Operand> outputs, int64_t count,
                     std::span<const kernel::Constant> constants, std::vector<kernel::Param> params,
                     int64_t work) {
    kernel::Size3 grid{1, 1, 1};
    kernel::Size3 group;
    if (step.weak) {
      const auto groups = array::weak_groups(count, array::kWeakLine, 1, "sort");
      grid = groups.grid;
      group = groups.group;
      params.push_back(groups.count);
    } else {
      grid.x = array::grid_axis(count, "sort");
      group = array::group_of(step.encoder, grid);
    }
    step.encoder.launch(kernel,
                        {.inputs = inputs,
                         .outputs = outputs,
                         .grid = grid,
                         .threadgroup = group,
                         .constants = constants,
                         .params = params,
                         .work_per_thread = array::share_of(
                             static_cast<double>(count) * static_cast<double>(work), grid)});
  }

  void record_blocks(const Step& step, const Operand& x, int64_t block, const Runs& runs,
                     const Target& to) const {
    const Sorted results = results_of(to);
    const int64_t length = x.shape().back();
    const std::array constants{kernel::Constant{"K", x.dtype()}, kernel::Constant{"BLOCK", block}};
    std::vector<kernel::Param> params = params_of(step, to, /*has_elements=*/true);
    const std::array<kernel::Param, 5> own{{{"length", length},
                                            {"blocks", runs.count},
                                            {"run", runs.run},
                                            {"total", runs.total()},
                                            {"inner", to.inner}}};
    params.insert(params.end(), own.begin(), own.end());
    if (step.weak) {
      const auto size = std::bit_ceil(static_cast<uint64_t>(std::min(length, block)));
      params.push_back({"size", static_cast<int64_t>(size)});
    }
    launch(step,
           step.weak ? array::weak_sort_blocks_kernel(results) : array::sort_blocks_kernel(results),
           {&x, 1}, to.operands, step.rows * runs.count, constants, std::move(params),
           std::min(length, block) * 16);
  }

  void record_merge(const Step& step, const Target& from, const Runs& runs, const Target& to,
                    const Runs& merged) const {
    const Sorted results = results_of(to);
    const int64_t piece = step.weak ? array::kWeakMergePiece : array::kMergePiece;
    const int64_t pieces = ceil_div(std::max(merged.run, merged.last), piece);
    // Rows follow without a gap.
    std::vector<Operand> inputs;
    for (const Operand& operand : from.operands) {
      inputs.push_back(operand.with_layout(Layout::row_contiguous({step.rows, runs.total()})));
    }
    std::vector<kernel::Param> params = params_of(step, to, /*has_elements=*/false);
    const std::array<kernel::Param, 8> own{{{"from_runs", runs.count},
                                            {"from_run", runs.run},
                                            {"from_last", runs.last},
                                            {"pairs", merged.count},
                                            {"run", merged.run},
                                            {"total", merged.total()},
                                            {"inner", to.inner},
                                            {"pieces", pieces}}};
    params.insert(params.end(), own.begin(), own.end());
    const std::array constants{kernel::Constant{"K", array::key_type(step.dtype)}};
    launch(step,
           step.weak ? array::weak_sort_merge_kernel(results) : array::sort_merge_kernel(results),
           inputs, to.operands, step.rows * merged.count * pieces, constants, std::move(params),
           piece * 4);
  }

  size_t axis_;
  bool descending_;
  bool positions_;
  int64_t keep_;
};

// `keep` of the elements; all if it is not given.
Array in_order(const Array& a, int64_t axis, bool descending, bool positions,
               std::optional<int64_t> keep, const char* what, const On& on) {
  const size_t at = array::normal_axis(axis, a.ndim(), what);
  Shape shape = a.shape();
  if (keep) {
    if (*keep < 0 || *keep > shape[at]) {
      throw UsageError(fmt::format("{}: axis {} of shape {} has no {} elements; ask for 0 to {}",
                                   what, at, to_string(shape), *keep, shape[at]));
    }
    shape[at] = *keep;
  }
  return apply(make_ref<const SortOperation>(at, descending, positions, shape[at]), {&a, 1},
               {shape, positions ? Dtype::uint32 : a.dtype()}, on);
}

}  // namespace

Array sort(const Array& a, int64_t axis, bool descending, const On& on) {
  return in_order(a, axis, descending, /*positions=*/false, {}, "sort", on);
}
Array argsort(const Array& a, int64_t axis, bool descending, const On& on) {
  return in_order(a, axis, descending, /*positions=*/true, {}, "argsort", on);
}
Array topk(const Array& a, int64_t k, int64_t axis, const On& on) {
  return in_order(a, axis, /*descending=*/true, /*positions=*/false, k, "topk", on);
}

}  // namespace holdfast
