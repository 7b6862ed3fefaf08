#include "holdfast/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/hal/devices.h"
#include "holdfast/ops.h"
#include "holdfast/stream.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// The elements as they lie, through the strides that the kernel is given.
KernelDefinition as_it_lies() {
  return {.name = "as_it_lies", .inputs = {"x"}, .outputs = {"y", "stride"}, .source = R"(
uint i = thread_position_in_grid.x;
y[i] = x[long(i / x_shape[1]) * x_strides[0] + long(i % x_shape[1]) * x_strides[1]];
stride[0] = int(x_strides[0]);
)"};
}

KernelCall call_on(const Array& x) {
  return {.grid = {static_cast<uint32_t>(x.size()), 1, 1},
          .threadgroup = {32, 1, 1},
          .output_shapes = {x.shape(), {1}},
          .output_dtypes = {x.dtype(), int32}};
}

struct Seen {
  std::vector<float> values;
  int32_t stride;
  uint64_t copies;
};
Seen run(const Kernel& kernel, const Array& x, KernelCall call) {
  const Device device = x.device();
  const uint64_t before = device.stats().hidden_copies;
  const std::vector<Array> made = kernel({x}, std::move(call));
  eval(made);
  const uint64_t copies = device.stats().hidden_copies - before;
  return {made[0].to_vector<float>(), made[1].item<int32_t>(), copies};
}

struct RowContiguous : ::testing::Test {
  // 0 3 / 1 4 / 2 5, with the strides 1 and 3.
  const Array turned = transpose(Array(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3}));
};

TEST_F(RowContiguous, inputs_are_the_rule) {
  const Seen seen = run(Kernel(as_it_lies()), turned, call_on(turned));
  EXPECT_THAT(seen.values, ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(seen.stride, 2);
  EXPECT_EQ(seen.copies, 1U);
}

TEST_F(RowContiguous, is_said_by_the_kernel) {
  KernelDefinition definition = as_it_lies();
  definition.ensure_row_contiguous = false;
  const Seen seen = run(Kernel(definition), turned, call_on(turned));
  EXPECT_THAT(seen.values, ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(seen.stride, 1);
  EXPECT_EQ(seen.copies, 0U);
}

TEST_F(RowContiguous, what_the_call_says_wins) {
  KernelDefinition definition = as_it_lies();
  for (const bool by_kernel : {false, true}) {
    definition.ensure_row_contiguous = by_kernel;
    for (const bool by_call : {false, true}) {
      KernelCall call = call_on(turned);
      call.ensure_row_contiguous = by_call;
      const Seen seen = run(Kernel(definition), turned, std::move(call));
      EXPECT_THAT(seen.values, ElementsAre(0, 3, 1, 4, 2, 5));
      EXPECT_EQ(seen.stride, by_call ? 2 : 1) << by_kernel << by_call;
      EXPECT_EQ(seen.copies, by_call ? 1U : 0U);
    }
  }
}

TEST_F(RowContiguous, inputs_with_negative_strides_are_copied_all_the_same) {
  KernelDefinition definition = as_it_lies();
  definition.ensure_row_contiguous = false;
  const Array backwards = slice(turned, {{.step = -1}});
  const Seen seen = run(Kernel(definition), backwards, call_on(backwards));
  EXPECT_THAT(seen.values, ElementsAre(2, 5, 1, 4, 0, 3));
  EXPECT_EQ(seen.copies, 1U);
}

TEST_F(RowContiguous, holds_for_each_input_beside_arguments_in_place) {
  static const Kernel add_to(
      {.name = "add_to", .inputs = {"a", "b"}, .in_place = {"sum"}, .source = R"(
uint i = thread_position_in_grid.x;
sum[i] += 10.0f * a[i] + b[i];
)"});
  const Array rows(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
  const uint64_t before = rows.device().stats().hidden_copies;
  Array sum = zeros({3, 2});
  std::vector<Array> in_place;
  in_place.push_back(std::move(sum));
  const Array y =
      add_to({rows, turned},
             {.grid = {6, 1, 1}, .threadgroup = {32, 1, 1}, .in_place = std::move(in_place)})[0];
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(10, 23, 31, 44, 52, 65));
  EXPECT_EQ(rows.device().stats().hidden_copies - before, 1U);
}

TEST(KernelCalls, with_wrong_counts_name_what_the_kernel_has) {
  const Kernel kernel(as_it_lies());
  const Array x = zeros({2, 3});
  const auto refused = [&](std::vector<Array> inputs, KernelCall call) {
    call.label = "layer 3";
    return [&kernel, inputs = std::move(inputs), call = std::move(call)] {
      (void)kernel(inputs, call);
    };
  };
  EXPECT_THAT(refused({}, call_on(x)),
              ThrowsMessage<UsageError>(AllOf(HasSubstr("'as_it_lies'"), HasSubstr("'layer 3'"),
                                              HasSubstr("0 inputs given, and it has 1: 'x'"))));
  KernelCall call = call_on(x);
  call.output_shapes.pop_back();
  EXPECT_THAT(
      refused({x}, call),
      ThrowsMessage<UsageError>(HasSubstr("1 output_shape given, and it has 2: 'y', 'stride")));
  call = call_on(x);
  call.output_dtypes.pop_back();
  EXPECT_THAT(refused({x}, call), ThrowsMessage<UsageError>(HasSubstr("1 output_dtype given")));
  call = call_on(x);
  call.in_place.push_back(x);
  EXPECT_THAT(refused({x}, call),
              ThrowsMessage<UsageError>(HasSubstr("1 in_place argument given, and it has 0")));
  EXPECT_THROW((void)kernel({Array()}, call_on(x)), UsageError);
}

// Names are looked at again when they change from one call to the next.
TEST(KernelCalls, with_unknown_names_are_refused_after_good_ones_too) {
  static const Kernel scale({.name = "scale",
                             .inputs = {"x"},
                             .outputs = {"y"},
                             .source = "uint i = thread_position_in_grid.x; y[i] = x[i] * by;"});
  const Array x(std::vector<float>{1, 2});
  const auto call = [&](std::vector<Param> params) {
    return scale({x}, {.grid = {2, 1, 1},
                       .threadgroup = {32, 1, 1},
                       .output_shapes = {{2}},
                       .output_dtypes = {float32},
                       .params = std::move(params)})[0];
  };
  EXPECT_THAT(call({{"by", 3.0F}}).to_vector<float>(), ElementsAre(3, 6));
  EXPECT_THROW((void)call({{"by", 3.0F}, {"x", 1.0F}}), UsageError);
  EXPECT_THAT(call({{"by", 4.0F}}).to_vector<float>(), ElementsAre(4, 8));
  EXPECT_THROW((void)call({{"by", 3.0F}, {"by", 1.0F}}), UsageError);
}

TEST(KernelCalls, fill_outputs_first_where_they_say_so) {
  static const Kernel one({.name = "one_element",
                           .inputs = {"x"},
                           .outputs = {"y"},
                           .source = "y[1] = x[thread_position_in_grid.x];"});
  const Array x(std::vector<float>{5});
  const Array y = one({x}, {.grid = {1, 1, 1},
                            .threadgroup = {1, 1, 1},
                            .output_shapes = {{3}},
                            .output_dtypes = {float32},
                            .init_value = Scalar(7.5F)})[0];
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(7.5F, 5, 7.5F));
}

TEST(KernelCalls, do_not_heal_what_a_failed_fill_left_where_they_write_nothing) {
  const Device device(hal::open_device("adversary(cpu,faults=command@1)").or_raise());
  const UseStream use(device.default_stream());
  static const Kernel one({.name = "one_element",
                           .inputs = {"x"},
                           .outputs = {"y"},
                           .source = "y[1] = x[thread_position_in_grid.x];"});
  const Array x(std::vector<float>{5});
  const Array y = one({x}, {.grid = {1, 1, 1},
                            .threadgroup = {1, 1, 1},
                            .output_shapes = {{3}},
                            .output_dtypes = {float32},
                            .init_value = Scalar(7.5F)})[0];
  EXPECT_THAT([&] { (void)y.to_vector<float>(); },
              ThrowsMessage<Error>(HasSubstr("fill_elements")));
}

}  // namespace
}  // namespace holdfast
