#include "holdfast/kernel/unsupported.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <vector>

#include "holdfast/kernel/generate/tokens.h"

namespace holdfast::kernel {
namespace {

struct Feature {
  std::span<const std::string_view> names;
  std::string_view sentence;
};

constexpr std::string_view kTextures[] = {
    "texture1d",     "texture1d_array", "texture2d",      "texture2d_array",   "texture2d_ms",
    "texture3d",     "texturecube",     "texture_buffer", "texturecube_array", "depth2d",
    "depth2d_array", "depthcube",       "sampler"};
constexpr std::string_view kRays[] = {
    "intersector",        "acceleration_structure",      "instance_acceleration_structure",
    "intersection_query", "intersection_function_table", "visible_function_table"};
constexpr std::string_view kShaders[] = {
    "vertex", "fragment", "stage_in",   "discard_fragment",      "dfdx",
    "dfdy",   "fwidth",   "imageblock", "threadgroup_imageblock"};
constexpr std::string_view kSignatures[] = {"kernel", "host_name"};
constexpr std::string_view kFunctionConstants[] = {"function_constant",
                                                   "is_function_constant_defined"};
constexpr std::string_view kAsyncCopies[] = {"simdgroup_async_copy", "simdgroup_event",
                                             "simdgroup_future", "__metal_simdgroup_async_copy_2d"};
constexpr std::string_view kComplex[] = {"complex64_t"};
constexpr std::string_view kLogs[] = {"os_log", "os_log_default"};
constexpr std::string_view kTensors[] = {"tensor_handle", "matmul2d", "cooperative_tensor"};

constexpr Feature kFeatures[] = {
    {kTextures, "textures; pass the elements as an array and index it"},
    {kRays, "ray tracing"},
    {kShaders, "stages of rendering; a kernel computes, so write its result to an output"},
    {kSignatures,
     "signatures; write the body alone: arguments are known in it by the names of the call"},
    {kFunctionConstants, "function constants; give constants with the call (template in Python)"},
    {kAsyncCopies,
     "asynchronous copies of simdgroups; let all threads copy, then call threadgroup_barrier"},
    {kComplex, "complex numbers; use float2 for the real and the imaginary part"},
    {kLogs, "logs of the system; use printf on the CPU, or write to an output"},
    {kTensors, "tensors; use simdgroup_matrix, or a native for the device"},
};

constexpr std::string_view kSpaces[] = {"device", "thread", "threadgroup", "constant"};

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

// float8, half16.
bool is_long_vector(std::string_view name) {
  constexpr std::string_view kElements[] = {"float",  "half", "bfloat", "int",  "uint", "short",
                                            "ushort", "char", "uchar",  "long", "ulong"};
  for (const std::string_view width : {"8", "16"}) {
    if (!name.ends_with(width)) continue;
    if (is_among(name.substr(0, name.size() - width.size()), kElements)) return true;
  }
  return false;
}

// Whether a compiler says that there is no such name.
bool says_unknown(std::string_view words) {
  constexpr std::string_view kPhrases[] = {
      "not declared", "undeclared",        "does not name a type", "unknown",
      "is undefined", "no template named", "not a template",       "no member named"};
  return std::ranges::any_of(
      kPhrases, [&](std::string_view phrase) { return words.find(phrase) != words.npos; });
}

// As a whole word.
bool names(std::string_view words, std::string_view name) {
  const auto is_letter = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  for (size_t at = words.find(name); at != words.npos; at = words.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !is_letter(words[at - 1])) && (end == words.size() || !is_letter(words[end]))) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<Unsupported> unsupported_in(std::string_view line, std::string_view words) {
  const std::vector<Token> tokens = tokenize(line);
  bool names_space = false;
  for (const Token& token : tokens) {
    if (token.kind != TokenKind::identifier || token.member) continue;
    names_space |= is_among(token.text, kSpaces);
    // Of authors' own names, compilers complain about others.
    if (!says_unknown(words) || !names(words, token.text)) continue;
    for (const Feature& feature : kFeatures) {
      if (!is_among(token.text, feature.names)) continue;
      return Unsupported{std::string(token.text),
                         "not supported: " + std::string(feature.sentence)};
    }
    if (is_long_vector(token.text)) {
      return Unsupported{std::string(token.text),
                         "not supported: vectors of more than four elements; use several"};
    }
  }
  const auto says = [&](std::string_view part) { return words.find(part) != words.npos; };
  const bool is_function = line.find('(') != line.npos;
  if (names_space && is_function &&
      (says("redefinition") || says("cannot be overloaded") || says("already been defined") ||
       says("cannot be redeclared"))) {
    return Unsupported{"",
                       "not supported: functions that differ in device, thread, threadgroup "
                       "and constant pointers alone; give them other names, or write one "
                       "template"};
  }
  return {};
}

}  // namespace holdfast::kernel
