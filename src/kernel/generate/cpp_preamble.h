#pragma once

#include <string>
#include <string_view>

#include "holdfast/kernel/generate/usage.h"

namespace holdfast::kernel {

// The parts of the C++ preamble that a kernel needs.
struct CppParts {
  bool bfloat = false;
  bool vectors = false;
  bool swizzles = false;
  bool math = false;    // functions of floating numbers, and what the next two build on
  bool common = false;  // min, clamp, dot
  bool constants = false;
  bool limits = false;
  bool traits = false;    // of types, and ceildiv
  bool packed = false;    // vectors aligned as their elements
  bool matrices = false;  // of a thread
  bool quads = false;
  bool simd_matrices = false;  // of a simdgroup
  bool atomics = false;
  bool simd = false;
  bool debug = false;
  bool bounds = false;
  bool groups = false;  // a thread's place in its threadgroup
  bool host = false;
};
CppParts cpp_parts(const CallSignature& signature, const Usage& usage, bool bounds);

// The macros hf_swizzles_N: the swizzles that fit into N elements.
std::string swizzle_macros(const Usage& usage);
// What is the same everywhere, in its order: bfloat, vectors, math, limits.
void append_types_and_math(std::string& text, const CppParts& parts, const Usage& usage);
// The pieces of a target's own that stand among shared ones.
struct TargetPieces {
  std::string_view simd;    // barriers, and the macros of cpp_simd_names.h
  std::string_view atomic;  // functions of the types of cpp_atomic.h
};
// How threads meet, and what checks them: simdgroups, atomics, bounds, assertions.
void append_meetings_and_checks(std::string& text, const CppParts& parts, const TargetPieces& own);
// A file of the preamble without what only its readers need.
void append_code(std::string& text, std::string_view file);

}  // namespace holdfast::kernel
