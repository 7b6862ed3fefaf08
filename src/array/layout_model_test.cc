#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "holdfast/array/layouts.h"
#include "holdfast/base/error.h"

namespace holdfast::array {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

// From low to high - 1, all alike from the first case on.
template <typename T>
T any(T low, T high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<T>(low, high));
}
bool maybe() { return any(0, 2) == 1; }

// Arrays as nobody would build them: for each index in row-major order, the place of its element.
struct Model {
  std::vector<int64_t> shape;
  std::vector<int64_t> places;

  static size_t count(const std::vector<int64_t>& shape) {
    int64_t product = 1;
    for (const int64_t length : shape) product *= length;
    return static_cast<size_t>(product);
  }
  static std::vector<int64_t> index_of(size_t linear, const std::vector<int64_t>& shape) {
    std::vector<int64_t> index(shape.size());
    auto rest = static_cast<int64_t>(linear);
    for (size_t i = shape.size(); i-- > 0;) {
      index[i] = rest % shape[i];
      rest /= shape[i];
    }
    return index;
  }
  int64_t at(const std::vector<int64_t>& index) const {
    int64_t linear = 0;
    for (size_t i = 0; i < shape.size(); ++i) linear = linear * shape[i] + index[i];
    return places[static_cast<size_t>(linear)];
  }
  // Another array whose element at an index is mine at from(index).
  template <typename From>
  Model gather(std::vector<int64_t> to_shape, const From& from) const {
    Model result{std::move(to_shape), {}};
    for (size_t i = 0; i < count(result.shape); ++i) {
      result.places.push_back(at(from(index_of(i, result.shape))));
    }
    return result;
  }
  friend bool operator==(const Model&, const Model&) = default;
};

void showValue(const Model& model, std::ostream& out) {  // NOLINT: rapidcheck's name
  out << ::testing::PrintToString(model.shape) << " at " << ::testing::PrintToString(model.places);
}

Model model_of(const Layout& layout) {
  Model model{{layout.shape.begin(), layout.shape.end()}, {}};
  for (size_t i = 0; i < Model::count(model.shape); ++i) {
    const std::vector<int64_t> index = Model::index_of(i, model.shape);
    model.places.push_back(
        std::inner_product(index.begin(), index.end(), layout.strides.begin(), layout.offset));
  }
  return model;
}

Dims any_dims(int64_t low, int64_t high) {
  Dims dims = Dims::filled(any<size_t>(0, 4), 0);
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = any(low, high);
  return dims;
}

int64_t any_position() {
  if (any(0, 12) == 0) return *rc::gen::element(kLowest, kLowest + 1, kHighest);
  return any<int64_t>(-7, 8);
}

std::vector<Slice> any_slices(const Model& model) {
  std::vector<Slice> slices(any<size_t>(0, model.shape.size() + 1));
  for (Slice& slice : slices) {
    if (any(0, 3) == 0) slice.start = any_position();
    if (any(0, 3) == 0) slice.stop = any_position();
    do {
      slice.step = maybe() ? any<int64_t>(-3, 4) : any_position();
    } while (slice.step == 0);
  }
  return slices;
}

// The positions that Python's range(length)[start:stop:step] has.
std::vector<int64_t> positions(const Slice& slice, int64_t length) {
  __extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using): no extension there
  const auto from_end = [&](int64_t at) { return Wide{at} + (at < 0 ? length : 0); };
  std::vector<int64_t> result;
  if (slice.step > 0) {
    const Wide stop = slice.stop ? from_end(*slice.stop) : Wide{length};
    const Wide start = slice.start ? std::max<Wide>(from_end(*slice.start), 0) : 0;
    for (Wide i = start; i < stop && i < length; i += slice.step) {
      result.push_back(static_cast<int64_t>(i));
    }
  } else {
    const Wide stop = slice.stop ? from_end(*slice.stop) : -1;
    const Wide start =
        slice.start ? std::min<Wide>(from_end(*slice.start), length - 1) : Wide{length - 1};
    for (Wide i = start; i > stop && i >= 0; i += slice.step) {
      result.push_back(static_cast<int64_t>(i));
    }
  }
  return result;
}

Model sliced(const Model& model, const std::vector<Slice>& slices) {
  std::vector<std::vector<int64_t>> chosen;
  std::vector<int64_t> shape;
  for (size_t i = 0; i < model.shape.size(); ++i) {
    chosen.push_back(positions(i < slices.size() ? slices[i] : Slice{}, model.shape[i]));
    shape.push_back(static_cast<int64_t>(chosen.back().size()));
  }
  return model.gather(shape, [&](std::vector<int64_t> index) {
    for (size_t i = 0; i < index.size(); ++i) index[i] = chosen[i][static_cast<size_t>(index[i])];
    return index;
  });
}

// The axes of a rank in any order, some of them counted from the end.
std::vector<int64_t> any_permutation(size_t rank) {
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  for (size_t i = 0; i + 1 < rank; ++i) std::swap(axes[i], axes[any(i, rank)]);
  for (int64_t& axis : axes) {
    if (maybe()) axis -= static_cast<int64_t>(rank);
  }
  return axes;
}

Model transposed(const Model& model, std::vector<int64_t> axes) {
  const auto rank = static_cast<int64_t>(model.shape.size());
  std::vector<int64_t> shape;
  for (int64_t& axis : axes) {
    if (axis < 0) axis += rank;
    shape.push_back(model.shape[static_cast<size_t>(axis)]);
  }
  return model.gather(shape, [&](const std::vector<int64_t>& index) {
    std::vector<int64_t> from(index.size());
    for (size_t i = 0; i < index.size(); ++i) from[static_cast<size_t>(axes[i])] = index[i];
    return from;
  });
}

std::vector<int64_t> any_stretch(const Model& model) {
  std::vector<int64_t> shape = model.shape;
  for (int64_t& length : shape) {
    if (length == 1) length = any<int64_t>(0, 4);
  }
  const size_t more = any<size_t>(0, 2);
  if (model.shape.size() < 5) shape.insert(shape.begin(), more, any<int64_t>(1, 3));
  return shape;
}

Model stretched(const Model& model, const std::vector<int64_t>& shape) {
  const auto more = static_cast<std::ptrdiff_t>(shape.size() - model.shape.size());
  return model.gather(shape, [&](std::vector<int64_t> index) {
    index.erase(index.begin(), index.begin() + more);
    for (size_t i = 0; i < index.size(); ++i) {
      if (model.shape[i] == 1) index[i] = 0;
    }
    return index;
  });
}

struct Both {
  Layout layout;
  Model model;
};

// What any few views make of a row-contiguous array.
Both any_views() {
  Shape shape = Shape::filled(any<size_t>(0, 5), 1);
  for (size_t i = 0; i < shape.size(); ++i) {
    shape[i] = any(0, 30) == 0 ? 0 : *rc::gen::element<int64_t>(1, 2, 3, 4, 6);
  }
  Both both{Layout::row_contiguous(shape), {}};
  both.model = model_of(both.layout);
  const int steps = any(0, 4);
  for (int i = 0; i < steps; ++i) {
    switch (any(0, 3)) {
      case 0: {
        const std::vector<Slice> slices = any_slices(both.model);
        both = {slice(both.layout, slices), sliced(both.model, slices)};
        break;
      }
      case 1: {
        const std::vector<int64_t> axes = any_permutation(both.model.shape.size());
        both = {transpose(both.layout, axes), transposed(both.model, axes)};
        break;
      }
      default: {
        const std::vector<int64_t> to = any_stretch(both.model);
        both = {broadcast_to(both.layout, Shape(to)), stretched(both.model, to)};
      }
    }
  }
  return both;
}

RC_GTEST_PROP(Layout, any_slices_transpositions_and_stretches_show_what_naive_indexing_shows, ()) {
  const Both both = any_views();
  RC_ASSERT(model_of(both.layout) == both.model);
}

RC_GTEST_PROP(Layout, reach_is_the_first_and_the_last_place, ()) {
  const Both both = any_views();
  const std::vector<int64_t>& places = both.model.places;
  const Reach all = reach(both.layout);
  if (places.empty()) {
    RC_ASSERT(all == (Reach{0, -1}));
  } else {
    RC_ASSERT(all == (Reach{std::ranges::min(places), std::ranges::max(places)}));
  }
}

RC_GTEST_PROP(Layout, is_row_contiguous_exactly_where_places_follow_each_other, ()) {
  const Both both = any_views();
  bool follow = true;
  for (size_t i = 1; i < both.model.places.size(); ++i) {
    follow &= both.model.places[i] == both.model.places[i - 1] + 1;
  }
  RC_ASSERT(both.layout.is_row_contiguous() == follow);
  if (follow) RC_ASSERT(!both.layout.has_negative_strides());
}

RC_GTEST_PROP(Layout, expand_dims_and_squeeze_are_inverse_and_move_nothing, ()) {
  const Both both = any_views();
  const size_t more = any<size_t>(0, 3);
  std::vector<int64_t> axes = any_permutation(both.model.shape.size() + more);
  axes.resize(more);
  const Layout wide = expand_dims(both.layout, axes);
  RC_ASSERT(model_of(wide).places == both.model.places);
  for (const int64_t axis : axes) {
    const auto rank = static_cast<int64_t>(wide.shape.size());
    RC_ASSERT(wide.shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)] == 1);
  }
  if (both.layout.is_row_contiguous()) {
    RC_ASSERT(wide.strides == Layout::row_contiguous(wide.shape).strides ||
              both.layout.strides != Layout::row_contiguous(both.layout.shape).strides);
  }
  if (more > 0) RC_ASSERT(squeeze(wide, axes) == both.layout);
  const Layout narrow = squeeze(wide, {});
  RC_ASSERT(std::ranges::find(narrow.shape, 1) == narrow.shape.end());
  RC_ASSERT(model_of(narrow).places == both.model.places);
}

// A shape of as many elements, by splitting their number into a few factors.
Shape any_factors(size_t count) {
  std::vector<int64_t> shape;
  auto rest = static_cast<int64_t>(count);
  while (shape.size() < 5 && (rest > 1 || any(0, 3) == 0)) {
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= rest; ++d) {
      if (rest % d == 0) divisors.push_back(d);
    }
    shape.push_back(*rc::gen::elementOf(divisors));
    rest /= shape.back();
  }
  if (rest != 1) shape.push_back(rest);
  for (size_t i = 0; i + 1 < shape.size(); ++i) {
    std::swap(shape[i], shape[any(i, shape.size())]);
  }
  return Shape(shape);
}

// Strides of a view are decided by its first few places: the only ones that can be right.
bool some_view_shows(const std::vector<int64_t>& places, const Shape& shape) {
  if (places.empty()) return true;
  Layout only{shape, Strides::filled(shape.size(), 0), places[0]};
  size_t block = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] > 1) only.strides[i] = places[block] - places[0];
    block *= static_cast<size_t>(shape[i]);
  }
  return model_of(only).places == places;
}

RC_GTEST_PROP(Layout, reshape_finds_a_view_exactly_where_one_exists, ()) {
  const Both both = any_views();
  const Shape shape = any_factors(both.model.places.size());
  const std::optional<Layout> view = reshape(both.layout, shape);
  const bool exists = some_view_shows(both.model.places, shape);
  RC_CLASSIFY(exists && !both.layout.is_row_contiguous());
  RC_CLASSIFY(!exists);
  RC_ASSERT(view.has_value() == exists);
  if (view) {
    RC_ASSERT(view->shape == shape);
    RC_ASSERT(model_of(*view).places == both.model.places);
  }
}

RC_GTEST_PROP(Layout, reshape_fills_in_the_open_length, ()) {
  const Both both = any_views();
  RC_PRE(!both.model.places.empty());
  const Shape shape = any_factors(both.model.places.size());
  RC_PRE(!shape.empty());
  Shape open = shape;
  open[any<size_t>(0, shape.size())] = -1;
  RC_ASSERT(resolve_reshape(both.layout.shape, open) == shape);
  RC_ASSERT(resolve_reshape(both.layout.shape, shape) == shape);
}

RC_GTEST_PROP(Layout, collapse_keeps_the_order_of_all_and_leaves_nothing_to_join, ()) {
  std::vector<Layout> layouts{any_views().layout};
  const Shape shape = layouts[0].shape;
  // Others of that shape: row-contiguous, or broadcast from fewer axes.
  if (maybe()) layouts.push_back(Layout::row_contiguous(shape));
  if (maybe()) {
    Shape part = shape;
    for (size_t i = 0; i < part.size(); ++i) {
      if (maybe()) part[i] = 1;
    }
    layouts.push_back(broadcast_to(Layout::row_contiguous(part), shape));
  }
  std::vector<Model> before;
  for (const Layout& layout : layouts) before.push_back(model_of(layout));
  collapse(layouts);

  const Shape joined = layouts[0].shape;
  RC_ASSERT(!joined.empty());
  RC_CLASSIFY(joined.size() > 1);
  for (size_t i = 0; i < layouts.size(); ++i) {
    RC_ASSERT(layouts[i].shape == joined);
    RC_ASSERT(model_of(layouts[i]).places == before[i].places);
  }
  for (size_t i = 0; i + 1 < joined.size(); ++i) {
    RC_ASSERT(joined[i] != 1 && joined[i + 1] != 1);
    RC_ASSERT(!std::ranges::all_of(layouts, [&](const Layout& layout) {
      return layout.strides[i] == layout.strides[i + 1] * joined[i + 1];
    }));
  }
}

RC_GTEST_PROP(Layout, as_strided_takes_exactly_what_lies_in_the_memory, ()) {
  const Shape shape = any_dims(1, 4);
  Strides strides = Strides::filled(shape.size(), 0);
  for (size_t i = 0; i < strides.size(); ++i) strides[i] = any<int64_t>(-5, 6);
  const int64_t offset = any<int64_t>(-2, 12);
  const int64_t size = any<int64_t>(0, 20);
  const std::vector<int64_t> places = model_of({shape, strides, offset}).places;
  const bool inside = std::ranges::all_of(places, [&](int64_t p) { return p >= 0 && p < size; });
  RC_CLASSIFY(inside);
  if (inside) {
    RC_ASSERT(model_of(as_strided(shape, strides, offset, size)).places == places);
  } else {
    RC_ASSERT_THROWS_AS(as_strided(shape, strides, offset, size), UsageError);
  }
}

RC_GTEST_PROP(Layout, broadcast_shapes_is_the_shape_that_both_stretch_to, ()) {
  const Shape a = any_dims(0, 4);
  const Shape b = any_dims(0, 4);
  std::optional<Shape> both;
  try {
    both = broadcast_shapes(a, b);
  } catch (const UsageError&) {
    // Some pair of lengths must be the reason.
  }
  bool fit = true;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const int64_t x = a[a.size() - 1 - i];
    const int64_t y = b[b.size() - 1 - i];
    fit &= x == y || x == 1 || y == 1;
  }
  RC_ASSERT(both.has_value() == fit);
  if (!both) return;
  RC_ASSERT(*both == broadcast_shapes(b, a));
  RC_ASSERT(both->size() == std::max(a.size(), b.size()));
  RC_ASSERT(broadcast_to(Layout::row_contiguous(a), *both).shape == *both);
  RC_ASSERT(broadcast_to(Layout::row_contiguous(b), *both).shape == *both);
}

}  // namespace
}  // namespace holdfast::array
