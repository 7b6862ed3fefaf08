#include "holdfast/kernel/targets/vulkan/glsl_diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "holdfast/kernel/compilers/words.h"

namespace holdfast::kernel {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool is_operator(char c) { return std::string_view("+-*/%<>=!&|^~").find(c) != std::string::npos; }

std::string_view skip_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  return text;
}

// What follows the name of a directive; nullptr data where the line is not that directive.
std::string_view directive(std::string_view line, std::string_view name) {
  line = skip_blanks(line);
  if (!line.starts_with('#')) return {};
  line = skip_blanks(line.substr(1));
  if (!line.starts_with(name)) return {};
  line.remove_prefix(name.size());
  return line.empty() || !is_word(line.front()) ? line : std::string_view();
}

// Where the token stands alone in the line, from 1; 0 where it does not.
uint32_t column_of(std::string_view token, std::string_view line, size_t from = 0) {
  if (token.empty()) return 0;
  const auto continues = [&](char a, char b) {
    return (is_word(a) && is_word(b)) || (is_operator(a) && is_operator(b));
  };
  for (size_t at = line.find(token, from); at != std::string_view::npos;
       at = line.find(token, at + 1)) {
    const size_t end = at + token.size();
    if (at > 0 && continues(line[at - 1], token.front())) continue;
    if (end < line.size() && continues(token.back(), line[end])) continue;
    return static_cast<uint32_t>(at + 1);
  }
  return 0;
}

// The spelling of a token that a syntax error calls by its name in the grammar.
std::string spelling_of(std::string_view grammar_name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 19> kSigns{{
      {"SEMICOLON", ";"},    {"COMMA", ","},         {"COLON", ":"},      {"QUESTION", "?"},
      {"LEFT_PAREN", "("},   {"RIGHT_PAREN", ")"},   {"LEFT_BRACE", "{"}, {"RIGHT_BRACE", "}"},
      {"LEFT_BRACKET", "["}, {"RIGHT_BRACKET", "]"}, {"DOT", "."},        {"EQUAL", "="},
      {"PLUS", "+"},         {"DASH", "-"},          {"STAR", "*"},       {"SLASH", "/"},
      {"LEFT_ANGLE", "<"},   {"RIGHT_ANGLE", ">"},   {"EQ_OP", "=="},
  }};
  for (const auto& [name, sign] : kSigns) {
    if (name == grammar_name) return std::string(sign);
  }
  // Keywords are their own names, in capitals.
  std::string word(grammar_name);
  for (char& c : word) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return word;
}

uint32_t locate(std::string_view token, std::string_view words, std::string_view line) {
  if (!token.empty()) return column_of(token, line);
  constexpr std::string_view kUnexpected = "unexpected ";
  const size_t at = words.find(kUnexpected);
  if (at == std::string_view::npos) return 0;
  std::string_view name = words.substr(at + kUnexpected.size());
  name = name.substr(0, name.find_first_of(", "));
  const std::string spelling = spelling_of(name);
  const uint32_t column = column_of(spelling, line);
  // The compiler does not say which one it means.
  const bool again = column != 0 && column_of(spelling, line, column) != 0;
  return again ? 0 : column;
}

Diagnostic read_error(std::string_view error, const GlslLines& lines,
                      std::span<const std::pair<std::string, std::string>> defines) {
  Diagnostic result;
  // "0:12: 'token' : words", or words alone.
  std::string_view source_string;
  std::string_view words = error;
  for (size_t colon = error.find(':'); colon != std::string_view::npos;
       colon = error.find(':', colon + 1)) {
    std::string_view rest = error.substr(colon + 1);
    if (take_number(rest, result.line) && rest.starts_with(": ")) {
      source_string = error.substr(0, colon);
      words = rest.substr(2);
      break;
    }
    result.line = 0;
  }
  std::string_view token;
  const size_t token_end = words.find("' : ", 1);
  if (words.starts_with('\'') && token_end != std::string_view::npos) {
    token = words.substr(1, token_end - 1);
    if (token.empty()) words.remove_prefix(token_end + 4);
  }
  result.message = trim(words);
  if (result.message.find("memory exhausted") != std::string::npos) {
    result.message = "nested too deeply for the compiler (" + result.message + ")";
  }

  if (source_string == "-1" && result.line >= 1 && result.line <= defines.size()) {
    const auto& [name, value] = defines[result.line - 1];
    result.message = fmt::format("in the define of '{}': {}", name, result.message);
    result.source_line = fmt::format("#define {} {}", name, value);
    result.line = 0;
  } else if (result.line != 0) {
    result.source_line = lines.find(source_string, result.line);
  } else if (words.starts_with("#version") || words.starts_with("version")) {
    return lines.at_number(lines.version_line(), std::move(result.message));
  }
  result.column = locate(token, words, result.source_line);
  return result;
}

}  // namespace

GlslLines::GlslLines(std::string_view text) {
  std::string_view source_string = "0";
  uint32_t number = 1;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    lines_.push_back({source_string, number, line});
    if (version_line_ == 0 && directive(line, "version").data() != nullptr) version_line_ = number;
    ++number;
    std::string_view rest = skip_blanks(directive(line, "line"));
    uint32_t next = 0;
    if (!take_number(rest, next)) continue;
    number = next;
    rest = trim(rest);
    if (rest.size() > 2 && rest.starts_with('"') && rest.ends_with('"')) {
      rest = rest.substr(1, rest.size() - 2);
    }
    if (!rest.empty()) source_string = rest;
  }
}

std::string_view GlslLines::find(std::string_view source_string, uint32_t number) const {
  const auto found = std::find_if(lines_.rbegin(), lines_.rend(), [&](const Line& line) {
    return line.source_string == source_string && line.number == number;
  });
  return found == lines_.rend() ? std::string_view() : found->text;
}

Diagnostic GlslLines::at_number(uint32_t number, std::string message,
                                std::string_view source_string) const {
  return {.line = number,
          .message = std::move(message),
          .source_line = std::string(find(source_string, number))};
}

Diagnostic GlslLines::at_place(size_t place, std::string message) const {
  const Line line = place >= 1 && place <= lines_.size() ? lines_[place - 1] : Line{};
  return {
      .line = line.number, .message = std::move(message), .source_line = std::string(line.text)};
}

std::vector<Diagnostic> read_glsl_log(
    std::string_view log, const GlslLines& lines,
    std::span<const std::pair<std::string, std::string>> defines) {
  constexpr std::string_view kError = "ERROR: ";
  std::vector<Diagnostic> result;
  bool in_error = false;
  while (!log.empty()) {
    const std::string_view line = take_line(log);
    if (line.starts_with(kError)) {
      const std::string_view error = line.substr(kError.size());
      in_error = !error.ends_with("compilation terminated ") &&
                 error.find(" compilation errors.  No code generated.") == std::string_view::npos;
      if (!in_error) continue;
      Diagnostic next = read_error(error, lines, defines);
      in_error = result.empty() || next.line == 0 || next.line != result.back().line;
      if (in_error) result.push_back(std::move(next));
    } else if (in_error && line.starts_with(' ')) {
      result.back().message += ' ';  // an error that goes on
      result.back().message += trim(line);
    } else {
      in_error = false;
    }
  }
  return result;
}

std::string describe_glsl_errors(std::string_view kernel, std::span<const Diagnostic> diagnostics) {
  return describe_errors_under(
      fmt::format("the GLSL of kernel '{}' does not compile; correct its text:", kernel),
      diagnostics);
}

}  // namespace holdfast::kernel
