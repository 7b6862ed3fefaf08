#include "holdfast/creation.h"

#include "holdfast/c/arguments.h"

using namespace holdfast::c;
using holdfast::RandomKey;

hf_status hf_zeros(const int64_t* shape, size_t ndim, hf_dtype dtype, hf_stream* stream,
                   hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::zeros(dims_of(shape, ndim, "shape"), dtype_of(dtype), on_of(stream));
  });
}

hf_status hf_ones(const int64_t* shape, size_t ndim, hf_dtype dtype, hf_stream* stream,
                  hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::ones(dims_of(shape, ndim, "shape"), dtype_of(dtype), on_of(stream));
  });
}

hf_status hf_full(const int64_t* shape, size_t ndim, double value, hf_dtype dtype,
                  hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::full(dims_of(shape, ndim, "shape"), value, dtype_of(dtype), on_of(stream));
  });
}

hf_status hf_arange(double start, double stop, double step, hf_dtype dtype, hf_stream* stream,
                    hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::arange(start, stop, step, dtype_of(dtype), on_of(stream));
  });
}

hf_status hf_linspace(double start, double stop, int64_t count, int32_t endpoint, hf_dtype dtype,
                      hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    return holdfast::linspace(start, stop, count, dtype_of(dtype), endpoint != 0, on_of(stream));
  });
}

hf_status hf_eye(int64_t n, hf_dtype dtype, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array,
                    [&] { return holdfast::eye(n, dtype_of(dtype), on_of(stream)); });
}

hf_status hf_tril(hf_array* a, int64_t k, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array,
                    [&] { return holdfast::tril(value_of(a, "a"), k, on_of(stream)); });
}

hf_status hf_triu(hf_array* a, int64_t k, hf_stream* stream, hf_array** array) {
  return give_array(__func__, array,
                    [&] { return holdfast::triu(value_of(a, "a"), k, on_of(stream)); });
}

hf_status hf_random_uniform(const int64_t* shape, size_t ndim, hf_dtype dtype, const uint64_t* key,
                            hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    const auto dims = dims_of(shape, ndim, "shape");
    if (key == nullptr) return holdfast::random_uniform(dims, dtype_of(dtype), on_of(stream));
    return holdfast::random_uniform(dims, dtype_of(dtype), RandomKey{*key}, on_of(stream));
  });
}

hf_status hf_random_normal(const int64_t* shape, size_t ndim, hf_dtype dtype, const uint64_t* key,
                           hf_stream* stream, hf_array** array) {
  return give_array(__func__, array, [&] {
    const auto dims = dims_of(shape, ndim, "shape");
    if (key == nullptr) return holdfast::random_normal(dims, dtype_of(dtype), on_of(stream));
    return holdfast::random_normal(dims, dtype_of(dtype), RandomKey{*key}, on_of(stream));
  });
}

hf_status hf_random_next_key(uint64_t* key) {
  return call(__func__, [&] {
    needed(key, "key");
    *key = holdfast::next_random_key().value;
  });
}

hf_status hf_random_seed(uint64_t seed) {
  return call(__func__, [&] { holdfast::random_seed(seed); });
}

hf_status hf_random_split(uint64_t key, uint64_t i, uint64_t* split) {
  return call(__func__, [&] { needed(split, "split") = RandomKey{key}.split(i).value; });
}
