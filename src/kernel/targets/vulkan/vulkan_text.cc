#include "holdfast/kernel/targets/vulkan/vulkan_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "holdfast/kernel/generate/cpp_preamble.h"
#include "holdfast/kernel/generate/pointer_text.h"
#include "holdfast/kernel/generate/usage.h"

namespace holdfast::kernel {
namespace {

// The text of the language, all in a namespace, so that authors may use names of the C library.
std::string preamble(const Definition& definition, const CallSignature& signature,
                     const Usage& usage, const GenerateOptions& options, bool checks) {
  const CppParts parts = cpp_parts(signature, usage, options.bounds);
  std::string text = line_directive(1, "preamble") + math_macro(definition.math);
  text += "namespace hf_language {\n";
  append_code(text, "cpp_base.h");
  append_code(text, "vulkan_base.h");
  append_code(text, "cpp_group.h");
  append_code(text, "vulkan_group.h");
  const bool own_math = std::ranges::any_of(usage.names.identifiers, [](const std::string& name) {
    return name.starts_with("__builtin_");
  });
  if (parts.math || own_math) {
    append_code(text, "vulkan_math.h");
    append_code(text, "vulkan_double.h");
  }
  append_types_and_math(text, parts, usage);
  if (checks) append_code(text, "vulkan_host.h");
  append_meetings_and_checks(text, parts,
                             {.simd = options.subgroups ? "vulkan_simd_native.h" : "vulkan_simd.h",
                              .atomic = "vulkan_atomic.h"});
  text += "}\n";
  return text;
}

std::vector<std::string> function_parameters(const Usage& usage, bool bounds) {
  std::vector<std::string> parameters;
  for (size_t i = 0; i < usage.arguments.size(); ++i) {
    const bool restricted = is_restricted(usage.arguments[i], usage);
    parameters.push_back(pointer_parameter(usage, i, bounds, restricted));
  }
  for (size_t i = 0; bounds && i < usage.arguments.size(); ++i) {
    parameters.push_back(fmt::format("unsigned long hf_n{}", i));
  }
  parameters.emplace_back("const hf_parameters* __restrict__ hf_pp");
  return parameters;
}

constexpr std::string_view kFindInvocation = R"(  const hf_parameters& hf_p = *hf_pp;
  const hf_launch& hf_l = hf_p.hf_l;
  const hf_group hf_g(hf_l);
)";
constexpr std::string_view kLeave = "  if (!hf_g.has_this_thread(hf_l)) return;\n";
constexpr std::string_view kPlace = R"(  const unsigned hf_x = hf_g.at[0] + hf_spirv_local_id(0);
  const unsigned hf_y = hf_g.at[1] + hf_spirv_local_id(1);
  const unsigned hf_z = hf_g.at[2] + hf_spirv_local_id(2);
  const unsigned hf_i = hf_g.index();
)";

void write_vulkan(const Definition& definition, const CallSignature& signature,
                  const GenerateOptions& options, const Usage& usage, GeneratedKernel& kernel) {
  const bool checks = options.bounds || usage.uses("assert");
  kernel.interface.binding_lengths = options.bounds;
  kernel.interface.reports = checks;
  kernel.preamble = preamble(definition, signature, usage, options, checks);
  std::string text = line_directive(1, "holdfast") + constant_macros(usage, signature, true);
  text += "namespace hf_language {\n" + parameter_block(kernel.interface, signature) +
          constant_declarations(usage, signature) + "namespace hf_user {\n";
  text += authors_header(definition, usage) + constant_macros(usage, signature, false);
  const bool in_step = usage.cooperation == Cooperation::barriers;
  const std::string inside =
      fmt::format("(\n    {}) {{\n{}{}{}{}  {{\n{}  }}\n}}\n}}\n}}\n",
                  fmt::join(function_parameters(usage, options.bounds), ",\n    "), kFindInvocation,
                  in_step ? "" : kLeave, kPlace,
                  argument_declarations(usage, kernel.interface, signature, options.bounds),
                  authors_body(definition, usage));
  kernel.entry_point = entry_point_of(definition, kernel.preamble + text + inside);
  kernel.text = text + "extern \"C\" void " + kernel.entry_point + inside;
}

}  // namespace

GeneratedKernel vulkan_text(const Definition& definition, const CallSignature& signature,
                            const GenerateOptions& options) {
  return generate(definition, signature, options, write_vulkan);
}

}  // namespace holdfast::kernel
