#include "holdfast/kernel/targets/cuda/nvrtc_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "holdfast/base/env.h"
#include "holdfast/base/sync/process.h"
#include "holdfast/kernel/compilers/added.h"

namespace holdfast::kernel {

namespace {

constexpr int kOldestMajor = 12;

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, NvrtcLibrary::Calls& calls) {
  return find(library, "nvrtcVersion", calls.version) &&
         find(library, "nvrtcGetErrorString", calls.error_string) &&
         find(library, "nvrtcCreateProgram", calls.create) &&
         find(library, "nvrtcDestroyProgram", calls.destroy) &&
         find(library, "nvrtcCompileProgram", calls.compile) &&
         find(library, "nvrtcGetProgramLogSize", calls.log_size) &&
         find(library, "nvrtcGetProgramLog", calls.log) &&
         find(library, "nvrtcGetPTXSize", calls.ptx_size) &&
         find(library, "nvrtcGetPTX", calls.ptx) &&
         find(library, "nvrtcGetCUBINSize", calls.cubin_size) &&
         find(library, "nvrtcGetCUBIN", calls.cubin);
}

std::vector<int> architectures_of(void* library, NvrtcLibrary::Calls& calls) {
  int count = 0;
  if (!find(library, "nvrtcGetNumSupportedArchs", calls.architecture_count) ||
      !find(library, "nvrtcGetSupportedArchs", calls.architectures) ||
      calls.architecture_count(&count) != 0 || count <= 0) {
    return {};
  }
  std::vector<int> found(static_cast<size_t>(count));
  if (calls.architectures(found.data()) != 0) return {};
  std::ranges::sort(found);
  return found;
}

std::string file_of(const NvrtcLibrary::Calls& calls, const std::string& name) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(calls.version), &info) != 0 && info.dli_fname) {
    return info.dli_fname;
  }
  return name;
}

std::string describe_file(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return fmt::format(", {} bytes of {}.{:09}", status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

}  // namespace

std::vector<std::string> nvrtc_names() {
  constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  std::vector<std::string> result;
  const auto add = [&](const std::string& folder) {
    for (const char* name : kNames) result.push_back(folder + name);
  };
  if (auto folder = env::text("HOLDFAST_NVRTC_DIR")) add(*folder + "/");
  add("");
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (auto folder = env::text(variable)) add(*folder + "/lib64/");
  }
  add("/usr/local/cuda/lib64/");
  for (const std::string& folder : added_nvrtc_folders()) add(folder + "/");
  return result;
}

Result<NvrtcLibrary> NvrtcLibrary::load(std::span<const std::string> names) {
  const sync::NoFork whole;  // a child must not find the loader half done
  std::vector<std::string> unusable;
  for (const std::string& name : names) {
    // Never closed: it may have threads and exit handlers of its own.
    void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    NvrtcLibrary found;
    int major = 0;
    int minor = 0;
    if (!find_all(library, found.calls_) || found.calls_.version(&major, &minor) != 0) {
      unusable.push_back(fmt::format("{} is not a working NVRTC", name));
      continue;
    }
    if (major < kOldestMajor) {
      unusable.push_back(fmt::format("{} is of CUDA {}.{}, too old", name, major, minor));
      continue;
    }
    found.architectures_ = architectures_of(library, found.calls_);
    found.path_ = file_of(found.calls_, name);
    found.version_ = fmt::format("NVRTC {}.{}{}", major, minor, describe_file(found.path_));
    return found;
  }
  if (unusable.empty()) unusable.push_back(fmt::format("tried {}", fmt::join(names, ", ")));
  return Failure(
      ErrorCode::environment,
      fmt::format("CUDA kernels are compiled by NVRTC, which was not found. Install the "
                  "CUDA toolkit {} or later (its libnvrtc is enough; in Python: pip install "
                  "holdfast[cuda]), and say where it "
                  "is by CUDA_HOME unless it is in /usr/local/cuda ({})",
                  kOldestMajor, fmt::join(unusable, "; ")));
}

Result<NvrtcLibrary> NvrtcLibrary::of_process() {
  // Left alive: a thread may compile while the process ends.
  static auto& loaded = *new sync::ProcessGuarded<std::optional<NvrtcLibrary>>();
  if (auto known = loaded.lock(); known->has_value()) return **known;
  // No lock is held while a library loads; whoever loads it again gets the same one.
  Result<NvrtcLibrary> result = load(nvrtc_names());
  if (result) *loaded.lock() = result.value();
  return result;
}

}  // namespace holdfast::kernel
