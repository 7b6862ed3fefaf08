#pragma once

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "holdfast/kernel/dtype.h"

namespace holdfast::kernel {

// A body of an input x and an output y of float32 that is zero before, and what it leaves there.
struct NamedBody {
  std::string name;
  std::string body;
  std::vector<float> y;
  std::string header{};
  std::vector<float> x{0};
  Dtype dtype = Dtype::float32;  // of x
  uint32_t threads = 1;
  uint32_t group = 32;
  friend std::ostream& operator<<(std::ostream& out, const NamedBody& body) {
    return out << body.name;
  }
};

inline std::vector<float> counted_up(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}
template <typename F>
std::vector<float> values_by(size_t count, const F& f) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(f(i));
  return values;
}

// The bodies of matrices of a simdgroup multiply x, of 8 x 8 counted elements, in some way.
inline std::vector<NamedBody> bodies_of_simdgroup_matrices() {
  const auto x = [](size_t r, size_t c) { return static_cast<double>(r * 8 + c) / 16 - 2; };
  std::vector<float> elements;
  for (size_t r = 0; r < 8; ++r) {
    for (size_t c = 0; c < 8; ++c) elements.push_back(static_cast<float>(x(r, c)));
  }
  const auto product = [&](bool turned, double more) {
    return values_by(64, [&](size_t i) {
      double sum = more;
      for (size_t k = 0; k < 8; ++k) sum += x(i / 8, k) * (turned ? x(i % 8, k) : x(k, i % 8));
      return sum;
    });
  };
  const auto body = [&](std::string name, std::string text, std::vector<float> y,
                        Dtype dtype = Dtype::float32) {
    return NamedBody{std::move(name), std::move(text), std::move(y), {}, elements, dtype, 32, 32};
  };
  return {
      body("simdgroup_matrices_multiply", R"(
simdgroup_float8x8 a, b, c;
simdgroup_load(a, x, 8);
simdgroup_load(b, x, 8);
simdgroup_multiply(c, a, b);
simdgroup_store(c, y, 8);
)",
           product(false, 0)),
      body("simdgroup_matrices_multiply_and_add", R"(
simdgroup_matrix<float, 8, 8> a, b;
simdgroup_matrix<float, 8, 8> c = make_filled_simdgroup_matrix<float, 8, 8>(3.0f);
simdgroup_load(a, x, 8, ulong2(0, 0));
simdgroup_load(b, x, 8, ulong2(0, 0), true);
simdgroup_multiply_accumulate(c, a, b, c);
simdgroup_store(c, y);
)",
           product(true, 3)),
      body("simdgroup_matrices_of_halves_add_up_in_float", R"(
simdgroup_half8x8 a, b;
simdgroup_float8x8 c(0.0f);
simdgroup_load(a, x);
simdgroup_load(b, x);
simdgroup_multiply_accumulate(c, a, b, c);
simdgroup_store(c, y);
)",
           product(false, 0), Dtype::float16),
      body("simdgroup_matrices_show_their_elements", R"(
simdgroup_float8x8 a(1.0f);
thread float2& own = reinterpret_cast<thread float2&>(a.thread_elements());
uint lane = thread_index_in_simdgroup;
short qid = lane / 4;
short fm = (qid & 4) + ((lane / 2) % 4);
short fn = (qid & 2) * 2 + (lane % 2) * 2;
own += float2(fm * 8 + fn, fm * 8 + fn + 1);
simdgroup_store(a, y, 8, ulong2(0), true);
)",
           values_by(64, [](size_t i) { return (i % 8) * 8 + i / 8 + (i % 8 == i / 8 ? 1 : 0); })),
      body("simdgroup_matrices_are_parts_of_larger_ones", R"(
threadgroup float tile[16 * 12];
uint lane = thread_index_in_simdgroup;
for (uint i = lane; i < 192; i += 32) tile[i] = 100.0f;
simdgroup_barrier(mem_flags::mem_threadgroup);
for (uint i = lane; i < 64; i += 32) tile[(i / 8 + 3) * 12 + i % 8 + 2] = x[i];
simdgroup_barrier(mem_flags::mem_threadgroup);
simdgroup_float8x8 a;
simdgroup_load(a, tile, 12, ulong2(2, 3));
a = a * simdgroup_float8x8(2.0f);
simdgroup_store(a, y, 8);
)",
           values_by(64, [&](size_t i) { return 2 * x(i / 8, i % 8); })),
  };
}

inline std::vector<NamedBody> bodies_of_quads_and_lanes() {
  const auto lanes = [](std::string name, const std::string& text, std::vector<float> y,
                        uint32_t threads = 32) {
    return NamedBody{std::move(name), "uint i = thread_position_in_grid.x;\n" + text,
                     std::move(y),    {},
                     counted_up(32),  Dtype::float32,
                     threads,         32};
  };
  const auto each = [](const auto& f) { return values_by(32, f); };
  return {
      lanes("quad_sums", "y[i] = quad_sum(x[i]);", each([](size_t i) { return 16 * (i / 4) + 6; })),
      lanes("quad_operations", R"(
int v = int(x[i]);
y[i] = quad_max(v) * 1000 + quad_min(v) * 10 + (quad_or(v) - quad_and(v)) + quad_xor(v);
)",
            each([](size_t i) {
              const size_t q = i & ~size_t{3};
              return (q + 3) * 1000 + q * 10 + 3;
            })),
      lanes("quad_products_and_prefixes", R"(
float v = x[i] + 1;
y[i] = quad_prefix_exclusive_sum(v) + 100 * quad_prefix_inclusive_sum(v) +
       quad_prefix_exclusive_product(2.0f) / 16 + quad_prefix_inclusive_product(2.0f) / 1024;
)",
            each([](size_t i) {
              double before = 0;
              for (size_t k = i & ~size_t{3}; k < i; ++k) before += static_cast<double>(k + 1);
              const double own = before + static_cast<double>(i + 1);
              return before + 100 * own + std::exp2(i % 4) / 16 + std::exp2(i % 4 + 1) / 1024;
            })),
      lanes("quad_shuffles", R"(
y[i] = quad_broadcast(x[i], 2) + 100 * quad_shuffle_xor(x[i], 1) +
       10000 * (quad_shuffle_down(x[i], 1) - quad_shuffle_up(x[i], 1)) +
       0.01 * (quad_shuffle_rotate_down(x[i], 1) - quad_shuffle_rotate_up(x[i], 2)) +
       quad_shuffle(x[i], 3 - i % 4) / 1024;
)",
            each([](size_t i) {
              const size_t q = i & ~size_t{3};
              const auto at = [&](size_t k) { return static_cast<double>(q + k % 4); };
              const double down = i % 4 < 3 ? static_cast<double>(i + 1) : static_cast<double>(i);
              const double up = i % 4 > 0 ? static_cast<double>(i - 1) : static_cast<double>(i);
              return at(2) + 100 * static_cast<double>(i ^ 1) + 10000 * (down - up) +
                     0.01 * (at(i + 1) - at(i + 2)) + at(3 - i % 4) / 1024;
            })),
      lanes("quad_votes", R"(
bool odd = i % 2 == 1;
y[i] = quad_all(i < 6) + 2 * quad_any(i == 9) + 4 * quad_is_first() +
       8 * uint(quad_vote::vote_t(quad_ballot(odd))) + 256 * quad_broadcast_first(x[i]);
)",
            each([](size_t i) {
              return (i < 4 ? 1 : 0) + (i / 4 == 2 ? 2 : 0) + (i % 4 == 0 ? 4 : 0) + 8 * 10 +
                     256 * (i & ~size_t{3});
            })),
      lanes("quads_at_the_edge_have_fewer_lanes", "y[i] = quad_sum(x[i]) + 100 * quad_max(x[i]);",
            values_by(6, [](size_t i) { return i < 4 ? 6 + 300 : 9 + 500; }), 6),
      lanes("places_in_quadgroups", R"(
y[i] = thread_index_in_quadgroup + 10 * quadgroup_index_in_threadgroup +
       1000 * quadgroups_per_threadgroup;
)",
            each([](size_t i) { return i % 4 + 10 * (i / 4) + 8000; })),
      lanes("shuffles_that_fill", R"(
float filling = 100 + x[i];
y[i] = simd_shuffle_and_fill_up(x[i], filling, 3) +
       1000 * simd_shuffle_and_fill_down(x[i], filling, 2, 8);
)",
            each([](size_t i) {
              const double up =
                  i >= 3 ? static_cast<double>(i) - 3 : 100 + static_cast<double>(i) + 29;
              const double down =
                  i % 8 < 6 ? static_cast<double>(i) + 2 : 100 + static_cast<double>(i) - 6;
              return up + 1000 * down;
            })),
  };
}

inline std::vector<NamedBody> bodies_of_types() {
  return {
      {"ceildiv_and_limits",
       R"(
y[0] = ceildiv(7, 2) + ceildiv(8u, 4u) * 10;
y[1] = Limits<int>::max == 2147483647 && Limits<int>::min == -2147483647 - 1;
y[2] = Limits<float>::max > 3e38f && Limits<float>::min < -3e38f && isinf(Limits<float>::max);
y[3] = Limits<half>::finite_max;
y[4] = Limits<uchar>::finite_max + Limits<bool>::max;
)",
       {24, 1, 1, 65504, 256}},
      {"type_traits",
       R"(
y[0] = is_same_v<float, metal::conditional_t<sizeof(T) == 4, float, half>>;
y[1] = metal::is_floating_point_v<half> + 2 * is_integral_v<uint> + 4 * is_integral<bool>::value +
       8 * is_floating_point<int>::value + 16 * is_signed_v<short> + 32 * is_unsigned_v<ulong>;
y[2] = bool_constant<true>::value + 2 * true_type() + 4 * integral_constant<int, 3>::value;
y[3] = is_same_v<remove_cv_t<const volatile int>, int> + 2 * is_pointer_v<float*> +
       4 * is_same_v<remove_reference_t<thread float&>, float> + 8 * is_convertible_v<int, float>;
y[4] = pick(2.5f) + pick(2);
)",
       {1, 1 + 2 + 4 + 16 + 32, 15, 15, 5.0F + 20},
       R"(
using T = float;
template <typename T, metal::enable_if_t<metal::is_floating_point_v<T>, int> = 0>
float pick(T v) { return v * 2; }
template <typename T, metal::enable_if_t<metal::is_integral_v<T>, int> = 0>
float pick(T v) { return v * 10; }
)"},
      {"names_that_authors_have_themselves",
       R"(
int matrix = 3;
int divide = 4;
y[0] = ceildiv(7, 2) + Limits<float>::max + decay(2) + quads[1] + matrix + divide;
)",
       {100 + 7 + 4 + 20 + 7},
       R"(
template <typename T> T ceildiv(T a, T b) { return 100; }
template <typename T> struct Limits { static constexpr int max = 7; };
constant int quads[2] = {10, 20};
int decay(int v) { return 2 * v; }
)"},
      {"bits_in_and_out",
       R"(
y[0] = extract_bits(0xabcdu, 4, 8);
y[1] = extract_bits(int(0xf0), 4, 4);
y[2] = insert_bits(0xffffu, 0x12u, 4, 8);
y[3] = extract_bits(uint2(0x12, 0x34), 4, 4).y + extract_bits(7u, 3, 0);
y[4] = insert_bits(uchar(0), uchar(0xff), 2, 3);
)",
       {0xbc, -1, 0xf12f, 3, 0x1c}},
      {"literals_of_bfloat", "y[0] = 0.5bf + 1.25bf; y[1] = float(bfloat(3)) * 2.0bf;", {1.75F, 6}},
      {"divisions_by_name",
       "y[0] = fast::divide(3.0f, 4.0f) + precise::divide(1.0f, 2.0f); "
       "y[1] = divide(float2(1, 9), 3.0f).y;",
       {1.25F, 3}},
      {"halves_beside_integers",
       "bool c = x[0] == 0; y[0] = c ? x[0] + half(2) : 0; y[1] = c ? 1 : x[0]; "
       "half h = c ? x[0] : 0; y[2] = h + 5;",
       {2, 1, 5},
       {},
       {0},
       Dtype::float16},
      {"fences_without_barriers",
       R"(
y[0] = 1;
atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
y[0] += 1;
)",
       {2}},
      {"packed_vectors",
       R"(
struct Particle { packed_float3 at; float mass; };
Particle p;
p.at = packed_float3(1, 2, 3);
p.mass = 4;
p.at += 1.0f;
float3 twice = p.at * 2.0f + float3(0, 0, 1);
p.at.y = 10;
p.at[2] = twice.z;
packed_float3 copy = packed_float3(twice);
y[0] = sizeof(Particle) + 100 * (sizeof(packed_half3) + sizeof(packed_uchar4));
y[1] = p.at.x + 10 * p.at.y + 100 * p.at.z + 10000 * p.mass;
y[2] = copy.x + copy.y + copy.z + dot(float3(copy), float3(1, 1, 1));
y[3] = length(float3(packed_int3(2, 3, 6))) + max(copy, packed_float3(5.0f)).x;
y[4] = (copy + copy).x + float3(copy - 1.0f).y + (-copy).z + (2.0f * copy).x;
)",
       {16 + 100 * 10, 2 + 100 + 900 + 40000, 4 + 6 + 9 + 19, 7 + 5, 8 + 5 - 9 + 8}},
      {"packed_vectors_in_memory",
       R"(
device packed_float3* triples = reinterpret_cast<device packed_float3*>(y);
triples[1] = packed_float3(1, 2, 3);
triples[0] = triples[1] * triples[1];
)",
       {1, 4, 9, 1, 2, 3}},
      {"packed_vectors_have_swizzles",
       R"(
packed_float3 a(1, 2, 3);
float2 b = a.yx;
a.xy = float2(7, 8);
y[0] = b.x + 10 * b.y; y[1] = a.x + 10 * a.y + 100 * a.z;
)",
       {12, 7 + 80 + 300}},
      {"matrices_of_a_thread",
       R"(
float2x2 a(1, 2, 3, 4);
float2x2 b(float2(5, 6), float2(7, 8));
float2x2 c = a * b;
y[0] = c[0][0] + 100 * c[0][1] + 10000 * c[1][0];
float2 v = a * float2(1, 10);
float2 u = float2(1, 10) * a;
y[1] = v.x + 100 * v.y; y[2] = u.x + 100 * u.y;
y[3] = determinant(a) + determinant(float3x3(2.0f)) + determinant(float4x4(3.0f));
float2x3 t(1, 2, 3, 4, 5, 6);
float3x2 s = transpose(t);
y[4] = s[2][1] + 10 * s[0][1] + 100 * (t * float2(1, 1)).z;
y[5] = (a + b - a * 2.0f)[1].y + metal::matrix<float, 2, 2>(a)[0].y;
)",
       {23 + 100 * 34 + 10000 * 31, 31 + 100 * 42, 21 + 100 * 43, -2 + 8 + 81, 6 + 40 + 900,
        4 + 2}},
  };
}

inline std::vector<NamedBody> bodies_of_names() {
  std::vector<NamedBody> all = bodies_of_types();
  for (const auto& more : {bodies_of_quads_and_lanes(), bodies_of_simdgroup_matrices()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace holdfast::kernel
