#include "holdfast/kernel/generate/generate.h"

#include <embedded/kernel_text.h>

#include "holdfast/base/hash.h"
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
    kernel.sources = {{header_file(d), d.header}, {body_file(d), d.source}};
    write(d, signature, options, usage, kernel);
  };
  if (safe && definition.math == MathMode::fast) {
    Definition without = definition;
    without.math = MathMode::safe;
    write_for(without);
  } else {
    write_for(definition);
  }
  kernel.contracts = !of_header.no_contraction && !of_body.no_contraction;
  return kernel;
}

const std::string& generator_version() {
  // Raised with every change of what the generator writes around the preambles.
  static const std::string version = [] {
    Hasher hasher;
    for (const std::string_view file : embedded::kernel_text_files()) {
      hasher.add(file).add(embedded::kernel_text(file));
    }
    return "2-" + to_string(hasher.digest());
  }();
  return version;
}

}  // namespace holdfast::kernel
