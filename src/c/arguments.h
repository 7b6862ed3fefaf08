#pragma once

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/c/handles.h"
#include "holdfast/ops.h"

namespace holdfast::c {

// What C callers give, as C++ has it. All of them raise ArgumentError or UsageError, and read
// nothing beyond what the caller said is there. `name` is the parameter's, for the message.

Dtype dtype_of(hf_dtype dtype);
std::string text_of(const hf_text& text, const char* name);
WaitLimit limit_of(hf_timeout timeout);
On on_of(hf_stream* stream);
// Lengths, strides or axes.
Dims dims_of(const int64_t* values, size_t count, const char* name);
std::optional<int64_t> optional_of(const int64_t* value);
Scalar scalar_of(const hf_scalar& scalar);
Term term_of(const hf_term& term, const char* name);
std::optional<Array> optional_array(hf_array* array, const char* name);
std::vector<Array> arrays_of(hf_array* const* arrays, size_t count, const char* name);
std::vector<std::string> texts_of(const hf_text* texts, size_t count, const char* name);
std::vector<Slice> slices_of(const hf_slice* slices, size_t count);
Reduce reduce_of(const int64_t* axes, size_t count, int32_t keep_dims);

[[noreturn]] void raise_code(const char* what, int32_t code);
[[noreturn]] void raise_count(size_t count, const char* name);
[[noreturn]] void raise_struct_size(size_t given, size_t wanted, const char* type);
[[noreturn]] void raise_later_fields(const char* type);

// The caller's list.
template <typename T>
std::span<const T> list_of(const T* first, size_t count, const char* name) {
  if (count == 0) return {};
  if (first == nullptr) raise_null(name);
  constexpr size_t kSize = sizeof(T);  // NOLINT(bugprone-sizeof-expression): handles, too
  if (count > PTRDIFF_MAX / kSize) raise_count(count, name);
  return {first, count};
}

// The entry of a table that a code stands for.
template <typename T, size_t kSize>
const T& entry(const T (&table)[kSize], int32_t code, const char* what) {
  if (code < 0 || static_cast<size_t>(code) >= kSize) raise_code(what, code);
  return table[code];
}

// Larger sizes are mistakes: memory that nobody has set.
inline constexpr size_t kMaxStructSize = 4096;

// What a caller has filled. A caller of a later version may give a larger struct, with fields that
// are not known here: they must be zero. When a struct grows, smaller sizes, down to the first one
// that was released, are read with zeros for what is missing.
template <typename T>
T read_struct(const T* given, const char* type) {
  const size_t size = needed(given, type).struct_size;
  if (size < sizeof(T) || size > kMaxStructSize) raise_struct_size(size, sizeof(T), type);
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) raise_later_fields(type);
  }
  return *given;
}

// Refuses a struct that nothing could be written to.
template <typename T>
void check_struct(const T* to, const char* type) {
  const size_t size = needed(to, type).struct_size;
  if (size < sizeof(T) || size > kMaxStructSize) raise_struct_size(size, sizeof(T), type);
}

// Fills it; fields of a later version become zero.
template <typename T>
void write_struct(T* to, T from) {
  const size_t size = to->struct_size;
  from.struct_size = size;
  std::memset(reinterpret_cast<unsigned char*>(to) + sizeof(T), 0, size - sizeof(T));
  *to = from;
}

// A copy that its owner frees with hf_free.
char* owned_text(const std::string& text);
// Gives the text that `make` returns to the caller.
template <typename F>
hf_status give_text(const char* function, char** out, F&& make) noexcept {
  return call(function, [&] {
    needed(out, "the place of the text");
    *out = owned_text(std::forward<F>(make)());
  });
}

}  // namespace holdfast::c
