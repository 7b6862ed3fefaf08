#include "holdfast/array/ops/sort_kernels.h"

#include <string>

#include "holdfast/array/ops/work.h"
#include "holdfast/base/never_destroyed.h"

namespace holdfast::array {

const char* const kKeyText = R"(
constexpr K SIGN = K(K(1) << (sizeof(K) * 8 - 1));
template <bool kEqual> inline K key_of(K bits, int kind, int mantissa) {
  if (kind == 1) return K(bits ^ SIGN);
  if (kind == 2) {
    const K infinity = K(K(K(~SIGN) >> mantissa) << mantissa);
    const K size = K(bits & K(~SIGN));
    if (size > infinity) bits = kEqual ? K(infinity + 1) : size;
    if (kEqual && size == 0) bits = 0;
    return (bits & SIGN) != 0 ? K(~bits) : K(bits | SIGN);
  }
  return bits;
}
inline K bits_of(K key, int kind) {
  if (kind == 1) return K(key ^ SIGN);
  if (kind == 2) return (key & SIGN) != 0 ? K(key ^ SIGN) : K(~key);
  return key;
}
)";

namespace {

// Results are named by macros that the definition begins with: KEYS, PLACES.
constexpr const char* kSortHeader = R"(
// Of a descending order, the complement: equal elements stay in their order.
#define SORT_KEY(bits) K(key_of<PLACES>(bits, kind, mantissa) ^ flipped)
#define RESULT_OF(key) (as_elements ? bits_of(K((key) ^ flipped), kind) : K(key))
// How many of the first d elements of two merged runs come from the first one.
template <class P> inline uint split(P a, uint a_length, P b, uint b_length, uint d) {
  uint low = d > b_length ? d - b_length : 0;
  uint high = d < a_length ? d : a_length;
  while (low < high) {
    const uint middle = low + (high - low) / 2;
    if (b[d - middle - 1] < a[middle]) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}
#define RESULT_ROW(row) ((row) / inner * (total * inner) + (row) % inner)
)";

// `number` counts blocks.
constexpr const char* kBlockText = R"(
const K flipped = descending ? K(~K(0)) : K(0);
const long row = number / blocks;
const uint begin = uint(number % blocks) * BLOCK;
const uint count = metal::min(uint(length) - begin, uint(BLOCK));
const uint stays = metal::min(count, uint(run));
const int last = x_ndim - 1;
const long step = x_strides[last];
auto from = x + (elem_to_loc(row, x_shape, x_strides, last) + begin * step);
const long to = RESULT_ROW(row) + (number % blocks) * run * inner;
)";

constexpr const char* kThreadNumber = R"(
const long number = thread_position_in_grid.x;
)";

// By insertion first, then by merging.
constexpr const char* kStrongSortBlock = R"(
constexpr uint FEW = 8;
K some[BLOCK];
K others[BLOCK];
thread K* now = some;
thread K* then = others;
#if PLACES
uint some_places[BLOCK];
uint other_places[BLOCK];
thread uint* now_at = some_places;
thread uint* then_at = other_places;
#endif
for (uint first = 0; first < count; first += FEW) {
  const uint end = metal::min(first + FEW, count);
  for (uint i = first; i < end; ++i) {
    const K key = SORT_KEY(from[i * step]);
    uint k = i;
    for (; k > first && key < now[k - 1]; --k) {
      now[k] = now[k - 1];
#if PLACES
      now_at[k] = now_at[k - 1];
#endif
    }
    now[k] = key;
#if PLACES
    now_at[k] = begin + i;
#endif
  }
}
for (uint width = FEW; width < count; width *= 2) {
  for (uint first = 0; first < count; first += 2 * width) {
    const uint middle = metal::min(first + width, count);
    const uint end = metal::min(middle + width, count);
    uint i = first;
    uint j = middle;
    for (uint k = first; k < end; ++k) {
      const bool second = j < end && (i >= middle || now[j] < now[i]);
      const uint at = second ? j : i;
      then[k] = now[at];
#if PLACES
      then_at[k] = now_at[at];
#endif
      i += second ? 0 : 1;
      j += second ? 1 : 0;
    }
  }
  thread K* const swapped = now;
  now = then;
  then = swapped;
#if PLACES
  thread uint* const swapped_at = now_at;
  now_at = then_at;
  then_at = swapped_at;
#endif
}
for (uint i = 0; i < stays; ++i) {
#if KEYS
  keys[to + i * inner] = RESULT_OF(now[i]);
#endif
#if PLACES
  places[to + i * inner] = now_at[i];
#endif
}
)";

// A bitonic network. It keeps no order, so places decide between equal keys. What is beyond the end
// comes last.
constexpr const char* kWeakSortBlock = R"(
threadgroup K mine[BLOCK];
#if PLACES
threadgroup uint mine_at[BLOCK];
#endif
const uint t = thread_index_in_threadgroup;
const uint all = uint(size);
for (uint i = t; i < all; i += 256) {
  mine[i] = i < count ? SORT_KEY(from[i * step]) : K(~K(0));
#if PLACES
  mine_at[i] = begin + i;
#endif
}
for (uint width = 2; width <= all; width *= 2) {
  for (uint distance = width / 2; distance > 0; distance /= 2) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = t; i < all / 2; i += 256) {
      const uint low = i / distance * (2 * distance) + i % distance;
      const uint high = low + distance;
      const K a = mine[low];
      const K b = mine[high];
#if PLACES
      const uint a_at = mine_at[low];
      const uint b_at = mine_at[high];
      const bool wrong = b < a || (b == a && b_at < a_at);
#else
      const bool wrong = b < a;
#endif
      if (wrong == ((low & width) == 0)) {
        mine[low] = b;
        mine[high] = a;
#if PLACES
        mine_at[low] = b_at;
        mine_at[high] = a_at;
#endif
      }
    }
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint i = t; i < stays; i += 256) {
#if KEYS
  keys[to + i * inner] = RESULT_OF(mine[i]);
#endif
#if PLACES
  places[to + i * inner] = mine_at[i];
#endif
}
)";

// `number` counts pieces of PIECE elements of results; where the piece and its runs lie.
constexpr const char* kMergeText = R"(
const K flipped = descending ? K(~K(0)) : K(0);
const long pair = number / pieces % pairs;
const long row = number / pieces / pairs;
const uint first_run = uint(pair) * 2;
const long row_begin = row * ((from_runs - 1) * from_run + from_last);
const uint a_length = uint(first_run < from_runs - 1 ? from_run : from_last);
const uint b_length = uint(first_run + 1 < from_runs - 1    ? from_run
                           : first_run + 1 == from_runs - 1 ? from_last
                                                            : 0);
const long a_begin = row_begin + first_run * from_run;
const long b_begin = b_length > 0 ? a_begin + from_run : a_begin;
const uint stays = metal::min(a_length + b_length, uint(run));
const uint first = metal::min(uint(number % pieces) * PIECE, stays);
const uint end = metal::min(first + PIECE, stays);
const long to = RESULT_ROW(row) + pair * run * inner;
)";

constexpr const char* kMergeBody = R"(
auto a = from_keys + a_begin;
auto b = from_keys + b_begin;
uint i = split(a, a_length, b, b_length, first);
uint j = first - i;
for (uint k = first; k < end; ++k) {
  const bool second = j < b_length && (i >= a_length || b[j] < a[i]);
#if KEYS
  keys[to + k * inner] = RESULT_OF(second ? b[j] : a[i]);
#endif
#if PLACES
  places[to + k * inner] = second ? from_places[b_begin + j] : from_places[a_begin + i];
#endif
  i += second ? 0 : 1;
  j += second ? 1 : 0;
}
)";

// A threadgroup first reads what its piece is made of.
constexpr const char* kWeakMergeBody = R"(
constexpr uint EACH = PIECE / 256;
threadgroup K mine[PIECE];
#if PLACES
threadgroup uint mine_at[PIECE];
#endif
const uint t = thread_index_in_threadgroup;
auto a = from_keys + a_begin;
auto b = from_keys + b_begin;
const uint a_first = split(a, a_length, b, b_length, first);
const uint b_first = first - a_first;
const uint a_count = split(a, a_length, b, b_length, end) - a_first;
const uint count = end - first;
for (uint i = t; i < count; i += 256) {
  const bool second = i >= a_count;
  const uint at = second ? b_first + i - a_count : a_first + i;
  mine[i] = second ? b[at] : a[at];
#if PLACES
  mine_at[i] = second ? from_places[b_begin + at] : from_places[a_begin + at];
#endif
}
threadgroup_barrier(mem_flags::mem_threadgroup);
const uint begin = metal::min(t * EACH, count);
uint i = split(mine + 0, a_count, mine + a_count, count - a_count, begin);
uint j = a_count + (begin - i);
K found[EACH];
uint found_at[EACH];
for (uint u = 0; u < EACH; ++u) {
  if (begin + u >= count) continue;
  const bool second = j < count && (i >= a_count || mine[j] < mine[i]);
  const uint at = second ? j : i;
  found[u] = mine[at];
#if PLACES
  found_at[u] = mine_at[at];
#endif
  i += second ? 0 : 1;
  j += second ? 1 : 0;
}
// Neighbouring threads then write neighbouring elements.
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint u = 0; u < EACH; ++u) {
  if (begin + u >= count) continue;
  mine[begin + u] = found[u];
#if PLACES
  mine_at[begin + u] = found_at[u];
#endif
}
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint k = t; k < count; k += 256) {
#if KEYS
  keys[to + (first + k) * inner] = RESULT_OF(mine[k]);
#endif
#if PLACES
  places[to + (first + k) * inner] = mine_at[k];
#endif
}
)";

// The definition for each kind of result.
class SortKernels {
 public:
  SortKernels(const std::string& name, bool merges, const std::string& source)
      : kernels_{Kernel(definition(name, merges, source, Sorted::keys)),
                 Kernel(definition(name + "_places", merges, source, Sorted::places)),
                 Kernel(definition(name + "_both", merges, source, Sorted::both))} {}
  const Kernel& of(Sorted results) const { return kernels_.at(static_cast<size_t>(results)); }

 private:
  static kernel::Definition definition(std::string name, bool merges, const std::string& source,
                                       Sorted results) {
    kernel::Definition d{.name = std::move(name)};
    if (merges) {
      d.inputs = {"from_keys"};
      if (results != Sorted::keys) d.inputs.emplace_back("from_places");
    } else {
      d.inputs = {"x"};
    }
    if (results != Sorted::places) d.outputs.emplace_back("keys");
    if (results != Sorted::keys) d.outputs.emplace_back("places");
    const std::string macros = std::string("#define KEYS ") +
                               (results != Sorted::places ? "1" : "0") + "\n#define PLACES " +
                               (results != Sorted::keys ? "1" : "0") + "\n";
    d.header = macros + kKeyText + kSortHeader;
    d.source = source;
    return d;
  }

  std::array<Kernel, 3> kernels_;
};

std::string piece_of(int64_t elements) {
  return "constexpr uint PIECE = " + std::to_string(elements) + ";\n";
}

}  // namespace

Dtype key_type(Dtype dtype) {
  switch (size_of(dtype).value) {
    case 1: return Dtype::uint8;
    case 2: return Dtype::uint16;
    case 4: return Dtype::uint32;
    default: return Dtype::uint64;
  }
}
Operand as_keys(const Operand& operand) { return operand.viewed_as(key_type(operand.dtype())); }

std::array<kernel::Param, 2> key_params(Dtype dtype) {
  const int32_t kind = is_floating(dtype) ? 2 : is_signed_integer(dtype) ? 1 : 0;
  int32_t mantissa = 0;
  switch (dtype) {
    case Dtype::float16: mantissa = 10; break;
    case Dtype::bfloat16: mantissa = 7; break;
    case Dtype::float32: mantissa = 23; break;
    case Dtype::float64: mantissa = 52; break;
    default: break;
  }
  return {{{"kind", kind}, {"mantissa", mantissa}}};
}

const Kernel& sort_blocks_kernel(Sorted results) {
  static const NeverDestroyed<SortKernels> kernels(
      "sort_blocks", false, std::string(kThreadNumber) + kBlockText + kStrongSortBlock);
  return kernels.get().of(results);
}
const Kernel& weak_sort_blocks_kernel(Sorted results) {
  static const NeverDestroyed<SortKernels> kernels(
      "sort_blocks_weak", false, std::string(kGroupNumberText) + kBlockText + kWeakSortBlock);
  return kernels.get().of(results);
}
const Kernel& sort_merge_kernel(Sorted results) {
  static const NeverDestroyed<SortKernels> kernels(
      "sort_merge", true, piece_of(kMergePiece) + kThreadNumber + kMergeText + kMergeBody);
  return kernels.get().of(results);
}
const Kernel& weak_sort_merge_kernel(Sorted results) {
  static const NeverDestroyed<SortKernels> kernels(
      "sort_merge_weak", true,
      piece_of(kWeakMergePiece) + kGroupNumberText + kMergeText + kWeakMergeBody);
  return kernels.get().of(results);
}

}  // namespace holdfast::array
