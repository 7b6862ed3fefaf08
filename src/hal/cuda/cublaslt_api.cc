#include "holdfast/hal/cuda/cublaslt_api.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <map>

#include "holdfast/base/env.h"
#include "holdfast/base/sync/process.h"
#include "holdfast/base/sync/thread.h"

namespace holdfast::hal {
namespace {

// How long the end of a process waits for other threads to leave the library. They only put work on
// streams there, which takes microseconds unless a stream takes no more.
constexpr sync::Duration kLeaving = std::chrono::seconds(2);

// Fills the table; the names of missing calls.
std::vector<std::string> find_calls(void* library, lt::Calls& calls) {
  std::vector<std::string> missing;
  const auto add = [&](auto& function, const char* call) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, call));
    if (function == nullptr) missing.emplace_back(call);
  };
#define HOLDFAST_CUBLASLT_FIND(name, result, parameters) add(calls.name, #name);
  HOLDFAST_CUBLASLT_CALLS(HOLDFAST_CUBLASLT_FIND)
#undef HOLDFAST_CUBLASLT_FIND
  return missing;
}

using LibrariesByName =
    sync::ProcessGuarded<std::map<std::string, std::shared_ptr<const CublasLtApi>>>;
// Left alive: a thread may multiply while the process ends.
LibrariesByName& loaded_libraries() {
  static LibrariesByName* const forever = new LibrariesByName;
  return *forever;
}

}  // namespace

CublasLtApi::CublasLtApi() : generation_(sync::fork_generation()) {}

std::vector<std::string> cublaslt_names(int driver_version) {
  std::vector<std::string> result;
  const auto add = [&](const std::string& folder) {
    if (driver_version >= 13000) result.push_back(folder + "libcublasLt.so.13");
    result.push_back(folder + "libcublasLt.so.12");
  };
  for (const char* variable : {"HOLDFAST_CUBLAS_DIR", "HOLDFAST_NVRTC_DIR"}) {
    if (const auto folder = env::text(variable)) add(*folder + "/");
  }
  add("");
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const auto folder = env::text(variable)) add(*folder + "/lib64/");
  }
  add("/usr/local/cuda/lib64/");
  return result;
}

Result<std::shared_ptr<const CublasLtApi>> CublasLtApi::load(const std::string& path,
                                                             int driver_version) {
  const std::vector<std::string> names =
      path.empty() ? cublaslt_names(driver_version) : std::vector<std::string>{path};
  const sync::NoFork whole;  // a child must not find the loader half done
  std::vector<std::string> unusable;
  for (const std::string& name : names) {
    {
      const auto known = loaded_libraries().lock();
      if (const auto found = known->find(name); found != known->end()) return found->second;
    }
    // No lock is held while a library loads; whoever loads it again gets the same one. Never
    // closed: it has exit handlers of its own.
    void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    const std::shared_ptr<CublasLtApi> api(new CublasLtApi);
    const std::vector<std::string> missing = find_calls(library, api->calls_);
    if (!missing.empty()) {
      unusable.push_back(fmt::format("{} lacks {}", name, fmt::join(missing, ", ")));
      continue;
    }
    Dl_info info{};
    const bool told = dladdr(reinterpret_cast<const void*>(api->calls_.cublasLtMatmul), &info) != 0;
    api->path_ = told && info.dli_fname != nullptr ? info.dli_fname : name;
    const auto kept = loaded_libraries().lock()->try_emplace(name, api).first->second;
    // Registered after the library's own handlers, so run before them.
    (void)std::atexit([] { end_all(); });
    return kept;
  }
  if (unusable.empty()) unusable.push_back(fmt::format("tried {}", fmt::join(names, ", ")));
  return Failure(
      ErrorCode::environment,
      fmt::format("cuBLASLt was not found. Install the CUDA toolkit's libcublas or the Python "
                  "package nvidia-cublas, and name the folder of libcublasLt.so in "
                  "HOLDFAST_CUBLAS_DIR unless the loader finds it ({})",
                  fmt::join(unusable, "; ")));
}

void CublasLtApi::end_all() noexcept {
  std::vector<std::shared_ptr<const CublasLtApi>> all;
  {
    const auto known = loaded_libraries().lock();
    for (const auto& [name, api] : *known) all.push_back(api);
  }
  for (const auto& api : all) api->end();
}

void CublasLtApi::end() const noexcept {
  inside_.fetch_or(1, std::memory_order_acq_rel);
  // Threads that a fork has left behind never leave.
  if (generation_ != sync::fork_generation()) return;
  const sync::Deadline patience = sync::Deadline::after(kLeaving);
  for (unsigned attempt = 0; inside_.load(std::memory_order_acquire) != 1; ++attempt) {
    if (patience.passed()) return;
    sync::relax(attempt);
  }
}

CublasLtApi::Use::Use(const CublasLtApi& api) noexcept : api_(api) {
  entered_ = (api_.inside_.fetch_add(2, std::memory_order_acquire) & 1) == 0 &&
             api_.generation_ == sync::fork_generation();
}

CublasLtApi::Use::~Use() { api_.inside_.fetch_sub(2, std::memory_order_release); }

std::string CublasLtApi::version() const {
  const size_t number = calls_.cublasLtGetVersion();
  return fmt::format("cuBLASLt {}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

std::string CublasLtApi::describe(lt::cublasStatus_t status) const {
  const char* const name = calls_.cublasLtGetStatusName(status);
  return name != nullptr ? fmt::format("{} ({})", name, status) : fmt::format("status {}", status);
}

}  // namespace holdfast::hal
