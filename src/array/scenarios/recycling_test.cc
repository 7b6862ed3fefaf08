#include "holdfast/array/scenarios/array_kernels_test.h"

// Memory that is used again: by the next array, and by the host.
namespace holdfast {
namespace {

using ::testing::Each;
using testing::Event;
using testing::Gate;
using testing::Pages;
using testing::patient;
using testing::World;

// pytorch#23729: made on a, read on b by another task, dropped, and a asks again while b reads.
ARRAY_SCENARIO(pytorch_23729_read_on_another_stream) {
  ArrayRig rig(world);
  const Stream a = rig.stream();
  const Stream b = rig.device.new_stream("b");
  Array x = filled(1, a);
  async_eval(x);
  Array out;
  auto reader = world.task("reader", [&, mine = x]() mutable {
    out = run(plus_one(), std::exchange(mine, {}), "read", b);
    async_eval(out);
  });
  x = {};
  const Array y = double_in_place(filled(77, a), a);
  EXPECT_THAT(y.to_vector<float>(), Each(154.0F));
  reader.join();
  if (out.has_value()) {
    EXPECT_THAT(out.to_vector<float>(), Each(2.0F));
  }
}

// The same where b's read is held up for certain, so that a is finished with the next array.
ARRAY_SCENARIO(pytorch_23729_next_array_while_the_reader_is_held_up) {
  ArrayRig rig(world);
  const Stream a = rig.stream();
  const Stream b = rig.device.new_stream("b");
  Gate gate(*rig.device.context());
  Array x = filled(1, a);
  x.eval(patient());
  b.runtime_stream()->wait_for(gate.point());
  const Array out = run(plus_one(), x, "read", b);
  async_eval(out);
  const uint64_t reused = rig.stats().runtime.memory.reused_in_order;
  x = {};
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().runtime.memory.deferred, kSize) << "b still reads it";
  }
  const Array y = filled(77, a);
  y.eval(patient());  // and not only once b has read
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().runtime.memory.reused_in_order, reused);
    EXPECT_EQ(rig.stats().runtime.memory.deferred, kSize);
  }
  gate.open();
  EXPECT_THAT(out.to_vector<float>(), Each(2.0F));
  EXPECT_THAT(y.to_vector<float>(), Each(77.0F));
}

// The same where there is no other room: the next array begins on the device when b has read, and
// the host does not wait for that.
ARRAY_SCENARIO(pytorch_23729_next_array_with_no_other_room) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  ArrayRig rig(world, {.runtime = {.memory_limit = kSize * 2, .reaper = false}});
  const bool held = world.adversary() != nullptr;
  if (held) world.adversary()->hold_back_all();
  const Stream a = rig.stream();
  const Stream b = rig.device.new_stream("b");
  Array x = filled(1, a);
  const Array out = run(plus_one(), x, "read", b);
  async_eval(out);
  x = {};
  const Array y = double_in_place(filled(77, a), a);
  async_eval(y);
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().runtime.wait_count(), 0U);
    EXPECT_EQ(rig.stats().runtime.memory.reserved_peak, kSize * 2);
    if (held) {
      EXPECT_EQ(rig.stats().runtime.memory.reused_in_order, 1U);
    }
  }
  EXPECT_THAT(y.to_vector<float>(), Each(154.0F));
  EXPECT_THAT(out.to_vector<float>(), Each(2.0F));
}

// pytorch#188655: b and c read; a is ordered after b, which releases nothing while c reads.
ARRAY_SCENARIO(pytorch_188655_ordering_one_of_three_streams) {
  ArrayRig rig(world, {.device = {.queues = 3, .helpers = 0}});
  const Stream a = rig.stream();
  const Stream b = rig.device.new_stream("b");
  const Stream c = rig.device.new_stream("c");
  Gate gate(*rig.device.context());
  Array x = filled(1, a);
  x.eval(patient());
  const Array read_by_b = run(plus_one(), x, "b", b);
  c.runtime_stream()->wait_for(gate.point());
  const Array read_by_c = double_in_place(run(plus_one(), x, "c", c), c);
  async_eval(read_by_b, read_by_c);
  x = {};
  a.wait_for(b);
  read_by_b.eval(patient());
  rig.device.context()->retire();
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().runtime.memory.deferred, kSize) << "c has not read it yet";
  }
  const Array y = filled(99, a);
  y.eval(patient());
  gate.open();
  EXPECT_THAT(read_by_c.to_vector<float>(), Each(4.0F));
  EXPECT_THAT(read_by_b.to_vector<float>(), Each(2.0F));
  EXPECT_THAT(y.to_vector<float>(), Each(99.0F));
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().runtime.memory.deferred, 0_B) << "a readback retires what is finished";
  }
}

// The same where there is no other room: the next array comes after both readers, the one that a
// waits for already and the other one.
ARRAY_SCENARIO(pytorch_188655_next_array_waits_for_every_stream) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  ArrayRig rig(world, {.device = {.queues = 3, .helpers = 0},
                       .runtime = {.memory_limit = kSize * 3, .reaper = false}});
  const Stream a = rig.stream();
  const Stream b = rig.device.new_stream("b");
  const Stream c = rig.device.new_stream("c");
  Array x = filled(1, a);
  const Array read_by_b = run(plus_one(), x, "b", b);
  async_eval(read_by_b);
  a.wait_for(b);
  const Array read_by_c = run(plus_one(), x, "c", c);
  async_eval(read_by_c);
  x = {};
  const Array y = filled(99, a);
  async_eval(y);
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().runtime.wait_count(), 0U);
    EXPECT_EQ(rig.stats().runtime.memory.reserved_peak, kSize * 3);
  }
  EXPECT_THAT(read_by_c.to_vector<float>(), Each(2.0F));
  EXPECT_THAT(read_by_b.to_vector<float>(), Each(2.0F));
  EXPECT_THAT(y.to_vector<float>(), Each(99.0F));
}

// 1bit-MONSTER#2213: the host refills its source as soon as the call returns. The array owns a
// copy.
void refill(World& world, bool host_visible) {
  ArrayRig rig(world,
               {.device = {.queues = 1, .helpers = 0, .device_memory_host_visible = host_visible}});
  std::vector<Array> outs;
  Floats source(kLength);
  for (int i = 0; i < 3; ++i) {
    std::ranges::fill(source, static_cast<float>(10 * i));
    outs.push_back(run(plus_one(), Array(source)));
    if (i == 1) async_eval(outs.back());
    std::ranges::fill(source, -1.0F);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(outs[static_cast<size_t>(i)].to_vector<float>(),
                Each(static_cast<float>(10 * i + 1)));
  }
}

ARRAY_SCENARIO(onebit_monster_2213_host_refills_its_source_at_once) { refill(world, true); }

ARRAY_SCENARIO(onebit_monster_2213_host_refills_its_source_on_a_discrete_device) {
  refill(world, false);
}

// Where the memory stays the host's, it is the host's again when its deleter runs, and no earlier:
// this one refills it on the spot.
ARRAY_SCENARIO(onebit_monster_2213_external_memory_is_refilled_by_its_deleter) {
  const Pages mine(kSize.value);
  const std::span<float> values(static_cast<float*>(mine.data()),
                                mine.size().value / sizeof(float));
  std::ranges::fill(values, 3.0F);
  Event deleted;
  {
    ArrayRig rig(world);
    Gate gate(*rig.device.context());
    rig.stream().runtime_stream()->wait_for(gate.point());
    Array x = from_external(mine.data(), float32, {static_cast<int64_t>(values.size())}, [&] {
      std::ranges::fill(values, -1.0F);
      deleted.set();
    });
    const Array y = run(plus_one(), x, "reads it in place");
    x = {};
    async_eval(y);
    EXPECT_FALSE(deleted.is_set() && !world.has_faults()) << "y was not even computed";
    gate.open();
    EXPECT_THAT(y.to_vector<float>(), Each(4.0F));
    if (!world.has_faults()) {
      EXPECT_TRUE(deleted.is_set()) << "the readback retired its last reader";
    }
  }
  EXPECT_TRUE(deleted.is_set());
}

}  // namespace
}  // namespace holdfast
