#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/simulation/driver.h"

namespace holdfast::kernel {

// A random body of the kernel language: well-typed, without undefined behaviour, and with results
// that do not depend on how a compiler or a device rounds or orders.
//
// Arithmetic is unsigned or in range, shifts and divisors are guarded, indices are masked, loops
// are counted. Floats are never fused, infinite, NaN, a negative zero or too small to be normal, as
// tame() makes them. Threads meet only where all of them come to: at the top of the body.
//
// It reads x (uint32, kInputs), takes the param `knob` (uint) and writes kOutputs words of y for
// each thread of a grid of one dimension; groups have at most kThreads threads.
class BodyGenerator {
 public:
  static constexpr uint32_t kInputs = 64;
  static constexpr uint32_t kOutputs = 6;
  static constexpr uint32_t kThreads = 64;

  struct Text {
    std::string header{};
    std::string body{};
  };

  explicit BodyGenerator(uint64_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) (void)random_.next();
  }

  Text make() {
    Text text;
    text.header = std::string(kHelpers);
    for (helpers_ = 0; helpers_ < 2;) {
      in_helper_ = true;
      scope_ = {{"u0", "u1", "u2"}, {"f0", "f1"}, {"w0"}};
      out_ =
          fmt::format("uint helper{}(uint u0, float f0, const thread uint* given) {{\n", helpers_);
      line("uint a[8];");
      line("for (uint k = 0u; k < 8u; ++k) a[k] = given[k] + u0;");
      line("uint u1 = u0 * 7u + 1u, u2 = a[u0 & 7u];");
      line("float f1 = tame(f0 * 0.5f);");
      line("ulong w0 = ulong(u1) << 20;");
      block(2, 2);
      line(fmt::format("return {};\n}}", uints(2)));
      text.header += out_;
      ++helpers_;
    }
    in_helper_ = false;
    scope_ = {{"u0", "u1", "u2", "u3", "knob"}, {"f0", "f1", "f2"}, {"w0", "w1"}};
    out_ = std::string(kBegin);
    const bool meets = random_.one_in(2);
    for (uint64_t n = 1 + random_.below(2); n > 0; --n) {
      block(2, 2);
      if (meets) meet();
    }
    may_return_ = true;
    block(3, 2);
    out_ += kEnd;
    text.body = out_;
    return text;
  }

 private:
  struct Scope {
    std::vector<std::string> uints;
    std::vector<std::string> floats;
    std::vector<std::string> longs;
  };

  static constexpr std::string_view kHelpers = R"(#pragma METAL fp contract(off)
float tame(float v) {
  if (!(metal::fabs(v) < 1000000.0f)) return 1.5f;
  return metal::fabs(v) < 0.0001f ? 0.0f : v;
}
uint shifted(uint v, uint by) { return (by & 32u) ? v << (by & 31u) : v >> (by & 31u); }
uint divided(uint v, uint by) { return by == 0u ? v : v / by; }
int divided(int v, int by) { return by <= 0 ? v : v / by; }
struct Pair {
  uint a;
  float b;
  uint mixed() const { return a * 33u + uint(int(b)); }
  void swap_with(thread Pair& other) {
    Pair kept = *this;
    *this = other;
    other = kept;
  }
};
)";
  static constexpr std::string_view kBegin = R"(threadgroup uint s[64];
uint t = thread_index_in_threadgroup;
uint n = threads_per_threadgroup.x;
uint i = thread_position_in_grid.x;
device uint* out = y + i * 6u;
uint u0 = x[i & 63u], u1 = x[(i * 7u + 3u) & 63u], u2 = i, u3 = knob;
float f0 = float(int(u0 & 0xffffu)) * 0.125f, f1 = tame(float(i) * 0.25f - 9.0f), f2 = 3.0f;
ulong w0 = ulong(u0) << 32 | u1, w1 = w0 * 0x9e3779b97f4a7c15ul;
uint a[8];
for (uint k = 0u; k < 8u; ++k) a[k] = u0 * k + u1;
Pair p{u0, f0}, q{u1, f1};
s[t] = u0;
)";
  static constexpr std::string_view kEnd = R"(
out[0] += u0 ^ u2;
out[1] += u1 + u3 + p.mixed() + q.mixed();
out[2] += as_type<uint>(f0) ^ as_type<uint>(f1);
out[3] += as_type<uint>(f2);
out[4] += uint(w0) + uint(w1 >> 32);
for (uint k = 0u; k < 8u; ++k) out[5] = out[5] * 31u + a[k];
)";

  uint64_t below(uint64_t n) { return random_.below(n); }
  template <size_t N>
  std::string_view one_of(const std::array<std::string_view, N>& choices) {
    return choices[below(N)];
  }
  const std::string& one_of(const std::vector<std::string>& choices) {
    return choices[below(choices.size())];
  }
  void line(std::string_view text) {
    out_.append(indent_ * 2, ' ');
    out_ += text;
    out_ += '\n';
  }

  std::string number() {
    if (random_.one_in(4)) return fmt::format("{}u", static_cast<uint32_t>(random_.next()));
    return fmt::format("{}u", below(20));
  }
  std::string uints(int depth) {
    if (depth == 0 || random_.one_in(5)) {
      switch (below(4)) {
        case 0: return number();
        case 1: return fmt::format("a[{} & 7u]", one_of(scope_.uints));
        default: return one_of(scope_.uints);
      }
    }
    const int d = depth - 1;
    switch (below(15)) {
      case 0: return fmt::format("divided({}, {})", uints(d), uints(d));
      case 1: return fmt::format("shifted({}, {})", uints(d), uints(d));
      case 2: return fmt::format("({} % ({} | 1u))", uints(d), uints(d));
      case 3: return fmt::format("static_cast<uint>(int({}))", floats(d));
      case 4: return fmt::format("static_cast<uint>({} >> {})", longs(d), below(64));
      case 5: return fmt::format("({} ? {} : {})", truths(d), uints(d), uints(d));
      case 6: return fmt::format("static_cast<uint>({}({}))", one_of(kNarrow), uints(d));
      case 7:
        return fmt::format("static_cast<uint>(divided(int({}), int({})))", uints(d), uints(d));
      case 8: return fmt::format("static_cast<uint>(int({}) >> {})", uints(d), below(32));
      case 9: return fmt::format("{}({})", one_of(kUnary), uints(d));
      case 10: return fmt::format("metal::{}({}, {})", one_of(kBinary), uints(d), uints(d));
      case 11: return fmt::format("a[({}) & 7u]", uints(d));
      case 12:
        if (helpers_ == 0 || depth < 2) return fmt::format("(~{})", uints(d));
        return fmt::format("helper{}({}, {}, a)", below(helpers_), uints(0), floats(0));
      default: return fmt::format("({} {} {})", uints(d), one_of(kOperators), uints(d));
    }
  }
  std::string longs(int depth) {
    if (depth == 0 || random_.one_in(4)) {
      return random_.one_in(3) ? fmt::format("ulong({})", one_of(scope_.uints))
                               : one_of(scope_.longs);
    }
    const int d = depth - 1;
    switch (below(6)) {
      case 0: return fmt::format("({} / ({} | 1ul))", longs(d), longs(d));
      case 1: return fmt::format("static_cast<ulong>(long({}) >> ({} & 63ul))", longs(d), longs(d));
      case 2: return fmt::format("({} << ({} & 63u))", longs(d), uints(d));
      case 3: return fmt::format("({} ? {} : {})", truths(d), longs(d), longs(d));
      case 4: return fmt::format("static_cast<ulong>(int({}))", uints(d));
      default: return fmt::format("({} {} {})", longs(d), one_of(kOperators), longs(d));
    }
  }
  // No fma: Vulkan lets a device round the product, and lavapipe does.
  std::string floats(int depth) {
    if (depth == 0 || random_.one_in(4)) {
      if (random_.one_in(3)) return fmt::format("{}.{}f", below(30), 25 * (1 + below(3)));
      return one_of(scope_.floats);
    }
    const int d = depth - 1;
    switch (below(8)) {
      case 0: return fmt::format("tame({} / (metal::fabs({}) + 1.0f))", floats(d), floats(d));
      case 1: return fmt::format("float(int({} & 0xfffffu) - 5000)", uints(d));
      case 2: return fmt::format("tame(metal::{}({}))", one_of(kRounding), floats(d));
      case 3: return fmt::format("({} ? {} : {})", truths(d), floats(d), floats(d));
      case 4: return fmt::format("tame(-({}))", floats(d));
      default: return fmt::format("tame({} {} {})", floats(d), one_of(kFloatOperators), floats(d));
    }
  }
  std::string truths(int depth) {
    const int d = depth > 0 ? depth - 1 : 0;
    switch (below(7)) {
      case 0: return fmt::format("({} {} {})", floats(d), one_of(kComparisons), floats(d));
      case 1: return fmt::format("(int({}) {} int({}))", uints(d), one_of(kComparisons), uints(d));
      case 2: return fmt::format("({} {} {})", longs(d), one_of(kComparisons), longs(d));
      case 3:
        if (depth > 0) return fmt::format("({} {} {})", truths(d), one_of(kLogic), truths(d));
        [[fallthrough]];
      case 4: return fmt::format("(({} & {}u) != 0u)", uints(d), 1 + below(7));
      default: return fmt::format("({} {} {})", uints(d), one_of(kComparisons), uints(d));
    }
  }

  // Statements; `depth`: how deeply others may be nested in them.
  void block(int depth, uint64_t most) {
    const Scope kept = scope_;
    for (uint64_t n = 1 + below(most); n > 0; --n) statement(depth);
    scope_ = kept;
  }
  void nested(std::string_view head, int depth, std::string_view tail = "}") {
    line(head);
    inside(depth);
    line(tail);
  }
  void inside(int depth) {
    ++indent_;
    block(depth, 2);
    --indent_;
  }
  void assign() {
    switch (below(in_helper_ ? 4 : 6)) {
      case 0: {
        const uint64_t last = in_helper_ ? 3 : 4;
        line(fmt::format("u{} {}= {};", below(last), one_of(kAssignments), uints(3)));
        break;
      }
      case 1: line(fmt::format("f{} = {};", below(in_helper_ ? 2 : 3), floats(3))); break;
      case 2: line(fmt::format("w{} = {};", below(in_helper_ ? 1 : 2), longs(3))); break;
      case 3: line(fmt::format("a[({}) & 7u] = {};", uints(1), uints(2))); break;
      case 4: line(fmt::format("p = Pair{{{}, {}}};", uints(2), floats(2))); break;
      default:
        line("p.swap_with(q);");
        line(fmt::format("u{} += p.mixed();", below(4)));
        break;
    }
  }
  void declare() {
    const std::string name = fmt::format("v{}", ++names_);
    if (random_.one_in(2)) {
      line(fmt::format("const uint {} = {};", name, uints(2)));
      scope_.uints.push_back(name);
    } else {
      line(fmt::format("const float {} = {};", name, floats(2)));
      scope_.floats.push_back(name);
    }
  }
  void leave() {
    const uint64_t kind = below(3);
    std::string how = loops_ > 0 && kind == 0   ? "continue;"
                      : loops_ > 0 && kind == 1 ? "break;"
                                                : "";
    if (how.empty() && in_helper_) how = fmt::format("return {};", uints(1));
    if (how.empty() && may_return_) how = "{ out[0] = u0; out[4] = uint(w0); return; }";
    if (how.empty()) return assign();
    line(fmt::format("if ({}) {}", truths(2), how));
  }
  void loop(int depth) {
    const std::string k = fmt::format("k{}", ++names_);
    const std::string most = random_.one_in(2) ? fmt::format("{}u", 1 + below(4))
                                               : fmt::format("({} & 3u)", one_of(scope_.uints));
    const Scope kept = scope_;
    ++loops_;
    switch (below(3)) {
      case 0:
        scope_.uints.push_back(k);
        line(fmt::format("const uint most_{} = {};", k, most));
        nested(fmt::format("for (uint {0} = 0u; {0} < most_{0}; ++{0}) {{", k), depth - 1);
        break;
      case 1:
        line(fmt::format("uint {} = {};", k, most));
        nested(fmt::format("while ({}-- > 0u && {}) {{", k, truths(1)), depth - 1);
        break;
      default:
        line(fmt::format("uint {} = {};", k, most));
        nested("do {", depth - 1, fmt::format("}} while ({}-- > 0u && {});", k, truths(1)));
        break;
    }
    --loops_;
    scope_ = kept;
  }
  void choose(int depth) {
    const uint64_t cases = 2 + below(4);
    line(fmt::format("switch ({} % {}u) {{", uints(2), cases + below(2)));
    ++indent_;
    const uint64_t other = below(cases + 1);
    for (uint64_t c = 0; c < cases; ++c) {
      line(c == other ? "default: {" : fmt::format("case {}: {{", c));
      ++indent_;
      block(depth - 1, 2);
      if (!random_.one_in(3)) line("break;");
      --indent_;
      line("}");
    }
    --indent_;
    line("}");
  }
  void statement(int depth) {
    if (depth == 0) return random_.one_in(5) ? leave() : assign();
    switch (below(10)) {
      case 0:
      case 1: return assign();
      case 2: return declare();
      case 3: return leave();
      case 4:
      case 5: return loop(depth);
      case 6: return choose(depth);
      case 7: return nested(fmt::format("if ({}) {{", truths(2)), depth - 1);
      default:
        line(fmt::format("if ({}) {{", truths(2)));
        inside(depth - 1);
        return nested("} else {", depth - 1);
    }
  }

  // Threads of a group exchange words, in flow that all of them or whole simdgroups take.
  void meet() {
    const uint64_t kind = below(5);
    const std::string into = fmt::format("u{}", below(4));
    const std::string exchange = fmt::format(
        "threadgroup_barrier(mem_flags::mem_threadgroup); s[t] = {}; "
        "threadgroup_barrier(mem_flags::mem_threadgroup); {} += s[(t + {}u) % n];",
        uints(2), into, 1 + below(40));
    const std::string lanes = fmt::format("{} ^= simd_{}({});", into, one_of(kLanes), uints(2));
    switch (kind) {
      case 0: return line(exchange);
      case 1:
        return line(fmt::format("for (uint r = 0u; r < (knob & 3u) + 1u; ++r) {{ {} {} }}",
                                exchange, lanes));
      case 2:
        return line(fmt::format("if (threadgroup_position_in_grid.x == 0u) {{ {} }} else {{ {} }}",
                                exchange, lanes));
      case 3:
        return line(fmt::format(
            "for (uint r = 0u; r <= simdgroup_index_in_threadgroup; ++r) {{ {} }}", lanes));
      default: return line(lanes);
    }
  }

  static constexpr std::array<std::string_view, 6> kOperators{"+", "-", "*", "^", "&", "|"};
  static constexpr std::array<std::string_view, 3> kFloatOperators{"+", "-", "*"};
  static constexpr std::array<std::string_view, 6> kComparisons{"<", ">", "<=", ">=", "==", "!="};
  static constexpr std::array<std::string_view, 2> kLogic{"&&", "||"};
  static constexpr std::array<std::string_view, 5> kNarrow{"uchar", "char", "short", "ushort",
                                                           "int"};
  static constexpr std::array<std::string_view, 4> kUnary{"popcount", "clz", "reverse_bits", "~"};
  static constexpr std::array<std::string_view, 3> kBinary{"min", "max", "mulhi"};
  static constexpr std::array<std::string_view, 4> kRounding{"floor", "trunc", "ceil", "fabs"};
  static constexpr std::array<std::string_view, 5> kAssignments{"", "+", "^", "-", "*"};
  static constexpr std::array<std::string_view, 6> kLanes{"sum", "max", "min", "xor", "or", "and"};

  simulation::Random random_;
  std::string out_{};
  Scope scope_{};
  size_t indent_ = 0;
  uint64_t helpers_ = 0;
  uint64_t names_ = 0;
  int loops_ = 0;
  bool in_helper_ = false;
  bool may_return_ = false;
};

}  // namespace holdfast::kernel
