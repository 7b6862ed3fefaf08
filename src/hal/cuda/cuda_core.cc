#include "holdfast/hal/cuda/cuda_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <new>
#include <utility>

#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/gpu/fork_refusal.h"
#include "holdfast/hal/program.h"

namespace holdfast::hal {
namespace {

// So often a counter may be found behind before the driver is asked whether the stream still works:
// asking costs as much as hundreds of looks.
constexpr uint32_t kDisappointments = 64;
// A sleeper only gives way to others at first, since a nap lasts 50 us and more, and ends too late
// for lists that take less (bench rows cuda_*_drained); then it naps, first and at most this long.
constexpr int kYields = 400;
constexpr sync::Duration kFirstNap = std::chrono::microseconds(10);
constexpr sync::Duration kLongestNap = std::chrono::microseconds(200);

// Answers after which a context does nothing any more.
bool ends_the_context(cu::CUresult result) {
  switch (result) {
    case cu::CUDA_ERROR_DEINITIALIZED:
    case cu::CUDA_ERROR_ECC_UNCORRECTABLE:
    case cu::CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case cu::CUDA_ERROR_CONTAINED:
    case cu::CUDA_ERROR_ILLEGAL_ADDRESS:
    case cu::CUDA_ERROR_LAUNCH_TIMEOUT:
    case cu::CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case cu::CUDA_ERROR_ASSERT:
    case cu::CUDA_ERROR_HARDWARE_STACK_ERROR:
    case cu::CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case cu::CUDA_ERROR_MISALIGNED_ADDRESS:
    case cu::CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case cu::CUDA_ERROR_INVALID_PC:
    case cu::CUDA_ERROR_LAUNCH_FAILED:
    case cu::CUDA_ERROR_EXTERNAL_DEVICE:
    case cu::CUDA_ERROR_UNKNOWN: return true;
    default: return false;
  }
}

ErrorCode code_of(cu::CUresult result) {
  switch (result) {
    case cu::CUDA_ERROR_OUT_OF_MEMORY: return ErrorCode::out_of_memory;
    case cu::CUDA_ERROR_NOT_SUPPORTED:
    case cu::CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case cu::CUDA_ERROR_NO_BINARY_FOR_GPU: return ErrorCode::unsupported;
    case cu::CUDA_ERROR_INVALID_IMAGE:
    case cu::CUDA_ERROR_INVALID_PTX:
    case cu::CUDA_ERROR_NOT_FOUND:
    case cu::CUDA_ERROR_INVALID_VALUE:
    case cu::CUDA_ERROR_INVALID_CLUSTER_SIZE:
    case cu::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case cu::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
    case cu::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: return ErrorCode::usage;
    case cu::CUDA_ERROR_DEVICE_UNAVAILABLE:
    case cu::CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case cu::CUDA_ERROR_NO_DEVICE:
    case cu::CUDA_ERROR_SYSTEM_NOT_READY:
    case cu::CUDA_ERROR_NOT_PERMITTED: return ErrorCode::environment;
    default: return ErrorCode::execution;
  }
}

bool contains_ignoring_case(std::string_view text, std::string_view part) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

std::string listed(const std::vector<CudaCandidate>& candidates) {
  std::string text;
  for (size_t i = 0; i < candidates.size(); ++i) {
    text += fmt::format("{}cuda:{} ({})", i > 0 ? ", " : "", i, candidates[i].name);
  }
  return text;
}

// The index of the one that the user means.
Result<size_t> chosen(const std::vector<CudaCandidate>& candidates, const std::string& selector) {
  for (size_t i = 0; i < candidates.size(); ++i) {
    const bool fits = selector.empty()
                          ? candidates[i].skipped.empty()
                          : selector == std::to_string(i) ||
                                (!std::isdigit(static_cast<unsigned char>(selector[0])) &&
                                 contains_ignoring_case(candidates[i].name, selector));
    if (fits) return i;
  }
  if (selector.empty()) {
    std::string reasons;
    for (size_t i = 0; i < candidates.size(); ++i) {
      reasons += fmt::format("; cuda:{} ({}): {}", i, candidates[i].name, candidates[i].skipped);
    }
    return Failure(ErrorCode::unsupported, "no CUDA device here can be used" + reasons);
  }
  return Failure(ErrorCode::usage,
                 fmt::format("there is no CUDA device '{}' here; there are: {}", selector,
                             candidates.empty() ? "none" : listed(candidates)));
}

}  // namespace

Result<std::vector<CudaCandidate>> cuda_candidates(const CudaApi& api) {
  const cu::Calls& cu = api.calls();
  int count = 0;
  if (const cu::CUresult result = cu.cuDeviceGetCount(&count); result != cu::CUDA_SUCCESS) {
    return Failure(ErrorCode::environment,
                   fmt::format("NVIDIA's driver lists no GPU: {}", api.describe(result)));
  }
  std::vector<CudaCandidate> found;
  for (int i = 0; i < count; ++i) {
    CudaCandidate one;
    std::array<char, 256> name{};
    size_t bytes = 0;
    // It keeps its number: others are not to take it.
    const auto undescribed = [&](cu::CUresult result) {
      return fmt::format("the driver does not describe it: {}; see whether nvidia-smi does",
                         api.describe(result));
    };
    cu::CUresult result = cu.cuDeviceGet(&one.device, i);
    if (result == cu::CUDA_SUCCESS) {
      result = cu.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, one.device);
    }
    if (result == cu::CUDA_SUCCESS) result = cu.cuDeviceTotalMem(&bytes, one.device);
    if (result != cu::CUDA_SUCCESS) {
      one.name = one.description = "a GPU without a name";
      one.skipped = undescribed(result);
      found.push_back(std::move(one));
      continue;
    }
    const auto attribute = [&](int which) {
      int value = 0;
      return cu.cuDeviceGetAttribute(&value, which, one.device) == cu::CUDA_SUCCESS ? value : 0;
    };
    one.name = name.data();
    one.description = fmt::format("{}, compute capability {}.{}, {} multiprocessors, {}", one.name,
                                  attribute(cu::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                                  attribute(cu::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
                                  attribute(cu::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
                                  to_string(Bytes{bytes}));
    const auto lacks = [&](int which, const char* why) {
      int value = 0;
      const cu::CUresult answer = cu.cuDeviceGetAttribute(&value, which, one.device);
      if (answer != cu::CUDA_SUCCESS) {
        one.skipped = undescribed(answer);
      } else if (value == 0) {
        one.skipped = why;
      }
      return !one.skipped.empty();
    };
    if (!lacks(cu::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, "it has no unified addresses")) {
      lacks(cu::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
            "its driver has no memory pools; update it, or use another kind of vGPU");
    }
    found.push_back(std::move(one));
  }
  return found;
}

CudaObject::CudaObject(const std::shared_ptr<CudaCore>& core) : GpuObject(core), core_(core) {}

CudaObject::~CudaObject() = default;

CudaCore::CudaCore(std::shared_ptr<const CudaApi> driver)
    : api(std::move(driver)), cu(api->calls()) {}

CudaCore::~CudaCore() { close(); }

Result<std::shared_ptr<CudaCore>> CudaCore::open(const CudaOptions& options) {
  static constinit std::atomic<uint64_t> owner{0};
  if (Failure refused = refusal_after_fork(owner, "CUDA")) return refused;
  Result<std::shared_ptr<const CudaApi>> driver = CudaApi::load(options.driver);
  if (!driver) return driver.failure();
  const std::shared_ptr<CudaCore> core(new CudaCore(std::move(driver).value()));
  if (Failure failure = core->choose(options)) return failure;
  if (Failure failure = core->prepare(options)) return failure;
  return core;
}

Failure CudaCore::choose(const CudaOptions& options) {
  const Result<std::vector<CudaCandidate>> found = cuda_candidates(*api);
  if (!found) return found.failure();
  const std::vector<CudaCandidate>& candidates = found.value();
  if (candidates.empty()) {
    return Failure(ErrorCode::environment,
                   "NVIDIA's driver is here but lists no GPU; see whether nvidia-smi does, and "
                   "whether CUDA_VISIBLE_DEVICES hides it");
  }
  const Result<size_t> index = chosen(candidates, options.device);
  if (!index) return index.failure();
  const CudaCandidate& candidate = candidates[index.value()];
  name = fmt::format("cuda:{}", index.value());
  if (!candidate.skipped.empty()) {
    return Failure(ErrorCode::unsupported, fmt::format("device '{}' ({}) cannot be used: {}", name,
                                                       candidate.name, candidate.skipped));
  }
  description = candidate.description;
  device = candidate.device;
  return {};
}

Failure CudaCore::prepare(const CudaOptions& options) {
  const auto attribute = [&](int which) {
    int value = 0;
    return cu.cuDeviceGetAttribute(&value, which, device) == cu::CUDA_SUCCESS ? value : 0;
  };
  Failure untold;  // the first of the limits that the driver does not tell
  const auto limit = [&](int which) {
    int value = 0;
    const cu::CUresult result = cu.cuDeviceGetAttribute(&value, which, device);
    if (!untold) untold = check(result, "it does not tell its limits");
    return static_cast<uint32_t>(value);
  };
  architecture = fmt::format("sm_{}{}", limit(cu::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                             limit(cu::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  has_memory_operations = options.stream_memory_operations && cu.cuStreamWriteValue64 != nullptr &&
                          cu.cuStreamWaitValue64 != nullptr &&
                          attribute(cu::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) != 0;
  uses_graphs = options.graphs;
  max_groups = {limit(cu::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
                limit(cu::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
                limit(cu::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)};
  max_group_threads = limit(cu::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  max_shared_memory = limit(cu::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  copy_engines = static_cast<uint32_t>(attribute(cu::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT));
  if (untold) return untold;
  size_t bytes = 0;
  if (Failure failure = check(cu.cuDeviceTotalMem(&bytes, device), "its memory is unknown")) {
    return failure;
  }
  memory_limit = options.memory ? options.memory : Bytes{bytes};
  if (Failure failure =
          check(cu.cuDevicePrimaryCtxRetain(&context, device), "it gives no context")) {
    return failure;
  }
  retained_ = true;
  const Current current(*this);
  if (Failure failure = current.failure()) return failure;
  if (Failure failure = check(cu.cuStreamCreate(&memory_stream_, cu::CU_STREAM_NON_BLOCKING),
                              "it gives no stream")) {
    return failure;
  }
  cu::CUmemPoolProps properties;
  properties.allocType = cu::CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {cu::CU_MEM_LOCATION_TYPE_DEVICE, device};
  if (Failure failure = check(cu.cuMemPoolCreate(&pool_, &properties), "it gives no memory pool")) {
    return failure;
  }
  return {};
}

Failure CudaCore::check(cu::CUresult result, std::string_view what) const {
  if (result == cu::CUDA_SUCCESS) return {};
  if (!ends_the_context(result)) {
    return Failure(code_of(result),
                   fmt::format("device '{}': {}: {}", name, what, api->describe(result)));
  }
  // Some calls have given such answers on a device that went on working, and what it runs may then
  // still touch memory.
  if (result != cu::CUDA_ERROR_DEINITIALIZED && memory_stream_ != nullptr) {
    const cu::CUresult confirmed = cu.cuStreamQuery(memory_stream_);
    if (confirmed == cu::CUDA_SUCCESS || confirmed == cu::CUDA_ERROR_NOT_READY) {
      return Failure(ErrorCode::execution,
                     fmt::format("device '{}': {}: {}", name, what, api->describe(result)));
    }
  }
  return lose_by(result);
}

Failure CudaCore::lose_by(cu::CUresult result) const {
  // Once the device is dead, the lists that it had may be gone.
  const sync::Lock lock(loss_mutex_);
  if (is_dead()) return stop_cause();
  return lose(Failure(
      ErrorCode::device_lost,
      result == cu::CUDA_ERROR_DEINITIALIZED
          ? fmt::format("device '{}' is lost: NVIDIA's driver has shut down, as it does when the "
                        "process ends; close the device before",
                        name)
          : fmt::format("device '{}' is lost: {}.{} Nothing runs on it in this process any more; "
                        "end the process, and run it again with HOLDFAST_VALIDATE=1 or under "
                        "compute-sanitizer to find the access",
                        name, api->describe(result), suspects())));
}

std::string CudaCore::suspects() const {
  std::string text;
  for (const auto& progress : streams_) {
    const uint64_t done = progress->counter->load(std::memory_order_acquire);
    const sync::LeafLock lock(progress->mutex);
    for (const CudaProgress::Given& given : progress->given) {
      if (given.value <= done || given.work == nullptr) continue;
      const CommandList& list = *given.work->list;
      const CommandList& commands = list.program() != nullptr ? list.program()->list() : list;
      std::string kernels;
      size_t count = 0;
      for (const Command& command : commands) {
        if (command.kind != CommandKind::dispatch || ++count > 4) continue;
        kernels += fmt::format("{}'{}'", count > 1 ? ", " : "", command.pipeline->name());
      }
      text += fmt::format(" It was running {}{}{}.", list.describe(),
                          count > 0 ? ", with kernel " + kernels : "", count > 4 ? ", ..." : "");
      break;
    }
  }
  return text;
}

void CudaCore::examine(const CudaProgress& progress) const noexcept {
  const Current current(*this);
  // A native stream may be gone; its context is that of ours.
  const cu::CUstream asked = progress.is_native ? memory_stream_ : progress.stream;
  const auto works = [&] {
    const cu::CUresult result = cu.cuStreamQuery(asked);
    return result == cu::CUDA_SUCCESS || result == cu::CUDA_ERROR_NOT_READY;
  };
  try {
    if (current.failure() || works() || works()) return;
    (void)lose_by(cu.cuStreamQuery(asked));
  } catch (...) {  // no memory for the words: asked again
  }
}

std::optional<uint64_t> CudaCore::read(const GpuProgress& progress) const noexcept {
  const auto& ours = static_cast<const CudaProgress&>(progress);
  // In this order: the counter is then never behind what was seen.
  const uint64_t seen = progress.seen.load(std::memory_order_acquire);
  uint64_t now = ours.counter->load(std::memory_order_acquire);
  if (!has_memory_operations) {
    // The stream writes the low half alone.
    now = (seen & ~uint64_t{0xffffffff}) | (now & 0xffffffff);
    if (now < seen) now += uint64_t{1} << 32;
  }
  if (now <= seen && ours.disappointments.fetch_add(1) % kDisappointments == kDisappointments - 1) {
    examine(ours);
  }
  return now;
}

bool CudaCore::sleep(const GpuProgress& progress, uint64_t value, sync::Duration timeout) const {
  const Use use(*this);
  if (!use) return true;
  const auto& ours = static_cast<const CudaProgress&>(progress);
  for (int i = 0; i < kYields; ++i) {
    if (read(progress).value_or(value) >= value) return true;
    sync::nap({});
  }
  sync::Duration nap = kFirstNap;
  for (sync::Duration slept{}; slept < timeout; slept += nap) {
    if (read(progress).value_or(value) >= value || is_dead()) return true;
    sync::nap(std::min(nap, timeout - slept));
    nap = std::min(nap * 2, kLongestNap);
  }
  examine(ours);
  return true;
}

void CudaCore::begin_closing() noexcept {
  if (!retained_) return;
  // Their last counters are written; but the driver may not have let go of what wrote them.
  const Current current(*this);
  for (const auto& progress : streams_) (void)synchronize(*progress);
}

void CudaCore::finish_closing() noexcept {
  if (!retained_) return;
  {
    const Current current(*this);
    profiler.destroy(*this);
    for (const auto& progress : streams_) {
      (void)cu.cuStreamDestroy(progress->stream);
      if (progress->writer != nullptr) (void)cu.cuStreamDestroy(progress->writer);
      if (progress->written_after != nullptr) (void)cu.cuEventDestroy(progress->written_after);
    }
    pinned_mutex_.assert_held();  // nobody else is left
    for (const Memory& kept : kept_pinned_) (void)cu.cuMemFreeHost(kept.host);
    kept_pinned_.clear();
    if (pool_ != nullptr) {
      (void)cu.cuStreamSynchronize(memory_stream_);
      (void)cu.cuMemPoolDestroy(pool_);
    }
    if (memory_stream_ != nullptr) (void)cu.cuStreamDestroy(memory_stream_);
    if (shared_stream_.load() != nullptr) (void)cu.cuStreamDestroy(shared_stream_.load());
    events_mutex_.assert_held();  // nobody else is left
    for (const cu::CUevent event : spare_events_) (void)cu.cuEventDestroy(event);
    counters_mutex_.assert_held();
    // A native stream that was told of a counter may still look at it, or write it.
    if (!counters_shared_.load()) {
      for (const Memory& block : counter_blocks_) (void)cu.cuMemFreeHost(block.host);
    }
  }
  (void)cu.cuDevicePrimaryCtxRelease(device);
}

}  // namespace holdfast::hal
