#include <array>
#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>

#include "holdfast/array/scenarios/array_kernels_test.h"

// Work that fails, and who hears of it.
namespace holdfast {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::World;

const Kernel& broken_kernel() {
  static const Kernel kernel = elementwise_kernel("fifth", "a[i] + no_such_name");
  return kernel;
}

// The call must raise what was said of the compile, with the kernel and the label; where a fault
// was injected it may raise that instead, but it must raise.
void expect_compile_error(World& world, const Array& array) {
  try {
    (void)array.to_vector<float>();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("'fifth'"), HasSubstr("step 5"), HasSubstr("no_such_name")));
    return;
  } catch (const Error& error) {
    if (world.has_faults()) throw;
    ADD_FAILURE() << "it raised something else: " << error.what();
    return;
  }
  ADD_FAILURE() << "it raised nothing";
}

// Nine kernels of their own text. Number i adds i, except that the fifth does not compile.
std::vector<Array> nine(const Array& x) {
  static const std::vector<Kernel> kernels = [] {
    std::vector<Kernel> made;
    for (int i = 1; i <= 9; ++i) {
      made.push_back(i == 5 ? broken_kernel()
                            : elementwise_kernel("number_" + std::to_string(i),
                                                 "a[i] + T(" + std::to_string(i) + ")"));
    }
    return made;
  }();
  std::vector<Array> made;
  for (size_t i = 0; i < 9; ++i)
    made.push_back(run(kernels[i], x, "step " + std::to_string(i + 1)));
  return made;
}

// mlx#3675: in a batch of nine, the fifth fails to compile. What does not depend on it is good, it
// and what depends on it report the error, nobody hangs, the stream goes on.
ARRAY_SCENARIO(mlx_3675_fifth_of_nine_does_not_compile) {
  ArrayRig rig(world);
  std::vector<Array> made = nine(Array(Floats(kLength, 10.0F)));
  const Array dependent = run(plus_one(), made[4], "on five");
  const Array mixed = add(made[3], dependent);
  const Array beside = add(made[3], made[5]);
  made.insert(made.end(), {dependent, mixed, beside});
  EXPECT_THROW(async_eval(made), Error);
  if (!world.has_faults()) {
    EXPECT_EQ(rig.stats().nodes_failed, 3U);
    EXPECT_EQ(rig.stats().nodes_recorded, 9U);
    EXPECT_EQ(rig.compiles(), 11U) << "nine, of which the fifth once, plus_one and add";
  }
  for (const Array& bad : {made[4], dependent, mixed, made[4]}) expect_compile_error(world, bad);
  for (size_t i = 0; i < 9; ++i) {
    if (i == 4) continue;
    EXPECT_THAT(made[i].to_vector<float>(), Each(11.0F + static_cast<float>(i))) << i;
  }
  EXPECT_THAT(beside.to_vector<float>(), Each(30.0F));
  EXPECT_THAT(run(plus_one(), made[8], "goes on").to_vector<float>(), Each(20.0F));
  // What is built on a failure later fails as well, and nothing is compiled for it.
  const uint64_t compiles = rig.compiles();
  expect_compile_error(world, run(plus_one(), mixed, "later"));
  EXPECT_EQ(rig.compiles(), compiles);
}

// The same where two tasks need different parts of it at once, each with the failure in it.
ARRAY_SCENARIO(mlx_3675_two_tasks_share_the_failure) {
  ArrayRig rig(world);
  const std::vector<Array> made = nine(Array(Floats(kLength, 10.0F)));
  const Array left = add(made[4], made[0]);
  const Array right = add(made[8], made[4]);
  auto other = world.task("other", [&] {
    const UseStream scope(rig.stream());
    expect_compile_error(world, right);
    EXPECT_THAT(add(made[0], made[8]).to_vector<float>(), Each(30.0F));
  });
  expect_compile_error(world, left);
  EXPECT_THAT(add(made[7], made[0]).to_vector<float>(), Each(29.0F));
  other.join();
  if (world.has_faults()) return;
  EXPECT_EQ(rig.stats().nodes_failed, 3U);
  EXPECT_LE(rig.compiles(), 6U) << "each task may try the fifth once";
}

// Writes its output and fails on the device; where it takes its input, in that one's memory.
class Explode final : public Operation {
 public:
  explicit Explode(bool in_place) : in_place_(in_place) {}
  std::string_view name() const noexcept override { return "explode"; }
  bool takes_inputs() const noexcept override { return in_place_; }
  void record(Encoder& encoder) const override {
    const std::array writes{in_place_ ? encoder.take(0, 0) : encoder.output(0)};
    encoder.native([](const hal::NativeCall&) { throw std::runtime_error("it exploded"); }, {},
                   writes);
  }

 private:
  bool in_place_;
};

Array explode(Array x, bool in_place, const On& on) {
  const OutputType output{x.shape(), x.dtype()};
  std::vector<Array> inputs;
  inputs.push_back(std::move(x));
  return apply(make_ref<const Explode>(in_place), inputs, {&output, 1}, on, "attention")[0];
}

void expect_explosion(World& world, std::string_view what, const std::function<void()>& call) {
  try {
    call();
  } catch (const ExecutionError& error) {
    const std::string_view message = error.what();
    const bool named =
        message.find("attention") != message.npos && message.find("it exploded") != message.npos;
    if (named) return;
    if (world.has_faults()) throw;
    ADD_FAILURE() << what << " raised something else: " << error.what();
    return;
  } catch (const Error& error) {
    if (world.has_faults()) throw;
    ADD_FAILURE() << what << " raised something else: " << error.what();
    return;
  }
  ADD_FAILURE() << what << " raised nothing";
}

// mlx#4174: the device fails while it executes. Whoever waits for the result, or for what was made
// of it on whichever stream, gets the error, as often as he asks, and never silent zeros.
void fail_while_executing(World& world, bool in_place, bool host_visible) {
  ArrayRig rig(world,
               {.device = {.queues = 2, .helpers = 0, .device_memory_host_visible = host_visible}});
  const Stream a = rig.stream();
  const Stream b = rig.device.new_stream("b");
  const Array good = run(plus_one(), filled(7, b), "good", b);
  const Array bad = explode(filled(1, a), in_place, a);
  const Array sibling = run(plus_one(), filled(3, a), "sibling", a);
  auto reader = world.task("reader", [&] {
    expect_explosion(world, "reading the result", [&] { (void)bad.to_vector<float>(); });
    expect_explosion(world, "reading it again", [&] { (void)bad.to_vector<float>(); });
  });
  auto dependent = world.task("dependent", [&] {
    const Array made = double_in_place(run(plus_one(), bad, "made of it", b), b);
    expect_explosion(world, "reading what was made of it", [&] { (void)made.to_vector<float>(); });
  });
  const Array late = run(plus_one(), bad, "late", a);
  expect_explosion(world, "eval", [&] { late.eval(testing::patient()); });
  EXPECT_THAT(sibling.to_vector<float>(), Each(4.0F)) << "also where it is in the same list";
  reader.join();
  dependent.join();
  EXPECT_GE(rig.stats().runtime.failures, 1U);
  // It is known by now, so nobody needs to wait to hear of it.
  expect_explosion(world, "async_eval", [&] { async_eval(bad); });
  // Others are good, and so is what comes after, also in the memory that was poisoned.
  EXPECT_THAT(good.to_vector<float>(), Each(8.0F));
  for (const Stream& stream : {a, b}) {
    EXPECT_THAT(run(plus_one(), filled(1, stream), "after", stream).to_vector<float>(), Each(2.0F));
  }
}

ARRAY_SCENARIO(mlx_4174_failure_while_executing_is_never_silent_zeros) {
  fail_while_executing(world, false, true);
}

ARRAY_SCENARIO(mlx_4174_failure_of_a_donated_array) { fail_while_executing(world, true, true); }

ARRAY_SCENARIO(mlx_4174_failure_on_a_discrete_device) { fail_while_executing(world, false, false); }

// The fifth of nine fails while it executes. It and what depends on it raise the cause with its
// label, on whichever stream; all the rest of the evaluation is good, also where it was recorded
// into the same list as the failure, or as something that depends on it.
void fifth_fails_while_executing(World& world, const SubmitLimits& limits) {
  ArrayRig rig(world, {.device = {.queues = 2, .helpers = 0}, .submit = limits});
  const Stream a = rig.stream();
  const Stream b = rig.device.new_stream("b");
  const Array x = filled(10, a);
  std::vector<Array> made;
  for (int i = 1; i <= 9; ++i) {
    made.push_back(i == 5 ? explode(add(x, 0.5F), false, a) : add(x, static_cast<float>(i)));
  }
  const Array dependent = run(plus_one(), made[4], "on five", a);
  const Array mixed = add(made[3], dependent);
  const Array beside = add(made[3], made[5]);
  const Array elsewhere_bad = run(plus_one(), dependent, "bad elsewhere", b);
  const Array elsewhere_good = run(plus_one(), made[6], "good elsewhere", b);
  std::vector<Array> all = made;
  all.insert(all.end(), {dependent, mixed, beside, elsewhere_bad, elsewhere_good});
  try {
    async_eval(all);  // raises only where the failure is known by now
  } catch (const ExecutionError&) {
  }
  for (size_t i = 0; i < 9; ++i) {
    if (i == 4) continue;
    EXPECT_THAT(made[i].to_vector<float>(), Each(11.0F + static_cast<float>(i))) << i;
  }
  for (const Array& bad : {made[4], dependent, mixed, elsewhere_bad}) {
    expect_explosion(world, "reading", [&] { (void)bad.to_vector<float>(); });
  }
  EXPECT_THAT(beside.to_vector<float>(), Each(30.0F));
  EXPECT_THAT(elsewhere_good.to_vector<float>(), Each(18.0F));
  EXPECT_THAT(run(plus_one(), beside, "goes on", a).to_vector<float>(), Each(31.0F));
}

ARRAY_SCENARIO(mlx_3675_fifth_of_nine_fails_while_executing) {
  if (world.is_left_to_the_cpu(testing::kKernelsFailAlone)) return;
  fifth_fails_while_executing(world, {});
}

ARRAY_SCENARIO(mlx_3675_fifth_of_nine_fails_while_executing_in_lists_of_three) {
  if (world.is_left_to_the_cpu(testing::kKernelsFailAlone)) return;
  fifth_fails_while_executing(world, {.commands = 3});
}

// The same with whichever command the hardware fails, or falls off the bus at: a graph on two
// streams, of whose six commands every one matters to somebody who reads.
void every_command_matters(World& world, ErrorCode code, std::atomic<int>& heard) {
  ArrayRig rig(world);
  const Stream b = rig.device.new_stream("b");
  const Array low = run(plus_one(), filled(1, rig.stream()), "low");
  const Array left = double_in_place(run(plus_one(), low, "left"));
  const Array right = double_in_place(run(plus_one(), low, "right", b), b);
  int raised = 0;
  const auto read = [&](const Array& array) {
    for (int again = 0; again < 2; ++again) {
      try {
        EXPECT_THAT(array.to_vector<float>(), Each(6.0F));
        EXPECT_EQ(again, 0) << "first it failed, then it was there";
        return;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), code) << error.what();
        raised += 1;
      }
    }
  };
  read(right);
  read(left);
  EXPECT_EQ(rig.stats().runtime.failures > 0, raised > 0);
  if (raised > 0) ++heard;
  if (code == ErrorCode::execution) {
    EXPECT_THAT(filled(9, b).to_vector<float>(), Each(9.0F)) << "the streams go on";
  }
}

void fail_each(const std::string& kind, ErrorCode code, int opportunities) {
  for (int n = 1; n <= opportunities; ++n) {
    std::atomic<int> heard{0};
    const simulation::Program program =
        testing::as_program([&](World& world) { every_command_matters(world, code, heard); },
                            testing::Family::cpu);  // where no command is staging's
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      const simulation::Variant variant{seed, {}, {kind + "@" + std::to_string(n)}};
      const simulation::Result result = simulation::run_variant(program, variant);
      ASSERT_EQ(result.failure, "") << simulation::replay_line(variant);
    }
    EXPECT_EQ(heard.load(), 8) << n;
  }
}

TEST(Scenario, mlx_4174_whichever_command_fails_is_heard_of_adversary) {
  fail_each("command", ErrorCode::execution, 6);
}

TEST(Scenario, mlx_4174_whichever_submit_is_refused_is_heard_of_adversary) {
  fail_each("submit", ErrorCode::out_of_memory, 2);
}

TEST(Scenario, mlx_4174_whenever_the_device_is_lost_is_heard_of_adversary) {
  fail_each("lost", ErrorCode::device_lost, 6);
}

// mlx#4534: a threadgroup larger than the device allows is an error that says the limit, at the
// call; one as large as that works.
ARRAY_SCENARIO(mlx_4534_a_threadgroup_too_large_is_refused_with_the_limit) {
  ArrayRig rig(world);
  const uint32_t limit = rig.device.context()->device()->info().max_group_threads;
  const Array x = filled(1, rig.stream());
  const auto call = [&](Size3 group) {
    return plus_one()({x}, {.grid = {kLength, 1, 1},
                            .threadgroup = group,
                            .output_shapes = {x.shape()},
                            .output_dtypes = {float32},
                            .constants = {{"T", float32}},
                            .label = "layer 3"})[0];
  };
  for (const Size3 group : {Size3{limit + 1, 1, 1}, Size3{1, limit + 1, 1}, Size3{limit, 2, 1},
                            Size3{limit, limit, limit}, Size3{1U << 31, 2, 1}}) {
    try {
      (void)call(group);
      ADD_FAILURE() << "taken: " << group.x << " x " << group.y << " x " << group.z;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("'plus_one'"), HasSubstr("'layer 3'"),
                                      HasSubstr(std::to_string(limit))));
    }
  }
  EXPECT_THROW((void)call({0, 1, 1}), UsageError);
  EXPECT_EQ(rig.stats().nodes_failed, 0U);
  EXPECT_THAT(call({limit, 1, 1}).to_vector<float>(), Each(2.0F));
}

// A grid that its groups do not divide: every thread runs once, and no other one. Threads count
// themselves in a place for each position that whole groups would have.
ARRAY_SCENARIO(mlx_4534_a_grid_that_groups_do_not_divide_runs_every_thread_once) {
  static const Kernel count({.name = "count", .in_place = {"seen"}, .source = R"(
uint3 p = thread_position_in_grid;
seen[(p.z * height + p.y) * width + p.x] += 1.0f;
)"});
  struct FailureCase {
    Size3 grid;
    Size3 group;
  };
  ArrayRig rig(world);
  for (const auto& [grid, group] :
       {FailureCase{{100, 1, 1}, {32, 1, 1}}, FailureCase{{5, 7, 1}, {4, 4, 1}},
        FailureCase{{3, 5, 7}, {2, 4, 8}}, FailureCase{{3, 2, 1}, {64, 4, 2}},
        FailureCase{{1, 1, 1}, {7, 3, 2}}}) {
    const auto padded = [](uint32_t n, uint32_t by) { return (n + by - 1) / by * by; };
    const Size3 room{padded(grid.x, group.x), padded(grid.y, group.y), padded(grid.z, group.z)};
    std::vector<Array> places;
    places.push_back(zeros({room.z, room.y, room.x}));
    const Array seen = count({}, {.grid = grid,
                                  .threadgroup = group,
                                  .params = {{"width", room.x}, {"height", room.y}},
                                  .in_place = std::move(places)})[0];
    const Floats values = seen.to_vector<float>();
    for (uint32_t i = 0; i < values.size(); ++i) {
      const uint32_t x = i % room.x;
      const uint32_t y = i / room.x % room.y;
      const uint32_t z = i / room.x / room.y;
      const bool is_there = x < grid.x && y < grid.y && z < grid.z;
      ASSERT_EQ(values[i], is_there ? 1.0F : 0.0F) << x << " " << y << " " << z;
    }
  }
}

// The same where the threads of a group meet: at the edge there are fewer, and they say so.
ARRAY_SCENARIO(mlx_4534_groups_at_the_edge_meet_without_the_threads_that_are_not_there) {
  static const Kernel meet({.name = "meet", .outputs = {"y"}, .source = R"(
threadgroup int here[32];
here[thread_index_in_threadgroup] = 1;
threadgroup_barrier(mem_flags::mem_threadgroup);
int sum = 0;
for (uint i = 0; i < threads_per_threadgroup.x; ++i) sum += here[i];
y[thread_position_in_grid.x] = sum;
)"});
  ArrayRig rig(world);
  const Array y = meet({}, {.grid = {70, 1, 1},
                            .threadgroup = {32, 1, 1},
                            .output_shapes = {{96}},
                            .output_dtypes = {int32},
                            .init_value = Scalar(int32_t{-1})})[0];
  const std::vector<int32_t> sums = y.to_vector<int32_t>();
  for (size_t i = 0; i < 96; ++i) ASSERT_EQ(sums[i], i < 64 ? 32 : i < 70 ? 6 : -1) << i;
}

}  // namespace
}  // namespace holdfast
