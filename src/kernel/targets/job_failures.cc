#include "holdfast/kernel/targets/job_failures.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "holdfast/kernel/compilers/words.h"
#include "holdfast/kernel/diagnostics.h"
#include "holdfast/kernel/targets/cpu/cpp_diagnostics.h"

namespace holdfast::kernel {

Failure named(const CompileJob& job, const Failure& failure) {
  return Failure(failure.code(), fmt::format("kernel '{}': {}", job.kernel, failure.message()));
}

Failure compile_failure(const CompileJob& job, const std::string& messages) {
  std::vector<Diagnostic> diagnostics = read_cpp_log(messages, job.code.sources);
  if (diagnostics.empty()) {
    // Something that nobody has seen before: its own words are better than none.
    std::string_view rest = messages;
    while (!rest.empty()) {
      const std::string_view line = take_line(rest);
      if (!line.empty()) diagnostics.push_back({.message = std::string(line)});
    }
  }
  if (diagnostics.empty()) diagnostics.push_back({.message = "the compiler does not say why"});
  return Failure(ErrorCode::usage, describe_errors(job.kernel, job.variant, diagnostics));
}

}  // namespace holdfast::kernel
