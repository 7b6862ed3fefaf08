// Random bodies give the same results on the CPU and on Vulkan.

#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "holdfast/base/env.h"
#include "holdfast/kernel/targets/vulkan/body_generator_test.h"
#include "holdfast/kernel/targets/vulkan/compared_body_test.h"
#include "holdfast/testing/effort.h"

namespace holdfast::kernel {
namespace {

constexpr uint64_t kRandomBodies = 25;
constexpr uint64_t kNightlyTimes = 40;

ComparedBody random_body(uint64_t seed) {
  const BodyGenerator::Text text = BodyGenerator(seed).make();
  simulation::Random random(seed ^ 0x67726964ULL);
  for (int i = 0; i < 3; ++i) (void)random.next();
  const auto group = static_cast<uint32_t>(1 + random.below(BodyGenerator::kThreads));
  const auto grid = static_cast<uint32_t>(1 + random.below(150));
  return {.name = "random",
          .body = text.body,
          .header = text.header,
          .inputs = {any_bits("x", Dtype::uint32, BodyGenerator::kInputs, seed + 1)},
          .outputs = {filled("y", Dtype::uint32, size_t{grid} * BodyGenerator::kOutputs)},
          .grid = {grid, 1, 1},
          .threadgroup = {group, 1, 1},
          .params = {{"knob", static_cast<uint32_t>(random.below(1000))}}};
}

// What is wrong with how the two run it; empty: nothing.
std::string fault_of_random_body(uint64_t seed) {
  const ComparedBody body = random_body(seed);
  std::string fault;
  try {
    fault = difference(body, outcome_of(body, testing::Family::cpu),
                       outcome_of(body, testing::Family::vulkan));
  } catch (const Error& error) {
    fault = error.what();
  }
  if (fault.empty()) return {};
  return fmt::format("seed {}: {}\ngrid {}, threadgroup {}, knob {}\n{}\n=====\n{}", seed, fault,
                     body.grid.x, body.threadgroup.x, body.params[0].value.bits, body.header,
                     body.body);
}

void expect_no_fault(uint64_t first, uint64_t count) {
  if (const std::string why = why_no_bodies_on_vulkan(); !why.empty()) GTEST_SKIP() << why;
  fmt::print("seeds {} to {}\n", first, first + count - 1);
  std::fflush(stdout);  // a run that is killed must have said it
  for (uint64_t seed = first; seed - first < count; ++seed) {
    const std::string fault = fault_of_random_body(seed);
    if (!fault.empty()) FAIL() << fault;
  }
}

TEST(RandomBodies, agree_on_cpu_and_vulkan) {
  expect_no_fault(1, testing::shortened(kRandomBodies));
}

// HOLDFAST_SCHEDULES says how many bodies the long one runs, HOLDFAST_SEED the first of them.
TEST(RandomBodies, agree_on_cpu_and_vulkan_nightly) {
  expect_no_fault(env::number("HOLDFAST_SEED").value_or(std::random_device()()),
                  env::number("HOLDFAST_SCHEDULES").value_or(kRandomBodies * kNightlyTimes));
}

}  // namespace
}  // namespace holdfast::kernel
