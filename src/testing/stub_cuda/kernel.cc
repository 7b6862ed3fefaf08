#include "holdfast/testing/stub_cuda/kernel.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "holdfast/base/rounding.h"
#include "holdfast/testing/stub_cuda/calls.h"
#include "holdfast/testing/stub_cuda/memory.h"
#include "holdfast/testing/stub_cuda/stream.h"

// Modules and launches. A module is the text "holdfast stub module\n" and a line for each of its
// kernels: its name and, if it says which arguments it declares, the bytes of each ("copy 8 8 4").
// "waits" after the name stands for griddepcontrol.wait. What a name does is what a test
// registered.

// NOLINTBEGIN(readability-identifier-naming): the driver's names.

namespace holdfast::stub_cuda {

namespace {

constexpr std::string_view kHeader = "holdfast stub module\n";
// What the driver refuses with a log, as PTX that does not compile.
constexpr std::string_view kBrokenPtx = "holdfast broken ptx\n";
constexpr std::string_view kElf = "\177ELF";

// HOLDFAST_STUB_CUDA_IDLE=1, for programs that bring code for a GPU: other images are taken, too,
// and have every kernel that is asked for. What no test registered does nothing.
bool takes_any_image() {
  const char* const text = std::getenv("HOLDFAST_STUB_CUDA_IDLE");  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr && std::string_view(text) == "1";
}
CUfunction idle_function(State& state, const std::shared_ptr<Module>& module, const char* name) {
  auto made = std::make_shared<Function>();
  made->name = name;
  made->module = module;
  const auto registered = state.kernels.find(std::string_view(name));
  if (registered != state.kernels.end()) {
    made->kernel = registered->second;
  } else {
    made->kernel = [](const StubLaunch&) { return CUDA_SUCCESS; };
  }
  return state.functions.add(std::move(made));
}

constexpr int kErrorLog = 5;      // CU_JIT_ERROR_LOG_BUFFER
constexpr int kErrorLogSize = 6;  // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES

void write_log(unsigned count, const int* options, void* const* values, std::string_view text) {
  char* log = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == kErrorLog) log = static_cast<char*>(values[i]);
    if (options[i] == kErrorLogSize)
      size = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(values[i]));
  }
  if (log == nullptr || size == 0) return;
  const size_t copied = std::min(text.size(), size - 1);
  std::memcpy(log, text.data(), copied);
  log[copied] = '\0';
}

// The part of the text up to this character, which is taken out, too.
std::string_view take_until(std::string_view& text, char end) {
  const size_t at = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return taken;
}

void add_kernel(Module& module, std::string_view line) {
  const std::string name(take_until(line, ' '));
  if (name.empty()) return;
  KernelImage& kernel = module.kernels[name];
  while (!line.empty()) {
    const std::string word(take_until(line, ' '));
    if (word == "waits") {
      kernel.waits_for_grids = true;
      continue;
    }
    if (!kernel.arguments) kernel.arguments.emplace();
    kernel.arguments->push_back(std::strtoull(word.c_str(), nullptr, 10));
  }
}

// Where the argument after `end` bytes of others begins: as a compiler aligns pointers, lengths and
// the block of parameters.
size_t next_offset(size_t end) { return round_up<size_t>(end, 8); }

// What all of them take.
size_t argument_bytes(const std::vector<size_t>& sizes) {
  size_t end = 0;
  for (const size_t size : sizes) end = next_offset(end) + size;
  return end;
}

uint64_t count_of(const Size3& size) { return uint64_t{size.x} * size.y * size.z; }

// The bytes that arguments may have.
size_t argument_limit(const State& state) { return state.version >= 12010 ? 32764 : 4096; }

CUresult take_arguments(const State& state, void* const* extra, std::vector<std::byte>& arguments) {
  const std::byte* begin = nullptr;
  size_t size = 0;
  for (size_t i = 0; reinterpret_cast<uintptr_t>(extra[i]) != CU_LAUNCH_PARAM_END; i += 2) {
    switch (reinterpret_cast<uintptr_t>(extra[i])) {
      case CU_LAUNCH_PARAM_BUFFER_POINTER:
        begin = static_cast<const std::byte*>(extra[i + 1]);
        break;
      case CU_LAUNCH_PARAM_BUFFER_SIZE: size = *static_cast<const size_t*>(extra[i + 1]); break;
      default: return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if ((begin == nullptr && size > 0) || size > argument_limit(state)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  arguments.assign(begin, begin + size);
  return CUDA_SUCCESS;
}

CUresult check_attributes(const Device& device, const Launch& launch,
                          const CUlaunchConfig& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const auto& cluster = attribute.value.clusterDim;
      const uint64_t blocks = uint64_t{cluster.x} * cluster.y * cluster.z;
      if (blocks == 0 || blocks > (launch.function->large_clusters ? 16U : 8U) ||
          launch.grid.x % cluster.x != 0 || launch.grid.y % cluster.y != 0 ||
          launch.grid.z % cluster.z != 0) {
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
      }
    } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE &&
               attribute.value.cooperative != 0) {
      int supported = 0;
      int processors = 0;
      attribute_of(device, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, supported);
      attribute_of(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, processors);
      if (supported == 0) return CUDA_ERROR_NOT_SUPPORTED;
      constexpr uint64_t kThreadsOfProcessor = 2048;
      if (count_of(launch.grid) * count_of(launch.block) >
          static_cast<uint64_t>(processors) * kThreadsOfProcessor) {
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
      }
    }
  }
  return CUDA_SUCCESS;
}

CUresult launch_on(const char* call, CUfunction function, const CUlaunchConfig& config,
                   void* const* parameters, void* const* extra) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Stream> on;
  if (const CUresult result = find_stream(*held, config.hStream, call, on)) return result;
  Launch launch;
  if (const CUresult result = find(*held, held->functions, function, call, launch.function)) {
    return result;
  }
  if (launch.function->module->context != on->context) return CUDA_ERROR_INVALID_HANDLE;
  launch.grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
  launch.block = {config.blockDimX, config.blockDimY, config.blockDimZ};
  launch.shared_bytes = config.sharedMemBytes;
  if (const CUresult result = make_launch(*held, *context, call, launch, parameters, extra)) {
    return result;
  }
  const Device& device = held->devices.at(static_cast<size_t>(context->device));
  if (const CUresult result = check_attributes(device, launch, config)) return result;
  auto operation = std::make_shared<Operation>();
  operation->what = launch.function->name;
  if (const CUresult result = use_by(*held, *operation, launch)) return result;
  operation->run = [launch = std::move(launch)] { return run(launch); };
  enqueue(*held, on, std::move(operation));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult make_launch(State& state, const Context& context, const char* call, Launch& launch,
                     void* const* parameters, void* const* extra) {
  const Device& device = state.devices.at(static_cast<size_t>(context.device));
  const auto limit = [&](int attribute) {
    int value = 0;
    attribute_of(device, attribute, value);
    return static_cast<uint64_t>(value);
  };
  const auto& [grid, block] = std::tie(launch.grid, launch.block);
  if (count_of(grid) == 0 || count_of(block) == 0 ||
      grid.x > limit(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) ||
      grid.y > limit(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) ||
      grid.z > limit(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) || block.x > 1024 || block.y > 1024 ||
      block.z > 64 || count_of(block) > limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) ||
      launch.shared_bytes > static_cast<unsigned>(launch.function->dynamic_shared_limit)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (parameters != nullptr && !launch.function->module->idle) {
    violation(state, "{} with kernelParams: the stub takes arguments as one block of bytes", call);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (extra != nullptr) {
    if (const CUresult result = take_arguments(state, extra, launch.arguments)) return result;
  }
  const ArgumentSizes& declared = launch.function->arguments;
  if (!declared || launch.arguments.size() >= argument_bytes(*declared)) return CUDA_SUCCESS;
  violation(state, "{} gives '{}' {} bytes of arguments, and it declares {}", call,
            launch.function->name, launch.arguments.size(), argument_bytes(*declared));
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult use_by(State& state, Operation& operation, const Launch& launch) {
  const std::shared_ptr<Module>& module = launch.function->module;
  if (module->unloaded) {
    violation(state, "'{}' was to run a kernel of a module that is unloaded", operation.what);
    return CUDA_ERROR_INVALID_HANDLE;
  }
  auto& modules = operation.modules;
  if (std::ranges::find(modules, module) == modules.end()) modules.push_back(module);
  for (size_t at = 0; at + sizeof(uint64_t) <= launch.arguments.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, launch.arguments.data() + at, sizeof(word));
    use_if_pointer(state, operation, word);
  }
  return CUDA_SUCCESS;
}

CUresult run(const Launch& launch) {
  StubLaunch block{launch.grid,
                   launch.block,
                   {},
                   launch.shared_bytes,
                   launch.arguments.data(),
                   launch.arguments.size()};
  auto& at = block.block_index;
  for (at.z = 0; at.z < launch.grid.z; ++at.z) {
    for (at.y = 0; at.y < launch.grid.y; ++at.y) {
      for (at.x = 0; at.x < launch.grid.x; ++at.x) {
        if (const CUresult result = launch.function->kernel(block)) return result;
      }
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, int* options,
                            void** values) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto begins_with = [image](std::string_view text) {
    return std::strncmp(static_cast<const char*>(image), text.data(), text.size()) == 0;
  };
  const bool idle = takes_any_image() && !begins_with(kHeader);
  if (begins_with(kElf) && !idle) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  if (begins_with(kBrokenPtx)) {
    write_log(count, options, values, "ptxas stub, line 2; fatal   : Parsing error near 'broken'");
    return CUDA_ERROR_INVALID_PTX;
  }
  if (!begins_with(kHeader) && !idle) return CUDA_ERROR_INVALID_IMAGE;
  auto made = std::make_shared<Module>();
  made->context = context;
  made->idle = idle;
  std::string_view rest(idle ? "" : static_cast<const char*>(image));
  if (!idle) rest.remove_prefix(kHeader.size());
  while (!rest.empty()) add_kernel(*made, take_until(rest, '\n'));
  *module = held->modules.add(std::move(made));
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Module> found;
  if (const CUresult result = find(*held, held->modules, module, __func__, found)) return result;
  if (found->users > 0) {
    violation(*held, "cuModuleUnload of the module with '{}' while a kernel of it is in flight",
              found->kernels.empty() ? "" : found->kernels.begin()->first);
  }
  count_if_synchronising(*held, *found->context, __func__);
  found->unloaded = true;
  held->functions.remove_if([&](const Function& function) { return function.module == found; });
  held->modules.remove(module);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Module> found;
  if (const CUresult result = find(*held, held->modules, module, __func__, found)) return result;
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found->idle) {
    *function = idle_function(*held, found, name);
    return CUDA_SUCCESS;
  }
  const auto kernel = held->kernels.find(std::string_view(name));
  const auto declared = found->kernels.find(std::string_view(name));
  if (declared == found->kernels.end() || kernel == held->kernels.end()) {
    return CUDA_ERROR_NOT_FOUND;
  }
  auto made = std::make_shared<Function>();
  made->name = name;
  made->module = found;
  made->kernel = kernel->second;
  made->arguments = declared->second.arguments;
  made->waits_for_grids = declared->second.waits_for_grids;
  *function = held->functions.add(std::move(made));
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, int attribute, CUfunction function) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Function> found;
  if (const CUresult result = find(*held, held->functions, function, __func__, found)) {
    return result;
  }
  if (value == nullptr || attribute < 0) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return attribute_of(held->devices.at(static_cast<size_t>(context->device)),
                          CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, *value);
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = found->dynamic_shared_limit;
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = found->large_clusters ? 1 : 0;
      break;
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* size) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Function> found;
  if (const CUresult result = find(*held, held->functions, function, __func__, found)) {
    return result;
  }
  if (!found->arguments) return CUDA_ERROR_NOT_SUPPORTED;
  if (offset == nullptr || index >= found->arguments->size()) return CUDA_ERROR_INVALID_VALUE;
  const auto begin = found->arguments->begin();
  *offset = next_offset(argument_bytes({begin, begin + static_cast<ptrdiff_t>(index)}));
  if (size != nullptr) *size = found->arguments->at(index);
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Function> found;
  if (const CUresult result = find(*held, held->functions, function, __func__, found)) {
    return result;
  }
  if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
    found->large_clusters = value != 0;
    return CUDA_SUCCESS;
  }
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  int most = 0;
  attribute_of(held->devices.at(static_cast<size_t>(context->device)),
               CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, most);
  if (value < 0 || value > most) return CUDA_ERROR_INVALID_VALUE;
  found->dynamic_shared_limit = value;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** arguments, void** extra) {
  CUlaunchConfig config;
  config.gridDimX = grid_x;
  config.gridDimY = grid_y;
  config.gridDimZ = grid_z;
  config.blockDimX = block_x;
  config.blockDimY = block_y;
  config.blockDimZ = block_z;
  config.sharedMemBytes = shared_bytes;
  config.hStream = stream;
  return launch_on(__func__, function, config, arguments, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments,
                          void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return launch_on(__func__, function, *config, arguments, extra);
}

}  // namespace holdfast::stub_cuda

// NOLINTEND(readability-identifier-naming)
