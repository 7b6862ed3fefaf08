#pragma once

#include "holdfast/array.h"
#include "holdfast/kernel/signature.h"

#pragma GCC visibility push(default)

namespace holdfast {

// Lazy: nothing is computed until it is needed. UsageError for a shape with a negative length, and
// for a value that the dtype cannot represent (a fraction in an integer dtype, a negative number in
// an unsigned one).
Array zeros(const Shape& shape, Dtype dtype = float32, const On& on = {});
Array ones(const Shape& shape, Dtype dtype = float32, const On& on = {});
Array full(const Shape& shape, double value, Dtype dtype = float32, const On& on = {});
Array zeros_like(const Array& array, const On& on = {});
Array ones_like(const Array& array, const On& on = {});
// start, start + step, ... below stop (above, for a negative step).
Array arange(double start, double stop, double step = 1, Dtype dtype = float32, const On& on = {});
Array arange(int64_t stop, Dtype dtype = int32, const On& on = {});
// `count` numbers at equal distances from start to stop, which is the last one, or (without
// `endpoint`) the one after it. Computed in float64 and rounded once; integers are rounded down.
Array linspace(double start, double stop, int64_t count = 50, Dtype dtype = float32,
               bool endpoint = true, const On& on = {});
// The identity matrix.
Array eye(int64_t n, Dtype dtype = float32, const On& on = {});
// Matrices with zeros above (tril) or below (triu) a diagonal: the main one, or that `k` places
// above it. The last two axes are those of the matrices.
Array tril(const Array& array, int64_t k = 0, const On& on = {});
Array triu(const Array& array, int64_t k = 0, const On& on = {});

// Random numbers are a function of key and position alone: the same on every device, whatever the
// order of evaluation. float16, bfloat16, float32; UsageError for other dtypes.
struct RandomKey {
  uint64_t value = 0;
  // Keys for distinct `i` are independent of this key and of each other.
  RandomKey split(uint64_t i) const noexcept;
};
// In [0, 1).
Array random_uniform(const Shape& shape, Dtype dtype, RandomKey key, const On& on = {});
// Mean 0, standard deviation 1.
Array random_normal(const Shape& shape, Dtype dtype, RandomKey key, const On& on = {});
// The next key of the process. After random_seed(), the same sequence of calls gets the same keys.
RandomKey next_random_key();
void random_seed(uint64_t seed);
Array random_uniform(const Shape& shape, Dtype dtype = float32, const On& on = {});
Array random_normal(const Shape& shape, Dtype dtype = float32, const On& on = {});

}  // namespace holdfast

#pragma GCC visibility pop
