#include "holdfast/kernel/generate/generate.h"

#include <embedded/kernel_text.h>

#include "holdfast/base/hash.h"
#include "holdfast/kernel/generate/usage.h"

namespace holdfast::kernel {

GeneratedKernel generate(const Definition& definition, const CallSignature& signature,
                         const GenerateOptions& options) {
  const Usage usage = usage_of(definition, signature);
  switch (options.target) {
    case Target::cpp: return generate_cpp(definition, signature, options, usage);
    case Target::cuda: return generate_cuda(definition, signature, options, usage);
  }
  return {};
}

const std::string& generator_version() {
  // Raised with every change of what the generator writes around the preambles.
  static const std::string version = [] {
    Hasher hasher;
    for (const std::string_view file : embedded::kernel_text_files()) {
      hasher.add(file).add(embedded::kernel_text(file));
    }
    return "1-" + to_string(hasher.digest());
  }();
  return version;
}

}  // namespace holdfast::kernel
