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

}  // namespace

Macros native_macros(std::span<const Constant> constants, const DtypeNames& types) {
  Macros macros;
  for (const Constant& constant : constants) {
    std::string value;
    if (const bool* truth = std::get_if<bool>(&constant.value)) {
      value = *truth ? "1" : "0";
    } else if (const Dtype* dtype = std::get_if<Dtype>(&constant.value)) {
      value = types[static_cast<size_t>(*dtype)];
    } else {
      value = fmt::format("({})", std::get<int64_t>(constant.value));
    }
    macros.emplace_back(constant.name, std::move(value));
  }
  return macros;
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
  if (is_cuda(native.kind)) {
    interface.cluster = native.cluster;
    end = Bytes{round_up<uint64_t>(end.value, 8)};
    if (!native.threadgroup) {
      interface.fields.push_back({FieldKind::threadgroup, 0, 3, end, Bytes{12}});
      end = end + Bytes{16};
    }
  }
  interface.parameter_bytes = end;
  return kernel;
}

}  // namespace holdfast::kernel
