// Operations build nodes, whatever they are made of, and evaluate nothing.

#include <gtest/gtest.h>

#include <vector>

#include "holdfast/creation.h"
#include "holdfast/fast.h"
#include "holdfast/ops.h"
#include "holdfast/scans.h"
#include "holdfast/sorting.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

TEST(Lazy, building_operations_evaluates_nothing) {
  const Array x = ones({2, 3, 4, 8});
  const Array row = ones({8});
  const Array whole = zeros({3, 4}, int32);
  const std::vector<Array> results{argmin(x, 1),
                                   prod(x),
                                   all(x),
                                   var(x, {.axes = {1}}),
                                   std(x),
                                   arctan2(x, row),
                                   isfinite(x),
                                   whole & 3,
                                   left_shift(whole, whole),
                                   cumsum(x),
                                   cumprod(x, 2, {.reverse = true}),
                                   sort(x, 0),
                                   argsort(x),
                                   topk(x, 2),
                                   searchsorted(row, x),
                                   tril(x),
                                   flip(x),
                                   moveaxis(x, 0, 2),
                                   split(x, 2)[1],
                                   meshgrid({row, row})[0],
                                   roll(x, 1),
                                   tile(x, {2, 2}),
                                   repeat(transpose(x), 2),
                                   outer(x, row),
                                   diff(x),
                                   fast::rms_norm(x, row),
                                   fast::layer_norm(x, row, row),
                                   fast::rope(x, 8, {}, slice(whole, {{.stop = 1}, {.stop = 1}})),
                                   fast::scaled_dot_product_attention(x, x, x, 1)};
  for (const Array& result : results) EXPECT_FALSE(result.is_recorded());
  for (const Array& input : {x, row, whole}) EXPECT_FALSE(input.is_recorded());
}

}  // namespace
}  // namespace holdfast
