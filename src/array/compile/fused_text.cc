#include "holdfast/array/compile/fused_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "holdfast/array/ops/work.h"
#include "holdfast/kernel/dtype.h"

namespace holdfast::array {
namespace {

using Role = FusedProgram::Role;
using Source = FusedProgram::Source;
using kernel::kernel_type;

// g++ makes one truncation of a conversion to an integer and back, which turns -0.5 into -0.
constexpr std::string_view kFromIntegerText = R"(
template <class C, class I> inline C from_integer(I v) { return v == I(0) ? C(0) : C(v); }
)";

constexpr std::string_view kJoinedText = R"(
template <int OP, class A> inline A joined(A a, A b) {
  if constexpr (OP == 0) return a + b;
  if constexpr (OP == 1) return larger(a, b);
  if constexpr (OP == 2) return smaller(a, b);
  return a * b;
}
template <int OP, class A> inline A joined_with_none() {
  const float infinity = as_type<float>(0x7f800000u);
  return OP == 0 ? A(0) : OP == 1 ? A(-infinity) : OP == 2 ? A(infinity) : A(1);
}
)";

// What becomes of a row, for a thread that has all of it. Many accumulators fill vector registers;
// emptied after a few blocks, they keep the error of float sums to that of short ones, and what the
// total loses in rounding is kept for the next.
constexpr std::string_view kTotalText = R"(
#define EACH_OF_BLOCK(j, ...)                              \
  if (n == BLOCK) {                                        \
    for (int j = 0; j < BLOCK; ++j) { __VA_ARGS__ }        \
  } else {                                                 \
    for (int j = 0; j < n; ++j) { __VA_ARGS__ }            \
  }
template <int OP, class A> struct Total {
  A some[BLOCK];
  A total = joined_with_none<OP, A>();
  A lost = A(0);
  int blocks = 0;
  inline void start() {
    for (int j = 0; j < BLOCK; ++j) some[j] = joined_with_none<OP, A>();
    blocks = 0;
  }
  inline void empty() {
    for (int width = BLOCK / 2; width > 0; width /= 2) {
      for (int j = 0; j < width; ++j) some[j] = joined<OP>(some[j], some[j + width]);
    }
    if constexpr (OP == 0) {
      const A wanted = some[0] - lost;
      const A next = total + wanted;
      lost = next - next == A(0) ? (next - total) - wanted : A(0);  // infinities lose nothing
      total = next;
    } else {
      total = joined<OP>(total, some[0]);
    }
    start();
  }
  inline void end_block() {
    if (++blocks == 32) empty();
  }
};
// From a type in which halves are floats.
template <class T, class P> inline void store_block(const thread T* from, int n, P at) {
  device ElementOf<P>* to = at;
  if (n == BLOCK) {
    convert<BLOCK>(from, to);
  } else {
    for (int j = 0; j < n; ++j) to[j] = ElementOf<P>(from[j]);
  }
}
)";

// What becomes of a row that L threads of a line share, for all of them; in one order on all runs.
// All threads of a threadgroup call it, with memory for GROUP / 32 values.
constexpr std::string_view kMetText = R"(
template <uint L, int OP, class A> inline A met_in_row(A v, threadgroup A* meeting, uint t) {
  for (uint distance = L < 32 ? L / 2 : 16; distance > 0; distance /= 2) {
    v = joined<OP>(v, simd_shuffle_xor(v, ushort(distance)));
  }
  if constexpr (L > 32) {
    threadgroup_barrier(mem_flags::mem_threadgroup);  // others have read what was there
    if (t % 32 == 0) meeting[t / 32] = v;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint first = t / L * (L / 32);
    v = meeting[first];
    for (uint i = 1; i < L / 32; ++i) v = joined<OP>(v, meeting[first + i]);
  }
  return v;
}
)";

int op_of(RowKind kind) {
  switch (kind) {
    case RowKind::max: return 1;
    case RowKind::min: return 2;
    case RowKind::prod: return 3;
    default: return 0;
  }
}

bool is_two_byte_float(Dtype dtype) { return dtype == Dtype::float16 || dtype == Dtype::bfloat16; }

class FusedWriter {
 public:
  FusedWriter(const FusedProgram& program, const RowPasses& passes, const FusedPattern& pattern)
      : program_(program),
        passes_(passes),
        pattern_(pattern),
        in_rows_(program.in_rows()),
        memory_(program.inputs.size()) {
    for (size_t i = 0; i < memory_.size(); ++i) memory_[i] = fmt::format("x{}", i);
    for (size_t o = 0; o < program.outputs.size(); ++o) {
      stored_in_.emplace(program.outputs[o], fmt::format("y{}", o));
      if (pattern.takes[o]) memory_[*pattern.takes[o]] = fmt::format("y{}", o);
    }
    for (size_t k = 0; k < passes.kept.size(); ++k) {
      stored_in_.emplace(passes.kept[k], fmt::format("k{}", k));
    }
  }

  kernel::Definition write() {
    kernel::Definition d{.name = program_.name()};
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (!is_taken(i)) d.inputs.push_back(memory_[i]);
    }
    for (size_t o = 0; o < program_.outputs.size(); ++o) {
      (pattern_.takes[o] ? d.in_place : d.outputs).push_back(fmt::format("y{}", o));
    }
    for (size_t k = 0; k < passes_.kept.size(); ++k) d.outputs.push_back(fmt::format("k{}", k));
    d.source = pattern_.blocked ? (in_rows_ ? blocked_rows() : blocks())
                                : (in_rows_ ? shared_rows() : packs());
    d.header = header();
    return d;
  }

 private:
  bool is_taken(size_t input) const {
    return std::ranges::find(pattern_.takes, std::optional(input)) != pattern_.takes.end();
  }

  // --- types and functions ---------------------------------------------------------------------

  // What a thread has a value as. Blocks have floats for two-byte floats, rounded.
  std::string_view held_as(Dtype dtype) const {
    return kernel_type(pattern_.blocked && is_two_byte_float(dtype) ? Dtype::float32 : dtype);
  }
  Dtype computed_in(const FusedProgram::Step& step) const {
    return pattern_.blocked && is_two_byte_float(step.computed) ? Dtype::float32 : step.computed;
  }
  // Whether its values are rounded for a whole block at once: compilers make no vectors of single
  // conversions to half. What is computed in double is rounded by itself, since a float between
  // would be one rounding too many.
  bool is_rounded_late(const FusedProgram::Step& step) const {
    return pattern_.blocked && step.role == Role::element && step.result == Dtype::float16 &&
           step.computed != Dtype::float64;
  }
  // The namespace of the function that computes it.
  std::string function_of(const FusedProgram::Step& step) {
    // What is rounded late leaves its function as a float.
    const std::string_view left_as =
        is_rounded_late(step) ? "float" : std::string_view(kernel_type(step.result));
    std::string text =
        fmt::format("using C = {};\nusing R = {};\nusing U = Wrapping<C>::type;\n{}",
                    kernel_type(computed_in(step)), left_as, step.expression.helpers);
    std::string parameters;
    for (size_t k = 0; k < step.operands.size(); ++k) {
      parameters += fmt::format("{}{} {}", k == 0 ? "" : ", ",
                                step.chooses && k == 0 ? "bool" : "C", "abc"[k]);
    }
    const bool from_integer = is_integer(computed_in(step)) && is_floating(step.result);
    text += fmt::format("\ninline R element({}) {{ return {}({}); }}\n", parameters,
                        from_integer ? "from_integer<R>" : "R", step.expression.text);
    const auto [found, is_new] = functions_.emplace(std::move(text), functions_.size());
    return fmt::format("of_{}", found->second);
  }
  // Of the values that the operands have in this place.
  template <typename ValueOf>
  std::string computed(size_t i, const ValueOf& value_of) {
    const FusedProgram::Step& step = program_.steps[i];
    std::string arguments;
    for (size_t k = 0; k < step.operands.size(); ++k) {
      const std::string_view type =
          step.chooses && k == 0 ? "bool" : std::string_view(kernel_type(computed_in(step)));
      arguments +=
          fmt::format("{}{}({})", k == 0 ? "" : ", ",
                      is_integer_of_step(step.operands[k]) && is_floating(computed_in(step))
                          ? fmt::format("from_integer<{}>", type)
                          : std::string(type),
                      value_of(step.operands[k]));
    }
    return fmt::format("{}::element({})", function_of(step), arguments);
  }
  bool is_integer_of_step(const Source& source) const {
    if (source.kind != Source::Kind::step) return false;
    return is_integer(program_.steps[source.index].result);
  }
  // A value of a row is rounded at once.
  std::string value_of_row(const Source& source) const {
    switch (source.kind) {
      case Source::Kind::number: return fmt::format("n{}", source.index);
      case Source::Kind::step: return fmt::format("s{}", source.index);
      case Source::Kind::input: break;
    }
    return fmt::format("x{}_value", source.index);
  }
  std::string inputs_of_row() const {
    std::string text;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (!program_.inputs[i].of_row) continue;
      text +=
          fmt::format("const {0} x{1}_value = {0}({2}[{3}]);\n", held_as(program_.inputs[i].dtype),
                      i, memory_[i], pattern_.access[i] == Access::one ? "0" : "r");
    }
    return text;
  }
  std::string steps_of_row(const std::vector<size_t>& steps) {
    std::string text;
    for (const size_t i : steps) {
      const Dtype result = program_.steps[i].result;
      text +=
          fmt::format("const {0} s{1} = {0}({2}({3}));\n", held_as(result), i, kernel_type(result),
                      computed(i, [&](const Source& s) { return value_of_row(s); }));
    }
    return text;
  }
  // After its pass: of the total of the row.
  std::string reduced(size_t i, std::string_view total) const {
    const FusedProgram::Step& step = program_.steps[i];
    std::string value(total);
    if (step.divisor != 1) {
      value = fmt::format("{} / {}({})", value, kernel_type(step.computed), step.divisor);
    }
    return fmt::format("const {0} s{1} = {0}({2}({3}));\n", held_as(step.result), i,
                       kernel_type(step.result), value);
  }
  // Results that are values of a row.
  std::string stores_of_row(std::string_view condition) const {
    std::string text;
    for (size_t o = 0; o < program_.outputs.size(); ++o) {
      const size_t i = program_.outputs[o];
      if (program_.steps[i].role == Role::element) continue;
      text += fmt::format("{}y{}[r] = {}(s{});\n", condition, o,
                          kernel_type(program_.steps[i].result), i);
    }
    return text;
  }

  std::string header() const {
    std::string text(kElementHelpers);
    text += kRowHelper;
    text += kPackText;
    text += kFromIntegerText;
    text += kJoinedText;
    if (pattern_.blocked) {
      text += kConvertText;
      text += kBlockLoads;
      text += kTotalText;
    } else {
      text += kEachText;
      text += kMetText;
    }
    std::vector<std::string_view> ordered(functions_.size());
    for (const auto& [function, number] : functions_) ordered[number] = function;
    for (size_t k = 0; k < ordered.size(); ++k) {
      text += fmt::format("namespace of_{} {{\n{}}}\n", k, ordered[k]);
    }
    return text;
  }

  // --- blocks ----------------------------------------------------------------------------------

  // All that a pass does with one block: `n` elements from column `first` on, which is element
  // `begin` of all; `at` is their place.
  std::string block(const RowPasses::Pass& pass) {
    std::string text;
    std::map<size_t, std::string> value_of_input;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (!pass.reads[i]) continue;
      const BlockReads reads = block_reads(pattern_.access[i], memory_[i], fmt::format("x{}", i),
                                           held_as(program_.inputs[i].dtype));
      text += reads.load;
      value_of_input[i] = reads.value;
    }
    for (const size_t i : pass.loads) {
      text += block_reads(Access::flat, stored_in_.at(i), fmt::format("s{}", i),
                          held_as(program_.steps[i].result))
                  .load;
    }

    // Steps of one loop do not need each other's late rounding.
    std::vector<std::vector<size_t>> loops;
    std::map<size_t, size_t> loop_of;
    for (const size_t i : pass.elements) {
      size_t loop = loops.empty() ? 0 : loops.size() - 1;
      for (const Source& source : program_.steps[i].operands) {
        if (source.kind != Source::Kind::step || !loop_of.contains(source.index)) continue;
        if (is_rounded_late(program_.steps[source.index])) {
          loop = std::max(loop, loop_of[source.index] + 1);
        }
      }
      if (loop >= loops.size()) loops.resize(loop + 1);
      loops[loop].push_back(i);
      loop_of[i] = loop;
    }
    const auto is_stored = [&](size_t i) {
      return std::ranges::find(pass.stores, i) != pass.stores.end();
    };
    const auto is_reduced = [&](size_t i) {
      return std::ranges::any_of(pass.reductions, [&](size_t r) {
        const Source& of = program_.steps[r].operands[0];
        return of.kind == Source::Kind::step && of.index == i;
      });
    };
    const auto is_used_later = [&](size_t i) {
      return std::ranges::any_of(pass.elements, [&](size_t other) {
        return loop_of.at(other) > loop_of.at(i) &&
               std::ranges::any_of(program_.steps[other].operands, [&](const Source& s) {
                 return s.kind == Source::Kind::step && s.index == i;
               });
      });
    };
    for (size_t loop = 0; loop < loops.size(); ++loop) {
      std::string each;
      std::string rounding;
      for (const size_t i : loops[loop]) {
        const FusedProgram::Step& step = program_.steps[i];
        const auto value = [&](const Source& source) {
          if (source.kind == Source::Kind::input && !program_.inputs[source.index].of_row) {
            return value_of_input.at(source.index);
          }
          if (source.kind == Source::Kind::step &&
              program_.steps[source.index].role == Role::element) {
            const auto at = loop_of.find(source.index);
            const bool here = at != loop_of.end() && at->second == loop;
            return fmt::format("s{}{}", source.index, here ? "" : "_block[j]");
          }
          return value_of_row(source);
        };
        each += fmt::format("const {0} s{1} = {0}({2});\n", held_as(step.result), i,
                            computed(i, value));
        if (!is_rounded_late(step) && !is_stored(i) && !is_reduced(i) && !is_used_later(i)) {
          continue;
        }
        text += fmt::format("  alignas(64) {} s{}_block[BLOCK];\n", held_as(step.result), i);
        each += fmt::format("s{0}_block[j] = s{0};\n", i);
        if (!is_rounded_late(step)) continue;
        rounding += fmt::format(
            "  alignas(64) half s{0}_half[BLOCK];\n  convert<BLOCK>(s{0}_block, s{0}_half);\n", i);
        if (is_reduced(i) || is_used_later(i)) {
          rounding += fmt::format("  convert<BLOCK>(s{0}_half, s{0}_block);\n", i);
        }
      }
      text += fmt::format("  EACH_OF_BLOCK(j, {})\n{}", each, rounding);
    }
    for (const size_t r : pass.reductions) {
      const FusedProgram::Step& step = program_.steps[r];
      const Source& of = step.operands[0];
      const std::string value = of.kind == Source::Kind::input
                                    ? value_of_input.at(of.index)
                                    : fmt::format("s{}_block[j]", of.index);
      text += fmt::format(
          "  EACH_OF_BLOCK(j, s{0}_total.some[j] = joined<{1}>(s{0}_total.some[j], {2}({3}));)\n"
          "  s{0}_total.end_block();\n",
          r, op_of(step.reduction), kernel_type(step.computed), value);
    }
    for (const size_t i : pass.stores) {
      text += fmt::format("  store_block(s{}_{}, n, {} + begin);\n", i,
                          is_rounded_late(program_.steps[i]) ? "half" : "block", stored_in_.at(i));
    }
    return text;
  }

  std::string blocks() {
    const std::string_view place = pattern_.in_space ? R"(
const uint3 place = thread_position_in_grid;
const uint first = place.x * BLOCK;
const int n = int(metal::min(uint(BLOCK), count - first));
const uint3 at = uint3(first, place.y, place.z);
const ulong begin = (ulong(at.z) * lines + at.y) * count + first;
)"
                                                     : R"(
const uint first = thread_position_in_grid.x * BLOCK;
const int n = int(metal::min(uint(BLOCK), count - first));
const uint begin = first;
)";
    return fmt::format("{}{}", place, block(passes_.passes[0]));
  }

  std::string blocked_rows() {
    std::string text =
        "const ulong r = thread_position_in_grid.x;\n"
        "const uint line = uint(r % ulong(lines));\n"
        "const uint layer = uint(r / ulong(lines));\n" +
        inputs_of_row();
    for (const RowPasses::Pass& pass : passes_.passes) {
      text += steps_of_row(pass.of_row);
      for (const size_t r : pass.reductions) {
        const FusedProgram::Step& step = program_.steps[r];
        text += fmt::format("Total<{}, {}> s{}_total;\ns{}_total.start();\n", op_of(step.reduction),
                            kernel_type(step.computed), r, r);
      }
      text += fmt::format(R"(for (uint first = 0; first < uint(length); first += BLOCK) {{
  const int n = int(metal::min(uint(BLOCK), uint(length) - first));
  const uint3 at = uint3(first, line, layer);
  const ulong begin = r * ulong(length) + first;
{}}}
)",
                          block(pass));
      for (const size_t r : pass.reductions) {
        text +=
            fmt::format("s{0}_total.empty();\n", r) + reduced(r, fmt::format("s{}_total.total", r));
      }
    }
    return text + steps_of_row(passes_.at_last) + stores_of_row("");
  }

  // --- packs -----------------------------------------------------------------------------------

  PackReads reads_of(size_t i) const {
    return pack_reads(pattern_.access[i], in_rows_ || pattern_.in_space, memory_[i],
                      fmt::format("x{}", i), kernel_type(program_.inputs[i].dtype));
  }
  // What a pass does with one element: results in s0, s1, ...; `one` element k of the row, or
  // element j of packs.
  std::string element(const RowPasses::Pass& pass, bool one) {
    std::string text;
    for (const size_t i : pass.loads) {
      text += fmt::format(
          "const {} s{} = {};\n", kernel_type(program_.steps[i].result), i,
          one ? fmt::format("{}_row[k]", stored_in_.at(i)) : fmt::format("s{}_pack.at[j]", i));
    }
    const auto value = [&](const Source& source) {
      if (source.kind != Source::Kind::input || program_.inputs[source.index].of_row) {
        return value_of_row(source);
      }
      const PackReads reads = reads_of(source.index);
      return one ? reads.one : reads.of_pack;
    };
    for (const size_t i : pass.elements) {
      text += fmt::format("const {} s{} = {};\n", kernel_type(program_.steps[i].result), i,
                          computed(i, value));
    }
    for (const size_t r : pass.reductions) {
      const FusedProgram::Step& step = program_.steps[r];
      text +=
          fmt::format("s{0}_total = joined<{1}>(s{0}_total, {2}({3}));\n", r, op_of(step.reduction),
                      kernel_type(step.computed), value(step.operands[0]));
    }
    for (const size_t i : pass.stores) {
      if (one) {
        text +=
            fmt::format("{}{}_row[k] = s{};\n", in_rows_ ? "if (there) " : "", stored_in_.at(i), i);
      } else {
        text += fmt::format("{}_pack.at[j] = s{};\n", stored_in_.at(i), i);
      }
    }
    return text;
  }
  // The same for a pack from `first` on.
  std::string pack(const RowPasses::Pass& pass) {
    std::string text;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (pass.reads[i]) text += reads_of(i).pack;
    }
    for (const size_t i : pass.loads) {
      text += fmt::format("const auto s{}_pack = load_pack<VECTOR>({}_row + first);\n", i,
                          stored_in_.at(i));
    }
    for (const size_t i : pass.stores) {
      text += fmt::format("Pack<{}, VECTOR> {}_pack;\n", kernel_type(program_.steps[i].result),
                          stored_in_.at(i));
    }
    text += fmt::format("for (int j = 0; j < VECTOR; ++j) {{\n{}}}\n", element(pass, false));
    for (const size_t i : pass.stores) {
      text += fmt::format("{1}store_pack<VECTOR>({0}_row + first, {0}_pack);\n", stored_in_.at(i),
                          in_rows_ ? "if (there) " : "");
    }
    return text;
  }
  // The beginning of each row that is read or written; `aligned`: whether packs may be moved. Empty
  // where they never may.
  std::string begins(std::string& aligned) const {
    std::string text;
    bool strided = false;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (program_.inputs[i].of_row) continue;
      const PackReads reads = reads_of(i);
      text += reads.begins;
      aligned += reads.is_aligned;
      strided |= reads.strided;
    }
    for (const auto& [i, memory] : stored_in_) {
      if (program_.steps[i].role != Role::element) continue;
      text += fmt::format("auto {0}_row = {0}{1};\n", memory,
                          in_rows_ || pattern_.in_space ? " + row" : "");
      aligned += fmt::format(" && is_aligned<VECTOR>({}_row)", memory);
    }
    if (strided) aligned = "";
    return text;
  }

  std::string packs() {
    std::string text;
    if (pattern_.in_space) {
      text =
          "const uint3 at = thread_position_in_grid;\n"
          "const ulong row = (ulong(at.z) * threads_per_grid.y + at.y) * count;\n";
    }
    std::string aligned = "true";
    text += begins(aligned);
    const RowPasses::Pass& pass = passes_.passes[0];
    const std::string one = element(pass, true);
    const std::string apart = fmt::format("EACH_APART(k, {})\n", one);
    if (aligned.empty()) return text + apart;
    return fmt::format(R"({}if ({}) {{
  const uint first = thread_position_in_grid.x * VECTOR;
  if (count - first >= VECTOR) {{
{}  }} else {{
    for (uint k = first; k < count; ++k) {{
{}    }}
  }}
}} else {{
{}}}
)",
                       text, aligned, pack(pass), one, apart);
  }

  std::string shared_rows() {
    std::string text = kGroupNumberText;
    text += R"(
const uint t = thread_index_in_threadgroup;
const uint lane = t % LANES;
const long mine = number * (GROUP / LANES) + long(t / LANES);
const bool there = mine < rows;
const ulong r = ulong(metal::min(mine, long(rows) - 1));
const uint3 at = uint3(0, uint(r % ulong(lines)), uint(r / ulong(lines)));
const ulong row = r * ulong(length);
)";
    bool wide = false;
    bool narrow = false;
    for (const FusedProgram::Step& step : program_.steps) {
      if (step.role != Role::reduction) continue;
      (step.computed == Dtype::float64 ? wide : narrow) = true;
    }
    if (narrow) text += "threadgroup float float_meeting[GROUP / 32 > 0 ? GROUP / 32 : 1];\n";
    if (wide) text += "threadgroup double double_meeting[GROUP / 32 > 0 ? GROUP / 32 : 1];\n";
    std::string aligned = "true";
    text += begins(aligned) + inputs_of_row();
    if (!aligned.empty()) text += fmt::format("const bool aligned = {};\n", aligned);
    for (const RowPasses::Pass& pass : passes_.passes) {
      text += steps_of_row(pass.of_row);
      for (const size_t r : pass.reductions) {
        const FusedProgram::Step& step = program_.steps[r];
        text += fmt::format("{0} s{1}_total = joined_with_none<{2}, {0}>();\n",
                            kernel_type(step.computed), r, op_of(step.reduction));
      }
      const std::string one = element(pass, true);
      const std::string_view by_one =
          "for (uint k = {} + lane; k < uint(length); k += LANES) {{\n{}}}\n";
      if (aligned.empty()) {
        text += fmt::format(fmt::runtime(by_one), "0", one);
      } else {
        text += fmt::format(R"({{
  const uint packs = aligned ? uint(length) / VECTOR : 0;
  for (uint p = lane; p < packs; p += LANES) {{
    const uint first = p * VECTOR;
{}  }}
  {}}}
)",
                            pack(pass), fmt::format(fmt::runtime(by_one), "packs * VECTOR", one));
      }
      for (const size_t r : pass.reductions) {
        const FusedProgram::Step& step = program_.steps[r];
        const std::string_view type = kernel_type(step.computed);
        text += fmt::format("s{0}_total = met_in_row<LANES, {1}>(s{0}_total, {2}_meeting, t);\n", r,
                            op_of(step.reduction), type) +
                reduced(r, fmt::format("s{}_total", r));
      }
    }
    return text + steps_of_row(passes_.at_last) + stores_of_row("if (there && lane == 0) ");
  }

  const FusedProgram& program_;
  const RowPasses& passes_;
  const FusedPattern& pattern_;
  const bool in_rows_;
  std::vector<std::string> memory_;            // of each input
  std::map<size_t, std::string> stored_in_;    // steps that are left in memory
  std::map<std::string, size_t> functions_{};  // by their text
};

}  // namespace

kernel::Definition fused_definition(const FusedProgram& program, const RowPasses& passes,
                                    const FusedPattern& pattern) {
  return FusedWriter(program, passes, pattern).write();
}

}  // namespace holdfast::array
