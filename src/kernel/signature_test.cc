#include "holdfast/kernel/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast::kernel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Definition norm() {
  return {.name = "norm",
          .inputs = {"x", "w"},
          .outputs = {"y"},
          .source = "T v = x[N]; y[0] = w[0] + eps;",
          .header = "// M is a comment\nconstexpr int K = LIMIT;"};
}

CallSignature good_call() {
  return {.inputs = {{Dtype::float16, 2}, {Dtype::float16, 1}},
          .outputs = {{Dtype::float16, 2}},
          .constants = {{"T", Dtype::float16}, {"N", int64_t{768}}},
          .params = {{"eps", Dtype::float32}}};
}

template <typename Change>
std::string call_sentence_after(Change change) {
  CallSignature signature = good_call();
  change(signature);
  const Failure failure = check(norm(), signature);
  if (!failure) return "nothing is wrong";
  EXPECT_EQ(failure.code(), ErrorCode::usage);
  EXPECT_THAT(failure.message(), HasSubstr("kernel 'norm'"));
  return failure.message();
}

TEST(Signature, a_good_one_passes) {
  EXPECT_FALSE(check(norm(), good_call()));
  EXPECT_EQ(call_sentence_after([](CallSignature& s) { s.outputs[0].rank = 0; }),
            "nothing is wrong");
  EXPECT_EQ(call_sentence_after([](CallSignature& s) {
              s.constants = {{"LIMIT", true}};
            }),
            "nothing is wrong");
}

TEST(Signature, counts_must_agree) {
  EXPECT_THAT(call_sentence_after([](CallSignature& s) { s.inputs.pop_back(); }),
              AllOf(HasSubstr("2 inputs: x, w"), HasSubstr("1 is given")));
  EXPECT_THAT(call_sentence_after([](CallSignature& s) { s.outputs.clear(); }),
              AllOf(HasSubstr("1 output: y"), HasSubstr("0 are given")));
  EXPECT_THAT(call_sentence_after([](CallSignature& s) { s.in_place.resize(1); }),
              HasSubstr("0 in-place arguments"));
}

TEST(Signature, ranks_are_bounded) {
  EXPECT_EQ(call_sentence_after([](CallSignature& s) { s.inputs[1].rank = kMaxRank; }),
            "nothing is wrong");
  EXPECT_THAT(call_sentence_after([](CallSignature& s) { s.inputs[1].rank = kMaxRank + 1; }),
              AllOf(HasSubstr("'w' has 9 dimensions"), HasSubstr("at most 8")));
}

TEST(Signature, an_unknown_param_is_refused_with_what_was_meant) {
  EXPECT_THAT(call_sentence_after([](CallSignature& s) { s.params[0].name = "LIMITS"; }),
              AllOf(HasSubstr("param 'LIMITS' is unknown"), HasSubstr("did you mean 'LIMIT'?")));
  EXPECT_THAT(call_sentence_after([](CallSignature& s) { s.params[0].name = "epsilon_of_norm"; }),
              HasSubstr("param 'epsilon_of_norm' is unknown"));
  // A name in a comment is none.
  EXPECT_THAT(call_sentence_after([](CallSignature& s) { s.params[0].name = "M"; }),
              HasSubstr("unknown"));
}

TEST(Signature, a_constant_that_nothing_uses_is_fine) {
  for (const char* unused : {"LIMITS", "M"}) {
    EXPECT_EQ(call_sentence_after([&](CallSignature& s) { s.constants[1].name = unused; }),
              "nothing is wrong");
  }
}

TEST(Signature, a_long_name_is_not_repeated_whole) {
  const std::string sentence =
      call_sentence_after([](CallSignature& s) { s.params[0].name.assign(1'000'000, 'p'); });
  EXPECT_THAT(sentence, AllOf(HasSubstr("is unknown"), HasSubstr("1000000 bytes")));
  EXPECT_LT(sentence.size(), 500U);
}

TEST(Signature, a_finished_module_may_know_any_name) {
  Definition definition = norm();
  definition.natives = {{.kind = NativeKind::spirv, .module = {std::byte{1}}}};
  CallSignature signature = good_call();
  signature.constants[1].name = "UNSEEN";
  EXPECT_FALSE(check(definition, signature));
}

TEST(Signature, a_constant_has_a_name_of_its_own) {
  const auto named = [](const char* name) {
    return call_sentence_after([&](CallSignature& s) { s.constants[1].name = name; });
  };
  EXPECT_THAT(named("T"), HasSubstr("twice"));
  EXPECT_THAT(named("eps"), HasSubstr("twice"));
  EXPECT_THAT(named("x"), HasSubstr("argument's"));
  EXPECT_THAT(named("w_strides"), HasSubstr("argument's"));
  EXPECT_THAT(named("half"), HasSubstr("reserved"));
  EXPECT_THAT(named("hf_n"), HasSubstr("Holdfast's own"));
  EXPECT_THAT(named("3"), HasSubstr("no identifier"));
}

TEST(Signature, is_described_by_what_tells_variants_apart) {
  EXPECT_EQ(describe(norm(), good_call()),
            "x: float16[2], w: float16[1] -> y: float16[2]; T = float16, N = 768; eps: float32");
  const Definition in_place{.name = "a", .in_place = {"s"}, .source = "s[0] = 1;"};
  EXPECT_EQ(describe(in_place, {.in_place = {{Dtype::int8, 1}}, .constants = {{"B", true}}}),
            "s: int8[1] in place; B = true");
}

TEST(Scalar, keeps_the_bits_of_its_type) {
  EXPECT_EQ(Scalar(-1).bits, 0xffffffffU);
  EXPECT_EQ(Scalar(1.0F).bits, 0x3f800000U);
  EXPECT_EQ(Scalar(1.0).dtype, Dtype::float32);
  EXPECT_EQ(Scalar(true).dtype, Dtype::bool_);
  EXPECT_EQ(Scalar::of_float64(1.0).bits, 0x3ff0000000000000U);
}

}  // namespace
}  // namespace holdfast::kernel
