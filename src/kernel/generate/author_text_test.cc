#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "holdfast/kernel/generate/usage.h"

namespace holdfast::kernel {
namespace {

// The text with @ where the marker is, to be read.
std::string marked(std::string_view text) {
  std::string result = mark_threadgroup_memory(text);
  EXPECT_EQ(result.size(), text.size());
  for (size_t at; (at = result.find("hf_tg_local")) != result.npos;) result.replace(at, 11, "@");
  return result;
}

TEST(ThreadgroupMemory, is_marked_where_it_is_declared) {
  EXPECT_EQ(marked("threadgroup float tile[128 * 4];"), "@ float tile[128 * 4];");
  EXPECT_EQ(marked("threadgroup T a[N], b[2];"), "@ T a[N], b[2];");
  EXPECT_EQ(marked("if (x) { threadgroup uint count; }"), "if (x) { @ uint count; }");
  EXPECT_EQ(marked("threadgroup atomic<uint> c;"), "@ atomic<uint> c;");
  EXPECT_EQ(marked("threadgroup metal::vec<float, 4> v[3];"), "@ metal::vec<float, 4> v[3];");
  EXPECT_EQ(marked("threadgroup decltype(x) v;"), "@ decltype(x) v;");
  EXPECT_EQ(marked("#define TILE threadgroup float tile[4]\nTILE;"),
            "#define TILE @ float tile[4]\nTILE;");
  EXPECT_EQ(marked("threadgroup B<(N << 3)> s;"), "@ B<(N << 3)> s;");
  EXPECT_EQ(marked("threadgroup B<N << 3> s;"), "@ B<N << 3> s;");
  EXPECT_EQ(marked("threadgroup B<(N > 3)> s;"), "@ B<(N > 3)> s;");
  EXPECT_EQ(marked("threadgroup W<sizeof(B<32>)/4> s;"), "@ W<sizeof(B<32>)/4> s;");
  EXPECT_EQ(marked("threadgroup float\n#if A > B\ns[4];\n#endif"),
            "@ float\n#if A > B\ns[4];\n#endif");
  EXPECT_EQ(marked("threadgroup alignas(16) float s[2];"), "@ hf_algn(16) float s[2];");
  EXPECT_EQ(marked("alignas(16) threadgroup float s[2];"), "alignas(16) @ float s[2];");
  EXPECT_EQ(marked("#define OPEN f(\nthreadgroup float s[2];"), "#define OPEN f(\n@ float s[2];");
}

TEST(ThreadgroupMemory, is_not_what_a_pointer_points_to) {
  for (const std::string_view text :
       {"threadgroup float* p = tile;", "threadgroup float& r = tile[0];",
        "const threadgroup half4* p;", "void f(threadgroup float* a, threadgroup float b[4]);",
        "void f(threadgroup float (&a)[4]) {}", "threadgroup float (*p)[4] = &tile;",
        "(threadgroup float4*)tile;", "reinterpret_cast<threadgroup float4*>(tile)",
        "f<threadgroup float>(x);", "using P = threadgroup float*;", "a.threadgroup b;",
        "threadgroup_barrier(mem_flags::mem_threadgroup);", "// threadgroup float a[2];",
        "\"threadgroup float a[2];\"", "threadgroup", "threadgroup auto* p = a;",
        "threadgroup vec<float, 4>* p = a;"}) {
    EXPECT_EQ(mark_threadgroup_memory(text), text);
  }
}

// With the macros of the text itself.
std::string marked_with_macros(std::string_view text) {
  std::string result = mark_threadgroup_memory(text, threadgroup_macros(text));
  for (size_t at; (at = result.find("hf_tg_local")) != result.npos;) result.replace(at, 11, "@");
  return result;
}

TEST(ThreadgroupMemory, is_declared_through_a_macro) {
  for (const std::string_view rest :
       {"#define TG threadgroup\nTG float a[2];", "#define TG threadgroup\n#define B TG\nB T a;",
        "#define TG threadgroup float\nTG a[2];", "#define TG(T) threadgroup T\nTG(float) a;",
        "#define TG(T, n) threadgroup T n\nTG(float, a[4 * 4]);",
        "#define TG threadgroup\n#ifdef TG\n#undef TG\n#endif"}) {
    std::string expected(rest);
    expected.replace(expected.find("threadgroup"), 11, "@");
    EXPECT_EQ(marked_with_macros(rest), expected);
  }
}

TEST(ThreadgroupMemory, a_macro_that_qualifies_a_pointer_is_blank_or_no_name) {
  const std::string define = "#define TG threadgroup\n";
  const std::string kept = "#define TG @\n";
  EXPECT_EQ(marked_with_macros(define + "TG float* p = s;"), kept + "   float* p = s;");
  EXPECT_EQ(marked_with_macros(define + "f(TG float* p);"), kept + "f(   float* p);");
  EXPECT_EQ(marked_with_macros(define + "c<TG float*>(p);"), kept + "c<   float*>(p);");
  using ::testing::HasSubstr;
  const std::string_view name = "hf_error_a_macro_with_threadgroup_memory_cannot_declare_a_pointer";
  EXPECT_THAT(marked_with_macros("#define TG threadgroup float\nTG* p = s;"),
              HasSubstr("\n" + std::string(name) + "* p"));
  EXPECT_THAT(marked_with_macros("#define TG(T, n) threadgroup T n\nTG(float*, p);"),
              HasSubstr("\n" + std::string(name) + "(float*, p)"));
}

TEST(Constants, are_marked_where_they_are_not_const_already) {
  EXPECT_EQ(mark_constants("constant int M = 4;"), "hf_const int M = 4;");
  EXPECT_EQ(mark_constants("void f(constant float* p, int n);"),
            "void f(hf_const float* p, int n);");
  for (const std::string_view text :
       {"constant const float* p;", "const constant float* p;", "constant float const* p;",
        "a.constant", "constants", "// constant int M"}) {
    EXPECT_EQ(mark_constants(text), text);
  }
}

TEST(AuthorText, keeps_lines_and_columns) {
  EXPECT_EQ(author_text(""), "");
  EXPECT_EQ(author_text("a"), "a\n");
  EXPECT_EQ(author_text("a\n"), "a\n");
  EXPECT_EQ(author_text("a // \\"), "a // \\\n\n") << "what follows is not part of the last line";
  EXPECT_EQ(author_text("#include <metal_stdlib>\n  #  include <simd/simd.h> // why\nint a;"),
            std::string(23, ' ') + "\n" + std::string(26, ' ') + " // why\nint a;\n");
  EXPECT_EQ(author_text("#include <vector>\n"), "#include <vector>\n");
}

RC_GTEST_PROP(AuthorText, has_the_same_lines_whatever_the_text, ()) {
  const std::vector<std::string> pieces{"threadgroup ",
                                        "float ",
                                        "a",
                                        "[",
                                        "]",
                                        "(",
                                        ")",
                                        "{",
                                        "}",
                                        "<",
                                        ">",
                                        "*",
                                        ";",
                                        "\n",
                                        "#include <metal",
                                        ">\n",
                                        "// ",
                                        "/*",
                                        "*/",
                                        "\"",
                                        "\\\n",
                                        ",",
                                        "=",
                                        "#define "};
  std::string text;
  for (const std::string& piece :
       *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(pieces))) {
    text += piece;
  }
  const std::string result = author_text(text);
  RC_ASSERT(result.size() >= text.size() && result.size() <= text.size() + 2);
  for (size_t i = 0; i < text.size(); ++i) RC_ASSERT((text[i] == '\n') == (result[i] == '\n'));
}

TEST(LineDirective, escapes_what_a_string_cannot_have) {
  EXPECT_EQ(line_directive(3, "dir/a b.metal"), "#line 3 \"dir/a b.metal\"\n");
  EXPECT_EQ(line_directive(1, "a\"b\\c"), "#line 1 \"a\\\"b\\\\c\"\n");
  EXPECT_EQ(line_directive(1, "a\nb"), "#line 1 \"a?b\"\n");
  EXPECT_EQ(body_file({.name = "k", .file = "x\ty"}), "x?y");
  EXPECT_EQ(body_file({.name = "k"}), "k");
  EXPECT_EQ(header_file({.name = "k", .file = "f"}), "k.header");
}

}  // namespace
}  // namespace holdfast::kernel
