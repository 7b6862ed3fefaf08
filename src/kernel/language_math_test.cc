// Vectors and functions of the kernel language.

#include <cmath>

#include "holdfast/kernel/language_rig_test.h"

namespace holdfast::kernel {
namespace {

using ::testing::ElementsAre;

using LanguageMath = LanguageTest;

TEST_F(LanguageMath, vectors_are_built_combined_compared_and_swizzled) {
  Call call{.body = R"(
float4 a = float4(1, 2, 3, 4);
float2 b = a.xy + a.zw * 2;                  // 7 10
float3 c(b, 5);
float4 d = float4(c.zyx, 1.0f) - a;          // 4 8 4 -3
y[0] = b.x; y[1] = b.y; y[2] = d.x + d.y + d.z + d.w;
a.zw = a.xy;                                 // 1 2 1 2
a.yx = a.xw;                                 // y = 1, x = 2
y[3] = a.x * 1000 + a.y * 100 + a.z * 10 + a.w;
a.xy += float2(1, 2);
y[4] = a.x * 10 + a.y;
uint3 u = uint3(7);
u.x <<= 2; u ^= uint3(1, 2, 3);
y[5] = u.x + u.y + u.z;                      // 29 + 5 + 4
bool4 less = a < float4(2.5f);
y[6] = all(less) * 10 + any(less);
y[7] = dot(float3(1, 2, 3), c);
y[8] = length(float2(3, 4)) + distance(float2(0), b.xx - float2(4, 3));
int4 whole = int4(float4(1.9f, -1.9f, 2, 3));
y[9] = whole[0] * 100 + whole.y * 10 + whole[3];
y[10] = max(a, 2.0f).x + min(float2(1, 9), float2(5, 5)).y + clamp(c, 0.0f, 6.0f).y;
half4 h = half4(0.5f);
y[11] = h.r + h.a * 2 + float4(h).g;
float v = 0;
for (int i = 0; i < 4; ++i) v += a[i];
y[12] = v;
y[13] = cross(float3(1, 0, 0), float3(0, 1, 0)).z + normalize(float2(0, 5)).y;
y[14] = metal::exp(float2(0, 1)).x + floor(float4(1.5f)).w;
y[15] = mix(float2(0, 2), float2(10, 4), 0.5f).y;
y[15] += select(float2(1), float2(2), bool2(true, false)).x;
y[16] = (-a).x + (float)(!bool2(true, false)).y + (~uint2(0xfffffff0u)).x;
y[17] = sizeof(float3) + sizeof(half2) + alignof(float4);
const device float4* p = (const device float4*)x;
y[18] = p[1].z;
y[19] = metal::float2(3, 4).y + vec<float, 3>(1, 2, 3).z;
)",
            .x = iota(8),
            .outputs = 20};
  for (const bool bounds : {false, true}) {
    call.bounds = bounds;
    EXPECT_THAT(run(call), ElementsAre(7, 10, 4 + 8 + 4 - 3, 2112, 33, 38, 1, 42, 10, 100 - 10 + 3,
                                       3 + 5 + 6, 0.5F + 1 + 0.5F, 3 + 3 + 1 + 2, 2, 2, 5,
                                       -3 + 1 + 15, 16 + 4 + 16, 6, 4 + 3))
        << bounds;
  }
}

TEST_F(LanguageMath, math_functions_agree_with_the_library) {
  const std::string body = R"(
float v = x[0];
int n = 0;
#define PUT(e) y[n++] = e
PUT(exp(v)); PUT(metal::exp2(v)); PUT(metal::precise::log(v));
PUT(metal::fast::log2(v)); PUT(log10(v));
PUT(sqrt(v)); PUT(rsqrt(v)); PUT(sin(v)); PUT(cos(v)); PUT(tan(v)); PUT(precise::tanh(v));
PUT(sinh(v)); PUT(cosh(v)); PUT(asin(v / 2)); PUT(acos(v / 2)); PUT(atan(v)); PUT(atan2(v, 2.0f));
PUT(pow(v, 3)); PUT(powr(v, 0.5f)); PUT(fabs(-v)); PUT(abs(-3)); PUT(floor(-v)); PUT(ceil(v));
PUT(round(v)); PUT(rint(2.5f)); PUT(trunc(-v)); PUT(fmod(v, 1.0f)); PUT(fma(v, 2.0f, 1.0f));
PUT(min(3u, 4u)); PUT(max(v, 9.0f)); PUT(clamp(v, 0.0f, 1.0f)); PUT(mix(1.0f, 3.0f, 0.25f));
PUT(sign(-v)); PUT(step(1.0f, v)); PUT(saturate(v)); PUT(erf(v)); PUT(log1p(v)); PUT(expm1(v));
PUT(isnan(NAN)); PUT(isinf(INFINITY)); PUT(isfinite(v)); PUT(popcount(255u)); PUT(clz(1u));
PUT(ctz(8)); PUT(select(1, 2, true)); PUT(copysign(v, -1.0f)); PUT(fract(v));
PUT(smoothstep(0.0f, 2.0f, v));
PUT(max(NAN, v)); PUT(min(v, NAN)); PUT(reverse_bits(1u) == 0x80000000u); PUT(clz(ushort(1)));
PUT(numeric_limits<float>::max() == FLT_MAX); PUT(numeric_limits<int>::min() == INT_MIN);
PUT(exp(int(1))); PUT(max(v, 1)); PUT(M_PI_F); PUT(sincos(v, c)); PUT(c); PUT(rotate(1u, 33u));
)";
  const float v = 1.25F;
  const std::vector<float> y = run({.body = "float c;\n" + body, .x = {v}, .outputs = 64});
  const std::vector<float> expected{std::exp(v),
                                    std::exp2(v),
                                    std::log(v),
                                    std::log2(v),
                                    std::log10(v),
                                    std::sqrt(v),
                                    1 / std::sqrt(v),
                                    std::sin(v),
                                    std::cos(v),
                                    std::tan(v),
                                    std::tanh(v),
                                    std::sinh(v),
                                    std::cosh(v),
                                    std::asin(v / 2),
                                    std::acos(v / 2),
                                    std::atan(v),
                                    std::atan2(v, 2.0F),
                                    v * v * v,
                                    std::sqrt(v),
                                    v,
                                    3,
                                    -2,
                                    2,
                                    1,
                                    2,
                                    -1,
                                    0.25F,
                                    3.5F,
                                    3,
                                    9,
                                    1,
                                    1.5F,
                                    -1,
                                    1,
                                    1,
                                    std::erf(v),
                                    std::log1p(v),
                                    std::expm1(v),
                                    1,
                                    1,
                                    1,
                                    8,
                                    31,
                                    3,
                                    2,
                                    -v,
                                    0.25F,
                                    0.625F * 0.625F * (3 - 2 * 0.625F),
                                    v,
                                    v,
                                    1,
                                    15,
                                    1,
                                    1,
                                    std::exp(1.0F),
                                    v,
                                    3.14159265F,
                                    std::sin(v),
                                    std::cos(v),
                                    2};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(y[i], expected[i], 4e-7F * std::max(1.0F, std::fabs(expected[i]))) << i;
  }
}

TEST_F(LanguageMath, high_halves_of_products_are_those_of_the_type) {
  const Call call{.body = R"(
uint u = uint(x[0]) * 0x10001u;  // 0xf000f000
ulong w = (ulong(u) << 32) | u;
int i = int(u);
ulong wide = mulhi(u, u);
y[0] = wide >> 16;
y[1] = mulhi(i, i) >> 16;
y[2] = mulhi(w, w) >> 48;
y[3] = mulhi(long(w), -long(w)) >> 48;
y[4] = mulhi(ushort(u), ushort(u)) >> 4;
y[5] = mulhi(char(x[0] - 61456), char(100));
)",
                  .x = {0xf000},
                  .outputs = 6};
  EXPECT_THAT(run(call), ElementsAre(0xe101, 0x00ff, 0xe101, -0x0100, 0xe10, -7));
}

}  // namespace
}  // namespace holdfast::kernel
