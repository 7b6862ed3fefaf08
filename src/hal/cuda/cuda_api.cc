#include "holdfast/hal/cuda/cuda_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "holdfast/base/env.h"
#include "holdfast/base/sync/process.h"

namespace holdfast::hal {

namespace {

// CUDA 12.0, which driver 525 brought.
constexpr int kOldestVersion = 12000;
constexpr const char* kInstall = "Install NVIDIA's driver 525 or newer";

constexpr std::string_view kOptional[] = {
    "cuStreamWriteValue64", "cuStreamWaitValue64",  "cuGraphAddDependencies", "cuMemPoolTrimTo",
    "cuFuncGetParamInfo",   "cuStreamIsCapturing",  "cuCtxGetCurrent",        "cuEventQuery",
    "cuMemGetInfo",         "cuMemPoolSetAttribute"};

using GetProcAddress = cu::CUresult (*)(const char* symbol, void** address, int version,
                                        uint64_t flags, int* status);
using GetVersion = cu::CUresult (*)(int* version);

std::string text_of(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Failure refusal(std::string message) { return {ErrorCode::environment, std::move(message)}; }

Failure too_old(const std::string& name, int version) {
  return refusal(fmt::format("the driver '{}' is of CUDA {}, and Holdfast needs CUDA {}. {}", name,
                             text_of(version), text_of(kOldestVersion), kInstall));
}

// A library without the call by which the others are found.
Failure cannot_be_asked(void* library, const std::string& name) {
  const auto get_version = reinterpret_cast<GetVersion>(dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  if (get_version != nullptr && get_version(&version) == cu::CUDA_SUCCESS) {
    return too_old(name, version);
  }
  return refusal(
      fmt::format("'{}' is not NVIDIA's driver, or one that is too old: it has no "
                  "cuGetProcAddress_v2. {}, and name another library than libcuda.so.1 "
                  "in HOLDFAST_CUDA_DRIVER",
                  name, kInstall));
}

void* find_call(GetProcAddress get, const char* call, int version) {
  void* address = nullptr;
  int status = 0;
  const cu::CUresult result =
      get(call, &address, version, 0 /* CU_GET_PROC_ADDRESS_DEFAULT */, &status);
  return result == cu::CUDA_SUCCESS && status == 0 ? address : nullptr;
}

// Fills the table; the names of calls that are missing and that nothing works without.
std::string find_calls(GetProcAddress get, cu::Calls& calls) {
  std::string missing;
  const auto add = [&](auto& function, const char* call, int version) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        find_call(get, call, version));
    if (function == nullptr && !CudaApi::is_optional(call)) {
      missing += missing.empty() ? call : fmt::format(", {}", call);
    }
  };
#define HOLDFAST_CUDA_FIND(name, version, parameters) add(calls.name, #name, version);
  HOLDFAST_CUDA_CALLS(HOLDFAST_CUDA_FIND)
#undef HOLDFAST_CUDA_FIND
  return missing;
}

struct Loaded {
  std::shared_ptr<const CudaApi> api;
  uint32_t generation = 0;  // of the process that initialized it
};
using LoadedByName = sync::ProcessGuarded<std::map<std::string, Loaded>>;
// Left alive: a thread may open a device while the process ends.
LoadedByName& loaded_drivers() {
  static LoadedByName* const forever = new LoadedByName;
  return *forever;
}

Failure initialized_before_fork(const std::string& name) {
  return refusal(
      fmt::format("the driver '{}' was initialized before this process was forked, and works in "
                  "no forked process. Open CUDA devices after the fork only, or start a program "
                  "of its own (exec) instead",
                  name));
}

}  // namespace

bool CudaApi::is_optional(std::string_view call) noexcept {
  return std::ranges::find(kOptional, call) != std::end(kOptional);
}

Result<std::shared_ptr<const CudaApi>> CudaApi::load(const std::string& path) {
  const std::string name =
      !path.empty() ? path : env::text("HOLDFAST_CUDA_DRIVER").value_or("libcuda.so.1");
  const uint32_t generation = sync::fork_generation();
  {
    const auto known = loaded_drivers().lock();
    if (const auto found = known->find(name); found != known->end()) {
      if (found->second.generation != generation) return initialized_before_fork(name);
      return found->second.api;
    }
  }
  // No lock is held while a library loads; whoever loads it at the same time finds the same calls.
  const sync::NoFork whole;  // a child must not find the loader half done
  // Never closed: it has threads and exit handlers of its own.
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return refusal(
        fmt::format("NVIDIA's driver '{}' could not be loaded ({}). {}, on a machine "
                    "with an NVIDIA GPU, or name its library in HOLDFAST_CUDA_DRIVER",
                    name, dlerror(), kInstall));
  }
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) return cannot_be_asked(library, name);

  const std::shared_ptr<CudaApi> api(new CudaApi);
  const std::string missing = find_calls(get, api->calls_);
  // A driver that is too old says so, whatever else it lacks.
  if (api->calls_.cuDriverGetVersion != nullptr &&
      api->calls_.cuDriverGetVersion(&api->version_) == cu::CUDA_SUCCESS &&
      api->version_ < kOldestVersion) {
    return too_old(name, api->version_);
  }
  if (!missing.empty()) {
    return refusal(fmt::format("the driver '{}', of CUDA {}, lacks {}. {}", name,
                               text_of(api->version_), missing, kInstall));
  }
  if (const cu::CUresult result = api->calls_.cuInit(0)) {
    return refusal(
        fmt::format("the driver '{}', of CUDA {}, does not start: {}. Check with "
                    "nvidia-smi that the GPU works and that this process may use it",
                    name, text_of(api->version_), api->describe(result)));
  }
  return loaded_drivers().lock()->try_emplace(name, Loaded{api, generation}).first->second.api;
}

std::string CudaApi::describe(cu::CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (calls_.cuGetErrorName == nullptr || calls_.cuGetErrorString == nullptr ||
      calls_.cuGetErrorName(result, &name) != cu::CUDA_SUCCESS || name == nullptr) {
    return fmt::format("CUresult {}", result);
  }
  if (calls_.cuGetErrorString(result, &text) != cu::CUDA_SUCCESS || text == nullptr) return name;
  return fmt::format("{} ({})", name, text);
}

}  // namespace holdfast::hal
