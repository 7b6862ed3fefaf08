#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/array/ops/work.h"
#include "holdfast/base/rounding.h"
#include "holdfast/kernel/kernel.h"

// How many weak threads make one result of each row, where a row's elements lie side by side.
namespace holdfast::array {

// Rows, and how they are cut for threadgroups of kWeakGroup.
struct WeakRows {
  // Threadgroups that keep a GPU busy to the end: fewer are cut into pieces of rows. A GPU has room
  // for about a thousand at once, and the last to end should be a small part of all.
  static constexpr int64_t kBusy = 4096;
  // Packs of each thread of a piece, at least.
  static constexpr int64_t kFewPacks = 8;
  static constexpr int64_t kShortLanes = 4;
  static constexpr int64_t kShortRows = 4;

  int64_t rows;
  int64_t length;
  int64_t vector;  // elements of a pack
  bool flat;       // rows lie at equal distances
  bool is_short;   // each thread has a pack of each of four rows
  int64_t lanes;   // threads of a row
  int64_t piece_length;
  int64_t pieces;

  WeakRows(int64_t rows_of, int64_t length_of, Dtype dtype, bool is_flat)
      : rows(rows_of),
        length(length_of),
        vector(kPackBytes / static_cast<int64_t>(size_of(dtype).value)),
        flat(is_flat),
        is_short(flat && length <= kShortLanes * vector),
        lanes(is_short ? kShortLanes : lanes_of(rows, ceil_div(length, vector))),
        piece_length(length) {
    if (lanes == kWeakGroup) {
      const int64_t most = length / (kWeakGroup * vector * kFewPacks);
      const int64_t wanted = std::max<int64_t>(std::min(ceil_div(kBusy, rows), most), 1);
      // As 32-bit places need it, and so that all begin as the row does, if that begins aligned.
      piece_length = std::min(round_up(ceil_div(length, wanted), vector), int64_t{1} << 30);
    }
    pieces = ceil_div(length, piece_length);
  }

  WeakGroups groups(const char* what) const {
    const int64_t each = kWeakGroup / lanes * (is_short ? kShortRows : 1);
    return weak_groups(ceil_div(rows, each), kWeakLine, pieces, what);
  }
  // What the kernel is given of it, the rows `row_step` apart if they are flat.
  void add_constants(std::vector<kernel::Constant>& to) const {
    to.push_back({"VECTOR", vector});
    if (is_short) return;
    to.push_back({"LANES", lanes});
    to.push_back({"FLAT", flat});
  }
  std::vector<kernel::Param> params(int64_t row_step, const WeakGroups& groups) const {
    std::vector<kernel::Param> all{
        {"rows", rows}, {"length", length}, {"row_step", row_step}, groups.count};
    if (!is_short) all.push_back({"piece_length", piece_length});
    return all;
  }

 private:
  // Each thread has several packs, if there are rows enough for that: what it does but once takes
  // as long as three or four of them.
  static int64_t lanes_of(int64_t rows, int64_t packs) {
    const auto more = [](int64_t lanes) { return lanes == 8 ? 32 : 2 * lanes; };
    int64_t lanes = 8;
    while (lanes < kWeakGroup && packs > (lanes == 8 ? 8 : 16) * lanes) lanes = more(lanes);
    while (lanes < kWeakGroup && packs > lanes && rows * lanes < kBusy * kWeakGroup) {
      lanes = more(lanes);
    }
    return lanes;
  }
};

// The text of such a kernel has x with the row last, and y as [row, piece]. Its header has, before
// kRowsText,
//   struct Running, what was found of some elements, without constructors, with
//     take(v, place), an element of x, from left to right
//     take_pack(pack, place, valid); one that is not valid is a valid one again
//     meet(other), what was found of other elements
//     from(distance), what the thread at that distance (exclusive or) has found
//   Running started(v, place), for elements of which this is one
//   Running nothing(row), for elements of that row; it does not wait for the row if it can be
//   helped RESULT(running, begin), for y, of places that count from there.
// Constants: VECTOR, LANES, FLAT (rows lie `row_step` apart). Params: "rows", "length",
// "piece_length", "row_step", and that of weak_groups().
inline constexpr const char* kRowsText = R"(
template <int N, class P> inline uint before_pack(P at) {
  const device ElementOf<P>* p = at;
  return uint(0 - reinterpret_cast<ulong>(p) / sizeof(*p)) & uint(N - 1);
}
// What one of L threads has of a row: packs, four of them on their way at once, and then its share
// of what lies before and after all packs.
template <int N, uint L, class P> inline Running found_in(P row, uint n, uint lane) {
  const uint head = metal::min(before_pack<N>(row), n);
  const uint packs = (n - head) / N;
  Running found = nothing(row);
  for (uint p = lane; p < packs; p += 4 * L) {
    Pack<ElementOf<P>, N> some[4];
    for (uint u = 0; u < 4; ++u) {
      some[u] = load_pack<N>(row + (head + metal::min(p + u * L, packs - 1) * N));
    }
    for (uint u = 0; u < 4; ++u) {
      found.take_pack(some[u], head + metal::min(p + u * L, packs - 1) * N, p + u * L < packs);
    }
  }
  const uint tail = head + packs * N;
  if (head > 0 || tail < n) {
    Running rest = nothing(row);
    for (uint k = lane; k < head; k += L) rest.take(row[k], k);
    for (uint k = tail + lane; k < n; k += L) rest.take(row[k], k);
    found.meet(rest);
  }
  return found;
}
// What L threads have found, for the first of them. All of a threadgroup call it, of 256.
template <uint L> inline Running met(Running found, threadgroup Running* meeting, uint t) {
  for (uint distance = L < 32 ? L / 2 : 16; distance > 0; distance /= 2) {
    found.meet(found.from(distance));
  }
  if (L > 32) {
    if (t % 32 == 0) meeting[t / 32] = found;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (t % L == 0) {
      for (uint i = 1; i < L / 32; ++i) found.meet(meeting[t / 32 + i]);
    }
  }
  return found;
}
#define ROW_AT(row) \
  (FLAT ? (row) * row_step : elem_to_loc(long(row), x_shape, x_strides, x_ndim - 1))
)";

// LANES threads have a row, or a piece of one.
inline constexpr const char* kRowsBody = R"(
threadgroup Running meeting[8];
const uint t = thread_index_in_threadgroup;
const uint lane = t % LANES;
const long mine = number * (256 / LANES) + t / LANES;
const long begin = piece * piece_length;
const uint n = uint(metal::min(piece_length, length - begin));
auto row = x + (ROW_AT(metal::min(mine, rows - 1)) + begin);
const Running found = met<LANES>(found_in<VECTOR, LANES>(row, n, lane), meeting, t);
if (lane == 0 && mine < rows) {
  y[mine * long(threadgroups_per_grid.z) + piece] = RESULT(found, begin);
}
)";

// Four threads have four rows, each a pack of all of them.
inline constexpr const char* kShortRowsBody = R"(
const uint t = thread_index_in_threadgroup;
const uint lane = t % 4;
const uint n = uint(length);
const uint packs = n / VECTOR;
const uint place = metal::min(lane, metal::max(packs, 1u) - 1) * VECTOR;
long mine[4];
Running found[4];
for (int u = 0; u < 4; ++u) mine[u] = number * 256 + u * 64 + t / 4;
if (n % VECTOR == 0 && row_step % VECTOR == 0 && is_aligned<VECTOR>(x)) {
  Pack<ElementOf<decltype(x + 0)>, VECTOR> some[4];
  for (int u = 0; u < 4; ++u) {
    some[u] = load_pack<VECTOR>(x + (metal::min(mine[u], rows - 1) * row_step + place));
  }
  for (int u = 0; u < 4; ++u) {
    found[u] = started(some[u].at[0], place);
    found[u].take_pack(some[u], place, lane < packs);
  }
} else {
  long row[4];
  for (int u = 0; u < 4; ++u) {
    row[u] = metal::min(mine[u], rows - 1) * row_step;
    found[u] = started(x[row[u]], 0);
  }
  for (uint k = lane; k < n; k += 4) {
    for (int u = 0; u < 4; ++u) found[u].take(x[row[u] + k], k);
  }
}
for (int u = 0; u < 4; ++u) {
  found[u].meet(found[u].from(2));
  found[u].meet(found[u].from(1));
}
for (int u = 0; u < 4; ++u) {
  if (lane == 0 && mine[u] < rows) y[mine[u]] = RESULT(found[u], 0);
}
)";

// Kernels of both bodies, which share a header.
inline Kernel rows_kernel(std::string name, const std::string& header, bool is_short) {
  return Kernel({.name = std::move(name),
                 .inputs = {"x"},
                 .outputs = {"y"},
                 .source = std::string(kGroupNumberText) + (is_short ? kShortRowsBody : kRowsBody),
                 .header = std::string(kLoadText) + kPackText + header + kRowsText});
}

}  // namespace holdfast::array
