#include "holdfast/kernel/launch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "holdfast/base/log.h"
#include "holdfast/kernel/scenarios/kernel_rig_test.h"
#include "holdfast/kernel/targets/vulkan/glsl_compiler.h"
#include "holdfast/testing/vulkan.h"

namespace holdfast::kernel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::World;

// On a device of family_of_bodies(), validated.
struct LaunchTest : ::testing::Test {
  World world{World::Mode::validate};
  KernelRig rig{world};
  Ref<runtime::Stream> stream = rig.stream("main");

  ~LaunchTest() override { EXPECT_EQ(world.failure(), ""); }

  TestArray floats(const std::vector<float>& values, std::string name = "x") {
    return array_of(*stream, values, std::move(name));
  }
  TestArray room(int64_t length, std::string name = "y") {
    return empty_array(*stream, Dtype::float32, length, std::move(name));
  }
  std::string refusal(const Kernel& kernel, const Launch& launch) {
    try {
      rig.kernels.launch(*stream, kernel, launch);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  }

  const Kernel twice{{.name = "twice",
                      .inputs = {"x"},
                      .outputs = {"y"},
                      .source = "uint i = thread_position_in_grid.x; y[i] = 2 * x[i];"}};
};

TEST_F(LaunchTest, a_refused_launch_names_the_kernel_and_compiles_nothing) {
  const TestArray x = floats({1, 2, 3, 4});
  const TestArray y = room(4);
  const std::array<int64_t, 1> four{4};
  const std::array<int64_t, 1> five{5};
  const std::array<int64_t, 1> minus{-1};
  const std::array<int64_t, 9> deep{1, 1, 1, 1, 1, 1, 1, 1, 1};
  const std::array<int64_t, 2> two{2, 2};
  const auto with = [&](const ArrayRef& in, const ArrayRef& out) {
    const std::array inputs{in};
    const std::array outputs{out};
    return refusal(twice, {.inputs = inputs, .outputs = outputs, .grid = {4, 1, 1}});
  };
  EXPECT_THAT(refusal(twice, {}),
              AllOf(HasSubstr("'twice'"), HasSubstr("0 inputs"), HasSubstr("x")));
  EXPECT_THAT(with({nullptr, Dtype::float32, four}, y.ref()), HasSubstr("'x' has no memory"));
  EXPECT_THAT(with({x.memory, Dtype::float32, five}, y.ref()),
              AllOf(HasSubstr("'x' needs 20 B"), HasSubstr("16 B")));
  EXPECT_THAT(with({x.memory, Dtype::float32, minus}, y.ref()), HasSubstr("a length of -1"));
  EXPECT_THAT(with({x.memory, Dtype::float32, deep}, y.ref()), HasSubstr("9 dimensions"));
  EXPECT_THAT(with({x.memory, Dtype::float32, two, four}, y.ref()), HasSubstr("1 strides"));
  EXPECT_THAT(with({x.memory, Dtype::float32, four, minus}, y.ref()), HasSubstr("stride of -1"));
  EXPECT_THAT(with({x.memory, Dtype::float32, {}, {}, 2_B}, y.ref()),
              HasSubstr("begins at byte 2"));
  EXPECT_THAT(with(x.ref(), x.ref()), AllOf(HasSubstr("'y'"), HasSubstr("shares bytes")));
  const std::array<int64_t, 2> huge{INT32_MAX, INT32_MAX};
  const std::array<int64_t, 2> far{INT64_MAX, INT64_MAX};
  EXPECT_THAT(with({x.memory, Dtype::float32, huge, far}, y.ref()),
              HasSubstr("'x' reaches further"));
  const std::array inputs{x.ref()};
  const std::array outputs{y.ref()};
  EXPECT_THAT(refusal(twice, {.inputs = inputs, .outputs = outputs, .threadgroup = {0, 1, 1}}),
              HasSubstr("has no thread"));
  const std::array<Param, 1> unknown{{{"M", 3}}};
  EXPECT_THAT(refusal(twice, {.inputs = inputs, .outputs = outputs, .params = unknown}),
              AllOf(HasSubstr("'twice'"), HasSubstr("M")));
  EXPECT_EQ(rig.target->compiles(), 0U);
}

TEST_F(LaunchTest, a_label_is_shown_whole_escaped_and_not_longer_than_a_line) {
  using namespace std::string_literals;
  const auto labelled = [&](const std::string& label) { return refusal(twice, {.label = label}); };
  EXPECT_THAT(labelled("before\0after\n"s),
              AllOf(HasSubstr("'before\\0after\\n'"), HasSubstr("0 inputs given")));
  const std::string huge = labelled(std::string(1'000'000, 'L'));
  EXPECT_THAT(huge, AllOf(HasSubstr("LLLL"), HasSubstr("1000000 bytes"), HasSubstr("0 inputs")));
  EXPECT_LT(huge.size(), 500U);
}

TEST_F(LaunchTest, a_threadgroup_may_be_as_large_as_the_device_allows_and_no_larger) {
  const TestArray x = floats({1});
  const TestArray y = room(1);
  const std::array inputs{x.ref()};
  const std::array outputs{y.ref()};
  const uint32_t most = rig.device->info().max_group_threads;
  const auto with = [&](const Size3& threadgroup) {
    return refusal(twice, {.inputs = inputs, .outputs = outputs, .threadgroup = threadgroup});
  };
  for (const Size3 good : {Size3{most, 1, 1}, {1, most, 1}, {1, 1, most}, {most / 4, 2, 2}}) {
    EXPECT_EQ(with(good), "nothing was refused");
  }
  for (const Size3 large : {Size3{most + 1, 1, 1},
                            {1, most + 1, 1},
                            {1, 1, most + 1},
                            {most / 4, 2, 3},
                            {0x8000'0000, 0x8000'0000, 4},
                            {4, 0x8000'0000, 0x8000'0000}}) {
    EXPECT_THAT(with(large), HasSubstr("too large"));
  }
  for (const Size3 none : {Size3{0, 1, 1}, {1, 0, 1}, {1, 1, 0}}) {
    EXPECT_THAT(with(none), HasSubstr("has no thread"));
  }
}

TEST_F(LaunchTest, lengths_offsets_and_reaches_are_checked_at_their_limits) {
  const TestArray x = floats({1, 2, 3, 4});
  const TestArray y = room(1);
  const auto with = [&](std::vector<int64_t> shape, std::vector<int64_t> strides, Bytes offset) {
    const std::array inputs{ArrayRef{x.memory, Dtype::float32, shape, strides, offset}};
    const std::array outputs{y.ref()};
    return refusal(twice, {.inputs = inputs, .outputs = outputs});
  };
  const std::string fine = "nothing was refused";
  EXPECT_EQ(with({4}, {}, 0_B), fine);
  EXPECT_EQ(with({3}, {}, 4_B), fine);
  EXPECT_THAT(with({4}, {}, 4_B), HasSubstr("'x' needs 16 B from byte 4 on"));
  EXPECT_EQ(with({0}, {}, 16_B), fine) << "nothing, at the end";
  EXPECT_THAT(with({1}, {}, 16_B), HasSubstr("needs 4 B from byte 16"));
  EXPECT_EQ(with({2, 2}, {2, 1}, 0_B), fine);
  EXPECT_EQ(with({2, 2}, {1, 2}, 0_B), fine);
  EXPECT_EQ(with({2, 2}, {3, 0}, 0_B), fine);
  EXPECT_THAT(with({2, 2}, {3, 1}, 0_B), HasSubstr("needs 20 B"));
  EXPECT_EQ(with({INT32_MAX}, {0}, 0_B), fine) << "one element, repeated";
  EXPECT_THAT(with({int64_t{INT32_MAX} + 1}, {0}, 0_B), HasSubstr("a length of 2147483648"));
  EXPECT_EQ(with({1, 0, 7}, {}, 0_B), fine);
  EXPECT_THAT(with({2}, {int64_t{1} << 59}, 0_B), HasSubstr("needs"));
  EXPECT_THAT(with({2}, {(int64_t{1} << 59) + 1}, 0_B), HasSubstr("reaches further"));
}

TEST_F(LaunchTest, arguments_may_touch_and_inputs_may_share) {
  const TestArray all = floats({1, 2, 3, 4});
  const TestArray apart = room(2);
  const std::array<int64_t, 1> two{2};
  const auto part = [&](Bytes offset) {
    return ArrayRef(all.memory, Dtype::float32, two, {}, offset);
  };
  const Kernel add({.name = "add",
                    .inputs = {"a", "b"},
                    .outputs = {"y"},
                    .source = "uint i = thread_position_in_grid.x; y[i] = a[i] + b[i];"});
  const auto with = [&](const ArrayRef& a, const ArrayRef& b, const ArrayRef& y) {
    const std::array inputs{a, b};
    const std::array outputs{y};
    return refusal(add, {.inputs = inputs, .outputs = outputs, .grid = {2, 1, 1}});
  };
  EXPECT_EQ(with(part(0_B), part(0_B), apart.ref()), "nothing was refused");
  EXPECT_EQ(with(part(0_B), part(4_B), apart.ref()), "nothing was refused");
  EXPECT_THAT(values_of<float>(*stream, apart), ElementsAre(3, 5));
  EXPECT_EQ(with(part(0_B), part(0_B), part(8_B)), "nothing was refused");
  EXPECT_THAT(values_of<float>(*stream, all), ElementsAre(1, 2, 2, 4));
  EXPECT_THAT(with(part(0_B), part(0_B), part(4_B)), HasSubstr("shares bytes"));
  EXPECT_THAT(with(part(8_B), part(0_B), part(4_B)), HasSubstr("shares bytes"));
}

TEST_F(LaunchTest, every_argument_of_every_group_is_the_one_that_was_given) {
  const Kernel kernel({.name = "five",
                       .inputs = {"a", "b"},
                       .outputs = {"y", "z"},
                       .in_place = {"s", "t"},
                       .source = "y[0] = a[0] + s[0]; z[0] = b[0] + t[0]; s[0] = 100 * a[0];\n"
                                 "t[0] = 100 * b[0] + p - q;"});
  const TestArray a = floats({1}, "a");
  const TestArray b = floats({2}, "b");
  const TestArray s = floats({30}, "s");
  const TestArray t = floats({40}, "t");
  const TestArray y = room(1, "y");
  const TestArray z = room(1, "z");
  const std::array inputs{a.ref(), b.ref()};
  const std::array in_place{s.ref(), t.ref()};
  const std::array outputs{y.ref(), z.ref()};
  const std::array<Param, 2> params{{{"p", 7}, {"q", 2.5}}};
  rig.kernels.launch(
      *stream, kernel,
      {.inputs = inputs, .outputs = outputs, .in_place = in_place, .params = params});
  EXPECT_THAT(values_of<float>(*stream, y), ElementsAre(31));
  EXPECT_THAT(values_of<float>(*stream, z), ElementsAre(42));
  EXPECT_THAT(values_of<float>(*stream, s), ElementsAre(100));
  EXPECT_THAT(values_of<float>(*stream, t), ElementsAre(204.5F));
}

TEST_F(LaunchTest, parameters_fill_what_there_is_to_the_last_byte) {
  const auto sum_of = [&](int count) {
    std::string sum = "y[0] = 0";
    std::vector<Param> params;
    for (int i = 0; i < count; ++i) {
      params.push_back({"p" + std::to_string(i), Scalar::of_float64(i)});
      sum += " + p" + std::to_string(i);
    }
    const TestArray y = room(1);
    const std::array outputs{y.ref()};
    const Kernel kernel({.name = "sum", .outputs = {"y"}, .source = sum + ";"});
    const std::string refused = refusal(kernel, {.outputs = outputs, .params = params});
    return refused == "nothing was refused" ? fmt::format("{}", values_of<float>(*stream, y)[0])
                                            : refused;
  };
  constexpr int kMost = (hal::kMaxParameterBytes.value - sizeof(LaunchBlock)) / sizeof(double);
  EXPECT_EQ(sum_of(kMost), fmt::format("{}", kMost * (kMost - 1) / 2));
  EXPECT_THAT(sum_of(kMost + 1), HasSubstr("is the most"));
}

TEST_F(LaunchTest, a_kernel_without_anything_for_the_device_is_refused) {
  const Kernel elsewhere({.name = "elsewhere",
                          .outputs = {"y"},
                          .natives = {{.kind = NativeKind::glsl, .text = "void main() {}"}}});
  const TestArray y = room(1);
  const std::array outputs{y.ref()};
  EXPECT_THAT(refusal(elsewhere, {.outputs = outputs}),
              AllOf(HasSubstr("'elsewhere'"), HasSubstr("no body"), HasSubstr("natives")));
}

TEST_F(LaunchTest, a_grid_that_no_counter_holds_is_refused) {
  if (world.is_left_to_the_cpu("a GPU takes no grid of that size in the first place"))
    GTEST_SKIP() << world.skipped();
  const TestArray x = floats({1});
  const TestArray y = room(1);
  const std::array inputs{x.ref()};
  const std::array outputs{y.ref()};
  EXPECT_THAT(
      refusal(twice,
              {.inputs = inputs, .outputs = outputs, .grid = {UINT32_MAX, UINT32_MAX, UINT32_MAX}}),
      HasSubstr("more than 2^62 threadgroups"));
}

TEST_F(LaunchTest, a_threadgroup_that_a_native_of_the_cpu_declares_is_the_only_one) {
  if (world.is_left_to_the_cpu(testing::kMakesHostCode)) GTEST_SKIP() << world.skipped();
  const auto native = [](std::optional<Size3> declared) {
    return Kernel({.name = "declares",
                   .outputs = {"y"},
                   .natives = {{.kind = NativeKind::cpp,
                                .text = "extern \"C\" void f(const hf_call* call) {\n"
                                        "  static_cast<float*>(call->buffers[0])[0] = 1;\n}",
                                .entry_point = "f",
                                .threadgroup = declared}}});
  };
  const TestArray y = room(1);
  const std::array outputs{y.ref()};
  const auto with = [&](std::optional<Size3> declared) {
    return refusal(native(declared), {.outputs = outputs, .threadgroup = {4, 2, 1}});
  };
  EXPECT_EQ(with({}), "nothing was refused");
  EXPECT_EQ(with(Size3{4, 2, 1}), "nothing was refused");
  EXPECT_THAT(with(Size3{2, 4, 1}), AllOf(HasSubstr("2 x 4 x 1"), HasSubstr("4 x 2 x 1")));
  EXPECT_THROW(
      rig.kernels.prepare(native(Size3{2, 4, 1}), {.outputs = outputs, .threadgroup = {4, 2, 1}}),
      UsageError);
  EXPECT_THROW(native(Size3{0, 1, 1}), UsageError);
}

TEST_F(LaunchTest, a_constant_that_nothing_uses_is_noted_once_and_makes_no_code_of_its_own) {
  std::vector<std::string> notes;
  const logging::Sink before = logging::set_sink([&](const logging::Message& message) {
    if (message.text.find("UNUSED") != std::string_view::npos &&
        message.text.find("the constant") != std::string_view::npos) {
      notes.emplace_back(message.text);
    }
  });
  logging::set_enabled(logging::Topic::kernels, true);
  for (int64_t value = 0; value < 3; ++value) {
    run_elementwise(rig, *stream, twice, floats({1}), room(1), {{"UNUSED", value}});
  }
  logging::set_enabled(logging::Topic::kernels, false);
  logging::set_sink(before);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], AllOf(HasSubstr("'twice'"), HasSubstr("the constant 'UNUSED'")));
  EXPECT_EQ(rig.target->compiles(), 1U);
}

TEST_F(LaunchTest, an_output_with_gaps_does_not_pass_off_as_good_what_a_failed_list_left_there) {
  if (world.is_left_to_checked_kernels()) GTEST_SKIP() << world.skipped();
  const Kernel explode({.name = "explode",
                        .outputs = {"y"},
                        .source = "y[thread_position_in_grid.x] = 1.0f; assert(y[0] == 2.0f);"});
  const TestArray y = room(4);
  const std::array all{y.ref()};
  rig.kernels.launch(*stream, explode, {.outputs = all, .grid = {4, 1, 1}});
  EXPECT_THROW(stream->synchronize(testing::patient()), Error);

  const Kernel every_second({.name = "every_second",
                             .outputs = {"y"},
                             .source = "y[thread_position_in_grid.x * y_strides[0]] = 5.0f;"});
  const std::array<int64_t, 1> two{2};
  const std::array gaps{ArrayRef(y.memory, Dtype::float32, two, two)};
  const Launch with_gaps{.outputs = gaps, .grid = {2, 1, 1}};
  EXPECT_THROW(rig.kernels.launch(*stream, every_second, with_gaps), Error);
  const Kernel store(
      {.name = "store", .outputs = {"y"}, .source = "y[thread_position_in_grid.x] = 3.0f;"});
  rig.kernels.launch(*stream, store, {.outputs = all, .grid = {4, 1, 1}});
  rig.kernels.launch(*stream, every_second, with_gaps);
  EXPECT_THAT(values_of<float>(*stream, y), ElementsAre(5, 3, 5, 3));
}

TEST_F(LaunchTest, offsets_and_strides_reach_the_elements_they_name) {
  const Kernel gather({.name = "gather",
                       .inputs = {"x"},
                       .outputs = {"y"},
                       .source = "uint i = thread_position_in_grid.x;\n"
                                 "y[i] = x[elem_to_loc(i, x_shape, x_strides, x_ndim)];"});
  const TestArray x = floats({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const TestArray y = room(4);
  const std::array<int64_t, 2> shape{2, 2};
  const std::array<int64_t, 2> transposed{1, 4};
  const std::array inputs{ArrayRef{x.memory, Dtype::float32, shape, transposed, 8_B}};
  const std::array outputs{y.ref()};
  rig.kernels.launch(*stream, gather, {.inputs = inputs, .outputs = outputs, .grid = {4, 1, 1}});
  EXPECT_THAT(values_of<float>(*stream, y), ElementsAre(2, 6, 3, 7));
}

TEST_F(LaunchTest, a_rank_that_the_code_does_not_use_makes_no_variant) {
  const TestArray x = floats({1, 2, 3, 4});
  const std::array<int64_t, 1> flat{4};
  const std::array<int64_t, 2> square{2, 2};
  for (const std::span<const int64_t> shape :
       {std::span<const int64_t>(flat), std::span<const int64_t>(square)}) {
    const TestArray y = room(4);
    const std::array inputs{ArrayRef{x.memory, Dtype::float32, shape}};
    const std::array outputs{y.ref()};
    rig.kernels.launch(*stream, twice, {.inputs = inputs, .outputs = outputs, .grid = {4, 1, 1}});
    EXPECT_THAT(values_of<float>(*stream, y), ElementsAre(2, 4, 6, 8));
  }
  EXPECT_EQ(rig.target->compiles(), 1U);
}

TEST_F(LaunchTest, as_many_dimensions_as_there_may_be_are_taken) {
  const TestArray x = floats({1, 2, 3, 4});
  const TestArray y = room(4);
  const std::array<int64_t, kMaxRank> deepest{1, 1, 2, 1, 1, 1, 1, 2};
  const std::array inputs{ArrayRef{x.memory, Dtype::float32, deepest}};
  const std::array outputs{y.ref()};
  rig.kernels.launch(*stream, twice, {.inputs = inputs, .outputs = outputs, .grid = {4, 1, 1}});
  EXPECT_THAT(values_of<float>(*stream, y), ElementsAre(2, 4, 6, 8));
}

TEST_F(LaunchTest, an_input_without_dimensions_is_a_value) {
  const Kernel scale({.name = "scale",
                      .inputs = {"x", "by"},
                      .outputs = {"y"},
                      .source = "uint i = thread_position_in_grid.x; y[i] = x[i] * by;"});
  const TestArray x = floats({1, 2});
  const TestArray by = floats({10}, "by");
  const TestArray y = room(2);
  const std::array inputs{x.ref(), ArrayRef{by.memory, Dtype::float32, {}}};
  const std::array outputs{y.ref()};
  rig.kernels.launch(*stream, scale, {.inputs = inputs, .outputs = outputs, .grid = {2, 1, 1}});
  EXPECT_THAT(values_of<float>(*stream, y), ElementsAre(10, 20));
}

TEST_F(LaunchTest, an_empty_grid_is_checked_and_does_nothing) {
  const TestArray x = floats({1});
  const TestArray y = floats({7}, "y");
  const std::array inputs{x.ref()};
  const std::array outputs{y.ref()};
  rig.kernels.launch(*stream, twice, {.inputs = inputs, .outputs = outputs, .grid = {0, 1, 1}});
  EXPECT_THAT(values_of<float>(*stream, y), ElementsAre(7));
}

TEST_F(LaunchTest, a_transaction_records_all_or_nothing) {
  const TestArray x = floats({1});
  const TestArray y = floats({7}, "y");
  const std::array inputs{x.ref()};
  const std::array outputs{y.ref()};
  {
    runtime::Transaction transaction = stream->begin();
    rig.kernels.launch(transaction, twice, {.inputs = inputs, .outputs = outputs});
  }
  EXPECT_THAT(values_of<float>(*stream, y), ElementsAre(7));
  runtime::Transaction transaction = stream->begin();
  rig.kernels.launch(transaction, twice, {.inputs = inputs, .outputs = outputs});
  transaction.commit();
  EXPECT_THAT(values_of<float>(*stream, y), ElementsAre(2));
}

TEST_F(LaunchTest, a_body_can_lie_in_a_file_which_messages_then_name) {
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "holdfast_body_of_launch_test.metal";
  std::ofstream(path) << "uint i = thread_position_in_grid.x;\ny[i] = x[i] + oops;\n";
  const Kernel broken(
      {.name = "from_file", .inputs = {"x"}, .outputs = {"y"}, .file = path.native()});
  const TestArray x = floats({1});
  const TestArray y = room(1);
  const std::array inputs{x.ref()};
  const std::array outputs{y.ref()};
  EXPECT_THAT(refusal(broken, {.inputs = inputs, .outputs = outputs}),
              AllOf(HasSubstr("'from_file'"), HasSubstr("launch_test.metal:2"), HasSubstr("oops")));
  std::filesystem::remove(path);
  EXPECT_THROW(Kernel({.name = "k", .outputs = {"y"}, .file = path.native()}), EnvironmentError);
}

TEST_F(LaunchTest, an_index_out_of_bounds_fails_the_list_and_names_all) {
  if (world.is_left_to_checked_kernels()) GTEST_SKIP() << world.skipped();
  KernelRuntime checked(rig.context, {.target = rig.target, .disk = nullptr, .bounds = true});
  const Kernel over({.name = "over",
                     .inputs = {"x"},
                     .outputs = {"y"},
                     .source = "uint i = thread_position_in_grid.x;\ny[i] =\n  x[i + 1];"});
  const TestArray x = floats({1, 2, 3});
  const TestArray y = room(3);
  const std::array inputs{x.ref()};
  const std::array outputs{y.ref()};
  checked.launch(*stream, over, {.inputs = inputs, .outputs = outputs, .grid = {3, 1, 1}});
  try {
    values_of<float>(*stream, y);
    FAIL() << "nothing was noticed";
  } catch (const ExecutionError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'over'"), HasSubstr("over:3"), HasSubstr("'x'"),
                                    HasSubstr("index 3"), HasSubstr("3 elements")));
  }
}

TEST_F(LaunchTest, a_failed_assertion_fails_the_list_with_its_text) {
  if (world.is_left_to_checked_kernels()) GTEST_SKIP() << world.skipped();
  const Kernel asserts({.name = "asserts",
                        .inputs = {"x"},
                        .outputs = {"y"},
                        .source = "uint i = thread_position_in_grid.x;\nassert(x[i] < 2);\n"
                                  "y[i] = x[i];"});
  const TestArray x = floats({1, 2});
  const TestArray y = room(2);
  const std::array inputs{x.ref()};
  const std::array outputs{y.ref()};
  rig.kernels.launch(*stream, asserts, {.inputs = inputs, .outputs = outputs, .grid = {2, 1, 1}});
  try {
    values_of<float>(*stream, y);
    FAIL() << "nothing was noticed";
  } catch (const ExecutionError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("'asserts'"), HasSubstr(":2"), HasSubstr("x[i] < 2")));
  }
}

TEST_F(LaunchTest, signatures_compiled_ahead_are_found_by_calls) {
  const CallSignature good{.inputs = {{Dtype::float32, 1}}, .outputs = {{Dtype::float32, 1}}};
  const CallSignature bad{.inputs = {}, .outputs = {{Dtype::float32, 1}}};
  const std::vector<Failure> failures = rig.kernels.warm_up(twice, std::array{good, bad});
  ASSERT_EQ(failures.size(), 2U);
  EXPECT_FALSE(failures[0]);
  EXPECT_TRUE(failures[1]);
  EXPECT_EQ(rig.target->compiles(), 1U);
  run_elementwise(rig, *stream, twice, floats({1}), room(1));
  EXPECT_EQ(rig.target->compiles(), 1U);
}

TEST_F(LaunchTest, compiling_ahead_refuses_counts_that_differ) {
  const CallSignature three{
      .inputs = {{Dtype::float32, 1}, {Dtype::float32, 1}, {Dtype::float32, 1}},
      .outputs = {{Dtype::float32, 1}}};
  const std::vector<Failure> failures = rig.kernels.warm_up(twice, {&three, 1});
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_THAT(failures[0].message(), HasSubstr("'twice'"));
}

TEST_F(LaunchTest, limits_of_devices_are_known_before_anything_is_compiled) {
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) names.push_back("x" + std::to_string(i));
  try {
    const Kernel wide(
        {.name = "wide", .inputs = names, .outputs = {"y"}, .source = "y[0] = x0[0];"});
    ADD_FAILURE() << "41 arguments were taken";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'wide'"), HasSubstr("41"), HasSubstr("31")));
  }
  std::string sum = "y[0] = 0";
  std::vector<Param> params;
  for (int i = 0; i < 600; ++i) {
    params.push_back({"p" + std::to_string(i), Scalar::of_float64(i)});
    sum += " + p" + std::to_string(i);
  }
  const Kernel many({.name = "many", .outputs = {"y"}, .source = sum + ";"});
  const TestArray y = room(1);
  const std::array outputs{y.ref()};
  EXPECT_THAT(refusal(many, {.outputs = outputs, .params = params}),
              AllOf(HasSubstr("'many'"), HasSubstr("4.0 KiB")));
  EXPECT_EQ(rig.target->compiles(), 0U);
}

TEST_F(LaunchTest, a_folder_is_no_body) {
  try {
    const Kernel folder({.name = "k", .outputs = {"y"}, .file = ::testing::TempDir()});
    ADD_FAILURE() << "a folder was read";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'k'"), HasSubstr("folder")));
  }
}

TEST_F(LaunchTest, a_forked_child_is_refused_at_once) {
  const TestArray x = floats({1});
  const TestArray y = room(1);
  const std::array inputs{x.ref()};
  const std::array outputs{y.ref()};
  const pid_t child = fork();
  if (child == 0) {
    const std::string answer = refusal(twice, {.inputs = inputs, .outputs = outputs});
    _exit(answer.find("forked") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(rig.target->compiles(), 0U);
}

TEST_F(LaunchTest, native_text_of_the_cpu_runs_as_it_is_with_constants_as_macros) {
  if (world.is_left_to_the_cpu(testing::kMakesHostCode)) GTEST_SKIP() << world.skipped();
  const Kernel native({.name = "native",
                       .inputs = {"x"},
                       .outputs = {"y"},
                       .natives = {{.kind = NativeKind::cpp,
                                    .text = R"(
extern "C" void shift(const hf_call* call) {
  const float* x = static_cast<const float*>(call->buffers[1]);
  float* y = static_cast<float*>(call->buffers[0]);
  for (unsigned long i = 0; i < call->bytes[0] / sizeof(float); ++i) y[i] = T(x[i] + N);
})",
                                    .entry_point = "shift",
                                    .bindings = {"y", "x"}}}});
  const TestArray x = floats({1, 2});
  const TestArray y = room(2);
  const std::array inputs{x.ref()};
  const std::array outputs{y.ref()};
  const std::array<Constant, 2> constants{{{"T", Dtype::float32}, {"N", -1}}};
  rig.kernels.launch(*stream, native,
                     {.inputs = inputs, .outputs = outputs, .constants = constants});
  EXPECT_THAT(values_of<float>(*stream, y), ElementsAre(0, 1));
}

const char* const kGlsl = R"(
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) writeonly buffer Y { float y[]; };
layout(set = 0, binding = 1, std430) readonly buffer X { float x[]; };
layout(push_constant) uniform Parameters { float by; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < y.length()) y[i] = x[i] * by + N;
}
)";

TEST(LaunchOnVulkan, natives_and_bodies_run_on_vulkan) {
  if (const std::string why = testing::why_no_vulkan(); !why.empty()) GTEST_SKIP() << why;
  World world(World::Mode::validate, {}, testing::Family::vulkan);
  {
    testing::Rig rig(world);
    KernelRuntime kernels(rig.context, {.disk = nullptr});
    const auto stream = rig.stream("main");
    const TestArray x = array_of(*stream, std::vector<float>{1, 2, 3}, "x");
    const TestArray y = empty_array(*stream, Dtype::float32, 3, "y");
    const std::array inputs{x.ref()};
    const std::array outputs{y.ref()};
    const std::array<Param, 1> params{{{"by", 10.0F}}};
    const std::array<Constant, 1> constants{{{"N", 5}}};
    const Launch launch{.inputs = inputs,
                        .outputs = outputs,
                        .grid = {3, 1, 1},
                        .threadgroup = {64, 1, 1},
                        .constants = constants,
                        .params = params};
    const Kernel glsl(
        {.name = "glsl",
         .inputs = {"x"},
         .outputs = {"y"},
         .natives = {{.kind = NativeKind::glsl, .text = kGlsl, .bindings = {"y", "x"}}}});
    kernels.launch(*stream, glsl, launch);
    EXPECT_THAT(values_of<float>(*stream, y), ElementsAre(15, 25, 35));
    // The same as a finished module: its constant is specialized.
    const auto module =
        compile_glsl({.name = "module",
                      .text = "layout(constant_id = 0) const int N = 0;" + std::string(kGlsl)});
    const auto words = std::as_bytes(std::span(module.value().words));
    const Kernel spirv({.name = "spirv",
                        .inputs = {"x"},
                        .outputs = {"y"},
                        .natives = {{.kind = NativeKind::spirv,
                                     .module = {words.begin(), words.end()},
                                     .bindings = {"y", "x"},
                                     .constants = {"N"}}}});
    const TestArray z = empty_array(*stream, Dtype::float32, 3, "z");
    const std::array others{z.ref()};
    Launch second = launch;
    second.outputs = others;
    kernels.launch(*stream, spirv, second);
    EXPECT_THAT(values_of<float>(*stream, z), ElementsAre(15, 25, 35));
    const Kernel body({.name = "body",
                       .inputs = {"x"},
                       .outputs = {"y"},
                       .source = "uint i = thread_position_in_grid.x; y[i] = x[i] * by + N;"});
    const TestArray w = empty_array(*stream, Dtype::float32, 3, "w");
    const std::array bodies{w.ref()};
    second.outputs = bodies;
    kernels.launch(*stream, body, second);
    EXPECT_THAT(values_of<float>(*stream, w), ElementsAre(15, 25, 35));
  }
  EXPECT_EQ(world.failure(), "");
}

// Each thread tells its group's size and its place in it.
const char* const kSizeOfGroup = R"(
layout(set = 0, binding = 0, std430) writeonly buffer Y { float y[]; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < y.length()) y[i] = float(gl_WorkGroupSize.x * 100 + gl_LocalInvocationID.x);
}
)";

struct NativeGroups : ::testing::Test {
  void SetUp() override {
    if (const std::string why = testing::why_no_vulkan(); !why.empty()) GTEST_SKIP() << why;
    world.emplace(World::Mode::validate, hal::FaultPlan{}, testing::Family::vulkan);
    rig.emplace(*world);
    kernels.emplace(rig->context, Options{.disk = nullptr});
    stream = rig->stream("main");
  }
  void TearDown() override {
    if (!world) return;
    stream = nullptr;
    kernels.reset();
    rig.reset();
    EXPECT_EQ(world->failure(), "");
  }
  // What the threads tell, or the refusal's words.
  std::string told(const Native& native, const Size3& threadgroup,
                   const std::vector<Constant>& constants = {}) {
    const Kernel kernel({.name = "sizes", .outputs = {"y"}, .natives = {native}});
    const TestArray y = empty_array(*stream, Dtype::float32, 6, "y");
    const std::array outputs{y.ref()};
    try {
      kernels->launch(*stream, kernel,
                      {.outputs = outputs,
                       .grid = {6, 1, 1},
                       .threadgroup = threadgroup,
                       .constants = constants,
                       .label = "tell"});
    } catch (const UsageError& error) {
      return error.what();
    }
    return ::testing::PrintToString(values_of<float>(*stream, y));
  }
  static Native glsl(const std::string& layout) {
    return {.kind = NativeKind::glsl, .text = layout + kSizeOfGroup};
  }
  static Native spirv(const std::string& layout, std::vector<std::string> constants = {}) {
    const auto module = compile_glsl({.name = "sizes", .text = layout + kSizeOfGroup}).or_raise();
    const auto words = std::as_bytes(std::span(module.words));
    return {.kind = NativeKind::spirv,
            .module = {words.begin(), words.end()},
            .constants = std::move(constants)};
  }

  std::optional<World> world;
  std::optional<testing::Rig> rig;
  std::optional<KernelRuntime> kernels;
  Ref<runtime::Stream> stream;
};

TEST_F(NativeGroups, a_threadgroup_that_is_not_the_natives_own_is_refused_with_both_sizes) {
  const std::string layout = "layout(local_size_x = 2, local_size_y = 1) in;";
  for (const Native& native : {glsl(layout), spirv(layout)}) {
    EXPECT_EQ(told(native, {2, 1, 1}), "{ 200, 201, 200, 201, 200, 201 }");
    for (const Size3 other : {Size3{3, 1, 1}, Size3{2, 2, 1}, Size3{2, 1, 2}, Size3{1, 2, 1}}) {
      EXPECT_THAT(told(native, other),
                  AllOf(HasSubstr("kernel 'sizes', labelled 'tell'"), HasSubstr("2 x 1 x 1"),
                        HasSubstr(fmt::format("{} x {} x {}", other.x, other.y, other.z))));
    }
  }
}

TEST_F(NativeGroups, a_declared_size_that_contradicts_the_module_is_refused) {
  Native native = glsl("layout(local_size_x = 2) in;");
  native.threadgroup = Size3{2, 1, 1};
  EXPECT_EQ(told(native, {2, 1, 1}), "{ 200, 201, 200, 201, 200, 201 }");
  native.threadgroup = Size3{3, 1, 1};
  EXPECT_THAT(told(native, {3, 1, 1}),
              AllOf(HasSubstr("'sizes'"), HasSubstr("2 x 1 x 1"), HasSubstr("3 x 1 x 1")));
}

TEST_F(NativeGroups, a_text_leaves_its_size_to_a_constant_too) {
  Native native = glsl("layout(local_size_x_id = 0) in;");
  native.constants = {"WIDTH"};
  EXPECT_EQ(told(native, {3, 1, 1}, {{"WIDTH", 3}}), "{ 300, 301, 302, 300, 301, 302 }");
  EXPECT_THAT(told(native, {2, 1, 1}, {{"WIDTH", 3}}), HasSubstr("3 x 1 x 1"));
}

TEST_F(NativeGroups, a_size_left_to_specialization_constants_is_the_one_they_give_it) {
  const std::string layout = "layout(local_size_x_id = 0) in;";
  const Native native = spirv(layout, {"WIDTH"});
  EXPECT_EQ(told(native, {3, 1, 1}, {{"WIDTH", 3}}), "{ 300, 301, 302, 300, 301, 302 }");
  EXPECT_EQ(told(native, {2, 1, 1}, {{"WIDTH", 2}}), "{ 200, 201, 200, 201, 200, 201 }");
  EXPECT_EQ(told(native, {1, 1, 1}), "{ 100, 100, 100, 100, 100, 100 }");
  EXPECT_THAT(told(native, {2, 1, 1}, {{"WIDTH", 3}}),
              AllOf(HasSubstr("3 x 1 x 1"), HasSubstr("2 x 1 x 1")));
  EXPECT_THAT(told(native, {2, 1, 1}), AllOf(HasSubstr("1 x 1 x 1"), HasSubstr("2 x 1 x 1")));
}

// Launches whose form is known take a short cut; the cache must hear of them all the same.
TEST_F(LaunchTest, a_launch_of_a_known_form_counts_as_a_use_of_its_variant) {
  const TestArray x = floats({1, 2});
  const TestArray y = room(2);
  const std::array inputs{x.ref()};
  const std::array outputs{y.ref()};
  const Launch launch{
      .inputs = inputs, .outputs = outputs, .grid = {2, 1, 1}, .threadgroup = {1, 1, 1}};
  const auto other = [](const char* name) {
    return Kernel({.name = name,
                   .inputs = {"x"},
                   .outputs = {"y"},
                   .source = fmt::format("y[0] = x[0]; // {}", name)});
  };
  const Kernel second = other("second");
  const Kernel third = other("third");
  rig.kernels.set_limits({.variants = 2});
  rig.kernels.launch(*stream, twice, launch);
  rig.kernels.launch(*stream, second, launch);
  const uint64_t hits = rig.kernels.stats().hits;
  for (int i = 0; i < 3; ++i) rig.kernels.launch(*stream, twice, launch);
  EXPECT_EQ(rig.kernels.stats().hits, hits + 3);
  rig.kernels.launch(*stream, third, launch);  // second goes: it was used least recently
  const uint64_t compiles = rig.kernels.stats().compiles;
  rig.kernels.launch(*stream, twice, launch);
  EXPECT_EQ(rig.kernels.stats().compiles, compiles);
  rig.kernels.launch(*stream, second, launch);
  EXPECT_EQ(rig.kernels.stats().compiles, compiles + 1);
}

TEST_F(LaunchTest, clear_forgets_launches_of_known_forms) {
  const TestArray x = floats({1, 2});
  const TestArray y = room(2);
  const std::array inputs{x.ref()};
  const std::array outputs{y.ref()};
  const Launch launch{
      .inputs = inputs, .outputs = outputs, .grid = {2, 1, 1}, .threadgroup = {1, 1, 1}};
  rig.kernels.launch(*stream, twice, launch);
  stream->synchronize();
  const uint64_t misses = rig.kernels.stats().misses;
  rig.kernels.clear();
  EXPECT_EQ(rig.kernels.stats().variants, 0U);
  rig.kernels.launch(*stream, twice, launch);
  EXPECT_EQ(rig.kernels.stats().misses, misses + 1);
}

}  // namespace
}  // namespace holdfast::kernel
