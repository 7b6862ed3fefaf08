// Litmus tests of the memory model that docs/kernels.md states, on the CPU and on Vulkan. A body
// counts what must not happen in `wrong`; bodies whose every outcome is known write that.
//
// No thread waits for another: a reader that comes too early or too late sees nothing, which is
// never wrong.

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "holdfast/base/env.h"
#include "holdfast/kernel/targets/vulkan/compared_body_test.h"
#include "holdfast/testing/effort.h"

namespace holdfast::kernel {
namespace {

// lavapipe ends loops of one thread after 65,535 rounds.
constexpr uint32_t kQuickRounds = 400;
constexpr uint32_t kNightlyRounds = 5'000;
constexpr uint64_t kNightlyRuns = 40;

struct Litmus {
  const char* name;
  const char* body;
  uint32_t groups = 8;
  uint32_t threads = 128;  // the constant W: more than any hardware runs in step
  size_t cells = 64;       // of the atomic output `shared`
  size_t plain = 1;  // of the in-place argument `data`, or a multiple of the rounds, if `by_round`
  bool by_round = false;
};

// Of all that a body may find wrong, how often it did.
using Wrong = uint32_t;

Wrong run_litmus(const Litmus& litmus, testing::Family family, uint32_t rounds) {
  World world(World::Mode::validate, {}, family);
  std::vector<uint32_t> wrong(1);
  {
    KernelRig rig(world);
    const auto stream = rig.stream("main");
    const auto plain = litmus.plain * (litmus.by_round ? rounds : 1);
    const TestArray shared = array_of(*stream, std::vector<uint32_t>(litmus.cells), "shared");
    const TestArray found = array_of(*stream, std::vector<uint32_t>(1), "wrong");
    const TestArray data = array_of(*stream, std::vector<uint32_t>(plain), "data");
    const std::array in_place{data.ref()};
    const std::array outputs{shared.ref(), found.ref()};
    const std::vector<Constant> constants{{"W", int64_t{litmus.threads}}};
    const std::vector<Param> params{{"rounds", rounds}};
    rig.kernels.launch(*stream,
                       Kernel({.name = litmus.name,
                               .outputs = {"shared", "wrong"},
                               .in_place = {"data"},
                               .source = litmus.body,
                               .header = R"(
#define LOAD(at) atomic_load_explicit(&(at), memory_order_relaxed)
#define STORE(at, v) atomic_store_explicit(&(at), (v), memory_order_relaxed)
#define ADD(at, v) atomic_fetch_add_explicit(&(at), (v), memory_order_relaxed)
#define FENCE() atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst)
#define BARRIER() threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup)
)",
                               .atomic_outputs = true}),
                       {.outputs = outputs,
                        .in_place = in_place,
                        .grid = {litmus.groups * litmus.threads, 1, 1},
                        .threadgroup = {litmus.threads, 1, 1},
                        .constants = constants,
                        .params = params,
                        .keeps_outputs = true});
    wrong = values_of<uint32_t>(*stream, found);
  }
  EXPECT_EQ(world.failure(), "");
  return wrong[0];
}

// --- Within a group ------------------------------------------------------------------------------

constexpr Litmus kWithinGroups[] = {
    // What was written before a barrier is read behind it, plainly.
    {.name = "message_passing_through_threadgroup_memory", .body = R"(
threadgroup uint s[W];
uint t = thread_index_in_threadgroup;
for (uint r = 1; r <= rounds; ++r) {
  s[t] = r * W + t;
  BARRIER();
  uint from = (t + r) % W;
  if (s[from] != r * W + from) ADD(wrong[0], 1u);
  BARRIER();
}
)"},
    {.name = "message_passing_through_device_memory",
     .body = R"(
uint t = thread_index_in_threadgroup;
device uint* mine = data + threadgroup_position_in_grid.x * W;
for (uint r = 1; r <= rounds; ++r) {
  mine[t] = r * W + t;
  BARRIER();
  uint from = (t + r) % W;
  if (mine[from] != r * W + from) ADD(wrong[0], 1u);
  BARRIER();
}
)",
     .plain = 8 * 128},
    // Both write, both read: with a barrier between, nobody reads what was before.
    {.name = "store_buffering", .body = R"(
threadgroup uint s[W];
uint t = thread_index_in_threadgroup;
s[t] = 0;
BARRIER();
for (uint r = 1; r <= rounds; ++r) {
  s[t] = r;
  BARRIER();
  if (s[t ^ 1] != r) ADD(wrong[0], 1u);
  BARRIER();
}
)"},
    // Both read, then both write: nobody reads what is written behind the barrier.
    {.name = "load_buffering", .body = R"(
threadgroup uint s[W];
uint t = thread_index_in_threadgroup;
s[t] = 0;
BARRIER();
for (uint r = 1; r <= rounds; ++r) {
  if (s[t ^ 1] != r - 1) ADD(wrong[0], 1u);
  BARRIER();
  s[t] = r;
  BARRIER();
}
)"},
    // One place: all see the last write, whoever made it.
    {.name = "coherence", .body = R"(
threadgroup uint s;
uint t = thread_index_in_threadgroup;
for (uint r = 1; r <= rounds; ++r) {
  if (t == r % W) s = r;
  BARRIER();
  if (s != r) ADD(wrong[0], 1u);
  BARRIER();
  if (t == (r + 7) % W) s = s + 1000000;
  BARRIER();
  if (s != r + 1000000) ADD(wrong[0], 1u);
  BARRIER();
}
)"},
    // A compiler that knew s would know what a thread reads: it is the others' to change.
    {.name = "threadgroup_memory_is_not_the_threads_own", .body = R"(
threadgroup uint s[2];
uint t = thread_index_in_threadgroup;
for (uint r = 0; r < rounds; ++r) {
  if (t == 0) s[0] = 1;
  if (t == 1) s[1] = r;
  BARRIER();
  if (t == 2) { s[0] = 2; s[1] = s[1] + 5; }
  BARRIER();
  if (s[0] != 2 || s[1] != r + 5) ADD(wrong[0], 1u);
  BARRIER();
}
)"},
    // Meetings in branches and loops that all threads take: each of them is one meeting.
    {.name = "barriers_in_branches_that_all_take", .body = R"(
threadgroup uint s[W];
uint t = thread_index_in_threadgroup;
uint g = threadgroup_position_in_grid.x;
for (uint r = 1; r <= rounds; ++r) {
  if ((r + g) % 3 == 0) {
    s[t] = r;
    BARRIER();
  } else if ((r + g) % 3 == 1) {
    for (uint k = 0; k < 2; ++k) {
      s[t] = r - 1 + k;
      BARRIER();
    }
  } else {
    s[W - 1 - t] = r;
    BARRIER();
    if (g == 5) continue;
  }
  if (s[(t + 1) % W] != r) ADD(wrong[0], 1u);
  BARRIER();
}
)"},
    // Atomics of threadgroup memory, counted by all.
    {.name = "atomics_of_threadgroup_memory", .body = R"(
threadgroup atomic_uint s[2];
uint t = thread_index_in_threadgroup;
if (t < 2) STORE(s[t], 0u);
BARRIER();
for (uint r = 1; r <= rounds; ++r) {
  ADD(s[0], t);
  BARRIER();
  if (LOAD(s[0]) != r * (W * (W - 1) / 2)) ADD(wrong[0], 1u);
  BARRIER();
}
)"}};

// --- Across groups -------------------------------------------------------------------------------

// Even groups write, odd groups read what the group before them writes.
constexpr Litmus kAcrossGroups[] = {
    {.name = "message_passing_by_atomics", .body = R"(
uint g = threadgroup_position_in_grid.x;
if (thread_index_in_threadgroup != 0) return;
uint at = g / 2 * 2;
for (uint r = 1; r <= rounds; ++r) {
  if (g % 2 == 0) {
    STORE(shared[at], r);
    FENCE();
    STORE(shared[at + 1], r);
  } else {
    uint flag = LOAD(shared[at + 1]);
    FENCE();
    if (LOAD(shared[at]) < flag) ADD(wrong[0], 1u);
  }
}
)"},
    // Every place is written once, so whoever reads it behind the flag races with nobody.
    {.name = "message_passing_of_plain_data",
     .body = R"(
uint g = threadgroup_position_in_grid.x;
if (thread_index_in_threadgroup != 0) return;
device uint* sent = data + g / 2 * rounds;
for (uint r = 1; r <= rounds; ++r) {
  if (g % 2 == 0) {
    sent[r - 1] = r * 3;
    FENCE();
    STORE(shared[g / 2], r);
  } else {
    uint flag = LOAD(shared[g / 2]);
    FENCE();
    if (flag > 0 && sent[flag - 1] != flag * 3) ADD(wrong[0], 1u);
  }
}
)",
     .plain = 4,
     .by_round = true},
    // A group that saw what another wrote passes it on to a third.
    {.name = "causality_through_a_third_group",
     .body = R"(
uint g = threadgroup_position_in_grid.x;
if (thread_index_in_threadgroup != 0) return;
uint at = g / 3 * 2;
for (uint r = 1; r <= rounds; ++r) {
  if (g % 3 == 0) {
    STORE(shared[at], r);
  } else if (g % 3 == 1) {
    uint seen = LOAD(shared[at]);
    FENCE();
    STORE(shared[at + 1], seen);
  } else {
    uint seen = LOAD(shared[at + 1]);
    FENCE();
    if (LOAD(shared[at]) < seen) ADD(wrong[0], 1u);
  }
}
)",
     .groups = 9},
    // One place is never seen to go back.
    {.name = "coherence_of_one_place", .body = R"(
uint g = threadgroup_position_in_grid.x;
if (thread_index_in_threadgroup != 0) return;
uint last = 0;
for (uint r = 1; r <= rounds; ++r) {
  if (g % 4 == 0) {
    STORE(shared[g / 4], r);
  } else {
    uint first = LOAD(shared[g / 4]);
    uint second = LOAD(shared[g / 4]);
    if (first < last || second < first) ADD(wrong[0], 1u);
    last = second;
  }
}
)"},
    // No update is lost, and no two threads get the same.
    {.name = "updates_are_one_step",
     .body = R"(
uint got = 0;
for (uint r = 0; r < rounds; ++r) got = ADD(shared[0], 1u);
if (got >= rounds * threads_per_grid.x) ADD(wrong[0], 1u);
FENCE();
uint slot = ADD(shared[1], 1u);
if (ADD(shared[2 + slot], 1u) != 0) ADD(wrong[0], 1u);
FENCE();
if (ADD(shared[1], 0u) == threads_per_grid.x && LOAD(shared[0]) != rounds * threads_per_grid.x) {
  ADD(wrong[0], 1u);
}
)",
     .cells = 2 + 8 * 128},
    // The last group to come adds up what all wrote plainly: the reduction in one kernel.
    {.name = "the_last_group_sees_what_all_wrote",
     .body = R"(
threadgroup uint last;
uint t = thread_index_in_threadgroup;
uint g = threadgroup_position_in_grid.x;
uint groups = threadgroups_per_grid.x;
data[g * W + t] = g * 1000 + t + rounds;
FENCE();
BARRIER();
if (t == 0) last = ADD(shared[0], 1u) == groups - 1;
BARRIER();
FENCE();
if (last == 0) return;
for (uint other = t; other < groups; other += W) {
  for (uint k = 0; k < W; ++k) {
    if (data[other * W + k] != other * 1000 + k + rounds) ADD(wrong[0], 1u);
  }
}
ADD(shared[1], 1u);
)",
     .groups = 64,
     .plain = 64 * 128}};

std::vector<Litmus> every_litmus() {
  std::vector<Litmus> all(std::begin(kWithinGroups), std::end(kWithinGroups));
  all.insert(all.end(), std::begin(kAcrossGroups), std::end(kAcrossGroups));
  return all;
}

class MemoryModel : public ::testing::TestWithParam<testing::Family> {
 protected:
  void SetUp() override {
    if (GetParam() != testing::Family::vulkan) return;
    if (const std::string why = why_no_bodies_on_vulkan(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(MemoryModel, forbids_what_it_says) {
  for (const Litmus& litmus : every_litmus()) {
    EXPECT_EQ(run_litmus(litmus, GetParam(), kQuickRounds), 0U) << litmus.name;
  }
}

// HOLDFAST_SCHEDULES says how often each of them runs.
TEST_P(MemoryModel, forbids_what_it_says_nightly) {
  const uint64_t runs =
      testing::shortened(env::number("HOLDFAST_SCHEDULES").value_or(kNightlyRuns));
  for (const Litmus& litmus : every_litmus()) {
    for (uint64_t run = 0; run < runs; ++run) {
      ASSERT_EQ(run_litmus(litmus, GetParam(), kNightlyRounds), 0U) << litmus.name;
    }
  }
}

// What the tests above count is there to be counted: no thread ends in a loop with fences because
// others of its group have ended.
TEST_P(MemoryModel, a_loop_with_fences_runs_to_its_end) {
  const Litmus litmus{.name = "loop_with_fences", .body = R"(
if (thread_index_in_threadgroup != 5) return;
for (uint r = 1; r <= rounds; ++r) {
  STORE(shared[0], r);
  FENCE();
  if (LOAD(shared[0]) > 0) ADD(wrong[0], 1u);
}
)"};
  EXPECT_EQ(run_litmus(litmus, GetParam(), kQuickRounds), litmus.groups * kQuickRounds);
}

// A barrier that is left out shows: what the tests above look for is there to be found.
TEST_P(MemoryModel, a_missing_barrier_shows) {
  const Litmus litmus{.name = "without_a_barrier", .body = R"(
threadgroup uint s[W];
uint t = thread_index_in_threadgroup;
for (uint r = 1; r <= rounds; ++r) {
  s[t] = r;
  if (s[W - 1 - t] != r) ADD(wrong[0], 1u);
  BARRIER();
}
)"};
  EXPECT_GT(run_litmus(litmus, GetParam(), kQuickRounds), 0U);
}

std::string name_of_family(const ::testing::TestParamInfo<testing::Family>& test) {
  return fmt::format("on_{}", testing::to_string(test.param));
}
INSTANTIATE_TEST_SUITE_P(, MemoryModel,
                         ::testing::Values(testing::Family::cpu, testing::Family::vulkan),
                         name_of_family);

}  // namespace
}  // namespace holdfast::kernel
