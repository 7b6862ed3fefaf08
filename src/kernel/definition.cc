#include "holdfast/kernel/definition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "holdfast/base/shown.h"
#include "holdfast/kernel/names.h"
#include "holdfast/kernel/native.h"

namespace holdfast::kernel {
namespace {

constexpr size_t kMaxArguments = hal::kMaxBindings;
// Longer names make no file or symbol names.
constexpr size_t kMaxNameBytes = 128;

Failure fault(const Definition& definition, std::string_view sentence) {
  const std::string name =
      definition.name.empty() ? "a kernel without a name" : "kernel " + shown(definition.name);
  return Failure(ErrorCode::usage, fmt::format("{}: {}", name, sentence));
}

struct NamedArgument {
  std::string_view kind;
  const std::string& name;
};

std::vector<NamedArgument> arguments_of(const Definition& definition) {
  std::vector<NamedArgument> arguments;
  for (const std::string& name : definition.inputs) arguments.push_back({"input", name});
  for (const std::string& name : definition.in_place) {
    arguments.push_back({"in-place argument", name});
  }
  for (const std::string& name : definition.outputs) arguments.push_back({"output", name});
  return arguments;
}

std::optional<std::string> check_arguments(const std::vector<NamedArgument>& arguments) {
  std::map<std::string, std::string_view, std::less<>> taken;
  for (const NamedArgument& argument : arguments) {
    if (std::optional<std::string> reason = why_not_a_name(argument.name)) {
      return fmt::format("{} {}: {}", argument.kind, shown(argument.name), *reason);
    }
    const auto [at, added] = taken.emplace(argument.name, argument.kind);
    if (!added) {
      return at->second == argument.kind
                 ? fmt::format("{} {} is given twice", argument.kind, shown(argument.name))
                 : fmt::format("{} is both {} and {}; what is read and written goes into in_place",
                               shown(argument.name), at->second, argument.kind);
    }
  }
  // x_shape as an argument of its own would hide the shape of x.
  for (const NamedArgument& argument : arguments) {
    for (const std::string_view suffix : {"_shape", "_strides", "_ndim"}) {
      if (taken.contains(argument.name + std::string(suffix))) {
        return fmt::format("{} cannot be an argument: it is the {} of {}; rename one of them",
                           shown(argument.name + std::string(suffix)), suffix.substr(1),
                           shown(argument.name));
      }
    }
  }
  return std::nullopt;
}

// No GPU has more, and drivers count in 32 bits.
constexpr Bytes kMaxSharedMemory = 16_MiB;

std::optional<std::string> check_launch(const Native& native, const std::string& what) {
  const hal::Groups& cluster = native.cluster;
  if (!is_cuda(native.kind)) {
    const bool plain = native.shared_memory == Bytes{} && cluster == hal::Groups{};
    if (plain && !native.cooperative) return std::nullopt;
    return what +
           " cannot have shared_memory, a cluster or cooperative launches; they are for cuda, ptx "
           "and cubin";
  }
  if (cluster.count() == 0) {
    return fmt::format("{} has clusters of {} x {} x {} groups, which is none; correct cluster",
                       what, cluster.x, cluster.y, cluster.z);
  }
  if (native.shared_memory > kMaxSharedMemory) {
    return fmt::format("{} has {} of shared_memory, more than any GPU", what,
                       to_string(native.shared_memory));
  }
  return std::nullopt;
}

bool takes_text(NativeKind kind) { return kind != NativeKind::spirv && kind != NativeKind::cubin; }

std::optional<std::string> check_native(const Native& native,
                                        const std::vector<NamedArgument>& arguments) {
  const std::string what = fmt::format("native {}", to_string(native.kind));
  if (takes_text(native.kind) && native.text.empty()) return what + " has no text";
  if (takes_text(native.kind) && !native.module.empty()) {
    return what + " is text, but a module is given";
  }
  if (!takes_text(native.kind) && native.module.empty()) return what + " has no module";
  if (!takes_text(native.kind) && !native.text.empty()) {
    return what + " is a module, but text is given";
  }
  if (native.entry_point.empty()) return what + " has no entry point";
  if (native.threadgroup && native.threadgroup->empty()) {
    return fmt::format(
        "{} has groups of {} x {} x {} threads, which is none; correct threadgroup, or "
        "leave it out",
        what, native.threadgroup->x, native.threadgroup->y, native.threadgroup->z);
  }
  if (auto sentence = check_launch(native, what)) return sentence;
  if (native.bindings.empty()) return std::nullopt;
  std::set<std::string_view> bound;
  std::vector<std::string_view> known;
  for (const NamedArgument& argument : arguments) known.push_back(argument.name);
  for (const std::string& name : native.bindings) {
    if (std::ranges::find(known, name) == known.end()) {
      return fmt::format("{} binds {}, which is no argument of the kernel{}", what, shown(name),
                         did_you_mean(name, known));
    }
    if (!bound.insert(name).second) return fmt::format("{} binds {} twice", what, shown(name));
  }
  for (const std::string_view name : known) {
    if (!bound.contains(name)) return fmt::format("{} does not bind {}", what, shown(name));
  }
  return std::nullopt;
}

}  // namespace

const char* to_string(NativeKind kind) {
  switch (kind) {
    case NativeKind::cpp: return "cpp";
    case NativeKind::cuda: return "cuda";
    case NativeKind::glsl: return "glsl";
    case NativeKind::spirv: return "spirv";
    case NativeKind::ptx: return "ptx";
    case NativeKind::cubin: return "cubin";
  }
  return "unknown";
}

Failure check(const Definition& definition) {
  if (definition.name.empty())
    return fault(definition, "give it a name: messages and traces use it");
  if (!is_identifier(definition.name) || definition.name.size() > kMaxNameBytes) {
    return Failure(ErrorCode::usage,
                   fmt::format("kernel {}: the name must be letters, digits and underscores, must "
                               "not begin with a digit, and has at most {} characters",
                               shown(definition.name), kMaxNameBytes));
  }
  if (definition.outputs.empty() && definition.in_place.empty()) {
    return fault(definition, "it has no output; name what it writes in outputs or in_place");
  }
  if (definition.atomic_outputs && definition.outputs.empty()) {
    return fault(definition, "atomic_outputs is set, but it has no outputs");
  }
  const std::vector<NamedArgument> arguments = arguments_of(definition);
  if (arguments.size() > kMaxArguments) {
    return fault(definition, fmt::format("it has {} arguments; at most {} are possible",
                                         arguments.size(), kMaxArguments));
  }
  if (const auto sentence = check_arguments(arguments)) return fault(definition, *sentence);
  const auto blank = [](std::string_view text) {
    return text.find_first_not_of(" \t\r\n\f\v") == text.npos;
  };
  if (blank(definition.source) && definition.natives.empty()) {
    return fault(definition,
                 definition.file.empty()
                     ? "it has no body; give source, a file or a native"
                     : fmt::format("the file {} has no body", shown(definition.file, 256)));
  }
  if (definition.source.find('\0') != std::string::npos ||
      definition.header.find('\0') != std::string::npos) {
    return fault(definition, "its text has a zero byte");
  }
  std::set<NativeKind> kinds;
  for (const Native& native : definition.natives) {
    if (const auto sentence = check_native(native, arguments)) return fault(definition, *sentence);
    if (!kinds.insert(native.kind).second) {
      return fault(definition, fmt::format("native {} is given twice", to_string(native.kind)));
    }
  }
  return {};
}

}  // namespace holdfast::kernel
