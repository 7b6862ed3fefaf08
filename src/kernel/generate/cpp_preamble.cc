#include "holdfast/kernel/generate/cpp_preamble.h"

#include <embedded/kernel_text.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace holdfast::kernel {
namespace {

using Words = std::span<const std::string_view>;

constexpr auto kMath = std::to_array<std::string_view>(
    {"exp",   "exp2",     "exp10",    "expm1",  "log",     "log2",   "log10",    "log1p",
     "sqrt",  "cbrt",     "erf",      "erfc",   "sin",     "cos",    "tan",      "sinh",
     "cosh",  "tanh",     "asin",     "acos",   "atan",    "asinh",  "acosh",    "atanh",
     "floor", "ceil",     "round",    "rint",   "trunc",   "fabs",   "rsqrt",    "sinpi",
     "cospi", "fract",    "saturate", "atan2",  "pow",     "fmod",   "copysign", "fdim",
     "powr",  "fmin",     "fmax",     "step",   "fdivide", "divide", "ldexp",    "isnan",
     "isinf", "isfinite", "isnormal", "signbit"});
constexpr auto kCommonFunctions = std::to_array<std::string_view>({"min",        "max",
                                                                   "min3",       "max3",
                                                                   "clamp",      "abs",
                                                                   "absdiff",    "sign",
                                                                   "fma",        "mix",
                                                                   "smoothstep", "select",
                                                                   "popcount",   "clz",
                                                                   "ctz",        "reverse_bits",
                                                                   "rotate",     "mulhi",
                                                                   "mad24",      "mul24",
                                                                   "sincos",     "modf",
                                                                   "frexp",      "dot",
                                                                   "length",     "length_squared",
                                                                   "distance",   "distance_squared",
                                                                   "normalize",  "cross",
                                                                   "reflect",    "all",
                                                                   "any",        "extract_bits",
                                                                   "insert_bits"});
constexpr auto kTraits = std::to_array<std::string_view>(
    {"integral_constant", "bool_constant",    "true_type",      "false_type",
     "conditional",       "enable_if",        "void_t",         "remove_const",
     "remove_volatile",   "remove_cv",        "remove_cvref",   "remove_pointer",
     "remove_extent",     "remove_reference", "decay",          "add_const",
     "is_floating_point", "is_integral",      "is_pointer",     "is_arithmetic",
     "is_scalar",         "is_class",         "is_enum",        "is_empty",
     "is_const",          "is_reference",     "is_void",        "is_signed",
     "is_unsigned",       "is_same",          "is_convertible", "ceildiv"});
constexpr auto kSimdMatrices = std::to_array<std::string_view>(
    {"simdgroup_matrix", "simdgroup_float8x8", "simdgroup_half8x8", "simdgroup_bfloat8x8",
     "make_filled_simdgroup_matrix", "simdgroup_load", "simdgroup_store", "simdgroup_multiply",
     "simdgroup_multiply_accumulate"});
constexpr auto kConstants = std::to_array<std::string_view>(
    {"INFINITY",    "NAN",      "HUGE_VALF", "MAXFLOAT",     "FLT_MAX",  "FLT_MIN",
     "FLT_EPSILON", "HALF_MAX", "HALF_MIN",  "HALF_EPSILON", "M_E_F",    "M_LOG2E_F",
     "M_LOG10E_F",  "M_LN2_F",  "M_LN10_F",  "M_PI_F",       "M_PI_2_F", "M_PI_4_F",
     "M_1_PI_F",    "M_2_PI_F", "M_SQRT2_F", "M_SQRT1_2_F",  "CHAR_MAX", "CHAR_MIN",
     "UCHAR_MAX",   "SHRT_MAX", "SHRT_MIN",  "USHRT_MAX",    "INT_MAX",  "INT_MIN",
     "UINT_MAX",    "LONG_MAX", "LONG_MIN",  "ULONG_MAX"});
constexpr auto kDebug = std::to_array<std::string_view>({"assert", "printf"});
constexpr auto kBfloat =
    std::to_array<std::string_view>({"bfloat", "bfloat16_t", "bfloat2", "bfloat3", "bfloat4"});

bool uses_any(const Usage& usage, Words words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return usage.uses(word); });
}

// Traits have names for their values and types, too.
bool uses_traits(const Usage& usage) {
  const auto is_trait = [](std::string_view name) {
    return std::ranges::find(kTraits, name) != kTraits.end();
  };
  return std::ranges::any_of(usage.names.identifiers, [&](std::string_view name) {
    const bool suffixed = name.ends_with("_v") || name.ends_with("_t");
    return is_trait(name) || (suffixed && is_trait(name.substr(0, name.size() - 2)));
  });
}

// float2x2, half4x3 and so on.
bool is_matrix_type(std::string_view name) {
  for (const std::string_view element : {"float", "half"}) {
    if (!name.starts_with(element)) continue;
    const std::string_view rest = name.substr(element.size());
    const auto is_length = [](char c) { return c >= '2' && c <= '4'; };
    return rest.size() == 3 && is_length(rest[0]) && rest[1] == 'x' && is_length(rest[2]);
  }
  return name == "matrix";
}

bool has_bfloat(const CallSignature& signature) {
  const auto is = [](const auto& typed) { return typed.dtype == Dtype::bfloat16; };
  return std::ranges::any_of(signature.inputs, is) || std::ranges::any_of(signature.outputs, is) ||
         std::ranges::any_of(signature.in_place, is) || std::ranges::any_of(signature.params, is) ||
         std::ranges::any_of(signature.constants, [](const Constant& constant) {
           const Dtype* dtype = std::get_if<Dtype>(&constant.value);
           return dtype && *dtype == Dtype::bfloat16;
         });
}

}  // namespace

std::string swizzle_macros(const Usage& usage) {
  std::string text = "#define hf_has_swizzles\n";
  for (size_t width = 2; width <= 4; ++width) {
    text += fmt::format("#define hf_swizzles_{}", width);
    for (const std::string& name : usage.swizzles) {
      std::string indices;
      bool fits = true;
      for (const char letter : name) {
        size_t at = std::string_view("xyzw").find(letter);
        if (at == std::string_view::npos) at = std::string_view("rgba").find(letter);
        fits = fits && at < width;
        indices += fmt::format(", {}", at);
      }
      if (!fits) continue;
      if (name.size() == 1) {
        // A plain element: where it lies, without a conversion.
        text += " struct {";
        for (size_t i = 0; i < std::string_view("rgba").find(name[0]); ++i) {
          text += fmt::format(" T hf_before_{}{};", name, i);
        }
        text += fmt::format(" T {}; }};", name);
      } else {
        text +=
            fmt::format(" hf_swizzle<hf_vec<T, {}>, {}{}> {};", name.size(), width, indices, name);
      }
    }
    text += '\n';
  }
  return text;
}

void append_code(std::string& text, std::string_view file) {
  std::string_view rest = embedded::kernel_text(file);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1);
    const std::string_view line = rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
    const size_t first = line.find_first_not_of(" \t\n");
    if (first == line.npos) continue;
    const std::string_view content = line.substr(first);
    if (content.starts_with("//") || content.starts_with("#pragma once")) continue;
    text += line;
  }
}

CppParts cpp_parts(const CallSignature& signature, const Usage& usage, bool bounds) {
  CppParts parts;
  const auto any_name = [&](const auto& is) {
    return std::ranges::any_of(usage.names.identifiers, is);
  };
  parts.bfloat = has_bfloat(signature) || uses_any(usage, kBfloat) || usage.bfloat_literals ||
                 any_name([](const std::string& name) { return name.ends_with("bfloat8x8"); });
  parts.packed = any_name([](const std::string& name) { return name.starts_with("packed_"); });
  parts.matrices = any_name(is_matrix_type);
  parts.simd_matrices = uses_any(usage, kSimdMatrices);
  parts.quads = usage.quads;
  parts.traits = uses_traits(usage);
  const bool vector_place = std::ranges::any_of(places(), [&](const Place& place) {
    return place.type == "uint3" && usage.uses(place.name);
  });
  parts.vectors = vector_place || !usage.vector_types.empty() || usage.uses("vec") ||
                  parts.packed || parts.matrices || parts.simd_matrices;
  parts.swizzles = parts.vectors && !usage.swizzles.empty();
  parts.simd = usage.cooperation == Cooperation::barriers;
  // Reductions name max and min.
  parts.common = parts.simd || uses_any(usage, kCommonFunctions);
  parts.math = parts.common || uses_any(usage, kMath);
  parts.constants = uses_any(usage, kConstants);
  parts.limits = usage.uses("numeric_limits") || usage.uses("Limits");
  parts.atomics =
      std::ranges::any_of(usage.arguments, [](const ArgumentUse& use) { return use.atomic; }) ||
      std::ranges::any_of(usage.names.identifiers, [](const std::string& name) {
        return name.starts_with("atomic") || name.starts_with("memory_order");
      });
  parts.debug = uses_any(usage, kDebug);
  parts.bounds = bounds;
  parts.groups = usage.cooperation != Cooperation::none;
  parts.host = parts.simd || parts.debug || parts.bounds;
  return parts;
}

void append_types_and_math(std::string& text, const CppParts& parts, const Usage& usage) {
  if (parts.bfloat) append_code(text, "cpp_bfloat.h");
  if (parts.swizzles) text += swizzle_macros(usage);
  if (parts.vectors) append_code(text, "cpp_vector.h");
  if (parts.packed) append_code(text, "cpp_packed.h");
  if (parts.matrices) append_code(text, "cpp_matrix.h");
  if (parts.traits) append_code(text, "cpp_traits.h");
  if (parts.math) append_code(text, "cpp_math.h");
  if (parts.common) append_code(text, "cpp_common.h");
  if (parts.constants) append_code(text, "cpp_constants.h");
  if (parts.limits) append_code(text, "cpp_limits.h");
}

void append_meetings_and_checks(std::string& text, const CppParts& parts, const TargetPieces& own) {
  if (parts.simd || parts.atomics) append_code(text, "cpp_fence.h");
  if (parts.simd) {
    append_code(text, "cpp_simd.h");
    append_code(text, own.simd);
    append_code(text, "cpp_simd_names.h");
    if (parts.quads) append_code(text, "cpp_quad.h");
    if (parts.simd_matrices) append_code(text, "cpp_simd_matrix.h");
  }
  if (parts.atomics) {
    append_code(text, "cpp_atomic.h");
    append_code(text, own.atomic);
  }
  if (parts.bounds) append_code(text, "cpp_bounds.h");
  if (parts.debug) append_code(text, "cpp_debug.h");
}

}  // namespace holdfast::kernel
