#include "holdfast/eval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/base/sanitizers.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/creation.h"
#include "holdfast/hal/devices.h"
#include "holdfast/kernel.h"
#include "holdfast/operation.h"
#include "holdfast/ops.h"
#include "holdfast/testing/effort.h"
#include "holdfast/testing/rig.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Kernel plus_one() {
  static const Kernel kernel({.name = "plus_one",
                              .inputs = {"x"},
                              .outputs = {"y"},
                              .source = "uint i = thread_position_in_grid.x; y[i] = x[i] + 1.0f;"});
  return kernel;
}

KernelCall elementwise(const Array& like, std::string label = {}) {
  return {.grid = {static_cast<uint32_t>(like.size()), 1, 1},
          .threadgroup = {32, 1, 1},
          .output_shapes = {like.shape()},
          .output_dtypes = {like.dtype()},
          .label = std::move(label)};
}

Array call(const Kernel& kernel, const Array& x, std::string label = {}) {
  return kernel({x}, elementwise(x, std::move(label)))[0];
}

// In place: twice what it was.
const Kernel& doubled() {
  static const Kernel kernel({.name = "doubled",
                              .in_place = {"x"},
                              .source = "uint i = thread_position_in_grid.x; x[i] = 2.0f * x[i];"});
  return kernel;
}
Array doubled_in_place(Array x) {
  const auto n = static_cast<uint32_t>(x.size());
  std::vector<Array> one;
  one.push_back(std::move(x));
  return doubled()({},
                   {.grid = {n, 1, 1}, .threadgroup = {32, 1, 1}, .in_place = std::move(one)})[0];
}

const Kernel& broken() {
  static const Kernel kernel({.name = "broken",
                              .inputs = {"x"},
                              .outputs = {"y"},
                              .source = "y[0] = x[0] + no_such_name;"});
  return kernel;
}

// Instrumented, fewer show the same: no stack holds a frame for each.
const int kMillion = testing::is_shortened() ? 10'000 : has_sanitizer() ? 100'000 : 1'000'000;

TEST(Eval, nothing_is_computed_before_somebody_asks) {
  const Array x(std::vector<float>{1, 2, 3});
  const Array y = call(plus_one(), x);
  EXPECT_FALSE(y.is_recorded());
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(2, 3, 4));
  EXPECT_TRUE(y.is_recorded());
}

TEST(Eval, a_chain_of_a_million_nodes_evaluates_and_goes_away) {
  Array x = full({1}, 0.0);
  for (int i = 0; i < kMillion; ++i) x = call(plus_one(), x);
  EXPECT_EQ(x.item<float>(), static_cast<float>(kMillion));
}

TEST(Eval, a_chain_of_a_million_nodes_that_nobody_evaluates_goes_away) {
  const Array first = full({1}, 0.0);
  Array x = first;
  for (int i = 0; i < kMillion; ++i) x = call(plus_one(), x);
  EXPECT_EQ(first.value()->users(), 2U) << "its own, and the first node's";
  x = Array();
  EXPECT_EQ(first.value()->users(), 1U) << "the whole chain is gone";
  EXPECT_FALSE(first.is_recorded());
}

TEST(Eval, a_diamond_computes_the_shared_node_once) {
  const Device device = default_device();
  const uint64_t before = device.stats().nodes_recorded;
  const Array x(std::vector<float>{1, 2});
  const Array shared = call(plus_one(), x);
  const Array left = call(plus_one(), shared);
  const Array right = call(plus_one(), shared);
  eval(left, right);
  EXPECT_EQ(device.stats().nodes_recorded - before, 3U);
  EXPECT_THAT(left.to_vector<float>(), ElementsAre(3, 4));
  EXPECT_THAT(right.to_vector<float>(), ElementsAre(3, 4));
}

TEST(Eval, an_in_place_argument_that_nobody_else_sees_keeps_its_memory) {
  const Device device = default_device();
  const Stats before = device.stats();
  Array x = call(plus_one(), Array(std::vector<float>{1, 2}));
  x = doubled_in_place(std::move(x));
  x = doubled_in_place(std::move(x));
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(8, 12));
  EXPECT_EQ(device.stats().donated - before.donated, 2U);
  EXPECT_EQ(device.stats().hidden_copies, before.hidden_copies);
}

TEST(Eval, an_in_place_argument_that_somebody_sees_is_copied) {
  const Array x = call(plus_one(), Array(std::vector<float>{1, 2}));
  const Array view = slice(x, {{.start = 1}});
  const Array y = doubled_in_place(x);
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(4, 6));
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(2, 3));
  EXPECT_THAT(view.to_vector<float>(), ElementsAre(3));
}

TEST(Eval, one_array_given_twice_in_place_gives_two_results) {
  static const Kernel both(
      {.name = "both",
       .in_place = {"a", "b"},
       .source = "uint i = thread_position_in_grid.x; a[i] += 1.0f; b[i] += 10.0f;"});
  Array x = call(plus_one(), Array(std::vector<float>{1, 2}));
  std::vector<Array> twice{x, x};
  x = Array();
  const std::vector<Array> made = both(
      {}, {.grid = {2, 1, 1}, .threadgroup = {32, 1, 1}, .in_place = std::exchange(twice, {})});
  EXPECT_THAT(made[0].to_vector<float>(), ElementsAre(3, 4));
  EXPECT_THAT(made[1].to_vector<float>(), ElementsAre(12, 13));
}

TEST(Eval, a_reader_in_the_same_wave_does_not_cost_the_taker_a_copy) {
  const Device device = default_device();
  for (const bool taker_first : {false, true}) {
    const uint64_t copies = device.stats().hidden_copies;
    Array x = call(plus_one(), Array(std::vector<float>{1, 2}));
    Array read;
    Array taken;
    if (taker_first) {
      const Array same = x;
      taken = doubled_in_place(std::move(x));
      read = call(plus_one(), same);
    } else {
      read = call(plus_one(), x);
      taken = doubled_in_place(std::move(x));
    }
    eval(taken, read);
    EXPECT_THAT(read.to_vector<float>(), ElementsAre(3, 4));
    EXPECT_THAT(taken.to_vector<float>(), ElementsAre(4, 6));
    EXPECT_EQ(device.stats().hidden_copies, copies) << taker_first;
  }
}

TEST(Eval, external_memory_is_never_donated) {
  alignas(4096) static float memory[1024] = {1, 2};
  {
    Array x = from_external(memory, float32, {1024}, {});
    const Array y = doubled_in_place(std::move(x));
    EXPECT_EQ(slice(y, {{.stop = 2}}).to_vector<float>(), (std::vector<float>{2, 4}));
  }
  synchronize();
  EXPECT_EQ(memory[0], 1.0F);
}

TEST(Eval, a_compile_error_is_raised_by_what_depends_on_it_and_by_nothing_else) {
  const Array x(std::vector<float>{1, 2});
  const Array good = call(plus_one(), x);
  const Array bad = call(broken(), x, "step 5");
  const Array worse = call(plus_one(), bad);
  const std::vector<Array> all{good, bad, worse};
  try {
    eval(all);
    FAIL() << "nothing was raised";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("broken"));
    EXPECT_THAT(error.what(), HasSubstr("step 5"));
    EXPECT_THAT(error.what(), HasSubstr("no_such_name"));
  }
  EXPECT_THAT(good.to_vector<float>(), ElementsAre(2, 3));
  EXPECT_THROW((void)bad.to_vector<float>(), UsageError);
  EXPECT_THROW((void)worse.to_vector<float>(), UsageError);
  EXPECT_THAT(call(plus_one(), good).to_vector<float>(), ElementsAre(3, 4));
}

TEST(Eval, views_share_memory_and_record_nothing) {
  const Array x = reshape(arange(12, float32), {3, 4});
  x.eval();
  const uint64_t before = default_device().stats().nodes_recorded;
  const Array t = transpose(x);
  t.eval();
  EXPECT_EQ(default_device().stats().nodes_recorded, before);
  EXPECT_EQ(t.value(), x.value());
  EXPECT_THAT(t.to_vector<float>(), ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
  EXPECT_THAT(slice(x, {{.step = -2}, {.start = 3, .step = -3}}).to_vector<float>(),
              ElementsAre(11, 8, 3, 0));
}

TEST(Eval, slice_updates_write_the_slice_and_leave_other_arrays_alone) {
  Array x = zeros({2, 4});
  const Array before = x;
  x = slice_update(std::move(x), Array(std::vector<float>{1, 2}), {{.start = 1}, {.step = -2}});
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(0, 0, 0, 0, 0, 2, 0, 1));
  EXPECT_THAT(before.to_vector<float>(), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
}

TEST(Eval, a_view_at_an_offset_is_not_donated_with_all_of_its_memory) {
  const Device device = default_device();
  for (const bool from_the_start : {false, true}) {
    const Stats before = device.stats();
    const Array x = call(plus_one(), Array(std::vector<float>{0, 1, 2, 3, 4, 5}));
    Array view = from_the_start ? slice(x, {{.stop = 3}}) : slice(x, {{.start = 3}});
    const float first = from_the_start ? 1 : 4;
    Array only = view;
    view = Array();
    const Array y = doubled_in_place(std::exchange(only, Array()));
    EXPECT_THAT(y.to_vector<float>(), ElementsAre(2 * first, 2 * first + 2, 2 * first + 4));
    EXPECT_THAT(x.to_vector<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_EQ(device.stats().donated, before.donated);
  }
}

// The view is the last that shows the array: its memory is nobody else's, and yet not the result's.
TEST(Eval, the_last_view_at_an_offset_is_copied_to_the_start_of_its_result) {
  const Device device = default_device();
  const uint64_t donated = device.stats().donated;
  Array x = call(plus_one(), Array(std::vector<float>{0, 1, 2, 3, 4, 5}));
  x = slice(std::exchange(x, Array()), {{.start = 3}});
  x = doubled_in_place(std::exchange(x, Array()));
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(8, 10, 12));
  EXPECT_EQ(device.stats().donated, donated);

  Array row = call(plus_one(), Array(std::vector<float>{0, 1, 2, 3}));
  row = index(reshape(std::exchange(row, Array()), {2, 2}), 1);
  row = std::exchange(row, Array()) * 2.0F;
  EXPECT_THAT(row.to_vector<float>(), ElementsAre(6, 8));

  Array part = call(plus_one(), Array(std::vector<float>{0, 1, 2, 3}));
  part = slice(std::exchange(part, Array()), {{.start = 2}});
  part = slice_update(std::exchange(part, Array()), Array(std::vector<float>{9}), {{.stop = 1}});
  EXPECT_THAT(part.to_vector<float>(), ElementsAre(9, 4));
}

TEST(Eval, a_view_of_everything_in_another_order_is_not_donated) {
  Array x = call(plus_one(), Array(std::vector<float>{0, 1, 2, 3}));
  x = slice(std::exchange(x, Array()), {{.step = -1}});
  x = doubled_in_place(std::exchange(x, Array()));
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(8, 6, 4, 2));
}

TEST(Eval, a_reversed_update_into_a_reversed_slice_keeps_its_order) {
  const Array up(std::vector<float>{1, 2, 3, 4});
  const Array down = slice(up, {{.step = -1}});
  EXPECT_THAT(slice_update(zeros({4}), down, {{.step = -1}}).to_vector<float>(),
              ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(slice_update(zeros({4}), up, {{.step = -1}}).to_vector<float>(),
              ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(slice_update(zeros({4}), down, {{}}).to_vector<float>(), ElementsAre(4, 3, 2, 1));
  // At an offset, with gaps.
  EXPECT_THAT(slice_update(zeros({6}), slice(down, {{.start = 1, .stop = 3}}),
                           {{.start = 4, .stop = 0, .step = -2}})
                  .to_vector<float>(),
              ElementsAre(0, 0, 2, 0, 3, 0));
  // Axis by axis: each turned in the update, in the slice, in both, in neither.
  std::vector<float> numbers{1, 2, 3, 4, 5, 6};
  const Array all(numbers, {2, 3});
  for (int turned = 0; turned < 16; ++turned) {
    const auto step = [&](int bit) { return (turned >> bit & 1) != 0 ? -1 : 1; };
    const Array update = slice(all, {{.step = step(0)}, {.step = step(1)}});
    const Array into =
        slice_update(zeros({3, 4}), update,
                     {{.start = step(2) < 0 ? 2 : 1,
                       .stop = step(2) < 0 ? std::optional<int64_t>(0) : std::nullopt,
                       .step = step(2)},
                      {.start = step(3) < 0 ? 3 : 1,
                       .stop = step(3) < 0 ? std::optional<int64_t>(0) : std::nullopt,
                       .step = step(3)}});
    const std::vector<float> got = into.to_vector<float>();
    for (int r = 0; r < 3; ++r) {
      for (int c = 0; c < 4; ++c) {
        float expected = 0;
        if (r > 0 && c > 0) {
          const int row = step(0) * step(2) < 0 ? 2 - r : r - 1;
          const int column = step(1) * step(3) < 0 ? 3 - c : c - 1;
          expected = numbers[3 * static_cast<size_t>(row) + static_cast<size_t>(column)];
        }
        EXPECT_EQ(got[static_cast<size_t>(4 * r + c)], expected)
            << turned << ": " << r << ", " << c;
      }
    }
  }
}

TEST(Eval, a_fill_through_turned_axes_reaches_the_slice_and_nothing_else) {
  EXPECT_THAT(slice_update(zeros({2, 3}), full({}, 5.0), {{.start = 1}, {.start = 1, .step = -1}})
                  .to_vector<float>(),
              ElementsAre(0, 0, 0, 5, 5, 0));
}

TEST(Eval, updates_of_no_elements_change_nothing) {
  const Array x(std::vector<float>{1, 2, 3});
  EXPECT_THAT(slice_update(x, zeros({0}), {{.start = 2, .stop = 1}}).to_vector<float>(),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(slice_update(zeros({0, 3}), zeros({3}), {{}}).to_vector<float>(),
              ::testing::IsEmpty());
  EXPECT_THROW((void)slice_update(x, zeros({4}), {{}}), UsageError);
}

// More nodes than a window has, across its borders.
TEST(Eval, graphs_wider_than_a_window_are_right) {
  constexpr size_t kWide = 300;
  const Array x = full({4}, 1.0);
  std::vector<Array> level;
  for (size_t i = 0; i < kWide; ++i) level.push_back(x + static_cast<float>(i));
  std::vector<Array> sums;
  for (size_t i = 0; i < kWide; ++i) sums.push_back(level[i] + level[kWide - 1 - i]);
  level.clear();
  Array total = sums[0];
  for (size_t i = 1; i < kWide; ++i) total = total + sums[i];
  sums.clear();
  EXPECT_THAT(total.to_vector<float>(),
              ::testing::Each(static_cast<float>(kWide * 2 + kWide * (kWide - 1))));
}

TEST(Eval, the_first_failure_of_several_arrays_is_raised) {
  const Array x(std::vector<float>{1, 2});
  const Array good = call(plus_one(), x);
  const Array first = call(broken(), x, "first");
  const Array second = call(broken(), x, "second");
  try {
    async_eval(good, second, first);
    FAIL() << "nothing was raised";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'second'"));
  }
  EXPECT_TRUE(good.is_recorded());
  EXPECT_TRUE(first.is_recorded()) << "it has failed";
  EXPECT_THROW(eval(Array()), UsageError);
}

TEST(Eval, thirty_two_threads_evaluate_overlapping_graphs_and_each_node_once) {
  const Device device = default_device();
  const uint64_t before = device.stats().nodes_recorded;
  constexpr int kThreads = 32;
  constexpr int kLength = 50;
  std::vector<Array> chain{full({64}, 1.0)};
  for (int i = 0; i < kLength; ++i) chain.push_back(call(plus_one(), chain.back()));
  std::vector<float> seen(kThreads);
  {
    std::vector<sync::Thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back("evaluator", [&, t] {
        const Array mine = call(plus_one(), chain[static_cast<size_t>(kLength - t % 8)]);
        seen[static_cast<size_t>(t)] = mine.to_vector<float>()[13];
      });
    }
  }
  for (int t = 0; t < kThreads; ++t) {
    EXPECT_EQ(seen[static_cast<size_t>(t)], static_cast<float>(kLength - t % 8 + 2));
  }
  EXPECT_EQ(device.stats().nodes_recorded - before, 1U + kLength + kThreads);
}

TEST(Eval, independent_nodes_share_a_wave) {
  const Device device(hal::open_device("cpu").or_raise());
  const UseStream scope(device.default_stream());
  std::vector<Array> all;
  for (int c = 0; c < 8; ++c) {
    Array x = full({64}, c);
    for (int i = 0; i < 4; ++i) x = call(plus_one(), x);
    all.push_back(x);
  }
  eval(all);
  EXPECT_LE(device.stats().runtime.barriers, 4U);
}

TEST(Eval, profiling_tells_how_long_each_kernel_ran) {
  const Device device(hal::open_device("cpu").or_raise());
  const UseStream scope(device.default_stream());
  device.set_profiling(true);
  Array x = full({4096}, 1.5);
  for (int i = 0; i < 3; ++i) x = call(plus_one(), x);
  x.eval();
  uint64_t dispatches = 0;
  for (const KernelTime& time : device.kernel_times()) {
    if (time.kernel.find("plus_one") == std::string::npos) continue;
    dispatches += time.dispatches;
    EXPECT_GT(time.total.count(), 0);
  }
  EXPECT_EQ(dispatches, 3U);
}

TEST(Eval, an_operation_that_evaluates_is_told_not_to) {
  class Evaluates final : public Operation {
   public:
    explicit Evaluates(Array other) : other_(std::move(other)) {}
    std::string_view name() const noexcept override { return "evaluates"; }
    void record(Encoder& encoder) const override {
      (void)encoder.output(0);
      (void)other_.item<float>();
    }

   private:
    Array other_;
  };
  const Array y = apply(make_ref<const Evaluates>(full({1}, 2.0)), {}, OutputType{{1}, float32});
  try {
    (void)y.item<float>();
    FAIL() << "nothing was raised";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'evaluates'"));
    EXPECT_THAT(error.what(), HasSubstr("input"));
  }
}

}  // namespace
}  // namespace holdfast
