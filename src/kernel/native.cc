#include "holdfast/kernel/native.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "holdfast/base/rounding.h"
#include "holdfast/base/shown.h"
#include "holdfast/kernel/generate/pragmas.h"

namespace holdfast::kernel {
namespace {

std::optional<uint32_t> index_in(const std::vector<std::string>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<uint32_t>(found - names.begin());
}

BindingUse use_of(const Definition& definition, std::string_view name) {
  if (const auto i = index_in(definition.inputs, name)) {
    return {ArgumentGroup::input, *i, hal::Access::read};
  }
  if (const auto i = index_in(definition.in_place, name)) {
    return {ArgumentGroup::in_place, *i, hal::Access::read_write};
  }
  return {ArgumentGroup::output, index_in(definition.outputs, name).value(),
          definition.atomic_outputs ? hal::Access::read_write : hal::Access::write};
}

const char* type_name(NativeKind kind, Dtype dtype) {
  constexpr std::array<const char*, kDtypes> kGlsl{
      "bool",    "int8_t",   "uint8_t",   "int16_t",  "uint16_t", "int",   "uint",
      "int64_t", "uint64_t", "float16_t", "bfloat16", "float",    "double"};
  constexpr std::array<const char*, kDtypes> kCpp{
      "bool", "signed char",   "unsigned char", "short",  "unsigned short", "int",   "unsigned",
      "long", "unsigned long", "_Float16",      "__bf16", "float",          "double"};
  return (kind == NativeKind::glsl ? kGlsl : kCpp)[static_cast<size_t>(dtype)];
}

}  // namespace

std::vector<std::pair<std::string, std::string>> native_macros(
    const Native& native, std::span<const Constant> constants) {
  std::vector<std::pair<std::string, std::string>> macros;
  for (const Constant& constant : constants) {
    if (native.kind == NativeKind::glsl && index_in(native.constants, constant.name)) continue;
    std::string value;
    if (const bool* truth = std::get_if<bool>(&constant.value)) {
      value = *truth ? "1" : "0";
    } else if (const Dtype* dtype = std::get_if<Dtype>(&constant.value)) {
      value = type_name(native.kind, *dtype);
    } else {
      value = fmt::format("({})", std::get<int64_t>(constant.value));
    }
    macros.emplace_back(constant.name, std::move(value));
  }
  return macros;
}

Result<std::vector<hal::SpirvModule::Constant>> native_specialization(
    std::string_view kernel, const Native& native, std::span<const Constant> constants) {
  std::vector<hal::SpirvModule::Constant> result;
  for (const Constant& constant : constants) {
    const auto id = index_in(native.constants, constant.name);
    if (!id && native.kind == NativeKind::glsl) continue;
    if (!id || std::holds_alternative<Dtype>(constant.value)) {
      return Failure(ErrorCode::usage,
                     fmt::format("kernel '{}': its native {} takes no constant {}; name it in "
                                 "Native::constants, where it is a number or a truth value",
                                 kernel, to_string(native.kind), shown(constant.name)));
    }
    const bool* const truth = std::get_if<bool>(&constant.value);
    const int64_t number = truth != nullptr ? int64_t{*truth} : std::get<int64_t>(constant.value);
    const bool narrow = number >= INT32_MIN && number <= int64_t{UINT32_MAX};
    result.push_back({*id, static_cast<uint64_t>(number), narrow ? 4U : 8U});
  }
  return result;
}

GeneratedKernel native_interface(const Definition& definition, const CallSignature& signature,
                                 const Native& native) {
  GeneratedKernel kernel;
  kernel.entry_point = native.entry_point;
  const FloatPragmas pragmas = float_pragmas_in(native.text);
  kernel.math = pragmas.safe_math ? MathMode::safe : definition.math;
  kernel.contracts = !pragmas.no_contraction;
  kernel.sources = {{definition.file.empty() ? definition.name : definition.file, native.text}};
  Interface& interface = kernel.interface;
  interface.has_launch_block = false;
  interface.cooperation = Cooperation::groups;
  if (native.bindings.empty()) {
    for (const auto* group : {&definition.inputs, &definition.in_place, &definition.outputs}) {
      for (const std::string& name : *group) interface.bindings.push_back(use_of(definition, name));
    }
  } else {
    for (const std::string& name : native.bindings) {
      interface.bindings.push_back(use_of(definition, name));
    }
  }
  Bytes end{};
  for (uint32_t i = 0; i < signature.params.size(); ++i) {
    const uint64_t size = size_of(signature.params[i].dtype).value;
    const Bytes offset{round_up(end.value, size)};
    interface.fields.push_back({FieldKind::param, i, 1, offset, {size}});
    end = offset + Bytes{size};
  }
  interface.parameter_bytes = end;
  return kernel;
}

}  // namespace holdfast::kernel
