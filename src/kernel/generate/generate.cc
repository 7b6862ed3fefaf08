#include "holdfast/kernel/generate/generate.h"

#include <embedded/kernel_text.h>

#include "holdfast/base/hash.h"
#include "holdfast/kernel/generate/pragmas.h"
#include "holdfast/kernel/generate/usage.h"

namespace holdfast::kernel {

namespace {

GeneratedKernel generate_for(const Definition& definition, const CallSignature& signature,
                             const GenerateOptions& options) {
  const Usage usage = usage_of(definition, signature);
  switch (options.target) {
    case Target::cpp: return generate_cpp(definition, signature, options, usage);
    case Target::cuda: return generate_cuda(definition, signature, options, usage);
  }
  return {};
}

}  // namespace

GeneratedKernel generate(const Definition& definition, const CallSignature& signature,
                         const GenerateOptions& options) {
  const FloatPragmas of_header = float_pragmas_in(definition.header);
  const FloatPragmas of_body = float_pragmas_in(definition.source);
  const bool safe = of_header.safe_math || of_body.safe_math;
  GeneratedKernel kernel;
  if (safe && definition.math == MathMode::fast) {
    Definition without = definition;
    without.math = MathMode::safe;
    kernel = generate_for(without, signature, options);
  } else {
    kernel = generate_for(definition, signature, options);
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
