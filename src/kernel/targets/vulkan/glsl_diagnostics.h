#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/kernel/diagnostics.h"

namespace holdfast::kernel {

// A text by the numbers that the compiler gives its lines. Borrows the text.
class GlslLines {
 public:
  explicit GlslLines(std::string_view text);

  // The line with this number, of the source string with this name ("0" until a #line says
  // otherwise). Where #line gave a number twice, the last.
  std::string_view find(std::string_view source_string, uint32_t number) const;
  // The number of the line with the #version; 0 without one.
  uint32_t version_line() const { return version_line_; }
  // A diagnostic at the line with this number, or at the one in this place, from 1.
  Diagnostic at_number(uint32_t number, std::string message,
                       std::string_view source_string = "0") const;
  Diagnostic at_place(size_t place, std::string message) const;

 private:
  struct Line {
    std::string_view source_string{};
    uint32_t number = 0;
    std::string_view text{};
  };
  std::vector<Line> lines_;
  uint32_t version_line_ = 0;
};

// The errors in a log of glslang's; of several for one line the first, from which the others
// usually follow. In its preamble, line i holds defines[i - 1].
std::vector<Diagnostic> read_glsl_log(std::string_view log, const GlslLines& lines,
                                      std::span<const std::pair<std::string, std::string>> defines);

// What an author reads. Printable ASCII and newlines, whatever bytes the text has.
std::string describe_glsl_errors(std::string_view kernel, std::span<const Diagnostic> diagnostics);

}  // namespace holdfast::kernel
