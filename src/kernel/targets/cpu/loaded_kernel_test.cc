#include "holdfast/kernel/targets/cpu/loaded_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>

namespace holdfast::kernel {
namespace {

using ::testing::HasSubstr;

// What the kernel under test, a function of this file, was called with.
std::vector<std::pair<uint64_t, uint64_t>>& calls() {
  static std::vector<std::pair<uint64_t, uint64_t>> list;
  return list;
}
void record_call(const hf_call* call) { calls().emplace_back(call->first_group, call->end_group); }

class LoadedKernelTest : public ::testing::Test {
 protected:
  LoadedKernelTest() { calls().clear(); }
  static LoadedKernel kernel(LoadedKernel::Entry entry, bool launch_block, uint64_t bytes,
                             size_t bindings = 0) {
    Interface interface;
    interface.bindings.resize(bindings);
    interface.has_launch_block = launch_block;
    interface.parameter_bytes = {bytes};
    return {"k", interface, nullptr, entry, std::make_shared<FiberGroupPool>()};
  }
  // As the device does it, for every group.
  static void dispatch(const LoadedKernel& kernel, hal::Groups groups,
                       std::span<const std::byte> parameters) {
    for (uint32_t z = 0; z < groups.z; ++z) {
      for (uint32_t y = 0; y < groups.y; ++y) {
        for (uint32_t x = 0; x < groups.x; ++x) kernel.run({{x, y, z}, groups, {}, parameters});
      }
    }
  }
  static std::string failure_of(const LoadedKernel& kernel, std::span<const std::byte> parameters) {
    try {
      kernel.run({{0, 0, 0}, {1, 1, 1}, {}, parameters});
    } catch (const ExecutionError& error) {
      return error.what();
    }
    return "no failure";
  }
};

TEST_F(LoadedKernelTest, every_threadgroup_runs_once_however_many_a_group_of_the_device_takes) {
  const LoadedKernel loaded = kernel(record_call, true, sizeof(LaunchBlock));
  for (const uint32_t each : {0U, 1U, 3U, 7U, 100U, 0xffffffffU}) {
    calls().clear();
    const LaunchBlock block{{65, 4, 1}, {32, 2, 1}, {0, 0, 0}, each};
    // More groups than are needed do nothing.
    dispatch(loaded, {4, 2, 2}, std::as_bytes(std::span(&block, 1)));
    std::map<uint64_t, int> ran;
    for (const auto& [first, end] : calls()) {
      EXPECT_LT(first, end);
      for (uint64_t i = first; i < end; ++i) ++ran[i];
    }
    ASSERT_EQ(ran.size(), 6U) << each;
    for (const auto& [group, times] : ran) EXPECT_EQ(times, 1) << group;
    EXPECT_EQ(ran.rbegin()->first, 5U);
  }
}

TEST_F(LoadedKernelTest, a_kernel_without_launch_block_runs_one_group_at_a_time) {
  const LoadedKernel loaded = kernel(
      [](const hf_call* call) {
        record_call(call);
        EXPECT_EQ(call->groups[0], 2U);
        EXPECT_EQ(call->groups[1], 3U);
        EXPECT_EQ(call->groups[2], 1U);
      },
      false, 0);
  dispatch(loaded, {2, 3, 1}, {});
  ASSERT_EQ(calls().size(), 6U);
  for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(calls()[i], std::pair(i, i + 1));
}

TEST_F(LoadedKernelTest, parameters_are_aligned_and_the_same_wherever_the_list_has_them) {
  const LoadedKernel loaded = kernel(
      [](const hf_call* call) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(call->parameters) % 16, 0U);
        for (unsigned i = 0; i < 100; ++i) EXPECT_EQ(call->parameters[i], i);
        calls().emplace_back();
      },
      false, 100);
  std::array<std::byte, 128> bytes{};
  for (size_t offset = 0; offset < 17; ++offset) {
    for (size_t i = 0; i < 100; ++i) bytes[offset + i] = static_cast<std::byte>(i);
    dispatch(loaded, {1, 1, 1}, std::span(bytes).subspan(offset, 100));
  }
  EXPECT_EQ(calls().size(), 17U);
}

TEST_F(LoadedKernelTest, bindings_are_passed_with_their_sizes) {
  const LoadedKernel loaded = kernel(
      [](const hf_call* call) {
        EXPECT_EQ(call->bytes[0], 3U);
        EXPECT_EQ(call->bytes[1], 0U);
        static_cast<char*>(call->buffers[0])[2] = 'x';
      },
      false, 0, 2);
  std::array<std::byte, 3> data{};
  const std::array<std::span<std::byte>, 2> bindings{std::span(data), std::span<std::byte>()};
  loaded.run({{0, 0, 0}, {1, 1, 1}, bindings, {}});
  EXPECT_EQ(data[2], std::byte{'x'});
}

TEST_F(LoadedKernelTest, a_call_that_does_not_fit_the_interface_is_refused_before_it_runs) {
  EXPECT_THAT(failure_of(kernel(record_call, false, 0, 2), {}), HasSubstr("has 2 bindings"));
  EXPECT_THAT(failure_of(kernel(record_call, false, 8), {}), HasSubstr("8 bytes of parameters"));
  EXPECT_THAT(failure_of(kernel(record_call, true, 0), {}), HasSubstr("56 bytes of parameters"));
  const LaunchBlock empty{{1, 1, 1}, {1, 0, 1}, {0, 0, 0}, 1};
  EXPECT_THAT(failure_of(kernel(record_call, true, 56), std::as_bytes(std::span(&empty, 1))),
              HasSubstr("a threadgroup without threads"));
  EXPECT_TRUE(calls().empty());
}

TEST_F(LoadedKernelTest, a_grid_that_no_counter_holds_does_not_overflow) {
  const LoadedKernel loaded = kernel(record_call, true, sizeof(LaunchBlock));
  const LaunchBlock block{{0xffffffff, 0xffffffff, 0xffffffff}, {1, 1, 1}, {0, 0, 0}, 0xffffffff};
  constexpr uint32_t kLast = 0xfffffffe;
  loaded.run({{kLast, kLast, kLast},
              {0xffffffff, 0xffffffff, 0xffffffff},
              {},
              std::as_bytes(std::span(&block, 1))});
  for (const auto& [first, end] : calls()) EXPECT_LE(first, end);
}

}  // namespace
}  // namespace holdfast::kernel
