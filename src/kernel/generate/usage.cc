#include "holdfast/kernel/generate/usage.h"

#include <algorithm>
#include <optional>

#include "holdfast/base/rounding.h"
#include "holdfast/kernel/generate/literals.h"

namespace holdfast::kernel {
namespace {

constexpr std::array kPlaces = {
    Place{"thread_position_in_grid", "uint3", Cooperation::none},
    Place{"threads_per_grid", "uint3", Cooperation::none},
    Place{"grid_size", "uint3", Cooperation::none},
    Place{"grid_origin", "uint3", Cooperation::none},
    Place{"threadgroups_per_grid", "uint3", Cooperation::none},
    Place{"dispatch_threads_per_threadgroup", "uint3", Cooperation::none},
    Place{"dispatch_simdgroups_per_threadgroup", "uint", Cooperation::none},
    Place{"threads_per_simdgroup", "uint", Cooperation::none},
    Place{"thread_execution_width", "uint", Cooperation::none},
    Place{"thread_position_in_threadgroup", "uint3", Cooperation::groups},
    Place{"threadgroup_position_in_grid", "uint3", Cooperation::groups},
    Place{"threads_per_threadgroup", "uint3", Cooperation::groups},
    Place{"simdgroups_per_threadgroup", "uint", Cooperation::groups},
    Place{"thread_index_in_threadgroup", "uint", Cooperation::groups},
    Place{"thread_index_in_simdgroup", "uint", Cooperation::groups},
    Place{"simdgroup_index_in_threadgroup", "uint", Cooperation::groups},
    Place{"quadgroups_per_threadgroup", "uint", Cooperation::groups},
    Place{"thread_index_in_quadgroup", "uint", Cooperation::groups},
    Place{"quadgroup_index_in_threadgroup", "uint", Cooperation::groups},
};

constexpr std::string_view kMeetings[] = {
    "threadgroup_barrier",
    "simdgroup_barrier",
    "simd_sum",
    "simd_product",
    "simd_max",
    "simd_min",
    "simd_and",
    "simd_or",
    "simd_xor",
    "simd_prefix_exclusive_sum",
    "simd_prefix_inclusive_sum",
    "simd_prefix_exclusive_product",
    "simd_prefix_inclusive_product",
    "simd_shuffle",
    "simd_shuffle_down",
    "simd_shuffle_up",
    "simd_shuffle_xor",
    "simd_shuffle_rotate_down",
    "simd_shuffle_rotate_up",
    "simd_broadcast",
    "simd_broadcast_first",
    "simd_all",
    "simd_any",
    "simd_ballot",
    "simd_is_first",
    "simd_shuffle_and_fill_down",
    "simd_shuffle_and_fill_up",
    "simdgroup_load",
    "simdgroup_store",
    "simdgroup_multiply",
    "simdgroup_multiply_accumulate",
    "simdgroup_matrix",
    "simdgroup_float8x8",
    "simdgroup_half8x8",
    "simdgroup_bfloat8x8",
    "make_filled_simdgroup_matrix",
};

// Operations of a quadgroup all begin like this; nothing else that kernels have does.
constexpr std::string_view kQuad = "quad_";

constexpr std::array<std::string_view, 13> kVectorElements = {
    "float", "half",  "bfloat", "int",   "uint", "short", "ushort",
    "char",  "uchar", "long",   "ulong", "bool", "double"};

bool is_swizzle(std::string_view member) {
  if (member.empty() || member.size() > 4) return false;
  const auto all_of = [&](std::string_view letters) {
    return member.find_first_not_of(letters) == member.npos;
  };
  return all_of("rgba") || (member.size() > 1 && all_of("xyzw"));
}

// The names of the function templates that a header declares: the last identifier before the first
// parenthesis after `template <...>`.
std::set<std::string, std::less<>> function_templates(std::span<const Token> tokens) {
  std::set<std::string, std::less<>> found;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].text != "template") continue;
    std::string_view last;
    int depth = 0;
    for (size_t j = i + 1; j < tokens.size(); ++j) {
      const std::string_view text = tokens[j].text;
      if (text == "<") ++depth;
      if (text == ">" && depth > 0) --depth;
      if (depth > 0) continue;
      if (text == ";" || text == "{" || text == "=") break;
      if (text == "(") {
        if (!last.empty()) found.emplace(last);
        break;
      }
      if (tokens[j].kind == TokenKind::identifier) last = text;
    }
  }
  return found;
}

// What stands, as a name that is not indexed at once, in the parentheses of a call of one of the
// functions.
std::set<std::string, std::less<>> passed_to(const std::set<std::string, std::less<>>& functions,
                                             std::span<const Token> tokens) {
  std::set<std::string, std::less<>> found;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].kind != TokenKind::identifier || !functions.contains(tokens[i].text)) continue;
    size_t j = i + 1;
    while (j < tokens.size() && tokens[j].text != "(" && tokens[j].text != ";") ++j;
    int depth = 0;
    for (; j < tokens.size(); ++j) {
      if (tokens[j].text == "(") ++depth;
      if (tokens[j].text == ")" && --depth <= 0) break;
      if (tokens[j].text == ";") break;
      const bool indexed = j + 1 < tokens.size() && tokens[j + 1].text == "[";
      if (tokens[j].kind == TokenKind::identifier && !tokens[j].member && !indexed) {
        found.emplace(tokens[j].text);
      }
    }
  }
  return found;
}

// The identifiers on the lines #if, #ifdef, #ifndef, #elif and #elifdef.
std::set<std::string, std::less<>> in_conditions(std::span<const Token> tokens) {
  std::set<std::string, std::less<>> found;
  bool condition = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!tokens[i].in_directive) {
      condition = false;
    } else if (tokens[i].text == "#" && i + 1 < tokens.size()) {
      const std::string_view word = tokens[i + 1].text;
      condition = word.starts_with("if") || word.starts_with("elif");
      ++i;
    } else if (condition && tokens[i].kind == TokenKind::identifier) {
      found.emplace(tokens[i].text);
    }
  }
  return found;
}

}  // namespace

std::span<const Place> places() { return kPlaces; }

bool is_vector_type(std::string_view name) {
  if (name.size() < 2) return false;
  const char width = name.back();
  if (width < '2' || width > '4') return false;
  name.remove_suffix(1);
  return std::ranges::find(kVectorElements, name) != kVectorElements.end();
}

bool is_bfloat_literal(const Token& token) {
  // In 0xbf, b is a digit.
  return token.kind == TokenKind::number && token.text.ends_with("bf") &&
         !token.text.starts_with("0x") && !token.text.starts_with("0X");
}

Usage usage_of(const Definition& definition, const CallSignature& signature) {
  Usage usage;
  const std::vector<Token> header = tokenize(definition.header);
  const std::vector<Token> body = tokenize(definition.source);
  usage.names = names_in(definition.header);
  Names in_body = names_in(definition.source);
  usage.names.identifiers.merge(in_body.identifiers);
  usage.names.members.merge(in_body.members);
  usage.names.in_directives.merge(in_body.in_directives);

  const std::set<std::string, std::less<>> passed = passed_to(function_templates(header), body);
  const auto add = [&](std::span<const std::string> names, std::span<const ArgumentType> types,
                       ArgumentGroup group, hal::Access access) {
    for (size_t i = 0; i < names.size() && i < types.size(); ++i) {
      ArgumentUse use;
      use.name = names[i];
      use.type = types[i];
      use.binding = {group, static_cast<uint32_t>(i), access};
      use.scalar = group == ArgumentGroup::input && types[i].rank == 0;
      use.atomic = group == ArgumentGroup::output && definition.atomic_outputs;
      use.shape = usage.uses(names[i] + "_shape");
      use.strides = usage.uses(names[i] + "_strides");
      use.ndim = usage.uses(names[i] + "_ndim");
      use.passed_to_template = passed.contains(names[i]);
      usage.arguments.push_back(std::move(use));
    }
  };
  add(definition.inputs, signature.inputs, ArgumentGroup::input, hal::Access::read);
  add(definition.in_place, signature.in_place, ArgumentGroup::in_place, hal::Access::read_write);
  add(definition.outputs, signature.outputs, ArgumentGroup::output,
      definition.atomic_outputs ? hal::Access::read_write : hal::Access::write);

  for (const Place& place : kPlaces) {
    if (!usage.uses(place.name)) continue;
    usage.places.push_back(place.name);
    usage.cooperation = std::max(usage.cooperation, place.needs);
  }
  if (usage.uses("threadgroup")) {
    usage.cooperation = std::max(usage.cooperation, Cooperation::groups);
  }
  for (const auto* tokens : {&header, &body}) {
    usage.bfloat_literals |= std::ranges::any_of(*tokens, is_bfloat_literal);
  }
  const auto is_quad = [](const std::string& name) { return name.starts_with(kQuad); };
  usage.quads = std::ranges::any_of(usage.names.identifiers, is_quad);
  if (usage.quads ||
      std::ranges::any_of(kMeetings, [&](std::string_view name) { return usage.uses(name); })) {
    usage.cooperation = Cooperation::barriers;
  }

  usage.threadgroup_macros =
      threadgroup_macros(definition.source, threadgroup_macros(definition.header));
  usage.pasting_macros = pasting_macros(definition.header);
  usage.pasting_macros.merge(pasting_macros(definition.source));
  for (const std::string& name : usage.names.identifiers) {
    if (is_vector_type(name)) usage.vector_types.insert(name);
  }
  for (const std::string& name : usage.names.members) {
    if (is_swizzle(name)) usage.swizzles.insert(name);
  }
  const std::set<std::string, std::less<>> conditions = in_conditions(header);
  for (const Constant& constant : signature.constants) {
    // A type on a preprocessor line is part of a macro, and known where that is used.
    if (std::holds_alternative<Dtype>(constant.value)) continue;
    if (!usage.names.in_directives.contains(constant.name)) continue;
    usage.macro_constants.insert(constant.name);
    if (conditions.contains(constant.name)) usage.header_macro_constants.insert(constant.name);
  }
  return usage;
}

Interface interface_of(const Usage& usage, const CallSignature& signature) {
  Interface interface;
  interface.cooperation = usage.cooperation;
  uint64_t end = sizeof(LaunchBlock);
  const auto add = [&](FieldKind kind, size_t index, uint32_t count, uint64_t element) {
    end = round_up<uint64_t>(end, element);
    const uint64_t size = count * element;
    interface.fields.push_back(
        {kind, static_cast<uint32_t>(index), count, Bytes{end}, Bytes{size}});
    end += size;
  };
  for (size_t i = 0; i < usage.arguments.size(); ++i) {
    const ArgumentUse& use = usage.arguments[i];
    interface.bindings.push_back(use.binding);
    if (use.strides) add(FieldKind::strides, i, use.type.rank, sizeof(int64_t));
    if (use.shape) add(FieldKind::shape, i, use.type.rank, sizeof(int32_t));
  }
  for (size_t i = 0; i < signature.params.size(); ++i) {
    add(FieldKind::param, i, 1, size_of(signature.params[i].dtype).value);
  }
  // Devices take parameters in words.
  interface.parameter_bytes = Bytes{round_up<uint64_t>(end, 8)};
  return interface;
}

}  // namespace holdfast::kernel
