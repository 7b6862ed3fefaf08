#include "holdfast/kernel.h"

#include <fmt/format.h>

#include "holdfast/c/arguments.h"
#include "holdfast/kernel/launch.h"

namespace holdfast::c {
namespace {

// In the order of hf_native_kind, with whether it is a module.
struct NativeForm {
  NativeKind kind;
  bool is_module;
};
constexpr NativeForm kNatives[] = {{NativeKind::cpp, false},  {NativeKind::cuda, false},
                                   {NativeKind::glsl, false}, {NativeKind::spirv, true},
                                   {NativeKind::ptx, false},  {NativeKind::cubin, true}};
static_assert(std::size(kNatives) == HF_NATIVE_CUBIN + 1);

bool is_set(const hf_size3& size) { return size.x != 0 || size.y != 0 || size.z != 0; }
Size3 size_of_groups(const hf_size3& size) { return {size.x, size.y, size.z}; }

Native native_of(const hf_native* given) {
  const hf_native in = read_struct(given, "hf_native");
  const NativeForm form = entry(kNatives, in.kind, "hf_native_kind");
  Native native{.kind = form.kind};
  if (form.is_module) {
    const auto bytes = list_of(static_cast<const std::byte*>(in.code), in.code_size, "code");
    native.module.assign(bytes.begin(), bytes.end());
  } else {
    native.text = text_of({static_cast<const char*>(in.code), in.code_size}, "code");
  }
  if (in.entry_point.length != 0) native.entry_point = text_of(in.entry_point, "entry_point");
  native.bindings = texts_of(in.bindings, in.binding_count, "bindings");
  native.constants = texts_of(in.constants, in.constant_count, "constants");
  if (in.addresses != 0) native.reaches = hal::SpirvBindings::addresses;
  if (is_set(in.threadgroup)) native.threadgroup = size_of_groups(in.threadgroup);
  if (is_set(in.cluster)) native.cluster = {in.cluster.x, in.cluster.y, in.cluster.z};
  native.shared_memory = Bytes{in.shared_memory};
  native.cooperative = in.cooperative != 0;
  return native;
}

KernelDefinition definition_of(const hf_kernel_definition* given) {
  const hf_kernel_definition in = read_struct(given, "hf_kernel_definition");
  constexpr uint32_t kFlags =
      HF_KERNEL_ATOMIC_OUTPUTS | HF_KERNEL_STRIDED_INPUTS | HF_KERNEL_VERBOSE;
  if ((in.flags & ~kFlags) != 0) {
    throw ArgumentError(fmt::format("the flags {:#x} of a kernel are not known; these are: {:#x}",
                                    in.flags, kFlags));
  }
  if (in.math != HF_MATH_SAFE && in.math != HF_MATH_FAST) raise_code("hf_math_mode", in.math);
  KernelDefinition definition;
  definition.name = text_of(in.name, "name");
  definition.inputs = texts_of(in.inputs, in.input_count, "inputs");
  definition.outputs = texts_of(in.outputs, in.output_count, "outputs");
  definition.in_place = texts_of(in.in_place, in.in_place_count, "in_place");
  definition.source = text_of(in.source, "source");
  definition.header = text_of(in.header, "header");
  definition.file = text_of(in.file, "file");
  definition.math = in.math == HF_MATH_FAST ? MathMode::fast : MathMode::safe;
  definition.atomic_outputs = (in.flags & HF_KERNEL_ATOMIC_OUTPUTS) != 0;
  definition.ensure_row_contiguous = (in.flags & HF_KERNEL_STRIDED_INPUTS) == 0;
  definition.verbose = (in.flags & HF_KERNEL_VERBOSE) != 0;
  for (const hf_native* const native : list_of(in.natives, in.native_count, "natives")) {
    definition.natives.push_back(native_of(native));
  }
  return definition;
}

Constant constant_of(const hf_constant& in) {
  const std::string name = text_of(in.name, "the name of a constant");
  switch (in.kind) {
    case HF_CONSTANT_BOOL: return {name, in.value != 0};
    case HF_CONSTANT_INT: return {name, in.value};
    case HF_CONSTANT_DTYPE:
      if (in.value != static_cast<hf_dtype>(in.value)) {
        throw ArgumentError(fmt::format("{} is no dtype", in.value));
      }
      return {name, dtype_of(static_cast<hf_dtype>(in.value))};
    default: raise_code("hf_constant_kind", in.kind);
  }
}

struct CallWithInputs {
  std::vector<Array> inputs;
  KernelCall call;
};

CallWithInputs call_of(const hf_kernel_call* given) {
  const hf_kernel_call in = read_struct(given, "hf_kernel_call");
  CallWithInputs made{arrays_of(in.inputs, in.input_count, "inputs"), {}};
  KernelCall& call = made.call;
  call.grid = size_of_groups(in.grid);
  call.threadgroup = size_of_groups(in.threadgroup);
  for (const hf_output& output : list_of(in.outputs, in.output_count, "outputs")) {
    call.output_shapes.push_back(dims_of(output.shape, output.ndim, "the shape of an output"));
    call.output_dtypes.push_back(dtype_of(output.dtype));
  }
  call.in_place = arrays_of(in.in_place, in.in_place_count, "in_place");
  for (const hf_constant& constant : list_of(in.constants, in.constant_count, "constants")) {
    call.constants.push_back(constant_of(constant));
  }
  for (const hf_param& param : list_of(in.params, in.param_count, "params")) {
    call.params.push_back({text_of(param.name, "the name of a param"), scalar_of(param.value)});
  }
  if (in.init_value != nullptr) call.init_value = scalar_of(*in.init_value);
  call.label = text_of(in.label, "label");
  call.on = on_of(in.stream);
  switch (in.layouts) {
    case HF_LAYOUTS_DEFAULT: break;
    case HF_LAYOUTS_ROW_CONTIGUOUS: call.ensure_row_contiguous = true; break;
    case HF_LAYOUTS_AS_THEY_LIE: call.ensure_row_contiguous = false; break;
    default: raise_code("hf_layouts", in.layouts);
  }
  return made;
}

kernel::CallSignature signature_of(const CallWithInputs& given) {
  kernel::CallSignature made{.constants = given.call.constants};
  const auto type_of = [](const Array& a) {
    return kernel::ArgumentType{a.dtype(), static_cast<uint32_t>(a.ndim())};
  };
  for (const Array& a : given.inputs) made.inputs.push_back(type_of(a));
  for (const Array& a : given.call.in_place) made.in_place.push_back(type_of(a));
  for (size_t i = 0; i < given.call.output_shapes.size(); ++i) {
    made.outputs.push_back(
        {given.call.output_dtypes[i], static_cast<uint32_t>(given.call.output_shapes[i].size())});
  }
  for (const Param& p : given.call.params) made.params.push_back({p.name, p.value.dtype});
  return made;
}

// The device that the call would run on. Checks the call as a run does.
Device device_of(const Kernel& kernel, const CallWithInputs& given) {
  return kernel(given.inputs, given.call).at(0).device();
}

}  // namespace
}  // namespace holdfast::c

using namespace holdfast::c;

hf_status hf_kernel_create(const hf_kernel_definition* definition, hf_kernel** kernel) {
  return give(__func__, kernel, [&] { return holdfast::Kernel(definition_of(definition)); });
}

hf_kernel* hf_kernel_retain(hf_kernel* kernel) { return retain(__func__, kernel); }
void hf_kernel_release(hf_kernel* kernel) { release(__func__, kernel); }

hf_status hf_kernel_name(hf_kernel* kernel, const char** name) {
  return call(__func__, [&] { needed(name, "name") = value_of(kernel, "kernel").name().c_str(); });
}

hf_status hf_kernel_run(hf_kernel* kernel, const hf_kernel_call* call, size_t count,
                        hf_array** results) {
  return holdfast::c::call(__func__, [&] {
    const holdfast::Kernel& of = value_of(kernel, "kernel");
    CallWithInputs given = call_of(call);
    const size_t made = given.call.output_shapes.size() + given.call.in_place.size();
    if (count != made) {
      throw ArgumentError(
          fmt::format("there is room for {} results, and the call of kernel '{}' gives {}: its "
                      "outputs, then those of in_place",
                      count, of.name(), made));
    }
    if (count != 0) needed(results, "results");
    std::vector<std::unique_ptr<hf_array>> handles;
    for (holdfast::Array& array : of(std::move(given.inputs), std::move(given.call))) {
      handles.push_back(std::make_unique<hf_array>(std::move(array)));
    }
    for (size_t i = 0; i < handles.size(); ++i) results[i] = handles[i].release();
  });
}

hf_status hf_kernel_warm_up(hf_kernel* kernel, const hf_kernel_call* call) {
  return holdfast::c::call(__func__, [&] {
    const holdfast::Kernel& of = value_of(kernel, "kernel");
    const CallWithInputs given = call_of(call);
    const auto signature = signature_of(given);
    for (const holdfast::Failure& failure :
         device_of(of, given).kernels().warm_up(of, std::span(&signature, 1))) {
      failure.raise_if_any();
    }
  });
}

hf_status hf_kernel_text(hf_kernel* kernel, const hf_kernel_call* call, char** text) {
  return give_text(__func__, text, [&] {
    const holdfast::Kernel& of = value_of(kernel, "kernel");
    const CallWithInputs given = call_of(call);
    return device_of(of, given).kernels().generated_text(of, signature_of(given));
  });
}
