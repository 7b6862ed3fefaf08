#include "holdfast/c/arguments.h"

#include <fmt/format.h>

#include <bit>
#include <cstdlib>
#include <new>

namespace holdfast::c {

const char* to_string(Kind kind) noexcept {
  switch (kind) {
    case Kind::gone: return "a handle that was released";
    case Kind::array: return "an array";
    case Kind::device: return "a device";
    case Kind::stream: return "a stream";
    case Kind::stream_scope: return "a stream scope";
    case Kind::kernel: return "a kernel";
    case Kind::map: return "a map";
    case Kind::device_list: return "a list of devices";
    case Kind::kernel_times: return "a list of kernel times";
  }
  return "no handle";
}

void raise_null(const char* name) { throw ArgumentError(fmt::format("{} is NULL", name)); }

void raise_other_kind(const char* name, Kind wanted, Kind found) {
  throw ArgumentError(
      fmt::format("{} must be {}, and is {}", name, to_string(wanted), to_string(found)));
}

void raise_code(const char* what, int32_t code) {
  throw ArgumentError(fmt::format("{} is no {}", code, what));
}

void raise_count(size_t count, const char* name) {
  throw ArgumentError(fmt::format("{} cannot have {} entries; check the count", name, count));
}

void raise_struct_size(size_t given, size_t wanted, const char* type) {
  throw ArgumentError(
      fmt::format("struct_size of {} is {}, and must be {} at least; set it to "
                  "sizeof({})",
                  type, given, wanted, type));
}

void raise_later_fields(const char* type) {
  throw UnsupportedError(fmt::format(
      "{} has fields of a later version of Holdfast that are not zero; this library is of version "
      "{} of the C interface",
      type, HF_ABI_VERSION));
}

// The low bytes of a scalar's bits are its element.
static_assert(std::endian::native == std::endian::little);
static_assert(HF_BOOL == static_cast<int>(Dtype::bool_));
static_assert(HF_UINT64 == static_cast<int>(Dtype::uint64));
static_assert(HF_FLOAT16 == static_cast<int>(Dtype::float16));
static_assert(HF_FLOAT64 == static_cast<int>(Dtype::float64) &&
              HF_FLOAT64 + 1 == static_cast<int>(kernel::kDtypes));

Dtype dtype_of(hf_dtype dtype) {
  if (dtype < 0 || dtype >= static_cast<int32_t>(kernel::kDtypes)) raise_code("dtype", dtype);
  return static_cast<Dtype>(dtype);
}

std::string text_of(const hf_text& text, const char* name) {
  const auto bytes = list_of(text.data, text.length, name);
  if (bytes.empty()) return {};
  if (const void* zero = std::memchr(text.data, 0, text.length)) {
    throw ArgumentError(fmt::format("{} has a zero byte at position {}; give its length without it",
                                    name, static_cast<const char*>(zero) - text.data));
  }
  return {text.data, text.length};
}

WaitLimit limit_of(hf_timeout timeout) {
  if (timeout == HF_FOREVER) return {};
  if (timeout < 0) {
    throw ArgumentError(
        fmt::format("a timeout of {} ns; give a positive number, zero or HF_FOREVER", timeout));
  }
  return WaitLimit::after(sync::Duration(timeout));
}

On on_of(hf_stream* stream) { return stream != nullptr ? On(value_of(stream, "stream")) : On(); }

Dims dims_of(const int64_t* values, size_t count, const char* name) {
  return Dims(list_of(values, count, name));
}

std::optional<int64_t> optional_of(const int64_t* value) {
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

Scalar scalar_of(const hf_scalar& scalar) {
  Scalar made;
  made.dtype = dtype_of(scalar.dtype);
  const uint64_t bits = size_of(made.dtype).value * 8;
  made.bits = bits == 64 ? scalar.bits : scalar.bits & ((uint64_t{1} << bits) - 1);
  if (made.dtype == Dtype::bool_) made.bits = made.bits != 0 ? 1 : 0;
  return made;
}

Term term_of(const hf_term& term, const char* name) {
  if (term.array != nullptr) return value_of(term.array, name);
  if (term.number.dtype == -1) raise_null(name);
  const Scalar scalar = scalar_of(term.number);
  const auto two_bytes = static_cast<uint16_t>(scalar.bits);
  switch (scalar.dtype) {
    case Dtype::bool_: return scalar.bits != 0;
    case Dtype::int8: return static_cast<int8_t>(scalar.bits);
    case Dtype::int16: return static_cast<int16_t>(scalar.bits);
    case Dtype::int32: return static_cast<int32_t>(scalar.bits);
    case Dtype::int64: return static_cast<int64_t>(scalar.bits);
    case Dtype::uint8:
    case Dtype::uint16:
    case Dtype::uint32:
    case Dtype::uint64: return scalar.bits;
    case Dtype::float16: {
      Float16 half;
      half.bits = two_bytes;
      return static_cast<float>(half);
    }
    case Dtype::bfloat16: {
      BFloat16 half;
      half.bits = two_bytes;
      return static_cast<float>(half);
    }
    case Dtype::float32: return std::bit_cast<float>(static_cast<uint32_t>(scalar.bits));
    case Dtype::float64: return std::bit_cast<double>(scalar.bits);
  }
  raise_code("dtype", term.number.dtype);
}

std::optional<Array> optional_array(hf_array* array, const char* name) {
  return array != nullptr ? std::optional(value_of(array, name)) : std::nullopt;
}

std::vector<Array> arrays_of(hf_array* const* arrays, size_t count, const char* name) {
  std::vector<Array> made;
  for (hf_array* const array : list_of(arrays, count, name)) {
    made.push_back(value_of(array, fmt::format("{}[{}]", name, made.size()).c_str()));
  }
  return made;
}

std::vector<std::string> texts_of(const hf_text* texts, size_t count, const char* name) {
  std::vector<std::string> made;
  for (const hf_text& text : list_of(texts, count, name)) {
    made.push_back(text_of(text, fmt::format("{}[{}]", name, made.size()).c_str()));
  }
  return made;
}

std::vector<Slice> slices_of(const hf_slice* slices, size_t count) {
  const auto given = [](int64_t at) { return at != HF_NONE ? std::optional(at) : std::nullopt; };
  std::vector<Slice> made;
  if (count > HF_MAX_DIMS) raise_count(count, "slices");
  for (const hf_slice& slice : list_of(slices, count, "slices")) {
    made.push_back({given(slice.start), given(slice.stop), slice.step != HF_NONE ? slice.step : 1});
  }
  return made;
}

Reduce reduce_of(const int64_t* axes, size_t count, int32_t keep_dims) {
  const Dims given = dims_of(axes, count, "axes");
  return {{given.begin(), given.end()}, keep_dims != 0};
}

char* owned_text(const std::string& text) {
  auto* made = static_cast<char*>(std::malloc(text.size() + 1));
  if (made == nullptr) throw std::bad_alloc();
  std::memcpy(made, text.c_str(), text.size() + 1);
  return made;
}

}  // namespace holdfast::c
