#include "holdfast/kernel/targets/cpu/cpu_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>

#include "holdfast/kernel/generate/cpp_preamble.h"
#include "holdfast/kernel/generate/usage.h"

namespace holdfast::kernel {
namespace {

std::string preamble_of(const CppParts& parts, const Usage& usage) {
  std::string text;
  append_code(text, "kernel_abi.h");
  append_code(text, "cpp_base.h");
  append_types_and_math(text, parts, usage);
  if (parts.host) append_code(text, "cpu_host.h");
  append_meetings_and_checks(text, parts, {.simd = "cpu_simd.h", .atomic = "cpu_atomic.h"});
  if (parts.groups) append_code(text, "cpp_group.h");
  append_code(text, parts.groups ? "cpu_groups.h" : "cpu_rows.h");
  return text;
}

// What one value of the body is called, is declared as, and is made from where the body is called.
struct Value {
  std::string declaration;
  std::string expression;
};

std::string buffer_expression(const std::string& type, size_t binding) {
  return fmt::format("static_cast<{}*>(hf_c->buffers[{}])", type, binding);
}

Value buffer_value(const Usage& usage, size_t binding, bool bounds) {
  const ArgumentUse& argument = usage.arguments[binding];
  std::string type = element_type(argument);
  if (argument.binding.group == ArgumentGroup::input) type = "const " + type;
  const std::string pointer = buffer_expression(type, binding);
  if (argument.scalar) {
    return {fmt::format("{}& __restrict__ {}", type, argument.name), "*" + pointer};
  }
  if (bounds && !argument.passed_to_template) {
    return {fmt::format("hf_checked<{}> {}", type, argument.name),
            fmt::format("hf_checked<{}>{{{}, hf_c->bytes[{}] / sizeof({}), \"{}\"}}", type, pointer,
                        binding, type, argument.name)};
  }
  return {fmt::format("{}*{} {}", type, is_restricted(argument, usage) ? " __restrict__" : "",
                      argument.name),
          pointer};
}

Value field_value(const ParameterField& field, const Usage& usage, const CallSignature& signature) {
  const auto read = [&](std::string_view type, bool pointer) {
    return fmt::format("{}reinterpret_cast<const {}*>(hf_c->parameters + {})", pointer ? "" : "*",
                       type, field.offset.value);
  };
  switch (field.kind) {
    case FieldKind::shape:
      return {fmt::format("const int* __restrict__ {}_shape", usage.arguments[field.index].name),
              read("int", true)};
    case FieldKind::strides:
      return {fmt::format("const long* __restrict__ {}_strides", usage.arguments[field.index].name),
              read("long", true)};
    case FieldKind::param:
    case FieldKind::threadgroup: break;
  }
  const ParamType& param = signature.params[field.index];
  const char* type = kernel_type(param.dtype);
  return {fmt::format("const {} {}", type, param.name), read(type, false)};
}

std::vector<Value> values_of(const CallSignature& signature, const GenerateOptions& options,
                             const Usage& usage, const Interface& interface) {
  std::vector<Value> values;
  for (size_t i = 0; i < usage.arguments.size(); ++i) {
    values.push_back(buffer_value(usage, i, options.bounds));
  }
  for (const ParameterField& field : interface.fields) {
    values.push_back(field_value(field, usage, signature));
  }
  for (const ArgumentUse& argument : usage.arguments) {
    if (!argument.ndim) continue;
    values.push_back(
        {fmt::format("const int {}_ndim", argument.name), fmt::format("{}", argument.type.rank)});
  }
  return values;
}

std::vector<Value> place_values(const Usage& usage) {
  std::vector<Value> values;
  for (const Place& place : places()) {
    if (std::ranges::find(usage.places, place.name) == usage.places.end()) continue;
    values.push_back({fmt::format("{} {}", place.type, place.name), place_expression(place.name)});
  }
  return values;
}

std::string joined(const std::vector<Value>& values, std::string Value::*part) {
  std::vector<std::string_view> parts;
  for (const Value& value : values) parts.push_back(value.*part);
  return fmt::format("{}", fmt::join(parts, ",\n    "));
}

// The names of a declaration, to pass a function's parameters on.
std::string_view name_in(std::string_view declaration) {
  return declaration.substr(declaration.rfind(' ') + 1);
}

// The loop over a row of threads is a function of its own: as parameters, restricted pointers let
// the compiler vectorise, and no loop around it tempts it to exchange the two.
constexpr std::string_view kRow = R"(
  const hf_launch hf_l = *reinterpret_cast<const hf_launch*>(hf_c->parameters);
  for (unsigned hf_x = hf_begin; hf_x < hf_end; ++hf_x)
    hf_body)";
constexpr std::string_view kRowOfGroup = R"(
  const hf_launch hf_l = *reinterpret_cast<const hf_launch*>(hf_c->parameters);
  const hf_group hf_g = *hf_of;
  for (unsigned hf_x = hf_begin; hf_x < hf_end; ++hf_x, ++hf_i)
    hf_body)";
constexpr std::string_view kRunRows =
    R"(  const hf_launch hf_l = *reinterpret_cast<const hf_launch*>(hf_c->parameters);
  for (unsigned long hf_n = hf_c->first_group; hf_n < hf_c->end_group;) {{
    const hf_rows hf_r(hf_l, hf_n, hf_c->end_group);
    for (unsigned hf_z = hf_r.begin[2]; hf_z < hf_r.end[2]; ++hf_z)
      for (unsigned hf_y = hf_r.begin[1]; hf_y < hf_r.end[1]; ++hf_y)
        hf_user::hf_row(hf_c, hf_r.begin[0], hf_r.end[0], hf_y, hf_z{});
    hf_n += hf_r.groups;
  }}
}}
)";
constexpr std::string_view kRunRowsOfGroups =
    R"(  const hf_launch hf_l = *reinterpret_cast<const hf_launch*>(hf_c->parameters);
  for (unsigned long hf_n = hf_c->first_group; hf_n < hf_c->end_group; ++hf_n) {{
    const hf_group hf_g(hf_l, hf_n);
    unsigned hf_i = 0;
    for (unsigned hf_z = hf_g.at[2]; hf_z < hf_g.at[2] + hf_g.size[2]; ++hf_z)
      for (unsigned hf_y = hf_g.at[1]; hf_y < hf_g.at[1] + hf_g.size[1]; ++hf_y) {{
        hf_user::hf_row(hf_c, hf_g.at[0], hf_g.at[0] + hf_g.size[0], hf_y, hf_z, &hf_g, hf_i{});
        hf_i += hf_g.size[0];
      }}
  }}
}}
)";
constexpr std::string_view kItem = R"(static void hf_item(void* hf_data, unsigned hf_i) {
  const hf_group& hf_g = *static_cast<const hf_group*>(hf_data);
  const hf_call* const hf_c = hf_g.call;
  const hf_launch& hf_l = *reinterpret_cast<const hf_launch*>(hf_c->parameters);
  const unsigned hf_x = hf_g.at[0] + hf_i % hf_g.size[0];
  const unsigned hf_y = hf_g.at[1] + hf_i / hf_g.size[0] % hf_g.size[1];
  const unsigned hf_z = hf_g.at[2] + hf_i / (hf_g.size[0] * hf_g.size[1]);
  )";
constexpr std::string_view kRunGroups =
    R"(  const hf_launch hf_l = *reinterpret_cast<const hf_launch*>(hf_c->parameters);
  for (unsigned long hf_n = hf_c->first_group; hf_n < hf_c->end_group; ++hf_n) {
    hf_group hf_g(hf_l, hf_n);
    hf_g.call = hf_c;
    hf_c->host->run_group(hf_c->host, hf_g.threads, hf_user::hf_item, &hf_g);
  }
)";

// The entry point and what it needs.
std::string callers(const std::vector<Value>& values, const std::vector<Value>& here,
                    Cooperation cooperation, bool host, std::string_view entry) {
  std::vector<Value> all = values;
  all.insert(all.end(), here.begin(), here.end());
  const std::string set_host = host ? "  hf_this_host = hf_c->host;\n" : "";
  // Outside of the unnamed namespace, which would keep it to the object.
  const std::string open = fmt::format(
      "}}\n}}\nextern \"C\" [[gnu::visibility(\"default\")]] void {}(const hf_call* hf_c) {{\n{}",
      entry, set_host);
  if (cooperation == Cooperation::barriers) {
    return fmt::format("{}hf_body({});\n}}\n{}{}}}\n", kItem, joined(all, &Value::expression), open,
                       kRunGroups);
  }
  std::vector<std::string> passed;
  for (const Value& value : values) passed.emplace_back(name_in(value.declaration));
  for (const Value& place : here) passed.push_back(place.expression);
  std::string declared = joined(values, &Value::declaration);
  if (!declared.empty()) declared = ",\n    " + declared;
  std::string given = joined(values, &Value::expression);
  if (!given.empty()) given = ",\n    " + given;
  const bool rows = cooperation == Cooperation::none;
  return fmt::format(
             "[[gnu::noinline]] static void hf_row(const hf_call* hf_c, unsigned hf_begin,\n"
             "    unsigned hf_end, unsigned hf_y, unsigned hf_z{}{}) {{{}({});\n}}\n",
             rows ? "" : ",\n    const hf_group* hf_of, unsigned hf_i", declared,
             rows ? kRow : kRowOfGroup, fmt::join(passed, ", ")) +
         open + fmt::format(fmt::runtime(rows ? kRunRows : kRunRowsOfGroups), given);
}

void write_cpu(const Definition& definition, const CallSignature& signature,
               const GenerateOptions& options, const Usage& usage, GeneratedKernel& kernel) {
  const CppParts parts = cpp_parts(signature, usage, options.bounds);
  kernel.preamble = preamble_of(parts, usage);

  const std::vector<Value> values = values_of(signature, options, usage, kernel.interface);
  const std::vector<Value> here = place_values(usage);
  std::vector<Value> all = values;
  all.insert(all.end(), here.begin(), here.end());

  std::string text;
  text += math_macro(definition.math);
  text += constant_macros(usage, signature, true);
  text += "namespace {\n" + constant_declarations(usage, signature) + "namespace hf_user {\n";
  text += authors_header(definition, usage) + constant_macros(usage, signature, false);
  text += fmt::format("hf_inline void hf_body({}) {{\n", joined(all, &Value::declaration));
  text += authors_body(definition, usage) + "}\n" + macro_removals(definition, usage);

  kernel.entry_point = entry_point_of(definition, text + kernel.preamble);
  text += callers(values, here, usage.cooperation, parts.host, kernel.entry_point);
  kernel.text = std::move(text);
}

}  // namespace

GeneratedKernel cpu_text(const Definition& definition, const CallSignature& signature,
                         const GenerateOptions& options) {
  return generate(definition, signature, options, write_cpu);
}

}  // namespace holdfast::kernel
