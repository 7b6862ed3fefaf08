#pragma once

#include <string>
#include <vector>

#include "holdfast/kernel/interface.h"
#include "holdfast/kernel/signature.h"

namespace holdfast::kernel {

struct GenerateOptions {
  bool bounds = false;             // every index into a buffer is checked (HOLDFAST_BOUNDS)
  bool grids_may_overlap = false;  // the GPU has griddepcontrol: see cuda_text()
  bool subgroups = false;          // the device's are simdgroups: see vulkan_text()
};

// A text of the author's that stands in the generated one, for messages.
struct SourceText {
  std::string file{};  // as #line names it: Definition::file, or "NAME" and "NAME.header"
  std::string text{};
  std::vector<size_t> suffixes{};  // where the generated text has an `f` that `text` lacks
};
// The column of the author's line that a column of the generated line stands for. Both count from
// 1; 0 stays 0.
uint32_t author_column(const SourceText& source, uint32_t line, uint32_t column);

struct GeneratedKernel {
  std::string text{};         // without the preamble
  std::string preamble{};     // what stands before it: the language's names, of constant content
  std::string entry_point{};  // extern "C"
  Interface interface {};
  MathMode math = MathMode::safe;     // the definition's, unless its text forbids fast math
  bool contracts = true;              // whether products and sums may become one operation
  std::vector<SourceText> sources{};  // header, body
};

struct Usage;
// What a target adds to a kernel whose interface, math and sources are there, where all is known
// that the author's text uses: text, preamble and entry point.
using TextWriter = void(const Definition& definition, const CallSignature& signature,
                        const GenerateOptions& options, const Usage& usage,
                        GeneratedKernel& kernel);

// One pure piece, by which every target makes its text. Definition and signature must have passed
// check(). The same arguments give the same text in every process and on every machine.
//
// Lines of the author's text keep their numbers (#line), and columns but for suffixes of literals:
// see author_column().
GeneratedKernel generate(const Definition& definition, const CallSignature& signature,
                         const GenerateOptions& options, TextWriter& write);

// Changes with everything that generate() makes of the same arguments: part of every cache key.
// A digest of the preambles and a number for the rest.
const std::string& generator_version();

}  // namespace holdfast::kernel
