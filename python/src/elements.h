#pragma once

#include <utility>

#include "holdfast/dtypes.h"

namespace holdfast::python {

// Calls f.template operator()<T>() with the C++ type of the dtype's elements.
template <typename F>
decltype(auto) with_element_type(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::bool_: return std::forward<F>(f).template operator()<bool>();
    case Dtype::int8: return std::forward<F>(f).template operator()<int8_t>();
    case Dtype::uint8: return std::forward<F>(f).template operator()<uint8_t>();
    case Dtype::int16: return std::forward<F>(f).template operator()<int16_t>();
    case Dtype::uint16: return std::forward<F>(f).template operator()<uint16_t>();
    case Dtype::int32: return std::forward<F>(f).template operator()<int32_t>();
    case Dtype::uint32: return std::forward<F>(f).template operator()<uint32_t>();
    case Dtype::int64: return std::forward<F>(f).template operator()<int64_t>();
    case Dtype::uint64: return std::forward<F>(f).template operator()<uint64_t>();
    case Dtype::float16: return std::forward<F>(f).template operator()<Float16>();
    case Dtype::bfloat16: return std::forward<F>(f).template operator()<BFloat16>();
    case Dtype::float32: return std::forward<F>(f).template operator()<float>();
    case Dtype::float64: break;
  }
  return std::forward<F>(f).template operator()<double>();
}

}  // namespace holdfast::python
