// Bodies in the styles of public projects, each on the CPU and on Vulkan from the same inputs.

#include <gtest/gtest.h>

#include "holdfast/kernel/targets/vulkan/bodies_of_arrays_test.h"
#include "holdfast/kernel/targets/vulkan/bodies_of_groups_test.h"
#include "holdfast/kernel/targets/vulkan/bodies_of_statements_test.h"

namespace holdfast::kernel {
namespace {

std::vector<ComparedBody> all_compared_bodies() {
  std::vector<ComparedBody> all;
  for (const auto& some : {bodies_of_arrays(), bodies_of_groups(), bodies_of_statements()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

class BodiesOnVulkan : public ::testing::TestWithParam<ComparedBody> {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_bodies_on_vulkan(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(BodiesOnVulkan, agree_with_the_cpu) {
  const ComparedBody& body = GetParam();
  const auto cpu = outcome_of(body, testing::Family::cpu);
  const auto vulkan = outcome_of(body, testing::Family::vulkan);
  EXPECT_EQ(difference(body, cpu, vulkan), "");
  // A body that writes nothing would agree as well.
  for (size_t i = 0; i < body.outputs.size(); ++i) {
    EXPECT_NE(cpu[i], body.outputs[i].bytes) << body.outputs[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(, BodiesOnVulkan, ::testing::ValuesIn(all_compared_bodies()),
                         [](const auto& tested) { return tested.param.name; });

TEST(BodiesOnVulkanRefused, recursion_is_refused_by_name) {
  if (const std::string why = why_no_bodies_on_vulkan(); !why.empty()) GTEST_SKIP() << why;
  const ComparedBody body{
      .name = "recursive",
      .body = "uint i = thread_position_in_grid.x;\ny[i] = ways(x[i] & 7, x[i]);\n",
      .header = R"(
uint ways(uint n, uint v) {
  if (n < 2) return v;
  return ways(n - 1, v * 3) ^ ways(n - 2, v + 1);
}
)",
      .inputs = {any_bits("x", Dtype::uint32, 32, 1)},
      .outputs = {filled("y", Dtype::uint32, 32)},
      .grid = {32, 1, 1}};
  EXPECT_NO_THROW((void)outcome_of(body, testing::Family::cpu));
  try {
    (void)outcome_of(body, testing::Family::vulkan);
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("recursive"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("ways"));
  }
}

}  // namespace
}  // namespace holdfast::kernel
