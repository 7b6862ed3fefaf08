#pragma once

#include <string>
#include <vector>

#include "holdfast/kernel/generate/tokens.h"
#include "holdfast/kernel/signature.h"

namespace holdfast::kernel {

// Bodies as authors write them, which every target compiles.
struct KernelBody {
  Definition definition{};
  CallSignature signature{};
};

inline ArgumentType typed(Dtype dtype, uint32_t rank = 1) { return {dtype, rank}; }

// One input x and one output y of the dtype, which is the constant T where the text uses it.
inline KernelBody unary_body(std::string name, std::string source, Dtype dtype = Dtype::float32,
                             std::string header = {}) {
  CallSignature signature;
  signature.inputs = {typed(dtype)};
  signature.outputs = {typed(dtype)};
  if (names_in(source + header).identifiers.contains("T")) signature.constants = {{"T", dtype}};
  Definition definition;
  definition.name = std::move(name);
  definition.inputs = {"x"};
  definition.outputs = {"y"};
  definition.source = std::move(source);
  definition.header = std::move(header);
  return {std::move(definition), std::move(signature)};
}

// The same body for every dtype.
inline std::vector<KernelBody> dtype_bodies() {
  std::vector<KernelBody> bodies;
  for (unsigned i = 0; i < kDtypes; ++i) {
    bodies.push_back(unary_body("all_dtypes", R"(
      uint i = thread_position_in_grid.x;
      T v = x[i];
      T w = static_cast<T>(v + v);
      y[i] = v > T(0) ? w : T(1);
    )",
                                static_cast<Dtype>(i)));
  }
  return bodies;
}

// Workload 1: a layer norm and a product with a matrix in one kernel.
inline KernelBody layer_norm_body(Dtype dtype) {
  return {{.name = "fused_ln_gemv_768_768",
           .inputs = {"x", "w", "gamma", "beta", "bias"},
           .outputs = {"y"},
           .source = R"(
    threadgroup float partial[32];
    uint t = thread_index_in_threadgroup;
    float sum = 0.0f;
    for (uint i = t; i < N; i += threads_per_threadgroup.x) sum += float(x[i]);
    float mu = group_sum(sum, partial, t, threads_per_threadgroup.x) / N;
    float squares = 0.0f;
    for (uint i = t; i < N; i += threads_per_threadgroup.x) {
      float d = float(x[i]) - mu;
      squares += d * d;
    }
    float scale = metal::rsqrt(group_sum(squares, partial, t, threads_per_threadgroup.x) / N + eps);
    uint o = threadgroup_position_in_grid.x;
    float dot = 0.0f;
    for (uint i = t; i < N; i += threads_per_threadgroup.x) {
      float h = (float(x[i]) - mu) * scale * float(gamma[i]) + float(beta[i]);
      dot += float(w[o * N + i]) * h;
    }
    dot = group_sum(dot, partial, t, threads_per_threadgroup.x);
    if (t == 0) y[o] = T(dot + float(bias[o]));
  )",
           .header = R"(
    float group_sum(float v, threadgroup float* partial, uint t, uint threads) {
      v = simd_sum(v);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (t % 32 == 0) partial[t / 32] = v;
      threadgroup_barrier(mem_flags::mem_threadgroup);
      float total = 0.0f;
      for (uint i = 0; i < (threads + 31) / 32; ++i) total += partial[i];
      return total;
    }
  )"},
          {.inputs = {typed(dtype), typed(dtype, 2), typed(dtype), typed(dtype), typed(dtype)},
           .outputs = {typed(dtype)},
           .in_place = {},
           .constants = {{"T", dtype}, {"N", int64_t{768}}},
           .params = {{"eps", Dtype::float32}}}};
}

// Workload 2: pairwise rotations of groups of 128 channels.
inline KernelBody rotation_body(Dtype dtype, int64_t rows_of_a_tile) {
  return {
      {.name = "paro_rotate",
       .inputs = {"x", "pairs", "cosine", "sine", "scale"},
       .outputs = {"y"},
       .source = R"(
    threadgroup float tile[128 * R];
    uint t = thread_position_in_threadgroup.x;
    uint group = threadgroup_position_in_grid.y;
    uint first_row = threadgroup_position_in_grid.x * R;
    for (uint c = t; c < 128; c += 64) {
      float s = float(scale[group * 128 + c]);
      for (uint r = 0; r < R; ++r) {
        uint row = first_row + r;
        tile[c * R + r] = row < uint(rows) ? float(x[row * D + group * 128 + c]) * s : 0.0f;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint k = 0; k < K; ++k) {
      uint at = k * (D / 2) + group * 64 + t;
      int pair = pairs[at];
      uint i = pair & 0xffff;
      uint j = (pair >> 16) & 0xffff;
      float c = float(cosine[at]);
      float s = float(sine[at]);
      for (uint r = 0; r < R; ++r) {
        float a = tile[i * R + r];
        float b = tile[j * R + r];
        tile[i * R + r] = a * c + b * s;
        tile[j * R + r] = b * c - a * s;
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    for (uint c = t; c < 128; c += 64) {
      for (uint r = 0; r < R; ++r) {
        uint row = first_row + r;
        if (row < uint(rows)) y[row * D + group * 128 + c] = static_cast<T>(tile[c * R + r]);
      }
    }
  )"},
      {.inputs = {typed(dtype, 2), typed(Dtype::int32, 2), typed(dtype, 2), typed(dtype, 2),
                  typed(dtype)},
       .outputs = {typed(dtype, 2)},
       .in_place = {},
       .constants = {{"T", dtype}, {"D", int64_t{2560}}, {"K", int64_t{8}}, {"R", rows_of_a_tile}},
       .params = {{"rows", Dtype::int32}}}};
}

// Workload 2: a product with weights of four bits.
inline KernelBody quantized_product_body(Dtype dtype) {
  return {{.name = "paro_matmul",
           .inputs = {"v", "packed", "scales", "biases"},
           .outputs = {"y"},
           .source = R"(
    uint lane = thread_index_in_simdgroup;
    uint o = threadgroup_position_in_grid.x;
    uint r = threadgroup_position_in_grid.y;
    float acc = 0.0f;
    for (uint word = lane; word < D / 8; word += threads_per_simdgroup) {
      uint q = packed[o * (D / 8) + word];
      float s = scales[o * (D / 128) + word / 16];
      float b = biases[o * (D / 128) + word / 16];
      for (uint i = 0; i < 8; ++i) {
        acc += float(v[r * D + word * 8 + i]) * (s * float((q >> (4 * i)) & 0xf) + b);
      }
    }
    acc = simd_sum(acc);
    if (lane == 0) y[r * threadgroups_per_grid.x + o] = acc;
  )"},
          {.inputs = {typed(dtype, 2), typed(Dtype::uint32, 2), typed(Dtype::float32, 2),
                      typed(Dtype::float32, 2)},
           .outputs = {typed(Dtype::float32, 2)},
           .in_place = {},
           .constants = {{"D", int64_t{2560}}},
           .params = {}}};
}

// One body for each thing the language has.
inline std::vector<KernelBody> feature_bodies() {
  std::vector<KernelBody> bodies;
  const auto add = [&](KernelBody body) { bodies.push_back(std::move(body)); };

  add({{.name = "strided_exp", .inputs = {"inp"}, .outputs = {"out"}, .source = R"(
    uint elem = thread_position_in_grid.x;
    auto loc = elem_to_loc(elem, inp_shape, inp_strides, inp_ndim);
    T tmp = inp[loc];
    out[elem] = metal::exp(tmp);
  )"},
       {.inputs = {typed(Dtype::float16, 3)},
        .outputs = {typed(Dtype::float16, 3)},
        .in_place = {},
        .constants = {{"T", Dtype::float16}},
        .params = {}}});
  add({{.name = "scalars_and_params",
        .inputs = {"x", "alpha", "shift"},
        .outputs = {"y"},
        .source = R"(
    uint i = thread_position_in_grid.x;
    if (i >= uint(n)) return;
    y[i] = alpha * x[i] + shift + bias * x_shape[1];
  )"},
       {.inputs = {typed(Dtype::float32, 2), typed(Dtype::float32, 0), typed(Dtype::int32, 0)},
        .outputs = {typed(Dtype::float32, 2)},
        .in_place = {},
        .constants = {},
        .params = {{"n", Dtype::int64}, {"bias", Dtype::float16}, {"on", Dtype::bool_}}}});
  bodies.back().definition.source += "if (on) y[i] = 0;\n";
  add({{.name = "in_place",
        .inputs = {"x"},
        .outputs = {"old"},
        .in_place = {"state"},
        .source = R"(
    uint i = thread_position_in_grid.x;
    old[i] = state[i];
    state[i] += x[i];
  )"},
       {.inputs = {typed(Dtype::float32)},
        .outputs = {typed(Dtype::float32)},
        .in_place = {typed(Dtype::float32)},
        .constants = {},
        .params = {}}});
  add(unary_body("pointers_and_locals", R"(
    auto q_ = x + thread_position_in_grid.x * 4;
    device T* out = y + thread_position_in_grid.x * 4;
    constexpr int M = 4;
    float held[M] = {0.0f};
    for (int i = 0; i < M; ++i) held[i] += static_cast<float>(q_[i]) * 2;
    for (int i = 0; i < M; ++i) out[i] = held[M - 1 - i];
  )"));
  for (Dtype dtype : {Dtype::float32, Dtype::float16, Dtype::bfloat16}) {
    add(unary_body("templates_in_the_header", R"(
      uint i = thread_position_in_grid.x;
      Pair<T> p = both(x[i]);
      y[i] = p.first + twice<2>(p.second) + SCALE;
    )",
                   dtype, R"(
      #include <metal_stdlib>
      using namespace metal;
      #define SCALE 3
      template <typename T> struct Pair { T first; T second; };
      template <typename T> Pair<T> both(T v) { return {v, v}; }
      template <int N, typename T> T twice(T v) { return v * N; }
      constant float table[2] = {1.0f, 2.0f};
      inline float look_up(int i) { return table[i & 1]; }
    )"));
    add(unary_body("math", R"(
      uint i = thread_position_in_grid.x;
      T v = x[i];
      float f = float(v);
      f += metal::exp(f) + metal::precise::exp(f) + metal::fast::exp(f) + exp2(f) + log(f) + log2(f);
      f += metal::sin(f) + metal::cos(f) + metal::tan(f) + tanh(f) + sqrt(f) + rsqrt(f) + pow(f, 2.0f);
      f += floor(f) + ceil(f) + round(f) + rint(f) + trunc(f) + fract(f) + fmod(f, 3.0f) + atan2(f, 2.0f);
      f += metal::max(f, 0.0f) + metal::min(f, 1.0f) + clamp(f, 0.0f, 1.0f) + abs(f) + fabs(f) + sign(f);
      f += fma(f, f, f) + mix(f, 1.0f, 0.5f) + smoothstep(0.0f, 1.0f, f) + step(0.5f, f) + select(f, 1.0f, f > 2);
      f += isnan(f) || isinf(f) || !isfinite(f) ? INFINITY : M_PI_F;
      T w = metal::exp(v) + metal::max(v, T(1)) + metal::abs(v);
      y[i] = static_cast<T>(f) + w;
    )",
                   dtype));
  }
  for (Dtype dtype : {Dtype::float16, Dtype::bfloat16}) {
    add(unary_body("two_byte_floats", R"(
      uint i = thread_position_in_grid.x;
      float acc = 1;
      acc += x[i];
      acc *= x[i];
      T v = 1.5f;
      T w = acc;
      T from_integer = 2;
      float f = x[i];
      int n = int(x[i]);
      T larger = one_of(x[i] * x[i], x[i]) + one_of(-x[i], v) + one_of(x[i] / v, T(0.5h));
      auto product = x[i] * 2;
      static_assert(sizeof(product) == 2 && sizeof(x[i] + x[i]) == 2 && sizeof(x[i] * 1.0f) == 4);
      product++;
      y[i] = 1.5f;
      y[i] = x[i] * 2;
      y[i] += x[i];
      y[i] -= 0.5f;
      if (x[i] && !(x[i] > 3) && x[i] <= 2.0f && 1 < x[i] && x[i] != v) y[i] = 100;
      y[i] = w + from_integer * f + n + larger + product + half(x[i]) * x[i] + static_cast<float>(v);
    )",
                   dtype, "template <typename U> U one_of(U a, U b) { return a > b ? a : b; }"));
  }
  add(unary_body("bfloat_or_zero", R"(
    uint i = thread_position_in_grid.x;
    y[i] = i > 3 ? x[i] : 0;
  )",
                 Dtype::bfloat16));
  add(unary_body("constants_of_the_header", R"(
    threadgroup float s[M];
    uint i = thread_position_in_grid.x;
    s[i % M] = table[i % M] + first(table) + 0.5h;
    y[i] = s[i % M];
  )",
                 Dtype::float32, R"(
      constant int M = 4;
      constant float table[4] = {1, 2, 3, 4};
      float first(constant float* from) { return from[0]; }
    )"));
  add(unary_body("shared_through_macros", R"(
    SHARED float s[32];
    FLOATS t[32];
    threadgroup alignas(16) float u[32];
    threadgroup Block<(4 << 3)> b;
    SHARED float* p = s;
    uint i = thread_index_in_threadgroup;
    s[i] = t[i] = u[i] = b.v[i] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = p[31 - i] + t[31 - i] + u[31 - i] + b.v[31 - i];
  )",
                 Dtype::float32, R"(
      #define SHARED threadgroup
      #define FLOATS threadgroup float
      template <int N> struct Block { float v[N]; };
    )"));
  add(unary_body("integers", R"(
    uint i = thread_position_in_grid.x;
    int v = x[i];
    uint u = as_type<uint>(v);
    v = popcount(u) + clz(u) + ctz(u) + int(reverse_bits(u)) + int(rotate(u, 3u)) + int(mulhi(u, u));
    v += max(v, 2) + min(v, 3) + clamp(v, 0, 9) + abs(v) + numeric_limits<int>::max() % 7 + INT_MAX % 3;
    y[i] = v;
  )",
                 Dtype::int32));
  add(unary_body("vectors", R"(
    uint i = thread_position_in_grid.x;
    device const float4* v4 = (device const float4*)x;
    float4 v = v4[i];
    float2 a = v.xy;
    v.zw = a * 2.0f;
    v.x += v.wzyx[1];
    float3 b = float3(a, 1.0f);
    b = cross(b, float3(1.0f, 2.0f, 3.0f)) + 0.5f * b;
    half4 h = half4(v);
    int4 n = int4(v) + 1;
    uint2 m = uint2(3u, 4u) << 1u;
    bool4 positive = v > float4(0.0f);
    float s = dot(v, v) + length(b) + normalize(b).x + float(h.y) + n.w + m.y;
    if (any(positive) && !all(positive)) s += v.r + v.g;
    v = exp(v) + max(v, float4(0.0f));
    y[i] = s + v[int(i & 3)];
  )"));
  for (Dtype dtype : {Dtype::float32, Dtype::float16, Dtype::int32, Dtype::uint64}) {
    add(unary_body("simd", R"(
      uint i = thread_position_in_grid.x;
      T v = x[i];
      v = simd_sum(v) + simd_product(v) + simd_max(v) + simd_min(v);
      v += simd_prefix_inclusive_sum(v) + simd_prefix_exclusive_sum(v);
      v += simd_prefix_inclusive_product(v) + simd_prefix_exclusive_product(v);
      v += simd_shuffle(v, 3) + simd_shuffle_down(v, 1) + simd_shuffle_up(v, 1) + simd_shuffle_xor(v, 2);
      v += simd_shuffle_rotate_down(v, 1) + simd_shuffle_rotate_up(v, 1);
      v += simd_broadcast(v, 0) + simd_broadcast_first(v);
      if (simd_all(v > T(0)) || simd_any(v < T(0))) v += T(1);
      if (simd_is_first()) v += T(ulong(simd_vote::vote_t(simd_ballot(v > T(3)))) & 7u);
      simdgroup_barrier(mem_flags::mem_none);
      y[i] = v;
    )",
                   dtype));
  }
  add(unary_body("simd_bits", R"(
    uint v = x[thread_position_in_grid.x];
    y[thread_position_in_grid.x] = simd_and(v) + simd_or(v) + simd_xor(v) + thread_index_in_simdgroup;
  )",
                 Dtype::uint32));
  for (Dtype dtype :
       {Dtype::int32, Dtype::uint32, Dtype::float32, Dtype::int64, Dtype::float16, Dtype::uint8}) {
    KernelBody body = unary_body("atomics", R"(
      uint i = thread_position_in_grid.x;
      T v = x[i];
      T old = atomic_fetch_add_explicit(&y[0], v, memory_order_relaxed);
      old = atomic_fetch_sub_explicit(&y[1], v, memory_order_relaxed);
      old = atomic_fetch_min_explicit(&y[2], v, memory_order_relaxed);
      old = atomic_fetch_max_explicit(&y[3], v, memory_order_relaxed);
      old = atomic_exchange_explicit(&y[4], v, memory_order_relaxed);
      while (!atomic_compare_exchange_weak_explicit(&y[5], &old, T(old + v), memory_order_relaxed,
                                                    memory_order_relaxed)) {
      }
      atomic_store_explicit(&y[6], atomic_load_explicit(&y[7], memory_order_relaxed),
                            memory_order_relaxed);
    )",
                                 dtype);
    body.definition.atomic_outputs = true;
    add(std::move(body));
  }
  add(unary_body("threadgroup_memory", R"(
    threadgroup half4 tile[32];
    threadgroup atomic_uint count;
    threadgroup float* p = (threadgroup float*)tile;
    uint t = thread_index_in_threadgroup;
    if (t == 0) atomic_store_explicit(&count, 0u, memory_order_relaxed);
    tile[t & 31] = half4(x[t]);
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    atomic_fetch_add_explicit(&count, 1u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[t] = float(tile[(t + 1) & 31].x) + p[0] + atomic_load_explicit(&count, memory_order_relaxed);
  )"));
  add(unary_body("places", R"(
    uint3 g = thread_position_in_grid;
    uint3 all = threads_per_grid + threadgroups_per_grid + dispatch_threads_per_threadgroup;
    uint3 here = thread_position_in_threadgroup + threadgroup_position_in_grid + threads_per_threadgroup;
    uint rest = thread_index_in_threadgroup + thread_index_in_simdgroup + simdgroup_index_in_threadgroup +
                simdgroups_per_threadgroup + threads_per_simdgroup + thread_execution_width +
                dispatch_simdgroups_per_threadgroup + grid_size.x + grid_origin.x;
    y[(g.z * threads_per_grid.y + g.y) * threads_per_grid.x + g.x] = all.x + here.y + rest;
  )"));
  add(unary_body("preprocessor", R"(
    uint i = thread_position_in_grid.x;
    #if N > 4 && defined(__FAST_MATH__)
    y[i] = x[i] / N;
    #elif N > 4
    y[i] = x[i] * N;
    #else
    y[i] = x[i] + UNROLL(N);
    #endif
  )",
                 Dtype::float32, "#define UNROLL(n) ((n) * 2)\n"));
  bodies.back().signature.constants.push_back({"N", int64_t{8}});
  add(unary_body("debug_aids", R"(
    uint i = thread_position_in_grid.x;
    assert(i < 1000u);
    if (x[i] < 0) printf("%u: %f\n", i, double(x[i]));
    y[i] = x[i];
  )"));
  return bodies;
}

inline std::vector<KernelBody> bodies_for_tests() {
  std::vector<KernelBody> bodies = feature_bodies();
  for (KernelBody& body : dtype_bodies()) bodies.push_back(std::move(body));
  for (const Dtype dtype : {Dtype::float32, Dtype::float16, Dtype::bfloat16}) {
    bodies.push_back(layer_norm_body(dtype));
    bodies.push_back(rotation_body(dtype, 1));
    bodies.push_back(rotation_body(dtype, 4));
    bodies.push_back(quantized_product_body(dtype));
  }
  return bodies;
}

}  // namespace holdfast::kernel
