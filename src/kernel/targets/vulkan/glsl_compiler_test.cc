#include "holdfast/kernel/targets/vulkan/glsl_compiler.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <spirv-tools/libspirv.hpp>

#include <array>
#include <random>

#include "holdfast/base/sync/thread.h"

namespace holdfast::kernel {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::string_view kScale = R"(layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) buffer Data { float data[]; };
layout(push_constant) uniform Parameters { float factor; };
void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < data.length()) data[i] *= factor;
}
)";

GlslSource source_of(std::string_view text) {
  return {.name = "scale", .text = std::string(text), .defines = {}};
}

std::string repeat(std::string_view part, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i) result += part;
  return result;
}

std::string in_main(std::string_view body) {
  return fmt::format(
      "layout(set = 0, binding = 0) buffer A {{ uint a[]; }};\nvoid main() {{\n{}\n}}\n", body);
}

std::vector<uint32_t> words_of(const GlslSource& source) {
  Result<hal::SpirvModule> module = compile_glsl(source);
  if (!module) {
    ADD_FAILURE() << module.failure().message();
    return {};
  }
  return module.value().words;
}

bool is_valid(const std::vector<uint32_t>& words) {
  spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_2);
  tools.SetMessageConsumer([](spv_message_level_t, const char*, const spv_position_t&,
                              const char* message) { ADD_FAILURE() << message; });
  return tools.Validate(words);
}

// The message for a source that must not compile.
std::string refusal_of(const GlslSource& source) {
  const Result<hal::SpirvModule> module = compile_glsl(source);
  if (module) {
    ADD_FAILURE() << "compiled";
    return {};
  }
  EXPECT_EQ(module.failure().code(), ErrorCode::usage);
  EXPECT_THAT(module.failure().message(), HasSubstr("kernel 'scale'"));
  return module.failure().message();
}
std::string refusal_of(std::string_view text) { return refusal_of(source_of(text)); }

TEST(GlslCompiler, a_kernel_becomes_valid_spirv_1_5_with_the_entry_point_main) {
  const Result<hal::SpirvModule> module = compile_glsl(source_of(kScale));
  ASSERT_TRUE(module) << module.failure().message();
  EXPECT_EQ(module.value().entry_point, "main");
  EXPECT_EQ(module.value().bindings, hal::SpirvBindings::descriptors);
  EXPECT_TRUE(module.value().constants.empty());
  ASSERT_GE(module.value().words.size(), 5U);
  EXPECT_EQ(module.value().words[0], 0x07230203U);
  EXPECT_EQ(module.value().words[1], 0x00010500U);
  EXPECT_TRUE(is_valid(module.value().words));
}

TEST(GlslCompiler, a_kernel_that_uses_addresses_says_so_in_its_module) {
  GlslSource source = source_of(R"(#extension GL_EXT_buffer_reference : require
layout(buffer_reference, std430) buffer Floats { float at[]; };
layout(push_constant) uniform Block { Floats data; };
void main() { data.at[gl_GlobalInvocationID.x] *= 2; }
)");
  source.bindings = hal::SpirvBindings::addresses;
  const Result<hal::SpirvModule> module = compile_glsl(source);
  ASSERT_TRUE(module) << module.failure().message();
  EXPECT_EQ(module.value().bindings, hal::SpirvBindings::addresses);
  EXPECT_TRUE(is_valid(module.value().words));
}

TEST(GlslCompiler, the_same_source_gives_the_same_words) {
  EXPECT_EQ(words_of(source_of(kScale)), words_of(source_of(kScale)));
}

TEST(GlslCompiler, a_text_may_have_a_version_of_its_own_or_none) {
  const std::string text(kScale);
  EXPECT_TRUE(is_valid(words_of(source_of("#version 450\n" + text))));
  EXPECT_TRUE(is_valid(words_of(source_of("// first\n#version 460 core\n" + text))));
  // 460 is what a text without one gets.
  EXPECT_TRUE(
      is_valid(words_of(source_of("#if __VERSION__ != 460\n#error wrong\n#endif\n" + text))));
}

TEST(GlslCompiler, defines_are_there_before_the_first_line_with_and_without_a_version) {
  for (const std::string_view version : {"", "#version 450\n"}) {
    GlslSource source = source_of(std::string(version) + R"(
#if !defined(FLAG) || N != 3
#error a define is missing
#endif
layout(local_size_x = N) in;
layout(set = 0, binding = 0) buffer Data { TYPE data[]; };
void main() { data[0] = TYPE(N) OP 2; }
)");
    source.defines = {{"N", "3"}, {"TYPE", "float"}, {"FLAG", ""}, {"OP", "+ 1 +"}};
    EXPECT_TRUE(is_valid(words_of(source)));
  }
}

TEST(GlslCompiler, an_error_names_the_kernel_the_line_the_compilers_words_and_the_token) {
  EXPECT_EQ(refusal_of("#version 450\nvoid main() {\n\tuint a = 1 + foo;\n}\n"),
            "the GLSL of kernel 'scale' does not compile; correct its text:\n"
            "line 3: 'foo' : undeclared identifier\n"
            "  |  uint a = 1 + foo;\n"
            "  |               ^");
}

TEST(GlslCompiler, defines_do_not_move_the_authors_lines) {
  GlslSource source = source_of("void main() {\n  uint a = N;\n  uint b = foo;\n}\n");
  source.defines = {{"N", "3"}, {"M", "4"}, {"K", "5 + 6"}};
  EXPECT_THAT(refusal_of(source), HasSubstr("line 3: 'foo' : undeclared"));
  source.text = "#version 460\n" + source.text;
  EXPECT_THAT(refusal_of(source), HasSubstr("line 4: 'foo' : undeclared"));
}

TEST(GlslCompiler, lines_end_as_on_any_system) {
  EXPECT_THAT(refusal_of("void main() {\r\n  uint b = foo;\r\n}\r\n"),
              EndsWith("line 2: 'foo' : undeclared identifier\n"
                       "  |   uint b = foo;\n"
                       "  |            ^"));
}

TEST(GlslCompiler, a_line_directive_renumbers_and_the_right_line_is_shown) {
  EXPECT_THAT(refusal_of("void f() {}\n#line 1 2\nvoid main() {\n  uint b = foo;\n}\n"),
              AllOf(HasSubstr("line 2: 'foo' :"), HasSubstr("\n  |   uint b = foo;\n")));
  EXPECT_THAT(refusal_of("void main() {\n#line 100\n  uint b = foo;\n}\n"),
              AllOf(HasSubstr("line 100: 'foo' :"), HasSubstr("\n  |   uint b = foo;\n")));
}

TEST(GlslCompiler, the_caret_stands_under_whole_tokens) {
  EXPECT_THAT(refusal_of("void main() {\n  int food = 1, b = food + foo;\n}\n"),
              EndsWith("\n  |   int food = 1, b = food + foo;\n"
                       "  |                            ^"));
  EXPECT_THAT(refusal_of("void main() {\n  if (1 == 1) { bool b = 2; }\n}\n"),
              EndsWith("\n  |   if (1 == 1) { bool b = 2; }\n"
                       "  |                        ^"));
}

TEST(GlslCompiler, a_syntax_error_marks_the_unexpected_token_where_there_is_one_of_it) {
  EXPECT_THAT(refusal_of("void main() {\n  uint a = (3;\n}\n"),
              AllOf(HasSubstr("line 2: syntax error, unexpected SEMICOLON"),
                    EndsWith("\n  |   uint a = (3;\n"
                             "  |              ^")));
  EXPECT_THAT(refusal_of("void main() {\n  uint a = 1; uint b = (3;\n}\n"),
              EndsWith("\n  |   uint a = 1; uint b = (3;"));
  EXPECT_THAT(refusal_of("void main() {\n  uint a = 3\n  float b = 4;\n}\n"),
              EndsWith("\n  |   float b = 4;\n"
                       "  |   ^"));
}

TEST(GlslCompiler, of_a_very_long_line_the_part_around_the_token_is_shown) {
  const std::string message =
      refusal_of("void main() { uint a = 1" + repeat(" + 1", 1000) + " + foo; }");
  EXPECT_LT(message.size(), 600U);
  const size_t caret = message.rfind('^') - message.rfind('\n');
  const std::string_view before = std::string_view(message).substr(0, message.rfind('\n'));
  EXPECT_EQ(before.substr(before.rfind('\n') + caret, 3), "foo") << message;
}

TEST(GlslCompiler, the_authors_own_error_is_the_message) {
  EXPECT_THAT(refusal_of("\n#error this kernel needs N\nvoid main() {}\n"),
              AllOf(HasSubstr("line 2: '#error' : this kernel needs N"),
                    Not(HasSubstr("compilation terminated")), Not(HasSubstr("No code generated"))));
}

TEST(GlslCompiler, an_error_in_a_define_names_the_define) {
  GlslSource source = source_of("void main() {}\n");
  source.defines = {{"N", "3"}, {"VULKAN", "4"}};
  EXPECT_THAT(refusal_of(source), HasSubstr("in the define of 'VULKAN': "));
}

TEST(GlslCompiler, defines_that_cannot_be_one_line_are_refused_by_name) {
  const auto refusal_with = [](std::string name, std::string value) {
    GlslSource source = source_of(kScale);
    source.defines = {{"N", "1"}, {std::move(name), std::move(value)}};
    return refusal_of(source);
  };
  EXPECT_THAT(refusal_with("", "1"), HasSubstr("define '', which is no identifier"));
  EXPECT_THAT(refusal_with("2x", "1"), HasSubstr("define '2x', which is no identifier"));
  EXPECT_THAT(refusal_with("F(x)", "x"), HasSubstr("no identifier"));
  EXPECT_THAT(refusal_with("N", "2"), HasSubstr("define 'N', which it was given before"));
  EXPECT_THAT(refusal_with("A", "1\nvoid f() {}"), HasSubstr("line break"));
  EXPECT_THAT(refusal_with("A", "1 \\"), HasSubstr("backslash"));
  EXPECT_THAT(refusal_with("A", std::string("1\0002", 3)), HasSubstr("zero"));
  EXPECT_THAT(refusal_with("A", "1 /* open"), HasSubstr("comment"));
}

TEST(GlslCompiler, what_is_no_compute_kernel_is_refused_with_the_reason) {
  EXPECT_THAT(refusal_of(""), HasSubstr("Missing entry point"));
  EXPECT_THAT(refusal_of(" \n// nothing\n"), HasSubstr("Missing entry point"));
  EXPECT_THAT(refusal_of("void f() {}"), HasSubstr("Missing entry point"));
  EXPECT_THAT(refusal_of("void main() {\n  gl_Position = vec4(0);\n}"),
              HasSubstr("line 2: 'gl_Position' : undeclared"));
  EXPECT_THAT(refusal_of("void main() { /* never closed"), HasSubstr("End of input in comment"));
  EXPECT_THAT(refusal_of("#include \"other.glsl\"\nvoid main() {}"),
              HasSubstr("line 1: '#include' : "));
  EXPECT_THAT(refusal_of("#extension GL_GOOGLE_include_directive : require\n"
                         "#include \"other.glsl\"\nvoid main() {}"),
              HasSubstr("line 2: '#include' : "));
  EXPECT_THAT(refusal_of("void g();\nvoid main() { g(); }"), HasSubstr("No function definition"));
  EXPECT_THAT(refusal_of("void g();\nvoid f() { g(); }\nvoid g() { f(); }\nvoid main() { f(); }"),
              HasSubstr("Recursion detected"));
}

TEST(GlslCompiler, a_directive_that_is_too_long_is_refused_at_its_line) {
  const auto defines = [](size_t bytes) {
    std::string text = "\n#define X 1";
    while (text.size() < bytes) text += "+1";
    return text + "\nvoid main() {}";
  };
  EXPECT_TRUE(compile_glsl(source_of(defines(8000))));
  EXPECT_THAT(refusal_of(defines(9000)), HasSubstr("line 2: a directive of more than 8192 bytes"));
}

TEST(GlslCompiler, a_version_that_cannot_be_compiled_is_refused_at_its_line) {
  EXPECT_THAT(refusal_of("\n#version 99\nvoid main() {}"),
              AllOf(HasSubstr("line 2: version not supported"), EndsWith("\n  | #version 99")));
  EXPECT_THAT(refusal_of("#version 460 compatibility\nvoid main() {}"),
              HasSubstr("line 1: #version: compilation for SPIR-V does not support"));
}

TEST(GlslCompiler, a_message_is_printable_whatever_the_text_holds) {
  std::mt19937 random(7);
  std::string garbage;
  for (int i = 0; i < 4096; ++i) garbage += static_cast<char>(random() & 0xFF);
  const std::string zero("void main() {\n  uint a = \0\x01\xC3;\n}\n", 32);
  for (const std::string& text : {garbage, zero, std::string(64, '\0')}) {
    for (const char c : refusal_of(text)) {
      ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << static_cast<int>(c);
    }
  }
}

// Pieces of a kernel in any order, and kernels with bytes missing, doubled and replaced.
TEST(GlslCompiler, broken_kernels_are_refused_or_compile_to_something) {
  std::mt19937 random(11);
  const auto below = [&](size_t n) { return random() % n; };
  for (int i = 0; i < 300; ++i) {
    std::string text(kScale);
    for (size_t change = 0; change < 1 + below(4); ++change) {
      const size_t at = below(text.size());
      const size_t length = below(std::min<size_t>(12, text.size() - at)) + 1;
      const std::string piece = text.substr(below(text.size()), length);
      if (below(3) == 0) text.erase(at, length);
      if (below(3) == 0) text.insert(at, piece);
      if (below(3) == 0) text[at] = static_cast<char>(' ' + below(95));
      if (text.empty()) text = "x";
    }
    const Result<hal::SpirvModule> module = compile_glsl(source_of(text));
    if (module) continue;
    EXPECT_THAT(module.failure().message(), StartsWith("the GLSL of kernel")) << text;
  }
}

TEST(GlslCompiler, deep_nesting_is_refused_at_its_line) {
  constexpr size_t kDeep = 100000;
  const std::string structs = [] {
    std::string text = "struct S0 { uint x; };\n";
    for (int i = 0; i < 10000; ++i) text += fmt::format("struct S{} {{ S{} x; }};\n", i + 1, i);
    return text;
  }();
  const std::array<std::string, 12> texts{
      in_main("a[0] = " + repeat("(", kDeep) + "1" + repeat(")", kDeep) + ";"),
      in_main("a[0] = a[1]" + repeat("+a[2]", 3000) + ";"),
      in_main("a[0] = a[1]" + repeat("+a[2]", kDeep) + ";"),
      in_main("a[0] = " + repeat("~", kDeep) + "a[1];"),
      in_main(repeat("{", kDeep) + repeat("}", kDeep)),
      in_main(repeat("if (a[0] == 1) ", kDeep / 2) + ";"),
      in_main("uint x = 1; x = a[0]" + repeat(",a[1]=2", kDeep) + ";"),
      in_main("uvec4 v; v = v" + repeat(".xyzw", kDeep) + ";"),
      "#if " + repeat("(", kDeep) + "1" + repeat(")", kDeep) + "\n#endif\nvoid main() {}\n",
      "#if 1\n" + repeat("#if 1\n", 1000) + "void main() {}\n" + repeat("#endif\n", 1001),
      structs + "void main() {}\n",
      in_main("a[0] = 1" + repeat(" + /* ; */ a[1]", kDeep / 2) + ";"),
  };
  for (const std::string& text : texts) {
    EXPECT_THAT(refusal_of(text), HasSubstr("\nline ")) << text.substr(0, 200);
  }
}

TEST(GlslCompiler, a_text_may_end_where_a_comment_might_begin) {
  EXPECT_THAT(refusal_of(in_main("a[0] = 1;") + "/"), HasSubstr("line "));
}

TEST(GlslCompiler, nesting_that_macros_make_is_refused_too) {
  std::string text = "#define M0 +a[1]+a[2]\n";
  for (int i = 0; i < 16; ++i) text += fmt::format("#define M{} M{} M{}\n", i + 1, i, i);
  EXPECT_THAT(refusal_of(text + in_main("a[0] = 1 M16;")),
              HasSubstr("line 20: a statement of more than"));
  GlslSource source = source_of(in_main("a[0] = 1 M16;"));
  source.defines = {{"M0", "+a[1]+a[2]"}};
  for (int i = 0; i < 16; ++i) {
    source.defines.emplace_back(fmt::format("M{}", i + 1), fmt::format("M{} M{}", i, i));
  }
  EXPECT_THAT(refusal_of(source), HasSubstr("line 3: a statement of more than"));
}

TEST(GlslCompiler, a_text_at_the_limits_compiles_in_four_mebibytes_of_stack) {
  std::string structs = "struct S0 { uint x; };\n";
  for (int i = 0; i < 500; ++i) structs += fmt::format("struct S{} {{ S{} x; }};\n", i + 1, i);
  const std::array<std::string, 5> texts{
      in_main("a[0] = a[1]" + repeat("+a[2]", 1980) + ";"),
      in_main("a[0] = a[1]" + repeat(",a[2]=3", 1980) + ";"),
      "uint f(uint x) { return x; }\n" +
          in_main("a[0] = " + repeat("f(", 1980) + "1" + repeat(")", 1980) + ";"),
      structs + in_main("S500 s; a[0] = s" + repeat(".x", 501) + ";"),
      // The most that a parser sees before it is refused.
      in_main("uvec4 v; v = v" + repeat(".x", 16000) + ";"),
  };
  pthread_attr_t before;
  pthread_attr_t small;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_getattr_default_np(&small), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&small, size_t{4} << 20), 0);
  ASSERT_EQ(pthread_setattr_default_np(&small), 0);
  sync::Thread thread("compiles", [&] {
    for (size_t i = 0; i < texts.size(); ++i) {
      const Result<hal::SpirvModule> module = compile_glsl(source_of(texts[i]));
      EXPECT_EQ(module.ok(), i != 4) << module.failure().message();
    }
  });
  thread.join();
  EXPECT_EQ(pthread_setattr_default_np(&before), 0);
  pthread_attr_destroy(&before);
  pthread_attr_destroy(&small);
}

TEST(GlslCompiler, a_text_beyond_the_size_limit_is_refused) {
  EXPECT_THAT(refusal_of(std::string(kScale) + std::string(kMaxGlslBytes, '\n')),
              HasSubstr("split it into several kernels"));
}

TEST(GlslCompiler, threads_compile_at_once_and_each_gets_its_own_answer) {
  const auto source_for = [](int n) {
    GlslSource source = source_of(kScale);
    source.text += fmt::format("const uint kUnused{} = {};\n", n, n % 2 == 0 ? "1" : "foo");
    return source;
  };
  std::vector<std::vector<uint32_t>> expected;
  for (int n = 0; n < 4; n += 2) expected.push_back(words_of(source_for(n)));
  std::vector<sync::Thread> threads;
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back("compiles", [&, n] {
      for (int round = 0; round < 20; ++round) {
        const Result<hal::SpirvModule> module = compile_glsl(source_for(n));
        ASSERT_EQ(module.ok(), n % 2 == 0);
        if (module) {
          EXPECT_EQ(module.value().words, expected[static_cast<size_t>(n) / 2]);
        } else {
          EXPECT_THAT(module.failure().message(), HasSubstr("line 8: 'foo'"));
        }
      }
    });
  }
  for (sync::Thread& thread : threads) thread.join();
}

TEST(GlslCompiler, the_version_names_the_compiler_and_its_target) {
  EXPECT_THAT(glsl_compiler_version(),
              AllOf(StartsWith("glslang "), HasSubstr("Vulkan 1.2"), HasSubstr("SPIR-V 1.5")));
}

}  // namespace
}  // namespace holdfast::kernel
