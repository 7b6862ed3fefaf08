#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "holdfast/array.h"
#include "holdfast/c/call.h"
#include "holdfast/c/holdfast.h"
#include "holdfast/kernel.h"

namespace holdfast::c {

// What begins every object behind a handle. The kind tells handles apart that a caller mixed up.
enum class Kind : uint32_t {
  gone = 0,  // released
  array = 0x68660001,
  device,
  stream,
  stream_scope,
  kernel,
  map,
  device_list,
  kernel_times
};
const char* to_string(Kind kind) noexcept;

struct Handle {
  explicit Handle(Kind of) noexcept : kind(of) {}
  // Atomic, so that a compiler does not leave out what comes before the end of the memory.
  ~Handle() { kind.store(Kind::gone, std::memory_order_relaxed); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  std::atomic<Kind> kind;
  std::atomic<uint32_t> owners{1};
};

template <Kind kOf, typename T>
struct HandleOf : Handle {
  static constexpr Kind kKind = kOf;
  using Value = T;
  HandleOf() : Handle(kOf) {}
  explicit HandleOf(T from) : Handle(kOf), value(std::move(from)) {}
  T value;
};

// Without a default state.
template <Kind kOf, typename T>
struct HandleOfMade : Handle {
  static constexpr Kind kKind = kOf;
  using Value = T;
  explicit HandleOfMade(T from) : Handle(kOf), value(std::move(from)) {}
  T value;
};

[[noreturn]] void raise_null(const char* name);
[[noreturn]] void raise_other_kind(const char* name, Kind wanted, Kind found);

// What a pointer points to; refuses null.
template <typename T>
T& needed(T* pointer, const char* name) {
  if (pointer == nullptr) raise_null(name);
  return *pointer;
}

// What a handle stands for; refuses null and handles of other kinds.
template <typename H>
typename H::Value& value_of(H* handle, const char* name) {
  if (handle == nullptr) raise_null(name);
  const Kind kind = handle->kind.load(std::memory_order_relaxed);
  if (kind != H::kKind) raise_other_kind(name, H::kKind, kind);
  return handle->value;
}

template <typename H>
H* retain(const char* function, H* handle) noexcept {
  if (handle == nullptr) return nullptr;
  const hf_status status = call(function, [&] { (void)value_of(handle, "handle"); });
  if (status != HF_OK) return nullptr;
  handle->owners.fetch_add(1, std::memory_order_relaxed);
  return handle;
}

template <typename H>
void release(const char* function, H* handle) noexcept {
  if (handle == nullptr) return;
  const hf_status status = call(function, [&] { (void)value_of(handle, "handle"); });
  if (status != HF_OK) return;
  if (handle->owners.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::unique_ptr<H> last(handle);
}

// Gives what `make` returns to a caller who gets a new handle of it.
template <typename H, typename F>
hf_status give(const char* function, H** out, F&& make) noexcept {
  return call(function, [&] {
    needed(out, "the place of the result");
    *out = std::make_unique<H>(std::forward<F>(make)()).release();
  });
}

}  // namespace holdfast::c

struct hf_array : holdfast::c::HandleOf<holdfast::c::Kind::array, holdfast::Array> {
  using HandleOf::HandleOf;
};
struct hf_device : holdfast::c::HandleOfMade<holdfast::c::Kind::device, holdfast::Device> {
  using HandleOfMade::HandleOfMade;
};
struct hf_stream : holdfast::c::HandleOfMade<holdfast::c::Kind::stream, holdfast::Stream> {
  using HandleOfMade::HandleOfMade;
};
struct hf_kernel : holdfast::c::HandleOfMade<holdfast::c::Kind::kernel, holdfast::Kernel> {
  using HandleOfMade::HandleOfMade;
};
struct hf_map : holdfast::c::HandleOfMade<holdfast::c::Kind::map, holdfast::ArrayMap> {
  using HandleOfMade::HandleOfMade;
};
struct hf_stream_scope
    : holdfast::c::HandleOf<holdfast::c::Kind::stream_scope, std::optional<holdfast::UseStream>> {};
struct hf_device_list
    : holdfast::c::HandleOf<holdfast::c::Kind::device_list, std::vector<holdfast::DeviceListing>> {
  using HandleOf::HandleOf;
};
struct hf_kernel_times
    : holdfast::c::HandleOf<holdfast::c::Kind::kernel_times, std::vector<holdfast::KernelTime>> {
  using HandleOf::HandleOf;
};

namespace holdfast::c {

// The same for an array. The handle is made first: once `make` has returned, nothing fails.
template <typename F>
hf_status give_array(const char* function, hf_array** out, F&& make) noexcept {
  return call(function, [&] {
    needed(out, "the place of the result");
    auto made = std::make_unique<hf_array>();
    made->value = std::forward<F>(make)();
    *out = made.release();
  });
}

}  // namespace holdfast::c
