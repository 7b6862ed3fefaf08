// Functions of floats as exact as a C library's, to a unit or two in the last place: those of GPUs
// are rougher, each in its own way. With fast math the GPU's own are used.

#define hf_float_bits(v) __builtin_bit_cast(unsigned, v)
#define hf_bits_float(v) __builtin_bit_cast(float, v)
hf_inline float hf_abs(float v) { return hf_bits_float(hf_float_bits(v) & 0x7fffffffu); }
hf_inline float hf_signed(float v, float sign) {
  return hf_bits_float((hf_float_bits(v) & 0x7fffffffu) | (hf_float_bits(sign) & 0x80000000u));
}

// v times 2^n, rounded once.
hf_inline float hf_ldexp(float v, int n) {
  n = n > 300 ? 300 : n < -300 ? -300 : n;
  const int third = n / 3;
  const auto power = [](int e) { return hf_bits_float(unsigned(e + 127) << 23); };
  // Down in one step last, so that what is lost below the normal numbers is rounded once.
  if (n < 0) return v * power(n - 2 * third < -126 ? -126 : third) * power(third) *
                    power(n - 2 * third < -126 ? n + 126 - third : n - 2 * third);
  return v * power(third) * power(third) * power(n - 2 * third);
}
// v as a number of [1, 2) times 2^n; not of zero, infinity or NaN.
struct hf_split {
  float part;
  int n;
  hf_inline explicit hf_split(float v) {
    int by = 0;
    if (hf_float_bits(v) < 0x00800000u) {
      v *= 0x1p25f;
      by = -25;
    }
    const unsigned bits = hf_float_bits(v);
    n = int(bits >> 23) - 127 + by;
    part = hf_bits_float((bits & 0x007fffffu) | 0x3f800000u);
  }
};

// A sum of two floats, the second far smaller.
struct hf_two {
  float high, low;
};
hf_inline hf_two hf_sum(float a, float b) {  // |a| >= |b|
  const float s = a + b;
  return {s, b - (s - a)};
}
hf_inline hf_two hf_product(float a, float b) {
  const float p = a * b;
  return {p, __builtin_fmaf(a, b, -p)};
}
hf_inline hf_two hf_times(hf_two a, hf_two b) {
  const hf_two p = hf_product(a.high, b.high);
  return hf_sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}

// exp(r) - 1 for |r| < 0.35.
hf_inline float hf_exp_part(float r) {
  float p = 0x1.a01a02p-13f;
  p = __builtin_fmaf(p, r, 0x1.6c16c2p-10f);
  p = __builtin_fmaf(p, r, 0x1.111112p-7f);
  p = __builtin_fmaf(p, r, 0x1.555556p-5f);
  p = __builtin_fmaf(p, r, 0x1.555556p-3f);
  p = __builtin_fmaf(p, r, 0.5f);
  return __builtin_fmaf(p * r, r, r);
}
hf_inline float hf_expf(float v) {
  if (v != v) return v;
  if (v > 89.0f) return __builtin_inff();
  if (v < -104.0f) return 0.0f;
  const float n = __builtin_rintf(v * 0x1.715476p+0f);
  float r = __builtin_fmaf(n, -0x1.62e400p-1f, v);
  r = __builtin_fmaf(n, -0x1.7f7d1cp-20f, r);
  return hf_ldexp(1.0f + hf_exp_part(r), int(n));
}
hf_inline float hf_exp2f(float v) {
  if (v != v) return v;
  if (v >= 128.0f) return __builtin_inff();
  if (v < -151.0f) return 0.0f;
  const float n = __builtin_rintf(v);
  const float r = v - n;
  return hf_ldexp(1.0f + hf_exp_part(__builtin_fmaf(r, 0x1.62e430p-1f, r * -0x1.05c610p-29f)),
                  int(n));
}
hf_inline float hf_expm1f(float v) {
  if (hf_abs(v) < 0.34f) return hf_float_bits(v) << 1 == 0 ? v : hf_exp_part(v);
  if (v != v || v > 89.0f) return v != v ? v : __builtin_inff();
  if (v < -18.0f) return -1.0f;
  const float n = __builtin_rintf(v * 0x1.715476p+0f);
  float r = __builtin_fmaf(n, -0x1.62e400p-1f, v);
  r = __builtin_fmaf(n, -0x1.7f7d1cp-20f, r);
  const float p = hf_exp_part(r);
  if (n > 126.0f) return hf_ldexp(1.0f + p, int(n)) - 1.0f;
  const float scale = hf_ldexp(1.0f, int(n));
  return __builtin_fmaf(scale, p, scale - 1.0f);
}

// The logarithm of a normal or subnormal positive number: of its part, and the power.
struct hf_logarithm {
  float n;
  hf_two of_part;  // natural
  hf_inline explicit hf_logarithm(float v) {
    hf_split split(v);
    if (split.part > 0x1.6a09e6p+0f) {
      split.part *= 0.5f;
      ++split.n;
    }
    n = float(split.n);
    // log(m) = 2 atanh(s), s = f / (2 + f).
    const float f = split.part - 1.0f;
    const hf_two below = hf_sum(2.0f, f);
    const float s = f / below.high;
    const float s_low = __builtin_fmaf(-s, below.high, f) / below.high - s * below.low / below.high;
    const float q = s * s;
    float p = 0x1.c71c72p-4f * 2;
    p = __builtin_fmaf(p, q, 0x1.24924ap-3f * 2);
    p = __builtin_fmaf(p, q, 0x1.99999ap-3f * 2);
    p = __builtin_fmaf(p, q, 0x1.555556p-2f * 2);
    of_part = hf_sum(2.0f * s, __builtin_fmaf(p * q, s, 2.0f * s_low));
  }
};
hf_inline bool hf_log_is_known(float v, float& known) {
  if (v > 0.0f && v < __builtin_inff()) return false;
  known = v == 0.0f ? -__builtin_inff() : v > 0.0f ? v : __builtin_nanf("");
  return true;
}
hf_inline float hf_logf(float v) {
  float known;
  if (hf_log_is_known(v, known)) return known;
  const hf_logarithm log(v);
  const hf_two whole = hf_sum(log.n * 0x1.62e400p-1f, log.of_part.high);
  if (log.n == 0.0f) return log.of_part.high + log.of_part.low;
  return whole.high + (whole.low + __builtin_fmaf(log.n, 0x1.7f7d1cp-20f, log.of_part.low));
}
hf_inline float hf_log2f(float v) {
  float known;
  if (hf_log_is_known(v, known)) return known;
  const hf_logarithm log(v);
  const hf_two part = hf_times(log.of_part, {0x1.715476p+0f, 0x1.4ae0c0p-26f});
  const hf_two whole = log.n == 0.0f ? part : hf_sum(log.n, part.high);
  return whole.high + (log.n == 0.0f ? whole.low : whole.low + part.low);
}
hf_inline float hf_log10f(float v) {
  float known;
  if (hf_log_is_known(v, known)) return known;
  const hf_logarithm log(v);
  const hf_two part = hf_times(log.of_part, {0x1.bcb7b2p-2f, -0x1.5b235ep-27f});
  if (log.n == 0.0f) return part.high + part.low;
  const hf_two whole = hf_sum(log.n * 0x1.344000p-2f, part.high);
  return whole.high + (whole.low + __builtin_fmaf(log.n, 0x1.3509f8p-18f, part.low));
}
hf_inline float hf_log1pf(float v) {
  if (hf_abs(v) < 0x1p-24f || v != v) return v;
  if (v == __builtin_inff()) return v;
  if (v <= -1.0f) return v == -1.0f ? -__builtin_inff() : __builtin_nanf("");
  const float u = 1.0f + v;
  // What the sum lost, as a part of the whole.
  const float lost = v < 1.0f && v > -0.5f ? v - (u - 1.0f) : (v >= 1.0f ? 1.0f - (u - v) : v - (u - 1.0f));
  const hf_logarithm log(u);
  const float low = log.of_part.low + lost / u;
  const hf_two whole = hf_sum(log.n * 0x1.62e400p-1f, log.of_part.high);
  if (log.n == 0.0f) return log.of_part.high + low;
  return whole.high + (whole.low + __builtin_fmaf(log.n, 0x1.7f7d1cp-20f, low));
}

hf_inline float hf_powf(float v, float u) {
  if (u == 0.0f || v == 1.0f) return 1.0f;
  if (v != v || u != u) return v + u;
  const float size = hf_abs(v);
  const bool whole = __builtin_truncf(u) == u;
  const bool odd = whole && hf_abs(u) < 0x1p24f && (int(hf_abs(u)) & 1) != 0;
  const float infinity = __builtin_inff();
  if (size == 1.0f && hf_abs(u) == infinity) return 1.0f;
  float result;
  if (size == 0.0f || size == infinity || hf_abs(u) == infinity) {
    const bool grows = (size > 1.0f) == (u > 0.0f);
    result = grows ? infinity : 0.0f;
  } else {
    if (v < 0.0f && !whole) return __builtin_nanf("");
    const hf_logarithm log(size);
    const hf_two part = hf_times(log.of_part, {0x1.715476p+0f, 0x1.4ae0c0p-26f});
    hf_two base = hf_sum(log.n, part.high);
    if (log.n == 0.0f) base = {part.high, 0.0f};
    base = hf_sum(base.high, base.low + part.low);
    hf_two power = hf_product(base.high, u);
    power.low = __builtin_fmaf(base.low, u, power.low);
    if (power.high > 200.0f) {
      result = infinity;
    } else if (power.high < -200.0f) {
      result = 0.0f;
    } else {
      const float n = __builtin_rintf(power.high);
      const float r = power.high - n + power.low;
      result = hf_ldexp(
          1.0f + hf_exp_part(__builtin_fmaf(r, 0x1.62e430p-1f, r * -0x1.05c610p-29f)), int(n));
    }
  }
  return v < 0.0f || (v == 0.0f && hf_float_bits(v) != 0) ? (odd ? -result : result) : result;
}

// v - n pi/2, and n modulo 4.
struct hf_turned {
  float rest;
  unsigned quarter;
  hf_inline explicit hf_turned(float v) {
    const float size = hf_abs(v);
    if (size < 48000.0f) {
      const float n = __builtin_rintf(v * 0x1.45f306p-1f);
      rest = __builtin_fmaf(n, -0x1.921fb0p+0f, v);
      rest = __builtin_fmaf(n, -0x1.5110b4p-22f, rest);
      rest = __builtin_fmaf(n, -0x1.84698ap-48f, rest);
      quarter = unsigned(int(n));
      return;
    }
    // The bits of 2/pi that decide: those below give too little, those above whole turns.
    constexpr unsigned words[8] = {0x00000000u, 0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
                                   0xf534ddc0u, 0xdb629599u, 0x3c439041u};
    const unsigned bits = hf_float_bits(size);
    const unsigned mantissa = (bits & 0x007fffffu) | 0x00800000u;
    const unsigned shift = (bits >> 23) - 127 - 23 + 32;  // the first word is below the point
    const unsigned first = shift / 32, by = shift % 32;
    const auto word = [&](unsigned i) {
      unsigned a = 0, b = 0;
      for (unsigned k = 0; k < 8; ++k) {
        if (k == first + i) a = words[k];
        if (k == first + i + 1) b = words[k];
      }
      return by == 0 ? a : (a << by) | (b >> (32 - by));
    };
    const unsigned long low = (unsigned long)(mantissa) * word(2);
    const unsigned long middle = (unsigned long)(mantissa) * word(1) + (low >> 32);
    quarter = mantissa * word(0) + unsigned(middle >> 32);
    const long part = long((middle << 32) | unsigned(low));
    if (part < 0) ++quarter;
    rest = float(part) * 0x1p-64f * 0x1.921fb6p+0f;
    if (v < 0.0f) {
      rest = -rest;
      quarter = 0u - quarter;
    }
  }
};
hf_inline float hf_sin_part(float r) {
  const float q = r * r;
  float p = 0x1.71de3ap-19f;
  p = __builtin_fmaf(p, q, -0x1.a01a02p-13f);
  p = __builtin_fmaf(p, q, 0x1.111112p-7f);
  p = __builtin_fmaf(p, q, -0x1.555556p-3f);
  return __builtin_fmaf(p * q, r, r);
}
hf_inline float hf_cos_part(float r) {
  const float q = r * r;
  float p = -0x1.27e4fcp-22f;
  p = __builtin_fmaf(p, q, 0x1.a01a02p-16f);
  p = __builtin_fmaf(p, q, -0x1.6c16c2p-10f);
  p = __builtin_fmaf(p, q, 0x1.555556p-5f);
  return __builtin_fmaf(p * q, q, __builtin_fmaf(q, -0.5f, 1.0f));
}
hf_inline float hf_sinf(float v) {
  if (hf_abs(v) == __builtin_inff()) return __builtin_nanf("");
  if (hf_abs(v) < 0x1p-12f || v != v) return v;
  const hf_turned turned(v);
  const float r = (turned.quarter & 1u) != 0 ? hf_cos_part(turned.rest) : hf_sin_part(turned.rest);
  return (turned.quarter & 2u) != 0 ? -r : r;
}
hf_inline float hf_cosf(float v) {
  if (hf_abs(v) == __builtin_inff()) return __builtin_nanf("");
  if (v != v) return v;
  const hf_turned turned(v);
  const float r = (turned.quarter & 1u) != 0 ? hf_sin_part(turned.rest) : hf_cos_part(turned.rest);
  return ((turned.quarter + 1u) & 2u) != 0 ? -r : r;
}
hf_inline float hf_tanf(float v) {
  if (hf_abs(v) == __builtin_inff()) return __builtin_nanf("");
  if (hf_abs(v) < 0x1p-12f || v != v) return v;
  const hf_turned turned(v);
  const float s = hf_sin_part(turned.rest), c = hf_cos_part(turned.rest);
  return (turned.quarter & 1u) != 0 ? -c / s : s / c;
}

// Of a positive number, or zero.
hf_inline float hf_atan_of(float v) {
  float from = 0.0f, low = 0.0f;
  if (v > 0x1.3504f4p+1f) {
    from = 0x1.921fb6p+0f;
    low = -0x1.777a5cp-25f;
    v = -1.0f / v;
  } else if (v > 0x1.a8279ap-2f) {
    from = 0x1.921fb6p-1f;
    low = -0x1.777a5cp-26f;
    v = (v - 1.0f) / (v + 1.0f);
  }
  const float q = v * v;
  float p = 0x1.9debc4p-5f;
  p = __builtin_fmaf(p, q, -0x1.6159c8p-4f);
  p = __builtin_fmaf(p, q, 0x1.c57f06p-4f);
  p = __builtin_fmaf(p, q, -0x1.248a32p-3f);
  p = __builtin_fmaf(p, q, 0x1.99997cp-3f);
  p = __builtin_fmaf(p, q, -0x1.555556p-2f);
  return from + (__builtin_fmaf(p * q, v, low) + v);
}
hf_inline float hf_atanf(float v) { return v != v ? v : hf_signed(hf_atan_of(hf_abs(v)), v); }
hf_inline float hf_atan2f(float v, float u) {
  if (v != v || u != u) return v + u;
  const float a = hf_abs(v), b = hf_abs(u);
  const bool left = (hf_float_bits(u) >> 31) != 0;
  float r;
  if (a == __builtin_inff() && b == __builtin_inff()) {
    r = 0x1.921fb6p-1f;
  } else if (b == 0.0f && a == 0.0f) {
    r = 0.0f;
  } else if (b == 0.0f || a > b * 0x1p26f) {
    r = 0x1.921fb6p+0f;
  } else {
    r = hf_atan_of(a / b);
  }
  if (left) r = (0x1.921fb6p+1f - r) - 0x1.777a5cp-24f;
  return hf_signed(r, v);
}
hf_inline float hf_asinf(float v) {
  const float a = hf_abs(v);
  if (!(a <= 1.0f)) return __builtin_nanf("");
  return hf_atan2f(v, __builtin_sqrtf((1.0f - a) * (1.0f + a)));
}
hf_inline float hf_acosf(float v) {
  const float a = hf_abs(v);
  if (!(a <= 1.0f)) return __builtin_nanf("");
  return hf_atan2f(__builtin_sqrtf((1.0f - a) * (1.0f + a)), v);
}

hf_inline float hf_sinhf(float v) {
  const float a = hf_abs(v);
  if (a < 0x1p-12f || v != v) return v;
  if (a > 88.0f) {
    const float half = hf_expf(a * 0.5f);
    return hf_signed(0.5f * half * half, v);
  }
  const float e = hf_expm1f(a);
  return hf_signed(a < 1.0f ? 0.5f * (e + e / (e + 1.0f)) : 0.5f * ((e + 1.0f) - 1.0f / (e + 1.0f)), v);
}
hf_inline float hf_coshf(float v) {
  const float a = hf_abs(v);
  if (a > 88.0f) {
    const float half = hf_expf(a * 0.5f);
    return 0.5f * half * half;
  }
  const float e = hf_expf(a);
  return 0.5f * e + 0.5f / e;
}
hf_inline float hf_tanhf(float v) {
  const float a = hf_abs(v);
  if (a < 0x1p-12f || v != v) return v;
  if (a > 10.0f) return hf_signed(1.0f, v);
  const float e = hf_expm1f(2.0f * a);
  return hf_signed(e / (e + 2.0f), v);
}
hf_inline float hf_asinhf(float v) {
  const float a = hf_abs(v);
  if (a < 0x1p-12f || v != v || a == __builtin_inff()) return v;
  const float r = a > 0x1p+14f ? hf_logf(a) + 0x1.62e430p-1f
                               : hf_log1pf(a + a * a / (1.0f + __builtin_sqrtf(__builtin_fmaf(a, a, 1.0f))));
  return hf_signed(r, v);
}
hf_inline float hf_acoshf(float v) {
  if (!(v >= 1.0f)) return __builtin_nanf("");
  if (v > 0x1p+14f) return hf_logf(v) + 0x1.62e430p-1f;
  const float t = v - 1.0f;
  return hf_log1pf(t + __builtin_sqrtf(__builtin_fmaf(t, t, 2.0f * t)));
}
hf_inline float hf_atanhf(float v) {
  const float a = hf_abs(v);
  if (a < 0x1p-12f || v != v) return v;
  if (a >= 1.0f) return a == 1.0f ? hf_signed(__builtin_inff(), v) : __builtin_nanf("");
  return hf_signed(0.5f * hf_log1pf(2.0f * a / (1.0f - a)), v);
}
hf_inline float hf_cbrtf(float v) {
  float a = hf_abs(v);
  if (a == 0.0f || v != v || a == __builtin_inff()) return v;
  const bool tiny = a < 0x1p-90f;
  if (tiny) a *= 0x1p+60f;
  const hf_logarithm log(a);
  const float power = (log.n + log.of_part.high * 0x1.715476p+0f) * 0x1.555556p-2f;
  float r = hf_exp2f(power);
  // Newton's step, of what is left.
  const hf_two square = hf_product(r, r);
  const float left = __builtin_fmaf(square.high, r, -a) + square.low * r;
  r -= left / (3.0f * r * r);
  return hf_signed(tiny ? r * 0x1p-20f : r, v);
}

// exp(a^2) erfc(a) (1 + 2a) is smooth in (a - 3) / (a + 3).
hf_inline float hf_erfc_far(float a) {
  const float t = (a - 3.0f) / (a + 3.0f);
  float p = -0x1.94345cp-13f;
  p = __builtin_fmaf(p, t, -0x1.6b665ep-11f);
  p = __builtin_fmaf(p, t, 0x1.0144acp-9f);
  p = __builtin_fmaf(p, t, 0x1.48a1cap-9f);
  p = __builtin_fmaf(p, t, -0x1.85cff8p-6f);
  p = __builtin_fmaf(p, t, 0x1.17ccaep-4f);
  p = __builtin_fmaf(p, t, -0x1.e888c2p-4f);
  p = __builtin_fmaf(p, t, 0x1.098358p-3f);
  p = __builtin_fmaf(p, t, -0x1.85a198p-5f);
  p = __builtin_fmaf(p, t, -0x1.15c084p-3f);
  p = __builtin_fmaf(p, t, 0x1.40c522p+0f);
  // With what the square lost.
  const hf_two square = hf_product(a, a);
  return hf_expf(-square.high) * (1.0f - square.low) * (p / __builtin_fmaf(2.0f, a, 1.0f));
}
hf_inline float hf_erf_near(float v) {
  const float q = v * v;
  float p = 0x1.1c6a2cp-20f;
  p = __builtin_fmaf(p, q, -0x1.d2cc98p-17f);
  p = __builtin_fmaf(p, q, 0x1.f582bcp-14f);
  p = __builtin_fmaf(p, q, -0x1.bfe1c8p-11f);
  p = __builtin_fmaf(p, q, 0x1.565892p-8f);
  p = __builtin_fmaf(p, q, -0x1.b82cbcp-6f);
  p = __builtin_fmaf(p, q, 0x1.ce2f20p-4f);
  p = __builtin_fmaf(p, q, -0x1.812746p-2f);
  return __builtin_fmaf(p * q, v, 0x1.20dd76p+0f * v);
}
hf_inline float hf_erff(float v) {
  const float a = hf_abs(v);
  if (v != v || v == 0.0f) return v;
  if (a > 4.0f) return hf_signed(1.0f, v);
  return a < 1.0f ? hf_erf_near(v) : hf_signed(1.0f - hf_erfc_far(a), v);
}
hf_inline float hf_erfcf(float v) {
  const float a = hf_abs(v);
  if (v != v) return v;
  if (a < 0.5f) return 1.0f - hf_erf_near(v);
  if (a > 10.5f) return v < 0.0f ? 2.0f : 0.0f;
  const float r = hf_erfc_far(a);
  return v < 0.0f ? 2.0f - r : r;
}
// Exact, as in C: bit by bit.
hf_inline float hf_fmodf(float v, float u) {
  const float b = hf_abs(u);
  if (v != v || u != u || b == 0.0f || hf_abs(v) == __builtin_inff()) return __builtin_nanf("");
  float a = hf_abs(v);
  if (a < b) return v;
  // The difference of the exponents is at most 277.
  for (int i = 0; i < 300 && a >= b; ++i) {
    const int up = hf_split(a).n - hf_split(b).n;
    float step = hf_ldexp(b, up);
    if (step > a) step = hf_ldexp(b, up - 1);
    a -= step;
  }
  return hf_signed(a, v);
}
hf_inline float hf_frexpf(float v, int* exponent) {
  *exponent = 0;
  if (v == 0.0f || v != v || hf_abs(v) == __builtin_inff()) return v;
  const hf_split split(hf_abs(v));
  *exponent = split.n + 1;
  return hf_signed(0.5f * split.part, v);
}
hf_inline float hf_fdimf(float v, float u) { return v > u ? v - u : v != v || u != u ? v + u : 0.0f; }

#define __builtin_expm1f hf_expm1f
#define __builtin_log1pf hf_log1pf
#define __builtin_log10f hf_log10f
#define __builtin_cbrtf hf_cbrtf
#define __builtin_erff hf_erff
#define __builtin_erfcf hf_erfcf
#define __builtin_fmodf hf_fmodf
#define __builtin_frexpf hf_frexpf
#define __builtin_fdimf hf_fdimf
#define __builtin_ldexpf hf_ldexp
#ifndef __FAST_MATH__
#define __builtin_expf hf_expf
#define __builtin_exp2f hf_exp2f
#define __builtin_logf hf_logf
#define __builtin_log2f hf_log2f
#define __builtin_powf hf_powf
#define __builtin_sinf hf_sinf
#define __builtin_cosf hf_cosf
#define __builtin_tanf hf_tanf
#define __builtin_asinf hf_asinf
#define __builtin_acosf hf_acosf
#define __builtin_atanf hf_atanf
#define __builtin_atan2f hf_atan2f
#define __builtin_sinhf hf_sinhf
#define __builtin_coshf hf_coshf
#define __builtin_tanhf hf_tanhf
#define __builtin_asinhf hf_asinhf
#define __builtin_acoshf hf_acoshf
#define __builtin_atanhf hf_atanhf
#endif
