#include "holdfast/hal/relay_timeline.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "holdfast/hal/damage.h"
#include "holdfast/hal/host_timeline.h"

namespace holdfast::hal {
namespace {

const Failure kRelayedCause(ErrorCode::execution, "it broke");
constexpr ByteRange kRelayedBytes{64_B, 64_B};

struct RelayTimelines : ::testing::Test {
  // The Point fails, and leaves these bytes of the allocation bad.
  void fail_with(ResourceId bad, ByteRange range) {
    auto damage = std::make_shared<Damage>();
    damage->add(bad, range, kRelayedCause);
    of_device->fail({1}, Failure(ErrorCode::execution, "some of the list"), std::move(damage));
  }

  const ResourceId allocation = ResourceId::next();
  const Ref<HostTimeline> of_device = make_ref<HostTimeline>(DeviceId::next(), "queue 0");
  const Ref<RelayTimeline> relay =
      make_ref<RelayTimeline>(Point{of_device, {1}}, allocation, kRelayedBytes, "relay");
  const Point point{relay, {1}};
};

TEST_F(RelayTimelines, belongs_to_no_device_and_resolves_with_the_point) {
  EXPECT_FALSE(relay->device());
  EXPECT_EQ(point.query(), PointState::pending);
  EXPECT_EQ(relay->wait({1}, sync::Deadline::after({})), PointState::pending);
  EXPECT_EQ(relay->query({0}), PointState::reached);
  of_device->signal({1});
  EXPECT_EQ(point.query(), PointState::reached);
  EXPECT_EQ(relay->wait({1}, sync::Deadline::never()), PointState::reached);
  EXPECT_FALSE(point.failure());
}

TEST_F(RelayTimelines, fails_with_the_cause_of_the_bytes) {
  fail_with(allocation, {100_B, 4_B});
  EXPECT_EQ(point.query(), PointState::failed);
  EXPECT_EQ(relay->wait({1}, sync::Deadline::never()), PointState::failed);
  EXPECT_EQ(point.failure().message(), "it broke");
  EXPECT_EQ(point.damage(), nullptr) << "all that waits for it is bad";
}

TEST_F(RelayTimelines, is_reached_where_other_bytes_are_bad) {
  fail_with(allocation, {0_B, 64_B});
  EXPECT_EQ(point.query(), PointState::reached);
  EXPECT_FALSE(point.failure());
}

TEST_F(RelayTimelines, is_reached_where_another_allocation_is_bad) {
  fail_with(ResourceId::next(), kRelayedBytes);
  EXPECT_EQ(point.query(), PointState::reached);
}

TEST_F(RelayTimelines, fails_where_nobody_can_tell_which_bytes_are_bad) {
  of_device->fail_all_pending(kRelayedCause);
  EXPECT_EQ(point.query(), PointState::failed);
  EXPECT_EQ(point.failure().message(), "it broke");
}

TEST_F(RelayTimelines, can_be_exported_where_its_point_can) {
  const Result<UniqueFd> descriptor = export_host_point(point);
  ASSERT_TRUE(descriptor);
  const DescriptorTimeline watched(UniqueFd(::dup(descriptor.value().get())), "watched");
  EXPECT_EQ(watched.query({1}), PointState::pending);
  of_device->signal({1});
  EXPECT_EQ(watched.query({1}), PointState::reached);
}

}  // namespace
}  // namespace holdfast::hal
