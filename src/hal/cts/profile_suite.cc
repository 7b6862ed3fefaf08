#include <optional>
#include <string_view>
#include <vector>

#include "holdfast/hal/cts/cts.h"
#include "holdfast/hal/kernel_profile.h"

// How long kernels ran, where a device can tell.

namespace holdfast::hal::cts {
namespace {

constexpr size_t kProfiledElements = 4096;

std::optional<KernelTime> find_time(const std::vector<KernelTime>& times, std::string_view kernel) {
  for (const KernelTime& time : times) {
    if (time.kernel == kernel) return time;
  }
  return std::nullopt;
}

TEST_P(Cts, kernels_are_timed_while_they_are_profiled) {
  KernelProfile* const profile = device().profile();
  if (profile == nullptr) GTEST_SKIP() << "this device cannot tell how long kernels run";
  const auto in = uploaded(counting(kProfiledElements), "in");
  const auto out = words(kProfiledElements, "out");
  const auto run = [&] {
    CommandList steps = list("steps");
    for (int i = 0; i < 3; ++i) {
      if (i > 0) steps.barrier();
      mix(steps, in, out, 500);
    }
    steps.barrier();
    increment(steps, out);
    EXPECT_TRUE(reached(submit(queue(), steps)));
  };
  run();
  EXPECT_FALSE(find_time(profile->times(), "mix"));
  profile->enable(true);
  run();
  run();
  const std::vector<KernelTime> times = profile->times();
  const std::optional<KernelTime> mixed_time = find_time(times, "mix");
  const std::optional<KernelTime> incremented = find_time(times, "increment");
  ASSERT_TRUE(mixed_time);
  ASSERT_TRUE(incremented);
  EXPECT_EQ(mixed_time->dispatches, 6U);
  EXPECT_EQ(incremented->dispatches, 2U);
  EXPECT_GT(mixed_time->total.count(), 0);
  profile->enable(false);
  run();
  const std::optional<KernelTime> later = find_time(profile->times(), "mix");
  ASSERT_TRUE(later);
  EXPECT_EQ(later->dispatches, 6U);
  Words expected = mixed(counting(kProfiledElements), 500);
  for (uint32_t& word : expected) ++word;
  EXPECT_EQ(read(out), expected);
}

TEST_P(Cts, a_replay_is_timed_like_any_list) {
  KernelProfile* const profile = device().profile();
  if (profile == nullptr) GTEST_SKIP() << "this device cannot tell how long kernels run";
  const auto data = uploaded(Words(kProfiledElements, 1), "data");
  CommandList steps = list("steps");
  increment(steps, data);
  const Ref<Program> program = device().create_program(steps).or_raise();
  profile->enable(true);
  for (int i = 0; i < 3; ++i) {
    CommandList one = replay(program, {});
    EXPECT_TRUE(reached(submit(queue(), one)));
  }
  const std::optional<KernelTime> time = find_time(profile->times(), "increment");
  ASSERT_TRUE(time);
  EXPECT_EQ(time->dispatches, 3U);
  profile->enable(false);
}

}  // namespace
}  // namespace holdfast::hal::cts
