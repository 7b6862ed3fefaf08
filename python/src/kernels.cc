#include "holdfast/kernel.h"

#include <iterator>
#include <string>

#include "holdfast/kernel/compilers.h"
#include "holdfast/kernel/launch.h"
#include "python/src/bindings.h"
#include "python/src/convert.h"

namespace holdfast::python {
namespace {

MathMode math_mode_of(const nb::object& options) {
  if (options.is_none()) return MathMode::safe;
  MathMode mode = MathMode::safe;
  for (const auto& [key, value] : nb::cast<nb::dict>(options)) {
    const auto name = nb::cast<std::string>(key);
    if (name != "math_mode") {
      throw nb::value_error(("compile_options knows 'math_mode', not '" + name + "'").c_str());
    }
    const auto text = nb::cast<std::string>(value);
    if (text == "fast") {
      mode = MathMode::fast;
    } else if (text == "relaxed") {
      mode = MathMode::relaxed;
    } else if (text != "safe") {
      throw nb::value_error(
          ("math_mode is 'safe', 'relaxed' or 'fast', not '" + text + "'").c_str());
    }
  }
  return mode;
}

NativeKind native_kind(const std::string& name) {
  for (const NativeKind kind : {NativeKind::cpp, NativeKind::cuda, NativeKind::glsl,
                                NativeKind::spirv, NativeKind::ptx, NativeKind::cubin}) {
    if (name == kernel::to_string(kind)) return kind;
  }
  throw nb::value_error(("no kind of native code is called '" + name + "'").c_str());
}

std::vector<std::byte> bytes_of(const nb::bytes& data) {
  const auto* first = static_cast<const std::byte*>(data.data());
  return {first, first + data.size()};
}

Native make_native(const std::string& kind, const nb::object& code, const std::string& entry_point,
                   std::vector<std::string> bindings, std::vector<std::string> constants,
                   std::optional<Size3> threadgroup, Bytes shared_memory, bool cooperative) {
  Native made{.kind = native_kind(kind),
              .entry_point = entry_point,
              .bindings = std::move(bindings),
              .constants = std::move(constants),
              .threadgroup = threadgroup,
              .shared_memory = shared_memory,
              .cooperative = cooperative};
  if (nb::isinstance<nb::bytes>(code)) {
    made.module = bytes_of(nb::cast<nb::bytes>(code));
  } else {
    made.text = nb::cast<std::string>(code);
  }
  return made;
}

kernel::ConstantValue constant_of(nb::handle value) {
  if (PyBool_Check(value.ptr())) return value.is(Py_True);
  if (PyLong_Check(value.ptr())) return nb::cast<int64_t>(value);
  if (const auto dtype = dtype_from(value)) return *dtype;
  throw nb::type_error("a template argument is a bool, an int or a dtype");
}

// Pairs of a name and a value, from a dict or from a list of tuples.
template <typename F>
void each_pair(const nb::object& pairs, F f) {
  if (pairs.is_none()) return;
  const nb::object items =
      nb::isinstance<nb::dict>(pairs) ? nb::object(pairs.attr("items")()) : pairs;
  for (const nb::handle item : items) {
    const nb::object pair = nb::borrow(item);
    f(nb::cast<std::string>(pair[0]), nb::object(pair[1]));
  }
}

kernel::CallSignature signature_of(const std::vector<Array>& inputs, const KernelCall& call) {
  kernel::CallSignature made{.constants = call.constants};
  const auto rank = [](size_t n) { return static_cast<uint32_t>(n); };
  for (const Array& a : inputs) made.inputs.push_back({a.dtype(), rank(a.ndim())});
  for (const Array& a : call.in_place) made.in_place.push_back({a.dtype(), rank(a.ndim())});
  for (size_t i = 0; i < call.output_shapes.size() && i < call.output_dtypes.size(); ++i) {
    made.outputs.push_back({call.output_dtypes[i], rank(call.output_shapes[i].size())});
  }
  for (const Param& p : call.params) made.params.push_back({p.name, p.value.dtype});
  return made;
}

std::vector<Array> call_kernel(const Kernel& kernel, const std::vector<ArrayLike>& inputs,
                               std::vector<Shape> output_shapes, std::vector<Dtype> output_dtypes,
                               const Size3& grid, const Size3& threadgroup,
                               const nb::object& constants, const nb::object& init_value,
                               bool verbose, const On& on, const nb::object& params,
                               const std::vector<ArrayLike>& in_place, std::string label,
                               std::optional<bool> ensure_row_contiguous) {
  KernelCall call{.grid = grid,
                  .threadgroup = threadgroup,
                  .output_shapes = std::move(output_shapes),
                  .output_dtypes = std::move(output_dtypes),
                  .ensure_row_contiguous = ensure_row_contiguous,
                  .label = std::move(label),
                  .on = on};
  std::vector<ArrayLike> given = inputs;
  given.insert(given.end(), in_place.begin(), in_place.end());
  std::vector<Array> arrays = arrays_of(given, on);
  const auto last = arrays.begin() + static_cast<std::ptrdiff_t>(inputs.size());
  call.in_place.assign(std::make_move_iterator(last), std::make_move_iterator(arrays.end()));
  arrays.erase(last, arrays.end());
  each_pair(constants, [&](std::string name, const nb::object& value) {
    call.constants.push_back({std::move(name), constant_of(value)});
  });
  each_pair(params, [&](std::string name, const nb::object& value) {
    call.params.push_back({std::move(name), to_scalar(value)});
  });
  if (!init_value.is_none()) call.init_value = to_scalar(init_value);
  if (!verbose) return kernel(std::move(arrays), std::move(call));
  const kernel::CallSignature signature = signature_of(arrays, call);
  std::vector<Array> made = kernel(std::move(arrays), std::move(call));
  if (!made.empty()) {
    nb::print(made[0].device().kernels().generated_text(kernel, signature).c_str());
  }
  return made;
}

// What a call of warm_up gives in place of an input: an array, or its shape and dtype.
kernel::ArgumentType type_of(nb::handle given) {
  if (const Array* a = array_in(given)) return {a->dtype(), static_cast<uint32_t>(a->ndim())};
  if (PyTuple_Check(given.ptr()) && nb::len(given) == 2) {
    const nb::object pair = nb::borrow(given);
    return {nb::cast<Dtype>(pair[1]), static_cast<uint32_t>(nb::cast<Shape>(pair[0]).size())};
  }
  const Scalar number = to_scalar(given);
  return {number.dtype, 0};
}

kernel::CallSignature signature_of(const nb::dict& call) {
  kernel::CallSignature made;
  for (const auto& [key, value] : call) {
    const auto name = nb::cast<std::string>(key);
    if (name == "inputs") {
      for (const nb::handle input : value) made.inputs.push_back(type_of(input));
    } else if (name == "in_place") {
      for (const nb::handle input : value) made.in_place.push_back(type_of(input));
    } else if (name == "template") {
      each_pair(nb::borrow(value), [&](std::string n, const nb::object& v) {
        made.constants.push_back({std::move(n), constant_of(v)});
      });
    } else if (name == "params") {
      each_pair(nb::borrow(value), [&](std::string n, const nb::object& v) {
        made.params.push_back({std::move(n), to_scalar(v).dtype});
      });
    }
  }
  if (!call.contains("output_shapes") || !call.contains("output_dtypes")) {
    throw nb::value_error("a call to warm up for needs output_shapes and output_dtypes");
  }
  const auto shapes = nb::cast<std::vector<Shape>>(call["output_shapes"]);
  const auto dtypes = nb::cast<std::vector<Dtype>>(call["output_dtypes"]);
  if (shapes.size() != dtypes.size()) {
    throw nb::value_error("output_shapes and output_dtypes have different lengths");
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    made.outputs.push_back({dtypes[i], static_cast<uint32_t>(shapes[i].size())});
  }
  return made;
}

// Compiles for all calls, beside each other; the message of each that failed, None for the others.
nb::list warm_up(const Kernel& kernel, const nb::list& calls, const On& on) {
  std::vector<kernel::CallSignature> signatures;
  for (const nb::handle call : calls) signatures.push_back(signature_of(nb::cast<nb::dict>(call)));
  const std::vector<Failure> failures = without_gil([&](const WaitLimit&) {
    const Device device = on.state() ? Stream(on.state()).device() : default_device();
    return device.kernels().warm_up(kernel, signatures);
  });
  nb::list made;
  for (const Failure& failure : failures) {
    made.append(failure ? nb::object(nb::str(failure.message().c_str())) : nb::none());
  }
  return made;
}

Kernel make_kernel(const std::string& name, std::vector<std::string> input_names,
                   std::vector<std::string> output_names, std::string source, std::string header,
                   bool ensure_row_contiguous, bool atomic_outputs,
                   const nb::object& compile_options, std::vector<std::string> in_place_names,
                   std::vector<Native> natives, std::string file) {
  return Kernel({.name = name,
                 .inputs = std::move(input_names),
                 .outputs = std::move(output_names),
                 .in_place = std::move(in_place_names),
                 .source = std::move(source),
                 .header = std::move(header),
                 .atomic_outputs = atomic_outputs,
                 .math = math_mode_of(compile_options),
                 .file = std::move(file),
                 .natives = std::move(natives),
                 .ensure_row_contiguous = ensure_row_contiguous});
}

}  // namespace

void bind_kernels(nb::module_& m) {
  m.def("_add_cpp_compiler", &kernel::add_cpp_compiler, "command"_a);
  m.def("_add_nvrtc_folder", &kernel::add_nvrtc_folder, "folder"_a);
  nb::class_<Native>(m, "Native",
                     "Code for one kind of device, used there instead of a kernel's body.")
      .def(
          "__init__",
          [](Native* self, const std::string& kind, const nb::object& code,
             const std::string& entry_point, std::vector<std::string> bindings,
             std::vector<std::string> constants, std::optional<Size3> threadgroup,
             Bytes shared_memory, bool cooperative) {
            new (self)
                Native(make_native(kind, code, entry_point, std::move(bindings),
                                   std::move(constants), threadgroup, shared_memory, cooperative));
          },
          "kind"_a, "code"_a, "entry_point"_a = "main", "bindings"_a = nb::make_tuple(),
          "constants"_a = nb::make_tuple(), "threadgroup"_a = nb::none(), "shared_memory"_a = 0,
          "cooperative"_a = false,
          nb::sig("def __init__(self, kind: str, code: str | bytes, entry_point: str = 'main', "
                  "bindings: collections.abc.Sequence[str] = [], "
                  "constants: collections.abc.Sequence[str] = [], "
                  "threadgroup: tuple[int, int, int] | None = None, shared_memory: int = 0, "
                  "cooperative: bool = False) -> None"),
          "kind: 'cpp', 'cuda', 'glsl' or 'ptx' with text, 'spirv' or 'cubin' with bytes.");
  nb::class_<Kernel>(m, "Kernel", "A kernel written as text. Call it with arrays.")
      .def_prop_ro("name", &Kernel::name)
      .def("__repr__", [](const Kernel& k) { return "Kernel('" + k.name() + "')"; })
      .def("_warm_up", &warm_up, "calls"_a, "stream"_a = nb::none())
      .def("__call__", &call_kernel, nb::kw_only(), "inputs"_a, "output_shapes"_a,
           "output_dtypes"_a, "grid"_a, "threadgroup"_a, "template"_a = nb::none(),
           "init_value"_a = nb::none(), "verbose"_a = false, "stream"_a = nb::none(),
           "params"_a = nb::none(), "in_place"_a = nb::make_tuple(), "label"_a = "",
           "ensure_row_contiguous"_a = nb::none(),
           nb::sig("def __call__(self, *, "
                   "inputs: collections.abc.Sequence[array | bool | int | float], "
                   "output_shapes: collections.abc.Sequence[collections.abc.Sequence[int]], "
                   "output_dtypes: collections.abc.Sequence[Dtype], "
                   "grid: tuple[int, int, int], threadgroup: tuple[int, int, int], "
                   "template: collections.abc.Sequence[tuple[str, bool | int | Dtype]] | "
                   "dict[str, bool | int | Dtype] | None = None, "
                   "init_value: float | None = None, verbose: bool = False, "
                   "stream: Stream | Device | str | None = None, "
                   "params: dict[str, bool | int | float | typing.Any] | None = None, "
                   "in_place: collections.abc.Sequence[array] = (), label: str = '', "
                   "ensure_row_contiguous: bool | None = None) -> list[array]"),
           "Builds one node and returns its outputs, then the results of in_place.\n\n"
           "The grid counts threads. template: compiled in. params: scalars at run time, without "
           "a new variant. init_value: what outputs hold before the kernel runs. verbose: print "
           "the generated text. label: appears in errors.");
  m.def("kernel", &make_kernel, "name"_a, "input_names"_a, "output_names"_a, "source"_a = "",
        "header"_a = "", "ensure_row_contiguous"_a = true, "atomic_outputs"_a = false,
        "compile_options"_a = nb::none(), nb::kw_only(), "in_place_names"_a = nb::make_tuple(),
        "natives"_a = nb::make_tuple(), "file"_a = "",
        nb::sig("def kernel(name: str, input_names: collections.abc.Sequence[str], "
                "output_names: collections.abc.Sequence[str], source: str = '', "
                "header: str = '', ensure_row_contiguous: bool = True, "
                "atomic_outputs: bool = False, "
                "compile_options: dict[str, str] | None = None, *, "
                "in_place_names: collections.abc.Sequence[str] = (), "
                "natives: collections.abc.Sequence[Native] = (), file: str = '') -> Kernel"),
        "A kernel written as text: the body of a function in the language of docs/kernels.md, "
        "which is that of mx.fast.metal_kernel.");
}

}  // namespace holdfast::python
