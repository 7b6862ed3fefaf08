#pragma once

#include <array>
#include <utility>
#include <vector>

#include "holdfast/array/scenarios/random_graphs_test.h"
#include "holdfast/kernel.h"
#include "holdfast/operation.h"

// The kernels and operations that a user would bring: each as Model::kernel has it.
namespace holdfast::random_graphs {

inline KernelDefinition definition_of(std::string name, std::vector<std::string> inputs,
                                      std::vector<std::string> outputs,
                                      std::vector<std::string> in_place, const std::string& body) {
  return {.name = std::move(name),
          .inputs = std::move(inputs),
          .outputs = std::move(outputs),
          .in_place = std::move(in_place),
          .source = "uint i = thread_position_in_grid.x;\n" + body};
}

inline const Kernel& affine_kernel() {
  static const Kernel kernel(
      definition_of("affine", {"a"}, {"y"}, {}, "y[i] = T((by * int(a[i]) + v) % 61);"));
  return kernel;
}
inline const Kernel& strided_affine_kernel() {
  static const Kernel kernel(definition_of("affine_as_it_lies", {"a"}, {"y"}, {}, R"(
y[i] = T((3 * int(a[elem_to_loc(i, a_shape, a_strides, a_ndim)]) + v) % 61);
)"));
  return kernel;
}
inline const Kernel& affine_in_place_kernel() {
  static const Kernel kernel(
      definition_of("affine_in_place", {}, {}, {"a"}, "a[i] = T((2 * int(a[i]) + v) % 61);"));
  return kernel;
}
inline const Kernel& mix_kernel() {
  static const Kernel kernel(definition_of("mix", {"x"}, {}, {"a"},
                                           "a[i] = T((2 * int(a[i]) + int(x[i % n]) + v) % 61);"));
  return kernel;
}
inline const Kernel& pair_kernel() {
  static const Kernel kernel(definition_of("pair", {}, {}, {"a", "b"}, R"(
int x = int(a[i]);
int y = int(b[i]);
a[i] = T((x + 2 * y + v) % 61);
b[i] = T((x + 3 * y) % 61);
)"));
  return kernel;
}
inline const Kernel& split_kernel() {
  static const Kernel kernel(definition_of("split", {"a"}, {"y", "z"}, {}, R"(
y[i] = T((int(a[i]) + v) % 61);
if (i % 2 == 0) z[i / 2] = Z(int(a[i]));
)"));
  return kernel;
}
inline const Kernel& sparse_kernel() {
  static const Kernel kernel(
      definition_of("sparse", {"a"}, {"y"}, {}, "y[2 * i] = T((int(a[i]) + v) % 61);"));
  return kernel;
}

// What the affine kernel makes of it, in scratch, turned round on the way to the result.
class Scratched final : public Operation {
 public:
  explicit Scratched(int32_t value) : value_(value) {}
  std::string_view name() const noexcept override { return "scratched"; }
  void record(Encoder& encoder) const override {
    const Operand rows = encoder.contiguous(encoder.input(0));
    const Operand scratch = encoder.scratch(rows.shape(), rows.dtype());
    const std::array constants{Constant{"T", rows.dtype()}};
    const std::array params{Param{"by", 2}, Param{"v", value_}};
    encoder.launch(affine_kernel(), {.inputs = {&rows, 1},
                                     .outputs = {&scratch, 1},
                                     .grid = {static_cast<uint32_t>(rows.size()), 1, 1},
                                     .threadgroup = {32, 1, 1},
                                     .constants = constants,
                                     .params = params});
    const Layout backwards{{rows.size()}, {-1}, rows.size() - 1};
    const Operand& out = encoder.output(0);
    if (rows.size() == 0) return;
    encoder.copy_elements(scratch.with_layout(backwards),
                          out.with_layout(Layout::row_contiguous({rows.size()})));
  }

 private:
  int32_t value_;
};

// In the input's memory, where it can be had; and three zeros beside it.
class Taking final : public Operation {
 public:
  explicit Taking(int32_t value) : value_(value) {}
  std::string_view name() const noexcept override { return "taking"; }
  bool takes_inputs() const noexcept override { return true; }
  void record(Encoder& encoder) const override {
    const Operand& taken = encoder.take(0, 0);
    const std::array constants{Constant{"T", taken.dtype()}};
    const std::array params{Param{"v", value_}};
    encoder.launch(affine_in_place_kernel(), {.in_place = {&taken, 1},
                                              .grid = {static_cast<uint32_t>(taken.size()), 1, 1},
                                              .threadgroup = {32, 1, 1},
                                              .constants = constants,
                                              .params = params});
    encoder.fill(encoder.output(1), std::byte{0});
  }

 private:
  int32_t value_;
};

// Turned round by the host, where the device is the host. Elements have four bytes.
class TurnedRound final : public Operation {
 public:
  std::string_view name() const noexcept override { return "turned round"; }
  void record(Encoder& encoder) const override {
    const Operand rows = encoder.contiguous(encoder.input(0));
    const Operand& out = encoder.output(0);
    if (rows.size() == 0) return;
    if (encoder.device().module_form != hal::ModuleForm::host_function) {
      const Layout backwards{{rows.size()}, {-1}, rows.size() - 1};
      encoder.copy_elements(rows.with_layout(backwards),
                            out.with_layout(Layout::row_contiguous({rows.size()})));
      return;
    }
    encoder.native(
        [](const hal::NativeCall& call) {
          const auto words = [&](size_t i) {
            const std::span<std::byte> bytes = call.host_bindings[i];
            return std::span(reinterpret_cast<uint32_t*>(bytes.data()), bytes.size() / 4);
          };
          std::ranges::reverse_copy(words(0), words(1).begin());
        },
        {&rows, 1}, {&out, 1});
  }
};

// Empty where the step calls neither a kernel nor an operation of the user's own.
inline std::vector<Array> call_kernel(const Step& step, std::vector<Array>& in) {
  const auto one_more = [&](size_t i) {
    std::vector<Array> moved;
    moved.push_back(std::move(in[i]));
    return moved;
  };
  if (in.empty()) return {};
  const Shape shape = in[0].shape();
  const Dtype dtype = in[0].dtype();
  const auto size = static_cast<uint32_t>(in[0].size());
  KernelCall call{.grid = {size, 1, 1},
                  .threadgroup = {32, 1, 1},
                  .output_shapes = {shape},
                  .output_dtypes = {dtype},
                  .constants = {{"T", dtype}},
                  .params = {{"v", step.value}},
                  .label = "random"};
  const std::array both{OutputType{shape, dtype}, OutputType{{3}, int32}};
  switch (step.verb) {
    case Verb::affine:
      call.params.push_back({"by", 2});
      return affine_kernel()(std::exchange(in, {}), std::move(call));
    case Verb::affine_as_it_lies:
      call.ensure_row_contiguous = false;
      return strided_affine_kernel()(std::exchange(in, {}), std::move(call));
    case Verb::split:
      call.output_shapes.push_back(step.shows[1].shape);
      call.output_dtypes.push_back(step.shows[1].dtype);
      call.constants.push_back({"Z", step.shows[1].dtype});
      return split_kernel()(std::exchange(in, {}), std::move(call));
    case Verb::sparse:
      call.output_shapes = {step.shows[0].shape};
      call.init_value = 7;
      return sparse_kernel()(std::exchange(in, {}), std::move(call));
    case Verb::mix:
      call.params.push_back({"n", static_cast<uint32_t>(in[1].size())});
      call.output_shapes.clear();
      call.output_dtypes.clear();
      call.in_place = one_more(0);
      return mix_kernel()(one_more(1), std::move(call));
    case Verb::pair:
      call.output_shapes.clear();
      call.output_dtypes.clear();
      call.in_place = std::exchange(in, {});
      return pair_kernel()({}, std::move(call));
    case Verb::scratched: return {apply(make_ref<const Scratched>(step.value), in, both[0])};
    case Verb::taken: return apply(make_ref<const Taking>(step.value), in, both);
    case Verb::native: return {apply(make_ref<const TurnedRound>(), in, both[0])};
    default: return {};
  }
}

}  // namespace holdfast::random_graphs
