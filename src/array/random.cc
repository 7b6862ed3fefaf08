#include <fmt/format.h>

#include <array>
#include <string>

#include "holdfast/array/ops/work.h"
#include "holdfast/array/philox.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/creation.h"

namespace holdfast {
namespace {

using array::RandomUse;

// Everything is computed in integers up to the last conversion, which is exact: BITS is what the
// result's dtype has. So results do not depend on how a device rounds, fuses or approximates.
//
// A thread has BLOCKS blocks, one after the other, of four numbers each. It goes through them step
// by step rather than block by block, so that compilers make vectors of each step. Of many weak
// threads each has one.
constexpr int64_t kBlocks = 32;
constexpr const char* kRandomHeader = R"(
struct Words {
  uint v[4][BLOCKS];
};
inline void philox(long block, ulong key, thread Words& words) {
  for (int j = 0; j < BLOCKS; ++j) {
    words.v[0][j] = uint(block + j);
    words.v[1][j] = uint((block + j) >> 32);
    words.v[2][j] = 0u;
    words.v[3][j] = USE;
  }
  uint low = uint(key);
  uint high = uint(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int j = 0; j < BLOCKS; ++j) {
      const ulong a = ulong(0xD2511F53u) * words.v[0][j];
      const ulong b = ulong(0xCD9E8D57u) * words.v[2][j];
      words.v[0][j] = uint(b >> 32) ^ words.v[1][j] ^ low;
      words.v[1][j] = uint(b);
      words.v[2][j] = uint(a >> 32) ^ words.v[3][j] ^ high;
      words.v[3][j] = uint(a);
    }
    low += 0x9E3779B9u;
    high += 0xBB67AE85u;
  }
}
)";

constexpr const char* kWords = R"(
const long block = long(thread_position_in_grid.x) * BLOCKS;
Words words;
philox(block, key, words);
float values[4][BLOCKS];  // that T has
)";
constexpr const char* kStore = R"(
if ((block + BLOCKS) * 4 <= count) {
  for (int j = 0; j < BLOCKS; ++j) {
    for (int k = 0; k < 4; ++k) y[(block + j) * 4 + k] = T(values[k][j]);
  }
} else {
  for (int j = 0; j < BLOCKS; ++j) {
    for (int k = 0; k < 4; ++k) {
      if ((block + j) * 4 + k < count) y[(block + j) * 4 + k] = T(values[k][j]);
    }
  }
}
)";

constexpr const char* kUniform = R"(
for (int k = 0; k < 4; ++k) {
  for (int j = 0; j < BLOCKS; ++j) {
    values[k][j] = float(words.v[k][j] >> (32 - BITS)) / float(1 << BITS);
  }
}
)";

// Box and Muller's: from two words a radius, sqrt(-2 ln u), and an angle. "Qn" is a number times
// 2^n. The polynomials interpolate at Chebyshev's points; against the exact numbers of the same
// words results are off by less than 2e-8 before they are rounded.
constexpr const char* kNormalHeader = R"(
// sqrt(-2 ln((word + 1/2) / 2^32)), Q29: at most 6.8.
inline ulong radius(uint word) {
  ulong u = 2ul * word + 1ul;  // Q33
  int shift = metal::clz(u);
  u <<= shift;
  int halvings = shift - 31;
  // u = 2^-halvings (1 - x), with 1 - x from sqrt(1/2) to sqrt(2).
  long x;  // Q63
  if (u < 0xB504F333F9DE6484ul) {
    x = long(0x8000000000000000ul - u);
    halvings += 1;
  } else {
    x = long((0ul - u) >> 1);
  }
  // -ln(1 - x) / x, Q30.
  const long z = x >> 33;
  long p = 70569820;
  p = (p * z >> 30) + 124775757;
  p = (p * z >> 30) + 128267890;
  p = (p * z >> 30) + 133367554;
  p = (p * z >> 30) + 152603315;
  p = (p * z >> 30) + 178955778;
  p = (p * z >> 30) + 214775591;
  p = (p * z >> 30) + 268436126;
  p = (p * z >> 30) + 357913612;
  p = (p * z >> 30) + 536870906;
  p = (p * z >> 30) + 1073741825;
  const long small = (x >> 32) * p + long((ulong(x) & 0xfffffffful) * ulong(p) >> 32);  // Q61
  const ulong square = ulong(small >> 2) + ulong(halvings) * 399572145162582976ul;      // Q58
  // Its root: of a number v from 1 to 4, three of Newton's steps towards 1 / sqrt(v).
  shift = metal::clz(square) & ~1;
  const ulong v = square << shift >> 32;  // Q30
  ulong r = 2822490381ul + (v * (102219160ul * v >> 30) >> 30) - (841268886ul * v >> 30);  // Q31
  for (int i = 0; i < 3; ++i) {
    const ulong near_one = (r * r >> 31) * v >> 30;
    r = r * (0x180000000ul - near_one) >> 32;
  }
  return (v * r >> 30) >> (shift / 2);
}

// sin(pi / 2 * q) for q from 0 to 1; both Q31.
inline ulong sine(ulong q) {
  const long s = long(q * q >> 31);
  long p = -3685;
  p = (p * s >> 31) + 172072;
  p = (p * s >> 31) - 5026892;
  p = (p * s >> 31) + 85569282;
  p = (p * s >> 31) - 693598666;
  p = (p * s >> 31) + 1686629713;
  return q * ulong(p) >> 30;
}

// radius (Q29) times a sine (Q31), rounded to what the dtype has.
inline float result(ulong radius, ulong part, bool is_negative) {
  uint v = uint((radius * part + 0x80000000ul) >> 32);  // Q28
  int drop = 32 - BITS - metal::clz(v | 1u);
  if (drop < LEAST_DROP) drop = LEAST_DROP;
  if (drop > 0) v = (v + (1u << (drop - 1))) >> drop << drop;
  const float f = float(v) / 268435456.0f;
  return is_negative ? -f : f;
}
)";

constexpr const char* kNormal = R"(
for (int k = 0; k < 4; k += 2) {
  for (int j = 0; j < BLOCKS; ++j) {
    const ulong r = radius(words.v[k][j]);
    const uint turn = words.v[k + 1][j];
    const uint quarter = turn >> 30;
    const ulong q = 2ul * (turn & 0x3fffffffu) + 1ul;
    const ulong rising = sine(q);
    const ulong falling = sine(0x80000000ul - q);
    const bool odd = (quarter & 1u) != 0u;
    values[k][j] = result(r, odd ? rising : falling, quarter == 1u || quarter == 2u);
    values[k + 1][j] = result(r, odd ? falling : rising, quarter >= 2u);
  }
}
)";

const Kernel& uniform_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "random_uniform",
                         .outputs = {"y"},
                         .source = std::string(kWords) + kUniform + kStore,
                         .header = kRandomHeader});
  return kernel;
}
const Kernel& normal_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "random_normal",
                         .outputs = {"y"},
                         .source = std::string(kWords) + kNormal + kStore,
                         .header = std::string(kRandomHeader) + kNormalHeader});
  return kernel;
}

int64_t significant_bits(Dtype dtype) {
  if (dtype == Dtype::float16) return 11;
  return dtype == Dtype::bfloat16 ? 8 : 24;
}

class Random final : public Operation {
 public:
  Random(RandomUse use, RandomKey key) : use_(use), key_(key) {}
  std::string_view name() const noexcept override { return name_of(use_); }
  static const char* name_of(RandomUse use) {
    return use == RandomUse::normal ? "random_normal" : "random_uniform";
  }
  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    if (out.size() == 0) return;
    const int64_t blocks = array::is_many_weak(encoder) ? 1 : kBlocks;
    std::vector<kernel::Constant> constants{{"T", out.dtype()},
                                            {"BITS", significant_bits(out.dtype())},
                                            {"BLOCKS", blocks},
                                            {"USE", static_cast<int64_t>(use_)}};
    // Below 2^-14 float16 has fewer bits: its numbers are multiples of 2^-24.
    if (use_ == RandomUse::normal) {
      constants.push_back({"LEAST_DROP", int64_t{out.dtype() == Dtype::float16 ? 4 : 0}});
    }
    const kernel::Size3 grid{array::grid_axis(ceil_div(out.size(), 4 * blocks), name_of(use_)), 1,
                             1};
    encoder.launch(
        use_ == RandomUse::normal ? normal_kernel() : uniform_kernel(),
        {.outputs = {&out, 1},
         .grid = grid,
         .threadgroup = array::group_of(encoder, grid),
         .constants = constants,
         .params = std::array<kernel::Param, 2>{{{"key", key_.value}, {"count", out.size()}}}});
  }

 private:
  RandomUse use_;
  RandomKey key_;
};

Array random(RandomUse use, const Shape& shape, Dtype dtype, RandomKey key, const On& on) {
  if (!is_floating(dtype) || dtype == Dtype::float64) {
    throw UsageError(fmt::format(
        "{}: there are no random numbers of {}; make float32 and convert them with astype",
        Random::name_of(use), to_string(dtype)));
  }
  return apply(make_ref<const Random>(use, key), {}, {shape, dtype}, on);
}

struct KeySequence {
  sync::LeafMutex mutex;  // guards the rest
  uint64_t seed HOLDFAST_GUARDED_BY(mutex) = 0;
  uint64_t next HOLDFAST_GUARDED_BY(mutex) = 0;
};
KeySequence& key_sequence() {
  static NeverDestroyed<KeySequence> of_process;
  return of_process.get();
}

}  // namespace

RandomKey RandomKey::split(uint64_t i) const noexcept {
  const array::PhiloxCounter words = array::random_words(value, i, RandomUse::split);
  return {uint64_t{words[1]} << 32 | words[0]};
}

RandomKey next_random_key() {
  KeySequence& sequence = key_sequence();
  sync::LeafLock lock(sequence.mutex);
  return RandomKey{sequence.seed}.split(sequence.next++);
}

void random_seed(uint64_t seed) {
  KeySequence& sequence = key_sequence();
  sync::LeafLock lock(sequence.mutex);
  sequence.seed = seed;
  sequence.next = 0;
}

Array random_uniform(const Shape& shape, Dtype dtype, RandomKey key, const On& on) {
  return random(RandomUse::uniform, shape, dtype, key, on);
}
Array random_normal(const Shape& shape, Dtype dtype, RandomKey key, const On& on) {
  return random(RandomUse::normal, shape, dtype, key, on);
}
Array random_uniform(const Shape& shape, Dtype dtype, const On& on) {
  return random_uniform(shape, dtype, next_random_key(), on);
}
Array random_normal(const Shape& shape, Dtype dtype, const On& on) {
  return random_normal(shape, dtype, next_random_key(), on);
}

}  // namespace holdfast
