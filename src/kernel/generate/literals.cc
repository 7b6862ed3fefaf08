#include "holdfast/kernel/generate/literals.h"

#include <algorithm>
#include <array>

#include "holdfast/kernel/generate/tokens.h"

namespace holdfast::kernel {
namespace {

constexpr std::string_view kDigits = "0123456789'";

// Takes digits off the front; whether there were any.
bool take_digits(std::string_view& text) {
  const size_t end = std::min(text.find_first_not_of(kDigits), text.size());
  text.remove_prefix(end);
  return end != 0;
}

// Takes an exponent off the front; false where it has no digits.
bool take_exponent(std::string_view& text) {
  text.remove_prefix(1);
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) text.remove_prefix(1);
  return take_digits(text);
}

bool is_unsuffixed_floating(std::string_view number) {
  if (number.starts_with("0x") || number.starts_with("0X")) {
    const size_t exponent = number.find_first_of("pP");
    if (exponent == number.npos) return false;
    number.remove_prefix(exponent);
    return take_exponent(number) && number.empty();
  }
  take_digits(number);
  bool floating = false;
  if (!number.empty() && number.front() == '.') {
    number.remove_prefix(1);
    take_digits(number);
    floating = true;
  }
  if (!number.empty() && (number.front() == 'e' || number.front() == 'E')) {
    floating = take_exponent(number);
  }
  return floating && number.empty();
}

// Whether a preprocessor line begins with this token: in the text of a macro `#` has another
// meaning.
bool begins_directive(const std::vector<Token>& tokens, size_t at) {
  static constexpr std::array<std::string_view, 16> kWords{
      "define",   "undef", "include", "if",   "ifdef",  "ifndef", "elif",    "elifdef",
      "elifndef", "else",  "endif",   "line", "pragma", "error",  "warning", "import"};
  if (!tokens[at].in_directive || tokens[at].text != "#" || at + 1 == tokens.size()) return false;
  return std::ranges::find(kWords, tokens[at + 1].text) != kWords.end();
}

bool begins_definition(const std::vector<Token>& tokens, size_t at) {
  return begins_directive(tokens, at) && tokens[at + 1].text == "define" && at + 2 < tokens.size();
}

}  // namespace

std::set<std::string, std::less<>> pasting_macros(std::string_view text) {
  std::set<std::string, std::less<>> found;
  const std::vector<Token> tokens = tokenize(text);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!begins_definition(tokens, i)) continue;
    const std::string_view name = tokens[i + 2].text;
    for (size_t k = i + 3; k < tokens.size() && tokens[k].in_directive; ++k) {
      if (begins_directive(tokens, k)) break;
      if (tokens[k].text == "#") found.emplace(name);
    }
  }
  return found;
}

std::vector<size_t> unsuffixed_literals(std::string_view text,
                                        const std::set<std::string, std::less<>>& pasting) {
  std::vector<size_t> places;
  const std::vector<Token> tokens = tokenize(text);
  bool defines = false;  // this preprocessor line is a macro that does not paste
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    if (begins_directive(tokens, i)) {
      defines = begins_definition(tokens, i) && !pasting.contains(tokens[i + 2].text);
      ++i;
      continue;
    }
    if (token.in_directive && !defines) continue;
    if (token.kind == TokenKind::identifier && pasting.contains(token.text)) {
      int depth = 0;
      for (size_t k = i + 1; k < tokens.size(); ++k) {
        if (tokens[k].text == "(") ++depth;
        if (tokens[k].text == ")") --depth;
        if (depth <= 0) break;
        i = k;
      }
      continue;
    }
    if (token.kind == TokenKind::number && is_unsuffixed_floating(token.text)) {
      places.push_back(token.offset + token.text.size());
    }
  }
  return places;
}

std::string with_suffixes(std::string_view text, const std::vector<size_t>& places) {
  std::string result;
  result.reserve(text.size() + places.size());
  size_t copied = 0;
  for (const size_t place : places) {
    result += text.substr(copied, place - copied);
    result += 'f';
    copied = place;
  }
  result += text.substr(copied);
  return result;
}

}  // namespace holdfast::kernel
