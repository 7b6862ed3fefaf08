// Functions of doubles, which Vulkan has none of but the square root and rounding. As exact as a C
// library's but for a few units in the last place; angles up to 10^15.

#define hf_double_bits(v) __builtin_bit_cast(unsigned long, v)
#define hf_bits_double(v) __builtin_bit_cast(double, v)
hf_inline double hf_abs(double v) { return hf_bits_double(hf_double_bits(v) & ~(1ul << 63)); }
hf_inline double hf_signed(double v, double sign) {
  return hf_bits_double((hf_double_bits(v) & ~(1ul << 63)) | (hf_double_bits(sign) & (1ul << 63)));
}
hf_inline double hf_infinite() { return hf_bits_double(0x7ff0000000000000ul); }
hf_inline double hf_no_number() { return hf_bits_double(0x7ff8000000000000ul); }
hf_inline double hf_ldexp(double v, int n) {
  n = n > 2200 ? 2200 : n < -2200 ? -2200 : n;
  const auto power = [](int e) { return hf_bits_double((unsigned long)(e + 1023) << 52); };
  // All but the last step stay among the normal numbers.
  while (n > 1000) {
    v *= power(1000);
    n -= 1000;
  }
  while (n < -1000) {
    v *= power(-900);
    n += 900;
  }
  return v * power(n);
}
struct hf_split_double {
  double part;  // in [1, 2)
  int n;
  hf_inline explicit hf_split_double(double v) {
    int by = 0;
    if (hf_double_bits(v) < 0x0010000000000000ul) {
      v *= 0x1p54;
      by = -54;
    }
    n = int(hf_double_bits(v) >> 52) - 1023 + by;
    part = hf_bits_double((hf_double_bits(v) & 0x000ffffffffffffful) | 0x3ff0000000000000ul);
  }
};

// exp(r) - 1 for |r| < 0.35: the series, from its end.
hf_inline double hf_exp_part(double r) {
  double p = 1.0 / 15;
  for (int k = 14; k > 1; --k) p = __builtin_fma(p, r, 1.0) * (1.0 / k);
  return __builtin_fma(p * r, r, r);
}
hf_inline double hf_exp_scaled(double r, double n) {
  return hf_ldexp(1.0 + hf_exp_part(r), int(n));
}
hf_inline double hf_reduced_by_ln2(double v, double n) {
  return __builtin_fma(n, -0x1.ef35793c76730p-45, __builtin_fma(n, -0x1.62e42fefa3800p-1, v));
}
hf_inline double hf_exp(double v) {
  if (v != v) return v;
  if (v > 710.0) return hf_infinite();
  if (v < -746.0) return 0.0;
  const double n = __builtin_rint(v * 0x1.71547652b82fep+0);
  return hf_exp_scaled(hf_reduced_by_ln2(v, n), n);
}
hf_inline double hf_exp2(double v) {
  if (v != v) return v;
  if (v >= 1024.0) return hf_infinite();
  if (v < -1076.0) return 0.0;
  const double n = __builtin_rint(v);
  const double r = v - n;
  return hf_exp_scaled(__builtin_fma(r, 0x1.62e42fefa39efp-1, r * 0x1.abc9e3b39803fp-56), n);
}
hf_inline double hf_expm1(double v) {
  if (v == 0.0 || v != v) return v;
  if (hf_abs(v) < 0.34) return hf_exp_part(v);
  if (v > 710.0) return hf_infinite();
  if (v < -40.0) return -1.0;
  const double n = __builtin_rint(v * 0x1.71547652b82fep+0);
  const double p = hf_exp_part(hf_reduced_by_ln2(v, n));
  if (n > 1000.0) return hf_ldexp(1.0 + p, int(n)) - 1.0;
  const double scale = hf_ldexp(1.0, int(n));
  return __builtin_fma(scale, p, scale - 1.0);
}

struct hf_two_doubles {
  double high, low;
};
hf_inline hf_two_doubles hf_sum(double a, double b) {  // |a| >= |b|
  const double s = a + b;
  return {s, b - (s - a)};
}
hf_inline hf_two_doubles hf_product(double a, double b) {
  const double p = a * b;
  return {p, __builtin_fma(a, b, -p)};
}
// Of a positive number: its power of two, and the natural logarithm of the rest.
struct hf_log_of_double {
  double n;
  hf_two_doubles rest;
  hf_inline explicit hf_log_of_double(double v) {
    hf_split_double split(v);
    if (split.part > 0x1.6a09e667f3bcdp+0) {
      split.part *= 0.5;
      ++split.n;
    }
    n = double(split.n);
    const double f = split.part - 1.0;
    const hf_two_doubles below = hf_sum(2.0, f);
    const double s = f / below.high;
    const double s_low = (__builtin_fma(-s, below.high, f) - s * below.low) / below.high;
    const double q = s * s;
    double p = 2.0 / 25;
    for (int k = 23; k > 1; k -= 2) p = __builtin_fma(p, q, 2.0 / k);
    rest = hf_sum(2.0 * s, __builtin_fma(p * q, s, 2.0 * s_low));
  }
  hf_inline double natural(double low = 0.0) const {
    if (n == 0.0) return rest.high + (rest.low + low);
    const hf_two_doubles whole = hf_sum(n * 0x1.62e42fefa3800p-1, rest.high);
    return whole.high + (whole.low + __builtin_fma(n, 0x1.ef35793c76730p-45, rest.low + low));
  }
};
hf_inline bool hf_log_is_known(double v, double& known) {
  if (v > 0.0 && v < hf_infinite()) return false;
  known = v == 0.0 ? -hf_infinite() : v > 0.0 ? v : hf_no_number();
  return true;
}
hf_inline double hf_log(double v) {
  double known;
  return hf_log_is_known(v, known) ? known : hf_log_of_double(v).natural();
}
hf_inline hf_two_doubles hf_log2_of(double v) {
  const hf_log_of_double log(v);
  const hf_two_doubles p = hf_product(log.rest.high, 0x1.71547652b82fep+0);
  const double low = p.low + log.rest.high * 0x1.777d0ffda0d24p-56 +
                     log.rest.low * 0x1.71547652b82fep+0;
  if (log.n == 0.0) return hf_sum(p.high, low);
  const hf_two_doubles whole = hf_sum(log.n, p.high);
  return hf_sum(whole.high, whole.low + low);
}
hf_inline double hf_log2(double v) {
  double known;
  if (hf_log_is_known(v, known)) return known;
  const hf_two_doubles log = hf_log2_of(v);
  return log.high + log.low;
}
hf_inline double hf_log10(double v) {
  double known;
  if (hf_log_is_known(v, known)) return known;
  const hf_two_doubles log = hf_log2_of(v);
  return __builtin_fma(log.high, 0x1.34413509f79ffp-2,
                       log.low * 0x1.34413509f79ffp-2 + log.high * -0x1.9dc1da994fd21p-59);
}
hf_inline double hf_log1p(double v) {
  if (hf_abs(v) < 0x1p-54 || v != v || v == hf_infinite()) return v;
  if (v <= -1.0) return v == -1.0 ? -hf_infinite() : hf_no_number();
  const double u = 1.0 + v;
  const double lost = v >= 1.0 ? 1.0 - (u - v) : v - (u - 1.0);
  return hf_log_of_double(u).natural(lost / u);
}
hf_inline double hf_pow(double v, double u) {
  if (u == 0.0 || v == 1.0) return 1.0;
  if (v != v || u != u) return v + u;
  const double size = hf_abs(v);
  const bool whole = __builtin_trunc(u) == u;
  const bool odd = whole && hf_abs(u) < 0x1p53 && ((long)(hf_abs(u)) & 1) != 0;
  if (size == 1.0 && hf_abs(u) == hf_infinite()) return 1.0;
  double result;
  if (size == 0.0 || size == hf_infinite() || hf_abs(u) == hf_infinite()) {
    result = (size > 1.0) == (u > 0.0) ? hf_infinite() : 0.0;
  } else {
    if (v < 0.0 && !whole) return hf_no_number();
    const hf_two_doubles log = hf_log2_of(size);
    hf_two_doubles power = hf_product(log.high, u);
    power.low = __builtin_fma(log.low, u, power.low);
    if (power.high > 1100.0) {
      result = hf_infinite();
    } else if (power.high < -1200.0) {
      result = 0.0;
    } else {
      const double n = __builtin_rint(power.high);
      const double r = power.high - n + power.low;
      result = hf_exp_scaled(__builtin_fma(r, 0x1.62e42fefa39efp-1, r * 0x1.abc9e3b39803fp-56), n);
    }
  }
  return (hf_double_bits(v) >> 63) != 0 && odd ? -result : result;
}

struct hf_turned_double {
  double rest;
  unsigned quarter;
  hf_inline explicit hf_turned_double(double v) {
    const double n = __builtin_rint(v * 0x1.45f306dc9c883p-1);
    rest = __builtin_fma(n, -0x1.921fb54442d18p+0, v);
    rest = __builtin_fma(n, -0x1.1a62633145c07p-54, rest);
    quarter = unsigned((unsigned long)(long(n)));
  }
};
hf_inline double hf_sin_part(double r) {
  const double q = r * r;
  double p = 1.0;
  for (int k = 18; k > 2; k -= 2) p = __builtin_fma(-p, q * (1.0 / (k * (k + 1))), 1.0);
  return __builtin_fma(-p * (1.0 / 6), q * r, r);
}
hf_inline double hf_cos_part(double r) {
  const double q = r * r;
  double p = 1.0;
  for (int k = 17; k > 2; k -= 2) p = __builtin_fma(-p, q * (1.0 / (k * (k + 1))), 1.0);
  return __builtin_fma(-0.5 * p, q, 1.0);
}
hf_inline double hf_sin(double v) {
  if (v == 0.0 || v != v) return v;
  if (hf_abs(v) == hf_infinite()) return hf_no_number();
  const hf_turned_double turned(v);
  const double r = (turned.quarter & 1u) != 0 ? hf_cos_part(turned.rest) : hf_sin_part(turned.rest);
  return (turned.quarter & 2u) != 0 ? -r : r;
}
hf_inline double hf_cos(double v) {
  if (hf_abs(v) == hf_infinite()) return hf_no_number();
  const hf_turned_double turned(v);
  const double r = (turned.quarter & 1u) != 0 ? hf_sin_part(turned.rest) : hf_cos_part(turned.rest);
  return ((turned.quarter + 1u) & 2u) != 0 ? -r : r;
}
hf_inline double hf_tan(double v) {
  if (v == 0.0 || v != v) return v;
  if (hf_abs(v) == hf_infinite()) return hf_no_number();
  const hf_turned_double turned(v);
  const double s = hf_sin_part(turned.rest), c = hf_cos_part(turned.rest);
  return (turned.quarter & 1u) != 0 ? -c / s : s / c;
}
// Twice halved angles, then the series.
hf_inline double hf_atan_of(double v) {
  const bool far = v > 1.0;
  if (far) v = 1.0 / v;
  for (int i = 0; i < 2; ++i) v = v / (1.0 + __builtin_sqrt(__builtin_fma(v, v, 1.0)));
  const double q = v * v;
  double p = 0.0;
  for (int k = 35; k > 1; k -= 2) p = __builtin_fma(-p, q, 1.0 / k);
  const double r = 4.0 * __builtin_fma(-p * q, v, v);
  return far ? (0x1.921fb54442d18p+0 - r) + 0x1.1a62633145c07p-54 : r;
}
hf_inline double hf_atan(double v) {
  return v != v || v == 0.0 ? v : hf_signed(hf_atan_of(hf_abs(v)), v);
}
hf_inline double hf_atan2(double v, double u) {
  if (v != v || u != u) return v + u;
  const double a = hf_abs(v), b = hf_abs(u);
  double r;
  if (a == hf_infinite() && b == hf_infinite()) {
    r = 0x1.921fb54442d18p-1;
  } else if (b == 0.0 && a == 0.0) {
    r = 0.0;
  } else {
    r = b == 0.0 ? 0x1.921fb54442d18p+0 : hf_atan_of(a / b);
  }
  if ((hf_double_bits(u) >> 63) != 0) r = (0x1.921fb54442d18p+1 - r) + 0x1.1a62633145c07p-53;
  return hf_signed(r, v);
}
hf_inline double hf_asin(double v) {
  const double a = hf_abs(v);
  if (!(a <= 1.0)) return hf_no_number();
  return hf_atan2(v, __builtin_sqrt((1.0 - a) * (1.0 + a)));
}
hf_inline double hf_acos(double v) {
  const double a = hf_abs(v);
  if (!(a <= 1.0)) return hf_no_number();
  return hf_atan2(__builtin_sqrt((1.0 - a) * (1.0 + a)), v);
}
hf_inline double hf_sinh(double v) {
  const double a = hf_abs(v);
  if (a < 0x1p-27 || v != v) return v;
  if (a > 709.0) {
    const double half = hf_exp(a * 0.5);
    return hf_signed(0.5 * half * half, v);
  }
  const double e = hf_expm1(a);
  return hf_signed(0.5 * (e + e / (e + 1.0)), v);
}
hf_inline double hf_cosh(double v) {
  const double a = hf_abs(v);
  if (a > 709.0) {
    const double half = hf_exp(a * 0.5);
    return 0.5 * half * half;
  }
  const double e = hf_exp(a);
  return 0.5 * e + 0.5 / e;
}
hf_inline double hf_tanh(double v) {
  const double a = hf_abs(v);
  if (a < 0x1p-27 || v != v) return v;
  if (a > 22.0) return hf_signed(1.0, v);
  const double e = hf_expm1(2.0 * a);
  return hf_signed(e / (e + 2.0), v);
}
hf_inline double hf_asinh(double v) {
  const double a = hf_abs(v);
  if (a < 0x1p-27 || v != v || a == hf_infinite()) return v;
  if (a > 0x1p+28) return hf_signed(hf_log(a) + 0x1.62e42fefa39efp-1, v);
  return hf_signed(hf_log1p(a + a * a / (1.0 + __builtin_sqrt(__builtin_fma(a, a, 1.0)))), v);
}
hf_inline double hf_acosh(double v) {
  if (!(v >= 1.0)) return hf_no_number();
  if (v > 0x1p+28) return hf_log(v) + 0x1.62e42fefa39efp-1;
  const double t = v - 1.0;
  return hf_log1p(t + __builtin_sqrt(__builtin_fma(t, t, 2.0 * t)));
}
hf_inline double hf_atanh(double v) {
  const double a = hf_abs(v);
  if (a < 0x1p-27 || v != v) return v;
  if (a >= 1.0) return a == 1.0 ? hf_signed(hf_infinite(), v) : hf_no_number();
  return hf_signed(0.5 * hf_log1p(2.0 * a / (1.0 - a)), v);
}
hf_inline double hf_cbrt(double v) {
  double a = hf_abs(v);
  if (a == 0.0 || v != v || a == hf_infinite()) return v;
  const bool tiny = a < 0x1p-900;
  if (tiny) a *= 0x1p+300;
  const hf_two_doubles log = hf_log2_of(a);
  double r = hf_exp2(log.high / 3.0);
  const hf_two_doubles square = hf_product(r, r);
  r -= (__builtin_fma(square.high, r, -a) + square.low * r) / (3.0 * r * r);
  return hf_signed(tiny ? r * 0x1p-100 : r, v);
}
// The series near zero, the continued fraction far from it.
hf_inline double hf_erf_near(double v) {
  const double q = v * v;
  double term = v, sum = v;
  for (int k = 1; k < 70; ++k) {
    term *= 2.0 * q / (2 * k + 1);
    sum += term;
  }
  return 0x1.20dd750429b6dp+0 * sum * hf_exp(-q);
}
hf_inline double hf_erfc_far(double a) {
  const hf_two_doubles square = hf_product(a, a);
  double f = 0.0;
  for (int k = 120; k > 0; --k) f = 0.5 * k / (a + f);
  return hf_exp(-square.high) * (1.0 - square.low) / (a + f) * 0x1.20dd750429b6dp-1;
}
hf_inline double hf_erf(double v) {
  if (v != v || v == 0.0) return v;
  const double a = hf_abs(v);
  if (a > 6.0) return hf_signed(1.0, v);
  return a < 2.0 ? hf_erf_near(v) : hf_signed(1.0 - hf_erfc_far(a), v);
}
hf_inline double hf_erfc(double v) {
  if (v != v) return v;
  const double a = hf_abs(v);
  if (a > 28.0) return v < 0.0 ? 2.0 : 0.0;
  const double r = a < 1.2 ? 1.0 - hf_erf_near(a) : hf_erfc_far(a);
  return v < 0.0 ? 2.0 - r : r;
}
hf_inline double hf_fmod(double v, double u) {
  const double b = hf_abs(u);
  if (v != v || u != u || b == 0.0 || hf_abs(v) == hf_infinite()) return hf_no_number();
  double a = hf_abs(v);
  if (a < b) return v;
  for (int i = 0; i < 2200 && a >= b; ++i) {
    const int up = hf_split_double(a).n - hf_split_double(b).n;
    double step = hf_ldexp(b, up);
    if (step > a) step = hf_ldexp(b, up - 1);
    a -= step;
  }
  return hf_signed(a, v);
}
hf_inline double hf_fdim(double v, double u) {
  return v > u ? v - u : v != v || u != u ? v + u : 0.0;
}

#define __builtin_exp hf_exp
#define __builtin_exp2 hf_exp2
#define __builtin_expm1 hf_expm1
#define __builtin_log hf_log
#define __builtin_log2 hf_log2
#define __builtin_log10 hf_log10
#define __builtin_log1p hf_log1p
#define __builtin_pow hf_pow
#define __builtin_sin hf_sin
#define __builtin_cos hf_cos
#define __builtin_tan hf_tan
#define __builtin_asin hf_asin
#define __builtin_acos hf_acos
#define __builtin_atan hf_atan
#define __builtin_atan2 hf_atan2
#define __builtin_sinh hf_sinh
#define __builtin_cosh hf_cosh
#define __builtin_tanh hf_tanh
#define __builtin_asinh hf_asinh
#define __builtin_acosh hf_acosh
#define __builtin_atanh hf_atanh
#define __builtin_cbrt hf_cbrt
#define __builtin_erf hf_erf
#define __builtin_erfc hf_erfc
#define __builtin_fmod hf_fmod
#define __builtin_fdim hf_fdim
#define __builtin_ldexp hf_ldexp
