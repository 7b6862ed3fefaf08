#include <algorithm>
#include <array>
#include <memory>

#include "holdfast/testing/rig.h"
#include "holdfast/testing/scenario.h"

// Memory that is used again: by a next life, by the host, in place, through another view.
namespace holdfast::testing {
namespace {

using hal::Access;

// pytorch#23729: allocated on a, read on b, dropped, and a asks again while b reads.
RUNTIME_SCENARIO(pytorch_23729_read_on_another_stream_then_reallocate) {
  Rig rig(world);
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  const auto out = b->allocate(1_KiB, "out");
  const auto x = std::make_shared<Ref<hal::Allocation>>(a->allocate(1_KiB, "x"));
  put(*a, *x, 1);
  bool recorded = false;
  auto reader = world.task("reader", [&, mine = *x]() mutable {
    run_add(rig, *b, mine, out, 1);
    recorded = true;
    mine.reset();
    b->flush();
  });
  world.offer([x] { x->reset(); });
  a->flush();
  x->reset();
  const auto y = a->allocate(1_KiB, "y");
  put(*a, y, 77);
  run_affine(rig, *a, in_place(y), 5);
  EXPECT_EQ(value_of(*a, y), 159);
  reader.join();
  if (recorded) {
    EXPECT_EQ(value_of(*b, out), 2);
  }
}

// The same where b's read is held up for certain, so that a could be finished with the next life.
RUNTIME_SCENARIO(pytorch_23729_reallocate_while_the_reader_is_held_up) {
  Rig rig(world);
  if (!rig.has_queues(2)) return world.skip("a stream goes on beside one that is held up");
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  const auto out = b->allocate(1_KiB, "out");
  Gate gate(*rig.context);
  auto x = a->allocate(1_KiB, "x");
  put(*a, x, 1);
  b->wait_for(gate.point());
  run_add(rig, *b, x, out, 1);
  b->flush();
  const ByteRange old{x->offset(), x->size()};
  const hal::BufferId buffer = x->buffer()->id();
  x.reset();
  const auto y = a->allocate(1_KiB, "y");
  const bool reused = y->buffer()->id() == buffer && old.overlaps({y->offset(), y->size()});
  if (!world.has_faults()) {
    EXPECT_FALSE(reused) << "b still reads it";
  }
  put(*a, y, 77);
  ASSERT_TRUE(until_done(a->flush()));
  gate.open();
  EXPECT_EQ(value_of(*b, out), 2);
  EXPECT_EQ(value_of(*a, y), 77);
}

// The same where there is no other room: the next life begins on the device when b has read.
RUNTIME_SCENARIO(pytorch_23729_reallocate_with_no_other_room) {
  Rig rig(world, {.queues = 2, .helpers = 0}, {.memory_limit = 2_KiB, .reaper = false});
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  auto x = a->allocate(1_KiB, "x");
  const auto out = b->allocate(1_KiB, "out");
  put(*a, x, 1);
  run_add(rig, *b, x, out, 1);
  b->flush();
  x.reset();
  const auto y = a->allocate(1_KiB, "y");
  put(*a, y, 77);
  run_affine(rig, *a, in_place(y), 5);
  rig.make_room_for_readbacks();
  EXPECT_EQ(value_of(*a, y), 159);
  EXPECT_EQ(value_of(*b, out), 2);
}

// pytorch#188655: two streams read; a is ordered after one of them, which releases nothing while
// the other one reads.
RUNTIME_SCENARIO(pytorch_188655_ordering_one_of_three_streams_releases_nothing_for_the_others) {
  Rig rig(world, {.queues = 3, .helpers = 0});
  if (!rig.has_queues(3)) return world.skip("two streams go on beside one that is held up");
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  const auto c = rig.stream("c", 2);
  const auto out_b = b->allocate(1_KiB, "out b");
  const auto out_c = c->allocate(1_KiB, "out c");
  Gate gate(*rig.context);
  auto x = a->allocate(1_KiB, "x");
  put(*a, x, 1);
  run_add(rig, *b, x, out_b, 1);
  const hal::Point read_by_b = b->flush();
  c->wait_for(gate.point());
  run_add(rig, *c, x, out_c, 2);
  c->flush();
  x.reset();
  a->wait_for(read_by_b);
  ASSERT_TRUE(until_done(read_by_b));
  rig.context->retire();
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().memory.deferred, 1_KiB) << "c has not read it yet";
  }
  const auto y = a->allocate(1_KiB, "y");
  put(*a, y, 99);
  ASSERT_TRUE(until_done(a->flush()));
  gate.open();
  EXPECT_EQ(value_of(*c, out_c), 3);
  EXPECT_EQ(value_of(*b, out_b), 2);
  EXPECT_EQ(value_of(*a, y), 99);
}

// The same where there is no other room: the next life waits for both readers.
RUNTIME_SCENARIO(pytorch_188655_next_life_waits_for_every_stream) {
  Rig rig(world, {.queues = 3, .helpers = 0}, {.memory_limit = 3_KiB, .reaper = false});
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  const auto c = rig.stream("c", 2);
  const auto out_b = b->allocate(1_KiB, "out b");
  const auto out_c = c->allocate(1_KiB, "out c");
  auto x = a->allocate(1_KiB, "x");
  put(*a, x, 1);
  run_add(rig, *b, x, out_b, 1);
  a->wait_for(b->flush());
  run_add(rig, *c, x, out_c, 2);
  c->flush();
  x.reset();
  const auto y = a->allocate(1_KiB, "y");
  put(*a, y, 99);
  a->flush();
  rig.make_room_for_readbacks();
  EXPECT_EQ(value_of(*c, out_c), 3);
  EXPECT_EQ(value_of(*b, out_b), 2);
  EXPECT_EQ(value_of(*a, y), 99);
}

// 1bit-MONSTER#2213: the host refills the source of an upload as soon as the call returns, and
// uploads to a place that is still read.
void refill(World& world, bool host_visible) {
  Rig rig(world, {.queues = 1, .helpers = 0, .device_memory_host_visible = host_visible});
  const auto stream = rig.stream("uploads");
  const auto place = stream->allocate(256_B, "place");
  std::vector<Ref<hal::Allocation>> outs;
  std::vector<std::byte> source(256);
  for (uint8_t i = 0; i < 3; ++i) {
    std::ranges::fill(source, std::byte{static_cast<uint8_t>(10 * i + 1)});
    stream->upload(place, {}, source);
    std::ranges::fill(source, std::byte{0xee});
    outs.push_back(stream->allocate(256_B, "out"));
    run_add(rig, *stream, place, outs.back(), 1);
    if (i == 0) stream->flush();
  }
  for (uint8_t i = 0; i < 3; ++i) EXPECT_EQ(value_of(*stream, outs[i]), 10 * i + 2);
}

RUNTIME_SCENARIO(onebit_monster_2213_host_refills_its_source_at_once) { refill(world, true); }

RUNTIME_SCENARIO(onebit_monster_2213_host_refills_its_source_on_a_discrete_device) {
  refill(world, false);
}

// mlx#3630: one operation reads g, the next one is given g's memory as its output.
RUNTIME_SCENARIO(mlx_3630_write_to_donated_memory_comes_after_its_readers) {
  Rig rig(world);
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  const auto g = a->allocate(256_B, "g");
  const std::array outs{a->allocate(256_B, "first out"), b->allocate(256_B, "second out")};
  put(*a, g, 3);
  run_add(rig, *a, g, outs[0], 1);
  const uint64_t barriers = rig.stats().barriers;
  run_affine(rig, *a, in_place(g), 7);
  EXPECT_EQ(rig.stats().barriers, barriers + 1) << "one, after the reader";
  // And across streams.
  run_add(rig, *b, g, outs[1], 2);
  run_affine(rig, *a, in_place(g), 1);
  EXPECT_EQ(value_of(*a, outs[0]), 4);
  EXPECT_EQ(value_of(*b, outs[1]), 15);
  EXPECT_EQ(value_of(*a, g), 27);
}

// llama.cpp#15929: a write through one view and a read through one that overlaps are ordered;
// views that do not overlap share a wave.
RUNTIME_SCENARIO(llama_cpp_15929_overlapping_views_conflict_and_disjoint_ones_do_not) {
  Rig rig(world);
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  const auto x = a->allocate(96_B, "x");
  const auto out = a->allocate(32_B, "out");
  a->fill(part(x, 0, 48, Access::write), std::byte{1});
  a->fill(part(x, 48, 48, Access::write), std::byte{2});
  EXPECT_EQ(rig.stats().barriers, 0U);
  run_affine(rig, *a, part(x, 32, 32, Access::read_write), 1);
  EXPECT_EQ(rig.stats().barriers, 1U);
  auto beside = world.task("beside", [&] {
    run_affine(rig, *b, part(x, 0, 32, Access::read_write), 5);
    b->flush();
  });
  a->copy(part(x, 32, 32, Access::read), write_of(out));
  run_affine(rig, *a, part(x, 16, 32, Access::read_write), 2);
  const std::vector<uint8_t> copied = bytes_of(*a, out);
  for (size_t i = 0; i < 32; ++i) ASSERT_EQ(copied[i], i < 16 ? 3 : 5) << "byte " << i;
  beside.join();
  const std::vector<uint8_t> all = bytes_of(*a, x);
  // Where the two streams' views overlap, one of them came first.
  const int both = all[16];
  EXPECT_TRUE(both == 2 * 7 + 2 || both == 2 * 4 + 5) << both;
  for (size_t i = 0; i < 96; ++i) {
    const int expected = i < 16 ? 7 : i < 32 ? both : i < 48 ? 8 : i < 64 ? 5 : 2;
    ASSERT_EQ(all[i], expected) << "byte " << i;
  }
}

}  // namespace
}  // namespace holdfast::testing
