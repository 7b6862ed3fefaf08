// Elementwise operations and copies at the edges of what threads move at once: every length and
// offset near a pack's, rows that begin anywhere, squares that do not fill a tile.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "holdfast/array/ops/both_styles_test.h"
#include "holdfast/creation.h"
#include "holdfast/ops.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

class Packs : public BothStyles {};
INSTANTIATE_TEST_SUITE_P(, Packs, both_styles(), style_name);

// 0, 1, 2, ... below 2^11, which every float has.
template <class T>
Array counted(const Shape& shape, Dtype dtype) {
  std::vector<T> values(static_cast<size_t>(elements(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(static_cast<int>(i % 2039));
  return astype(Array(values, shape), dtype);
}
Array counted(const Shape& shape, Dtype dtype = float32) { return counted<float>(shape, dtype); }

std::vector<float> floats(const Array& array) {
  return astype(contiguous(array), float32).to_vector<float>();
}

// What a function of the places in a layout gives, in row-major order.
std::vector<float> each(const Array& array, const std::function<float(float)>& of) {
  const Layout layout = array.layout();
  std::vector<float> values;
  Dims at = Dims::filled(layout.shape.size(), 0);
  for (int64_t i = 0; i < elements(layout.shape); ++i) {
    int64_t place = layout.offset;
    for (size_t d = 0; d < at.size(); ++d) place += at[d] * layout.strides[d];
    values.push_back(of(static_cast<float>(place % 2039)));
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < layout.shape[d]) break;
      at[d] = 0;
    }
  }
  return values;
}

TEST_P(Packs, an_operation_of_any_length_computes_each_element_once) {
  for (const Dtype dtype : {float32, float16, bfloat16, int8}) {
    const Array long_one = dtype == int8 ? counted({50}, dtype) : counted({1100}, dtype);
    for (int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 50, 1023, 1025}) {
      n = std::min(n, long_one.size());
      const Array x = slice(long_one, {{.stop = n}});
      EXPECT_EQ(floats(x + x),
                each(x,
                     [&](float v) {
                       return dtype == bfloat16 ? float(BFloat16(2 * float(BFloat16(v)))) : 2 * v;
                     }))
          << n << " of " << to_string(dtype);
    }
  }
}

TEST_P(Packs, operands_that_begin_anywhere_are_read_where_they_are) {
  for (const Dtype dtype : {float32, float16, int64}) {
    const Array all = counted({1100}, dtype);
    for (const int64_t begin : {0, 1, 2, 3, 4, 5, 8}) {
      const Array x = slice(all, {{.start = begin, .stop = 1000 + begin}});
      const Array y = slice(all, {{.start = 7, .stop = 1007}});
      const std::vector<float> ys = each(y, [](float v) { return v; });
      std::vector<float> wanted = each(x, [](float v) { return v; });
      for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = std::max(wanted[i], ys[i]);
      EXPECT_EQ(floats(maximum(x, y)), wanted) << "from " << begin << ", " << to_string(dtype);
    }
  }
}

TEST_P(Packs, rows_columns_and_single_elements_are_repeated) {
  for (const Dtype dtype : {float32, float16}) {
    for (const int64_t wide : {1, 3, 4, 8, 9, 260, 1030}) {
      const Array x = counted({2, 3, wide + 5}, dtype);
      // Not contiguous, and rows begin anywhere.
      const Array part = slice(x, {{}, {}, {.start = 2, .stop = 2 + wide}});
      const Array row = counted({wide}, dtype);
      const Array column = counted({3, 1}, dtype);
      const Array one = index(counted({5}, dtype), 3);
      std::vector<float> wanted = each(part, [](float v) { return v; });
      for (size_t i = 0; i < wanted.size(); ++i) {
        const auto k = static_cast<int64_t>(i) % wide;
        const auto r = static_cast<int64_t>(i) / wide % 3;
        wanted[i] = wanted[i] > static_cast<float>(r) ? static_cast<float>(k) + 3 : 0;
      }
      EXPECT_EQ(floats(where(part > column, row + one, 0.0F)), wanted) << wide;
    }
  }
}

TEST_P(Packs, an_operation_in_place_replaces_every_element) {
  for (const int64_t n : {1, 6, 1021}) {
    const Array base = counted({n});
    Array x = base + 1.0F;
    for (int i = 0; i < 3; ++i) x = x * 2.0F;
    EXPECT_EQ(x.to_vector<float>(), each(base, [](float v) { return (v + 1) * 8; }));
  }
}

TEST_P(Packs, strided_operands_and_types_of_several_sizes_meet) {
  const Array x = counted({40, 90}, float16);
  const Array y = transpose(counted({90, 40}, int64));
  std::vector<float> wanted = each(y, [](float v) { return v; });
  const std::vector<float> xs = each(x, [](float v) { return v; });
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = wanted[i] > xs[i] ? 1 : 0;
  EXPECT_EQ(floats(astype(y, float32) > x), wanted);
  const Array third = slice(x, {{}, {.step = 3}});
  EXPECT_EQ(floats(third * 2.0F), each(third, [](float v) { return 2 * v; }));
}

TEST_P(Packs, transposed_operands_meet_others_at_every_edge_of_a_square) {
  for (const Dtype dtype : {int8, float16, float32, int64}) {
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>(15, 40), {16, 16}, {31, 33}, {32, 64}, {65, 47}, {64, 96}}) {
      const Array x = counted({2, columns, rows + 3}, int32) % 63;
      const Array y = counted({2, rows, columns}, int32) % 60;
      const Array column = counted({rows, 1}, int32);
      const Array turned =
          transpose(slice(astype(x, dtype), {{.step = -1}, {}, {1, rows + 1}}), {0, 2, 1});
      std::vector<float> wanted =
          floats(copy(transpose(slice(x, {{.step = -1}, {}, {1, rows + 1}}), {0, 2, 1})));
      const std::vector<float> ys = floats(y);
      for (size_t i = 0; i < wanted.size(); ++i) {
        const auto r = static_cast<int64_t>(i) / columns % rows;
        wanted[i] = wanted[i] > static_cast<float>(r) ? wanted[i] + ys[i] : 1;
      }
      const Array sum = turned + astype(y, dtype);
      const Array more = where(turned > astype(column, dtype), sum, 1);
      EXPECT_EQ(floats(more), wanted) << rows << " x " << columns << ", " << to_string(dtype);
      // Both transposed, and one of them twice.
      EXPECT_EQ(floats(turned * 2 - turned), floats(copy(turned)));
      EXPECT_EQ(floats(where(turned > turned * 0, turned, turned)), floats(copy(turned)));
    }
  }
}

// In place: the other operand's memory takes the sum.
TEST_P(Packs, a_transposed_operand_is_added_in_place) {
  const Array base = counted({70, 90});
  const Array other = counted({90, 70});
  const std::vector<float> a = floats(base);
  const std::vector<float> b = floats(copy(transpose(other)));
  std::vector<float> wanted(a.size());
  for (size_t i = 0; i < a.size(); ++i) wanted[i] = (a[i] + 1 - b[i]) * 2;
  EXPECT_EQ(floats((base + 1.0F - transpose(other)) * 2.0F), wanted);
}

TEST_P(Packs, a_copy_of_rows_has_each_element) {
  for (const Dtype dtype : {uint8, float16, float32, int64}) {
    for (const int64_t wide : {1, 2, 5, 16, 31, 300}) {
      const Array x = counted({6, 4, wide + 9}, int32);
      for (const int64_t begin : {0, 1, 8}) {
        const Array part = slice(x, {{.step = -2}, {.step = 3}, {begin, begin + wide}});
        const Array same =
            slice(astype(x % 251, dtype), {{.step = -2}, {.step = 3}, {begin, begin + wide}});
        EXPECT_EQ(floats(copy(same)),
                  each(part, [](float v) { return static_cast<float>(static_cast<int>(v) % 251); }))
            << wide << " from " << begin << ", " << to_string(dtype);
      }
    }
  }
}

TEST_P(Packs, rows_that_begin_anywhere_on_both_sides_are_copied_whole) {
  constexpr int64_t kColumns = 96;
  for (const Dtype dtype : {uint8, float16, float32, int64}) {
    const Array x = astype(counted({3, kColumns}, int32) % 251, dtype);
    const std::vector<float> elements = floats(x);
    for (const int64_t from : {0, 1, 3, 7, 15}) {
      for (const int64_t to : {0, 1, 2, 5, 8, 13}) {
        for (const int64_t wide : {1, 7, 16, 33, 67}) {
          const Array y = slice_update(full({3, kColumns}, 255, dtype),
                                       slice(x, {{}, {from, from + wide}}), {{}, {to, to + wide}});
          std::vector<float> wanted(3 * kColumns, 255);
          for (int64_t i = 0; i < 3 * wide; ++i) {
            const int64_t row = i / wide * kColumns;
            wanted[row + to + i % wide] = elements[row + from + i % wide];
          }
          EXPECT_EQ(floats(y), wanted)
              << wide << " from " << from << " to " << to << ", " << to_string(dtype);
        }
      }
    }
  }
}

TEST_P(Packs, a_transposed_copy_has_each_element) {
  for (const Dtype dtype : {uint8, float16, float32, int64}) {
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>(1, 9), {8, 8}, {9, 31}, {33, 64}, {65, 130}, {128, 96}}) {
      const Array x = astype(counted({2, rows, columns + 3}, int32) % 251, dtype);
      const Array turned = transpose(slice(x, {{}, {}, {1, columns + 1}}), {0, 2, 1});
      EXPECT_EQ(floats(copy(turned)),
                each(turned, [](float v) { return static_cast<float>(static_cast<int>(v) % 251); }))
          << rows << " x " << columns << ", " << to_string(dtype);
    }
  }
}

TEST_P(Packs, a_transposed_copy_keeps_other_axes_apart) {
  const Array x = counted({3, 40, 2, 50});
  for (const auto& axes :
       {std::vector<int64_t>{3, 2, 1, 0}, {0, 3, 2, 1}, {2, 3, 0, 1}, {1, 3, 2, 0}}) {
    const Array turned = transpose(slice(x, {{.step = -1}, {}, {.step = -1}, {}}), axes);
    EXPECT_EQ(floats(copy(turned)), each(turned, [](float v) { return v; }));
    // Written through such a layout, too.
    const Array into = slice_update(zeros({3, 41, 2, 50}), x, {{}, {1, 41}});
    EXPECT_EQ(floats(slice(into, {{}, {1, 41}})), floats(x));
  }
}

}  // namespace
}  // namespace holdfast
