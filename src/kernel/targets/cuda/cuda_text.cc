#include "holdfast/kernel/targets/cuda/cuda_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "holdfast/kernel/generate/cpp_preamble.h"
#include "holdfast/kernel/generate/pointer_text.h"
#include "holdfast/kernel/generate/usage.h"

namespace holdfast::kernel {
namespace {

// The text of the language, all in a namespace: NVRTC has vectors of its own outside.
std::string preamble(const Definition& definition, const CallSignature& signature,
                     const Usage& usage, bool bounds) {
  const CppParts parts = cpp_parts(signature, usage, bounds);
  std::string text = math_macro(definition.math);
  if (parts.debug || bounds)
    text += fmt::format("#define hf_kernel_name \"{}\"\n", definition.name);
  append_code(text, "cuda_builtins.h");
  text += "namespace hf_language {\nstruct hf_half;\n";
  append_code(text, "cpp_base.h");
  append_code(text, "cuda_base.h");
  append_code(text, "cpp_group.h");
  append_code(text, "cuda_group.h");
  append_code(text, "cuda_half.h");
  append_types_and_math(text, parts, usage);
  if (parts.debug || bounds) append_code(text, "cuda_host.h");
  append_meetings_and_checks(text, parts, {.simd = "cuda_simd.h", .atomic = "cuda_atomic.h"});
  text += "}\n";
  return text;
}

// See cuda_text(). Text that may name the read-only path itself does not wait.
bool waits_for_grids(const Usage& usage, const GenerateOptions& options) {
  constexpr std::string_view kForbid[] = {"for",        "while", "do",  "goto",    "__restrict__",
                                          "__restrict", "__ldg", "asm", "__asm__", "__asm"};
  return options.grids_may_overlap &&
         std::ranges::none_of(kForbid, [&](std::string_view name) { return usage.uses(name); });
}

bool is_output(const ArgumentUse& argument) {
  return argument.binding.group == ArgumentGroup::output;
}

std::vector<std::string> function_parameters(const Usage& usage, bool bounds, bool waits) {
  std::vector<std::string> parameters;
  for (size_t i = 0; i < usage.arguments.size(); ++i) {
    const ArgumentUse& argument = usage.arguments[i];
    const bool restricted = is_restricted(argument, usage) && (!waits || is_output(argument));
    parameters.push_back(pointer_parameter(usage, i, bounds, restricted));
  }
  for (size_t i = 0; bounds && i < usage.arguments.size(); ++i) {
    parameters.push_back(fmt::format("unsigned long hf_n{}", i));
  }
  parameters.emplace_back("const __grid_constant__ hf_parameters hf_p");
  return parameters;
}

// For the compiler it may use what the pointers of outputs point to: nothing moves across it.
std::string wait_for_grids(const Usage& usage, bool bounds) {
  std::vector<std::string> outputs;
  for (size_t i = 0; i < usage.arguments.size(); ++i) {
    if (!is_output(usage.arguments[i])) continue;
    outputs.push_back(fmt::format("\"l\"({})", pointer_name(usage, i, bounds)));
  }
  return fmt::format("  asm volatile(\"griddepcontrol.wait;\" : : {} : \"memory\");\n",
                     fmt::join(outputs, ", "));
}

constexpr std::string_view kFindThread = R"(  const hf_launch& hf_l = hf_p.hf_l;
  const hf_group hf_g(hf_l);
  if (!hf_g.has_this_thread()) return;
  const unsigned hf_x = hf_g.at[0] + threadIdx.x;
  const unsigned hf_y = hf_g.at[1] + threadIdx.y;
  const unsigned hf_z = hf_g.at[2] + threadIdx.z;
  const unsigned hf_i = hf_g.index();
)";

void write_cuda(const Definition& definition, const CallSignature& signature,
                const GenerateOptions& options, const Usage& usage, GeneratedKernel& kernel) {
  kernel.interface.binding_lengths = options.bounds;
  kernel.preamble = preamble(definition, signature, usage, options.bounds);

  std::string text = line_directive(1, "holdfast") + constant_macros(usage, signature, true);
  text += "namespace hf_language {\n" + parameter_block(kernel.interface, signature) +
          constant_declarations(usage, signature) + "namespace hf_user {\n";
  text += authors_header(definition, usage) + constant_macros(usage, signature, false);
  const bool waits = waits_for_grids(usage, options);
  kernel.interface.waits_for_grids = waits;
  const std::string inside =
      fmt::format("(\n    {}) {{\n{}{}{}  {{\n{}  }}\n}}\n}}\n}}\n",
                  fmt::join(function_parameters(usage, options.bounds, waits), ",\n    "),
                  waits ? wait_for_grids(usage, options.bounds) : std::string(), kFindThread,
                  argument_declarations(usage, kernel.interface, signature, options.bounds),
                  authors_body(definition, usage));

  kernel.entry_point = entry_point_of(definition, kernel.preamble + text + inside);
  const std::string_view group = usage.uses("GROUP_BOUNDS") ? "GROUP_BOUNDS " : "";
  kernel.text =
      fmt::format("{}extern \"C\" __global__ void {}{}{}", text, group, kernel.entry_point, inside);
}

}  // namespace

GeneratedKernel cuda_text(const Definition& definition, const CallSignature& signature,
                          const GenerateOptions& options) {
  return generate(definition, signature, options, write_cuda);
}

}  // namespace holdfast::kernel
