#pragma once

#include <array>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/kernel/generate/generate.h"
#include "holdfast/kernel/generate/tokens.h"

namespace holdfast::kernel {

// What targets need to know of a call before they write text.

// Names that a body may use for its place in the grid, in the order in which they are declared.
struct Place {
  std::string_view name;
  std::string_view type;  // "uint3" or "uint"
  Cooperation needs;      // at least
};
std::span<const Place> places();
bool is_vector_type(std::string_view name);

struct ArgumentUse {
  std::string name{};
  ArgumentType type{};
  BindingUse binding{};
  bool scalar = false;  // a 0-d input: a plain value in the body
  bool atomic = false;
  bool shape = false;  // whether the body or the header uses NAME_shape, and so on
  bool strides = false;
  bool ndim = false;  // compiled in: it is the rank
  // Given to a function template of the header, which takes pointers alone: with checked bounds it
  // is one all the same, and not checked.
  bool passed_to_template = false;
};

// A macro whose text ends before it is known what its `threadgroup` does: "#define TG threadgroup".
struct ThreadgroupMacro {
  bool bare = false;  // its text is that word alone
  bool has_arguments = false;
};
using ThreadgroupMacros = std::map<std::string, ThreadgroupMacro, std::less<>>;

struct Usage {
  Names names{};                                      // of header and body
  std::vector<ArgumentUse> arguments{};               // in binding order: inputs, in_place, outputs
  std::vector<std::string_view> places{};             // used, in the order of places()
  std::set<std::string, std::less<>> vector_types{};  // "float4", "uint2"
  // Members of one to four letters of xyzw or rgba, other than x, y, z and w.
  std::set<std::string, std::less<>> swizzles{};
  std::set<std::string, std::less<>> macro_constants{};  // used on preprocessor lines
  // Those of them on which the header's #if depends: they are defined before it.
  std::set<std::string, std::less<>> header_macro_constants{};
  ThreadgroupMacros threadgroup_macros{};
  std::set<std::string, std::less<>> pasting_macros{};  // see literals.h
  Cooperation cooperation = Cooperation::none;
  bool quads = false;            // operations of quadgroups
  bool bfloat_literals = false;  // `0.5bf`

  bool uses(std::string_view name) const { return names.identifiers.contains(name); }
};
Usage usage_of(const Definition& definition, const CallSignature& signature);
Interface interface_of(const Usage& usage, const CallSignature& signature);

// The macros of the text and those known before it.
ThreadgroupMacros threadgroup_macros(std::string_view text, ThreadgroupMacros known = {});
// The text with `threadgroup`, where it declares memory and does not qualify a pointer or
// reference, replaced by a marker of the same length ("hf_tg_local"), so that columns stay. So it
// is in the macros; where one of them qualifies a pointer, it is blank, or, if it has more words,
// a name that no compiler knows and that says why.
std::string mark_threadgroup_memory(std::string_view text, const ThreadgroupMacros& macros = {});
// The text with `constant` replaced by a marker of the same length ("hf_const"), but for
// declarations that have `const` as well.
std::string mark_constants(std::string_view text);

// `0.5bf`.
bool is_bfloat_literal(const Token& token);
// The text with the suffix `bf` of floating literals replaced by one of the same length ("ms") that
// every compiler lets a text define: clang takes those of the standard library alone.
std::string mark_bfloat_literals(std::string_view text);

// Pieces of text that targets share. Each ends with a newline, or is empty.

// Header or body as it stands in generated text: threadgroup memory and constants are marked;
// #include lines of Metal's own headers are blank. The same lines and columns.
std::string author_text(std::string_view text, const ThreadgroupMacros& macros = {});
// The header, or nothing; the body; both with suffixes (see literals.h). #line names what they are,
// and what follows them "holdfast".
std::string authors_header(const Definition& definition, const Usage& usage);
std::string authors_body(const Definition& definition, const Usage& usage);
// What bodies see of fast math, also where the compiler says nothing of it.
std::string math_macro(MathMode math);
// The names that #line gives to what follows it, and the line itself.
std::string body_file(const Definition& definition);
std::string header_file(const Definition& definition);
std::string line_directive(uint32_t line, std::string_view file);
// "constexpr int N = 768;", "using T = half;", for namespace scope before the header, so that
// templates and helpers there can use them, and hide them. Without the macros before the header.
std::string constant_declarations(const Usage& usage, const CallSignature& signature);
// "#define N 768", before the header or after it.
std::string constant_macros(const Usage& usage, const CallSignature& signature, bool before_header);
// "#undef A" for every macro that header or body may have left behind, for what follows them.
std::string macro_removals(const Definition& definition, const Usage& usage);
// A C identifier that no other text shares: the kernel's name and a digest of the text.
std::string entry_point_of(const Definition& definition, std::string_view text);
// The type that a buffer's pointer points to: "float", "atomic<float>"; without const.
std::string element_type(const ArgumentUse& argument);
// Whether no other pointer reaches what the argument's pointer writes while the body runs. Where
// threads meet, or order what they do by fences, those of others do.
bool is_restricted(const ArgumentUse& argument, const Usage& usage);
// A place's value: in terms of the launch block hf_l, the thread (hf_x, hf_y, hf_z) and, for places
// that need groups, its threadgroup hf_g and its index hf_i there.
std::string place_expression(std::string_view place);

}  // namespace holdfast::kernel
