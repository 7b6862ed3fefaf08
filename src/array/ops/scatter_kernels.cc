#include "holdfast/array/ops/scatter_kernels.h"

#include <string>

#include "holdfast/array/ops/positions.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/base/never_destroyed.h"

namespace holdfast::array {
namespace {

constexpr const char* kUpdateText = R"(
template <class E>
inline E updated(E before, E update) {
#if HOW == 0
  return update;
#elif HOW == 1
  return E(before + update);
#elif HOW == 2
  return E(before * update);
#elif HOW == 3
  return update > before || update != update ? update : before;
#else
  return update < before || update != update ? update : before;
#endif
}
)";

// A position as the number of a row: n if it is outside.
const std::string& key_text() {
  static const NeverDestroyed<std::string> text(std::string(R"(
template <class I>
inline uint key_of(I given, uint rows) {
  const long n = rows;
)") + kPositionText + R"(
  return inside ? uint(at) : rows;
}
)");
  return text;
}

// The row of y or of updates that threads with this place in the grid have; see PackedRows.
constexpr const char* kRowText = R"(
const uint row = thread_position_in_grid.z * rows_y + thread_position_in_grid.y;
)";

// The digits of a block, each simdgroup's side by side: how many of each there are in counts, and
// in ranks how many of the same the simdgroup has before each.
constexpr const char* kRankText = R"(
threadgroup uint counts[8][256];
const uint t = thread_index_in_threadgroup;
const uint lane = t % 32;
const uint simd = t / 32;
const uint first = uint(number) * 2048 + simd * 256 + lane;
const uint blocks = uint(group_count);
for (int i = 0; i < 8; ++i) counts[i][t] = 0;
uint found[8];
uint ranks[8];
for (uint r = 0; r < 8; ++r) {
  const uint i = metal::min(first + r * 32, positions - 1);
#if FIRST
  found[r] = key_of<I>(keys[i], n);
#else
  found[r] = keys[i];
#endif
}
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint r = 0; r < 8; ++r) {
  const bool there = first + r * 32 < positions;
  const uint digit = (found[r] >> shift) & 255;
  uint same = lanes_with(there);
  for (uint bit = 0; bit < 8; ++bit) {
    const bool one = ((digit >> bit) & 1) != 0;
    const uint ones = lanes_with(one);
    same &= one ? ones : ~ones;
  }
  const uint before = uint(metal::popcount(same & ((1u << lane) - 1)));
  ranks[r] = counts[simd][digit] + before;
  simdgroup_barrier(mem_flags::mem_threadgroup);
  if (there && before == 0) counts[simd][digit] += uint(metal::popcount(same));
  simdgroup_barrier(mem_flags::mem_threadgroup);
}
threadgroup_barrier(mem_flags::mem_threadgroup);
)";
constexpr const char* kLanesText = R"(
inline uint lanes_with(bool what) {
  return uint(ulong(simd_vote::vote_t(simd_ballot(what))));
}
)";
// What the threads before this one have of a sum; all of it is `all`. Memory for eight values.
constexpr const char* kBeforeText = R"(
inline uint sum_before(uint v, threadgroup uint* meeting, uint t, thread uint& all) {
  uint before = simd_prefix_exclusive_sum(v);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t % 32 == 31) meeting[t / 32] = before + v;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  all = 0;
  for (uint i = 0; i < 8; ++i) {
    if (i < t / 32) before += meeting[i];
    all += meeting[i];
  }
  return before;
}
)";

}  // namespace

const Kernel& scatter_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{.name = "scatter",
                                                                .inputs = {"indices", "updates"},
                                                                .in_place = {"y"},
                                                                .source = std::string(R"(
const long inner = thread_position_in_grid.x;
const long inners = threads_per_grid.x;
const long outer = thread_position_in_grid.y;
for (long p = 0; p < positions; ++p) {
  const long from = (outer * positions + p) * inners + inner;
#if ALONG
  const I given = indices[from];
#else
  const I given = indices[p];
#endif
)") + kPositionText + R"(
  if (!inside) continue;
  const long to = (outer * n + at) * inners + inner;
  y[to] = updated<T>(y[to], updates[from]);
}
)",
                                                                .header = kUpdateText});
  return kernel;
}

const Kernel& weak_scatter_last_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{.name = "scatter_last_weak",
                                                                .inputs = {"indices"},
                                                                .outputs = {"last"},
                                                                .source = R"(
const uint p = thread_position_in_grid.x;
const uint key = key_of<I>(indices[p], n);
if (key < n) atomic_fetch_max_explicit(&last[key], int(p), memory_order_relaxed);
)",
                                                                .header = key_text(),
                                                                .atomic_outputs = true});
  return kernel;
}

const Kernel& weak_scatter_set_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "scatter_set_weak",
                         .inputs = {"indices", "updates", "last"},
                         .in_place = {"y"},
                         .source = std::string(kRowText) + R"(
if (row < rows) {
  const uint outer = row / positions;
  const uint p = row - outer * positions;
  const uint key = key_of<I>(indices[p], n);
  if (key < n && last[key] == int(p)) {
    move_row(updates + long(row) * inner, y + (long(outer) * n + key) * inner, inner,
             thread_position_in_grid.x, threads_per_grid.x);
  }
}
)",
                         .header = std::string(kPackText) + kMoveText + key_text()});
  return kernel;
}

const Kernel& weak_scatter_count_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "scatter_count_weak",
                         .inputs = {"keys"},
                         .outputs = {"table"},
                         .source = std::string(kGroupNumberText) + kRankText + R"(
uint sum = 0;
for (int i = 0; i < 8; ++i) sum += counts[i][t];
table[t * blocks + uint(number)] = sum;
)",
                         .header = kLanesText + key_text()});
  return kernel;
}

const Kernel& weak_scatter_scan_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "scatter_scan_weak",
                         .outputs = {"totals"},
                         .in_place = {"table"},
                         .source = std::string(kGroupNumberText) + R"(
threadgroup uint meeting[8];
const uint t = thread_index_in_threadgroup;
auto counts = table + number * blocks;
uint sum = 0;
for (uint first = 0; first < blocks; first += 256) {
  const uint i = first + t;
  uint all;
  const uint before = sum_before(i < blocks ? counts[i] : 0u, meeting, t, all);
  if (i < blocks) counts[i] = sum + before;
  sum += all;
}
if (t == 0) totals[number] = sum;
)",
                         .header = kBeforeText});
  return kernel;
}

const Kernel& weak_scatter_sort_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "scatter_sort_weak",
                         .inputs = {"keys", "orders", "table", "totals"},
                         .outputs = {"sorted_keys", "sorted_orders"},
                         .source = std::string(kGroupNumberText) + kRankText + R"(
threadgroup uint meeting[8];
uint all;
uint begin = sum_before(totals[t], meeting, t, all) + table[t * blocks + uint(number)];
for (int i = 0; i < 8; ++i) {
  const uint count = counts[i][t];
  counts[i][t] = begin;
  begin += count;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint r = 0; r < 8; ++r) {
  const uint i = first + r * 32;
  if (i < positions) {
    const uint to = counts[simd][(found[r] >> shift) & 255] + ranks[r];
    sorted_keys[to] = found[r];
#if FIRST
    sorted_orders[to] = i;
#else
    sorted_orders[to] = orders[i];
#endif
  }
}
)",
                         .header = std::string(kBeforeText) + kLanesText + key_text()});
  return kernel;
}

const Kernel& weak_scatter_sorted_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "scatter_sorted_weak",
                         .inputs = {"keys", "orders", "updates"},
                         .in_place = {"y"},
                         .source = std::string(kRowText) + R"(
if (row < rows) {
  const uint outer = row / positions;
  const uint begin = row - outer * positions;
  const uint key = keys[begin];
  if (key < n && (begin == 0 || keys[begin - 1] != key)) {
    uint end = begin + 1;
    while (end < positions && keys[end] == key) ++end;
    update_row(updates + long(outer) * positions * inner, orders, begin, end,
               y + (long(outer) * n + key) * inner, inner, thread_position_in_grid.x,
               threads_per_grid.x);
  }
}
)",
                         .header = std::string(kPackText) + kUpdateText + R"(
// Several updates are on their way before the first is needed.
constexpr uint AHEAD = 4;
template <class P, class O, class Q>
inline void update_row(P from, O orders, uint begin, uint end, Q to, uint inner, uint x,
                       uint wide) {
  using E = ElementOf<Q>;
  if (is_aligned<VECTOR>(from) && is_aligned<VECTOR>(to)) {
    Pack<E, VECTOR> values[PACKS];
    for (uint each = 0; each < PACKS; ++each) {
      const uint k = (x + each * wide) * VECTOR;
      if (k < inner) values[each] = load_pack<VECTOR>(to + k);
    }
    for (; begin < end; begin += AHEAD) {
      Pack<E, VECTOR> updates[AHEAD][PACKS];
      for (uint a = 0; a < AHEAD; ++a) {
        if (begin + a >= end) continue;
        auto row = from + long(orders[begin + a]) * inner;
        for (uint each = 0; each < PACKS; ++each) {
          const uint k = (x + each * wide) * VECTOR;
          if (k < inner) updates[a][each] = load_pack<VECTOR>(row + k);
        }
      }
      for (uint a = 0; a < AHEAD; ++a) {
        if (begin + a >= end) continue;
        for (uint each = 0; each < PACKS; ++each) {
          for (int j = 0; j < VECTOR; ++j) {
            values[each].at[j] = updated<E>(values[each].at[j], updates[a][each].at[j]);
          }
        }
      }
    }
    for (uint each = 0; each < PACKS; ++each) {
      const uint k = (x + each * wide) * VECTOR;
      if (k < inner) store_pack<VECTOR>(to + k, values[each]);
    }
  } else {
    for (uint k = x; k < inner; k += wide) {
      E value = to[k];
      for (uint i = begin; i < end; ++i) {
        value = updated<E>(value, from[long(orders[i]) * inner + k]);
      }
      to[k] = value;
    }
  }
}
)"});
  return kernel;
}

}  // namespace holdfast::array
