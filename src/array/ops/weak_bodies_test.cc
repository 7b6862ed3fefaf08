// Operations choose between two bodies by the style of the device's threads.

#include <gmock/gmock.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "holdfast/array/ops/both_styles_test.h"
#include "holdfast/base/error.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/compile.h"
#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/fast.h"
#include "holdfast/kernel/targets/cuda/cuda_text.h"
#include "holdfast/kernel/targets/cuda/nvrtc_test.h"
#include "holdfast/kernel/targets/wrapping_target_test.h"
#include "holdfast/operation.h"
#include "holdfast/ops.h"
#include "holdfast/scans.h"
#include "holdfast/sorting.h"
#include "holdfast/testing/variable.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using holdfast::testing::Variable;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

const std::vector<std::string> kWeakKernels{"copy_rows_weak",
                                            "copy_turned_weak",
                                            "reduce_rows_weak",
                                            "reduce_short_rows_weak",
                                            "reduce_apart_weak",
                                            "reduce_columns_weak",
                                            "argmax_rows_weak",
                                            "argmax_short_rows_weak",
                                            "argmax_of_pieces_weak",
                                            "argmax_apart_weak",
                                            "scan_weak",
                                            "scan_pieces_weak",
                                            "scan_totals_weak",
                                            "sort_blocks_weak",
                                            "sort_blocks_weak_places",
                                            "sort_blocks_weak_both",
                                            "sort_merge_weak",
                                            "sort_merge_weak_places",
                                            "sort_merge_weak_both",
                                            "norm_weak",
                                            "attention_weak",
                                            "attention_weights_weak",
                                            "softmax_weak",
                                            "softmax_short_weak",
                                            "softmax_columns_weak",
                                            "softmax_pieces_weak",
                                            "softmax_join_weak",
                                            "matmul_tiles_weak",
                                            "matmul_rows_weak",
                                            "take_rows_weak",
                                            "scatter_last_weak",
                                            "scatter_set_weak",
                                            "scatter_count_weak",
                                            "scatter_scan_weak",
                                            "scatter_sort_weak",
                                            "scatter_sorted_weak",
                                            "quantized_matmul_weak",
                                            "quantized_matmul_columns_weak",
                                            "quantized_matmul_tiles_weak"};

// Results on the device, which every kernel of an operation with two bodies takes part in.
std::vector<Array> results_of_two_bodies(const Device& device, Dtype dtype) {
  const On on = device;
  const auto filled = [&](const Shape& shape) { return ones(shape, dtype, on); };
  const Array x = filled({40, 64});
  const Array lines = filled({2, 40'000});
  const Array words = zeros({64, 8}, uint32, on);
  const Array scales = filled({64, 1});
  const Array few = filled({1, 2, 1, 16});
  const Array many = filled({1, 2, 600, 16});
  const Array allowed = ones({600}, bool_, on);
  return {copy(slice(x, {{}, {.stop = 9}})),
          copy(transpose(x)),
          sum(x, {.axes = {1}}),
          sum(filled({40, 9}), {.axes = {1}}),
          sum(slice(x, {{}, {.step = 2}}), {.axes = {1}}),
          max(x, {.axes = {0}}),
          argmax(x, 1),
          argmax(filled({40, 9}), 1),
          argmax(lines, 1),
          argmax(slice(x, {{}, {.step = 2}}), 1),
          cumsum(x, 1),
          cumsum(lines, 1),
          sort(x),
          sort(lines),
          argsort(x),
          argsort(lines),
          fast::layer_norm(x, filled({64}), filled({64})),
          fast::scaled_dot_product_attention(few, many, many, 1, {.array = allowed}),
          fast::scaled_dot_product_attention(many, many, many, 1, {.causal = true}),
          softmax(x, 1),
          softmax(filled({2, 5000}), 1),
          softmax(x, 0),
          softmax(lines, 1),
          matmul(x, transpose(x)),
          matmul(filled({1, 40}), x),
          take(x, zeros({300}, int32, on), 0),
          scatter(x, zeros({300}, int32, on), filled({300, 64}), 0),
          scatter(x, zeros({300}, int32, on), filled({300, 64}), 0, Update::add),
          quantized_matmul(ones({3, 64}, float32, on), words, scales, scales),
          quantized_matmul(ones({1, 64}, float16, on), words, scales, scales),
          quantized_matmul(ones({2, 64}, bfloat16, on), words, scales, scales),
          quantized_matmul(ones({3, 64}, float16, on), words, scales, scales),
          quantized_matmul(ones({9, 64}, bfloat16, on), words, scales, scales),
          quantized_matmul(filled({3, 64}), words, scales, scales, {.transpose = false})};
}
// The same for all other kernels.
std::vector<Array> results_of_one_body(const Device& device) {
  const On on = device;
  const Array x = random_normal({30, 3}, float16, RandomKey{1}, on);
  const Array order = arange(0, 3, 1, int32, on);
  return {x + transpose(reshape(x, {3, 30})),
          copy(transpose(x)),
          take_along_axis(x, zeros({30, 1}, int32, on), 1),
          argmin(x, 1),
          prod(x, {.axes = {0}}),
          all(x),
          arctan2(arcsinh(x), x),
          left_shift(order, 1),
          isinf(x),
          linspace(0, 1, 5, float16, true, on),
          cumprod(x, 0),
          sort(x),
          searchsorted(order, order),
          fast::rope(reshape(x, {1, 30, 3}), 2),
          scatter(x, order, slice(x, {{.stop = 3}}), 0),
          quantized_matmul(ones({70, 64}, float16, on), zeros({64, 8}, uint32, on),
                           ones({64, 1}, float16, on), ones({64, 1}, float16, on)),
          random_uniform({5}, float32, RandomKey{1}, on)};
}
// Of several operations each, which share a kernel.
std::vector<Array> results_of_fused_operations(const Device& device, Dtype dtype) {
  const On on = device;
  const auto elements = compile([](const Array& a, const Array& b) {
    return where(a > b, exp(a) * 2.0F, astype(astype(b, int32), float32));
  });
  const auto rows = compile([](const Array& a, const Array& b) {
    const Array r = a + b;
    return std::pair(softmax(r) * 0.5F,
                     r * rsqrt(mean(square(r), {.axes = {-1}, .keep_dims = true}) + 1e-5F));
  });
  const Array x = random_normal({40, 600}, dtype, RandomKey{1}, on);
  const Array line = random_normal({600}, dtype, RandomKey{2}, on);
  const Array column = random_normal({40, 1}, dtype, RandomKey{3}, on);
  const Array apart = slice(random_normal({40, 1200}, dtype, RandomKey{4}, on), {{}, {.step = 2}});
  std::vector<Array> results;
  for (const Array& beside : {x + 1.0F, line, column, apart}) {
    results.push_back(elements(x, beside));
    auto [a, b] = rows(x, beside);
    results.push_back(a);
    results.push_back(b);
  }
  return results;
}

std::set<std::string> kernels_of(const Device& device, const std::vector<Array>& results) {
  device.set_profiling(true);
  eval(results);
  device.synchronize();
  std::set<std::string> names;
  for (const KernelTime& time : device.kernel_times()) names.insert(time.kernel);
  device.set_profiling(false);
  return names;
}
Device new_device(hal::ThreadStyle style) {
  DeviceOptions options;
  options.thread_style = style;
  return Device(hal::open_device(hal::default_device_name()).or_raise(), options);
}

TEST(WeakBodies, the_style_that_is_forced_chooses_the_kernels) {
  const Device weak = new_device(hal::ThreadStyle::many_weak);
  EXPECT_THAT(kernels_of(weak, results_of_two_bodies(weak, float32)), IsSupersetOf(kWeakKernels));
  const Device strong = new_device(hal::ThreadStyle::few_strong);
  const std::set<std::string> names = kernels_of(strong, results_of_two_bodies(strong, float32));
  EXPECT_THAT(names, Contains("reduce_rows"));
  EXPECT_THAT(names, Not(Contains(EndsWith("_weak"))));
}

// What operations see on a device with such options.
hal::ThreadStyle style_seen(const DeviceOptions& options) {
  class Look final : public Operation {
   public:
    explicit Look(hal::ThreadStyle& seen) : seen_(seen) {}
    std::string_view name() const noexcept override { return "look"; }
    void record(Encoder& encoder) const override {
      seen_ = encoder.device().thread_style;
      encoder.fill(encoder.output(0), std::byte{0});
    }

   private:
    hal::ThreadStyle& seen_;
  };
  const Device device(hal::open_device("cpu").or_raise(), options);
  hal::ThreadStyle seen{};
  eval(apply(make_ref<const Look>(seen), {}, {{1}, float32}, device));
  return seen;
}

TEST(WeakBodies, the_variable_forces_a_style_and_the_option_comes_first) {
  const Variable unset("HOLDFAST_THREADS", nullptr);
  EXPECT_EQ(style_seen({}), hal::ThreadStyle::few_strong);
  const Variable weak("HOLDFAST_THREADS", "Weak");
  EXPECT_EQ(style_seen({}), hal::ThreadStyle::many_weak);
  DeviceOptions strong;
  strong.thread_style = hal::ThreadStyle::few_strong;
  EXPECT_EQ(style_seen(strong), hal::ThreadStyle::few_strong);
}

TEST(WeakBodies, a_style_that_is_unknown_is_refused_with_those_there_are) {
  const Variable threads("HOLDFAST_THREADS", "mighty");
  EXPECT_THAT([] { (void)DeviceOptions(); },
              ::testing::ThrowsMessage<EnvironmentError>(
                  HasSubstr("HOLDFAST_THREADS holds 'mighty'; it may hold strong or weak")));
}

// Compiles what it generates for CUDA, too.
class CudaBeside final : public kernel::WrappingTarget {
 public:
  using WrappingTarget::WrappingTarget;
  Result<kernel::GeneratedKernel> generate(const kernel::Definition& definition,
                                           const kernel::CallSignature& signature,
                                           const kernel::GenerateOptions& options) const override {
    const std::string ptx = kernel::ptx_of({.kernel = definition.name,
                                            .variant = describe(definition, signature),
                                            .code = cuda_text(definition, signature, options)});
    if (!ptx.empty()) compiled.lock()->insert(definition.name);
    return WrappingTarget::generate(definition, signature, options);
  }

  mutable sync::Guarded<std::set<std::string>> compiled;
};

class WeakBodiesOnCuda : public kernel::NvrtcTest {};

TEST_F(WeakBodiesOnCuda, nvrtc_compiles_them) {
  Ref<hal::Device> cpu = hal::open_device("cpu").or_raise();
  DeviceOptions options;
  options.thread_style = hal::ThreadStyle::many_weak;
  const auto target = std::make_shared<CudaBeside>(kernel::make_target(cpu->info()));
  options.kernels.target = target;
  const Device device(std::move(cpu), options);
  eval(results_of_two_bodies(device, float16));
  eval(results_of_one_body(device));
  for (const Dtype dtype : {float32, float16, bfloat16}) {
    eval(results_of_fused_operations(device, dtype));
  }
  EXPECT_THAT(*target->compiled.lock(), IsSupersetOf(kWeakKernels));
  EXPECT_THAT(
      *target->compiled.lock(),
      IsSupersetOf({"add", "copy_elements", "take", "scatter", "dequantize", "random_normal",
                    "random_uniform", "scan", "sort_blocks", "searchsorted", "rope",
                    "attention_join", "linspace", "isinf", "left_shift", "arctan2"}));
  EXPECT_THAT(*target->compiled.lock(), Contains(HasSubstr("fused_greater_exp")));
  EXPECT_THAT(*target->compiled.lock(), Contains(HasSubstr("fused_add_softmax")));
}

}  // namespace
}  // namespace holdfast
