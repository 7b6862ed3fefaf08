#include "holdfast/kernel/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>

#include "holdfast/base/shown.h"
#include "holdfast/kernel/generate/tokens.h"
#include "holdfast/kernel/names.h"

namespace holdfast::kernel {
namespace {

Failure call_fault(const Definition& definition, std::string_view sentence) {
  return Failure(ErrorCode::usage, fmt::format("kernel {}: {}", shown(definition.name), sentence));
}

std::string counted(size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// Without quotes; only a long one is cut.
std::string short_name(const std::string& name) { return name.size() > 64 ? shown(name) : name; }

std::string list_of(std::span<const std::string> names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + short_name(name);
  return list;
}

std::optional<std::string> check_group(std::string_view kind, std::span<const std::string> names,
                                       std::span<const ArgumentType> types) {
  if (names.size() != types.size()) {
    return fmt::format("it has {}{}{}, but {} given", counted(names.size(), kind),
                       names.empty() ? "" : ": ", list_of(names),
                       types.size() == 1 ? "1 is" : fmt::format("{} are", types.size()));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].rank > kMaxRank) {
      return fmt::format("{} {} has {} dimensions; at most {} are possible", kind, shown(names[i]),
                         types[i].rank, kMaxRank);
    }
  }
  return std::nullopt;
}

// A finished module shows no names, and PTX none of its author's.
bool is_opaque(const Definition& definition) {
  return std::ranges::any_of(definition.natives, [](const Native& native) {
    return !native.module.empty() || native.kind == NativeKind::ptx;
  });
}

// All names that the definition's text has, that of its natives included.
Names names_of(const Definition& definition) {
  Names names = names_in(definition.header);
  names.identifiers.merge(names_in(definition.source).identifiers);
  for (const Native& native : definition.natives) {
    names.identifiers.merge(names_in(native.text).identifiers);
    names.identifiers.insert(native.constants.begin(), native.constants.end());
  }
  return names;
}

bool is_argument(const Definition& definition, std::string_view name) {
  for (const auto* names : {&definition.inputs, &definition.in_place, &definition.outputs}) {
    for (const std::string& argument : *names) {
      if (name == argument) return true;
      if (name.starts_with(argument)) {
        const std::string_view rest = name.substr(argument.size());
        if (rest == "_shape" || rest == "_strides" || rest == "_ndim") return true;
      }
    }
  }
  return false;
}

void append_arguments(std::string& text, std::span<const std::string> names,
                      std::span<const ArgumentType> types, std::string_view note = "") {
  for (size_t i = 0; i < names.size() && i < types.size(); ++i) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{}: {}[{}]{}", short_name(names[i]), to_string(types[i].dtype),
                        types[i].rank, note);
  }
}

std::string to_string(const ConstantValue& value) {
  if (const bool* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const Dtype* dtype = std::get_if<Dtype>(&value)) return kernel::to_string(*dtype);
  return fmt::format("{}", std::get<int64_t>(value));
}

}  // namespace

Failure check(const Definition& definition, const CallSignature& signature) {
  if (const auto s = check_group("input", definition.inputs, signature.inputs)) {
    return call_fault(definition, *s);
  }
  if (const auto s = check_group("in-place argument", definition.in_place, signature.in_place)) {
    return call_fault(definition, *s);
  }
  if (const auto s = check_group("output", definition.outputs, signature.outputs)) {
    return call_fault(definition, *s);
  }
  std::vector<std::string_view> constants;
  std::vector<std::string_view> params;
  for (const Constant& constant : signature.constants) constants.push_back(constant.name);
  for (const ParamType& param : signature.params) params.push_back(param.name);
  return check_names(definition, constants, params);
}

Failure check_names(const Definition& definition, std::span<const std::string_view> constants,
                    std::span<const std::string_view> params) {
  if (constants.empty() && params.empty()) return {};
  const Names names = names_of(definition);
  std::set<std::string_view> given;
  const auto check_name = [&](std::string_view kind,
                              std::string_view name) -> std::optional<std::string> {
    if (const auto reason = why_not_a_name(name)) {
      return fmt::format("{} {}: {}", kind, shown(name), *reason);
    }
    if (is_argument(definition, name)) {
      return fmt::format("{} {}: the name is an argument's; rename it", kind, shown(name));
    }
    if (!given.insert(name).second) {
      return fmt::format("{} {}: the name is given twice among constants and params", kind,
                         shown(name));
    }
    return std::nullopt;
  };
  for (const std::string_view constant : constants) {
    if (const auto s = check_name("constant", constant)) return call_fault(definition, *s);
  }
  for (const std::string_view param : params) {
    if (const auto s = check_name("param", param)) return call_fault(definition, *s);
    if (is_opaque(definition) || names.identifiers.contains(std::string(param))) continue;
    std::vector<std::string_view> known;
    for (const std::string& name : names.identifiers) {
      if (!is_reserved(name) && !is_argument(definition, name)) known.push_back(name);
    }
    return call_fault(definition,
                      fmt::format("param {} is unknown: neither body nor header uses the name{}",
                                  shown(param), did_you_mean(param, known)));
  }
  return {};
}

std::vector<const Constant*> unused_constants(const Definition& definition,
                                              const CallSignature& signature) {
  std::vector<const Constant*> unused;
  if (signature.constants.empty() || is_opaque(definition)) return unused;
  const Names names = names_of(definition);
  for (const Constant& constant : signature.constants) {
    if (!names.identifiers.contains(constant.name)) unused.push_back(&constant);
  }
  return unused;
}

std::string describe(const Definition& definition, const CallSignature& signature) {
  std::string text;
  append_arguments(text, definition.inputs, signature.inputs);
  append_arguments(text, definition.in_place, signature.in_place, " in place");
  std::string outputs;
  append_arguments(outputs, definition.outputs, signature.outputs);
  if (!outputs.empty()) text += (text.empty() ? "-> " : " -> ") + outputs;
  std::string_view separator = "; ";
  for (const Constant& constant : signature.constants) {
    text +=
        fmt::format("{}{} = {}", separator, short_name(constant.name), to_string(constant.value));
    separator = ", ";
  }
  separator = "; ";
  for (const ParamType& param : signature.params) {
    text +=
        fmt::format("{}{}: {}", separator, short_name(param.name), kernel::to_string(param.dtype));
    separator = ", ";
  }
  return text;
}

}  // namespace holdfast::kernel
