#include "holdfast/kernel/targets/cuda/cuda_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "holdfast/kernel/generate/cpp_preamble.h"
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

std::string field_type(const ParameterField& field, const CallSignature& signature) {
  switch (field.kind) {
    case FieldKind::shape: return "int";
    case FieldKind::strides: return "long";
    case FieldKind::param:
    case FieldKind::threadgroup: break;
  }
  return kernel_type(signature.params[field.index].dtype);
}

// The parameter bytes as a type. Its names are none that a macro of the header could have.
std::string parameter_block(const Interface& interface, const CallSignature& signature) {
  std::string text = "struct alignas(8) hf_parameters {\n  hf_launch hf_l;\n";
  uint64_t end = sizeof(LaunchBlock);
  for (size_t i = 0; i < interface.fields.size(); ++i) {
    const ParameterField& field = interface.fields[i];
    if (field.count == 0) continue;
    if (const uint64_t gap = field.offset.value - end; gap > 0) {
      text += fmt::format("  char hf_gap{}[{}];\n", i, gap);
    }
    const bool array = field.kind == FieldKind::shape || field.kind == FieldKind::strides;
    text += fmt::format("  {} hf_f{}{};\n", field_type(field, signature), i,
                        array ? fmt::format("[{}]", field.count) : "");
    end = field.offset.value + field.size.value;
  }
  return fmt::format("{}}};\nstatic_assert(sizeof(hf_parameters) == {});\n", text,
                     interface.parameter_bytes.value);
}

std::string value_type(const ArgumentUse& argument) {
  const char* constant = argument.binding.group == ArgumentGroup::input ? "const " : "";
  return constant + element_type(argument);
}

// Whether the body knows the argument by another name than the function's parameter.
bool is_wrapped(const ArgumentUse& argument, bool bounds) {
  return argument.scalar || (bounds && !argument.passed_to_template);
}

std::string pointer_name(const Usage& usage, size_t i, bool bounds) {
  return is_wrapped(usage.arguments[i], bounds) ? fmt::format("hf_b{}", i)
                                                : usage.arguments[i].name;
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
    const bool restricted =
        is_restricted(argument, usage.cooperation) && (!waits || is_output(argument));
    parameters.push_back(fmt::format("{}*{} {}", value_type(argument),
                                     restricted ? " __restrict__" : "",
                                     pointer_name(usage, i, bounds)));
  }
  for (size_t i = 0; bounds && i < usage.arguments.size(); ++i) {
    parameters.push_back(fmt::format("unsigned long hf_n{}", i));
  }
  parameters.emplace_back("const __grid_constant__ hf_parameters hf_p");
  return parameters;
}

// What the body knows besides the function's parameters.
std::string declarations(const Usage& usage, const Interface& interface,
                         const CallSignature& signature, bool bounds) {
  std::string text;
  for (size_t i = 0; i < usage.arguments.size(); ++i) {
    const ArgumentUse& argument = usage.arguments[i];
    const std::string type = value_type(argument);
    if (argument.scalar) {
      text += fmt::format("  {} {} = *hf_b{};\n", type, argument.name, i);
    } else if (is_wrapped(argument, bounds)) {
      text += fmt::format("  hf_checked<{0}> {1}{{hf_b{2}, hf_n{2} / sizeof({0}), \"{1}\"}};\n",
                          type, argument.name, i);
    }
    if (argument.ndim) {
      text += fmt::format("  const int {}_ndim = {};\n", argument.name, argument.type.rank);
    }
  }
  for (size_t i = 0; i < interface.fields.size(); ++i) {
    const ParameterField& field = interface.fields[i];
    const std::string type = field_type(field, signature);
    if (field.kind == FieldKind::param) {
      text += fmt::format("  const {} {} = hf_p.hf_f{};\n", type,
                          signature.params[field.index].name, i);
      continue;
    }
    text += fmt::format("  const {}* {}_{} = {};\n", type, usage.arguments[field.index].name,
                        field.kind == FieldKind::shape ? "shape" : "strides",
                        field.count == 0 ? "nullptr" : fmt::format("hf_p.hf_f{}", i));
  }
  for (const Place& place : places()) {
    if (std::ranges::find(usage.places, place.name) == usage.places.end()) continue;
    text += fmt::format("  {} {} = {};\n", place.type, place.name, place_expression(place.name));
  }
  return text;
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
                  declarations(usage, kernel.interface, signature, options.bounds),
                  authors_body(definition, usage));

  kernel.entry_point = entry_point_of(definition, kernel.preamble + text + inside);
  kernel.text = text + "extern \"C\" __global__ void " + kernel.entry_point + inside;
}

}  // namespace

GeneratedKernel cuda_text(const Definition& definition, const CallSignature& signature,
                          const GenerateOptions& options) {
  return generate(definition, signature, options, write_cuda);
}

}  // namespace holdfast::kernel
