#include <array>
#include <memory>
#include <utility>

#include "holdfast/testing/rig.h"
#include "holdfast/testing/scenario.h"

// Memory that is dropped while somebody still needs it.
namespace holdfast::testing {
namespace {

using hal::Access;

// A cache that grows at each step, as decoding does. Another task drops the old one while the step
// that reads it may not even be submitted.
void decode(World& world, Rig& rig, const std::string& name, uint8_t first, uint64_t steps) {
  constexpr uint8_t fresh = 0xc0;
  const auto stream = rig.stream(name);
  auto cache = stream->allocate(256_B, "cache");
  put(*stream, cache, first);
  for (uint64_t step = 1; step <= steps; ++step) {
    auto grown = stream->allocate(Bytes{256 * (step + 1)}, "cache");
    put(*stream, grown, fresh);
    const uint8_t one = 1;
    stream->dispatch(rig.add(),
                     std::array{read_of(cache), part(grown, 0, 256 * step, Access::write)},
                     hal::Parameters::of(one), {1, 1, 1}, name);
    const auto dropper = world.task(
        "dropper", [old = std::exchange(cache, std::move(grown))]() mutable { old.reset(); });
    stream->flush();
  }
  const std::vector<uint8_t> bytes = bytes_of(*stream, cache);
  for (uint64_t i = 0; i < bytes.size(); ++i) {
    // The step that added this part, and those after it, have each added one but the first.
    const uint64_t born = i / 256;
    const uint64_t expected = (born == 0 ? first : fresh) + (steps - born);
    ASSERT_EQ(bytes[i], expected) << "byte " << i << " of '" << name << "'";
  }
}

// mlx#3461: everything is dropped between recording and completion, by other tasks, while sequences
// that decode beside each other ask for memory of the same sizes.
RUNTIME_SCENARIO(mlx_3461_drop_everything_between_record_and_completion) {
  // Threads find by number what a simulation finds by choice.
  const bool simulated = world.mode() == World::Mode::adversary;
  const uint64_t steps = simulated ? 3 : 60;
  Rig rig(world, {.queues = 2, .helpers = 0}, {.reaper = !simulated});
  std::vector<sync::Thread> others;
  for (int i = 1; i < (simulated ? 2 : 4); ++i) {
    const auto first = static_cast<uint8_t>(40 * i);
    others.push_back(world.task(
        "other", [&world, &rig, first, steps] { decode(world, rig, "other", first, steps); }));
  }
  decode(world, rig, "one", 10, steps);
}

// mlx#3378: an operation makes a hidden contiguous copy of a part of its input and nobody keeps
// either. The next operation, of the same stream or of another, asks for memory of that size.
void hidden_copy(World& world, bool host_visible) {
  Rig rig(world, {.queues = 2, .helpers = 0, .device_memory_host_visible = host_visible});
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  const auto add_through_copy = [&](const Ref<hal::Allocation>& in,
                                    const Ref<hal::Allocation>& out) {
    runtime::Transaction node = a->begin();
    const auto contiguous = node.scratch(512_B, "contiguous copy");
    node.copy(part(in, 256, 512, Access::read), write_of(contiguous));
    const uint8_t one = 1;
    node.dispatch(rig.add(), std::array{read_of(contiguous), write_of(out)},
                  hal::Parameters::of(one), {1, 1, 1});
    node.commit();
  };
  const auto input = [&](uint8_t value) {
    auto in = a->allocate(1_KiB, "in");
    put(*a, in, value);
    return in;
  };
  const std::array outs{a->allocate(512_B, "first out"), a->allocate(512_B, "second out")};
  add_through_copy(input(5), outs[0]);
  const auto next = world.task("next", [&] {
    const auto greedy = b->allocate(512_B, "next");
    put(*b, greedy, 99);
    EXPECT_EQ(value_of(*b, greedy), 99);
  });
  add_through_copy(input(15), outs[1]);
  a->flush();
  EXPECT_EQ(value_of(*a, outs[0]), 6);
  EXPECT_EQ(value_of(*a, outs[1]), 16);
}

RUNTIME_SCENARIO(mlx_3378_hidden_copy_is_not_given_to_the_next_operation_too_early) {
  hidden_copy(world, true);
}

RUNTIME_SCENARIO(mlx_3378_hidden_copy_on_a_discrete_device) { hidden_copy(world, false); }

// quadrants#493, quadrants#536: the heap that a submitted list uses is displaced by a larger one.
// It waits for the list and not merely for its submission.
RUNTIME_SCENARIO(quadrants_493_displaced_heap_is_not_dropped_at_submit) {
  Rig rig(world);
  const auto stream = rig.stream("launches", 0);
  const auto other = rig.stream("other", 1);
  const auto out = stream->allocate(256_B, "out");
  sync::Thread greedy;
  Gate gate(*rig.context);
  stream->wait_for(gate.point());
  auto heap = stream->allocate(1_KiB, "heap");
  put(*stream, heap, 1);
  run_affine(rig, *stream, in_place(heap), 5);
  stream->copy(part(heap, 512, 256, Access::read), write_of(out));
  heap = stream->allocate(2_KiB, "grown heap");
  stream->flush();
  rig.context->retire();
  rig.context->trim();
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().memory.deferred, 1_KiB);
  }
  greedy = world.task("greedy", [&] {
    const auto next = other->allocate(1_KiB, "next");
    put(*other, next, 99);
    EXPECT_EQ(value_of(*other, next), 99);
  });
  put(*stream, heap, 2);
  gate.open();
  EXPECT_EQ(value_of(*stream, out), 7);
  EXPECT_EQ(value_of(*stream, heap), 2);
}

// playcanvas#8652: dropped between record and submit, by another task.
RUNTIME_SCENARIO(playcanvas_8652_drop_between_record_and_submit) {
  Rig rig(world);
  const auto stream = rig.stream("main");
  const auto out = stream->allocate(256_B, "out");
  const auto in = std::make_shared<Ref<hal::Allocation>>(stream->allocate(256_B, "in"));
  put(*stream, *in, 3);
  run_add(rig, *stream, *in, out, 4);
  world.offer([in] { in->reset(); });
  const auto dropper = world.task("dropper", [&] {
    in->reset();
    rig.context->trim();
    // Whoever asks next must not get its bytes too early.
    const auto next = stream->allocate(256_B, "next");
    put(*stream, next, 99);
    EXPECT_EQ(value_of(*stream, next), 99);
  });
  stream->flush();
  EXPECT_EQ(value_of(*stream, out), 7);
}

// quadrants#649: one kernel with other parameters each time, in one list and on two streams. The
// variable that they come from is refilled at once.
RUNTIME_SCENARIO(quadrants_649_each_dispatch_reads_its_own_parameters) {
  Rig rig(world);
  const std::array streams{rig.stream("a", 0), rig.stream("b", 1)};
  const auto zero = rig.context->allocate(256_B, "zero");
  put(*streams[0], zero, 0);
  const auto launch = [&](runtime::Stream& stream, uint8_t base) {
    std::vector<Ref<hal::Allocation>> outs;
    uint8_t parameter = 0;
    for (uint8_t i = 0; i < 3; ++i) {
      outs.push_back(stream.allocate(256_B, "out"));
      parameter = static_cast<uint8_t>(base + i);
      stream.dispatch(rig.add(), std::array{read_of(zero), write_of(outs.back())},
                      hal::Parameters::of(parameter), {1, 1, 1});
      parameter = 0xee;
    }
    for (uint8_t i = 0; i < 3; ++i) EXPECT_EQ(value_of(stream, outs[i]), base + i);
  };
  const auto beside = world.task("beside", [&] { launch(*streams[1], 50); });
  launch(*streams[0], 10);
}

}  // namespace
}  // namespace holdfast::testing
