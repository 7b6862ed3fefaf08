#include <array>
#include <atomic>
#include <functional>

#include "holdfast/array/scenarios/array_kernels_test.h"
#include "holdfast/testing/effort.h"

// Little memory: what fits when nodes are recorded one after the other is computed, and what was
// refused can be tried again.
namespace holdfast {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::World;

// Each branch takes `unit` bytes for a moment and leaves a number.
struct Branches {
  explicit Branches(const World& world)
      : simulated(world.mode() == World::Mode::adversary),
        count(simulated ? 16 : 128),
        length(simulated ? 256 : 256 << 10) {}

  Array weights(const Stream& on) const { return full({count, length}, 1.0, float16, on); }
  // x = x + sum(astype(w[i], float32)), again and again.
  Array sum_of(const Array& w, const On& on = {}) const {
    Array x;
    for (int64_t i = 0; i < count; ++i) {
      const Array part = sum(astype(index(w, i), float32, on), {}, on);
      x = x.has_value() ? add(x, part, on) : part;
    }
    return x;
  }
  float expected() const { return static_cast<float>(count * length); }
  Bytes unit() const { return Bytes{sizeof(float)} * static_cast<uint64_t>(length); }

  // The weights, and room for so many branches at a time.
  ArrayRigOptions room_for(uint64_t at_a_time) const {
    const Bytes weights = Bytes{2} * static_cast<uint64_t>(count * length);
    return {.runtime = {.memory_limit = weights + unit() * at_a_time, .reaper = false}};
  }

  bool simulated;
  int64_t count;
  int64_t length;
};

ARRAY_SCENARIO(independent_branches_fit_where_one_at_a_time_does) {
  const Branches branches(world);
  ArrayRig rig(world, branches.room_for(8));
  const Array w = branches.weights(rig.stream());
  w.eval(testing::patient());
  EXPECT_EQ(branches.sum_of(w).item<float>(), branches.expected());
  if (world.has_faults()) return;
  EXPECT_EQ(rig.stats().nodes_failed, 0U);
}

// The limit is met by what others have, so nobody could see it coming.
ARRAY_SCENARIO(branches_of_two_tasks_fit_where_one_at_a_time_of_each_does) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  const Branches branches(world);
  ArrayRig rig(world, branches.room_for(16));
  const Stream b = rig.device.new_stream("b");
  const Array w = branches.weights(rig.stream());
  w.eval(testing::patient());
  auto other = world.task(
      "other", [&] { EXPECT_EQ(branches.sum_of(w, b).item<float>(), branches.expected()); });
  EXPECT_EQ(branches.sum_of(w).item<float>(), branches.expected());
  other.join();
}

// Overlapping graphs: what one task was refused is the other one's to try.
ARRAY_SCENARIO(two_tasks_evaluate_one_graph_under_pressure) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  const Branches branches(world);
  ArrayRig rig(world, branches.room_for(16));
  const Array w = branches.weights(rig.stream());
  w.eval(testing::patient());
  const Array x = branches.sum_of(w);
  auto other = world.task("other", [&] { EXPECT_EQ(x.item<float>(), branches.expected()); });
  EXPECT_EQ(x.item<float>(), branches.expected());
  other.join();
}

ArrayRigOptions limited(Bytes limit) {
  return {.device = {.queues = 1, .helpers = 0},
          .runtime = {.memory_limit = limit, .reaper = false}};
}

// Memory that the user frees later: the same arrays are evaluated then, with all they depend on.
ARRAY_SCENARIO(what_was_refused_is_computed_once_there_is_memory) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  ArrayRig rig(world, limited(6_KiB));
  const Array blocker = full({1024}, 3.0);
  const Array x = full({256}, 1.0);
  eval(blocker, x);
  const Array small = run(plus_one(), slice(x, {{.stop = 32}}), "small");
  const Array large = concatenate({blocker, x});
  const Array next = run(plus_one(), large, "next");
  const Array after = run(plus_one(), next, "after");
  for (int i = 0; i < 3; ++i) {
    try {
      eval(after, small);
      if (!world.has_faults()) ADD_FAILURE() << "nothing was raised";
    } catch (const OutOfMemoryError& error) {
      if (!world.has_faults()) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("'concatenate'"), HasSubstr("no room")));
      }
    }
    if (world.has_faults()) continue;
    EXPECT_FALSE(after.is_recorded());
    EXPECT_FALSE(large.is_recorded());
    EXPECT_TRUE(small.is_recorded()) << "it does not depend on what was refused";
    EXPECT_EQ(rig.stats().nodes_failed, 0U);
  }
  EXPECT_THAT(small.to_vector<float>(), Each(2.0F));
  EXPECT_THAT(blocker.to_vector<float>(), Each(3.0F)) << "nothing of before is lost";
  rig.device.set_memory_limit({});
  Floats expected(1024, 5.0F);
  expected.resize(1024 + 256, 3.0F);
  EXPECT_EQ(after.to_vector<float>(), expected);
}

ARRAY_SCENARIO(dropping_an_array_makes_room_for_what_was_refused) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  ArrayRig rig(world, limited(5_KiB));
  const Array x = full({256}, 1.0);
  Array blocker = full({1024}, 3.0);
  eval(x, blocker);
  const Array y = run(plus_one(), x, "y");
  const Array z = run(plus_one(), y, "z");
  if (!world.has_faults()) {
    EXPECT_THROW(async_eval(z), OutOfMemoryError);
    EXPECT_THROW((void)z.to_vector<float>(), OutOfMemoryError);
    EXPECT_THROW((void)z.map(), OutOfMemoryError);
  }
  blocker = Array();
  EXPECT_THAT(z.to_vector<float>(), Each(3.0F));
}

// A task waits for a node that another one is recording and is refused: it is not left waiting.
ARRAY_SCENARIO(a_refusal_reaches_all_who_wait_for_the_node) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  ArrayRig rig(world, limited(5_KiB));
  const Array x = full({256}, 1.0);
  Array blocker = full({1024}, 3.0);
  eval(x, blocker);
  const Array y = run(plus_one(), x, "y");
  std::array<Array, 2> z{run(plus_one(), y, "a"), run(plus_one(), y, "b")};
  const auto refused = [&](const Array& a) {
    try {
      async_eval(a);
      if (!world.has_faults()) ADD_FAILURE() << "nothing was raised";
    } catch (const OutOfMemoryError&) {
      EXPECT_FALSE(a.is_recorded() && !world.has_faults());
    }
  };
  auto other = world.task("other", [&] { refused(z[1]); });
  refused(z[0]);
  other.join();
  blocker = Array();
  for (const Array& a : z) EXPECT_THAT(a.to_vector<float>(), Each(3.0F));
}

// Whichever allocations the device refuses, several in a row: each read is right or raises that,
// and in the end everything is there.
TEST(Scenario, whichever_allocations_are_refused_can_be_tried_again_adversary) {
  int raised = 0;
  for (int n = 2; n <= 4; ++n) {
    std::vector<std::string> faults;
    for (int i = 0; i < 200; ++i) faults.push_back("alloc@" + std::to_string(n + i));
    const simulation::Program program = testing::as_program([&](World& world) {
      ArrayRig rig(world, {.device = {.queues = 1, .helpers = 0}});
      const Array x = full({1 << 20}, 1.0);
      x.eval(testing::patient());
      const Array y = run(plus_one(), x, "y");
      const Array z = run(plus_one(), slice(y, {{.stop = 64}}), "z");
      const Array beside = filled(4, rig.stream());
      for (int attempt = 0;; ++attempt) {
        ASSERT_LT(attempt, 40);
        try {
          eval(z, beside);
          break;
        } catch (const OutOfMemoryError&) {
          ++raised;
        }
      }
      EXPECT_THAT(z.to_vector<float>(), Each(3.0F));
      EXPECT_THAT(beside.to_vector<float>(), Each(4.0F));
      EXPECT_EQ(rig.stats().nodes_failed, 0U);
    });
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const simulation::Variant variant{seed, {}, faults};
      const simulation::Result result = simulation::run_variant(program, variant);
      ASSERT_EQ(result.failure, "") << simulation::replay_line(variant);
    }
  }
  EXPECT_GT(raised, 0) << "no fault was felt";
}

// A limit that only the device knows: one refusal, and the nodes go one after the other.
TEST(Scenario, branches_fit_where_the_device_refuses_without_warning) {
  constexpr int64_t kUnit = 1 << 20;
  constexpr int kBranches = 64;
  std::atomic<int> refusals{0};
  std::function<Bytes()> reserved = [] { return Bytes{}; };
  hal::CpuOptions options{.queues = 1, .helpers = 0};
  options.fail_allocation = [&](const hal::BufferDesc&) {
    if (reserved() <= 33_MiB) return Failure();
    ++refusals;
    return Failure(ErrorCode::out_of_memory, "no more blocks");
  };
  const Device device(hal::CpuDevice::open(options), {.runtime = {.reaper = false}});
  const UseStream scope(device.default_stream());
  const Array w = full({kUnit}, 1.0, uint8);
  w.eval();
  reserved = [&] { return device.stats().runtime.memory.reserved; };
  Array x = full({}, 0.0);
  for (int i = 0; i < kBranches; ++i) x = x + sum(astype(w, float32));
  EXPECT_EQ(x.item<float>(), static_cast<float>(kUnit) * kBranches);
  EXPECT_GT(refusals, 0);
  EXPECT_LT(refusals, 100) << "each node was tried where there was no room for it";
}

// What is recorded after the refusal lets go of what was missing.
ARRAY_SCENARIO(a_node_that_frees_its_input_makes_room_for_one_before_it) {
  if (world.is_left_to_the_cpu(testing::kNoRoomForStaging)) return;
  ArrayRig rig(world, limited(5_KiB));
  const Array x = full({128}, 1.0);
  Array big = full({1024}, 3.0);
  eval(x, big);
  const Array large = concatenate({x, x, x});
  const Array next = run(plus_one(), large, "next");
  const Array small = sum(std::exchange(big, Array()));
  async_eval(next, small);
  EXPECT_THAT(next.to_vector<float>(), Each(2.0F));
  EXPECT_EQ(small.item<float>(), 3072.0F);
}

// However many nodes wait for the one that was refused, no stack holds a frame for each.
TEST(Scenario, a_long_chain_behind_a_refusal_is_refused_and_then_computed) {
  std::atomic<bool> refuse{false};
  hal::CpuOptions options{.queues = 1, .helpers = 0};
  options.fail_allocation = [&](const hal::BufferDesc&) {
    return refuse ? Failure(ErrorCode::out_of_memory, "no more blocks") : Failure();
  };
  const Device device(hal::CpuDevice::open(options), {.runtime = {.reaper = false}});
  const UseStream scope(device.default_stream());
  const Array x = full({1 << 20}, 1.0);
  x.eval();
  Array sum = slice(run(plus_one(), x, "large"), {{.stop = 1}});
  const int length = testing::shortened(50'000);
  for (int i = 0; i < length; ++i) sum = sum + 1.0F;
  device.clear_cache();
  refuse = true;
  EXPECT_THROW(async_eval(sum), OutOfMemoryError);
  refuse = false;
  EXPECT_EQ(sum.item<float>(), 2.0F + static_cast<float>(length));
  EXPECT_EQ(device.stats().nodes_failed, 0U);
}

// An operation that finds no memory of its own says so in the same way.
TEST(Scenario, an_operation_that_runs_out_of_memory_is_called_again) {
  class Hungry final : public Operation {
   public:
    explicit Hungry(std::atomic<int>& refusals) : refusals_(refusals) {}
    std::string_view name() const noexcept override { return "hungry"; }
    void record(Encoder& encoder) const override {
      if (refusals_.fetch_sub(1) > 0) throw std::bad_alloc();
      encoder.fill(encoder.output(0), std::byte{0});
    }

   private:
    std::atomic<int>& refusals_;
  };
  std::atomic<int> refusals{1000};
  const Array y = apply(make_ref<const Hungry>(refusals), {}, OutputType{{4}, float32});
  try {
    y.eval();
    ADD_FAILURE() << "nothing was raised";
  } catch (const OutOfMemoryError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'hungry'"));
  }
  EXPECT_GT(refusals, 900) << "not for ever";
  EXPECT_FALSE(y.is_recorded());
  refusals = 0;
  EXPECT_THAT(y.to_vector<float>(), Each(0.0F));
}

}  // namespace
}  // namespace holdfast
