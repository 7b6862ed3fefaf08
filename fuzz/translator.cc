// Whatever a clang writes, or a broken one: the translator makes a module of it or refuses it with
// a sentence, in time that grows with its length. Texts begin as what clang makes of the kernels
// below, and are changed by lines, words and bytes.

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/kernel/targets/vulkan/clang.h"
#include "holdfast/kernel/targets/vulkan/ir/ir_reader.h"
#include "holdfast/kernel/targets/vulkan/ir/translate.h"
#include "holdfast/kernel/targets/vulkan/vulkan_text.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace holdfast::kernel;

// The language in a few kernels: flow, memory of every kind, vectors, atomics, simdgroups, math.
constexpr std::array<std::string_view, 6> kBodies{
    R"(
uint i = thread_position_in_grid.x;
float v = x[i];
for (uint k = 0; k < 7; ++k) {
  if (v > 3) break;
  switch (k % 4) {
    case 0: v += 1; break;
    case 2: v = v * v;
    case 3: if (v < -9) return;
    default: v -= 0.5f;
  }
}
y[i] = v;
)",
    R"(
threadgroup float s[64];
threadgroup float4 q[4];
uint t = thread_index_in_threadgroup;
s[t % 64] = x[t];
q[t % 4] = float4(x[t], 1, 2, 3).wzyx;
threadgroup_barrier(mem_flags::mem_threadgroup);
threadgroup float* p = t % 3 ? s : s + 16;
float sum = simd_sum(p[t % 16]);
if (simdgroup_index_in_threadgroup > 0) sum = simd_max(sum + q[1].x);
y[t] = sum;
)",
    R"(
uint i = thread_position_in_grid.x;
int a[9];
for (int k = 0; k < 9; ++k) a[k] = int(x[i]) * k;
struct Pair { short a; half b; };
Pair pairs[3] = {{1, half(2)}, {3, half(x[i])}, {5, half(6)}};
constexpr int table[5] = {3, 1, 4, 1, 5};
long wide = long(a[i % 9]) << 33;
y[i] = float(wide >> 31) + float(pairs[i % 3].b) + table[i % 5] + popcount(uint(a[2]));
)",
    R"(
uint i = thread_position_in_grid.x;
atomic_uint* cells = reinterpret_cast<atomic_uint*>(y);
atomic_fetch_add_explicit(&cells[i % 4], 1u, memory_order_relaxed);
atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst);
threadgroup atomic_uint local[2];
atomic_fetch_max_explicit(&local[i % 2], i, memory_order_relaxed);
)",
    R"(
uint i = thread_position_in_grid.x;
double d = double(x[i]) / 3;
y[i] = metal::exp(x[i]) * metal::sin(float(d)) + metal::pow(x[i], 0.3f) + float(metal::floor(d));
)",
    R"(
uint i = thread_position_in_grid.x;
device const float4* v = reinterpret_cast<device const float4*>(x);
float4 sum = v[i] * 2 + v[i + 1].yxwz;
uchar4 bytes = as_type<uchar4>(sum.x);
y[i] = dot(sum, sum) + bytes.y + (sum.z > 0 && sum.w < 1 ? 1 : metal::fmod(sum.x, 3.0f));
)"};

const std::vector<std::string>& seeds() {
  static const std::vector<std::string> made = [] {
    std::vector<std::string> texts;
    const auto clang = Clang::find().or_raise();
    for (const std::string_view body : kBodies) {
      const Definition definition{
          .name = "fuzzed", .inputs = {"x"}, .outputs = {"y"}, .source = std::string(body)};
      const GeneratedKernel code = vulkan_text(definition, {.inputs = {{}}, .outputs = {{}}}, {});
      const LlvmOutcome outcome = clang->to_llvm({.text = code.preamble + code.text}).or_raise();
      if (outcome.text.empty()) {
        std::fprintf(stderr, "%s\n", outcome.messages.c_str());
        std::abort();
      }
      texts.push_back(outcome.text);
    }
    return texts;
  }();
  return made;
}

// ---- changes ----

using Random = std::mt19937;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1);
    lines.push_back(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
  return lines;
}

bool is_in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '%' ||
         c == '@' || c == '.' || c == '_' || c == '!' || c == '-';
}
std::string_view word_at(std::string_view text, size_t at) {
  while (at < text.size() && !is_in_word(text[at])) ++at;
  size_t begin = at;
  while (begin > 0 && is_in_word(text[begin - 1])) --begin;
  while (at < text.size() && is_in_word(text[at])) ++at;
  return text.substr(begin, at - begin);
}

constexpr std::array<std::string_view, 52> kWords{"0",
                                                  "1",
                                                  "-1",
                                                  "64",
                                                  "4294967296",
                                                  "9223372036854775807",
                                                  "undef",
                                                  "poison",
                                                  "i1",
                                                  "i8",
                                                  "i16",
                                                  "i32",
                                                  "i64",
                                                  "i24",
                                                  "i128",
                                                  "half",
                                                  "float",
                                                  "double",
                                                  "ptr",
                                                  "void",
                                                  "null",
                                                  "true",
                                                  "add",
                                                  "mul",
                                                  "sdiv",
                                                  "shl",
                                                  "ashr",
                                                  "fadd",
                                                  "frem",
                                                  "icmp",
                                                  "fcmp",
                                                  "select",
                                                  "phi",
                                                  "br",
                                                  "switch",
                                                  "ret",
                                                  "load",
                                                  "store",
                                                  "alloca",
                                                  "call",
                                                  "getelementptr",
                                                  "zext",
                                                  "trunc",
                                                  "bitcast",
                                                  "ptrtoint",
                                                  "inttoptr",
                                                  "freeze",
                                                  "extractvalue",
                                                  "insertelement",
                                                  "label",
                                                  "unreachable",
                                                  "zeroinitializer"};

void change(std::string& text, Random& random) {
  const auto below = [&](size_t count) { return static_cast<size_t>(random() % count); };
  if (text.empty()) text = seeds()[below(seeds().size())];
  const size_t kind = below(8);
  if (kind < 4) {
    std::vector<std::string_view> lines = lines_of(text);
    const size_t a = below(lines.size());
    const size_t b = below(lines.size());
    if (kind == 0) lines.erase(lines.begin() + static_cast<ptrdiff_t>(a));
    if (kind == 1) lines.insert(lines.begin() + static_cast<ptrdiff_t>(a), lines[b]);
    if (kind == 2) std::swap(lines[a], lines[b]);
    const std::string& other = seeds()[below(seeds().size())];
    if (kind == 3) {
      const std::vector<std::string_view> others = lines_of(other);
      lines.insert(lines.begin() + static_cast<ptrdiff_t>(a), others[below(others.size())]);
    }
    std::string made;
    for (const std::string_view line : lines) made += line;
    text = std::move(made);
    return;
  }
  const std::string_view word = word_at(text, below(text.size()));
  if (word.empty()) return;
  const size_t at = static_cast<size_t>(word.data() - text.data());
  std::string with(kWords[below(kWords.size())]);
  if (kind < 7) with = word_at(text, below(text.size()));
  text.replace(at, word.size(), with);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  Random random(seed);
  if (random() % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::string text(reinterpret_cast<const char*>(data), size);
  if (size < 64) text.clear();
  for (uint32_t n = 1 + random() % 4; n > 0; --n) change(text, random);
  if (text.size() > max_size) text.resize(max_size);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string entry = "none";
  uint32_t bindings = 1;
  if (const auto read = ir::read(text)) {
    for (const auto& [name, function] : read.value()->functions) {
      if (function.blocks.empty() || function.arguments.empty()) continue;
      entry = name;
      bindings = static_cast<uint32_t>(function.arguments.size() - 1);
      if (name.starts_with("hf_fuzzed")) break;
    }
  }
  // Small parameters are pushed, large ones reached by their address.
  for (const uint64_t bytes : {64, 4000}) {
    const Translated made = translate_to_spirv(text, {.entry_point = entry,
                                                      .bindings = bindings,
                                                      .parameter_bytes = holdfast::Bytes{bytes},
                                                      .keeps_32 = bytes == 64});
    if (made.words.empty() != made.refusal.message.empty()) continue;
    std::fprintf(stderr, "FAILED: neither a module nor a refusal, or both\n");
    std::abort();
  }
  return 0;
}
