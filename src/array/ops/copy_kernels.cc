#include "holdfast/array/ops/copy_kernels.h"

#include <string>

#include "holdfast/array/ops/work.h"
#include "holdfast/base/never_destroyed.h"

namespace holdfast::array {
namespace {

// Where the elements of a row, or of all axes but the last two, begin.
constexpr const char* kBeginText = R"(
#define FIND_BEGIN(number, axes)                                     \
  long from = 0;                                                     \
  long to = 0;                                                       \
  {                                                                  \
    uint rest = number;                                              \
    for (int d = axes - 1; d >= 0; --d) {                            \
      const uint n = uint(y_shape[d]);                               \
      const uint c = d == 0 ? rest : rest % n;                       \
      if (d > 0) rest /= n;                                          \
      to += long(c) * y_strides[d];                                  \
      from += long((flip >> d) & 1u ? n - 1u - c : c) * x_strides[d]; \
    }                                                                \
  }
)";

// Copies a row by threads with a pack of the target each. The elements of one may lie across two
// packs of the source, which are joined. Only packs that are wholly in the row are read or written:
// the elements before and after those are copied one by one, by neighbouring threads.
constexpr const char* kCopyRowText = R"(
inline Pack<uint, 4> joined(Pack<uint, 4> low, Pack<uint, 4> high, uint bytes) {
  uint words[8];
  for (int i = 0; i < 4; ++i) words[i] = low.at[i];
  for (int i = 0; i < 4; ++i) words[i + 4] = high.at[i];
  if ((bytes & 8) != 0) {
    for (int i = 0; i < 6; ++i) words[i] = words[i + 2];
  }
  if ((bytes & 4) != 0) {
    for (int i = 0; i < 5; ++i) words[i] = words[i + 1];
  }
  const uint bits = (bytes & 3) * 8;
  Pack<uint, 4> result;
  for (int i = 0; i < 4; ++i) {
    result.at[i] = uint((ulong(words[i + 1]) << 32 | ulong(words[i])) >> bits);
  }
  return result;
}
template <class P, class Q>
inline void copy_row(P source, Q target, uint count, uint x, uint threads) {
  using E = ElementOf<Q>;
  const device E* from = source;
  device E* to = target;
  // How many elements of the first pack lie before the row, and how far the source lies behind a
  // pack where the target begins one.
  const uint before = uint(reinterpret_cast<ulong>(to) / sizeof(E)) % VECTOR;
  const uint behind = (uint(reinterpret_cast<ulong>(from) / sizeof(E)) - before) % VECTOR;
  // The packs of the target from `first` up to `last`.
  const uint lead = before + behind;
  const uint span = behind == 0 ? VECTOR : 2 * VECTOR;
  const uint first = (lead + VECTOR - 1) / VECTOR;
  const uint last = count + lead < span ? 0 : (count + lead - span) / VECTOR + 1;
  if (first <= x && x < last) {
    const uint k = x * VECTOR - before;
    using Words = Pack<uint, 4>;
    const device Words* words = reinterpret_cast<const device Words*>(from + (k - behind));
    *reinterpret_cast<device Words*>(to + k) =
        behind == 0 ? words[0] : joined(words[0], words[1], behind * uint(sizeof(E)));
  }
  const uint head = first < last ? first * VECTOR - before : count;
  for (uint k = x; k < head; k += threads) to[k] = from[k];
  if (first >= last) return;
  for (uint k = last * VECTOR - before + x; k < count; k += threads) to[k] = from[k];
}
)";

}  // namespace

const Kernel& copy_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{.name = "copy_elements",
                                                                .inputs = {"x"},
                                                                .outputs = {"y"},
                                                                .source = R"(
FIND_BEGIN(thread_position_in_grid.y, y_ndim - 1)
uint i = thread_position_in_grid.x;
uint n = uint(y_shape[y_ndim - 1]);
to += long(i) * y_strides[y_ndim - 1];
from += long((flip >> (y_ndim - 1)) & 1u ? n - 1u - i : i) * x_strides[y_ndim - 1];
y[to] = x[from];
)",
                                                                .header = kBeginText});
  return kernel;
}

const Kernel& weak_copy_rows_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "copy_rows_weak",
                         .inputs = {"x"},
                         .outputs = {"y"},
                         .source = R"(
const uint row = thread_position_in_grid.z * rows_y + thread_position_in_grid.y;
if (row < rows) {
  FIND_BEGIN(row, y_ndim - 1)
  copy_row(x + from, y + to, count, thread_position_in_grid.x, threads_per_grid.x);
}
)",
                         .header = std::string(kPackText) + kCopyRowText + kBeginText});
  return kernel;
}

const Kernel& weak_copy_turned_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "copy_turned_weak",
                         .inputs = {"x"},
                         .outputs = {"y"},
                         .source = std::string(kGroupNumberText) + R"(
constexpr uint SIDE = 32 * WIDE;
threadgroup T tile[SIDE][SIDE + 1];
const uint3 me = thread_position_in_threadgroup;
const uint rows = uint(y_shape[y_ndim - 2]);
const uint columns = uint(y_shape[y_ndim - 1]);
const uint tiles_x = (columns + SIDE - 1) / SIDE;
const uint tiles_y = (rows + SIDE - 1) / SIDE;
const uint tile_number = uint(number);
const uint column = tile_number % tiles_x * SIDE;
const uint row = tile_number / tiles_x % tiles_y * SIDE;
FIND_BEGIN(tile_number / tiles_x / tiles_y, y_ndim - 2)
const uint mine = me.x * WIDE;
const long x_step = x_strides[y_ndim - 1];
const long y_step = y_strides[y_ndim - 2];
auto source = x + (from + row + mine + long(column + me.y) * x_step);
auto target = y + (to + column + mine + long(row + me.y) * y_step);
const bool whole = row + SIDE <= rows && column + SIDE <= columns;
if (whole && is_aligned<WIDE>(source) && x_step % WIDE == 0) {
  // All on their way before the first is needed.
  Pack<T, WIDE> packs[SIDE / 8];
  for (int i = 0; i < int(SIDE) / 8; ++i) packs[i] = load_pack<WIDE>(source + i * 8 * x_step);
  for (int i = 0; i < int(SIDE) / 8; ++i) {
    for (int j = 0; j < WIDE; ++j) tile[me.y + i * 8][mine + j] = packs[i].at[j];
  }
} else {
  for (uint r = 0; r < SIDE && column + me.y + r < columns; r += 8) {
    for (int j = 0; j < WIDE && row + mine + j < rows; ++j) {
      tile[me.y + r][mine + j] = source[long(r) * x_step + j];
    }
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
if (whole && is_aligned<WIDE>(target) && y_step % WIDE == 0) {
  for (int i = 0; i < int(SIDE) / 8; ++i) {
    Pack<T, WIDE> pack;
    for (int j = 0; j < WIDE; ++j) pack.at[j] = tile[mine + j][me.y + i * 8];
    store_pack<WIDE>(target + i * 8 * y_step, pack);
  }
} else {
  for (uint r = 0; r < SIDE && row + me.y + r < rows; r += 8) {
    for (int j = 0; j < WIDE && column + mine + j < columns; ++j) {
      target[long(r) * y_step + j] = tile[mine + j][me.y + r];
    }
  }
}
)",
                         .header = std::string(kPackText) + kBeginText});
  return kernel;
}

const Kernel& square_copy_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "copy_squares",
                         .inputs = {"x"},
                         .outputs = {"y"},
                         .source = R"(
T square[SIDE][SIDE];
const uint rows = uint(y_shape[y_ndim - 2]);
const uint columns = uint(y_shape[y_ndim - 1]);
const uint column = thread_position_in_grid.x * SIDE;
const uint row = thread_position_in_grid.y * SIDE;
const int wide = int(metal::min(uint(SIDE), columns - column));
const int high = int(metal::min(uint(SIDE), rows - row));
FIND_BEGIN(thread_position_in_grid.z, y_ndim - 2)
const long step = x_strides[y_ndim - 1];
const T* source = x + (from + row + long(column) * step);
T* target = y + (to + long(row) * y_strides[y_ndim - 2] + column);
load_square(source, step, 1, wide, high, square);
for (int j = 0; j < high; ++j) {
  __builtin_memcpy(target + j * y_strides[y_ndim - 2], square[j], wide * sizeof(T));
}
)",
                         .header = std::string(kSquareText) + kBeginText});
  return kernel;
}

const Kernel& fill_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      kernel::Definition{.name = "fill_elements", .outputs = {"y"}, .source = R"(
uint row = thread_position_in_grid.y;
long to = long(thread_position_in_grid.x) * y_strides[y_ndim - 1];
for (int d = y_ndim - 2; d >= 0; --d) {
  uint n = uint(y_shape[d]);
  to += long(row % n) * y_strides[d];
  row /= n;
}
y[to] = value;
)"});
  return kernel;
}

}  // namespace holdfast::array
