#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::kernel {

// What a compiler has against a text.
struct Diagnostic {
  std::string file{};     // as the compiler names it; empty where there is one text without a name
  uint32_t line = 0;      // as the author counts; 0 where it is none of the text's
  uint32_t column = 0;    // in source_line, from 1; 0 where the compiler names no token
  std::string message{};  // the compiler's words
  std::string source_line{};
};

// What an author reads: kernel, variant, and for each of the first eight diagnostics file, line and
// column, the words, the line and a caret. Printable ASCII and newlines, whatever bytes the text
// has; long lines are cut around the caret.
std::string describe_errors(std::string_view kernel, std::string_view variant,
                            std::span<const Diagnostic> diagnostics);
// The same under a sentence of the caller's.
std::string describe_errors_under(std::string_view sentence,
                                  std::span<const Diagnostic> diagnostics);

// The line with that number, from 1, without its end; empty where the text has fewer.
std::string_view line_of(std::string_view text, uint32_t number);
// The first line, without its end; `text` goes on behind it.
std::string_view take_line(std::string_view& text);

}  // namespace holdfast::kernel
