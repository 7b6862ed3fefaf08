#include "holdfast/kernel/generate/pragmas.h"

#include <span>

#include "holdfast/kernel/generate/tokens.h"

namespace holdfast::kernel {
namespace {

// What stands behind #pragma, up to the end of its line.
void read_pragma(std::span<const Token> words, FloatPragmas& found) {
  const auto is = [&](size_t i, std::string_view word) {
    return i < words.size() && words[i].text == word;
  };
  if (is(0, "STDC") && is(1, "FP_CONTRACT") && is(2, "OFF")) found.no_contraction = true;
  if ((!is(0, "clang") && !is(0, "METAL")) || !is(1, "fp")) return;
  for (size_t i = 2; i < words.size(); ++i) {
    if (is(i, "contract") && is(i + 1, "(") && is(i + 2, "off")) found.no_contraction = true;
    if (is(0, "METAL") && is(i, "math_mode") && is(i + 1, "(") && is(i + 2, "safe")) {
      found.no_contraction = true;
      found.safe_math = true;
    }
  }
}

// The inside of a string literal, a raw one too.
std::string_view inside(std::string_view literal) {
  size_t first = literal.find('"');
  size_t last = literal.rfind('"');
  if (literal.substr(0, first).ends_with('R')) {
    first = literal.find('(');
    last = literal.rfind(')');
  }
  return first < last ? literal.substr(first + 1, last - first - 1) : std::string_view();
}

}  // namespace

FloatPragmas float_pragmas_in(std::string_view text) {
  FloatPragmas found;
  if (text.find("ragma") == text.npos) return found;
  const std::vector<Token> tokens = tokenize(text);
  for (size_t i = 0; i + 2 < tokens.size(); ++i) {
    if (tokens[i].in_directive && tokens[i].text == "#" && tokens[i + 1].text == "pragma") {
      size_t end = i + 2;
      while (end < tokens.size() && tokens[end].in_directive && tokens[end].text != "#") ++end;
      read_pragma(std::span(tokens).subspan(i + 2, end - i - 2), found);
    } else if (tokens[i].text == "_Pragma" && tokens[i + 1].text == "(") {
      read_pragma(tokenize(inside(tokens[i + 2].text)), found);
    }
  }
  return found;
}

}  // namespace holdfast::kernel
