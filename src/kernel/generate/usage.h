#pragma once

#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/kernel/generate/generate.h"
#include "holdfast/kernel/generate/tokens.h"

namespace holdfast::kernel {

// What all targets need to know of a call before they write text. Internal to generate/.

// Names that a body may use for its place in the grid, in the order in which they are declared.
struct Place {
  std::string_view name;
  std::string_view type;  // "uint3" or "uint"
  Cooperation needs;      // at least
};
std::span<const Place> places();

struct ArgumentUse {
  std::string name{};
  ArgumentType type{};
  BindingUse binding{};
  bool scalar = false;  // a 0-d input: a plain value in the body
  bool atomic = false;
  bool shape = false;  // whether the body or the header uses NAME_shape, and so on
  bool strides = false;
  bool ndim = false;
};

struct Usage {
  Names names{};                                      // of header and body
  std::vector<ArgumentUse> arguments{};               // in binding order: inputs, in_place, outputs
  std::vector<std::string_view> places{};             // used, in the order of places()
  std::set<std::string, std::less<>> vector_types{};  // "float4", "uint2"
  std::set<std::string, std::less<>> swizzles{};      // of two to four letters
  std::set<std::string, std::less<>> macro_constants{};  // used on preprocessor lines
  Cooperation cooperation = Cooperation::none;
};
Usage usage_of(const Definition& definition, const CallSignature& signature);
Interface interface_of(const Usage& usage, const CallSignature& signature);

// The text with `threadgroup`, where it declares memory and does not qualify a pointer or
// reference, replaced by a marker of the same length ("hf_tg_local"), so that columns stay.
std::string mark_threadgroup_memory(std::string_view text);

// The targets.
GeneratedKernel generate_cpp(const Definition& definition, const CallSignature& signature,
                             const GenerateOptions& options, const Usage& usage);
GeneratedKernel generate_cuda(const Definition& definition, const CallSignature& signature,
                              const GenerateOptions& options, const Usage& usage);

}  // namespace holdfast::kernel
