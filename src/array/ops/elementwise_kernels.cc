#include "holdfast/array/ops/elementwise_kernels.h"

#include <fmt/format.h>

#include <string>
#include <unordered_map>

#include "holdfast/array/ops/element_text.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/base/sync/mutex.h"

namespace holdfast::array {
namespace {

constexpr std::array<std::string_view, kMaxOperands> kOperandNames{"a", "b", "c"};

// Of blocks of which `n` elements are there.
constexpr std::string_view kBlockStores = R"(
// What becomes a half is a float first: of integers, too, since all that a float rounds are beyond
// the largest half. Of a double that would be one rounding too many.
template <class From, class To> struct BeforeRounding { using type = To; };
template <class From> struct BeforeRounding<From, half> { using type = float; };
template <> struct BeforeRounding<double, half> { using type = half; };
using F = BeforeRounding<C, R>::type;
template <class P> inline void store_block(const thread F* from, int n, P at) {
  device R* to = at;
  if (n == BLOCK) {
    convert<BLOCK>(from, to);
  } else {
    R some[BLOCK];
    convert<BLOCK>(from, some);
    for (int j = 0; j < n; ++j) to[j] = some[j];
  }
}
)";

// What the operand, or the input that it reads, is called.
std::string_view name_of(const Pattern& pattern, size_t operand) {
  if (pattern.operands[operand].access == Access::number) return kOperandNames[operand];
  for (size_t i = 0; i < operand; ++i) {
    const Pattern::Source& earlier = pattern.operands[i];
    if (earlier.access != Access::number && earlier.input == pattern.operands[operand].input) {
      return kOperandNames[i];
    }
  }
  return kOperandNames[operand];
}

std::string_view type_of(const Pattern& pattern, size_t operand) {
  return pattern.chooses && operand == 0 ? "bool" : "C";
}

// Where the operand lies: in its own memory or in the output's.
std::string_view memory_of(const Pattern& pattern, size_t operand) {
  return pattern.operands[operand].access == Access::taken ? "out" : name_of(pattern, operand);
}
Access access_of(const Pattern& pattern, size_t operand) {
  const Access access = pattern.operands[operand].access;
  return access == Access::taken ? Access::flat : access;
}

// The operand's element, as it lies in memory, for a thread with one element.
std::string element_of(const Pattern& pattern, size_t operand) {
  return element_at(access_of(pattern, operand), memory_of(pattern, operand));
}

// The same as an argument of element().
std::string read(const Pattern& pattern, size_t operand) {
  std::string element = element_of(pattern, operand);
  if (pattern.operands[operand].access == Access::number) return element;
  return fmt::format("{}({})", type_of(pattern, operand), element);
}

PackReads reads(const Pattern& pattern, size_t operand) {
  return pack_reads(access_of(pattern, operand), pattern.in_rows, memory_of(pattern, operand),
                    kOperandNames[operand], type_of(pattern, operand));
}

std::string arguments_of(const Pattern& pattern, const auto& of) {
  std::string arguments;
  for (size_t i = 0; i < pattern.count; ++i) {
    arguments += fmt::format("{}{}", i == 0 ? "" : ", ", of(i));
  }
  return arguments;
}

std::string body_for_one(const Pattern& pattern) {
  return fmt::format(
      "{}\nout[i] = element({});\n",
      pattern.in_rows
          ? "uint3 at = thread_position_in_grid;\n"
            "ulong i = (ulong(at.z) * threads_per_grid.y + at.y) * threads_per_grid.x + at.x;"
          : "uint i = thread_position_in_grid.x;",
      arguments_of(pattern, [&](size_t i) { return read(pattern, i); }));
}

std::string body_for_several(const Pattern& pattern) {
  std::string begins =
      pattern.in_rows ? "const uint3 at = thread_position_in_grid;\n"
                        "const ulong row = (ulong(at.z) * threads_per_grid.y + at.y) * count;\n"
                        "auto out_row = out + row;\n"
                      : "auto out_row = out;\n";
  std::string aligned = "is_aligned<VECTOR>(out_row)";
  std::string packs;
  bool strided = false;
  for (size_t i = 0; i < pattern.count; ++i) {
    const PackReads operand = reads(pattern, i);
    begins += operand.begins;
    aligned += operand.is_aligned;
    packs += operand.pack;
    strided |= operand.strided;
  }
  const std::string store =
      fmt::format("out_row[k] = element({});",
                  arguments_of(pattern, [&](size_t i) { return reads(pattern, i).one; }));
  const std::string apart = fmt::format("EACH_APART(k, {})\n", store);
  if (strided) return begins + apart;
  return fmt::format(
      R"({}if ({}) {{
  const uint first = thread_position_in_grid.x * VECTOR;
  if (count - first >= VECTOR) {{
{}    Pack<R, VECTOR> results;
    for (int j = 0; j < VECTOR; ++j) results.at[j] = element({});
    store_pack<VECTOR>(out_row + first, results);
  }} else {{
    for (uint k = first; k < count; ++k) {}
  }}
}} else {{
{}}}
)",
      begins, aligned, packs,
      arguments_of(pattern, [&](size_t i) { return reads(pattern, i).of_pack; }), store, apart);
}

BlockReads block_reads_of(const Pattern& pattern, size_t operand) {
  return block_reads(access_of(pattern, operand), memory_of(pattern, operand),
                     kOperandNames[operand], type_of(pattern, operand));
}

// Reads an operand that is turned for a whole square: those that read the same input share that.
std::string tile_of(const Pattern& pattern, size_t operand) {
  const std::string_view x = name_of(pattern, operand);
  if (pattern.operands[operand].access != Access::turned || x != kOperandNames[operand]) return {};
  return fmt::format(R"(ElementOf<decltype({0} + 0)> {0}_tile[BLOCK][BLOCK];
{{
  const uint3 at = uint3(first, top, place.z);
  const long step = {0}_strides[{0}_ndim - 1];
  const ElementOf<decltype({0} + 0)>* from = {0} + ({1} + long(first) * step);
  load_square(from, step, {0}_strides[{0}_ndim - 2], n, int(bottom - top), {0}_tile);
}}
)",
                     x, row_of(x));
}

std::string body_for_blocks(const Pattern& pattern) {
  std::string tiles;
  std::string loads;
  for (size_t i = 0; i < pattern.count; ++i) {
    tiles += tile_of(pattern, i);
    loads += block_reads_of(pattern, i).load;
  }
  const std::string store = fmt::format(
      "results[j] = element({});",
      arguments_of(pattern, [&](size_t i) { return block_reads_of(pattern, i).value; }));
  const std::string block = fmt::format(
      R"({}  alignas(64) F results[BLOCK];
  if (n == BLOCK) {{
    for (int j = 0; j < BLOCK; ++j) {}
  }} else {{
    for (int j = 0; j < n; ++j) {}
  }}
  store_block(results, n, out + begin);
)",
      loads, store, store);
  const std::string_view columns = R"(const uint first = place.x * BLOCK;
const int n = int(metal::min(uint(BLOCK), count - first));
)";
  if (!pattern.in_rows) {
    return fmt::format(
        "const uint3 place = thread_position_in_grid;\n{}{{\n  const uint begin = first;\n{}}}\n",
        columns, block);
  }
  return fmt::format(
      R"(const uint3 place = thread_position_in_grid;
{}const uint top = place.y * {};
const uint bottom = metal::min(top + {}, lines);
{}for (uint line = top; line < bottom; ++line) {{
  const uint3 at = uint3(first, line, place.z);
  const ulong begin = (ulong(at.z) * lines + line) * count + first;
{}}}
)",
      columns, pattern.turned() ? "BLOCK" : "1", pattern.turned() ? "BLOCK" : "1", tiles, block);
}

bool is_early(const Pattern& pattern, size_t operand) {
  const Access access = pattern.operands[operand].access;
  return access != Access::turned && access != Access::number;
}

// For threadgroups with squares of 32 x 32 elements. Elements of a whole square are on their way
// together, those of operands that are not turned, too.
std::string body_for_squares(const Pattern& pattern) {
  std::string early;
  std::string early_loads;
  std::string tiles;
  std::string_view any;  // turned, so of the shape of the result
  for (size_t i = 0; i < pattern.count; ++i) {
    const std::string_view x = name_of(pattern, i);
    if (is_early(pattern, i)) {
      const std::string_view memory = pattern.operands[i].access == Access::taken ? "out" : x;
      early += fmt::format("ElementOf<decltype({} + 0)> {}_early[4];\n", memory, kOperandNames[i]);
      early_loads +=
          fmt::format("    {}_early[k] = {};\n", kOperandNames[i], element_of(pattern, i));
    }
    if (pattern.operands[i].access != Access::turned || x != kOperandNames[i]) continue;
    any = x;
    tiles += fmt::format(R"(
threadgroup ElementOf<decltype({0} + 0)> {0}_tile[32][33];
{{
  const uint3 at = uint3(0, top + me.x, layer);
  auto from = {0} + {1};
  const long step = {0}_strides[{0}_ndim - 1];
  if (whole) {{
    ElementOf<decltype({0} + 0)> values[4];
    for (uint k = 0; k < 4; ++k) values[k] = from[long(left + me.y + k * 8) * step];
    for (uint k = 0; k < 4; ++k) {0}_tile[me.y + k * 8][me.x] = values[k];
  }} else if (at.y < lines) {{
    for (uint k = me.y; k < 32 && left + k < columns; k += 8) {{
      {0}_tile[k][me.x] = from[long(left + k) * step];
    }}
  }}
}}
)",
                         x, row_of(x));
  }
  return fmt::format(
      R"({0}
const uint3 me = thread_position_in_threadgroup;
const uint columns = uint({1}_shape[{1}_ndim - 1]);
const uint lines = uint({1}_shape[{1}_ndim - 2]);
const uint wide = (columns + 31) / 32;
const uint high = (lines + 31) / 32;
const uint square = uint(number);
const uint left = square % wide * 32;
const uint top = square / wide % high * 32;
const uint layer = square / wide / high;
const bool whole = left + 32 <= columns && top + 32 <= lines;
const ulong begin = (ulong(layer) * lines + top) * columns + left + me.x;
{2}if (whole) {{
  for (uint k = 0; k < 4; ++k) {{
    const uint3 at = uint3(left + me.x, top + me.y + k * 8, layer);
    const ulong i = begin + ulong(me.y + k * 8) * columns;
{3}  }}
}}
{4}threadgroup_barrier(mem_flags::mem_threadgroup);
if (whole) {{
  R results[4];
  for (uint k = 0; k < 4; ++k) {{
    const uint3 at = uint3(left + me.x, top + me.y + k * 8, layer);
    results[k] = element({5});
  }}
  for (uint k = 0; k < 4; ++k) out[begin + ulong(me.y + k * 8) * columns] = results[k];
}} else if (left + me.x < columns) {{
  for (uint k = me.y; k < 32 && top + k < lines; k += 8) {{
    const uint3 at = uint3(left + me.x, top + k, layer);
    const ulong i = begin + ulong(k) * columns;
    out[i] = element({6});
  }}
}}
)",
      kGroupNumberText, any, early, early_loads, tiles,
      arguments_of(pattern,
                   [&](size_t i) {
                     return is_early(pattern, i)
                                ? fmt::format("{}({}_early[k])", type_of(pattern, i),
                                              kOperandNames[i])
                                : read(pattern, i);
                   }),
      arguments_of(pattern, [&](size_t i) { return read(pattern, i); }));
}

Kernel make(const Expression& expression, const Pattern& pattern) {
  kernel::Definition d{.name = std::string(expression.name)};
  bool in_place = false;
  std::string parameters;
  for (size_t i = 0; i < pattern.count; ++i) {
    const Access access = pattern.operands[i].access;
    if (access == Access::taken) {
      in_place = true;
    } else if (access != Access::number && name_of(pattern, i) == kOperandNames[i]) {
      d.inputs.emplace_back(kOperandNames[i]);
    }
    parameters += fmt::format("{}{} {}", i == 0 ? "" : ", ", type_of(pattern, i), kOperandNames[i]);
  }
  (in_place ? d.in_place : d.outputs).emplace_back("out");
  std::string moves;
  if (pattern.packed) moves = std::string(kPackText) + kEachText;
  if (pattern.blocked) {
    moves = fmt::format("{}{}{}{}{}", kPackText, kConvertText, kBlockLoads, kBlockStores,
                        pattern.turned() ? kSquareText : "");
  }
  d.header =
      fmt::format("{0}{1}{2}{3}{4}\n{5} element({6}) {{ return {5}({7}); }}\n", kElementHelpers,
                  "using U = Wrapping<C>::type;\n", pattern.in_rows ? kRowHelper : "", moves,
                  expression.helpers, pattern.blocked ? "F" : "R", parameters, expression.text);
  d.source = pattern.blocked    ? body_for_blocks(pattern)
             : pattern.turned() ? body_for_squares(pattern)
             : pattern.packed   ? body_for_several(pattern)
                                : body_for_one(pattern);
  return Kernel(std::move(d));
}

struct Key {
  std::string_view name;
  std::string_view text;
  uint32_t pattern;
  friend bool operator==(const Key&, const Key&) = default;
};
struct HashOfKey {
  size_t operator()(const Key& key) const noexcept {
    return std::hash<std::string_view>()(key.name) * 31 + key.pattern;
  }
};

uint32_t packed(const Pattern& pattern) {
  uint32_t bits = pattern.count;
  for (const Pattern::Source& source : pattern.operands) {
    bits = bits << 5U | static_cast<uint32_t>(source.access) << 2U | source.input;
  }
  return bits << 4U | (pattern.blocked ? 8U : 0U) | (pattern.packed ? 4U : 0U) |
         (pattern.chooses ? 2U : 0U) | (pattern.in_rows ? 1U : 0U);
}

}  // namespace

const Kernel& elementwise_kernel(const Expression& expression, const Pattern& pattern) {
  // Never destroyed: other threads may still record while the process ends. Kernels stay where they
  // are once they are in it.
  using Table = std::unordered_map<Key, Kernel, HashOfKey>;
  static NeverDestroyed<sync::Guarded<Table>> kept;
  sync::Guarded<Table>& kernels = kept.get();

  const Key key{expression.name, expression.text, packed(pattern)};
  {
    const auto table = kernels.lock();
    if (const auto found = table->find(key); found != table->end()) return found->second;
  }
  Kernel made = make(expression, pattern);
  return kernels.lock()->try_emplace(key, std::move(made)).first->second;
}

}  // namespace holdfast::array
