#include "holdfast/kernel/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "holdfast/kernel/unsupported.h"

namespace holdfast::kernel {

namespace {

constexpr size_t kMaxDiagnostics = 8;
// Of a longer line, this much around the token is shown.
constexpr size_t kMaxShownColumns = 160;

// Of longer words of a compiler, which repeats whole names and types, this much.
constexpr size_t kMaxShownWords = 4000;

// One character for each byte, so that columns stay.
std::string printable(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c == '\t') c = ' ';
    if (c < ' ' || c > '~') c = '?';
  }
  return result;
}

std::string place_of(const Diagnostic& diagnostic) {
  if (diagnostic.line == 0) return {};
  if (diagnostic.file.empty()) return fmt::format("line {}: ", diagnostic.line);
  if (diagnostic.column == 0) {
    return fmt::format("{}:{}: ", printable(diagnostic.file), diagnostic.line);
  }
  return fmt::format("{}:{}:{}: ", printable(diagnostic.file), diagnostic.line, diagnostic.column);
}

void append(std::string& to, const Diagnostic& diagnostic) {
  const auto out = std::back_inserter(to);
  // Of what kernels cannot use here, compilers say which name they know is spelt most like it.
  const std::optional<Unsupported> unsupported =
      unsupported_in(diagnostic.source_line, diagnostic.message);
  const std::string_view words = unsupported ? unsupported->sentence : diagnostic.message;
  fmt::format_to(out, "\n{}{}", place_of(diagnostic), printable(words.substr(0, kMaxShownWords)));
  if (words.size() > kMaxShownWords) fmt::format_to(out, "... ({} bytes)", words.size());
  std::string_view line = diagnostic.source_line;
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  size_t column = diagnostic.column;
  if (line.size() > kMaxShownColumns) {
    size_t from = column > kMaxShownColumns / 2 ? column - kMaxShownColumns / 2 : 0;
    from = std::min(from, line.size());
    line = line.substr(from, kMaxShownColumns);
    if (column != 0) column -= from;
  }
  fmt::format_to(out, "\n  | {}", printable(line));
  // Just behind the line is where something is missing; further there is nothing to point at.
  if (column != 0 && column <= line.size() + 1) {
    fmt::format_to(out, "\n  | {:>{}}", '^', column);
  }
}

}  // namespace

std::string describe_errors_under(std::string_view sentence,
                                  std::span<const Diagnostic> diagnostics) {
  std::string result = printable(sentence);
  for (const Diagnostic& diagnostic :
       diagnostics.first(std::min(diagnostics.size(), kMaxDiagnostics))) {
    append(result, diagnostic);
  }
  if (diagnostics.size() > kMaxDiagnostics) {
    fmt::format_to(std::back_inserter(result), "\nand {} more",
                   diagnostics.size() - kMaxDiagnostics);
  }
  return result;
}

std::string describe_errors(std::string_view kernel, std::string_view variant,
                            std::span<const Diagnostic> diagnostics) {
  return describe_errors_under(
      variant.empty()
          ? fmt::format("kernel '{}' does not compile; correct its text:", kernel)
          : fmt::format("kernel '{}' ({}) does not compile; correct its text:", kernel, variant),
      diagnostics);
}

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string_view line_of(std::string_view text, uint32_t number) {
  if (number == 0) return {};
  while (--number > 0 && !text.empty()) take_line(text);
  return take_line(text);
}

}  // namespace holdfast::kernel
