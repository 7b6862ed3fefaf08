#include "holdfast/array/ops/scan_kernels.h"

#include <string>

#include "holdfast/array/ops/work.h"
#include "holdfast/base/never_destroyed.h"

namespace holdfast::array {
namespace {

constexpr const char* kScanHeader = R"(
constexpr A NONE = PRODUCT ? A(1) : A(0);
inline A join(A a, A b) { return PRODUCT ? a * b : a + b; }
)";

// Where a thread finds its rows, of which there are `width`.
constexpr const char* kScanRows = R"(
#if WIDE == 1
const long row = thread_position_in_grid.x;
const int width = 1;
#else
const long first = long(thread_position_in_grid.x) * WIDE;
const long row = long(thread_position_in_grid.y) * inner + first;
const int width = int(metal::min(long(WIDE), inner - first));
#endif
const long piece = thread_position_in_grid.z;
)";
// Where a row lies, and the part of it that is a piece.
constexpr const char* kScanPiece = R"(
const int last = x_ndim - 1;
const long step = x_strides[last];
auto from = x + elem_to_loc(row, x_shape, x_strides, last);
const long begin = piece * piece_length;
const long end = metal::min(begin + piece_length, length);
)";

constexpr const char* kScanBody = R"(
auto to = y + (row / inner * (length * inner) + row % inner);
A totals[WIDE];
for (int j = 0; j < WIDE; ++j) totals[j] = NONE;
#if STARTED
for (int j = 0; j < width; ++j) totals[j] = starts[(row + j) * pieces + piece];
#endif
if (width == WIDE) {
  for (long k = begin; k < end; ++k) {
    const long at = reverse ? length - 1 - k : k;
    for (int j = 0; j < WIDE; ++j) {
      const A before = totals[j];
      totals[j] = join(before, load<A, HALF>(from[at * step + j]));
      to[at * inner + j] = R(exclusive ? before : totals[j]);
    }
  }
} else {
  for (long k = begin; k < end; ++k) {
    const long at = reverse ? length - 1 - k : k;
    for (int j = 0; j < width; ++j) {
      const A before = totals[j];
      totals[j] = join(before, load<A, HALF>(from[at * step + j]));
      to[at * inner + j] = R(exclusive ? before : totals[j]);
    }
  }
}
)";

constexpr const char* kScanTotals = R"(
A totals[WIDE];
for (int j = 0; j < WIDE; ++j) totals[j] = NONE;
for (long k = begin; k < end; ++k) {
  const long at = reverse ? length - 1 - k : k;
  for (int j = 0; j < width; ++j) {
    totals[j] = join(totals[j], load<A, HALF>(from[at * step + j]));
  }
}
for (int j = 0; j < width; ++j) y[(row + j) * pieces + piece] = totals[j];
)";

// Threads have four neighbours each: first what those come to, then what stands before them in the
// simdgroup, then before that in the threadgroup.
constexpr const char* kWeakScan = R"(
constexpr uint EACH = 4;
threadgroup A meeting[8];
const uint t = thread_index_in_threadgroup;
const uint lane = t % 32;
auto to = y + (row / inner * (length * inner) + row % inner);
#if STARTED
A total = starts[row * pieces + piece];
#else
A total = NONE;
#endif
for (long chunk = begin; chunk < end; chunk += 256 * EACH) {
  const long first = chunk + t * EACH;
  A own[EACH];
  A sum = NONE;
  for (uint u = 0; u < EACH; ++u) {
    const long k = first + u;
    own[u] = k < end ? load<A, HALF>(from[(reverse ? length - 1 - k : k) * step]) : NONE;
    sum = join(sum, own[u]);
  }
  for (uint distance = 1; distance < 32; distance *= 2) {
    const A other = simd_shuffle_up(sum, distance);
    if (lane >= distance) sum = join(other, sum);
  }
  const A left = simd_shuffle_up(sum, 1u);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (lane == 31) meeting[t / 32] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  A before = total;
  for (uint i = 0; i < 8; ++i) {
    if (i < t / 32) before = join(before, meeting[i]);
    total = join(total, meeting[i]);
  }
  if (lane > 0) before = join(before, left);
  for (uint u = 0; u < EACH; ++u) {
    const long k = first + u;
    const A with_own = join(before, own[u]);
    if (k < end) to[(reverse ? length - 1 - k : k) * inner] = R(exclusive ? before : with_own);
    before = with_own;
  }
}
)";

constexpr const char* kWeakScanTotals = R"(
threadgroup A meeting[8];
const uint t = thread_index_in_threadgroup;
A total = NONE;
for (long k = begin + t; k < end; k += 256) {
  total = join(total, load<A, HALF>(from[(reverse ? length - 1 - k : k) * step]));
}
total = joined_in_group(total, meeting, t, [](A a, A b) { return join(a, b); });
if (t == 0) y[row * pieces + piece] = total;
)";

kernel::Definition scan_definition(std::string name, bool started, const std::string& source,
                                   const char* helpers = "") {
  kernel::Definition definition{
      .name = std::move(name),
      .inputs = {"x"},
      .outputs = {"y"},
      .source = (started ? "#define STARTED 1\n" : "#define STARTED 0\n") + source,
      .header = std::string(kLoadText) + kScanHeader + helpers};
  if (started) definition.inputs.emplace_back("starts");
  return definition;
}
std::string scan_rows(const char* body) { return std::string(kScanRows) + kScanPiece + body; }
std::string scan_groups(const char* body) {
  return std::string(kGroupNumberText) + "const long row = number;\n" + kScanPiece + body;
}

}  // namespace

const Kernel& scan_kernel(bool started) {
  static const NeverDestroyed<Kernel> whole(scan_definition("scan", false, scan_rows(kScanBody)));
  static const NeverDestroyed<Kernel> pieces(
      scan_definition("scan_pieces", true, scan_rows(kScanBody)));
  return started ? pieces : whole;
}
const Kernel& scan_totals_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      scan_definition("scan_totals", false, scan_rows(kScanTotals)));
  return kernel;
}
const Kernel& weak_scan_kernel(bool started) {
  static const NeverDestroyed<Kernel> whole(
      scan_definition("scan_weak", false, scan_groups(kWeakScan)));
  static const NeverDestroyed<Kernel> pieces(
      scan_definition("scan_pieces_weak", true, scan_groups(kWeakScan)));
  return started ? pieces : whole;
}
const Kernel& weak_scan_totals_kernel() {
  static const NeverDestroyed<Kernel> kernel(
      scan_definition("scan_totals_weak", false, scan_groups(kWeakScanTotals), kJoinText));
  return kernel;
}

}  // namespace holdfast::array
