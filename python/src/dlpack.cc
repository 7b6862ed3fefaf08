#include "python/src/dlpack.h"

#include <nanobind/stl/pair.h>

#include <memory>
#include <string>
#include <utility>

#include "holdfast/dlpack.h"
#include "holdfast/eval.h"
#include "holdfast/native.h"
#include "holdfast/views.h"

namespace holdfast::python {
namespace {

// What DLPack calls memory of the host and of CUDA devices.
constexpr int64_t kHostMemory = 1;
constexpr int64_t kCudaMemory = 2;
// Streams that have a number of their own in __dlpack__; the first is a CUstream by it.
constexpr int64_t kLegacyStream = 1;
constexpr int64_t kNoStream = -1;  // the consumer orders its work itself

// What a capsule that has a tensor is called, before and after somebody has taken the tensor.
template <typename Tensor>
struct CapsuleNames;
template <>
struct CapsuleNames<DlpackTensor> {
  static constexpr const char* kFresh = "dltensor";
  static constexpr const char* kUsed = "used_dltensor";
};
template <>
struct CapsuleNames<DlpackTensorVersioned> {
  static constexpr const char* kFresh = "dltensor_versioned";
  static constexpr const char* kUsed = "used_dltensor_versioned";
};

template <typename Tensor>
Tensor tensor_in(PyObject* capsule) {
  return Tensor(static_cast<typename Tensor::pointer>(
      PyCapsule_GetPointer(capsule, CapsuleNames<Tensor>::kFresh)));
}

template <typename Tensor>
bool has_tensor(PyObject* capsule) {
  return PyCapsule_IsValid(capsule, CapsuleNames<Tensor>::kFresh) != 0;
}

template <typename Tensor>
nb::object capsule_of(Tensor tensor) {
  nb::object made =
      nb::steal(PyCapsule_New(tensor.get(), CapsuleNames<Tensor>::kFresh, [](PyObject* capsule) {
        if (has_tensor<Tensor>(capsule)) (void)tensor_in<Tensor>(capsule);  // nobody took it
      }));
  if (!made.is_valid()) throw nb::python_error();
  (void)tensor.release();
  return made;
}

Copying copying_of(std::optional<bool> copy_it) {
  if (!copy_it) return Copying::if_needed;
  return *copy_it ? Copying::always : Copying::never;
}

// Calls f; what the public functions refuse is a BufferError in Python's protocol.
template <typename F>
auto or_buffer_error(F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const UsageError& error) {
    throw nb::buffer_error(error.what());
  } catch (const UnsupportedError& error) {
    throw nb::buffer_error(error.what());
  }
}

// Where an array's elements are for a consumer that asks for no other place.
std::pair<int64_t, int64_t> place_of(const Array& array) {
  const int32_t ordinal = driver_ordinal(array.device());
  if (ordinal < 0) return {kHostMemory, 0};
  return {kCudaMemory, ordinal};
}

// The CUstream that a consumer names: the legacy default stream where it names none, null where it
// orders its work itself.
void* consumer_stream(const nb::object& given) {
  int64_t stream = kLegacyStream;
  if (!given.is_none()) {
    if (PyBool_Check(given.ptr()) || PyLong_Check(given.ptr()) == 0) {
      throw nb::type_error("stream is a CUDA stream's address as an int, 1, 2, -1 or None");
    }
    stream = nb::cast<int64_t>(given);
    if (stream == 0 || stream < kNoStream) {
      throw nb::value_error(
          "stream=0 could be either default stream of CUDA: give 1 (legacy) or 2 (per thread)");
    }
  }
  return stream == kNoStream ? nullptr : reinterpret_cast<void*>(stream);  // NOLINT
}

nb::object export_dlpack(const Array& given, const nb::object& stream,
                         std::optional<std::pair<int64_t, int64_t>> max_version,
                         std::optional<std::pair<int64_t, int64_t>> dl_device,
                         std::optional<bool> copy_it) {
  drain_tasks();
  // Another thread may assign to the object meanwhile.
  const Array held = given;  // NOLINT(performance-unnecessary-copy-initialization)
  const std::pair<int64_t, int64_t> home = place_of(held);
  const std::pair<int64_t, int64_t> place = dl_device.value_or(home);
  const bool to_host = place == std::pair(kHostMemory, int64_t{0});
  if (!to_host && place != home) {
    throw nb::buffer_error(("an array on '" + held.device().name() +
                            "' is exported to its own device or to the host, dl_device=(1, 0)")
                               .c_str());
  }
  void* const reader = to_host ? nullptr : consumer_stream(stream);
  const Copying copying = copying_of(copy_it);
  // First what the elements themselves may raise.
  without_gil([&](const WaitLimit& limit) {
    if (to_host) {
      held.eval(limit);
    } else {
      async_eval(held);
    }
  });
  const bool versioned = max_version && max_version->first >= 1;
  return or_buffer_error([&] {
    if (versioned) {
      return capsule_of(without_gil([&](const WaitLimit& limit) {
        return to_host ? to_dlpack_versioned(held, copying, limit)
                       : to_dlpack_versioned_on_gpu(held, reader, copying);
      }));
    }
    return capsule_of(without_gil([&](const WaitLimit& limit) {
      return to_host ? to_dlpack(held, copying, limit) : to_dlpack_on_gpu(held, reader, copying);
    }));
  });
}

// The GPU whose memory a producer's tensor is in, and the stream that the producer orders it for.
struct Gpu {
  Device device;
  void* stream;
};

std::optional<Gpu> gpu_of(nb::handle object, const On& on) {
  if (!nb::hasattr(object, "__dlpack_device__")) return {};
  const nb::object place = object.attr("__dlpack_device__")();
  // DLPack's types of devices are an enum in some producers, and an int in others.
  if (nb::cast<int64_t>(nb::int_(place[0])) != kCudaMemory) return {};
  const auto id = nb::cast<int32_t>(place[1]);
  return without_gil([&](const WaitLimit&) {
    const Device device = gpu_of_dlpack(id, on);
    return Gpu{device, native_stream(device)};
  });
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

template <typename Tensor>
Array array_of(const nb::object& capsule, std::optional<bool> copy_it, const On& on,
               const std::optional<Gpu>& gpu) {
  // Another thread may see the capsule. If anything raises, the tensor is given back here.
  Tensor tensor = tensor_in<Tensor>(capsule.ptr());
  PyCapsule_SetName(capsule.ptr(), CapsuleNames<Tensor>::kUsed);
  if ((gpu_number(tensor) >= 0) != gpu.has_value()) {
    throw nb::buffer_error("the tensor is not on the device that __dlpack_device__ says");
  }
  const bool copies_on_gpu = gpu && copy_it.value_or(false);
  const Copying copying = copies_on_gpu ? Copying::never : copying_of(copy_it);
  const On where = gpu ? On(gpu->device) : on;
  Array made = or_buffer_error([&] {
    return without_gil([&](const WaitLimit&) {
      return from_dlpack(std::move(tensor), copying, where,
                         [](std::function<void()> drop) { run_with_gil_later(std::move(drop)); });
    });
  });
  if (copies_on_gpu) {
    // The producer may write to its memory as soon as this returns. If a signal ends the wait, the
    // copy in flight keeps the memory.
    made = without_gil([&](const WaitLimit& limit) {
      Array copied = copy(made);
      copied.eval(limit);
      return copied;
    });
  }
  drain_tasks();  // a copied tensor is given back at once
  return made;
}

}  // namespace

Array import_dlpack(nb::handle object, std::optional<bool> copy_it, const On& on) {
  const std::optional<Gpu> gpu = gpu_of(object, on);
  const nb::object capsule = capsule_from(object, gpu);
  if (has_tensor<DlpackTensorVersioned>(capsule.ptr())) {
    return array_of<DlpackTensorVersioned>(capsule, copy_it, on, gpu);
  }
  if (has_tensor<DlpackTensor>(capsule.ptr())) {
    return array_of<DlpackTensor>(capsule, copy_it, on, gpu);
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
  c.def("__dlpack_device__", [](const Array& a) { return place_of(a); });
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
