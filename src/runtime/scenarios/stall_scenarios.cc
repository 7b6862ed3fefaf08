#include <array>

#include "holdfast/testing/rig.h"
#include "holdfast/testing/scenario.h"

// Who waits, for what, and what it costs.
namespace holdfast::testing {
namespace {

using runtime::WaitReason;

// Set at the latest when the scope ends, however that comes.
class SetAtEnd {
 public:
  explicit SetAtEnd(Event& event) : event_(event) {}
  ~SetAtEnd() { event_.set(); }
  SetAtEnd(const SetAtEnd&) = delete;
  SetAtEnd& operator=(const SetAtEnd&) = delete;

 private:
  Event& event_;
};

// burn#2032: a task is blocked in a readback of what only another task's progress brings about.
void blocked_readback(World& world, bool host_visible) {
  Rig rig(world, {.queues = 3, .helpers = 0, .device_memory_host_visible = host_visible});
  if (!rig.has_queues(3)) return world.skip("a stream goes on beside one that is held up");
  const auto gated = rig.stream("gated", 0);
  const auto other = rig.stream("other", 1);
  const auto x = gated->allocate(256_B, "x");
  const auto y = other->allocate(256_B, "y");
  const auto z = gated->allocate(256_B, "z");
  std::vector<std::byte> data(256);
  Event reading;
  sync::Thread reader;
  Gate gate(*rig.context);
  gated->wait_for(gate.point());
  put(*gated, x, 5);
  reader = world.task("reader", [&] {
    const SetAtEnd at_end(reading);
    runtime::WaitLimit limit = patient();
    limit.interrupted = [&] { return reading.set(), false; };
    gated->readback(x, {}, data, limit);
    EXPECT_EQ(data, std::vector<std::byte>(256, std::byte{5}));
  });
  // A simulation comes to that by itself, and to every other order.
  if (world.mode() != World::Mode::adversary) {
    ASSERT_TRUE(reading.wait());
  }
  for (uint8_t i = 0; i < 2; ++i) {
    put(*other, y, i);
    ASSERT_TRUE(until_done(other->flush()));
    put(*gated, z, static_cast<uint8_t>(20 + i));
    gated->flush();
  }
  EXPECT_EQ(value_of(*other, y), 1);
  if (!world.has_faults()) {
    for (const auto reason : {WaitReason::budget, WaitReason::host_access}) {
      EXPECT_EQ(rig.stats().waits_for(reason).count, 0U) << to_string(reason);
    }
  }
  gate.open();
  EXPECT_EQ(value_of(*gated, z), 21);
}

RUNTIME_SCENARIO(burn_2032_blocked_readback_holds_nobody_up) { blocked_readback(world, true); }

RUNTIME_SCENARIO(burn_2032_blocked_readback_on_a_discrete_device) {
  blocked_readback(world, false);
}

// The reader is the one who opens the gate, after it has read. Memory that the host cannot reach is
// read through a copy, which needs a queue: one on which no list that waits for the host, by
// whomever it is submitted at that moment, comes before it.
RUNTIME_SCENARIO(readback_is_not_queued_behind_a_list_that_its_reader_lets_go) {
  Rig rig(world, discrete(2));
  if (!rig.has_queues(2)) return world.skip("a readback goes round a queue that is held up");
  const auto gated = rig.stream("gated", 0);
  const auto other = rig.stream("other", 1);
  const auto x = gated->allocate(256_B, "x");
  const auto y = other->allocate(256_B, "y");
  put(*other, y, 7);
  std::vector<std::byte> data(256);
  sync::Thread evaluator;
  Gate gate(*rig.context);
  gated->wait_for(gate.point());
  evaluator = world.task("evaluator", [&] {
    put(*gated, x, 5);
    gated->flush();
  });
  other->readback(y, {}, data, patient());
  EXPECT_EQ(data, std::vector<std::byte>(256, std::byte{7}));
  gate.open();
  EXPECT_EQ(value_of(*other, y), 7);
}

// mlx#1828: a long chain of one small kernel takes one barrier and no hold for each call.
RUNTIME_SCENARIO(mlx_1828_chain_takes_no_more_holds_or_barriers_each) {
  const uint64_t calls = world.mode() == World::Mode::adversary ? 20 : 10'000;
  Rig rig(world);
  const auto stream = rig.stream("chain");
  const auto x = stream->allocate(256_B, "x");
  put(*stream, x, 3);
  uint8_t expected = 3;
  for (uint64_t i = 0; i < calls; ++i) {
    run_affine(rig, *stream, in_place(x), 1);
    expected = static_cast<uint8_t>(2 * expected + 1);
  }
  EXPECT_EQ(rig.stats().barriers, calls);
  EXPECT_EQ(rig.stats().holds, 2U);
  EXPECT_EQ(rig.stats().submissions, 0U);
  EXPECT_EQ(value_of(*stream, x), expected);
}

}  // namespace
}  // namespace holdfast::testing
