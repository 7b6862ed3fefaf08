#include "holdfast/kernel/unsupported.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/kernel/language_rig_test.h"

namespace holdfast::kernel {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Unsupported, is_what_line_and_compiler_name_as_a_whole_word_that_is_no_member) {
  const auto found = [](std::string_view line, std::string_view words) {
    const std::optional<Unsupported> unsupported = unsupported_in(line, words);
    return unsupported ? unsupported->name + ": " + unsupported->sentence : "";
  };
  EXPECT_THAT(found("texture2d<float> t;", "'texture2d' was not declared"),
              HasSubstr("texture2d: not supported: textures"));
  EXPECT_EQ(found("texture2d<float> t;", "'t' was not declared"), "");
  EXPECT_EQ(found("float texture2ds = my.texture2d;", "'texture2d' was not declared"), "");
  EXPECT_EQ(found("y[i] = \"texture2d\"[0];", "'texture2d' was not declared"), "");
  EXPECT_EQ(found("y[0] = buffer[i] + nothing;", "'nothing' was not declared"), "");
  EXPECT_EQ(found("sampler[0] = 1;", "assignment of read-only location '* sampler'"), "");
  EXPECT_EQ(found("constant float k[2] = {};", "redefinition of 'const float k [2]'"), "");
  EXPECT_EQ(found("float8x8 a; float16_t b;", "'float8x8' 'float16_t'"), "");
  EXPECT_THAT(found("half8 a;", "unknown type name 'half8'"), HasSubstr("more than four"));
  EXPECT_EQ(found("float f(device float* x);", "an error"), "");
  EXPECT_THAT(found("float f(device float* x) {", "redefinition of 'float f(float*)'"),
              HasSubstr("differ in device"));
}

struct LanguageUnsupported : LanguageTest {};

TEST_F(LanguageUnsupported, is_refused_by_name_and_not_by_the_nearest_spelling) {
  struct Case {
    std::string body;
    std::string says;
    std::string header{};
  };
  const std::vector<Case> cases{
      {"texture2d<float> t;", "body:1:1: not supported: textures; pass the elements as an array"},
      {"y[0] = 1;\nconstexpr sampler s;", "body:2:11: not supported: textures"},
      {"intersector<> i;", "not supported: ray tracing"},
      {"y[0] = dfdx(x[0]);", "not supported: stages of rendering"},
      {"simdgroup_event e;", "not supported: asynchronous copies of simdgroups"},
      {"complex64_t c;", "not supported: complex numbers; use float2"},
      {"float8 v;", "not supported: vectors of more than four elements"},
      {"os_log_default.log(\"x\");", "not supported: logs of the system"},
      {"matmul2d m;", "not supported: tensors; use simdgroup_matrix"},
      {"y[0] = is_function_constant_defined(x);", "not supported: function constants"},
      {"y[0] = f(x);", "not supported: functions that differ in device, thread",
       "float f(device const float* p) { return p[0]; }\n"
       "float f(thread const float* p) { return p[0]; }\n"},
      {"y[0] = 1;", "not supported: signatures; write the body alone",
       "kernel void f(device float* a [[buffer(0)]]) {}\n"},
  };
  for (const Case& c : cases) {
    const std::string message =
        failure_of({.body = c.body, .header = c.header, .outputs = 1, .grid = {1, 1, 1}});
    EXPECT_THAT(message, HasSubstr(c.says)) << c.body << c.header;
    EXPECT_THAT(message, Not(HasSubstr("did you mean"))) << c.body << c.header;
  }
}

TEST_F(LanguageUnsupported, authors_may_have_names_of_their_own_for_it) {
  EXPECT_EQ(
      run({.body = "float sampler = 2; y[0] = fragment(sampler) + vertex;",
           .header = "float fragment(float v) { return v * 3; }\nconstant float vertex = 1;\n",
           .outputs = 1,
           .grid = {1, 1, 1}}),
      std::vector<float>{7});
}

}  // namespace
}  // namespace holdfast::kernel
