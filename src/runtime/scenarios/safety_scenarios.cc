#include <array>
#include <atomic>

#include "holdfast/testing/rig.h"
#include "holdfast/testing/scenario.h"

// One small scenario for each safety of the runtime; ablations.cc says which kills which ablation.

namespace holdfast::testing {
namespace {

using hal::Access;

RUNTIME_SCENARIO(dropped_input_is_read_all_the_same) {
  Rig rig(world);
  const auto stream = rig.stream("main");
  auto in = stream->allocate(256_B, "in");
  const auto out = stream->allocate(256_B, "out");
  put(*stream, in, 3);
  run_add(rig, *stream, in, out, 4);
  stream->flush();
  in.reset();
  const auto other = rig.stream("other", 1);
  const auto next = other->allocate(256_B, "next");
  put(*other, next, 99);
  other->flush();
  EXPECT_EQ(value_of(*stream, out), 7);
  EXPECT_EQ(value_of(*other, next), 99);
}

RUNTIME_SCENARIO(donated_memory_is_held) {
  Rig rig(world);
  const auto stream = rig.stream("main");
  auto donated = stream->allocate(256_B, "donated");
  put(*stream, donated, 1);
  stream->synchronize();
  run_affine(rig, *stream, in_place(donated), 5);
  stream->flush();
  donated.reset();
  const auto other = rig.stream("other", 1);
  const auto next = other->allocate(256_B, "next");
  put(*other, next, 99);
  EXPECT_EQ(value_of(*other, next), 99);
}

RUNTIME_SCENARIO(staging_outlives_the_call) {
  Rig rig(world, discrete());
  const auto stream = rig.stream("main");
  const auto a = stream->allocate(256_B, "a");
  const auto b = stream->allocate(256_B, "b");
  std::array<std::byte, 256> data{};
  data.fill(std::byte{11});
  stream->upload(a, {}, data);
  // The call owns the data: the host may refill it at once.
  data.fill(std::byte{22});
  stream->upload(b, {}, data);
  EXPECT_EQ(value_of(*stream, a), 11);
  EXPECT_EQ(value_of(*stream, b), 22);
}

// Each task's transactions bind memory of both streams, in opposite orders.
RUNTIME_SCENARIO(crossed_transactions_of_two_streams) {
  Rig rig(world);
  const std::array streams{rig.stream("a", 0), rig.stream("b", 1)};
  const std::array values{streams[0]->allocate(256_B, "x"), streams[1]->allocate(256_B, "y")};
  for (size_t i = 0; i < 2; ++i) put(*streams[i], values[i], 1);
  const auto run = [&](size_t own) {
    const auto& from = values[1 - own];
    for (int i = 0; i < 3; ++i) {
      runtime::Transaction both = streams[own]->begin();
      const auto sum = both.scratch(256_B);
      both.dispatch(rig.add(), std::array{read_of(from), write_of(sum)},
                    hal::Parameters::of(uint8_t{0}), {1, 1, 1});
      both.dispatch(rig.add(), std::array{read_of(values[own]), write_of(sum)},
                    hal::Parameters::of(uint8_t{0}), {1, 1, 1});
      both.commit();
      run_affine(rig, *streams[own], in_place(values[own]), 1);
      streams[own]->flush();
    }
  };
  {
    const auto other = world.task("other", [&] { run(1); });
    run(0);
  }
  // A submit that was refused ends its task early, with the refusal.
  if (world.has_faults()) return;
  // Affine doubles, and adds what it is given: 1, 3, 7, 15, whoever was first.
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(value_of(*streams[i], values[i]), 15);
}

RUNTIME_SCENARIO(pipeline_dropped_after_record) {
  Rig rig(world);
  const auto stream = rig.stream("main");
  const auto out = stream->allocate(256_B, "out");
  auto kernel = rig.context->create_pipeline(test_kernel(world.family(), "set", "evicted"));
  stream->dispatch(kernel, std::array{write_of(out)}, hal::Parameters::of(uint8_t{42}), {1, 1, 1});
  const auto dropper = world.task("cache", [&] { kernel.reset(); });
  stream->flush();
  EXPECT_EQ(value_of(*stream, out), 42);
}

RUNTIME_SCENARIO(many_dead_ranges_in_flight) {
  Rig rig(world);
  const auto stream = rig.stream("main");
  const auto out = stream->allocate(1_KiB, "out");
  for (uint8_t i = 0; i < 4; ++i) {
    auto in = stream->allocate(256_B, "in");
    put(*stream, in, i);
    stream->dispatch(rig.add(), std::array{read_of(in), part(out, i * 256U, 256, Access::write)},
                     hal::Parameters::of(uint8_t{10}), {1, 1, 1});
    const auto other = rig.stream("other", 1);
    run_add(rig, *other, in, other->allocate(256_B, "unread"), 1);
    other->flush();
    stream->flush();
  }
  const auto third = rig.stream("third", 1);
  for (int i = 0; i < 4; ++i) put(*third, third->allocate(256_B, "next"), 99);
  third->flush();
  const std::vector<uint8_t> bytes = bytes_of(*stream, out);
  for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], 10 + i / 256) << i;
}

RUNTIME_SCENARIO(trim_while_dead_memory_is_read) {
  Rig rig(world);
  const auto stream = rig.stream("main");
  auto in = stream->allocate(256_B, "in");
  const auto out = stream->allocate(256_B, "out");
  put(*stream, in, 3);
  run_add(rig, *stream, in, out, 4);
  stream->flush();
  in.reset();
  rig.context->trim();
  const auto other = rig.stream("other", 1);
  const auto next = other->allocate(256_B, "next");
  put(*other, next, 99);
  other->flush();
  EXPECT_EQ(value_of(*stream, out), 7);
}

RUNTIME_SCENARIO(read_then_overwritten_in_one_list) {
  Rig rig(world);
  const auto stream = rig.stream("main");
  const auto g = stream->allocate(256_B, "g");
  const auto out = stream->allocate(256_B, "out");
  put(*stream, g, 5);
  stream->flush();
  run_add(rig, *stream, g, out, 1);
  stream->fill(write_of(g), std::byte{50});
  EXPECT_EQ(value_of(*stream, out), 6);
  EXPECT_EQ(value_of(*stream, g), 50);
}

RUNTIME_SCENARIO(overlapping_views_are_ordered) {
  Rig rig(world);
  const auto stream = rig.stream("main");
  const auto a = stream->allocate(1_KiB, "a");
  const auto out = stream->allocate(256_B, "out");
  put(*stream, a, 1);
  stream->flush();
  run_affine(rig, *stream, part(a, 0, 512, Access::read_write), 1);
  stream->dispatch(rig.add(), std::array{part(a, 256, 256, Access::read), write_of(out)},
                   hal::Parameters::of(uint8_t{0}), {1, 1, 1});
  EXPECT_EQ(value_of(*stream, out), 3);
}

RUNTIME_SCENARIO(range_read_on_another_queue_is_reused) {
  Rig rig(world);
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  auto x = a->allocate(256_B, "x");
  const auto out = b->allocate(256_B, "out");
  put(*a, x, 7);
  a->flush();
  run_add(rig, *b, x, out, 1);
  b->flush();
  x.reset();
  const auto next = a->allocate(256_B, "next");
  a->fill(write_of(next), std::byte{99});
  a->flush();
  EXPECT_EQ(value_of(*b, out), 8);
}

RUNTIME_SCENARIO(readback_waits_for_its_writer) {
  Rig rig(world);
  const auto stream = rig.stream("main");
  // Memory that the host reads itself, on every device.
  const auto out = stream->allocate(256_B, "out", hal::MemoryKind::readback);
  stream->fill(write_of(out), std::byte{9});
  stream->flush();
  EXPECT_EQ(value_of(*stream, out), 9);
}

RUNTIME_SCENARIO(each_dispatch_has_its_own_parameters) {
  Rig rig(world);
  const auto stream = rig.stream("main");
  const auto other = rig.stream("other", 1);
  const auto in = stream->allocate(256_B, "in");
  put(*stream, in, 0);
  const std::array outs{stream->allocate(256_B, "first"), stream->allocate(256_B, "second"),
                        other->allocate(256_B, "third")};
  run_add(rig, *stream, in, outs[0], 1);
  run_add(rig, *stream, in, outs[1], 2);
  stream->flush();
  run_add(rig, *other, in, outs[2], 3);
  EXPECT_EQ(value_of(*other, outs[2]), 3);
  EXPECT_EQ(value_of(*stream, outs[1]), 2);
  EXPECT_EQ(value_of(*stream, outs[0]), 1);
}

RUNTIME_SCENARIO(new_stream_is_not_the_one_before) {
  Rig rig(world);
  auto first = rig.stream("first", 0);
  const auto x = first->allocate(256_B, "x");
  const auto out = first->allocate(256_B, "out");
  put(*first, x, 5);
  run_add(rig, *first, x, out, 1);
  first->flush();
  first.reset();
  const auto second = rig.stream("second", 1);
  put(*second, x, 99);
  second->flush();
  EXPECT_EQ(value_of(*second, out), 6);
}

RUNTIME_SCENARIO(finished_work_is_retired_by_the_next_flush) {
  Rig rig(world);
  const auto stream = rig.stream("main");
  const auto x = stream->allocate(256_B, "x");
  for (int i = 0; i < 3; ++i) {
    stream->fill(write_of(x), std::byte{1});
    const hal::Point done = stream->flush();
    if (!until_done(done)) return;
  }
  stream->fill(write_of(x), std::byte{2});
  stream->flush();
  if (world.has_faults()) return;
  EXPECT_LE(rig.stats().submissions_in_flight, 1U) << "finished lists are still held";
}

RUNTIME_SCENARIO(readback_retires_what_it_saw) {
  Rig rig(world);
  const auto stream = rig.stream("main");
  // Memory that the host reads itself, on every device.
  const auto x = stream->allocate(256_B, "x", hal::MemoryKind::readback);
  stream->fill(write_of(x), std::byte{1});
  EXPECT_EQ(value_of(*stream, x), 1);
  if (world.has_faults()) return;
  EXPECT_EQ(rig.stats().submissions_in_flight, 0U) << "what was read back is still held";
}

RUNTIME_SCENARIO(failure_is_never_taken_for_success) {
  Rig rig(world);
  const auto stream = rig.stream("main");
  const auto out = stream->allocate(256_B, "out");
  put(*stream, out, 1);
  stream->flush();
  run_explode(rig, *stream, out, "the one that fails");
  const hal::Point point = stream->flush();
  const auto wait = [&] {
    try {
      rig.context->wait(point);
      ADD_FAILURE() << "a failed list counts as done";
    } catch (const ExecutionError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("the one that fails"));
    }
  };
  const auto other = world.task("other waiter", wait);
  wait();
}

RUNTIME_SCENARIO(deleter_may_call_the_runtime) {
  const Pages memory(256);
  std::atomic<int> deleted = 0;
  Rig rig(world);
  const auto stream = rig.stream("main");
  auto imported = rig.context->import({memory.data(), memory.size(),
                                       [&] {
                                         ++deleted;
                                         if (!rig.context->closed()) rig.context->retire();
                                       },
                                       "imported"});
  stream->fill(write_of(imported), std::byte{1});
  stream->flush();
  imported.reset();
  stream->synchronize();
  rig.context->retire();
  // Another task that retires at the same moment may not have got to it yet.
  if (!world.has_faults()) {
    EXPECT_EQ(deleted.load(), 1);
  }
}

RUNTIME_SCENARIO(flushing_never_waits_unasked) {
  Rig rig(world);
  const auto stream = rig.stream("main");
  for (int i = 0; i < 34; ++i) {
    const auto scratch = stream->allocate(256_B, "scratch");
    stream->fill(write_of(scratch), std::byte{1});
    stream->flush();
  }
  if (world.has_faults()) return;
  EXPECT_EQ(rig.stats().wait_count(), 0U) << to_string(rig.stats());
}

}  // namespace
}  // namespace holdfast::testing
