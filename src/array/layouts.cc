#include "holdfast/array/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "holdfast/base/error.h"

namespace holdfast::array {
namespace {

bool has_none(const Shape& shape) noexcept { return std::ranges::find(shape, 0) != shape.end(); }

// What the functions of this file promise of the layouts they return.
Layout settled(Layout layout) {
  if (has_none(layout.shape)) return Layout::row_contiguous(layout.shape);
  for (size_t i = 0; i < layout.shape.size(); ++i) {
    if (layout.shape[i] == 1 && layout.strides[i] < 0) layout.strides[i] = 0;
  }
  return layout;
}

void add_axis(Layout& layout, int64_t length, int64_t stride) {
  layout.shape.push_back(length);
  layout.strides.push_back(stride);
}

std::string counted(size_t count, const char* thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string named(std::span<const int64_t> axes) {
  return fmt::format("({})", fmt::join(axes, ", "));
}

// A slice of an axis of that length: its first position, and how many there are.
struct Part {
  int64_t start = 0;
  int64_t length = 0;
};
Part part_of(const Slice& slice, int64_t length) {
  const bool forward = slice.step > 0;
  const int64_t low = forward ? 0 : -1;
  const int64_t high = forward ? length : length - 1;
  const auto bounded = [&](const std::optional<int64_t>& at, int64_t missing) {
    if (!at) return missing;
    return std::clamp(*at < 0 ? *at + length : *at, low, high);
  };
  const int64_t start = bounded(slice.start, forward ? low : high);
  const int64_t stop = bounded(slice.stop, forward ? high : low);
  const int64_t distance = forward ? stop - start : start - stop;
  if (distance <= 0) return {start, 0};
  // The negation of the lowest step does not exist in int64_t.
  const uint64_t step =
      forward ? static_cast<uint64_t>(slice.step) : -static_cast<uint64_t>(slice.step);
  return {start, static_cast<int64_t>((static_cast<uint64_t>(distance) - 1) / step + 1)};
}

}  // namespace

Reach reach(const Layout& layout) {
  if (elements(layout.shape) == 0) return {};
  Reach result{layout.offset, layout.offset};
  for (size_t i = 0; i < layout.shape.size(); ++i) {
    const int64_t stride = layout.strides[i];
    int64_t& end = stride < 0 ? result.first : result.last;
    int64_t distance = 0;
    if (__builtin_mul_overflow(layout.shape[i] - 1, stride, &distance) ||
        __builtin_add_overflow(end, distance, &end)) {
      throw UsageError(fmt::format(
          "the elements of shape {} with strides {} from offset {} lie farther apart than any "
          "memory reaches; check the strides",
          to_string(layout.shape), to_string(layout.strides), layout.offset));
    }
  }
  return result;
}

size_t normal_axis(int64_t axis, size_t rank, const char* what) {
  const auto count = static_cast<int64_t>(rank);
  if (axis < -count || axis >= count) {
    const std::string range =
        rank == 0 ? "none can be named" : fmt::format("axes go from {} to {}", -count, count - 1);
    throw UsageError(fmt::format("{}: there is no axis {} among {}; {}", what, axis,
                                 counted(rank, "dimension"), range));
  }
  return static_cast<size_t>(axis < 0 ? axis + count : axis);
}

Dims normal_axes(std::span<const int64_t> axes, size_t rank, const char* what) {
  std::array<bool, Dims::kMaxDims> chosen{};
  for (const int64_t axis : axes) {
    bool& mine = chosen.at(normal_axis(axis, rank, what));
    if (mine) {
      throw UsageError(fmt::format("{}: axis {} is named twice; name each axis once", what, axis));
    }
    mine = true;
  }
  Dims result;
  for (size_t i = 0; i < rank; ++i) {
    if (axes.empty() || chosen.at(i)) result.push_back(static_cast<int64_t>(i));
  }
  return result;
}

Layout slice(const Layout& layout, std::span<const Slice> slices) {
  const size_t rank = layout.shape.size();
  if (slices.size() > rank) {
    throw UsageError(
        fmt::format("slice: {} given for an array of shape {}; give at most one for "
                    "each axis",
                    counted(slices.size(), "slice"), to_string(layout.shape)));
  }
  const bool none = has_none(layout.shape);
  Layout result = layout;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].step == 0) {
      throw UsageError(
          fmt::format("slice: the step of axis {} is zero; use 1 for every element, or "
                      "-1 for the reverse order",
                      i));
    }
    const Part part = part_of(slices[i], layout.shape[i]);
    result.shape[i] = part.length;
    if (none || part.length == 0) continue;
    result.offset += part.start * layout.strides[i];
    // Between fewer than two elements no step is taken, however large.
    if (part.length > 1) result.strides[i] *= slices[i].step;
  }
  return settled(result);
}

Layout slice_along(const Layout& layout, size_t axis, const Slice& part) {
  std::array<Slice, Dims::kMaxDims> slices{};
  slices.at(axis) = part;
  return slice(layout, std::span<const Slice>(slices).first(layout.shape.size()));
}

Layout transpose(const Layout& layout, std::span<const int64_t> axes) {
  const size_t rank = layout.shape.size();
  if (!axes.empty() && axes.size() != rank) {
    throw UsageError(
        fmt::format("transpose: the axes {} do not fit an array of shape {}; name each "
                    "of its axes, or none for the reverse order",
                    named(axes), to_string(layout.shape)));
  }
  normal_axes(axes, rank, "transpose");
  Layout result{.offset = layout.offset};
  for (size_t i = 0; i < rank; ++i) {
    const size_t from = axes.empty() ? rank - 1 - i : normal_axis(axes[i], rank, "transpose");
    add_axis(result, layout.shape[from], layout.strides[from]);
  }
  return settled(result);
}

Layout broadcast_to(const Layout& layout, const Shape& shape) {
  const size_t rank = layout.shape.size();
  const auto refuse = [&] {
    throw UsageError(
        fmt::format("broadcast_to: shape {} does not stretch to {}; counted from the "
                    "last, each length must be the same or one",
                    to_string(layout.shape), to_string(shape)));
  };
  elements(shape);
  if (shape.size() < rank) refuse();
  const size_t more = shape.size() - rank;
  Layout result{shape, Strides::filled(shape.size(), 0), layout.offset};
  for (size_t i = 0; i < rank; ++i) {
    if (layout.shape[i] == shape[more + i]) {
      result.strides[more + i] = layout.strides[i];
    } else if (layout.shape[i] != 1) {
      refuse();
    }
  }
  return settled(result);
}

Layout squeeze(const Layout& layout, std::span<const int64_t> axes) {
  const size_t rank = layout.shape.size();
  std::array<bool, Dims::kMaxDims> gone{};
  for (const int64_t axis : normal_axes(axes, rank, "squeeze")) {
    const auto i = static_cast<size_t>(axis);
    gone.at(i) = layout.shape[i] == 1;
    if (!axes.empty() && !gone.at(i)) {
      throw UsageError(
          fmt::format("squeeze: axis {} of shape {} has the length {}; only axes of "
                      "length one can go",
                      axis, to_string(layout.shape), layout.shape[i]));
    }
  }
  Layout result{.offset = layout.offset};
  for (size_t i = 0; i < rank; ++i) {
    if (!gone.at(i)) add_axis(result, layout.shape[i], layout.strides[i]);
  }
  return settled(result);
}

Layout expand_dims(const Layout& layout, std::span<const int64_t> axes) {
  const size_t rank = layout.shape.size() + axes.size();
  Shape shape = Shape::filled(rank, 0);
  if (!axes.empty()) {
    for (const int64_t axis : normal_axes(axes, rank, "expand_dims")) {
      shape[static_cast<size_t>(axis)] = 1;
    }
  }
  // From the last to the first, so that a new axis gets the stride that it has in row-major order.
  Layout result{shape, Strides::filled(rank, 1), layout.offset};
  int64_t next = 1;
  for (size_t i = rank, from = layout.shape.size(); i-- > 0;) {
    const bool is_new = shape[i] == 1;
    if (!is_new) --from;
    result.shape[i] = is_new ? 1 : layout.shape[from];
    result.strides[i] = is_new ? next : layout.strides[from];
    if (__builtin_mul_overflow(result.strides[i], result.shape[i], &next)) next = 1;
  }
  return settled(result);
}

Shape resolve_reshape(const Shape& from, const Shape& to) {
  const int64_t count = elements(from);
  Shape result = to;
  int64_t* open = nullptr;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] != -1) continue;
    if (open != nullptr) {
      throw UsageError(fmt::format("reshape: {} leaves more than one length open; give all but one",
                                   to_string(to)));
    }
    open = &result[i];
    *open = 1;
  }
  const int64_t others = elements(result);
  if (open != nullptr && others > 0) *open = count / others;
  // An open length beside a zero could be anything.
  if ((open != nullptr && others == 0) || elements(result) != count) {
    throw UsageError(
        fmt::format("reshape: shape {} has {}, which do not fit shape {}; change a "
                    "length{}",
                    to_string(from), counted(static_cast<size_t>(count), "element"), to_string(to),
                    open != nullptr ? " that is given" : ""));
  }
  return result;
}

std::optional<Layout> reshape(const Layout& layout, const Shape& shape) {
  if (has_none(layout.shape)) return Layout::row_contiguous(shape);
  // Axes that are walked through as one are joined, as long as they can be; a view exists where
  // each of the joined ones falls into whole new axes.
  Layout joined{.offset = layout.offset};  // from the last axis to the first
  for (size_t i = layout.shape.size(); i-- > 0;) {
    if (layout.shape[i] == 1) continue;
    const size_t last = joined.shape.size() - 1;
    if (!joined.shape.empty() && layout.strides[i] == joined.strides[last] * joined.shape[last]) {
      joined.shape[last] *= layout.shape[i];
    } else {
      add_axis(joined, layout.shape[i], layout.strides[i]);
    }
  }
  Layout result{shape, Strides::filled(shape.size(), 1), layout.offset};
  size_t next = 0;
  int64_t left = 1;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] > 1 && left == 1) {
      left = joined.shape[next];
      stride = joined.strides[next++];
    }
    if (left % shape[i] != 0) return std::nullopt;
    result.strides[i] = stride;
    left /= shape[i];
    stride *= shape[i];
  }
  return settled(result);
}

Layout as_strided(const Shape& shape, const Strides& strides, int64_t offset, int64_t size) {
  if (shape.size() != strides.size()) {
    throw UsageError(
        fmt::format("as_strided: shape {} and strides {} differ in their number of "
                    "dimensions; give one stride for each length",
                    to_string(shape), to_string(strides)));
  }
  const Layout layout{shape, strides, offset};
  const Reach all = reach(layout);
  if (all.first <= all.last && (all.first < 0 || all.last >= size)) {
    throw UsageError(fmt::format(
        "as_strided: shape {} with strides {} from offset {} reaches the elements {} to {} of a "
        "memory of {}; stay inside it",
        to_string(shape), to_string(strides), offset, all.first, all.last,
        counted(static_cast<size_t>(size), "element")));
  }
  return settled(layout);
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  const size_t more = longer.size() - shorter.size();
  Shape result = longer;
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& length = result[more + i];
    if (length == 1) {
      length = shorter[i];
    } else if (shorter[i] != 1 && shorter[i] != length) {
      throw UsageError(
          fmt::format("shapes {} and {} do not fit each other; counted from the last, "
                      "lengths must be the same or one",
                      to_string(a), to_string(b)));
    }
  }
  elements(result);
  return result;
}

void collapse(std::span<Layout> layouts) {
  if (layouts.empty()) return;
  const Shape shape = layouts[0].shape;
  if (has_none(shape)) {
    for (Layout& layout : layouts) layout = {{0}, {1}, layout.offset};
    return;
  }
  std::array<int64_t, Dims::kMaxDims> lengths{};  // from the last axis to the first
  std::array<size_t, Dims::kMaxDims> axes{};      // whose strides they have
  size_t count = 0;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    const bool joins =
        count > 0 && lengths[count - 1] <= kMaxLength / shape[i] &&
        std::ranges::all_of(layouts, [&](const Layout& layout) {
          return layout.strides[i] == layout.strides[axes[count - 1]] * lengths[count - 1];
        });
    if (joins) {
      lengths[count - 1] *= shape[i];
    } else {
      lengths[count] = shape[i];
      axes[count++] = i;
    }
  }
  for (Layout& layout : layouts) {
    Layout result{.offset = layout.offset};
    for (size_t i = count; i-- > 0;) add_axis(result, lengths[i], layout.strides[axes[i]]);
    if (count == 0) add_axis(result, 1, 1);
    layout = result;
  }
}

}  // namespace holdfast::array
