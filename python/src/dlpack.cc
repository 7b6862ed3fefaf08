#include "python/src/dlpack.h"

#include <nanobind/stl/pair.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "holdfast/eval.h"
#include "holdfast/native.h"
#include "holdfast/views.h"
#include "python/src/buffer.h"
#include "python/src/dlpack_abi.h"

namespace holdfast::python {
namespace {

dl::DataType data_type(Dtype dtype) {
  const auto bits = static_cast<uint8_t>(size_of(dtype).value * 8);
  const uint8_t code = dtype == Dtype::bool_      ? dl::kBool
                       : dtype == Dtype::bfloat16 ? dl::kBfloat
                       : is_floating(dtype)       ? dl::kFloat
                       : is_signed_integer(dtype) ? dl::kInt
                                                  : dl::kUint;
  return {code, bits, 1};
}

std::optional<Dtype> dtype_of(const dl::DataType& type) {
  for (unsigned i = 0; i < kernel::kDtypes; ++i) {
    const dl::DataType one = data_type(static_cast<Dtype>(i));
    if (one.code == type.code && one.bits == type.bits && type.lanes == 1) {
      return static_cast<Dtype>(i);
    }
  }
  return {};
}

// Elements as a consumer gets them. Holds no Python object, so that any thread may drop it.
struct Elements {
  std::variant<HostView, NativeView> keep;
  dl::Device device;
  void* data;
  Dtype dtype;
  Shape shape;
  Strides strides;
  bool copied;
};

template <typename Managed>
struct Exported {
  explicit Exported(Elements given)
      : elements(std::move(given)),
        shape(elements.shape.begin(), elements.shape.end()),
        strides(elements.strides.begin(), elements.strides.end()) {
    managed.tensor = {.data = elements.data,
                      .device = elements.device,
                      .ndim = static_cast<int32_t>(shape.size()),
                      .dtype = data_type(elements.dtype),
                      .shape = shape.data(),
                      .strides = strides.data(),
                      .byte_offset = 0};
    managed.context = this;
    managed.deleter = [](Managed* m) {
      const std::unique_ptr<Exported> done(static_cast<Exported*>(m->context));
    };
  }
  Elements elements;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  Managed managed{};
};

// A capsule whose name tells whether somebody has taken the tensor.
template <typename Managed>
nb::object capsule_of(std::unique_ptr<Exported<Managed>> exported, const char* name,
                      PyCapsule_Destructor destructor) {
  nb::object made = nb::steal(PyCapsule_New(&exported->managed, name, destructor));
  if (!made.is_valid()) throw nb::python_error();
  (void)exported.release();
  return made;
}

template <typename Managed>
void drop_unused(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

// Where an array's elements are for a consumer that asks for no other place.
dl::Device place_of(const Array& array) {
  const int32_t ordinal = driver_ordinal(array.device());
  return ordinal < 0 ? dl::Device{dl::kCpu, 0} : dl::Device{dl::kCuda, ordinal};
}

Elements on_host(const Array& array, std::optional<bool> copy_it) {
  HostView view = without_gil([&](const WaitLimit& limit) {
    return HostView(copy_it.value_or(false) ? copy(array) : array, limit);
  });
  const bool copied = copy_it.value_or(false) || view.copied();
  if (copied && copy_it && !*copy_it) {
    throw nb::buffer_error("the host cannot reach this device's memory without a copy");
  }
  auto* const data = const_cast<std::byte*>(view.data());
  const Dtype dtype = view.dtype();
  const Shape shape = view.shape();
  const Strides strides = view.strides();
  return {std::move(view), {dl::kCpu, 0}, data, dtype, shape, strides, copied};
}

// The consumer's CUstream: the legacy default stream where none is given.
int64_t consumer_stream(const nb::object& given) {
  if (given.is_none()) return dl::kLegacyStream;
  if (PyBool_Check(given.ptr()) || PyLong_Check(given.ptr()) == 0) {
    throw nb::type_error("stream is a CUDA stream's address as an int, 1, 2, -1 or None");
  }
  const auto stream = nb::cast<int64_t>(given);
  if (stream == 0 || stream < dl::kNoStream) {
    throw nb::value_error(
        "stream=0 could be either default stream of CUDA: give 1 (legacy) or 2 (per thread)");
  }
  return stream;
}

// In the memory of the GPU. The consumer's stream waits there for the elements; once the consumer
// gives them back, its work until then is waited for there, too.
Elements on_gpu(const Array& array, const dl::Device& place, bool copy_it,
                const nb::object& stream) {
  const int64_t number = consumer_stream(stream);
  const auto handle = [](int64_t of) { return reinterpret_cast<void*>(of); };  // NOLINT
  const Array shown = without_gil([&](const WaitLimit&) {
    Array made = copy_it ? copy(array) : array;
    async_eval(made);
    return made;
  });
  NativeView view = [&] {
    try {
      return without_gil([&](const WaitLimit&) {
        return number == dl::kNoStream ? NativeView::unordered(shown)
                                       : NativeView(shown, handle(number));
      });
    } catch (const UsageError& error) {
      throw nb::buffer_error(error.what());
    }
  }();
  // The thread that gives the elements back has another default stream; the legacy one waits for
  // all of them.
  if (number == dl::kNoStream || number == dl::kPerThreadStream) {
    view.set_last_reader(handle(dl::kLegacyStream));
  }
  auto* const data = reinterpret_cast<void*>(view.address());  // NOLINT(performance-no-int-to-ptr)
  const Array& seen = view.array();
  const Dtype dtype = seen.dtype();
  const Shape shape = seen.shape();
  const Strides strides = seen.strides();
  return {std::move(view), place, data, dtype, shape, strides, copy_it};
}

nb::object export_dlpack(const Array& given, const nb::object& stream,
                         std::optional<std::pair<int64_t, int64_t>> max_version,
                         std::optional<std::pair<int64_t, int64_t>> dl_device,
                         std::optional<bool> copy_it) {
  drain_tasks();
  // Another thread may assign to the object meanwhile.
  const Array held = given;  // NOLINT(performance-unnecessary-copy-initialization)
  const dl::Device home = place_of(held);
  const auto [type, id] = dl_device.value_or(std::pair<int64_t, int64_t>(home.type, home.id));
  const bool to_host = type == dl::kCpu && id == 0;
  if (!to_host && (type != home.type || id != home.id)) {
    throw nb::buffer_error(("an array on '" + held.device().name() +
                            "' is exported to its own device or to the host, dl_device=(1, 0)")
                               .c_str());
  }
  Elements elements =
      to_host ? on_host(held, copy_it) : on_gpu(held, home, copy_it.value_or(false), stream);
  const bool copied = elements.copied;
  if (max_version && max_version->first >= 1) {
    auto made = std::make_unique<Exported<dl::ManagedTensorVersioned>>(std::move(elements));
    made->managed.version = dl::kVersion;
    made->managed.flags = copied ? dl::kCopied : dl::kReadOnly;
    return capsule_of(std::move(made), dl::kVersionedName, [](PyObject* c) {
      drop_unused<dl::ManagedTensorVersioned>(c, dl::kVersionedName);
    });
  }
  return capsule_of(std::make_unique<Exported<dl::ManagedTensor>>(std::move(elements)), dl::kName,
                    [](PyObject* c) { drop_unused<dl::ManagedTensor>(c, dl::kName); });
}

// The producer's tensor, until its deleter was called.
template <typename Managed>
std::shared_ptr<void> owned(Managed* managed) {
  return {managed, [](void* p) {
            auto* m = static_cast<Managed*>(p);
            if (m->deleter != nullptr) m->deleter(m);
          }};
}

// The device whose memory a producer's tensor is in, and the stream that the producer orders it
// for.
struct Gpu {
  Device device;
  void* stream;
};

// The GPU with this number, `on` if that says which device to use.
Gpu gpu_of(int64_t ordinal, const On& on) {
  return without_gil([&](const WaitLimit&) {
    const bool asked = static_cast<bool>(on.state());
    Device device = asked ? Stream(on.state()).device() : default_device();
    if (driver_ordinal(device) != ordinal) {
      if (asked) {
        throw UsageError("memory of GPU " + std::to_string(ordinal) +
                         " cannot become an array on '" + device.name() +
                         "' directly: import it, then use to()");
      }
      device = holdfast::device("cuda:" + std::to_string(ordinal));
    }
    return Gpu{device, native_stream(device)};
  });
}

Array shared_on_gpu(const Gpu& gpu, const std::byte* data, Dtype dtype, const Shape& shape,
                    const Strides& strides, std::shared_ptr<void> keep,
                    std::optional<bool> copy_it) {
  const Reached reached = reached_by(shape, strides);
  const auto first = reinterpret_cast<uint64_t>(data) -
                     static_cast<uint64_t>(reached.layout.offset) * size_of(dtype).value;
  return without_gil([&](const WaitLimit& limit) {
    Array whole = from_native(first, dtype, Shape{reached.count}, gpu.stream,
                              dropped_with_gil(std::move(keep)), {}, gpu.device);
    Array shown = whole.with_layout(reached.layout);
    if (!copy_it.value_or(false)) return shown;
    // The producer may write to its memory as soon as this returns.
    Array copied = copy(shown);
    copied.eval(limit);
    return copied;
  });
}

Array array_of(const dl::Tensor& tensor, std::shared_ptr<void> keep, std::optional<bool> copy_it,
               const On& on, const std::optional<Gpu>& gpu) {
  const bool on_gpu = tensor.device.type == dl::kCuda;
  if ((!on_gpu && tensor.device.type != dl::kCpu && tensor.device.type != dl::kCudaHost) ||
      on_gpu != gpu.has_value()) {
    throw nb::buffer_error("only memory of the host and of CUDA devices can be imported");
  }
  const std::optional<Dtype> dtype = dtype_of(tensor.dtype);
  if (!dtype) throw nb::buffer_error("no dtype has such elements");
  if (tensor.ndim < 0 || static_cast<size_t>(tensor.ndim) > Dims::kMaxDims) {
    throw nb::buffer_error("an array has at most 8 axes");
  }
  const auto ndim = static_cast<size_t>(tensor.ndim);
  const Shape shape(std::span<const int64_t>(tensor.shape, ndim));
  if (elements(shape) == 0) return {*dtype, shape, {}, {}, gpu ? On(gpu->device) : on};
  Strides strides = tensor.strides != nullptr
                        ? Strides(std::span<const int64_t>(tensor.strides, ndim))
                        : Layout::row_contiguous(shape).strides;
  const auto* data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  if (gpu) return shared_on_gpu(*gpu, data, *dtype, shape, strides, std::move(keep), copy_it);
  if (!copy_it.value_or(false)) {
    if (auto made = import_memory(data, *dtype, shape, strides, keep, on)) return *made;
    if (copy_it) throw nb::buffer_error("the memory cannot be shared with this device");
  }
  for (size_t i = 0; i < ndim; ++i) strides[i] *= static_cast<int64_t>(size_of(*dtype).value);
  return copy_memory(data, *dtype, shape, strides, on);
}

std::optional<Gpu> gpu_of(nb::handle object, const On& on) {
  if (!nb::hasattr(object, "__dlpack_device__")) return {};
  const nb::object place = object.attr("__dlpack_device__")();
  if (nb::cast<int64_t>(place[0]) != dl::kCuda) return {};
  return gpu_of(nb::cast<int64_t>(place[1]), on);
}

// The producer is told of the stream that the elements are wanted on: ours, which it makes wait.
nb::object capsule_from(nb::handle object, const std::optional<Gpu>& gpu) {
  nb::dict given;
  if (gpu) given["stream"] = nb::int_(reinterpret_cast<uintptr_t>(gpu->stream));
  const nb::object call = object.attr("__dlpack__");
  try {
    return call(**given, "max_version"_a = nb::make_tuple(1, 0));
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  // A producer from before versions.
  return call(**given);
}

}  // namespace

Array import_dlpack(nb::handle object, std::optional<bool> copy_it, const On& on) {
  const std::optional<Gpu> gpu = gpu_of(object, on);
  const nb::object capsule = capsule_from(object, gpu);
  if (PyCapsule_IsValid(capsule.ptr(), dl::kVersionedName) != 0) {
    auto* managed = static_cast<dl::ManagedTensorVersioned*>(
        PyCapsule_GetPointer(capsule.ptr(), dl::kVersionedName));
    if (managed->version.major > dl::kVersion.major) {
      throw nb::buffer_error("the tensor is of a later version of DLPack than 1");
    }
    PyCapsule_SetName(capsule.ptr(), dl::kUsedVersionedName);
    return array_of(managed->tensor, owned(managed), copy_it, on, gpu);
  }
  if (PyCapsule_IsValid(capsule.ptr(), dl::kName) != 0) {
    auto* managed = static_cast<dl::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), dl::kName));
    PyCapsule_SetName(capsule.ptr(), dl::kUsedName);
    return array_of(managed->tensor, owned(managed), copy_it, on, gpu);
  }
  throw nb::type_error("__dlpack__ returned no capsule with a tensor");
}

void bind_dlpack(nb::module_& m, ArrayClass& c) {
  c.def(
      "__dlpack__", &export_dlpack, nb::kw_only(), "stream"_a = nb::none(),
      "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none(),
      "The array as a DLPack capsule, in the memory of its GPU or of the host. Consumers must not "
      "write to it.\n\n"
      "On a GPU nothing waits on the host: the CUDA stream `stream` (None: the legacy default "
      "stream) is made to wait for the elements, and once the capsule's deleter was called the "
      "memory is reused after what that stream had by then. BufferError if the elements wait for "
      "something that the host has yet to do.");
  c.def("__dlpack_device__", [](const Array& a) {
    const dl::Device place = place_of(a);
    return std::pair<int, int>(place.type, place.id);
  });
  m.def(
      "from_dlpack",
      [](nb::handle x, const On& device, std::optional<bool> copy_it) {
        drain_tasks();
        return import_dlpack(x, copy_it, device);
      },
      "x"_a, nb::kw_only(), "device"_a = nb::none(), "copy"_a = nb::none(),
      nb::sig("def from_dlpack(x: typing.Any, *, device: Stream | Device | str | None = None, "
              "copy: bool | None = None) -> array"),
      "An array in the memory of an object with __dlpack__. Nobody may write to that memory while "
      "the array, or what was computed from it and is not evaluated, lives.");
}

}  // namespace holdfast::python
