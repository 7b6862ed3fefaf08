#include "holdfast/testing/stub_cuda/calls.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "holdfast/base/sync/process.h"
#include "holdfast/hal/cuda/cublaslt_api.h"

// How callers find entry points, and what happens around each of them.

namespace holdfast::stub_cuda {

namespace {

enum class Call : size_t {
#define HOLDFAST_STUB_ENUMERATOR(name, version, parameters) name,  // NOLINT
  HOLDFAST_CUDA_CALLS(HOLDFAST_STUB_ENUMERATOR)
#undef HOLDFAST_STUB_ENUMERATOR
};

constexpr const char* kNames[] = {
#define HOLDFAST_STUB_NAME(name, version, parameters) #name,
    HOLDFAST_CUDA_CALLS(HOLDFAST_STUB_NAME)
#undef HOLDFAST_STUB_NAME
};

constexpr std::string_view kBlasNames[] = {
#define HOLDFAST_STUB_NAME(name, result, parameters) #name,
    HOLDFAST_CUBLASLT_CALLS(HOLDFAST_STUB_NAME)
#undef HOLDFAST_STUB_NAME
};

bool ends_contexts(CUresult result) {
  return (result >= CUDA_ERROR_ILLEGAL_ADDRESS && result <= CUDA_ERROR_LAUNCH_FAILED &&
          result != CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES &&
          result != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED &&
          result != CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) ||
         result == CUDA_ERROR_ECC_UNCORRECTABLE || result == CUDA_ERROR_UNKNOWN;
}

template <Call kCall, auto kFunction>
struct Entry;

template <Call kCall, typename... A, CUresult (*kFunction)(A...)>
struct Entry<kCall, kFunction> {
  static CUresult call(A... arguments) noexcept {
    // As the driver: a forked child has none of its threads, and nothing works there.
    if (is_fork()) return CUDA_ERROR_NOT_INITIALIZED;
    try {
      if (const CUresult planned = planned_failure(kNames[static_cast<size_t>(kCall)])) {
        return planned;
      }
      return kFunction(arguments...);
    } catch (const std::bad_alloc&) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    } catch (...) {
      return CUDA_ERROR_OPERATING_SYSTEM;
    }
  }
};

struct Found {
  const char* name;
  int version;
  void* address;
};

const Found* find_call(std::string_view name) {
  static const Found all[] = {
#define HOLDFAST_STUB_FOUND(name, version, parameters) \
  {#name, version, reinterpret_cast<void*>(&Entry<Call::name, &stub_cuda::name>::call)},
      HOLDFAST_CUDA_CALLS(HOLDFAST_STUB_FOUND)
#undef HOLDFAST_STUB_FOUND
  };
  for (const Found& entry : all) {
    if (name == entry.name) return &entry;
  }
  return nullptr;
}

constexpr int kSymbolNotFound = 1;
constexpr int kVersionNotSufficient = 2;

CUresult get_proc_address(const char* symbol, void** address, int version, int* status) {
  if (symbol == nullptr || address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Held held;
  const Found* const found = find_call(symbol);
  int outcome = 0;
  if (found == nullptr || held->hidden.contains(symbol) || found->version > held->version) {
    outcome = kSymbolNotFound;
  } else if (found->version > version) {
    outcome = kVersionNotSufficient;
  }
  *address = outcome == 0 ? found->address : nullptr;
  if (status != nullptr) *status = outcome;
  return CUDA_SUCCESS;
}

}  // namespace

bool is_fork() {
  static const uint32_t loaded_in = sync::fork_generation();
  return sync::fork_generation() != loaded_in;
}

bool is_call(std::string_view name) {
  return find_call(name) != nullptr || std::ranges::find(kBlasNames, name) != std::end(kBlasNames);
}

CUresult planned_failure(const char* name) {
  const Held held;
  ++held->calls[name];
  if (held->has_shut_down) return CUDA_ERROR_DEINITIALIZED;
  const auto plans = held->failing.find(name);
  if (plans == held->failing.end()) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for (Failing& plan : plans->second) {
    if (plan.first > 1) {
      --plan.first;
    } else if (plan.times > 0) {
      --plan.times;
      result = plan.result;
    }
  }
  std::erase_if(plans->second, [](const Failing& plan) { return plan.times == 0; });
  if (ends_contexts(result)) fault_all(*held, result);
  return result;
}

}  // namespace holdfast::stub_cuda

// NOLINTBEGIN(readability-identifier-naming): the driver's names.
#pragma GCC visibility push(default)

extern "C" int cuGetProcAddress_v2(const char* symbol, void** address, int version,
                                   uint64_t /*flags*/, int* status) {
  return holdfast::stub_cuda::get_proc_address(symbol, address, version, status);
}

extern "C" int cuInit(unsigned flags) {
  using namespace holdfast::stub_cuda;
  return Entry<Call::cuInit, &holdfast::stub_cuda::cuInit>::call(flags);
}

extern "C" int cuDriverGetVersion(int* version) {
  using namespace holdfast::stub_cuda;
  return Entry<Call::cuDriverGetVersion, &holdfast::stub_cuda::cuDriverGetVersion>::call(version);
}

#pragma GCC visibility pop
// NOLINTEND(readability-identifier-naming)
