#pragma once

#include <vector>

#include "holdfast/kernel/targets/vulkan/compared_body_test.h"

// Bodies that use C++ itself: control flow, types, memory of a thread.

namespace holdfast::kernel {

inline std::vector<Param> many_params() {
  std::vector<Param> params;
  for (int i = 0; i < 60; ++i) {
    const std::string name = fmt::format("p{}", i);
    if (i % 3 == 0) params.push_back({name, int64_t{i} * 1'000'000'007});
    if (i % 3 == 1) params.push_back({name, static_cast<uint32_t>(i) * 77});
    if (i % 3 == 2) params.push_back({name, i % 2 == 0});
  }
  return params;
}
inline std::string sum_of_many_params() {
  std::string text = "ulong sum = x[thread_position_in_grid.x];\n";
  for (int i = 0; i < 60; ++i) text += fmt::format("sum = sum * 31 + ulong(p{});\n", i);
  return text + "y[thread_position_in_grid.x] = sum;\n";
}

inline std::vector<ComparedBody> bodies_of_statements() {
  using enum Dtype;
  std::vector<ComparedBody> bodies;
  bodies.push_back({.name = "lambdas_that_capture_by_reference_and_value",
                    .body = R"(
uint i = thread_position_in_grid.x;
int sum = 0;
const int factor = x[i] & 15;
auto add = [&sum, factor](int v) { sum += v * factor; };
auto twice = [&](auto f, int v) { f(v); f(v + 1); };
for (int n = 0; n < 5; ++n) twice(add, x[(i + n) % 100] >> 8);
y[i] = sum;
)",
                    .inputs = {numbers("x", int32, 100, 61, -5000, 10000)},
                    .outputs = {filled("y", int32, 100)},
                    .grid = {100, 1, 1}});
  bodies.push_back({.name = "templates_chosen_by_type_and_number",
                    .body = R"(
uint i = thread_position_in_grid.x;
Stack<uint, 4> stack;
for (int n = 0; n < 7; ++n) stack.push(x[(i + n) % 90]);
y[i] = stack.folded() + Power<3>::of(x[i]) + kind_of(x[i]) + kind_of(short(1)) + kind_of(1.5f);
)",
                    .header = R"(
template <typename T, int N>
struct Stack {
  T values[N];
  int used = 0;
  void push(T v) {
    if (used == N) {
      for (int i = 1; i < N; ++i) values[i - 1] = values[i];
      --used;
    }
    values[used++] = v;
  }
  T folded() const {
    T sum = 0;
    for (int i = 0; i < used; ++i) sum = sum * 7 + values[i];
    return sum;
  }
};
template <int N> struct Power {
  static uint of(uint v) { return v * Power<N - 1>::of(v); }
};
template <> struct Power<0> {
  static uint of(uint) { return 1; }
};
template <typename T> uint kind_of(T) { return 1; }
uint kind_of(float) { return 20; }
template <> uint kind_of<short>(short) { return 300; }
)",
                    .inputs = {any_bits("x", uint32, 90, 62)},
                    .outputs = {filled("y", uint32, 90)},
                    .grid = {90, 1, 1}});
  bodies.push_back({.name = "structs_with_methods_passed_by_reference",
                    .body = R"(
uint i = thread_position_in_grid.x;
Rng rng{x[i], 0x9e3779b9u};
Best best;
for (int n = 0; n < 20; ++n) improve(best, rng.next() >> 20, n);
Best copy = best;
copy.at += 1;
y[i] = best.value * 64 + uint(best.at) * 2 + uint(copy.at > best.at);
)",
                    .header = R"(
struct Rng {
  uint a;
  uint b;
  uint next() {
    a ^= a << 13;
    a ^= a >> 17;
    a ^= a << 5;
    b += 0x6d2b79f5u;
    return a + b;
  }
};
struct Best {
  uint value = 0;
  int at = -1;
};
void improve(thread Best& best, uint value, int at) {
  if (value <= best.value) return;
  best.value = value;
  best.at = at;
}
)",
                    .inputs = {any_bits("x", uint32, 64, 63)},
                    .outputs = {filled("y", uint32, 64)},
                    .grid = {64, 1, 1}});
  bodies.push_back({.name = "private_arrays_indexed_at_run_time",
                    .body = R"(
uint i = thread_position_in_grid.x;
uchar order[16];
uint keys[16];
for (uint n = 0; n < 16; ++n) {
  order[n] = uchar(n);
  keys[n] = x[(i * 7 + n * n) % 200];
}
for (uint n = 1; n < 16; ++n) {
  uchar moved = order[n];
  int at = int(n) - 1;
  while (at >= 0 && keys[order[at]] > keys[moved]) {
    order[at + 1] = order[at];
    --at;
  }
  order[at + 1] = moved;
}
for (uint n = 0; n < 16; ++n) y[i * 16 + n] = order[n];
)",
                    .inputs = {any_bits("x", uint32, 200, 64)},
                    .outputs = {filled("y", uint8, 50 * 16)},
                    .grid = {50, 1, 1}});
  bodies.push_back({.name = "tables_in_constant_memory",
                    .body = R"(
uint i = thread_position_in_grid.x;
uint v = x[i];
float4 w = kWeights[v % 3];
float2 back = w.wz;
y[i] = kTable[v & 15] + w[(v >> 4) & 3] + back.x;
)",
                    // Multiples of 1/4: exact.
                    .header = R"(
constant float kTable[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
constant float4 kWeights[3] = {float4(0.25, 0.5, 0.75, 1), float4(2), float4(float2(3, 4), 5, 6)};
)",
                    .inputs = {any_bits("x", uint32, 80, 65)},
                    .outputs = {filled("y", float32, 80)},
                    .grid = {80, 1, 1}});
  bodies.push_back({.name = "switch_with_fallthrough_and_default_in_the_middle",
                    .body = R"(
uint i = thread_position_in_grid.x;
uint v = x[i];
uint r = 1;
for (int n = 0; n < 4; ++n) {
  switch ((v >> (n * 3)) & 7) {
    case 0: r += 3;
    case 1: r *= 5; break;
    default: r ^= v;
    case 4:
    case 5: r -= n; if (r & 1) break; r += 100;
    case 7: r = r * 2 + 1; continue;
  }
  r += 7;
}
y[i] = r;
)",
                    .inputs = {any_bits("x", uint32, 300, 66)},
                    .outputs = {filled("y", uint32, 300)},
                    .grid = {300, 1, 1}});
  bodies.push_back({.name = "goto_backwards_and_into_a_loop",
                    .body = R"(
uint i = thread_position_in_grid.x;
uint v = x[i] & 0xffff;
uint n = 0;
uint r = 0;
if (v & 1) goto inside;
again:
r = r * 3 + v;
for (; n < 20; ++n) {
  v = v * 5 + 1;
inside:
  r += v & 0xff;
  if ((v & 0x70) == 0x70) goto done;
  if ((v & 0xc) == 0xc) { ++n; if (n < 20) goto again; }
}
r ^= 0x5555;
done:
y[i] = r + (n << 24);
)",
                    .inputs = {any_bits("x", uint32, 256, 67)},
                    .outputs = {filled("y", uint32, 256)},
                    .grid = {256, 1, 1}});
  bodies.push_back({.name = "nested_loops_with_several_exits",
                    .body = R"(
uint i = thread_position_in_grid.x;
y[i] = walk(x, i);
)",
                    .header = R"(
int walk(const device int* x, uint i) {
  int found = 0;
  for (int a = 0; a < 6; ++a) {
    int b = 0;
    do {
      int c = 10;
      while (c-- > 0) {
        int v = x[(i + a * 31 + b * 7 + c) % 128];
        if (v == 13) return found * 1000 + a * 100 + b * 10 + c;
        if (v % 11 == 3) break;
        if (v % 5 == 4) continue;
        if (v % 17 == 16) goto next;
        found += v;
      }
      if (c < 0) --found;
    } while (++b < 4 && found < 300);
  next:
    if (found > 700) return -found;
  }
  return found;
}
)",
                    .inputs = {numbers("x", int32, 128, 68, 0, 60)},
                    .outputs = {filled("y", int32, 128)},
                    .grid = {128, 1, 1}});
  bodies.push_back({.name = "integers_of_eight_to_sixty_four_bits",
                    .body = R"(
uint i = thread_position_in_grid.x;
char a = char(x[i]);
uchar b = uchar(x[i] >> 8);
short c = short(x[i] >> 16);
ushort d = ushort(x[i] >> 32);
int e = int(x[i] >> 20);
long f = long(x[i]);
ulong g = x[i];
ulong r = 0;
r = r * 31 + ulong(uchar(a * 3 + b));
r = r * 31 + ulong(ushort(short(c - a)));
r = r * 31 + ulong(long(a) >> 3) + ulong(c >> 2) + ulong(d >> 1);
r = r * 31 + ulong(f / (long(d) + 1)) + ulong(f % (long(b) + 7));
r = r * 31 + g / (ulong(b) + 3) + g % 1000003ul;
r = r * 31 + ulong(a < char(b)) * 8 + ulong(b < 200) * 4 + ulong(c > a) * 2 + ulong(f < 0);
r = r * 31 + ulong(e / (int(b) + 1)) + ulong(e % (int(b) + 2)) + (g << (b & 63)) + (g >> (d & 63));
r = r * 31 + ulong(metal::max(a, char(5))) + ulong(metal::abs(c)) + ulong(clamp(int(d), 10, 999));
y[i] = r;
)",
                    .inputs = {any_bits("x", uint64, 500, 69)},
                    .outputs = {filled("y", uint64, 500)},
                    .grid = {500, 1, 1}});
  bodies.push_back({.name = "bits_and_high_halves_of_products",
                    .body = R"(
uint i = thread_position_in_grid.x;
uint a = uint(x[i]);
int b = int(x[i] >> 32);
ulong w = x[i];
ulong r = mulhi(a, uint(b)) + ulong(uint(mulhi(int(a), b))) * 3;
r = r * 31 + mulhi(w, w * 3) + ulong(mulhi(long(w), long(b)));
r = r * 31 + clz(a >> (b & 31)) + ctz(a << (b & 31)) * 64 + popcount(w) * 4096;
r = r * 31 + reverse_bits(a) + reverse_bits(w) + reverse_bits(ushort(a)) + reverse_bits(uchar(a));
r = r * 31 + clz(uchar(a)) + clz(ushort(b)) * 16 + popcount(uchar(b)) * 1024 + clz(w >> (b & 63));
r = r * 31 + rotate(a, uint(b & 31)) + rotate(w, ulong(b & 63));
r = r * 31 + absdiff(int(a >> 1), int(uint(b) >> 1)) + ulong(select(a, uint(b), w > 1ul << 63));
y[i] = r;
)",
                    .inputs = {any_bits("x", uint64, 400, 70)},
                    .outputs = {filled("y", uint64, 400)},
                    .grid = {400, 1, 1}});
  // Halves and bfloats are rounded after each operation, of which each is exact in float.
  bodies.push_back({.name = "half_and_bfloat_arithmetic",
                    .body = R"(
uint i = thread_position_in_grid.x;
half a = h[i];
bfloat b = g[i];
half2 v = half2(a, half(float(b)));
half c = a * half(3) + half(0.5);
bfloat d = b * bfloat(3.0f);
d += bfloat(0.5f);
y[i * 4] = c;
y[i * 4 + 1] = metal::max(v.x, v.y) - metal::min(v.x, v.y);
y[i * 4 + 2] = half(float(d));
y[i * 4 + 3] = a < half(float(b)) ? a : half(metal::floor(float(a)));
z[i] = d;
)",
                    .inputs = {numbers("h", float16, 200, 71), numbers("g", bfloat16, 200, 72)},
                    .outputs = {filled("y", float16, 800), filled("z", bfloat16, 200)},
                    .grid = {200, 1, 1},
                    .units = 1});
  bodies.push_back({.name = "conversions_between_all_numbers",
                    .body = R"(
uint i = thread_position_in_grid.x;
float f = x[i];
int n = int(f);
ulong r = as_type<uint>(f);
r = r * 31 + ulong(long(f)) + uint(n) + ushort(as_type<ushort>(half(f)));
r = r * 31 + ulong(char(n)) + ulong(short(n * 100)) + ulong(bool(n)) +
    as_type<uint>(float(r >> 40));
r = r * 31 + as_type<uint>(float(short(n * 1000))) + as_type<uint>(float(uchar(n)));
r = r * 31 + as_type<uint>(metal::trunc(f)) + as_type<uint>(metal::round(f));
r = r * 31 + as_type<uint>(metal::floor(f)) + as_type<uint>(metal::rint(f));
r = r * 31 + as_type<ushort>(bfloat(f * 1.01f)) + as_type<uint>(float(long(r) >> 20));
y[i] = r;
)",
                    .inputs = {numbers("x", float32, 300, 73, -100, 200)},
                    .outputs = {filled("y", uint64, 300)},
                    .grid = {300, 1, 1}});
  bodies.push_back({.name = "params_larger_than_128_bytes",
                    .body = sum_of_many_params(),
                    .inputs = {any_bits("x", uint64, 40, 74)},
                    .outputs = {filled("y", uint64, 40)},
                    .grid = {40, 1, 1},
                    .params = many_params()});
  bodies.push_back({.name = "pointers_that_walk_and_choose_a_buffer",
                    .body = R"(
uint i = thread_position_in_grid.x;
const device ushort* p = (i & 1) ? a + i : b + (99 - i);
const device ushort* end = p + metal::min(9u, 100 - i > 10 ? 9u : 1u);
uint sum = 0;
if (p >= b && p < b + 100) sum = 5000000;
for (; p != end && uint(p - ((i & 1) ? a : b)) < 100u; ++p) sum = sum * 3 + *p;
device ushort* out = y + 2 * i;
*out++ = ushort(sum);
*out = ushort(sum >> 16);
)",
                    .inputs = {any_bits("a", uint16, 100, 75), any_bits("b", uint16, 100, 76)},
                    .outputs = {filled("y", uint16, 200)},
                    .grid = {100, 1, 1}});
  bodies.push_back({.name = "vectors_of_four_with_swizzles",
                    .body = R"(
uint i = thread_position_in_grid.x;
const device float4* v = reinterpret_cast<const device float4*>(x) + i;
float4 a = *v;
a.xy = a.zw * 2 + a.yx;
a.w += dot(a.xyz, float3(1, 2, 3));
float3 c = cross(a.xyz, float3(0, 1, -1));
bool4 larger = a > float4(c, 0);
uchar4 bytes = as_type<uchar4>(w[i]);
a[bytes.x & 3] = float(bytes.y);
reinterpret_cast<device float4*>(y)[i] = select(a, float4(c.zyx, 1), larger);
)",
                    // 64ths times small integers: exact.
                    .inputs = {numbers("x", float32, 240, 77), any_bits("w", uint32, 60, 78)},
                    .outputs = {filled("y", float32, 240)},
                    .grid = {60, 1, 1}});
  bodies.push_back({.name = "structures_with_pointers_are_copied",
                    .body = R"(
threadgroup uint tile[64];
struct Row { threadgroup uint* at; };
uint i = thread_position_in_threadgroup.x;
tile[i] = x[i];
threadgroup_barrier(mem_flags::mem_threadgroup);
Row a[4], b[4];
for (uint k = 0; k < 4; ++k) a[k].at = tile + (i * 7 + k * 13) % 64;
for (uint k = 0; k < 4; ++k) b[(k + i) & 3] = a[(x[k] + k) & 3];
uint sum = 0;
for (uint k = 0; k < 4; ++k) sum = sum * 31 + *b[(x[i] >> k) & 3].at;
y[i] = sum;
)",
                    .inputs = {any_bits("x", uint32, 64, 79)},
                    .outputs = {filled("y", uint32, 64)},
                    .grid = {64, 1, 1},
                    .threadgroup = {64, 1, 1}});
  bodies.push_back({.name = "pointers_that_are_null",
                    .body = R"(
threadgroup uint tile[64];
uint i = thread_position_in_threadgroup.x;
tile[i] = x[i];
threadgroup_barrier(mem_flags::mem_threadgroup);
threadgroup uint* rows[4] = {};
rows[x[i] & 3] = tile + (i ^ 1);
threadgroup uint* found = rows[(x[i] >> 2) & 3];
threadgroup uint* other = (x[i] & 16) ? tile : nullptr;
y[i] = (found ? *found : 77u) + (other == nullptr ? 1000u : other[i]);
)",
                    .inputs = {any_bits("x", uint32, 64, 80)},
                    .outputs = {filled("y", uint32, 64)},
                    .grid = {64, 1, 1},
                    .threadgroup = {64, 1, 1}});
  bodies.push_back({.name = "pointers_into_two_variables_are_never_equal",
                    .body = R"(
threadgroup uint first[8];
threadgroup uint second[8];
uint i = thread_position_in_threadgroup.x;
first[i & 7] = 1;
second[i & 7] = 2;
threadgroup_barrier(mem_flags::mem_threadgroup);
threadgroup uint* p = first + (x[i] & 7);
threadgroup uint* q = second + (x[i] & 7);
threadgroup uint* r = first + (i & 7);
y[i] = (p == q ? 1u : 0u) + (p != q ? 2u : 0u) + (p == r ? 4u : 0u) + *p * 8 + *q * 64;
)",
                    .inputs = {any_bits("x", uint32, 32, 81)},
                    .outputs = {filled("y", uint32, 32)},
                    .grid = {32, 1, 1}});
  bodies.push_back({.name = "numbers_at_any_byte",
                    .body = R"(
uint i = thread_position_in_grid.x;
const device uchar* from = reinterpret_cast<const device uchar*>(x) + i * 9 + 1;
device uchar* to = reinterpret_cast<device uchar*>(y) + i * 8;
uint word;
ushort part;
__builtin_memcpy(&word, from, 4);
__builtin_memcpy(&part, from + 5, 2);
word = word * 3 + part;
__builtin_memcpy(to + 1, &word, 4);
__builtin_memcpy(to + 5, &part, 2);
)",
                    .inputs = {any_bits("x", uint8, 300, 82)},
                    .outputs = {filled("y", uint8, 256)},
                    .grid = {32, 1, 1}});
  bodies.push_back({.name = "tables_of_bytes_with_backslashes",
                    .body = R"(
const uchar table[6] = {92, 92, 3, 52, 0, 92};
uint i = thread_position_in_grid.x;
y[i] = table[x[i] % 6] * 256u + table[i % 6];
)",
                    .inputs = {any_bits("x", uint32, 40, 83)},
                    .outputs = {filled("y", uint32, 40)},
                    .grid = {40, 1, 1}});
  bodies.push_back({.name = "an_array_of_pointers_to_memory_of_several_kinds",
                    .body = R"(
threadgroup uint tile[32];
uint i = thread_position_in_threadgroup.x;
tile[i] = x[i] * 3;
threadgroup_barrier(mem_flags::mem_threadgroup);
uint own[4] = {x[i] ^ 1, i, x[i] >> 3, 9};
const uint* kept[4] = {x + i, own, tile + (i ^ 1), own + 2};
uint which = x[i] & 3;
kept[(x[i] >> 2) & 3] = x[i] & 16 ? own + 3 : x + 1;
y[i] = *kept[which] + kept[which ^ 3][0] * 5;
)",
                    .inputs = {any_bits("x", uint32, 32, 84)},
                    .outputs = {filled("y", uint32, 32)},
                    .grid = {32, 1, 1}});
  bodies.push_back({.name = "pointers_behind_a_pointer_to_memory_of_several_kinds",
                    .body = R"(
threadgroup Held shared[32];
threadgroup uint tile[32];
uint i = thread_position_in_threadgroup.x;
tile[i] = x[i] + 7;
shared[i].at = tile + (x[i] & 31);
threadgroup_barrier(mem_flags::mem_threadgroup);
Held own[2] = {{tile + 1}, {tile + (i >> 1)}};
const Held* held = x[i] & 32 ? shared + (i ^ 3) : own + (x[i] >> 6 & 1);
y[i] = *held->at;
)",
                    .header = "struct Held { const uint* at; };",
                    .inputs = {any_bits("x", uint32, 32, 85)},
                    .outputs = {filled("y", uint32, 32)},
                    .grid = {32, 1, 1}});
  bodies.push_back({.name = "bit_fields_of_three_bytes",
                    .body = R"(
uint i = thread_position_in_grid.x;
Fields own = reinterpret_cast<const device Fields*>(x)[i];
own.b = own.b * 3 + own.a;
own.a++;
Fields many[3] = {own, reinterpret_cast<const device Fields*>(x)[i ^ 1], own};
many[x[i] % 3].b += i;
many[(x[i] >> 8) % 3].d -= 5;
device Fields* to = reinterpret_cast<device Fields*>(y) + i;
*to = many[i % 3];
to->b ^= many[x[i] % 3].b;
to->d += many[2].d;
)",
                    .header = R"(
struct Fields {
  uint a : 5;
  uint b : 19;
  uchar c;
  int d : 22;
  uint e : 2;
};
)",
                    .inputs = {any_bits("x", uint32, 80, 86)},
                    .outputs = {filled("y", uint32, 80)},
                    .grid = {40, 1, 1}});
  bodies.push_back({.name = "products_of_64_bits_that_may_not_fit",
                    .body = R"(
uint i = thread_position_in_grid.x;
const long edges[6] = {0, 1, -1, LONG_MIN, LONG_MAX, 3037000500};
long a = i < 36 ? edges[i / 6] : long(x[i]) >> (x[i] & 63);
long b = i < 36 ? edges[i % 6] : long(x[i + 1]) >> (x[i] >> 8 & 63);
long product = 0;
bool over = __builtin_smull_overflow(a, b, &product);
ulong plain = 0;
bool carries = __builtin_umull_overflow(ulong(a), ulong(b), &plain);
y[i] = ulong(product) ^ (over ? 0x5555555555555555 : 0) ^ (carries ? 1 : 0);
)",
                    .inputs = {any_bits("x", Dtype::uint64, 257, 87)},
                    .outputs = {filled("y", Dtype::uint64, 256)},
                    .grid = {256, 1, 1}});
  return bodies;
}

}  // namespace holdfast::kernel
