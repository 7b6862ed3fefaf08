#include "python/src/dlpack.h"

#include <nanobind/stl/pair.h>

#include <memory>
#include <string>
#include <utility>

#include "holdfast/views.h"
#include "python/src/buffer.h"
#include "python/src/dlpack_abi.h"

namespace holdfast::python {
namespace {

dl::DataType data_type(Dtype dtype) {
  const auto bits = static_cast<uint8_t>(size_of(dtype).value * 8);
  const dl::Code code = dtype == Dtype::bool_      ? dl::kBool
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

// What an exported tensor keeps: no Python object, so that its consumer may drop it on any thread.
template <typename Managed>
struct Exported {
  explicit Exported(HostView shown) : view(std::move(shown)) {
    for (const int64_t n : view.shape()) shape.push_back(n);
    for (const int64_t n : view.strides()) strides.push_back(n);
    managed.tensor = {.data = const_cast<std::byte*>(view.data()),
                      .device = {dl::kCpu, 0},
                      .ndim = static_cast<int32_t>(shape.size()),
                      .dtype = data_type(view.dtype()),
                      .shape = shape.data(),
                      .strides = strides.data(),
                      .byte_offset = 0};
    managed.context = this;
    managed.deleter = [](Managed* m) {
      const std::unique_ptr<Exported> done(static_cast<Exported*>(m->context));
    };
  }
  HostView view;
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

nb::object export_dlpack(const Array& given, const nb::object&,
                         std::optional<std::pair<int64_t, int64_t>> max_version,
                         std::optional<std::pair<int64_t, int64_t>> dl_device,
                         std::optional<bool> copy_it) {
  drain_tasks();
  if (dl_device && (dl_device->first != dl::kCpu || dl_device->second != 0)) {
    throw nb::buffer_error("arrays are exported to the host alone: dl_device=(1, 0)");
  }
  HostView view = without_gil([&, held = given](const WaitLimit& limit) {
    return HostView(copy_it.value_or(false) ? copy(held) : held, limit);
  });
  const bool copied = copy_it.value_or(false) || view.copied();
  if (copied && copy_it && !*copy_it) {
    throw nb::buffer_error("the host cannot reach this device's memory without a copy");
  }
  if (max_version && max_version->first >= 1) {
    auto made = std::make_unique<Exported<dl::ManagedTensorVersioned>>(std::move(view));
    made->managed.version = dl::kVersion;
    made->managed.flags = copied ? dl::kCopied : dl::kReadOnly;
    return capsule_of(std::move(made), dl::kVersionedName, [](PyObject* c) {
      drop_unused<dl::ManagedTensorVersioned>(c, dl::kVersionedName);
    });
  }
  return capsule_of(std::make_unique<Exported<dl::ManagedTensor>>(std::move(view)), dl::kName,
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

Array array_of(const dl::Tensor& tensor, std::shared_ptr<void> keep, std::optional<bool> copy_it,
               const On& on) {
  if (tensor.device.type != dl::kCpu && tensor.device.type != dl::kCudaHost) {
    throw nb::buffer_error("only memory of the host can be imported");
  }
  const std::optional<Dtype> dtype = dtype_of(tensor.dtype);
  if (!dtype) throw nb::buffer_error("no dtype has such elements");
  if (tensor.ndim < 0 || static_cast<size_t>(tensor.ndim) > Dims::kMaxDims) {
    throw nb::buffer_error("an array has at most 8 axes");
  }
  const auto ndim = static_cast<size_t>(tensor.ndim);
  const Shape shape(std::span<const int64_t>(tensor.shape, ndim));
  if (elements(shape) == 0) return {*dtype, shape, {}, {}, on};
  Strides strides = tensor.strides != nullptr
                        ? Strides(std::span<const int64_t>(tensor.strides, ndim))
                        : Layout::row_contiguous(shape).strides;
  const auto* data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  if (!copy_it.value_or(false)) {
    if (auto made = import_memory(data, *dtype, shape, strides, keep, on)) return *made;
    if (copy_it) throw nb::buffer_error("the memory cannot be shared with this device");
  }
  for (size_t i = 0; i < ndim; ++i) strides[i] *= static_cast<int64_t>(size_of(*dtype).value);
  return copy_memory(data, *dtype, shape, strides, on);
}

nb::object capsule_from(nb::handle object) {
  try {
    return object.attr("__dlpack__")("max_version"_a = nb::make_tuple(1, 0));
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  // A producer from before versions.
  return object.attr("__dlpack__")();
}

}  // namespace

Array import_dlpack(nb::handle object, std::optional<bool> copy_it, const On& on) {
  const nb::object capsule = capsule_from(object);
  if (PyCapsule_IsValid(capsule.ptr(), dl::kVersionedName) != 0) {
    auto* managed = static_cast<dl::ManagedTensorVersioned*>(
        PyCapsule_GetPointer(capsule.ptr(), dl::kVersionedName));
    if (managed->version.major > dl::kVersion.major) {
      throw nb::buffer_error("the tensor is of a later version of DLPack than 1");
    }
    PyCapsule_SetName(capsule.ptr(), dl::kUsedVersionedName);
    return array_of(managed->tensor, owned(managed), copy_it, on);
  }
  if (PyCapsule_IsValid(capsule.ptr(), dl::kName) != 0) {
    auto* managed = static_cast<dl::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), dl::kName));
    PyCapsule_SetName(capsule.ptr(), dl::kUsedName);
    return array_of(managed->tensor, owned(managed), copy_it, on);
  }
  throw nb::type_error("__dlpack__ returned no capsule with a tensor");
}

void bind_dlpack(nb::module_& m, ArrayClass& c) {
  c.def("__dlpack__", &export_dlpack, nb::kw_only(), "stream"_a = nb::none(),
        "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none(),
        "The array as a DLPack capsule for the host. Consumers must not write to it.");
  c.def("__dlpack_device__", [](const Array&) { return std::pair<int, int>(dl::kCpu, 0); });
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
