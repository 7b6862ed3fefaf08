#include "holdfast/kernel/targets/cuda/cuda_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "holdfast/base/env.h"
#include "holdfast/base/shown.h"
#include "holdfast/kernel/native.h"
#include "holdfast/kernel/targets/cuda/cuda_text.h"
#include "holdfast/kernel/targets/grid_parts.h"

namespace holdfast::kernel {

namespace {

// Of a block along z, on every NVIDIA GPU.
constexpr uint32_t kMaxBlockDepth = 64;

Failure check_cuda_native(const CompileJob& job) {
  const Native& native = *job.native;
  if (!is_cuda(native.kind)) {
    return Failure(ErrorCode::unsupported,
                   fmt::format("kernel '{}': a native of kind {} does not run on an NVIDIA GPU; "
                               "give it one of kind cuda, ptx or cubin, or a body",
                               job.kernel, to_string(native.kind)));
  }
  if (native.kind == NativeKind::cuda &&
      (!is_identifier(native.entry_point) || native.entry_point == "main")) {
    return Failure(ErrorCode::usage,
                   fmt::format("kernel '{}': the entry point of its native is {}; name a function "
                               "extern \"C\" __global__ void NAME(...) of the text",
                               job.kernel, shown(native.entry_point)));
  }
  return {};
}

// As the driver takes it: with a zero at its end.
Code ptx_code(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  Code code(bytes.begin(), bytes.end());
  if (code.empty() || code.back() != std::byte{0}) code.push_back(std::byte{0});
  return code;
}

hal::CudaModule cuda_module_of(const CompileJob& job, std::span<const std::byte> code) {
  hal::CudaModule module;
  module.code.assign(code.begin(), code.end());
  module.entry_point = job.code.entry_point;
  const Interface& interface = job.code.interface;
  module.binding_lengths = interface.binding_lengths;
  if (!job.native) {
    module.threads_at = Bytes{offsetof(LaunchBlock, block)};
    module.waits_for_grids = interface.waits_for_grids;
    return module;
  }
  const Native& native = *job.native;
  if (const auto& own = native.threadgroup) module.threads = {own->x, own->y, own->z};
  for (const ParameterField& field : interface.fields) {
    if (field.kind == FieldKind::threadgroup) {
      module.threads_at = field.offset;
      module.taken_parameters = field.offset;
    }
  }
  module.shared_memory = native.shared_memory;
  module.cluster = native.cluster;
  module.cooperative = native.cooperative;
  return module;
}

Failure check_depth(uint32_t threads) {
  if (threads <= kMaxBlockDepth) return {};
  return Failure(ErrorCode::usage,
                 fmt::format("its threadgroup has {} threads along z, and NVIDIA GPUs allow {}; "
                             "turn it, so that x or y is the longest",
                             threads, kMaxBlockDepth));
}

}  // namespace

CudaTarget::CudaTarget(const hal::DeviceInfo& device)
    : architecture_(device.architecture),
      max_groups_(device.max_groups),
      debug_(env::flag("HOLDFAST_CUDA_DEBUG").value_or(false)) {}

std::span<const NativeKind> CudaTarget::natives() const noexcept {
  static constexpr std::array kKinds{NativeKind::cubin, NativeKind::ptx, NativeKind::cuda};
  return kKinds;
}

Result<GeneratedKernel> CudaTarget::generate(const Definition& definition,
                                             const CallSignature& signature,
                                             const GenerateOptions& options) const {
  GenerateOptions own = options;
  // What the code is compiled for counts, which may be older than the GPU.
  if (const Result<NvrtcLibrary> library = NvrtcLibrary::of_process()) {
    own.grids_may_overlap = has_grid_control(options_for(library.value()).architecture);
  }
  return cuda_text(definition, signature, own);
}

CudaOptions CudaTarget::options_for(const NvrtcLibrary& library) const {
  return {.architecture = architecture_for(architecture_, library.architectures()),
          .debug = debug_};
}

Result<std::string> CudaTarget::version() {
  const Result<NvrtcLibrary> library = NvrtcLibrary::of_process();
  if (!library) return fmt::format("no NVRTC; {}", architecture_);
  return cuda_compiler_version(options_for(library.value()));
}

Result<Code> CudaTarget::compile(const CompileJob& job) {
  if (job.native) {
    if (Failure refused = check_cuda_native(job)) return refused;
    if (job.native->kind == NativeKind::cubin) return job.native->module;
    if (job.native->kind == NativeKind::ptx) return ptx_code(job.native->text);
  }
  const Result<NvrtcLibrary> library = NvrtcLibrary::of_process();
  if (!library) {
    return Failure(library.failure().code(),
                   fmt::format("kernel '{}': {}", job.kernel, library.failure().message()));
  }
  CudaOptions options = options_for(library.value());
  if (job.native) options.architecture = with_own_instructions(options.architecture);
  return compile_cuda(job, options, library.value());
}

Result<Ref<hal::Pipeline>> CudaTarget::load(hal::Device& device, const CompileJob& job,
                                            std::span<const std::byte> code) {
  hal::PipelineDesc desc;
  desc.name = job.kernel;
  desc.module = cuda_module_of(job, code);
  desc.bindings = static_cast<uint32_t>(job.code.interface.bindings.size());
  desc.parameter_bytes = job.code.interface.parameter_bytes;
  return device.create_pipeline(std::move(desc));
}

Failure CudaTarget::cut(const Interface& interface, const LaunchShape& shape,
                        DispatchParts& parts) const {
  const Size3& grid = shape.grid;
  const Size3& group = shape.group;
  if (!interface.has_launch_block) {
    if (Failure refused = check_depth(group.z)) return refused;
    if (Failure refused = Target::cut(interface, shape, parts)) return refused;
    const hal::Groups& groups = parts.back().groups;
    const hal::Groups& cluster = interface.cluster;
    if (groups.x % cluster.x == 0 && groups.y % cluster.y == 0 && groups.z % cluster.z == 0) {
      return {};
    }
    return Failure(ErrorCode::usage,
                   fmt::format("its native runs in clusters of {} x {} x {} groups, and the grid "
                               "has {} x {} x {}; make it a multiple",
                               cluster.x, cluster.y, cluster.z, groups.x, groups.y, groups.z));
  }
  const bool in_step = interface.cooperation == Cooperation::barriers;
  const bool deep = std::min(grid.z, group.z) > 1;
  const bool high = deep || std::min(grid.y, group.y) > 1;
  if (Failure refused = check_depth(std::min(grid.z, group.z))) return refused;
  return cut_grid(shape, max_groups_, {.x = in_step && high, .y = in_step && deep}, parts);
}

}  // namespace holdfast::kernel
