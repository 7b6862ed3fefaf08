#include "holdfast/kernel/definition.h"

#include <embedded/kernel_text.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/kernel/generate/tokens.h"
#include "holdfast/kernel/generate/usage.h"

namespace holdfast::kernel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Definition good() {
  return {.name = "scale", .inputs = {"x"}, .outputs = {"y"}, .source = "y[0] = x[0];"};
}

// What check() says of a good definition after the change.
template <typename Change>
std::string sentence_after(Change change) {
  Definition definition = good();
  change(definition);
  const Failure failure = check(definition);
  if (!failure) return "nothing is wrong";
  EXPECT_EQ(failure.code(), ErrorCode::usage);
  return failure.message();
}

TEST(Definition, a_good_one_passes) {
  EXPECT_FALSE(check(good()));
  Definition in_place = good();
  in_place.outputs.clear();
  in_place.in_place = {"state"};
  EXPECT_FALSE(check(in_place));
  Definition native = good();
  native.source.clear();
  native.natives = {{.kind = NativeKind::glsl, .text = "void main() {}"}};
  EXPECT_FALSE(check(native));
}

TEST(Definition, a_name_must_be_an_identifier) {
  EXPECT_THAT(sentence_after([](Definition& d) { d.name = ""; }), HasSubstr("give it a name"));
  EXPECT_THAT(sentence_after([](Definition& d) { d.name = "two words"; }),
              AllOf(HasSubstr("'two words'"), HasSubstr("letters, digits and underscores")));
  EXPECT_THAT(sentence_after([](Definition& d) { d.name.assign(129, 'a'); }),
              HasSubstr("at most 128"));
  for (const char* bad : {"", "2x", "a-b", "a b", "\xc3\xa4", "x;"}) {
    EXPECT_THAT(sentence_after([&](Definition& d) { d.inputs = {bad}; }),
                AllOf(HasSubstr("kernel 'scale'"), HasSubstr("input")))
        << bad;
  }
}

TEST(Definition, a_reserved_name_is_refused) {
  for (const char* reserved :
       {"float", "half", "threadgroup", "thread_position_in_grid", "float4", "hf_x", "__x", "while",
        "uint", "assert", "INFINITY", "metal", "uchar3", "_Tp"}) {
    EXPECT_TRUE(is_reserved(reserved)) << reserved;
    EXPECT_THAT(sentence_after([&](Definition& d) { d.outputs = {reserved}; }),
                AllOf(HasSubstr("output"), HasSubstr(reserved), HasSubstr("rename it")));
  }
  for (const char* free : {"x", "inp", "out", "weight_4", "float5", "_x", "Half", "input", "N"}) {
    EXPECT_FALSE(is_reserved(free)) << free;
  }
}

TEST(Definition, every_macro_of_the_preambles_is_reserved) {
  for (const std::string_view file : embedded::kernel_text_files()) {
    const std::vector<Token> tokens = tokenize(embedded::kernel_text(file));
    for (size_t i = 0; i + 2 < tokens.size(); ++i) {
      if (tokens[i].text != "#" || tokens[i + 1].text != "define") continue;
      EXPECT_TRUE(is_reserved(tokens[i + 2].text)) << tokens[i + 2].text << " in " << file;
    }
  }
}

TEST(Definition, every_place_is_reserved) {
  for (const Place& place : places()) EXPECT_TRUE(is_reserved(place.name)) << place.name;
}

TEST(Definition, a_name_stands_for_one_thing) {
  EXPECT_THAT(sentence_after([](Definition& d) {
                d.inputs = {"x", "x"};
              }),
              HasSubstr("input 'x' is given twice"));
  EXPECT_THAT(sentence_after([](Definition& d) { d.outputs = {"x"}; }),
              AllOf(HasSubstr("'x' is both input and output"), HasSubstr("in_place")));
  EXPECT_THAT(sentence_after([](Definition& d) {
                d.inputs = {"x", "x_shape"};
              }),
              HasSubstr("the shape of 'x'"));
}

TEST(Definition, something_must_be_written_and_something_must_be_done) {
  EXPECT_THAT(sentence_after([](Definition& d) { d.outputs.clear(); }), HasSubstr("no output"));
  EXPECT_THAT(sentence_after([](Definition& d) { d.source = " \n\t"; }), HasSubstr("no body"));
  EXPECT_THAT(sentence_after([](Definition& d) {
                d.source.clear();
                d.file = "a.metal";
              }),
              AllOf(HasSubstr("'a.metal'"), HasSubstr("no body")));
  EXPECT_THAT(sentence_after([](Definition& d) { d.source.push_back('\0'); }),
              HasSubstr("zero byte"));
  EXPECT_THAT(sentence_after([](Definition& d) {
                for (int i = 0; i < 70; ++i) d.inputs.push_back("a" + std::to_string(i));
              }),
              HasSubstr("72 arguments"));
}

TEST(Definition, a_native_binds_every_argument_once) {
  const auto with = [](Native native) {
    return sentence_after([&](Definition& d) { d.natives = {native}; });
  };
  EXPECT_THAT(with({.kind = NativeKind::ptx}), HasSubstr("native ptx has no text"));
  EXPECT_THAT(with({.kind = NativeKind::spirv, .text = "x"}), HasSubstr("spirv has no module"));
  EXPECT_THAT(with({.kind = NativeKind::glsl, .text = "x", .entry_point = ""}),
              HasSubstr("no entry point"));
  EXPECT_THAT(with({.kind = NativeKind::glsl, .text = "x", .bindings = {"x", "Y"}}),
              AllOf(HasSubstr("'Y'"), HasSubstr("did you mean 'y'?")));
  EXPECT_THAT(with({.kind = NativeKind::glsl, .text = "x", .bindings = {"x", "x"}}),
              HasSubstr("'x' twice"));
  EXPECT_THAT(with({.kind = NativeKind::glsl, .text = "x", .bindings = {"x"}}),
              HasSubstr("does not bind 'y'"));
  EXPECT_EQ(with({.kind = NativeKind::glsl, .text = "x", .bindings = {"y", "x"}}),
            "nothing is wrong");
  EXPECT_THAT(sentence_after([](Definition& d) {
                d.natives = {{.kind = NativeKind::glsl, .text = "x"},
                             {.kind = NativeKind::glsl, .text = "y"}};
              }),
              HasSubstr("glsl is given twice"));
}

TEST(Definition, launch_attributes_are_for_natives_of_cuda) {
  const auto with = [](const Native& native) {
    return sentence_after([&](Definition& d) { d.natives = {native}; });
  };
  const Native plain{.kind = NativeKind::cuda, .text = "x", .entry_point = "x"};
  Native all = plain;
  all.shared_memory = 200_KiB;
  all.cluster = {2, 2, 1};
  all.cooperative = true;
  EXPECT_EQ(with(all), "nothing is wrong");
  for (const auto change :
       {+[](Native& n) { n.shared_memory = 1_KiB; }, +[](Native& n) { n.cluster.x = 2; },
        +[](Native& n) { n.cooperative = true; }}) {
    Native native{.kind = NativeKind::glsl, .text = "x"};
    change(native);
    EXPECT_THAT(with(native), AllOf(HasSubstr("glsl cannot"), HasSubstr("cuda, ptx and cubin")));
    native = plain;
    change(native);
    EXPECT_EQ(with(native), "nothing is wrong");
  }
  Native none = plain;
  none.cluster.y = 0;
  EXPECT_THAT(with(none), HasSubstr("clusters of 1 x 0 x 1 groups, which is none"));
  Native much = plain;
  much.shared_memory = 1_GiB;
  EXPECT_THAT(with(much), HasSubstr("1.0 GiB of shared_memory"));
}

}  // namespace
}  // namespace holdfast::kernel
