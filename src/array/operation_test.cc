#include "holdfast/operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/hal/devices.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Does what the test says.
class Scripted final : public Operation {
 public:
  explicit Scripted(std::function<void(Encoder&)> script) : script_(std::move(script)) {}
  std::string_view name() const noexcept override { return "scripted"; }
  void record(Encoder& encoder) const override { script_(encoder); }

 private:
  std::function<void(Encoder&)> script_;
};

Array scripted(std::span<const Array> inputs, const OutputType& output,
               std::function<void(Encoder&)> script) {
  return apply(make_ref<const Scripted>(std::move(script)), inputs, output);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

const Kernel& set_seven() {
  static const Kernel kernel(kernel::Definition{
      .name = "set_seven",
      .outputs = {"y"},
      .source = "y[thread_position_in_grid.x] = 7.0f;",
  });
  return kernel;
}
const Kernel& add_seven() {
  static const Kernel kernel(kernel::Definition{
      .name = "add_seven",
      .in_place = {"y"},
      .source = "y[thread_position_in_grid.x] += 7.0f;",
  });
  return kernel;
}
void launch_on(Encoder& encoder, const Operand& y, bool in_place) {
  const std::span<const Operand> one(&y, 1);
  encoder.launch(in_place ? add_seven() : set_seven(),
                 {.outputs = in_place ? std::span<const Operand>() : one,
                  .in_place = in_place ? one : std::span<const Operand>(),
                  .grid = {static_cast<uint32_t>(y.size()), 1, 1},
                  .threadgroup = {32, 1, 1}});
}

using Write = std::function<void(Encoder&, const Operand&)>;
struct Way {
  const char* what;
  Write write;
};
// Every way in which an operation can write.
const std::vector<Way>& ways() {
  static const std::vector<Way> all{
      {"fill", [](Encoder& e, const Operand& to) { e.fill(to, std::byte{1}); }},
      {"fill_elements, bytes", [](Encoder& e, const Operand& to) { e.fill_elements(to, 0.0F); }},
      {"fill_elements, words", [](Encoder& e, const Operand& to) { e.fill_elements(to, 7.0F); }},
      {"fill_elements, a slice",
       [](Encoder& e, const Operand& to) {
         e.fill_elements(to.with_layout({{2}, {2}, 0}), 7.0F);
       }},
      {"copy",
       [](Encoder& e, const Operand& to) {
         const Operand from = e.scratch(to.shape(), to.dtype());
         e.fill(from, std::byte{0});
         e.copy(from, to);
       }},
      {"copy_elements",
       [](Encoder& e, const Operand& to) {
         const Operand from = e.scratch({2, 2}, to.dtype());
         e.fill(from, std::byte{0});
         e.copy_elements(from.with_layout({{2, 2}, {1, 2}, 0}),
                         to.with_layout({{2, 2}, {2, 1}, 0}));
       }},
      {"an output of a launch", [](Encoder& e, const Operand& to) { launch_on(e, to, false); }},
      {"an argument in place", [](Encoder& e, const Operand& to) { launch_on(e, to, true); }},
      {"as another dtype",
       [](Encoder& e, const Operand& to) { e.fill(to.viewed_as(int32), std::byte{1}); }},
      {"a native write",
       [](Encoder& e, const Operand& to) {
         e.native([](const hal::NativeCall&) {}, {}, {&to, 1});
       }},
  };
  return all;
}

TEST(OperationWrites, to_an_input_are_refused_whichever_way_they_go) {
  alignas(4096) static float memory[1024] = {1, 2, 3, 4};
  const Array external = slice(from_external(memory, float32, {1024}, {}), {{.stop = 4}});
  const Array computed = full({4}, 3.0) + 0.0F;
  const Array leaf(std::vector<float>{5, 6, 7, 8});
  for (const Array& x : {external, computed, leaf}) {
    const std::vector<float> before = x.to_vector<float>();
    for (const Way& way : ways()) {
      const std::vector<Array> inputs{leaf + 1.0F, x};
      const Array y = scripted(inputs, {{4}, float32}, [&](Encoder& encoder) {
        encoder.fill(encoder.output(0), std::byte{0});
        way.write(encoder, encoder.input(1));
      });
      EXPECT_THAT(error_of([&] { y.eval(); }), AllOf(HasSubstr("'scripted'"), HasSubstr("input 1")))
          << way.what;
      EXPECT_EQ(x.to_vector<float>(), before) << way.what;
    }
  }
  synchronize();
  EXPECT_EQ(memory[0], 1.0F);
}

TEST(OperationWrites, to_all_inputs_and_to_a_contiguous_input_are_refused) {
  const Array x(std::vector<float>{1, 2, 3, 4});
  const Array all = scripted({&x, 1}, {{4}, float32}, [](Encoder& encoder) {
    encoder.fill(encoder.all_inputs()[0], std::byte{0});
  });
  EXPECT_THAT(error_of([&] { all.eval(); }), HasSubstr("input 0"));
  const Array same = scripted({&x, 1}, {{4}, float32}, [](Encoder& encoder) {
    encoder.fill(encoder.contiguous(encoder.input(0)), std::byte{0});
  });
  EXPECT_THAT(error_of([&] { same.eval(); }), HasSubstr("input 0"));
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(1, 2, 3, 4));
}

TEST(OperationWrites, to_what_another_node_was_given_are_refused) {
  std::vector<Operand> kept;
  const Array first = scripted({}, {{4}, float32}, [&](Encoder& encoder) {
    encoder.fill(encoder.output(0), std::byte{0});
    kept.assign({encoder.output(0), encoder.scratch({4}, float32)});
  });
  EXPECT_THAT(first.to_vector<float>(), Each(0.0F));
  for (const size_t i : {0U, 1U}) {
    const Array second = scripted({}, {{4}, float32}, [&](Encoder& encoder) {
      encoder.fill(encoder.output(0), std::byte{0});
      encoder.fill(kept[i], std::byte{1});
    });
    EXPECT_THAT(error_of([&] { second.eval(); }),
                AllOf(HasSubstr("'scripted'"), HasSubstr("none of its outputs")));
  }
  EXPECT_THAT(first.to_vector<float>(), Each(0.0F));
}

TEST(OperationWrites, to_outputs_scratch_and_what_was_taken_are_fine) {
  for (const Way& way : ways()) {
    const Array out = scripted({}, {{4}, float32}, [&](Encoder& encoder) {
      encoder.fill(encoder.output(0), std::byte{0});
      way.write(encoder, encoder.output(0));
    });
    EXPECT_NO_THROW(out.eval()) << way.what;
    const Array scratch = scripted({}, {{4}, float32}, [&](Encoder& encoder) {
      const Operand own = encoder.scratch({4}, float32);
      encoder.fill(own, std::byte{0});
      way.write(encoder, own);
      encoder.fill(encoder.output(0), std::byte{0});
    });
    EXPECT_NO_THROW(scratch.eval()) << way.what;
    for (const bool donated : {false, true}) {
      Array x = Array(std::vector<float>{1, 2, 3, 4}) + 0.0F;
      const Array seen = donated ? Array() : x;
      const Array taken =
          scripted(std::vector<Array>{std::exchange(x, Array())}, {{4}, float32},
                   [&](Encoder& encoder) { way.write(encoder, encoder.take(0, 0)); });
      EXPECT_NO_THROW(taken.eval()) << way.what << donated;
      if (!donated) {
        EXPECT_THAT(seen.to_vector<float>(), ElementsAre(1, 2, 3, 4));
      }
    }
  }
}

TEST(OperationArguments, that_are_not_there_are_named) {
  const Array x(std::vector<float>{1, 2});
  const std::vector<Array> inputs{x, x + 1.0F};
  const auto error = [&](std::function<void(Encoder&)> script) {
    return error_of([&] { scripted(inputs, {{2}, float32}, std::move(script)).eval(); });
  };
  EXPECT_THAT(error([](Encoder& e) { (void)e.input(5); }),
              AllOf(HasSubstr("'scripted'"), HasSubstr("no input 5"), HasSubstr("2 inputs"),
                    Not(HasSubstr("vector"))));
  EXPECT_THAT(error([](Encoder& e) { (void)e.input(2); }), HasSubstr("no input 2"));
  EXPECT_THAT(error([](Encoder& e) { (void)e.output(5); }),
              AllOf(HasSubstr("'scripted'"), HasSubstr("no output 5"), HasSubstr("1 output"),
                    Not(HasSubstr("1 outputs"))));
  EXPECT_THAT(error([](Encoder& e) { (void)e.output(1); }), HasSubstr("no output 1"));
  EXPECT_THAT(error([](Encoder& e) { (void)e.take(2, 0); }), HasSubstr("no input 2"));
  EXPECT_THAT(error([](Encoder& e) { (void)e.take(0, 1); }), HasSubstr("no output 1"));
  EXPECT_THAT(error([](Encoder& e) { (void)e.can_take(2, 0); }), HasSubstr("no input 2"));
  EXPECT_THAT(error([](Encoder& e) { (void)e.can_take(0, 1); }), HasSubstr("no output 1"));
}

TEST(OperationArguments, are_used_in_their_order) {
  const Array x = Array(std::vector<float>{1, 2}) + 0.0F;
  const auto error = [&](std::function<void(Encoder&)> script) {
    return error_of([&] { scripted({&x, 1}, {{2}, float32}, std::move(script)).eval(); });
  };
  EXPECT_THAT(error([](Encoder& e) {
                (void)e.take(0, 0);
                (void)e.input(0);
              }),
              HasSubstr("input 0 was taken"));
  EXPECT_THAT(error([](Encoder& e) {
                (void)e.output(0);
                (void)e.take(0, 0);
              }),
              HasSubstr("take first"));
  const Array other = x + 0.0F;
  EXPECT_THAT(error_of([&] {
                scripted({&other, 1}, {{3}, float32}, [](Encoder& e) {
                  EXPECT_FALSE(e.can_take(0, 0));
                  (void)e.take(0, 0);
                }).eval();
              }),
              HasSubstr("dtype or shape differ"));
}

TEST(OperationLayouts, that_wrap_around_are_refused) {
  const Array x(std::vector<float>{1, 2, 3, 4});
  constexpr int64_t kFar = int64_t{1} << 62;  // elements of four bytes: 2^64 bytes
  const auto error = [&](const Layout& layout) {
    return error_of([&] {
      scripted({&x, 1}, {{1}, float32}, [&](Encoder& e) {
        e.copy(e.input(0).with_layout(layout), e.output(0));
      }).eval();
    });
  };
  for (const Layout& layout : {Layout{{1}, {1}, kFar}, Layout{{1}, {1}, -1}, Layout{{1}, {1}, 4},
                               Layout{{1}, {1}, kFar + 1}}) {
    EXPECT_THAT(error(layout), AllOf(HasSubstr("'scripted'"), HasSubstr("4 elements")))
        << layout.offset;
  }
  EXPECT_THAT(error({{2}, {kFar}, kFar}), HasSubstr("farther apart than any memory"));
  const Array y = scripted({&x, 1}, {{4}, float32}, [&](Encoder& e) {
    launch_on(e, e.output(0).with_layout({{4}, {1}, kFar}), false);
  });
  EXPECT_THAT(error_of([&] { y.eval(); }), HasSubstr("4 elements"));
}

TEST(OperationLayouts, without_elements_may_lie_anywhere) {
  const Array x(std::vector<float>{1, 2, 3, 4});
  const Array y = scripted({&x, 1}, {{1}, float32}, [&](Encoder& e) {
    e.fill(e.output(0), std::byte{0});
    e.copy(e.input(0).with_layout({{0}, {1}, int64_t{1} << 62}),
           e.output(0).with_layout({{0}, {1}, 0}));
  });
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(0));
}

TEST(OperationErrors, say_that_a_node_needs_an_operation_and_an_output) {
  EXPECT_THAT(error_of([] {
                (void)apply(Ref<const Operation>(), {}, OutputType{{1}, float32});
              }),
              HasSubstr("needs an operation"));
  const Ref<const Operation> operation = make_ref<const Scripted>([](Encoder&) {});
  EXPECT_THAT(error_of([&] { (void)apply(operation, {}, std::span<const OutputType>()); }),
              AllOf(HasSubstr("'scripted'"), HasSubstr("needs an output")));
}

TEST(OperationErrors, of_copies_that_are_not_contiguous_name_the_operation) {
  const Array x(std::vector<float>{1, 2, 3, 4});
  const Array y = scripted({&x, 1}, {{2}, float32}, [&](Encoder& e) {
    e.copy(e.input(0).with_layout({{2}, {2}, 0}), e.output(0));
  });
  EXPECT_THAT(error_of([&] { y.eval(); }),
              AllOf(HasSubstr("'scripted'"), HasSubstr("row-contiguous")));
  const Array z = scripted({&x, 1}, {{2}, float32},
                           [&](Encoder& e) { e.copy_elements(e.input(0), e.output(0)); });
  EXPECT_THAT(error_of([&] { z.eval(); }), AllOf(HasSubstr("(4,)"), HasSubstr("(2,)")));
  const Array w = scripted({&x, 1}, {{4}, float64},
                           [&](Encoder& e) { e.copy_elements(e.input(0), e.output(0)); });
  EXPECT_THAT(error_of([&] { w.eval(); }), AllOf(HasSubstr("float32"), HasSubstr("float64")));
  const Array v =
      scripted({&x, 1}, {{4}, float32}, [&](Encoder& e) { (void)e.input(0).viewed_as(float16); });
  EXPECT_THAT(error_of([&] { v.eval(); }), AllOf(HasSubstr("float16"), HasSubstr("sizes differ")));
}

// What one node recorded does not count for the next.
TEST(OperationStats, copies_and_donations_count_once_each) {
  const Device device(hal::open_device("cpu").or_raise());
  const UseStream scope(device.default_stream());
  Array x = Array(std::vector<float>{1, 2, 3, 4}) + 0.0F;
  x.eval();
  const auto take_it = [](Encoder& e) { (void)e.take(0, 0); };
  const Array copied = scripted({&x, 1}, {{4}, float32}, take_it);
  copied.eval();
  EXPECT_EQ(device.stats().hidden_copies, 1U);
  const uint64_t donated = device.stats().donated;
  const Array given =
      scripted(std::vector<Array>{std::exchange(x, Array())}, {{4}, float32}, take_it);
  given.eval();
  EXPECT_EQ(device.stats().hidden_copies, 1U);
  EXPECT_EQ(device.stats().donated, donated + 1);
  EXPECT_THAT(given.to_vector<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(device.stats().donated, donated + 1);
}

// Outputs that record() does not touch have memory all the same, and those of no elements too.
TEST(OperationOutputs, exist_although_nobody_asked_for_them) {
  const Ref<const Operation> operation = make_ref<const Scripted>(
      [](Encoder& encoder) { encoder.fill(encoder.output(1), std::byte{0}); });
  const std::vector<OutputType> types{{{2}, float32}, {{2}, int32}, {{0, 3}, float32}};
  const std::vector<Array> made = apply(operation, {}, types);
  eval(made);
  EXPECT_THAT(made[1].to_vector<int32_t>(), ElementsAre(0, 0));
  EXPECT_THAT(made[2].to_vector<float>(), IsEmpty());
  EXPECT_EQ(made[0].nbytes(), 8_B);
}

// How many early submits were seen before each node of a chain was recorded. While nodes `hurried`
// are recorded, every look at the clock finds that it is time to submit.
std::vector<uint64_t> early_submits_before_each(int nodes, int hurried_from, int hurried_until) {
  const Device device(hal::open_device("cpu").or_raise());
  const SubmitLimits patient{.commands = 64, .time = std::chrono::hours(1)};
  SubmitLimits hurried = patient;
  hurried.time = {};
  device.set_submit_limits(patient);
  std::vector<uint64_t> seen;
  Array x = zeros({4}, Dtype::float32, device);
  eval(x);
  const uint64_t before = device.stats().early_submits;
  for (int i = 0; i < nodes; ++i) {
    x = scripted(std::array{x}, {{4}, Dtype::float32}, [&, i](Encoder& encoder) {
      seen.push_back(device.stats().early_submits - before);
      device.set_submit_limits(i >= hurried_from && i < hurried_until ? hurried : patient);
      encoder.copy(encoder.input(0), encoder.output(0));
    });
  }
  eval(x);
  return seen;
}

TEST(Encoder, a_submit_for_time_moves_no_other_cut) {
  const auto cuts = [](const std::vector<uint64_t>& seen) {
    std::vector<size_t> at;
    for (size_t i = 1; i < seen.size(); ++i) {
      if (seen[i] != seen[i - 1]) at.push_back(i);
    }
    return at;
  };
  EXPECT_THAT(cuts(early_submits_before_each(200, 0, 0)), ElementsAre(64, 128, 192));
  EXPECT_THAT(cuts(early_submits_before_each(200, 20, 40)), ElementsAre(32, 64, 128, 192));
}

TEST(Operation, a_launch_alone_does_what_a_launch_does) {
  const auto set = [](Encoder& encoder) {
    encoder.launch_alone(
        set_seven(),
        {.outputs = encoder.all_outputs(), .grid = {4, 1, 1}, .threadgroup = {4, 1, 1}});
  };
  EXPECT_THAT(scripted({}, {{4}, float32}, set).to_vector<float>(), Each(7.0F));
  const Array x = full({4}, 1.0);
  const Array seven_and_x = scripted({}, {{4}, float32}, set) + x;
  EXPECT_THAT(seven_and_x.to_vector<float>(), Each(8.0F));
}

// The header asks for more than that, but whoever forgets must not get wrong values.
TEST(Operation, what_follows_or_precedes_a_launch_alone_is_recorded_in_order) {
  const Array after = scripted({}, {{4}, float32}, [](Encoder& encoder) {
    encoder.launch_alone(
        set_seven(),
        {.outputs = encoder.all_outputs(), .grid = {4, 1, 1}, .threadgroup = {4, 1, 1}});
    launch_on(encoder, encoder.output(0), true);
  });
  EXPECT_THAT(after.to_vector<float>(), Each(14.0F));
  const Array before = scripted({}, {{4}, float32}, [](Encoder& encoder) {
    launch_on(encoder, encoder.output(0), false);
    const std::span<const Operand> y(&encoder.output(0), 1);
    encoder.launch_alone(add_seven(), {.in_place = y, .grid = {4, 1, 1}, .threadgroup = {4, 1, 1}});
  });
  EXPECT_THAT(before.to_vector<float>(), Each(14.0F));
}

}  // namespace
}  // namespace holdfast
