#include "holdfast/hal/cuda/cuda_resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "holdfast/hal/cuda/cuda_registrations.h"
#include "holdfast/hal/deleter.h"
#include "holdfast/hal/gpu/memory_share.h"

namespace holdfast::hal {
namespace {

// What a kernel may use of a block's memory without asking for more.
constexpr uint32_t kOrdinarySharedMemory = 48 * 1024;
// How many bytes of arguments the driver passes to a kernel; more since CUDA 12.1.
constexpr uint32_t kArgumentBytes = 4096;
constexpr uint32_t kManyArgumentBytes = 32764;
constexpr int kManyArgumentsVersion = 12010;

uint32_t argument_bytes(const PipelineDesc& desc, const CudaModule& module) {
  return desc.bindings * (module.binding_lengths ? 16 : 8) +
         static_cast<uint32_t>(desc.parameter_bytes.value);
}

Failure check_module(const PipelineDesc& desc, const CudaModule& module, const CudaCore& core) {
  const auto refuse = [&](ErrorCode code, const std::string& why) {
    return Failure(code, fmt::format("kernel '{}': {}", desc.name, why));
  };
  if (module.code.empty()) return refuse(ErrorCode::usage, "its module is empty");
  if (module.threads.count() == 0 &&
      module.threads_at + Bytes{3 * sizeof(uint32_t)} > desc.parameter_bytes) {
    return refuse(ErrorCode::usage,
                  fmt::format("its module says neither how many threads a group has nor where "
                              "among the {} bytes of parameters that stands",
                              desc.parameter_bytes.value));
  }
  if (module.threads.count() > core.max_group_threads) {
    return refuse(ErrorCode::usage,
                  fmt::format("groups of {} threads are more than the {} that device '{}' has",
                              module.threads.count(), core.max_group_threads, core.name));
  }
  if (module.shared_memory.value > core.max_shared_memory) {
    return refuse(ErrorCode::unsupported,
                  fmt::format("{} of memory for a group are more than the {} that device '{}' has",
                              to_string(module.shared_memory),
                              to_string(Bytes{core.max_shared_memory}), core.name));
  }
  const uint32_t most =
      core.api->version() >= kManyArgumentsVersion ? kManyArgumentBytes : kArgumentBytes;
  if (const uint32_t bytes = argument_bytes(desc, module); bytes > most) {
    return refuse(ErrorCode::unsupported,
                  fmt::format("{} bytes of arguments are more than the {} that this driver passes; "
                              "drivers since CUDA 12.1 (530) pass more",
                              bytes, most));
  }
  return {};
}

Result<CudaCore::Memory> import_host(const CudaCore& core, const ExternalMemory& memory,
                                     std::string_view what) {
  auto* const data = static_cast<std::byte*>(memory.data);
  const Result<CudaRegistered> known = register_host_memory(core, data, memory.size, what);
  if (!known) return known.failure();
  return CudaCore::Memory{known.value().address, data, memory.size, known.value().owned};
}

}  // namespace

Result<Ref<Buffer>> CudaBuffer::create(DeviceId device, const BufferDesc& desc,
                                       const std::shared_ptr<CudaCore>& core) {
  const std::string what = fmt::format("device '{}' cannot give {} for buffer '{}'", core->name,
                                       to_string(desc.size), desc.name);
  MemoryShare share(core->used_bytes, desc.size);
  if (Failure refused = share.refusal(core->memory_limit, core->memory_limit, what)) {
    return refused;
  }
  const CudaCore::Current current(*core);
  if (Failure failure = current.failure()) return failure;
  Result<CudaCore::Memory> memory = core->allocate(desc.size, desc.kind, what);
  if (!memory) return memory.failure();
  Ref<Buffer> buffer(
      new CudaBuffer(device, desc.size, desc.kind, desc.name, false, core, memory.value()));
  share.keep();
  return buffer;
}

Result<Ref<Buffer>> CudaBuffer::import(DeviceId device, ExternalMemory& memory,
                                       const std::shared_ptr<CudaCore>& core) {
  const std::string what =
      fmt::format("external memory '{}' ({})", memory.name, to_string(memory.size));
  const CudaCore::Current current(*core);
  if (Failure failure = current.failure()) return failure;
  Result<CudaCore::Memory> native =
      memory.on_device
          ? core->import_address(reinterpret_cast<uint64_t>(memory.data), memory.size, what)
          : import_host(*core, memory, what);
  if (!native) return native.failure();
  Ref<CudaBuffer> buffer(new CudaBuffer(device, memory.size, MemoryKind::device, memory.name, true,
                                        core, native.value()));
  buffer->deleter_ = std::move(memory.deleter);
  return Ref<Buffer>(std::move(buffer));
}

CudaBuffer::~CudaBuffer() {
  give_back();
  if (fork_generation_ == sync::fork_generation()) run_deleter(deleter_, name());
}

void CudaBuffer::destroy_native() noexcept {
  const CudaCore::Current current(*core());
  if (is_imported()) {
    core()->forget_import();
    if (memory_.registered) end_registration(*core(), memory_.host, memory_.size);
    return;
  }
  core()->free(memory_);
  core()->used_bytes.fetch_sub(size().value);
}

CudaPipeline::CudaPipeline(DeviceId device, const PipelineDesc& desc, const CudaModule& module,
                           const std::shared_ptr<CudaCore>& core)
    : Pipeline(device, desc.name, desc.bindings, desc.parameter_bytes),
      CudaObject(core),
      takes_lengths_(module.binding_lengths),
      cooperative_(module.cooperative),
      waits_for_grids_(module.waits_for_grids && core->cu.cuGraphAddDependencies != nullptr),
      threads_fixed_(module.threads.count() != 0),
      threads_(module.threads),
      threads_at_(module.threads_at.value),
      cluster_(module.cluster),
      shared_memory_(static_cast<uint32_t>(module.shared_memory.value)) {}

Failure CudaPipeline::find_arguments(const CudaModule& module) {
  const uint32_t addresses = bindings() * (takes_lengths_ ? 16 : 8);
  const auto parameters =
      static_cast<uint32_t>(std::min(parameter_bytes(), module.taken_parameters).value);
  argument_bytes_ = addresses + parameters;
  const cu::Calls& cu = core()->cu;
  if (cu.cuFuncGetParamInfo == nullptr) return {};
  size_t end = 0;
  size_t offset = 0;
  size_t size = 0;
  size_t count = 0;
  bool fits = true;
  for (;;) {
    const cu::CUresult result = cu.cuFuncGetParamInfo(function_, count, &offset, &size);
    if (result == cu::CUDA_ERROR_NOT_SUPPORTED) return {};
    if (result == cu::CUDA_ERROR_INVALID_VALUE) break;  // there are no more
    if (Failure failure = core()->check(
            result, fmt::format("the arguments of kernel '{}' are unknown", name()))) {
      return failure;
    }
    end = offset + size;
    // One that stands for several pointers, a structure of them, is fine.
    fits = fits && (offset < addresses ? size % 8 == 0 && end <= addresses
                                       : offset == addresses && end <= argument_bytes_);
    ++count;
  }
  if (fits && end >= addresses) {
    argument_bytes_ = static_cast<uint32_t>(end);
    return {};
  }
  return Failure(
      ErrorCode::usage,
      fmt::format("kernel '{}' declares {} arguments of {} bytes in all; it must take {} pointers{}"
                  "{}",
                  name(), count, end, bindings(), takes_lengths_ ? ", as many 64-bit lengths" : "",
                  parameters == 0
                      ? std::string()
                      : fmt::format(", and may take one value of up to {} bytes", parameters)));
}

Result<Ref<Pipeline>> CudaPipeline::create(DeviceId device, PipelineDesc desc,
                                           const std::shared_ptr<CudaCore>& core) {
  const auto* const module = std::get_if<CudaModule>(&desc.module);
  if (module == nullptr) {
    return Failure(ErrorCode::unsupported,
                   fmt::format("kernel '{}': device '{}' runs CUDA code, and this module is none",
                               desc.name, core->name));
  }
  if (Failure refused = check_limits(desc)) return refused;
  if (Failure refused = check_module(desc, *module, *core)) return refused;
  const cu::Calls& cu = core->cu;
  const CudaCore::Current current(*core);
  if (Failure failure = current.failure()) return failure;
  Ref<CudaPipeline> pipeline(new CudaPipeline(device, desc, *module, core));
  // PTX is text, and ends with a zero; code of other kinds knows its own length.
  std::vector<std::byte> image = module->code;
  image.push_back(std::byte{0});
  if (Failure failure =
          core->check(cu.cuModuleLoadDataEx(&pipeline->module_, image.data(), 0, nullptr, nullptr),
                      fmt::format("kernel '{}' cannot be loaded", desc.name))) {
    pipeline->module_ = nullptr;
    return failure;
  }
  if (Failure failure = core->check(
          cu.cuModuleGetFunction(&pipeline->function_, pipeline->module_,
                                 module->entry_point.c_str()),
          fmt::format("kernel '{}' has no entry point '{}'", desc.name, module->entry_point))) {
    return failure;
  }
  if (Failure refused = pipeline->find_arguments(*module)) return refused;
  // Loads it now, where the driver would otherwise do so at its first launch, and wait for the GPU.
  int most_threads = 0;
  if (Failure failure = core->check(
          cu.cuFuncGetAttribute(&most_threads, cu::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                pipeline->function_),
          fmt::format("kernel '{}' cannot be loaded", desc.name))) {
    return failure;
  }
  if (module->threads.count() > static_cast<uint32_t>(most_threads)) {
    return Failure(ErrorCode::usage,
                   fmt::format("kernel '{}' uses so many registers that a group has at most {} "
                               "threads, and not {}",
                               desc.name, most_threads, module->threads.count()));
  }
  int declared = 0;  // by the code itself
  if (Failure failure =
          core->check(cu.cuFuncGetAttribute(&declared, cu::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                                            pipeline->function_),
                      fmt::format("kernel '{}' cannot be loaded", desc.name))) {
    return failure;
  }
  const auto in_all = pipeline->shared_memory_ + static_cast<uint32_t>(std::max(declared, 0));
  if (pipeline->shared_memory_ > 0 && in_all > core->max_shared_memory) {
    return Failure(ErrorCode::unsupported,
                   fmt::format("kernel '{}': {} of memory for a group, {} of it declared in its "
                               "code, are more than the {} that device '{}' has",
                               desc.name, to_string(Bytes{in_all}),
                               to_string(Bytes{static_cast<uint64_t>(declared)}),
                               to_string(Bytes{core->max_shared_memory}), core->name));
  }
  if (pipeline->shared_memory_ > 0 && in_all > kOrdinarySharedMemory) {
    if (Failure failure =
            core->check(cu.cuFuncSetAttribute(pipeline->function_,
                                              cu::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                              static_cast<int>(pipeline->shared_memory_)),
                        fmt::format("kernel '{}' cannot have {} of memory for a group", desc.name,
                                    to_string(module->shared_memory)))) {
      return failure;
    }
  }
  if (module->cluster.count() > 8) {
    (void)cu.cuFuncSetAttribute(pipeline->function_,
                                cu::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
  }
  return Ref<Pipeline>(std::move(pipeline));
}

CudaPipeline::~CudaPipeline() { give_back(); }

void CudaPipeline::destroy_native() noexcept {
  if (module_ == nullptr) return;
  const CudaCore::Current current(*core());
  (void)core()->cu.cuModuleUnload(module_);
}

}  // namespace holdfast::hal
