#include "holdfast/kernel/generate/pointer_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace holdfast::kernel {
namespace {

std::string field_type(const ParameterField& field, const CallSignature& signature) {
  switch (field.kind) {
    case FieldKind::shape: return "int";
    case FieldKind::strides: return "long";
    case FieldKind::param:
    case FieldKind::threadgroup: break;
  }
  return kernel_type(signature.params[field.index].dtype);
}

std::string value_type(const ArgumentUse& argument) {
  const char* constant = argument.binding.group == ArgumentGroup::input ? "const " : "";
  return constant + element_type(argument);
}

// Whether the body knows the argument by another name than the function's parameter.
bool is_wrapped(const ArgumentUse& argument, bool bounds) {
  return argument.scalar || (bounds && !argument.passed_to_template);
}

}  // namespace

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

std::string pointer_name(const Usage& usage, size_t i, bool bounds) {
  return is_wrapped(usage.arguments[i], bounds) ? fmt::format("hf_b{}", i)
                                                : usage.arguments[i].name;
}

std::string pointer_parameter(const Usage& usage, size_t i, bool bounds, bool restricted) {
  return fmt::format("{}*{} {}", value_type(usage.arguments[i]), restricted ? " __restrict__" : "",
                     pointer_name(usage, i, bounds));
}

std::string argument_declarations(const Usage& usage, const Interface& interface,
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

}  // namespace holdfast::kernel
