// Checks that fail in a body on Vulkan: the same error as on the CPU, for those who depend on it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/kernel/language_rig_test.h"
#include "holdfast/kernel/targets/vulkan/clang.h"
#include "holdfast/kernel/targets/vulkan/vulkan_target.h"
#include "holdfast/testing/vulkan.h"

namespace holdfast::kernel {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr uint32_t kCheckedThreads = 96;
constexpr const char* kNothing = "nothing failed";

struct CheckedBody {
  std::string source;
  std::string header{};
  bool bounds = false;
};

class ChecksOnVulkan : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = testing::why_no_vulkan(); !why.empty()) GTEST_SKIP() << why;
    const auto clang = Clang::find();
    if (!clang) GTEST_SKIP() << clang.failure().message();
  }

  // What y has afterwards; x counts from zero.
  static std::vector<float> result_of(const CheckedBody& body, testing::Family family) {
    World world(World::Mode::validate, {}, family);
    KernelRig rig(world, {.disk = nullptr, .bounds = body.bounds});
    const auto stream = rig.stream("main");
    const TestArray x = array_of(*stream, iota(kCheckedThreads), "x");
    const TestArray y = array_of(*stream, std::vector<float>(kCheckedThreads), "y");
    launch(rig, *stream, body, x, y);
    return values_of<float>(*stream, y);
  }
  static void launch(KernelRig& rig, runtime::Stream& stream, const CheckedBody& body,
                     const TestArray& x, const TestArray& y) {
    const std::array inputs{x.ref()};
    const std::array outputs{y.ref()};
    rig.kernels.launch(stream,
                       Kernel({.name = "checked",
                               .inputs = {"x"},
                               .outputs = {"y"},
                               .source = body.source,
                               .header = body.header}),
                       {.inputs = inputs,
                        .outputs = outputs,
                        .grid = {kCheckedThreads, 1, 1},
                        .threadgroup = {32, 1, 1}});
  }
  // The kernel's own words; the device puts the command's place in its list before them.
  static std::string told(const std::function<void()>& call) {
    try {
      call();
    } catch (const ExecutionError& error) {
      const std::string message = error.what();
      return message.substr(std::min(message.find("kernel 'checked', "), message.size()));
    }
    return kNothing;
  }
  static std::string told(const CheckedBody& body, testing::Family family) {
    return told([&] { (void)result_of(body, family); });
  }
};

TEST_F(ChecksOnVulkan, the_sentence_is_that_of_the_cpu) {
  const std::vector<CheckedBody> bodies{
      {.source = "uint i = thread_position_in_grid.x;\ny[i] = x[i + (i == 95 ? 40 : 0)];",
       .bounds = true},
      {.source = "uint i = thread_position_in_grid.x;\nif (i == 7) y[-3] = 1;", .bounds = true},
      {.source = "uint i = thread_position_in_grid.x;\nauto from = i < 50 ? x : y;\n\n"
                 "y[i] = i == 60 ? from[96] : 0;",
       .bounds = true},
      {.source = "uint i = thread_position_in_grid.x;\ny[i] = root(x[i]);",
       .header =
           "float root(float v) {\n  assert(v != 33 && \"no \\\"33\\\"\");\n  return v;\n}\n"},
      {.source = "auto p = x;\nauto kept = y;\nfor (int i = 0; i < 97; ++i) kept[0] += p[i];",
       .bounds = true},
  };
  for (const CheckedBody& body : bodies) {
    const std::string cpu = told(body, testing::Family::cpu);
    EXPECT_THAT(cpu, HasSubstr("kernel 'checked', checked")) << body.source;
    EXPECT_EQ(told(body, testing::Family::vulkan), cpu) << body.source;
  }
}

TEST_F(ChecksOnVulkan, threads_that_fail_let_the_others_meet) {
  const CheckedBody barriers{.source = R"(
threadgroup float tile[32];
uint i = thread_position_in_grid.x;
uint t = thread_index_in_threadgroup;
tile[t] = x[i];
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint round = 0; round < 4; ++round) {
  assert(x[i] != 37 || round < 2);
  float other = tile[(t + round) % 32];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  tile[t] = other + simd_sum(1.0f);
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
y[i] = tile[t];
)"};
  EXPECT_EQ(told(barriers, testing::Family::vulkan), told(barriers, testing::Family::cpu));
  CheckedBody holds = barriers;
  holds.source.replace(holds.source.find("37"), 2, "-1");
  EXPECT_EQ(result_of(holds, testing::Family::vulkan), result_of(holds, testing::Family::cpu));
  holds.bounds = true;
  EXPECT_EQ(result_of(holds, testing::Family::vulkan), result_of(holds, testing::Family::cpu));
}

TEST_F(ChecksOnVulkan, only_what_depends_on_the_failure_raises_it) {
  World world(World::Mode::plain, {}, testing::Family::vulkan);
  KernelRig rig(world);
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  const TestArray x = array_of(*a, iota(kCheckedThreads), "x");
  const auto room = [&] { return array_of(*a, std::vector<float>(kCheckedThreads, -1), "room"); };
  const TestArray bad = room(), beside = room(), after = room(), elsewhere = room();
  const CheckedBody plus_one{.source = "uint i = thread_position_in_grid.x;\ny[i] = x[i] * 0 + 1;"};
  const CheckedBody fails{
      .source = "uint i = thread_position_in_grid.x;\nassert(x[i] != 5);\ny[i] = x[i];"};
  // Held back until all is recorded: a launch that reads what is known to be bad raises at once.
  testing::Gate gate(*rig.context);
  a->wait_for(gate.point());
  launch(rig, *a, fails, x, bad);
  launch(rig, *a, plus_one, x, beside);
  launch(rig, *b, plus_one, bad, elsewhere);
  launch(rig, *a, plus_one, bad, after);
  b->flush();
  gate.open();
  for (const TestArray* array : {&elsewhere, &after, &bad}) {
    EXPECT_EQ(told([&] { (void)values_of<float>(*b, *array); }),
              "kernel 'checked', checked:2: the assertion 'x[i] != 5' does not hold");
  }
  EXPECT_EQ(told([&] { EXPECT_THAT(values_of<float>(*a, beside), Each(1.0F)); }), kNothing);
  // Overwritten, it is good again.
  EXPECT_EQ(told([&] { launch(rig, *a, plus_one, x, bad); }), kNothing);
  EXPECT_EQ(told([&] { EXPECT_THAT(values_of<float>(*a, bad), Each(1.0F)); }), kNothing);
}

TEST_F(ChecksOnVulkan, a_body_without_checks_carries_nothing_of_them) {
  VulkanTarget target{hal::DeviceInfo{}};
  const auto made = [&](std::string source, bool bounds) {
    const CallSignature signature{.inputs = {{Dtype::float32, 1}},
                                  .outputs = {{Dtype::float32, 1}}};
    const Definition definition{
        .name = "checked", .inputs = {"x"}, .outputs = {"y"}, .source = std::move(source)};
    CompileJob job{.kernel = "checked",
                   .code = target.generate(definition, signature, {.bounds = bounds}).or_raise()};
    const Code code = target.compile(job).or_raise();
    const std::string text(reinterpret_cast<const char*>(code.data()), code.size());
    const bool named = text.find("holdfast.name") != text.npos;
    EXPECT_EQ(named, job.code.interface.reports);
    EXPECT_EQ(job.code.interface.binding_lengths, bounds);
    return named;
  };
  EXPECT_FALSE(made("y[0] = x[0];", false));
  EXPECT_TRUE(made("y[0] = x[0];", true));
  EXPECT_TRUE(made("assert(x[0] > 0); y[0] = x[0];", false));
}

}  // namespace
}  // namespace holdfast::kernel
