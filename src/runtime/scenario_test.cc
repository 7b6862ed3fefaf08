#include <algorithm>
#include <atomic>

#include "holdfast/testing/rig.h"

// Failures that users met in public, in the runtime's own terms. SCENARIOS.md numbers them.
namespace holdfast::runtime {
namespace {

using hal::Access;
using hal::Binding;
using holdfast::testing::Gate;
using holdfast::testing::Rig;
namespace t = holdfast::testing;

const hal::CpuOptions kTwoQueues{.queues = 2, .helpers = 0};

// 11
TEST(RuntimeScenario, mlx_3461_everything_dropped_from_another_thread_while_in_flight) {
  Rig rig(kTwoQueues, {});
  std::vector<sync::Thread> tasks;
  std::atomic<int> wrong{0};
  const auto add = rig.add();
  for (uint8_t task = 0; task < 4; ++task) {
    tasks.emplace_back("sequence", [&, task] {
      const auto stream = rig.context->new_stream();
      auto cache = stream->allocate(256_B, "cache");
      t::put(*stream, cache, task);
      uint8_t expected = task;
      for (uint64_t step = 1; step <= 60; ++step) {
        // Capacity grows: the old buffer is dropped while earlier steps may use it.
        auto grown = stream->allocate(Bytes{256 * (step + 1)}, "cache");
        t::put(*stream, grown, 0xee);
        const uint8_t one = 1;
        stream->dispatch(add,
                         std::array{Binding::of(cache, Access::read),
                                    t::part(grown, 0, cache->size().value, Access::write)},
                         hal::Parameters::of(one), {1, 1, 1});
        ++expected;
        stream->flush();
        sync::Thread dropper("dropper",
                             [old = std::exchange(cache, grown)]() mutable { old.reset(); });
      }
      const auto bytes = t::bytes_of(*stream, cache);
      if (bytes[0] != expected || bytes[255] != expected) ++wrong;
    });
  }
  tasks.clear();
  EXPECT_EQ(wrong, 0);
}

// 12
TEST(RuntimeScenario, mlx_3378_a_hidden_copy_is_not_given_to_the_next_operation_too_early) {
  Rig rig;
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  Gate gate(*rig.context);
  auto in = a->allocate(8_KiB);
  const auto out = a->allocate(4_KiB);
  t::put(*a, in, 5);
  a->wait_for(gate.point());
  {
    Transaction node = a->begin();
    const auto contiguous = node.scratch(4_KiB, "contiguous copy");
    node.copy(t::part(in, 0, 4096, Access::read), t::write_of(contiguous));
    const uint8_t one = 1;
    node.dispatch(rig.add(), std::array{t::read_of(contiguous), t::write_of(out)},
                  hal::Parameters::of(one), {1, 1, 1});
    node.commit();
  }
  in.reset();
  a->flush();
  for (int i = 0; i < 100; ++i) t::put(*b, b->allocate(4_KiB, "next"), 99);
  ASSERT_TRUE(t::until_done(b->flush()));
  gate.open();
  EXPECT_EQ(t::value_of(*a, out), 6);
}

// 13
TEST(RuntimeScenario, mlx_3689_trim_and_new_limits_at_every_point_of_the_timeline) {
  for (int when = 0; when < 5; ++when) {
    Rig rig(kTwoQueues, {.memory_limit = 64_MiB, .reaper = false});
    const auto stream = rig.stream();
    Gate gate(*rig.context);
    const auto squeeze = [&](int at) {
      if (at != when) return;
      rig.context->trim();
      rig.context->set_memory_limit(4_MiB);
      std::vector<Ref<hal::Allocation>> all;
      try {
        const auto other = rig.stream("greedy", 1);
        for (int i = 0; i < 100; ++i) {
          all.push_back(other->allocate(1_MiB));
          t::put(*other, all.back(), 99);
        }
        ADD_FAILURE() << "the limit is 4 MiB";
      } catch (const OutOfMemoryError&) {
      }
      rig.context->set_memory_limit({});
    };
    auto in = stream->allocate(1_MiB);
    const auto out = stream->allocate(1_MiB);
    squeeze(0);
    t::put(*stream, in, 3);
    stream->wait_for(gate.point());
    t::run_add(rig, *stream, in, out, 1);
    squeeze(1);
    in.reset();
    squeeze(2);
    const hal::Point point = stream->flush();
    squeeze(3);
    gate.open();
    ASSERT_TRUE(t::until_done(point));
    squeeze(4);
    EXPECT_EQ(t::value_of(*stream, out), 4) << "squeezed at " << when;
  }
}

// 14, 23
TEST(RuntimeScenario, quadrants_538_a_growing_heap_stays_within_the_budget_without_draining) {
  constexpr Bytes limit = 4_MiB;
  Rig rig(kTwoQueues, {.deferred_limit = limit, .reaper = false});
  const auto stream = rig.stream("launches", 0);
  const auto stage = rig.stream("next stage", 1);
  const auto result = stream->allocate(64_B, "result");
  auto heap = stream->allocate(4_KiB, "heap");
  Bytes largest = heap->size();
  for (uint64_t i = 1; i <= 500; ++i) {
    const Bytes required{4096 + 700 * i};
    if (required > heap->size()) {
      heap = stream->allocate(std::max(required, heap->size() * 2), "heap");
      largest = std::max(largest, heap->size());
    }
    // Each launch has its own metadata.
    const auto value = static_cast<uint8_t>(i);
    const auto metadata = stream->allocate(256_B, "metadata", hal::MemoryKind::upload);
    {
      const Map map = stream->map(metadata, {{}, 256_B}, Access::write);
      std::ranges::fill(map.bytes(), std::byte{value});
    }
    stream->copy(t::part(metadata, 0, 256, Access::read), t::part(heap, 0, 256, Access::write));
    stream->copy(t::part(heap, 64, 64, Access::read), t::write_of(result));
    stage->wait_for(stream->flush());
    if (i % 100 != 0) continue;
    EXPECT_EQ(t::value_of(*stream, result), value);
    EXPECT_LE(rig.stats().submissions_in_flight, 1U) << "a readback retires all that it drained";
  }
  const Stats now = rig.stats();
  EXPECT_LE(now.memory.deferred_peak, limit + largest);
  EXPECT_EQ(now.waits_for(WaitReason::budget).count, 0U);
  EXPECT_EQ(now.waits_for(WaitReason::synchronize).count, 0U);
}

// 14
TEST(RuntimeScenario, quadrants_493_the_deferred_heap_is_not_dropped_at_submit) {
  Rig rig;
  const auto stream = rig.stream("launches", 0);
  const auto other = rig.stream("other", 1);
  Gate gate(*rig.context);
  stream->wait_for(gate.point());
  const auto out = stream->allocate(64_B);
  auto heap = stream->allocate(64_KiB, "heap");
  t::put(*stream, heap, 1);
  stream->copy(t::part(heap, 100, 64, Access::read), t::write_of(out));
  heap = stream->allocate(128_KiB, "grown heap");
  stream->flush();
  rig.context->trim();
  EXPECT_EQ(rig.stats().memory.deferred, 64_KiB);
  const auto greedy = other->allocate(64_KiB);
  t::put(*other, greedy, 99);
  ASSERT_TRUE(t::until_done(other->flush()));
  gate.open();
  EXPECT_EQ(t::value_of(*stream, out), 1);
}

// 15
TEST(RuntimeScenario, playcanvas_8652_dropped_between_record_and_submit) {
  Rig rig;
  const auto stream = rig.stream();
  const auto out = stream->allocate(64_B);
  auto x = stream->allocate(64_B);
  t::put(*stream, x, 1);
  t::run_add(rig, *stream, x, out, 1);
  x.reset();
  rig.context->trim();
  stream->flush();
  EXPECT_EQ(t::value_of(*stream, out), 2);
}

// 16
TEST(RuntimeScenario, quadrants_649_each_dispatch_reads_its_own_parameters) {
  Rig rig;
  const std::array streams{rig.stream("a", 0), rig.stream("b", 1)};
  Gate gate(*rig.context);
  for (const auto& stream : streams) stream->wait_for(gate.point());
  const auto zero = rig.context->allocate(64_B);
  t::put(*streams[0], zero, 0);
  std::vector<Ref<hal::Allocation>> outs;
  uint8_t parameter = 0;
  for (int i = 0; i < 40; ++i) {
    Stream& stream = *streams[static_cast<size_t>(i) % 2];
    outs.push_back(stream.allocate(64_B));
    parameter = static_cast<uint8_t>(i + 1);  // one variable, refilled at once
    stream.dispatch(rig.add(), std::array{t::read_of(zero), t::write_of(outs.back())},
                    hal::Parameters::of(parameter), {1, 1, 1});
  }
  gate.open();
  for (size_t i = 0; i < outs.size(); ++i) {
    EXPECT_EQ(t::value_of(*streams[0], outs[i]), static_cast<int>(i) + 1);
  }
}

// 17
TEST(RuntimeScenario, pytorch_23729_allocate_on_a_read_on_b_drop_allocate_on_a) {
  Rig rig;
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  Gate gate(*rig.context);
  auto x = a->allocate(4_KiB);
  const auto out = b->allocate(4_KiB);
  t::put(*a, x, 1);
  a->flush();
  b->wait_for(gate.point());
  t::run_add(rig, *b, x, out, 1);
  b->flush();
  const hal::BufferId buffer = x->buffer()->id();
  const Bytes offset = x->offset();
  x.reset();
  const auto y = a->allocate(4_KiB);
  EXPECT_FALSE(y->buffer()->id() == buffer && y->offset() == offset) << "b still reads it";
  t::put(*a, y, 77);
  ASSERT_TRUE(t::until_done(a->flush()));
  gate.open();
  EXPECT_EQ(t::value_of(*b, out), 2);
}

// 18
TEST(RuntimeScenario, pytorch_188655_ordering_one_of_three_streams_frees_nothing_for_the_others) {
  Rig rig({.queues = 3, .helpers = 0});
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  const auto c = rig.stream("c", 2);
  Gate gate_b(*rig.context);
  Gate gate_c(*rig.context);
  auto x = a->allocate(4_KiB);
  const auto out_b = b->allocate(4_KiB);
  const auto out_c = c->allocate(4_KiB);
  t::put(*a, x, 1);
  a->flush();
  b->wait_for(gate_b.point());
  t::run_add(rig, *b, x, out_b, 1);
  const hal::Point read_by_b = b->flush();
  c->wait_for(gate_c.point());
  t::run_add(rig, *c, x, out_c, 2);
  c->flush();
  x.reset();
  // a waits for b, and b's read ends; c's does not.
  a->wait_for(read_by_b);
  gate_b.open();
  ASSERT_TRUE(t::until_done(read_by_b));
  rig.context->retire();
  EXPECT_EQ(rig.stats().memory.deferred, 4_KiB);
  for (int i = 0; i < 20; ++i) t::put(*a, a->allocate(4_KiB), 99);
  ASSERT_TRUE(t::until_done(a->flush()));
  gate_c.open();
  EXPECT_EQ(t::value_of(*c, out_c), 3);
  EXPECT_EQ(t::value_of(*b, out_b), 2);
}

// 19
TEST(RuntimeScenario, onebit_monster_2213_the_host_refills_its_source_at_once) {
  for (const bool host_visible : {true, false}) {
    Rig rig({.queues = 1, .helpers = 0, .device_memory_host_visible = host_visible});
    const auto stream = rig.stream();
    Gate gate(*rig.context);
    stream->wait_for(gate.point());
    const auto staging_like = stream->allocate(64_B);
    std::vector<Ref<hal::Allocation>> outs;
    std::vector<std::byte> source(64);
    for (uint8_t i = 0; i < 30; ++i) {
      std::ranges::fill(source, std::byte{i});
      stream->upload(staging_like, {}, source);
      outs.push_back(stream->allocate(64_B));
      t::run_add(rig, *stream, staging_like, outs.back(), 0);
      if (i % 3 == 0) stream->flush();
    }
    gate.open();
    for (uint8_t i = 0; i < 30; ++i) EXPECT_EQ(t::value_of(*stream, outs[i]), i);
  }
}

// 20
TEST(RuntimeScenario, mlx_3630_a_write_to_donated_memory_comes_after_its_reader) {
  Rig rig({.queues = 1, .helpers = 1});
  const auto stream = rig.stream();
  const auto g = stream->allocate(64_KiB, "g");
  const auto out = stream->allocate(64_KiB);
  for (uint8_t i = 0; i < 20; ++i) {
    t::put(*stream, g, i);
    t::run_add(rig, *stream, g, out, 1);
    const uint64_t barriers = rig.stats().barriers;
    t::run_affine(rig, *stream, t::in_place(g), 7);  // the same Allocation passes on
    EXPECT_EQ(rig.stats().barriers, barriers + 1);
    EXPECT_EQ(t::value_of(*stream, out), i + 1);
    EXPECT_EQ(t::value_of(*stream, g), 2 * i + 7);
  }
}

// 21
TEST(RuntimeScenario, llama_cpp_15929_overlapping_views_conflict_and_disjoint_ones_do_not) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(96_B);
  const auto out = stream->allocate(32_B);
  stream->fill(t::part(x, 0, 48, Access::write), std::byte{1});
  stream->fill(t::part(x, 48, 48, Access::write), std::byte{2});
  EXPECT_EQ(rig.stats().barriers, 0U);
  stream->copy(t::part(x, 32, 32, Access::read), t::write_of(out));
  EXPECT_EQ(rig.stats().barriers, 1U);
  const auto bytes = t::bytes_of(*stream, out);
  EXPECT_EQ(bytes[15], 1);
  EXPECT_EQ(bytes[16], 2);
}

}  // namespace
}  // namespace holdfast::runtime
