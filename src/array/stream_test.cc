#include "holdfast/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "holdfast/array.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/creation.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/hal/devices.h"
#include "holdfast/ops.h"

namespace holdfast {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Where nodes of this task go now.
Stream now() { return zeros({1}).stream(); }

TEST(Devices, are_the_same_by_all_of_their_names) {
  const Device hostile = device("adversary(cpu)");
  EXPECT_EQ(device(hostile.name()), hostile);
  EXPECT_EQ(device("adversary(cpu,seed=1)"), hostile);
  EXPECT_FALSE(device("adversary(cpu,seed=2)") == hostile);
}

struct UseStreams : ::testing::Test {
  const Device device{hal::open_device("cpu").or_raise()};
  const Stream a = device.new_stream("a");
  const Stream b = device.new_stream("b");
  const Stream c = device.new_stream("c");
  const Stream none = default_device().default_stream();
};

TEST_F(UseStreams, the_innermost_one_counts) {
  const UseStream outer(a);
  EXPECT_EQ(now(), a);
  {
    const UseStream inner(b);
    EXPECT_EQ(now(), b);
  }
  EXPECT_EQ(now(), a);
}

TEST_F(UseStreams, dropped_out_of_order_the_innermost_that_is_left_counts) {
  auto outer = std::make_unique<UseStream>(a);
  auto middle = std::make_unique<UseStream>(b);
  auto inner = std::make_unique<UseStream>(c);
  middle.reset();
  EXPECT_EQ(now(), c);
  outer.reset();
  EXPECT_EQ(now(), c);
  inner.reset();
  EXPECT_EQ(now(), none);
}

TEST_F(UseStreams, what_was_dropped_in_the_middle_does_not_come_back) {
  auto outer = std::make_unique<UseStream>(a);
  auto middle = std::make_unique<UseStream>(b);
  {
    const UseStream inner(c);
    middle.reset();
  }
  EXPECT_EQ(now(), a);
  const UseStream next(b);
  EXPECT_EQ(now(), b);
  outer.reset();
  EXPECT_EQ(now(), b);
}

TEST_F(UseStreams, one_that_another_task_drops_ends_here) {
  auto scope = std::make_unique<UseStream>(a);
  EXPECT_EQ(now(), a);
  sync::Thread("other", [&] {
    EXPECT_EQ(now(), none) << "scopes belong to their task";
    const UseStream own(b);
    scope.reset();
    EXPECT_EQ(now(), b);
  }).join();
  EXPECT_EQ(now(), none);
}

TEST_F(UseStreams, one_outlives_the_task_that_made_it) {
  std::unique_ptr<UseStream> scope;
  sync::Thread("other", [&] { scope = std::make_unique<UseStream>(a); }).join();
  EXPECT_EQ(now(), none);
  const UseStream mine(b);
  scope.reset();
  EXPECT_EQ(now(), b);
}

TEST_F(UseStreams, keep_the_stream) {
  std::optional<Stream> own = device.new_stream("own");
  const UseStream scope(*own);
  own.reset();
  EXPECT_EQ(now().name(), "own");
}

TEST_F(UseStreams, of_another_device_than_the_inputs_do_not_count) {
  const Array x(std::vector<float>{1, 2}, {2}, "x", device);
  const UseStream scope(none);
  EXPECT_EQ((x + 1.0F).stream(), device.default_stream());
  const UseStream inner(a);
  EXPECT_EQ((x + 1.0F).stream(), a);
}

TEST_F(UseStreams, a_stream_that_is_given_counts_before_them) {
  const UseStream scope(a);
  EXPECT_EQ(zeros({1}, float32, b).stream(), b);
  EXPECT_EQ(zeros({1}, float32, device).stream(), device.default_stream());
}

// Two devices of one name.
TEST(TwoDevices, of_one_name_are_told_apart) {
  const Device first(hal::open_device("cpu").or_raise());
  const Device second(hal::open_device("cpu").or_raise());
  const Array x(std::vector<float>{1, 2}, {2}, "weights", first);
  const Array y(std::vector<float>{1, 2}, {2}, "tokens", second);
  EXPECT_THAT([&] { (void)(x + y); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("'weights'"), HasSubstr("'tokens'"),
                                              HasSubstr("input 0"), HasSubstr("input 1"),
                                              HasSubstr("opened separately"))));
  EXPECT_THAT([&] { (void)add(x, x, second); },
              ThrowsMessage<UsageError>(AllOf(
                  HasSubstr("'weights'"), HasSubstr("opened separately"), HasSubstr("to_device"))));
}

TEST(TwoDevices, of_two_names_are_named) {
  const Device first(hal::CpuDevice::open());
  const Device second(hal::open_device("validate(cpu)").or_raise());
  const Array x(std::vector<float>{1, 2}, {2}, "", first);
  const Array y(std::vector<float>{1, 2}, {2}, "", second);
  EXPECT_THAT([&] { (void)(x + y); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("'cpu'"), HasSubstr("'validate(cpu)'"),
                                              ::testing::Not(HasSubstr("separately")),
                                              HasSubstr("to_device"))));
  EXPECT_EQ((to_device(x, second) + y).to_vector<float>(), (std::vector<float>{2, 4}));
}

}  // namespace
}  // namespace holdfast
