#include "holdfast/array/ops/element_text.h"

#include <fmt/format.h>

namespace holdfast::array {

const std::string_view kElementHelpers = R"(
#pragma clang fp contract(off)
template <class T> struct Wrapping { using type = uint; };
template <> struct Wrapping<long> { using type = ulong; };
template <> struct Wrapping<ulong> { using type = ulong; };
template <> struct Wrapping<float> { using type = float; };
template <> struct Wrapping<double> { using type = double; };
template <class T> constexpr bool is_floating = T(1.5f) != T(1);
template <class T> T larger(T a, T b) { return a > b || a != a ? a : b; }
template <class T> T smaller(T a, T b) { return a < b || a != a ? a : b; }
)";

const std::string_view kRowHelper = R"(
template <class S, class D> long row_of(uint3 at, const S* shape, const D* strides, int ndim) {
  long first = ndim == 3 ? long(at.z) * strides[0] : elem_to_loc(at.z, shape, strides, ndim - 2);
  return first + long(at.y) * strides[ndim - 2];
}
)";

const std::string_view kBlockLoads = R"(
template <class T, class P> inline void load_block(P at, int n, thread T* to) {
  const device ElementOf<P>* from = at;
  if (n == BLOCK) {
    convert<BLOCK>(from, to);
  } else {
    ElementOf<P> some[BLOCK] = {};
    for (int j = 0; j < n; ++j) some[j] = from[j];
    convert<BLOCK>(some, to);
  }
}
// Where the elements lie as T: where they are, if they are that already, else in `space`.
template <class T, class U> struct IsOne { static constexpr bool value = false; };
template <class T> struct IsOne<T, T> { static constexpr bool value = true; };
template <class T, class P> inline const thread T* block_of(P at, int n, thread T* space) {
  if constexpr (IsOne<T, ElementOf<P>>::value) {
    return at;
  } else {
    load_block(at, n, space);
    return space;
  }
}
template <class T, class P> inline void load_apart(P at, long step, int n, thread T* to) {
  const device ElementOf<P>* from = at;
  ElementOf<P> some[BLOCK] = {};
  for (int j = 0; j < n; ++j) some[j] = from[j * step];
  convert<BLOCK>(some, to);
}
)";

std::string row_of(std::string_view x) {
  return fmt::format("row_of(at, {0}_shape, {0}_strides, {0}_ndim)", x);
}

std::string element_at(Access access, std::string_view x) {
  switch (access) {
    case Access::number: return std::string(x);
    case Access::one: return fmt::format("{}[0]", x);
    case Access::row: return fmt::format("{}[{} + at.x]", x, row_of(x));
    case Access::held: return fmt::format("{}[{}]", x, row_of(x));
    case Access::turned: return fmt::format("{}_tile[at.x - left][at.y - top]", x);
    case Access::strided:
      return fmt::format("{0}[{1} + long(at.x) * {0}_strides[{0}_ndim - 1]]", x, row_of(x));
    case Access::taken:
    case Access::flat: break;
  }
  return fmt::format("{}[i]", x);
}

PackReads pack_reads(Access access, bool in_rows, std::string_view x, std::string_view own,
                     std::string_view type) {
  const auto side_by_side = [&](std::string_view from) {
    return PackReads{
        fmt::format("auto {}_row = {};\n", own, from),
        fmt::format(" && is_aligned<VECTOR>({}_row)", own),
        fmt::format("    const auto {0}_pack = load_pack<VECTOR>({0}_row + first);\n", own),
        fmt::format("{}({}_pack.at[j])", type, own), fmt::format("{}({}_row[k])", type, own)};
  };
  // Converted only when the packs are on their way.
  const auto held = [&](std::string_view from) {
    return PackReads{fmt::format("auto {}_at = {};\n", own, from), "",
                     fmt::format("    const {0} {1}_value = {0}({1}_at[0]);\n", type, own),
                     fmt::format("{}_value", own), fmt::format("{}({}_at[0])", type, own)};
  };
  switch (access) {
    case Access::number: return {"", "", "", std::string(x), std::string(x)};
    case Access::taken:
    case Access::flat: return side_by_side(in_rows ? fmt::format("{} + row", x) : std::string(x));
    case Access::one: return held(x);
    case Access::row: return side_by_side(fmt::format("{} + {}", x, row_of(x)));
    case Access::held: return held(fmt::format("{} + {}", x, row_of(x)));
    case Access::turned:
    case Access::strided: break;
  }
  return {fmt::format("const long {0}_step = {1}_strides[{1}_ndim - 1];\n"
                      "auto {0}_row = {1} + {2};\n",
                      own, x, row_of(x)),
          "",
          "",
          "",
          fmt::format("{0}({1}_row[long(k) * {1}_step])", type, own),
          true};
}

BlockReads block_reads(Access access, std::string_view x, std::string_view own,
                       std::string_view type) {
  const std::string value = fmt::format("{}_block[j]", own);
  const auto side_by_side = [&](std::string_view row) {
    return BlockReads{fmt::format("  alignas(64) {0} {1}_space[BLOCK];\n"
                                  "  const {0}* const {1}_block = block_of({2}, n, {1}_space);\n",
                                  type, own, row),
                      value};
  };
  const auto held = [&](std::string_view from) {
    return BlockReads{fmt::format("  const {0} {1}_value = {0}({2});\n", type, own, from),
                      fmt::format("{}_value", own)};
  };
  switch (access) {
    case Access::number: return {"", std::string(x)};
    case Access::taken:
    case Access::flat: return side_by_side(fmt::format("{} + begin", x));
    case Access::one: return held(fmt::format("{}[0]", x));
    case Access::row: return side_by_side(fmt::format("{} + ({} + first)", x, row_of(x)));
    case Access::held: return held(fmt::format("{}[{}]", x, row_of(x)));
    case Access::turned: return side_by_side(fmt::format("{}_tile[line - top]", x));
    case Access::strided: break;
  }
  return {fmt::format("  alignas(64) {0} {1}_block[BLOCK];\n"
                      "  const long {1}_step = {2}_strides[{2}_ndim - 1];\n"
                      "  load_apart({2} + ({3} + long(first) * {1}_step), {1}_step, n, "
                      "{1}_block);\n",
                      type, own, x, row_of(x)),
          value};
}

}  // namespace holdfast::array
