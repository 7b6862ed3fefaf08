#include <fmt/format.h>

#include <array>
#include <cmath>
#include <vector>

#include "holdfast/array/ops/work.h"
#include "holdfast/base/error.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/fast.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

// x is [batch, ..., positions, elements]; y the same, row-contiguous. The grid has chunks of EACH
// pairs along x, then chunks of EACH elements that are not turned; positions along y; and along z
// groups of `heads` matrices, which a thread turns by the same angles. Inputs that are not given
// are x again, which nothing reads. Constants: A, what is computed in; T, the dtype; EACH;
// TRADITIONAL. Params: "pairs", "heads", "has_freqs", "per_offset": how many matrices share one of
// the offsets (0: they are not given, and all have "offset"), "scale", "log2_base".
const Kernel& rope_kernel() {
  static const NeverDestroyed<Kernel> kernel(kernel::Definition{
      .name = "rope", .inputs = {"x", "freqs", "offsets"}, .outputs = {"y"}, .source = R"(
const long chunk = thread_position_in_grid.x;
const long t = thread_position_in_grid.y;
const int last = x_ndim - 1;
const long step = x_strides[last];
const long width = x_shape[last];
const long first_matrix = long(thread_position_in_grid.z) * heads;
const long begin = per_offset > 0 ? long(offsets[first_matrix / per_offset]) : offset;
const long chunks = (pairs + EACH - 1) / EACH;
const bool turns = chunk < chunks;
const long first = turns ? chunk * EACH : 2 * pairs + (chunk - chunks) * EACH;
const int count = int(metal::min(long(EACH), (turns ? pairs : width) - first));
A c[EACH];
A s[EACH];
for (int j = 0; turns && j < count; ++j) {
  const A frequency = has_freqs ? A(1) / A(freqs[first + j])
                                : A(metal::exp2(-A(first + j) / A(pairs) * A(log2_base)));
  const A angle = A(t + begin) * A(scale) * frequency;
  c[j] = metal::cos(angle);
  s[j] = metal::sin(angle);
}
for (long matrix = first_matrix; matrix < first_matrix + heads; ++matrix) {
  const long row = matrix * long(threads_per_grid.y) + t;
  auto from = x + elem_to_loc(row, x_shape, x_strides, last);
  auto to = y + row * width;
  for (int j = 0; j < count; ++j) {
    if (!turns) {
      to[first + j] = from[(first + j) * step];
      continue;
    }
    const long one = TRADITIONAL ? 2 * (first + j) : first + j;
    const long other = TRADITIONAL ? one + 1 : one + pairs;
    const A a = A(from[one * step]);
    const A b = A(from[other * step]);
    to[one] = T(a * c[j] - b * s[j]);
    to[other] = T(a * s[j] + b * c[j]);
  }
}
)"});
  return kernel;
}

// Pairs of a strong thread, whose elements lie side by side.
constexpr int64_t kStrongPairs = 32;

class RopeOperation final : public Operation {
 public:
  struct How {
    int64_t pairs;
    bool traditional;
    bool freqs;
    bool offsets;
    float scale;
    float log2_base;
    int64_t offset;
  };
  explicit RopeOperation(const How& how) : how_(how) {}
  std::string_view name() const noexcept override { return "rope"; }

  // Inputs: x, then frequencies and offsets, where they are given.
  void record(Encoder& encoder) const override {
    const Operand& out = encoder.output(0);
    if (out.size() == 0) return;
    Operand in = encoder.input(0);
    if (in.layout().has_negative_strides()) in = encoder.contiguous(in);
    const Operand x = in.with_layout(array::with_usual_rank(in.layout()));
    const size_t rank = in.shape().size();
    const int64_t width = in.shape()[rank - 1];
    const int64_t positions = in.shape()[rank - 2];
    const int64_t matrices = in.size() / width / positions;
    const int64_t per_batch = matrices / in.shape()[0];
    // Few strong threads turn all matrices of a batch by the angles they have computed.
    const bool weak = array::is_many_weak(encoder);
    const int64_t heads = weak ? 1 : per_batch;
    const int64_t each = weak ? 1 : kStrongPairs;
    const Operand freqs = how_.freqs ? encoder.contiguous(encoder.input(1)) : x;
    const Operand offsets =
        how_.offsets ? encoder.contiguous(encoder.input(how_.freqs ? 2 : 1)) : x;

    const std::array constants{kernel::Constant{"A", array::accumulator_of(out.dtype())},
                               kernel::Constant{"T", out.dtype()}, kernel::Constant{"EACH", each},
                               kernel::Constant{"TRADITIONAL", how_.traditional}};
    const std::array<kernel::Param, 7> params{{{"pairs", how_.pairs},
                                               {"heads", heads},
                                               {"has_freqs", how_.freqs},
                                               {"per_offset", !how_.offsets         ? 0
                                                              : offsets.size() == 1 ? matrices
                                                                                    : per_batch},
                                               {"offset", how_.offset},
                                               {"scale", how_.scale},
                                               {"log2_base", how_.log2_base}}};
    const int64_t chunks = ceil_div(how_.pairs, each) + ceil_div(width - 2 * how_.pairs, each);
    const kernel::Size3 grid{array::grid_axis(chunks, "rope"), array::grid_axis(positions, "rope"),
                             array::grid_axis(matrices / heads, "rope")};
    encoder.launch(rope_kernel(), {.inputs = std::array{x, freqs, offsets},
                                   .outputs = {&out, 1},
                                   .grid = grid,
                                   .threadgroup = array::group_of(encoder, grid),
                                   .constants = constants,
                                   .params = params,
                                   .work_per_thread = static_cast<uint32_t>(each * (32 + heads))});
  }

 private:
  How how_;
};

}  // namespace

namespace fast {

Array rope(const Array& x, int64_t dims, const Rope& how, const Term& offset, const On& on) {
  if (x.ndim() < 3 || !is_floating(x.dtype())) {
    throw UsageError(fmt::format(
        "rope: x is {} of shape {}; it must be an array of floats with three axes at least",
        to_string(x.dtype()), to_string(x.shape())));
  }
  if (dims < 2 || dims % 2 != 0 || dims > x.shape(-1)) {
    throw UsageError(
        fmt::format("rope: {} elements of rows of {} cannot be turned in pairs; give an even "
                    "number from 2 to the length of the last axis",
                    dims, x.shape(-1)));
  }
  RopeOperation::How of{.pairs = dims / 2,
                        .traditional = how.traditional,
                        .freqs = how.freqs.has_value(),
                        .offsets = offset.kind() == Term::Kind::array,
                        .scale = how.scale,
                        .log2_base = std::log2(how.base),
                        .offset = 0};
  std::vector<Array> inputs{x};
  if (how.freqs) {
    if (how.freqs->shape() != Shape{of.pairs}) {
      throw UsageError(
          fmt::format("rope: freqs of shape {} for {} pairs; it must have one axis of that length",
                      to_string(how.freqs->shape()), of.pairs));
    }
    inputs.push_back(*how.freqs);
  }
  if (of.offsets) {
    const Array& given = offset.array();
    if (!is_integer(given.dtype()) || (given.size() != 1 && given.shape() != Shape{x.shape(0)})) {
      throw UsageError(fmt::format(
          "rope: the offset is {} of shape {}; give an integer, or {} along one axis, one for each "
          "x[i]",
          to_string(given.dtype()), to_string(given.shape()), x.shape(0)));
    }
    inputs.push_back(reshape(given, {given.size()}, on));
  } else if (offset.kind() == Term::Kind::integer) {
    of.offset = offset.integer();
  } else {
    throw UsageError("rope: the offset is no integer; positions are counted in whole numbers");
  }
  return apply(make_ref<const RopeOperation>(of), inputs, {x.shape(), x.dtype()}, on);
}

}  // namespace fast
}  // namespace holdfast
