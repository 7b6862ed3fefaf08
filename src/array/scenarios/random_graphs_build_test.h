#pragma once

#include <utility>
#include <vector>

#include "holdfast/array/scenarios/random_graphs_kernels_test.h"
#include "holdfast/creation.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

// What a step builds out of the arrays that it is given.
namespace holdfast::random_graphs {

inline Array updated_array(const Step& step, std::vector<Array> in) {
  if (step.flag) return slice_update(std::move(in[0]), in[1], step.slices);
  if (step.axes.empty()) {
    return slice_update(std::move(in[0]), full({}, step.value, step.shows[0].dtype), step.slices);
  }
  const Array backwards = slice(in[0], std::vector<Slice>(in[0].ndim(), Slice{.step = -1}));
  return slice_update(std::move(in[0]), backwards, step.slices);
}

inline Array node_or_view(const Step& step, std::vector<Array> in) {
  const int64_t axis = step.value;
  switch (step.verb) {
    case Verb::full: return full(step.shape, step.value, step.dtype);
    case Verb::arange:
      return arange(step.value, static_cast<double>(step.value + step.shape[0]), 1, step.dtype);
    case Verb::binary: return in[0].dtype() == float32 ? add(in[0], in[1]) : multiply(in[0], in[1]);
    case Verb::number: return multiply(in[0], step.value);
    case Verb::wrap: return remainder(in[0], kWrap);
    case Verb::compare: return astype(less(in[0], step.value), in[0].dtype());
    case Verb::choose: return where(less(in[0], step.value), in[0], step.value + 1);
    case Verb::reduce: {
      const Reduce how{{step.axes.begin(), step.axes.end()}, step.flag};
      return step.value == 0 ? sum(in[0], how) : max(in[0], how);
    }
    case Verb::matmul:
      if (step.flag) return matmul(in[0], in[1]);
      return matmul(in[0], in[0].ndim() == 1 ? in[0] : swap_axes(in[0], -1, -2));
    case Verb::concatenate: return concatenate(in, axis);
    case Verb::take: {
      if (step.flag) {
        const auto length = static_cast<int32_t>(in[0].shape(axis));
        return take(in[0], remainder(in[1], length) - step.offset, axis);
      }
      const std::vector<int32_t> indices(step.axes.begin(), step.axes.end());
      return take(in[0], Array(indices), axis);
    }
    case Verb::copy: return copy(in[0]);
    case Verb::slice: return slice(in[0], step.slices);
    case Verb::transpose: return transpose(in[0], step.axes.span());
    case Verb::reshape: return reshape(in[0], step.shape);
    case Verb::broadcast: return broadcast_to(in[0], step.shape);
    case Verb::squeeze: return squeeze(in[0]);
    case Verb::expand: return expand_dims(in[0], {axis});
    case Verb::strided: return as_strided(in[0], step.shape, step.strides, step.offset);
    case Verb::update: return updated_array(step, std::move(in));
    default: return in[0];  // share
  }
}

// All but what the host brings: uploads and external memory.
inline std::vector<Array> build_step(const Step& step, std::vector<Array> in) {
  if (auto made = call_kernel(step, in); !made.empty()) return made;
  return {node_or_view(step, std::move(in))};
}

}  // namespace holdfast::random_graphs
