#include <atomic>

#include "holdfast/testing/rig.h"

// Order inside a list and across streams, and what recording keeps alive.
namespace holdfast::runtime {
namespace {

using hal::Access;
using holdfast::testing::Gate;
using holdfast::testing::Rig;
namespace t = holdfast::testing;

TEST(Recorder, independent_commands_get_no_barrier) {
  Rig rig;
  const auto stream = rig.stream();
  std::vector<Ref<hal::Allocation>> all;
  for (uint8_t i = 0; i < 8; ++i) {
    all.push_back(stream->allocate(64_B));
    t::put(*stream, all.back(), i);
  }
  EXPECT_EQ(rig.stats().barriers, 0U);
  for (uint8_t i = 0; i < 8; ++i) EXPECT_EQ(t::value_of(*stream, all[i]), i);
}

TEST(Recorder, a_chain_gets_one_barrier_a_link) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  t::put(*stream, x, 0);
  for (uint8_t i = 1; i <= 10; ++i) t::run_affine(rig, *stream, t::in_place(x), i);
  EXPECT_EQ(rig.stats().barriers, 10U);
  uint8_t expected = 0;
  for (uint8_t i = 1; i <= 10; ++i) expected = static_cast<uint8_t>(2 * expected + i);
  EXPECT_EQ(t::value_of(*stream, x), expected);
}

TEST(Recorder, disjoint_slices_share_a_wave_and_overlapping_ones_do_not) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  stream->fill(t::part(x, 0, 32, Access::write), std::byte{1});
  stream->fill(t::part(x, 32, 32, Access::write), std::byte{2});
  EXPECT_EQ(rig.stats().barriers, 0U);
  stream->fill(t::part(x, 31, 2, Access::write), std::byte{3});
  EXPECT_EQ(rig.stats().barriers, 1U);
  const auto bytes = t::bytes_of(*stream, x);
  EXPECT_EQ(bytes[30], 1);
  EXPECT_EQ(bytes[31], 3);
  EXPECT_EQ(bytes[32], 3);
  EXPECT_EQ(bytes[33], 2);
}

TEST(Recorder, readers_of_one_result_share_a_wave) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  t::put(*stream, x, 7);
  std::vector<Ref<hal::Allocation>> outs;
  for (uint8_t i = 0; i < 5; ++i) {
    outs.push_back(stream->allocate(64_B));
    t::run_add(rig, *stream, x, outs.back(), i);
  }
  EXPECT_EQ(rig.stats().barriers, 1U);
  for (uint8_t i = 0; i < 5; ++i) EXPECT_EQ(t::value_of(*stream, outs[i]), 7 + i);
}

TEST(Recorder, lists_need_no_barrier_between_them) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  t::put(*stream, x, 1);
  stream->flush();
  t::run_affine(rig, *stream, t::in_place(x), 1);
  EXPECT_EQ(rig.stats().barriers, 0U);
  EXPECT_EQ(t::value_of(*stream, x), 3);
}

TEST(Recorder, the_table_of_objects_starts_anew_with_each_list) {
  Rig rig;
  const auto stream = rig.stream();
  std::vector<Ref<hal::Allocation>> objects;
  for (int i = 0; i < 700; ++i) objects.push_back(stream->allocate(16_B));
  for (int round = 0; round < 3; ++round) {
    for (const auto& x : objects) t::put(*stream, x, 1);
    EXPECT_EQ(rig.stats().barriers, 0U) << "700 objects fit in a list, whatever the last one had";
    stream->flush();
  }
  for (int i = 0; i < 700; ++i) objects.push_back(stream->allocate(16_B));
  for (const auto& x : objects) t::put(*stream, x, 2);
  EXPECT_EQ(rig.stats().barriers, 1U) << "1400 do not";
  stream->flush();
  for (const auto& x : objects) EXPECT_EQ(t::value_of(*stream, x), 2);
}

TEST(Recorder, an_explicit_wait_holds_up_the_next_list_and_is_not_carried_further) {
  Rig rig;
  const auto stream = rig.stream();
  const auto y = stream->allocate(64_B);
  holdfast::testing::Slow slow(*rig.context);
  Gate gate(*rig.context);
  stream->wait_for(gate.point());
  std::vector<size_t> waits;
  const auto look = [&] {
    waits.clear();
    for (const auto& queue : rig.device->queues()) {
      queue->visit_in_flight([&](const hal::Submission& s) { waits.push_back(s.waits.size()); });
    }
    return waits;
  };
  t::run_slow(slow, *stream, y);
  stream->flush();
  EXPECT_EQ(look(), std::vector<size_t>{1});
  t::put(*stream, y, 2);
  stream->flush();
  EXPECT_EQ(look(), (std::vector<size_t>{1, 0}));
  slow.release();
  gate.open();
  EXPECT_EQ(t::value_of(*stream, y), 2);
}

TEST(Recorder,
     the_waits_of_a_chain_over_many_streams_grow_with_the_queues_and_not_with_the_streams) {
  const auto waits_of_chain = [](size_t streams) {
    Rig rig;
    std::vector<Ref<Stream>> all;
    for (size_t i = 0; i < streams; ++i) all.push_back(rig.stream());
    const auto x = all.front()->allocate(64_B, "x");
    Gate gate(*rig.context);
    all.front()->wait_for(gate.point());
    t::put(*all.front(), x, 1);
    for (const auto& stream : all) t::run_affine(rig, *stream, t::in_place(x), 0);
    all.back()->flush();
    size_t waits = 0;
    for (const auto& queue : rig.device->queues()) {
      queue->visit_in_flight([&](const hal::Submission& s) { waits += s.waits.size(); });
    }
    gate.open();
    EXPECT_EQ(t::value_of(*all.back(), x), 0) << "every byte was doubled that often";
    return waits;
  };
  const size_t few = waits_of_chain(100);
  const size_t many = waits_of_chain(400);
  EXPECT_LE(few, 100U * 12);
  EXPECT_LE(many, 5 * few) << "four times the streams";
}

TEST(Recorder, a_range_reused_in_the_open_list_gets_the_barrier_that_it_needs) {
  Rig rig;
  const auto stream = rig.stream();
  const auto out = stream->allocate(1_KiB);
  auto first = stream->allocate(1_KiB);
  t::put(*stream, first, 1);
  t::run_add(rig, *stream, first, out, 0);
  EXPECT_EQ(rig.stats().barriers, 1U);
  first.reset();
  const auto second = stream->allocate(1_KiB);
  ASSERT_EQ(rig.stats().memory.reused_in_order, 1U);
  t::put(*stream, second, 2);
  EXPECT_EQ(rig.stats().barriers, 2U) << "the new life must not run beside the old one's reader";
  EXPECT_EQ(t::value_of(*stream, out), 1);
  EXPECT_EQ(t::value_of(*stream, second), 2);
}

TEST(Recorder, a_reused_range_needs_no_barrier_where_one_stands_already) {
  Rig rig;
  const auto stream = rig.stream();
  const auto a = stream->allocate(64_B);
  const auto b = stream->allocate(64_B);
  auto first = stream->allocate(1_KiB);
  t::put(*stream, first, 1);
  t::put(*stream, a, 3);
  first.reset();
  t::run_add(rig, *stream, a, b, 1);
  EXPECT_EQ(rig.stats().barriers, 1U);
  const auto second = stream->allocate(1_KiB);
  ASSERT_EQ(rig.stats().memory.reused_in_order, 1U);
  t::put(*stream, second, 2);
  EXPECT_EQ(rig.stats().barriers, 1U);
  EXPECT_EQ(t::value_of(*stream, second), 2);
}

TEST(Recorder, a_life_without_a_use_passes_the_earlier_ones_order_on) {
  Rig rig;
  const auto stream = rig.stream();
  auto first = stream->allocate(1_KiB);
  t::put(*stream, first, 1);
  first.reset();
  { const auto unused = stream->allocate(1_KiB); }
  const auto third = stream->allocate(1_KiB);
  ASSERT_EQ(rig.stats().memory.reused_in_order, 2U);
  t::put(*stream, third, 2);
  EXPECT_EQ(rig.stats().barriers, 1U);
  EXPECT_EQ(t::value_of(*stream, third), 2);
}

TEST(Recorder, a_reused_range_first_bound_on_another_stream_waits_for_the_open_list) {
  Rig rig;
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  Gate gate(*rig.context);
  const auto out = a->allocate(1_KiB);
  a->wait_for(gate.point());
  auto first = a->allocate(1_KiB);
  t::put(*a, first, 1);
  t::run_add(rig, *a, first, out, 0);
  first.reset();
  const auto second = a->allocate(1_KiB);
  ASSERT_EQ(rig.stats().memory.reused_in_order, 1U);
  t::put(*b, second, 9);
  const hal::Point later = b->flush();
  EXPECT_EQ(rig.stats().submissions, 2U) << "a's open list had to be submitted";
  EXPECT_TRUE(later.pending());
  gate.open();
  EXPECT_EQ(t::value_of(*b, second), 9);
  EXPECT_EQ(t::value_of(*b, out), 1);
}

TEST(Recorder, everything_may_be_dropped_between_record_and_flush_and_after_it) {
  for (const bool flush_first : {false, true}) {
    Rig rig;
    const auto stream = rig.stream("s", 0);
    const auto other = rig.stream("other", 1);
    Gate gate(*rig.context);
    const auto out = stream->allocate(4_KiB);
    stream->wait_for(gate.point());
    auto in = stream->allocate(4_KiB, "in");
    auto middle = stream->allocate(4_KiB, "middle");
    t::put(*stream, in, 20);
    {
      const auto add =
          rig.context->create_pipeline({"dropped",
                                        hal::HostFunction([](const hal::HostGroup& g) {
                                          for (size_t i = 0; i < g.bindings[1].size(); ++i)
                                            g.bindings[1][i] = g.bindings[0][i];
                                        }),
                                        2,
                                        {}});
      stream->dispatch(add, std::array{t::read_of(in), t::write_of(middle)}, {}, {1, 1, 1});
      stream->dispatch(add, std::array{t::read_of(middle), t::write_of(out)}, {}, {1, 1, 1});
    }
    if (flush_first) stream->flush();
    in.reset();
    middle.reset();
    // Nobody else may get that memory, however much is asked for.
    std::vector<Ref<hal::Allocation>> others;
    for (int i = 0; i < 300; ++i) {
      others.push_back(other->allocate(4_KiB));
      t::put(*other, others.back(), 99);
    }
    ASSERT_TRUE(t::until_done(other->flush()));
    stream->flush();
    gate.open();
    EXPECT_EQ(t::value_of(*stream, out), 20) << (flush_first ? "after flush" : "before flush");
  }
}

TEST(Recorder, dead_memory_stays_held_until_its_list_was_seen_to_end) {
  Rig rig;
  const auto stream = rig.stream();
  Gate gate(*rig.context);
  stream->wait_for(gate.point());
  auto x = stream->allocate(4_KiB);
  t::put(*stream, x, 1);
  x.reset();
  EXPECT_EQ(rig.stats().memory.deferred, 4_KiB);
  const hal::Point point = stream->flush();
  rig.context->retire();
  EXPECT_EQ(rig.stats().memory.deferred, 4_KiB);
  gate.open();
  ASSERT_TRUE(t::until_done(point));
  EXPECT_EQ(rig.stats().memory.deferred, 4_KiB) << "finished but not seen";
  EXPECT_EQ(rig.context->retire(), 1U);
  EXPECT_EQ(rig.stats().memory.deferred, 0_B);
}

struct TwoStreams {
  Rig rig;
  Ref<Stream> a = rig.stream("a", 0);
  Ref<Stream> b = rig.stream("b", 1);
  Gate gate{*rig.context};
  Ref<hal::Allocation> x = a->allocate(64_B, "x");
  Ref<hal::Allocation> y = b->allocate(64_B, "y");
};

TEST(Recorder, a_read_on_another_stream_waits_for_the_write) {
  TwoStreams s;
  s.a->wait_for(s.gate.point());
  t::put(*s.a, s.x, 5);
  s.a->flush();
  t::run_add(s.rig, *s.b, s.x, s.y, 1);
  const hal::Point point = s.b->flush();
  EXPECT_TRUE(point.pending());
  s.gate.open();
  EXPECT_EQ(t::value_of(*s.b, s.y), 6);
}

TEST(Recorder, a_write_on_another_stream_waits_for_the_read) {
  TwoStreams s;
  t::put(*s.a, s.x, 5);
  s.b->wait_for(s.gate.point());
  t::run_add(s.rig, *s.b, s.x, s.y, 1);
  s.b->flush();
  t::put(*s.a, s.x, 77);
  const hal::Point point = s.a->flush();
  EXPECT_TRUE(point.pending());
  s.gate.open();
  EXPECT_EQ(t::value_of(*s.b, s.y), 6);
  EXPECT_EQ(t::value_of(*s.a, s.x), 77);
}

TEST(Recorder, a_write_on_another_stream_waits_for_the_write) {
  TwoStreams s;
  s.a->wait_for(s.gate.point());
  t::put(*s.a, s.x, 5);
  s.a->flush();
  t::put(*s.b, s.x, 8);
  const hal::Point point = s.b->flush();
  EXPECT_TRUE(point.pending());
  s.gate.open();
  EXPECT_EQ(t::value_of(*s.b, s.x), 8);
}

TEST(Recorder, a_write_on_another_stream_waits_for_a_list_that_read_what_it_had_written) {
  TwoStreams s;
  s.a->wait_for(s.gate.point());
  t::put(*s.a, s.x, 5);
  t::run_add(s.rig, *s.a, s.x, s.y, 1);
  s.a->flush();
  t::put(*s.b, s.x, 77);
  const hal::Point point = s.b->flush();
  EXPECT_TRUE(point.pending());
  s.gate.open();
  EXPECT_EQ(t::value_of(*s.a, s.y), 6);
  EXPECT_EQ(t::value_of(*s.b, s.x), 77);
}

TEST(Recorder, what_another_stream_wrote_since_is_waited_for_where_the_list_had_written_it_before) {
  TwoStreams s;
  t::put(*s.a, s.x, 5);
  s.b->wait_for(s.gate.point());
  t::put(*s.b, s.x, 8);  // submits the list of a, which has written x
  t::run_add(s.rig, *s.a, s.x, s.y, 1);
  const hal::Point point = s.a->flush();
  EXPECT_TRUE(point.pending());
  s.gate.open();
  EXPECT_EQ(t::value_of(*s.a, s.y), 9);
}

TEST(Recorder, disjoint_slices_on_two_streams_do_not_wait_for_each_other) {
  TwoStreams s;
  s.a->wait_for(s.gate.point());
  s.a->fill(t::part(s.x, 0, 32, Access::write), std::byte{1});
  s.a->flush();
  s.b->fill(t::part(s.x, 32, 32, Access::write), std::byte{2});
  EXPECT_TRUE(t::until_done(s.b->flush()));
}

TEST(Recorder, two_streams_may_read_the_same_bytes_at_once) {
  TwoStreams s;
  t::put(*s.a, s.x, 5);
  ASSERT_TRUE(t::until_done(s.a->flush()));
  const auto out = s.a->allocate(64_B);
  s.a->wait_for(s.gate.point());
  t::run_add(s.rig, *s.a, s.x, out, 1);
  s.a->flush();
  t::run_add(s.rig, *s.b, s.x, s.y, 2);
  EXPECT_TRUE(t::until_done(s.b->flush()));
  EXPECT_EQ(t::value_of(*s.b, s.y), 7);
}

TEST(Recorder, depending_on_another_streams_open_list_submits_it) {
  TwoStreams s;
  t::put(*s.a, s.x, 5);
  EXPECT_EQ(s.rig.stats().submissions, 0U);
  t::run_add(s.rig, *s.b, s.x, s.y, 1);
  EXPECT_EQ(s.rig.stats().submissions, 1U);
  EXPECT_EQ(t::value_of(*s.b, s.y), 6);
}

TEST(Recorder, streams_that_share_a_queue_keep_their_order) {
  Rig rig({.queues = 1, .helpers = 0});
  const auto a = rig.stream("a");
  const auto b = rig.stream("b");
  const auto x = a->allocate(64_B);
  t::put(*a, x, 1);
  for (uint8_t i = 0; i < 50; ++i) {
    t::run_affine(rig, *(i % 2 == 0 ? b : a), t::in_place(x), i);
  }
  uint8_t expected = 1;
  for (uint8_t i = 0; i < 50; ++i) expected = static_cast<uint8_t>(2 * expected + i);
  EXPECT_EQ(t::value_of(*a, x), expected);
}

TEST(Recorder, two_threads_whose_streams_need_each_other_do_not_deadlock) {
  for (const uint32_t queues : {1U, 2U}) {
    Rig rig({.queues = queues, .helpers = 0}, {});
    const auto add = rig.add();
    const std::array streams{rig.stream("a"), rig.stream("b")};
    const std::array memory{streams[0]->allocate(64_B), streams[1]->allocate(64_B)};
    t::put(*streams[0], memory[0], 0);
    t::put(*streams[1], memory[1], 0);
    rig.context->synchronize();
    const auto work = [&](size_t me) {
      const uint8_t one = 1;
      for (int i = 0; i < 500; ++i) {
        streams[me]->dispatch(add, std::array{t::read_of(memory[1 - me]), t::write_of(memory[me])},
                              hal::Parameters::of(one), {1, 1, 1});
        if (i % 7 == 0) streams[me]->flush();
      }
    };
    sync::Thread first("first", [&] { work(0); });
    sync::Thread second("second", [&] { work(1); });
    first.join();
    second.join();
    rig.context->synchronize(t::patient());
    EXPECT_GE(t::value_of(*streams[0], memory[0]), 0) << "torn by an unordered access";
    EXPECT_GE(t::value_of(*streams[1], memory[1]), 0);
  }
}

// More than the hazard tracker remembers, in one list.
constexpr int kMany = 2500;

TEST(Recorder, a_list_with_more_allocations_than_it_remembers_is_ordered) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B, "x");
  t::put(*stream, x, 0);
  std::vector<Ref<hal::Allocation>> others;
  uint8_t expected = 0;
  // Each step conflicts with the one before, wherever the tracker starts anew between them; the
  // device, which validates, sees a barrier that is missing.
  for (int i = 0; i < kMany; ++i) {
    const auto value = static_cast<uint8_t>(i * 7);
    t::run_affine(rig, *stream, t::in_place(x), value);
    expected = static_cast<uint8_t>(2 * expected + value);
    others.push_back(stream->allocate(64_B));
    t::put(*stream, others.back(), value);
  }
  EXPECT_EQ(rig.stats().submissions, 0U) << "one list";
  EXPECT_EQ(t::value_of(*stream, x), expected);
  for (int i = 0; i < kMany; i += 97) {
    EXPECT_EQ(t::value_of(*stream, others[static_cast<size_t>(i)]), static_cast<uint8_t>(i * 7));
  }
}

TEST(Recorder, a_list_holds_every_one_of_very_many_allocations) {
  constexpr Bytes kSize{256};
  Rig rig;
  const auto stream = rig.stream();
  Gate gate(*rig.context);
  stream->wait_for(gate.point());
  // Twice over, so that the second use of each comes after the tracker has forgotten the first.
  std::vector<Ref<hal::Allocation>> all;
  for (int i = 0; i < kMany; ++i) {
    all.push_back(stream->allocate(kSize));
    t::put(*stream, all.back(), 1);
  }
  for (const auto& each : all) t::run_affine(rig, *stream, t::in_place(each), 1);
  stream->flush();
  EXPECT_GE(rig.stats().holds, static_cast<uint64_t>(kMany));
  all.clear();
  EXPECT_EQ(rig.stats().memory.deferred, kSize * kMany);
  const auto fresh = rig.context->allocate(kSize);
  EXPECT_EQ(rig.stats().memory.deferred, kSize * kMany) << "none was given to others";
  gate.open();
  stream->synchronize(t::patient());
  rig.context->retire();
  EXPECT_EQ(rig.stats().memory.deferred, 0_B);
}

TEST(Recorder, another_stream_waits_for_a_list_of_very_many_allocations) {
  Rig rig;
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  Gate gate(*rig.context);
  a->wait_for(gate.point());
  std::vector<Ref<hal::Allocation>> all;
  for (int i = 0; i < kMany; ++i) {
    all.push_back(a->allocate(64_B));
    t::put(*a, all.back(), static_cast<uint8_t>(i));
  }
  a->flush();
  const auto out = b->allocate(64_B);
  for (const size_t i : {size_t{0}, size_t{1023}, size_t{1024}, size_t{kMany - 1}}) {
    t::run_add(rig, *b, all[i], out, 1);
    EXPECT_TRUE(b->flush().pending()) << i;
  }
  gate.open();
  EXPECT_EQ(t::value_of(*b, out), static_cast<uint8_t>(kMany));
}

}  // namespace
}  // namespace holdfast::runtime
