#include "holdfast/array/ops/attention_kernels.h"

#include <string>

#include "holdfast/array/ops/exp_text.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/base/never_destroyed.h"

namespace holdfast::array {
namespace {

// A product of a query and a key that is not allowed, and the largest of none.
constexpr const char* kScoreText = R"(
constexpr A NEVER = -metal::numeric_limits<A>::infinity();
// Relative to the largest; zero if there is none.
inline A weight_of(A score, A largest) {
  const A weight = exp_of(score - largest);
  return score == NEVER ? A(0) : weight;
}
// The product with a key, `mask_kind` as it is in the header.
#define MASKED(score, key)                                             \
  (causal && (key) > position                   ? NEVER                \
   : mask_kind == 0                             ? (score)              \
   : mask_kind == 2                             ? (score) + A(mask[mask_row + (key) * mask_step]) \
   : bool(mask[mask_row + (key) * mask_step])   ? (score)              \
                                                : NEVER)
)";
// `row` counts queries of all heads; the last key that the query may attend to, if `causal`.
constexpr const char* kMaskRow = R"(
const long position = row % queries + keys - queries;
const long mask_row = mask_kind == 0 ? 0 : elem_to_loc(row, mask_shape, mask_strides, 3);
const long mask_step = mask_strides[3];
)";

// Where the row's query, keys and values lie, and the part of the keys that is a piece.
constexpr const char* kAttentionRow = R"(
const long head = row / queries % heads;
const long batch = row / queries / heads;
auto query = q + (batch * q_strides[0] + head * q_strides[1] + row % queries * q_strides[2]);
auto key_rows = k + (batch * k_strides[0] + head / sharing * k_strides[1]);
auto value_rows = v + (batch * v_strides[0] + head / sharing * v_strides[1]);
const long q_step = q_strides[3];
const long k_step = k_strides[3];
const long v_step = v_strides[3];
const long k_down = k_strides[2];
const long v_down = v_strides[2];
const long begin = piece * piece_length;
const long after = metal::min(begin + piece_length, keys);
const long end = causal ? metal::min(after, position + 1) : after;
)";

constexpr const char* kAttention = R"(
constexpr int LANES = 16;
A own[WIDTH];
for (int i = 0; i < WIDTH; ++i) own[i] = load<A, HALF>(query[i * q_step]) * A(scale);
A sums[VALUES];
for (int i = 0; i < VALUES; ++i) sums[i] = A(0);
A largest = NEVER;
A total = A(0);
for (long key = begin; key < end; ++key) {
  auto from = key_rows + key * k_down;
  A lanes[LANES];
  for (int j = 0; j < LANES; ++j) lanes[j] = A(0);
  int i = 0;
  if (k_step == 1) {
    for (; i + LANES <= WIDTH; i += LANES) {
      for (int j = 0; j < LANES; ++j) lanes[j] += own[i + j] * load<A, HALF>(from[i + j]);
    }
  }
  for (; i < WIDTH; ++i) lanes[i % LANES] += own[i] * load<A, HALF>(from[i * k_step]);
  for (int width = LANES / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  }
  const A score = MASKED(lanes[0], key);
  if (score == NEVER) continue;
  // Written so that a NaN becomes the largest.
  if (!(score <= largest)) {
    const A less = weight_of(largest, score);
    for (int j = 0; j < VALUES; ++j) sums[j] *= less;
    total *= less;
    largest = score;
  }
  const A weight = weight_of(score, largest);
  total += weight;
  auto values = value_rows + key * v_down;
  if (v_step == 1) {
    for (int j = 0; j < VALUES; ++j) sums[j] += weight * load<A, HALF>(values[j]);
  } else {
    for (int j = 0; j < VALUES; ++j) sums[j] += weight * load<A, HALF>(values[j * v_step]);
  }
}
)";
constexpr const char* kAttentionEnd = R"(
auto to = y + (row * pieces + piece) * VALUES;
#if WHOLE
for (int j = 0; j < VALUES; ++j) to[j] = total == A(0) ? R(A(0)) : R(sums[j] / total);
#else
for (int j = 0; j < VALUES; ++j) to[j] = sums[j];
stats[(row * pieces + piece) * 2] = largest;
stats[(row * pieces + piece) * 2 + 1] = total;
#endif
)";

// Eight simdgroups have every eighth key each; their lanes share its elements.
constexpr const char* kWeakAttention = R"(
constexpr int OWN = (WIDTH + 31) / 32;
constexpr int OWN_VALUES = (VALUES + 31) / 32;
threadgroup A met_sums[8][VALUES];
threadgroup A met_largest[8];
threadgroup A met_total[8];
const uint t = thread_index_in_threadgroup;
const int lane = int(t % 32);
const uint simd = t / 32;
A own[OWN];
for (int i = 0; i < OWN; ++i) {
  own[i] = lane + i * 32 < WIDTH ? load<A, HALF>(query[(lane + i * 32) * q_step]) * A(scale) : A(0);
}
A sums[OWN_VALUES];
for (int i = 0; i < OWN_VALUES; ++i) sums[i] = A(0);
A largest = NEVER;
A total = A(0);
for (long key = begin + simd; key < end; key += 8) {
  auto from = key_rows + key * k_down;
  A product = A(0);
  for (int i = 0; i < OWN; ++i) {
    if (lane + i * 32 < WIDTH) product += own[i] * load<A, HALF>(from[(lane + i * 32) * k_step]);
  }
  const A score = MASKED(simd_sum(product), key);
  if (score == NEVER) continue;
  const A now = !(score <= largest) ? score : largest;
  const A less = weight_of(largest, now);
  const A weight = weight_of(score, now);
  largest = now;
  total = total * less + weight;
  auto values = value_rows + key * v_down;
  for (int i = 0; i < OWN_VALUES; ++i) {
    if (lane + i * 32 < VALUES) {
      sums[i] = sums[i] * less + weight * load<A, HALF>(values[(lane + i * 32) * v_step]);
    }
  }
}
for (int i = 0; i < OWN_VALUES; ++i) {
  if (lane + i * 32 < VALUES) met_sums[simd][lane + i * 32] = sums[i];
}
if (lane == 0) {
  met_largest[simd] = largest;
  met_total[simd] = total;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
largest = met_largest[0];
for (int i = 1; i < 8; ++i) largest = !(met_largest[i] <= largest) ? met_largest[i] : largest;
total = A(0);
for (int i = 0; i < 8; ++i) total += met_total[i] * weight_of(met_largest[i], largest);
auto to = y + (row * pieces + piece) * VALUES;
for (int j = int(t); j < VALUES; j += 256) {
  A sum = A(0);
  for (int i = 0; i < 8; ++i) sum += met_sums[i][j] * weight_of(met_largest[i], largest);
#if WHOLE
  to[j] = total == A(0) ? R(A(0)) : R(sum / total);
#else
  to[j] = sum;
#endif
}
#if !WHOLE
if (t == 0) {
  stats[(row * pieces + piece) * 2] = largest;
  stats[(row * pieces + piece) * 2 + 1] = total;
}
#endif
)";

constexpr const char* kAttentionJoin = R"(
const long i = thread_position_in_grid.x;
const long row = i / VALUES;
const long j = i % VALUES;
A largest = NEVER;
for (long p = 0; p < pieces; ++p) {
  const A other = stats[(row * pieces + p) * 2];
  largest = !(other <= largest) ? other : largest;
}
A sum = A(0);
A total = A(0);
for (long p = 0; p < pieces; ++p) {
  const A weight = weight_of(stats[(row * pieces + p) * 2], largest);
  sum += weight * parts[(row * pieces + p) * VALUES + j];
  total += weight * stats[(row * pieces + p) * 2 + 1];
}
y[i] = total == A(0) ? R(A(0)) : R(sum / total);
)";

// Products become weights where they are: masked ones first, then relative to the largest.
constexpr const char* kWeights = R"(
const long row = thread_position_in_grid.x;
)";
constexpr const char* kWeightsBody = R"(
constexpr int CHUNK = 64;
auto own = scores + row * keys;
// Masked products, some at a time, so that compilers make vectors of what follows; NEVER beyond the
// end.
A some[CHUNK];
#define LOAD_CHUNK(first)                                                       \
  {                                                                             \
    const long rest = keys - (first);                                           \
    if (rest >= CHUNK) {                                                        \
      device R* const block = own + (first);                                    \
      convert<CHUNK>(block, some);                                              \
    }                                                                           \
    for (long j = 0; j < CHUNK && rest < CHUNK; ++j) {                          \
      some[j] = j < rest ? A(own[(first) + j]) : NEVER;                         \
    }                                                                           \
    for (long j = 0; j < CHUNK && (causal || mask_kind != 0); ++j) {            \
      some[j] = j < rest ? MASKED(some[j], (first) + j) : NEVER;                \
    }                                                                           \
  }
A most[CHUNK];
for (long j = 0; j < CHUNK; ++j) most[j] = NEVER;
for (long first = 0; first < keys; first += CHUNK) {
  LOAD_CHUNK(first)
  for (long j = 0; j < CHUNK; ++j) most[j] = !(some[j] <= most[j]) ? some[j] : most[j];
}
A largest = NEVER;
for (long j = 0; j < CHUNK; ++j) largest = !(most[j] <= largest) ? most[j] : largest;
A totals[CHUNK];
for (long j = 0; j < CHUNK; ++j) totals[j] = A(0);
for (long first = 0; first < keys; first += CHUNK) {
  LOAD_CHUNK(first)
  for (long j = 0; j < CHUNK; ++j) totals[j] += weight_of(some[j], largest);
}
A total = A(0);
for (long j = 0; j < CHUNK; ++j) total += totals[j];
const A part = total == A(0) ? A(0) : A(1) / total;
for (long first = 0; first < keys; first += CHUNK) {
  LOAD_CHUNK(first)
  for (long j = 0; j < CHUNK; ++j) some[j] = weight_of(some[j], largest) * part;
  if (keys - first >= CHUNK) {
    device R* const block = own + first;
    convert<CHUNK>(some, block);
  } else {
    for (long j = 0; first + j < keys; ++j) own[first + j] = R(some[j]);
  }
}
)";
constexpr const char* kWeakWeightsBody = R"(
threadgroup A meeting[8];
const uint t = thread_index_in_threadgroup;
auto own = scores + row * keys;
A largest = NEVER;
for (long key = t; key < keys; key += 256) {
  const A score = MASKED(A(own[key]), key);
  largest = !(score <= largest) ? score : largest;
}
largest = joined_in_group(largest, meeting, t, [](A a, A b) { return !(b <= a) ? b : a; });
A total = A(0);
for (long key = t; key < keys; key += 256) {
  total += weight_of(MASKED(A(own[key]), key), largest);
}
total = joined_in_group(total, meeting, t, [](A a, A b) { return a + b; });
const A part = total == A(0) ? A(0) : A(1) / total;
for (long key = t; key < keys; key += 256) {
  own[key] = R(weight_of(MASKED(A(own[key]), key), largest) * part);
}
)";

std::string attention_header() { return std::string(kExpOfText) + kScoreText; }

kernel::Definition few_queries(std::string name, const std::string& begin, const char* body) {
  return {.name = std::move(name),
          .inputs = {"q", "k", "v", "mask"},
          .outputs = {"y", "stats"},
          .source = begin + kMaskRow + kAttentionRow + body,
          .header = std::string(kLoadText) + attention_header()};
}
kernel::Definition many_queries(std::string name, const std::string& begin, const char* body,
                                const char* helpers) {
  return {.name = std::move(name),
          .inputs = {"mask"},
          .in_place = {"scores"},
          .source = begin + kMaskRow + body,
          .header = attention_header() + helpers};
}

}  // namespace

const Kernel& attention_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      few_queries("attention", R"(
const long row = thread_position_in_grid.x;
const long piece = thread_position_in_grid.y;
const long pieces = threads_per_grid.y;
)",
                  (std::string(kAttention) + kAttentionEnd).c_str()));
  return kernel;
}
const Kernel& weak_attention_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      few_queries("attention_weak",
                  std::string(kGroupNumberText) +
                      "const long row = number;\nconst long pieces = threadgroups_per_grid.z;\n",
                  kWeakAttention));
  return kernel;
}
const Kernel& attention_join_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{.name = "attention_join",
                                                                .inputs = {"parts", "stats"},
                                                                .outputs = {"y"},
                                                                .source = kAttentionJoin,
                                                                .header = attention_header()});
  return kernel;
}
const Kernel& attention_weights_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      many_queries("attention_weights", kWeights, kWeightsBody, kConvertText));
  return kernel;
}
const Kernel& weak_attention_weights_kernel() {
  static const NeverDestroyed<Kernel> kernel(many_queries(
      "attention_weights_weak", std::string(kGroupNumberText) + "const long row = number;\n",
      kWeakWeightsBody, kJoinText));
  return kernel;
}

}  // namespace holdfast::array
