#include "holdfast/dlpack.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "holdfast/array/apply.h"
#include "holdfast/array/dlpack_abi.h"
#include "holdfast/array/layouts.h"
#include "holdfast/array/stream_state.h"
#include "holdfast/host_view.h"
#include "holdfast/native.h"
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

// Elements as a consumer gets them, and what keeps them.
struct ShownElements {
  std::variant<HostView, NativeView> keep;
  dl::Device device;
  void* data;
  Dtype dtype;
  Shape shape;
  Strides strides;
  bool copied;
};

template <typename Managed>
struct ExportedTensor {
  explicit ExportedTensor(ShownElements shown)
      : elements(std::move(shown)),
        shape(elements.shape.begin(), elements.shape.end()),
        strides(elements.strides.begin(), elements.strides.end()) {
    managed.tensor = {.data = elements.data,
                      .device = elements.device,
                      .ndim = static_cast<int32_t>(shape.size()),
                      .dtype = dlpack_type(elements.dtype),
                      .shape = shape.data(),
                      .strides = strides.data(),
                      .byte_offset = 0};
    managed.context = this;
    managed.deleter = [](Managed* m) {
      const std::unique_ptr<ExportedTensor> done(static_cast<ExportedTensor*>(m->context));
    };
  }
  ShownElements elements;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  Managed managed{};
};

DlpackTensor exported(ShownElements elements) {
  auto made = std::make_unique<ExportedTensor<dl::ManagedTensor>>(std::move(elements));
  return DlpackTensor(reinterpret_cast<DLManagedTensor*>(&made.release()->managed));
}

DlpackTensorVersioned exported_versioned(ShownElements elements) {
  auto made = std::make_unique<ExportedTensor<dl::ManagedTensorVersioned>>(std::move(elements));
  made->managed.version = dl::kVersion;
  made->managed.flags = made->elements.copied ? dl::kCopied : dl::kReadOnly;
  return DlpackTensorVersioned(
      reinterpret_cast<DLManagedTensorVersioned*>(&made.release()->managed));
}

ShownElements on_host(const Array& array, Copying copying, const WaitLimit& limit) {
  HostView view(copying == Copying::always ? copy(array) : array, limit);
  if (copying == Copying::never && view.copied()) {
    throw UsageError(
        fmt::format("to_dlpack: the host cannot reach the memory of device '{}' without a copy; "
                    "allow one, or move the array to the CPU",
                    array.device().name()));
  }
  const bool own = copying == Copying::always || view.copied();
  auto* const data = const_cast<std::byte*>(view.data());
  const Dtype dtype = view.dtype();
  const Shape shape = view.shape();
  const Strides strides = view.strides();
  return {std::move(view), {dl::kCpu, 0}, data, dtype, shape, strides, own};
}

ShownElements on_gpu(const Array& array, void* reader, Copying copying) {
  const int32_t id = driver_ordinal(array.device());
  if (id < 0) {
    throw UnsupportedError(
        fmt::format("to_dlpack_on_gpu: device '{}' is no NVIDIA GPU; export the array to the host",
                    array.device().name()));
  }
  const bool own = copying == Copying::always;
  const Array shown = own ? copy(array) : array;
  NativeView view = reader == nullptr ? NativeView::unordered(shown) : NativeView(shown, reader);
  // The thread that drops the tensor may have another default stream; the legacy one waits for all.
  if (reader == nullptr || reader == dl::kPerThreadStream) {
    view.set_last_reader(dl::kLegacyStream);
  }
  auto* const data = reinterpret_cast<void*>(view.address());  // NOLINT(performance-no-int-to-ptr)
  const Dtype dtype = shown.dtype();
  const Shape shape = shown.shape();
  const Strides strides = shown.strides();
  return {std::move(view), {dl::kCuda, id}, data, dtype, shape, strides, own};
}

// A tensor that an array is made of.
struct TakenTensor {
  std::function<void()> drop;
  DropTensor through;
  std::atomic<bool> taken{false};  // otherwise it is still its owner's
  bool shared = false;             // an array uses its memory

  void done() {
    if (!taken.exchange(false)) return;
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

// A layout whose strides may be negative, as seen from the first element in memory that it reaches.
struct FromFirst {
  Layout layout;
  int64_t first = 0;  // from the element (0, ..., 0)
  int64_t count = 0;  // none if elements lie too far apart for an array
};
FromFirst from_first(Layout layout) {
  const array::Reach reach = array::reach(layout);
  if (reach.first <= -kMaxLength || reach.last >= kMaxLength + reach.first) return {};
  for (size_t i = 0; i < layout.shape.size(); ++i) {
    // An array's layout has no negative stride on an axis of length one.
    if (layout.shape[i] == 1 && layout.strides[i] < 0) layout.strides[i] = 0;
  }
  layout.offset = -reach.first;
  return {layout, reach.first, reach.last - reach.first + 1};
}

// None if the memory is not fit for it: elements that are not aligned or that lie too far apart, or
// a device that the host shares no memory with.
std::optional<Array> shared(const std::byte* data, Dtype dtype, const Layout& layout,
                            const std::shared_ptr<TakenTensor>& taken, const On& on) {
  const uint64_t size = size_of(dtype).value;
  const FromFirst seen = from_first(layout);
  if (seen.count == 0 || reinterpret_cast<uintptr_t>(data) % size != 0) return {};
  if (!array::stream_for({}, on)->device().info.device_memory_host_visible) return {};
  auto* const first = const_cast<std::byte*>(data) + seen.first * static_cast<std::ptrdiff_t>(size);
  const Array whole = from_external(
      first, dtype, Shape{seen.count}, [taken] { taken->done(); }, {}, on);
  Array made = whole.with_layout(seen.layout);
  taken->shared = true;
  return made;
}

Array shared_on_gpu(const std::byte* data, Dtype dtype, const Layout& layout,
                    const std::shared_ptr<TakenTensor>& taken, Copying copying,
                    const Device& device) {
  const FromFirst seen = from_first(layout);
  if (seen.count == 0) {
    throw UsageError(
        fmt::format("from_dlpack: elements of shape {} with strides {} lie too far apart for an "
                    "array; have the producer copy them into rows",
                    to_string(layout.shape), to_string(layout.strides)));
  }
  const uint64_t first =
      reinterpret_cast<uint64_t>(data) + static_cast<uint64_t>(seen.first) * size_of(dtype).value;
  const Array whole = from_native(
      first, dtype, Shape{seen.count}, native_stream(device), [taken] { taken->done(); }, {},
      device);
  Array made = whole.with_layout(seen.layout);
  if (copying == Copying::always) {
    // Without a limit: once this ends, however it ends, nothing reads the tensor's memory.
    Array own = copy(made);
    own.eval();
    return own;
  }
  taken->shared = true;
  return made;
}

Array imported(const dl::Tensor& tensor, const std::shared_ptr<TakenTensor>& taken, Copying copying,
               const On& on) {
  const bool on_a_gpu = tensor.device.type == dl::kCuda;
  if (!on_a_gpu && tensor.device.type != dl::kCpu && tensor.device.type != dl::kCudaHost) {
    throw UsageError(
        fmt::format("from_dlpack: the tensor lies in memory of the device type {}; only memory of "
                    "the host and of CUDA devices can be imported, so copy it there first",
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
  const On where = on_a_gpu ? On(gpu_of_dlpack(tensor.device.id, on)) : on;
  if (elements(shape) == 0) return {dtype, shape, {}, {}, where};
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
  if (on_a_gpu) {
    return shared_on_gpu(data, dtype, layout, taken, copying, Stream(where.state()).device());
  }
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

int32_t gpu_number_of(const dl::Tensor& tensor) {
  return tensor.device.type == dl::kCuda ? tensor.device.id : -1;
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
  return exported(on_host(array, copying, limit));
}
DlpackTensorVersioned to_dlpack_versioned(const Array& array, Copying copying,
                                          const WaitLimit& limit) {
  return exported_versioned(on_host(array, copying, limit));
}

DlpackTensor to_dlpack_on_gpu(const Array& array, void* reader, Copying copying) {
  return exported(on_gpu(array, reader, copying));
}
DlpackTensorVersioned to_dlpack_versioned_on_gpu(const Array& array, void* reader,
                                                 Copying copying) {
  return exported_versioned(on_gpu(array, reader, copying));
}

int32_t gpu_number(const DlpackTensor& tensor) {
  check_given(tensor);
  return gpu_number_of(inside(tensor.get())->tensor);
}
int32_t gpu_number(const DlpackTensorVersioned& tensor) {
  check_given(tensor);
  return gpu_number_of(inside(tensor.get())->tensor);
}

Device gpu_of_dlpack(int32_t id, const On& on) {
  const bool asked = static_cast<bool>(on.state());
  Device device = asked ? Stream(on.state()).device() : default_device();
  if (driver_ordinal(device) == id) return device;
  if (asked) {
    throw UsageError(
        fmt::format("memory of GPU {} cannot become an array on '{}' directly: import "
                    "it, then use to()",
                    id, device.name()));
  }
  return holdfast::device(fmt::format("cuda:{}", id));
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
