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
  const auto write_for = [&](const Definition& d) {
    return write(d, signature, options, usage_of(d, signature));
  };
  GeneratedKernel kernel;
  if (safe && definition.math == MathMode::fast) {
    Definition without = definition;
    without.math = MathMode::safe;
    kernel = write_for(without);
  } else {
    kernel = write_for(definition);
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
