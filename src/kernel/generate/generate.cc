#include "holdfast/kernel/generate/generate.h"

#include <embedded/kernel_text.h>

#include "holdfast/base/hash.h"
#include "holdfast/kernel/generate/literals.h"
#include "holdfast/kernel/generate/pragmas.h"
#include "holdfast/kernel/generate/usage.h"

namespace holdfast::kernel {

GeneratedKernel generate(const Definition& definition, const CallSignature& signature,
                         const GenerateOptions& options, TextWriter& write) {
  const FloatPragmas of_header = float_pragmas_in(definition.header);
  const FloatPragmas of_body = float_pragmas_in(definition.source);
  const bool safe = of_header.safe_math || of_body.safe_math;
  GeneratedKernel kernel;
  const auto write_for = [&](const Definition& d) {
    const Usage usage = usage_of(d, signature);
    kernel.math = d.math;
    kernel.interface = interface_of(usage, signature);
    kernel.sources = {
        {header_file(d), d.header, unsuffixed_literals(d.header, usage.pasting_macros)},
        {body_file(d), d.source, unsuffixed_literals(d.source, usage.pasting_macros)}};
    write(d, signature, options, usage, kernel);
  };
  if (safe && definition.math != MathMode::safe) {
    Definition without = definition;
    without.math = MathMode::safe;
    write_for(without);
  } else {
    write_for(definition);
  }
  kernel.contracts = !of_header.no_contraction && !of_body.no_contraction;
  return kernel;
}

uint32_t author_column(const SourceText& source, uint32_t line, uint32_t column) {
  const std::string& text = source.text;
  size_t begin = 0;
  for (; line > 1; --line) {
    begin = text.find('\n', begin);
    if (begin == text.npos) return column;
    ++begin;
  }
  uint32_t more = 0;
  for (const size_t place : source.suffixes) {
    if (place < begin) continue;
    // The column of the suffix, which it shares with what follows the literal.
    if (place - begin + more + 1 >= column) break;
    ++more;
  }
  return column - more;
}

const std::string& generator_version() {
  // Raised with every change of what the generator writes around the preambles.
  static const std::string version = [] {
    Hasher hasher;
    for (const std::string_view file : embedded::kernel_text_files()) {
      hasher.add(file).add(embedded::kernel_text(file));
    }
    return "4-" + to_string(hasher.digest());
  }();
  return version;
}

}  // namespace holdfast::kernel
