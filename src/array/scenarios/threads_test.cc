#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "holdfast/array/scenarios/array_kernels_test.h"
#include "holdfast/base/sanitizers.h"

// Many threads, and processes that forked.
namespace holdfast {
namespace {

using ::testing::Each;
using testing::World;

// mlx#3078: 32 threads evaluate overlapping graphs, on shared streams and on their own. Each node
// is recorded once, whoever gets there first.
ARRAY_SCENARIO(mlx_3078_overlapping_graphs_are_recorded_once) {
  const bool simulated = world.mode() == World::Mode::adversary;
  const size_t threads = simulated ? 3 : 32;
  const size_t length = simulated ? 3 : 40;
  ArrayRig rig(world);
  const Stream second = rig.device.new_stream("second");
  std::vector<Array> chain{filled(1, rig.stream())};
  for (size_t i = 0; i < length; ++i) {
    chain.push_back(run(plus_one(), chain.back(), "shared", i % 2 == 0 ? second : rig.stream()));
  }
  {
    std::vector<sync::Thread> tasks;
    for (size_t t = 0; t < threads; ++t) {
      tasks.push_back(world.task("evaluator", [&, t, from = chain[length - t % 3]]() mutable {
        const Stream mine = t % 2 == 0 ? second : rig.device.new_stream("own");
        const UseStream scope(mine);
        const Array top = run(plus_one(), std::exchange(from, {}), "own");
        EXPECT_EQ(top.stream(), mine);
        // Some wait for all of it, some only see to it that it is under way.
        if (t % 3 == 0) async_eval(top);
        EXPECT_THAT(top.to_vector<float>(), Each(static_cast<float>(length - t % 3 + 2)));
      }));
    }
    // Whoever is the last to drop a part of the graph: it is nobody's business.
    chain.resize(length / 2);
  }
  if (world.has_faults()) return;
  EXPECT_EQ(rig.stats().nodes_recorded, 1 + length + threads);
  EXPECT_EQ(rig.stats().nodes_failed, 0U);
  EXPECT_EQ(rig.compiles(), 2U) << "plus_one, and what fills";
  chain.clear();
  rig.device.synchronize(testing::patient());
  EXPECT_EQ(rig.stats().active_memory(), 0_B);
}

// An array that all of them replace by what they make of it: each sees the value that belongs to
// its place in the row, in place or not.
ARRAY_SCENARIO(mlx_3078_threads_build_on_each_others_arrays) {
  const bool simulated = world.mode() == World::Mode::adversary;
  const size_t threads = simulated ? 3 : 32;
  const size_t rounds = simulated ? 2 : 20;
  ArrayRig rig(world);
  struct Row {
    Array last;
    float value = 1;
  };
  sync::Guarded<Row> row;
  row.lock()->last = filled(1, rig.stream());
  {
    std::vector<sync::Thread> tasks;
    for (size_t t = 0; t < threads; ++t) {
      tasks.push_back(world.task("builder", [&, t] {
        const Stream mine = t % 2 == 0 ? rig.stream() : rig.device.new_stream("own");
        for (size_t i = 0; i < rounds; ++i) {
          Array seen;
          float value = 0;
          {
            const auto turn = row.lock();
            turn->last = run(plus_one(), turn->last, "next", mine);
            turn->value += 1;
            seen = turn->last;
            value = turn->value;
          }
          // Of memory of its own, since the next one reads it.
          const Array twice = double_in_place(std::move(seen), mine);
          if (i % 2 == t % 2) {
            async_eval(twice);
          } else {
            EXPECT_THAT(twice.to_vector<float>(), Each(2 * value));
          }
        }
      }));
    }
  }
  const Row end = *row.lock();
  EXPECT_THAT(end.last.to_vector<float>(), Each(end.value));
  if (world.has_faults()) return;
  const Stats stats = rig.stats();
  EXPECT_EQ(end.value, static_cast<float>(1 + threads * rounds));
  EXPECT_EQ(stats.nodes_recorded, 1 + 2 * threads * rounds);
  EXPECT_EQ(stats.donated + stats.hidden_copies, threads * rounds);
}

// Two evaluations that each need what the other one is recording, in both directions, on two
// streams: neither waits for ever.
ARRAY_SCENARIO(mlx_3078_evaluations_that_need_each_other) {
  ArrayRig rig(world);
  const Stream b = rig.device.new_stream("b");
  const Array x = filled(1, rig.stream());
  std::array<Array, 2> low{run(plus_one(), x, "low a"), run(plus_one(), x, "low b", b)};
  std::array<Array, 2> high;
  for (const size_t i : {0U, 1U}) {
    high[i] = add(low[0], low[1], i == 0 ? rig.stream() : b);
  }
  auto other = world.task("other", [&] {
    // The other order of inputs, and of results.
    const Array sum = add(high[1], multiply(high[0], 10.0F, b), b);
    EXPECT_THAT(sum.to_vector<float>(), Each(44.0F));
  });
  const Array sum = add(multiply(high[1], 10.0F), high[0]);
  EXPECT_THAT(sum.to_vector<float>(), Each(44.0F));
  other.join();
  if (world.has_faults()) return;
  EXPECT_EQ(rig.stats().nodes_recorded, 9U);
  EXPECT_EQ(rig.stats().runtime.wait_count(), waits(rig, runtime::WaitReason::readback) +
                                                  waits(rig, runtime::WaitReason::recording) +
                                                  waits(rig, runtime::WaitReason::submission_turn));
}

// A process that forks has arrays and work in flight. The child is told that they are its parent's,
// whatever it does with them, and opens a device of its own; the parent notices nothing.
class Child {
 public:
  void refused(const char* what, const std::function<void()>& call) {
    try {
      call();
      complain(what, "nothing was raised");
    } catch (const UsageError& error) {
      if (std::string(error.what()).find("fork") == std::string::npos) complain(what, error.what());
    } catch (const std::exception& error) {
      complain(what, error.what());
    }
  }
  void expect(const char* what, bool holds) {
    if (!holds) complain(what, "is not so");
  }
  void allowed(const char* what, const std::function<void()>& call) {
    try {
      call();
    } catch (const std::exception& error) {
      complain(what, error.what());
    }
  }
  int wrong() const { return wrong_; }

 private:
  void complain(const char* what, const char* why) {
    std::fprintf(stderr, "in the child, %s: %s\n", what, why);
    ++wrong_;
  }
  int wrong_ = 0;
};

TEST(Scenario, a_forked_child_is_refused_its_parents_arrays_and_opens_a_device_of_its_own) {
  if (has_thread_sanitizer())
    GTEST_SKIP() << "ThreadSanitizer starts no thread in a child of a process that had some";
  const Device parents = device("cpu");
  auto x = std::make_unique<Array>(Floats(kLength, 3.0F), Shape{kLength}, "x", parents);
  auto made = std::make_unique<Array>(run(plus_one(), *x));
  auto unmade = std::make_unique<Array>(run(plus_one(), *made));
  async_eval(*made);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    alarm(60);  // a child that hangs is killed, and the test fails
    Child child;
    child.refused("to_vector", [&] { (void)made->to_vector<float>(); });
    child.refused("eval", [&] { unmade->eval(); });
    child.refused("async_eval", [&] { async_eval(*unmade); });
    child.refused("map", [&] { (void)x->map(); });
    child.refused("printing", [&] { (void)to_string(*unmade); });
    child.refused("a new array", [&] { (void)Array(Floats(4, 1.0F), {4}, "", parents); });
    child.refused("a new stream", [&] { (void)parents.new_stream(); });
    child.refused("synchronize", [&] { parents.synchronize(); });
    child.refused("to_device", [&] { (void)to_device(*x, device("cpu")); });
    child.allowed("its own device", [&] {
      const Device own = device("cpu");
      child.expect("another device", !(own == parents));
      const Array y = run(plus_one(), Array(Floats(kLength, 8.0F), {kLength}, "", own));
      child.expect("a result", y.to_vector<float>() == Floats(kLength, 9.0F));
      own.synchronize();
    });
    child.allowed("drops", [&] {
      unmade.reset();
      made.reset();
      x.reset();
    });
    _exit(child.wrong());
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status)) << "the child crashed or hung";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(unmade->to_vector<float>(), Each(5.0F));
}

}  // namespace
}  // namespace holdfast
