#include "holdfast/device.h"

#include <memory>

#include "holdfast/stream.h"
#include "python/src/bindings.h"

namespace holdfast::python {
namespace {

// `with hf.stream(s):`
class StreamScope {
 public:
  explicit StreamScope(Stream stream) : stream_(std::move(stream)) {}
  StreamScope(StreamScope&&) = default;
  StreamScope(const StreamScope&) = delete;
  Stream enter() {
    scopes_.push_back(std::make_unique<UseStream>(stream_));
    return stream_;
  }
  void exit() {
    if (!scopes_.empty()) scopes_.pop_back();
  }

 private:
  Stream stream_;
  std::vector<std::unique_ptr<UseStream>> scopes_;
};

Stream stream_of(nb::handle given) {
  if (nb::isinstance<Stream>(given)) return *nb::inst_ptr<Stream>(given);
  if (nb::isinstance<Device>(given)) return nb::inst_ptr<Device>(given)->default_stream();
  if (nb::isinstance<nb::str>(given)) return device(nb::cast<std::string>(given)).default_stream();
  if (given.is_none()) return default_device().default_stream();
  throw nb::type_error("a Stream, a Device or the name of one is needed here");
}

Device device_of(nb::handle given) {
  if (nb::isinstance<Stream>(given)) return nb::inst_ptr<Stream>(given)->device();
  return stream_of(given).device();
}

// Functions of a device that take the default one where none is given.
template <typename F>
void of_device(nb::module_& m, const char* name, F f, const char* doc) {
  m.def(
      name, [f](nb::handle device) { return f(device_of(device)); },
      nb::arg("device").none() = nb::none(), doc);
}

void bind_device(nb::module_& m) {
  nb::class_<Device>(m, "Device",
                     "A device and what arrays on it need: memory, compiled kernels, streams.")
      .def(
          "__init__",
          [](Device* self, const std::string& name) {
            new (self) Device(without_gil([&](const WaitLimit&) { return device(name); }));
          },
          "name"_a, "The process's one device of that name: 'cpu', 'cuda:0', 'vulkan'.")
      .def_prop_ro("name", &Device::name)
      .def_prop_ro("description", &Device::description)
      .def_prop_ro("default_stream", &Device::default_stream)
      .def("new_stream", &Device::new_stream, "name"_a = "")
      .def(
          "synchronize",
          [](const Device& d, std::optional<double> timeout) {
            without_gil([held = d](const WaitLimit& limit) { held.synchronize(limit); }, timeout);
          },
          "timeout"_a = nb::none(), "Waits for everything recorded; raises the first failure.")
      .def("stats", &Device::stats)
      .def("set_memory_limit", &Device::set_memory_limit, "limit"_a)
      .def("set_cache_limit", &Device::set_cache_limit, "limit"_a)
      .def("clear_cache", &Device::clear_cache)
      .def("clear_kernels", &Device::clear_kernels)
      .def("set_profiling", &Device::set_profiling, "on"_a)
      .def(
          "kernel_times",
          [](const Device& d) {
            nb::list rows;
            for (const KernelTime& row : d.kernel_times()) {
              rows.append(nb::make_tuple(row.kernel, row.dispatches,
                                         std::chrono::duration<double>(row.total).count()));
            }
            return rows;
          },
          nb::sig("def kernel_times(self) -> list[tuple[str, int, float]]"),
          "Kernel, dispatches and seconds, longest first, of what ran while profiling was on.")
      .def(
          "__eq__", [](const Device& a, const Device& b) { return a == b; }, nb::is_operator())
      .def("__hash__", [](const Device& d) { return nb::hash(nb::cast(d.name())); })
      .def("__repr__", [](const Device& d) { return "Device('" + d.name() + "')"; })
      .def("__str__", [](const Device& d) { return d.name(); })
      .def("__reduce__", [](const Device& d) {
        return nb::make_tuple(nb::type<Device>(), nb::make_tuple(d.name()));
      });
}

void bind_stream(nb::module_& m) {
  nb::class_<Stream>(m, "Stream",
                     "Nodes of one stream run as if one after another; streams run concurrently.")
      .def_prop_ro("device", &Stream::device)
      .def_prop_ro("name", &Stream::name)
      .def(
          "flush",
          [](const Stream& s) { without_gil([held = s](const WaitLimit&) { held.flush(); }); },
          "Submits what was recorded; never waits for the device.")
      .def(
          "synchronize",
          [](const Stream& s, std::optional<double> timeout) {
            without_gil([held = s](const WaitLimit& limit) { held.synchronize(limit); }, timeout);
          },
          "timeout"_a = nb::none(), "Waits for everything recorded here.")
      .def(
          "wait_for",
          [](const Stream& s, const Stream& other) {
            without_gil([held = s, other](const WaitLimit&) { held.wait_for(other); });
          },
          "other"_a, "Later work here waits, on the device, for what `other` has recorded.")
      .def(
          "__eq__", [](const Stream& a, const Stream& b) { return a == b; }, nb::is_operator())
      .def("__hash__",
           [](const Stream& s) {
             return reinterpret_cast<uintptr_t>(s.runtime_stream().get()) >> 4;
           })
      .def("__repr__", [](const Stream& s) {
        return "Stream('" + s.name() + "', device='" + s.device().name() + "')";
      });
  nb::class_<StreamScope>(m, "StreamScope", "What hf.stream returns.")
      .def("__enter__", &StreamScope::enter)
      .def(
          "__exit__", [](StreamScope& s, const nb::args&) { s.exit(); },
          nb::sig("def __exit__(self, *args: typing.Any) -> None"));
}

}  // namespace

void bind_devices(nb::module_& m) {
  bind_device(m);
  bind_stream(m);
  m.def(
      "device",
      [](const std::string& name) {
        return without_gil([&](const WaitLimit&) { return device(name); });
      },
      "name"_a, "The process's one device of that name, opened on first use.");
  m.def(
      "default_device",
      [] { return without_gil([](const WaitLimit&) { return default_device(); }); },
      "HOLDFAST_DEVICE's, else the first GPU that kernels can be compiled for, else the CPU.");
  m.def(
      "set_default_device", [](nb::handle device) { set_default_device(device_of(device)); },
      "device"_a, nb::sig("def set_default_device(device: Device | str) -> None"));
  m.def(
      "devices",
      [] {
        const auto all = without_gil([](const WaitLimit&) { return devices(); });
        nb::dict made;
        for (const DeviceListing& d : all) {
          made[nb::cast(d.name)] =
              d.missing.empty() ? d.description : "not available: " + d.missing;
        }
        return made;
      },
      nb::sig("def devices() -> dict[str, str]"),
      "The names that hf.device accepts here, each with a description.");
  m.def("default_stream", &stream_of, nb::arg("device").none() = nb::none(),
        nb::sig("def default_stream(device: Device | str | None = None) -> Stream"));
  m.def(
      "new_stream",
      [](nb::handle device, const std::string& name) { return device_of(device).new_stream(name); },
      nb::arg("device").none() = nb::none(), "name"_a = "",
      nb::sig("def new_stream(device: Device | str | None = None, name: str = '') -> Stream"));
  m.def(
      "stream", [](nb::handle stream) { return StreamScope(stream_of(stream)); }, "stream"_a,
      nb::sig("def stream(stream: Stream | Device | str) -> StreamScope"),
      "with hf.stream(s): sends what this thread builds to s.");
  m.def(
      "synchronize",
      [](nb::handle stream, std::optional<double> timeout) {
        drain_tasks();
        if (nb::isinstance<Stream>(stream)) {
          without_gil(
              [s = *nb::inst_ptr<Stream>(stream)](const WaitLimit& limit) { s.synchronize(limit); },
              timeout);
          return;
        }
        without_gil([d = device_of(stream)](const WaitLimit& limit) { d.synchronize(limit); },
                    timeout);
      },
      nb::arg("stream").none() = nb::none(), "timeout"_a = nb::none(),
      nb::sig("def synchronize(stream: Stream | Device | str | None = None, "
              "timeout: float | None = None) -> None"),
      "Waits for everything recorded on the stream or device.");

  of_device(
      m, "stats", [](const Device& d) { return d.stats(); },
      "Counters: waits by reason, memory, compiles, donations, hidden copies.");
  of_device(
      m, "get_active_memory", [](const Device& d) { return d.stats().active_memory(); },
      "Bytes in use.");
  of_device(
      m, "get_peak_memory", [](const Device& d) { return d.stats().peak_memory(); },
      "The most bytes that were in use.");
  of_device(
      m, "get_cache_memory", [](const Device& d) { return d.stats().cache_memory(); },
      "Free bytes that are kept for later arrays.");
  of_device(
      m, "clear_cache", [](const Device& d) { d.clear_cache(); },
      "Gives all free memory back to the device.");
  m.def(
      "set_memory_limit", [](Bytes limit) { set_memory_limit(limit); }, "limit"_a,
      "The most memory that arrays of the default device may use; zero: the device's own limit.");
  m.def(
      "set_cache_limit", [](Bytes limit) { set_cache_limit(limit); }, "limit"_a,
      "How much free memory of the default device is kept for later arrays.");
}

}  // namespace holdfast::python
