#include "holdfast/dlpack.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "holdfast/array/apply.h"
#include "holdfast/array/dlpack_abi.h"
#include "holdfast/array/layouts.h"
#include "holdfast/array/stream_state.h"
#include "holdfast/host_view.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

namespace dl = array::dl;

// The structs behind the names that users bring.
dl::ManagedTensor* inside(DLManagedTensor* tensor) {
  return reinterpret_cast<dl::ManagedTensor*>(tensor);
}
dl::ManagedTensorVersioned* inside(DLManagedTensorVersioned* tensor) {
  return reinterpret_cast<dl::ManagedTensorVersioned*>(tensor);
}

dl::DataType dlpack_type(Dtype dtype) {
  const auto bits = static_cast<uint8_t>(size_of(dtype).value * 8);
  const uint8_t code = dtype == Dtype::bool_      ? dl::kBool
                       : dtype == Dtype::bfloat16 ? dl::kBfloat
                       : is_floating(dtype)       ? dl::kFloat
                       : is_signed_integer(dtype) ? dl::kInt
                                                  : dl::kUint;
  return {code, bits, 1};
}

Dtype dtype_of(const dl::DataType& type) {
  for (unsigned i = 0; i < kernel::kDtypes; ++i) {
    const dl::DataType one = dlpack_type(static_cast<Dtype>(i));
    if (one.code == type.code && one.bits == type.bits && type.lanes == 1) {
      return static_cast<Dtype>(i);
    }
  }
  throw UsageError(
      fmt::format("from_dlpack: no dtype has elements of the type code {} with {} bits in {} "
                  "lanes; convert the tensor first",
                  type.code, type.bits, type.lanes));
}

// What an exported tensor keeps.
template <typename Managed>
struct ExportedTensor {
  explicit ExportedTensor(HostView shown) : view(std::move(shown)) {
    for (const int64_t n : view.shape()) shape.push_back(n);
    for (const int64_t n : view.strides()) strides.push_back(n);
    managed.tensor = {.data = const_cast<std::byte*>(view.data()),
                      .device = {dl::kCpu, 0},
                      .ndim = static_cast<int32_t>(shape.size()),
                      .dtype = dlpack_type(view.dtype()),
                      .shape = shape.data(),
                      .strides = strides.data(),
                      .byte_offset = 0};
    managed.context = this;
    managed.deleter = [](Managed* m) {
      const std::unique_ptr<ExportedTensor> done(static_cast<ExportedTensor*>(m->context));
    };
  }
  HostView view;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  Managed managed{};
};

template <typename Managed>
std::unique_ptr<ExportedTensor<Managed>> exported(const Array& array, Copying copying,
                                                  const WaitLimit& limit) {
  auto made = std::make_unique<ExportedTensor<Managed>>(
      HostView(copying == Copying::always ? copy(array) : array, limit));
  if (copying == Copying::never && made->view.copied()) {
    throw UsageError(
        fmt::format("to_dlpack: the host cannot reach the memory of device '{}' without a copy; "
                    "allow one, or move the array to the CPU",
                    array.device().name()));
  }
  return made;
}

// A tensor that an array is made of.
struct TakenTensor {
  std::function<void()> drop;
  DropTensor through;
  bool taken = false;   // otherwise it is still its owner's
  bool shared = false;  // an array uses its memory

  void done() {
    if (!std::exchange(taken, false)) return;
    if (through) {
      through(std::move(drop));
    } else {
      drop();
    }
  }
};

// Appends the elements below `data` in row-major order.
void gather(std::byte*& to, const std::byte* data, std::span<const int64_t> shape,
            std::span<const int64_t> strides, int64_t size) {
  if (shape.empty()) {
    std::memcpy(to, data, static_cast<size_t>(size));
    to += size;
    return;
  }
  for (int64_t i = 0; i < shape[0]; ++i) {
    gather(to, data + i * strides[0] * size, shape.subspan(1), strides.subspan(1), size);
  }
}

Array copied(const std::byte* data, Dtype dtype, const Layout& layout, const On& on) {
  const Bytes size = size_of(dtype);
  const size_t bytes = size.value * static_cast<size_t>(elements(layout.shape));
  if (layout.is_row_contiguous()) return {dtype, layout.shape, std::span(data, bytes), {}, on};
  std::vector<std::byte> rows(bytes);
  std::byte* to = rows.data();
  gather(to, data, layout.shape.span(), layout.strides.span(), static_cast<int64_t>(size.value));
  return {dtype, layout.shape, rows, {}, on};
}

// None if the memory is not fit for it: elements that are not aligned or that lie too far apart, or
// a device that the host shares no memory with.
std::optional<Array> shared(const std::byte* data, Dtype dtype, Layout layout,
                            const std::shared_ptr<TakenTensor>& taken, const On& on) {
  const array::Reach reach = array::reach(layout);
  const uint64_t size = size_of(dtype).value;
  if (reinterpret_cast<uintptr_t>(data) % size != 0) return {};
  if (reach.first <= -kMaxLength || reach.last >= kMaxLength + reach.first) return {};
  if (!array::stream_for({}, on)->device().info.device_memory_host_visible) return {};
  for (size_t i = 0; i < layout.shape.size(); ++i) {
    // An array's layout has no negative stride on an axis of length one.
    if (layout.shape[i] == 1 && layout.strides[i] < 0) layout.strides[i] = 0;
  }
  layout.offset = -reach.first;
  auto* const first =
      const_cast<std::byte*>(data) + reach.first * static_cast<std::ptrdiff_t>(size);
  const Array whole = from_external(
      first, dtype, Shape{reach.last - reach.first + 1}, [taken] { taken->done(); }, {}, on);
  Array made = whole.with_layout(layout);
  taken->shared = true;
  return made;
}

Array imported(const dl::Tensor& tensor, const std::shared_ptr<TakenTensor>& taken, Copying copying,
               const On& on) {
  if (tensor.device.type != dl::kCpu && tensor.device.type != dl::kCudaHost) {
    throw UsageError(
        fmt::format("from_dlpack: the tensor lies in memory of the device type {}; only memory of "
                    "the host can be imported, so copy it there first",
                    tensor.device.type));
  }
  const Dtype dtype = dtype_of(tensor.dtype);
  if (tensor.ndim < 0 || static_cast<size_t>(tensor.ndim) > Dims::kMaxDims) {
    throw UsageError(fmt::format("from_dlpack: the tensor has {} axes; an array has at most {}",
                                 tensor.ndim, Dims::kMaxDims));
  }
  const auto ndim = static_cast<size_t>(tensor.ndim);
  if (ndim != 0 && tensor.shape == nullptr) {
    throw UsageError("from_dlpack: the tensor has axes and no shape");
  }
  const Shape shape(std::span<const int64_t>(tensor.shape, ndim));
  if (elements(shape) == 0) return {dtype, shape, {}, {}, on};
  if (tensor.data == nullptr) throw UsageError("from_dlpack: the tensor has elements and no data");
  Layout layout = Layout::row_contiguous(shape);
  if (tensor.strides != nullptr) {
    layout.strides = Strides(std::span<const int64_t>(tensor.strides, ndim));
  }
  constexpr int64_t kFar = int64_t{1} << 56;
  const array::Reach reach = array::reach(layout);
  if (reach.first < -kFar || reach.last > kFar) {
    throw UsageError(
        fmt::format("from_dlpack: a tensor of shape {} with strides {} fits in no "
                    "memory; check the strides",
                    to_string(shape), to_string(layout.strides)));
  }
  const auto* data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  if (copying == Copying::always) return copied(data, dtype, layout, on);
  try {
    if (auto made = shared(data, dtype, layout, taken, on)) return *std::move(made);
  } catch (const UnsupportedError&) {
    // Some devices use only whole pages of others' memory.
    if (copying == Copying::never) throw;
  }
  if (copying == Copying::never) {
    throw UsageError(
        "from_dlpack: the tensor's memory cannot be shared with this device; allow a copy");
  }
  return copied(data, dtype, layout, on);
}

template <typename Given>
Array take_over(Given& given, Copying copying, const On& on, DropTensor drop) {
  const auto taken = std::make_shared<TakenTensor>();
  taken->drop = [tensor = given.get()] { DlpackDeleter{}(tensor); };
  taken->through = std::move(drop);
  Array made = imported(inside(given.get())->tensor, taken, copying, on);
  (void)given.release();
  taken->taken = true;
  if (!taken->shared) taken->done();
  return made;
}

template <typename Tensor>
void check_given(const Tensor& tensor) {
  if (!tensor) throw UsageError("from_dlpack: there is no tensor (null)");
}

}  // namespace

void DlpackDeleter::operator()(DLManagedTensor* tensor) const noexcept {
  if (inside(tensor)->deleter != nullptr) inside(tensor)->deleter(inside(tensor));
}
void DlpackDeleter::operator()(DLManagedTensorVersioned* tensor) const noexcept {
  if (inside(tensor)->deleter != nullptr) inside(tensor)->deleter(inside(tensor));
}

DlpackTensor to_dlpack(const Array& array, Copying copying, const WaitLimit& limit) {
  auto made = exported<dl::ManagedTensor>(array, copying, limit);
  return DlpackTensor(reinterpret_cast<DLManagedTensor*>(&made.release()->managed));
}

DlpackTensorVersioned to_dlpack_versioned(const Array& array, Copying copying,
                                          const WaitLimit& limit) {
  auto made = exported<dl::ManagedTensorVersioned>(array, copying, limit);
  const bool own = copying == Copying::always || made->view.copied();
  made->managed.version = dl::kVersion;
  made->managed.flags = own ? dl::kCopied : dl::kReadOnly;
  return DlpackTensorVersioned(
      reinterpret_cast<DLManagedTensorVersioned*>(&made.release()->managed));
}

Array from_dlpack(DlpackTensor&& tensor, Copying copying, const On& on, DropTensor drop) {
  check_given(tensor);
  return take_over(tensor, copying, on, std::move(drop));
}

Array from_dlpack(DlpackTensorVersioned&& tensor, Copying copying, const On& on, DropTensor drop) {
  check_given(tensor);
  const dl::Version version = inside(tensor.get())->version;
  if (version.major > dl::kVersion.major) {
    throw UsageError(fmt::format(
        "from_dlpack: the tensor is of version {}.{} of DLPack, and 1 is known; ask its producer "
        "for an older one",
        version.major, version.minor));
  }
  return take_over(tensor, copying, on, std::move(drop));
}

}  // namespace holdfast
