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
// Of pinned memory that waits for an idle moment; more is freed at once, which waits for the GPU.
constexpr Bytes kMostKeptPinned = 256_MiB;
// Counters of different streams lie in different cache lines.
constexpr size_t kCounterStride = 128;
constexpr size_t kCountersPerBlock = 512;

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

Result<CudaCore::Counter> CudaCore::take_counter() {
  const sync::Lock lock(counters_mutex_);
  // Whoever was to write it has: nobody else will.
  if (!spare_counters_.empty()) {
    const Counter spare = spare_counters_.front();
    const auto now = static_cast<uint32_t>(spare.host->load(std::memory_order_acquire));
    if (now == static_cast<uint32_t>(spare.last)) {
      spare_counters_.pop_front();
      return spare;
    }
    std::rotate(spare_counters_.begin(), spare_counters_.begin() + 1, spare_counters_.end());
  }
  if (counter_blocks_.empty() || counters_cut_ == kCountersPerBlock) {
    Result<Memory> block = allocate_pinned(Bytes{kCounterStride * kCountersPerBlock},
                                           "no host memory for the counters of its streams");
    if (!block) return block.failure();
    counter_blocks_.push_back(block.value());
    counters_cut_ = 0;
  }
  const Memory& block = counter_blocks_.back();
  const size_t offset = kCounterStride * counters_cut_++;
  return Counter{new (block.host + offset) std::atomic<uint64_t>(0),  // NOLINT: never destroyed
                 block.address + offset, 0};
}

void CudaCore::give_counter(const Counter& counter) noexcept {
  if (forked()) return;
  try {
    const sync::Lock lock(counters_mutex_);
    spare_counters_.push_back(counter);
  } catch (const std::bad_alloc&) {  // it is not used again
  }
}

Result<CudaProgress*> CudaCore::make_progress() {
  Result<Counter> counter = take_counter();
  if (!counter) return counter.failure();
  auto made = std::make_unique<CudaProgress>();
  made->counter = counter.value().host;
  made->counter_address = counter.value().address;
  if (Failure failure =
          check(cu.cuStreamCreate(&made->stream, cu::CU_STREAM_NON_BLOCKING), "no stream")) {
    return failure;
  }
  add_progress(*made);
  streams_.push_back(std::move(made));
  return streams_.back().get();
}

Failure CudaCore::write_counter(cu::CUstream stream, const CudaProgress& progress,
                                uint64_t value) const {
  return check(
      has_memory_operations
          ? cu.cuStreamWriteValue64(stream, progress.counter_address, value,
                                    cu::CU_STREAM_WRITE_VALUE_DEFAULT)
          : cu.cuMemsetD32Async(progress.counter_address, static_cast<uint32_t>(value), 1, stream),
      "a stream cannot say how far it is");
}

Failure CudaCore::make_wait(cu::CUstream stream, const CudaProgress& progress, uint64_t value,
                            std::string_view what) const {
  if (has_memory_operations) {
    return check(cu.cuStreamWaitValue64(stream, progress.counter_address, value,
                                        cu::CU_STREAM_WAIT_VALUE_GEQ),
                 what);
  }
  if (progress.event != nullptr)
    return check(cu.cuStreamWaitEvent(stream, progress.event, 0), what);
  // For all that the other stream has by now, which is more than is asked for.
  const Result<cu::CUevent> event = take_event(what);
  if (!event) return event.failure();
  Failure failure = check(cu.cuEventRecord(event.value(), progress.stream), what);
  if (!failure) failure = check(cu.cuStreamWaitEvent(stream, event.value(), 0), what);
  give_event(event.value());
  return failure;
}

Result<cu::CUevent> CudaCore::take_event(std::string_view what) const {
  {
    const sync::Lock lock(events_mutex_);
    if (!spare_events_.empty()) {
      const cu::CUevent spare = spare_events_.back();
      spare_events_.pop_back();
      return spare;
    }
  }
  cu::CUevent made = nullptr;
  if (Failure failure = check(cu.cuEventCreate(&made, cu::CU_EVENT_DISABLE_TIMING), what)) {
    return failure;
  }
  return made;
}

void CudaCore::give_event(cu::CUevent event) const noexcept {
  try {
    const sync::Lock lock(events_mutex_);
    spare_events_.push_back(event);
  } catch (const std::bad_alloc&) {
    (void)cu.cuEventDestroy(event);
  }
}

Result<CudaCore::Marked> CudaCore::mark(const std::shared_ptr<CudaCore>& core, cu::CUstream stream,
                                        std::string_view what) {
  Result<Counter> taken = core->take_counter();
  if (!taken) return taken.failure();
  Counter counter = taken.value();
  ++counter.last;
  // Goes with the last Point; its counter is then used again, with the next value.
  struct Mark final : CudaObject {
    Mark(const std::shared_ptr<CudaCore>& of, const Counter& written)
        : CudaObject(of), counter(written) {}
    ~Mark() override {
      give_back();
      core()->forget_mark(progress);
      core()->give_counter(counter);
    }
    void destroy_native() noexcept override {
      if (progress.event != nullptr) core()->give_event(progress.event);
    }
    Counter counter;
    CudaProgress progress;
  };
  auto made = std::make_shared<Mark>(core, taken.value());
  CudaProgress& progress = made->progress;
  progress.is_native = true;
  progress.stream = stream;
  progress.counter = counter.host;
  progress.counter_address = counter.address;
  progress.seen.store(counter.last - 1);
  if (!core->has_memory_operations) {
    const Result<cu::CUevent> event = core->take_event(what);
    if (!event) return event.failure();
    progress.event = event.value();
    if (Failure failure = core->check(core->cu.cuEventRecord(progress.event, stream), what)) {
      return failure;
    }
  }
  {
    const sync::LeafLock lock(core->marks_mutex_);
    core->marks_.push_back(&progress);
  }
  core->note_shared_counter();
  if (Failure failure = core->write_counter(stream, progress, counter.last)) return failure;
  made->counter.last = counter.last;
  progress.started.store(counter.last);
  return Marked{std::shared_ptr<CudaProgress>(made, &progress), counter.last};
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

Result<CudaCore::Memory> CudaCore::allocate(Bytes size, MemoryKind kind, std::string_view what) {
  return kind == MemoryKind::device ? allocate_device(size, what) : allocate_pinned(size, what);
}

Result<CudaCore::Memory> CudaCore::allocate_device(Bytes size, std::string_view what) {
  Memory made;
  made.size = size;
  const auto attempt = [&] {
    const cu::CUresult result =
        cu.cuMemAllocFromPoolAsync(&made.address, size.value, pool_, memory_stream_);
    if (result != cu::CUDA_SUCCESS) return result;
    // Afterwards every stream may use it. No other work runs on this one.
    const cu::CUresult settled = cu.cuStreamSynchronize(memory_stream_);
    if (settled != cu::CUDA_SUCCESS) cu.cuMemFreeAsync(made.address, memory_stream_);
    return settled;
  };
  cu::CUresult result = attempt();
  if (result == cu::CUDA_ERROR_OUT_OF_MEMORY) {
    // What was freed goes back to the driver only when the stream is synchronised.
    (void)cu.cuStreamSynchronize(memory_stream_);
    if (cu.cuMemPoolTrimTo != nullptr) (void)cu.cuMemPoolTrimTo(pool_, 0);
    result = attempt();
  }
  if (Failure failure = check(result, what)) return failure;
  return made;
}

Result<CudaCore::Memory> CudaCore::allocate_pinned(Bytes size, std::string_view what) {
  free_kept_pinned(kMostKeptPinned);
  {
    const sync::LeafLock lock(pinned_mutex_);
    for (Memory& kept : kept_pinned_) {
      if (kept.size != size) continue;
      std::swap(kept, kept_pinned_.back());
      const Memory found = kept_pinned_.back();
      kept_pinned_.pop_back();
      return found;
    }
  }
  void* host = nullptr;
  const auto attempt = [&] {
    return cu.cuMemHostAlloc(&host, size.value,
                             cu::CU_MEMHOSTALLOC_PORTABLE | cu::CU_MEMHOSTALLOC_DEVICEMAP);
  };
  cu::CUresult result = attempt();
  if (result == cu::CUDA_ERROR_OUT_OF_MEMORY) {
    free_kept_pinned(Bytes{});
    result = attempt();
  }
  if (Failure failure = check(result, what)) return failure;
  Memory made{0, static_cast<std::byte*>(host), size};
  if (Failure failure = check(cu.cuMemHostGetDevicePointer(&made.address, host, 0), what)) {
    (void)cu.cuMemFreeHost(host);
    return failure;
  }
  return made;
}

void CudaCore::free(const Memory& memory) noexcept {
  if (memory.host == nullptr) {
    (void)cu.cuMemFreeAsync(memory.address, memory_stream_);
    return;
  }
  try {
    const sync::LeafLock lock(pinned_mutex_);
    kept_pinned_.push_back(memory);
  } catch (const std::bad_alloc&) {
    (void)cu.cuMemFreeHost(memory.host);
    return;
  }
  free_kept_pinned(kMostKeptPinned);
}

Result<CudaCore::Memory> CudaCore::import_address(cu::CUdeviceptr address, Bytes size,
                                                  std::string_view what) const {
  unsigned type = 0;
  int ordinal = -1;
  cu::CUdeviceptr begin = 0;
  size_t length = 0;
  std::array attributes{
      cu::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, cu::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      cu::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, cu::CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  std::array<void*, 4> values{&type, &ordinal, &begin, &length};
  if (Failure failure =
          check(cu.cuPointerGetAttributes(4, attributes.data(), values.data(), address), what)) {
    return failure;
  }
  const auto refuse = [&](const std::string& why) {
    return Failure(ErrorCode::usage, fmt::format("{}: {}", what, why));
  };
  if (type != cu::CU_MEMORYTYPE_DEVICE) {
    return refuse(fmt::format("{:#x} is no address of a GPU's memory", address));
  }
  if (ordinal != device) {
    return refuse(fmt::format("{:#x} is memory of GPU {}, and device '{}' is another; copy it",
                              address, ordinal, name));
  }
  if (length != 0 && (address < begin || size.value > begin + length - address)) {
    return refuse(fmt::format("it would end {} bytes behind the memory that it lies in",
                              address + size.value - (begin + length)));
  }
  return Memory{address, nullptr, size};
}

void CudaCore::free_kept_pinned(Bytes most) noexcept {
  for (;;) {
    Memory memory;
    {
      const sync::LeafLock lock(pinned_mutex_);
      Bytes kept{};
      for (const Memory& one : kept_pinned_) kept += one.size;
      if (kept_pinned_.empty() || (kept <= most && !seems_idle())) return;
      memory = kept_pinned_.back();
      kept_pinned_.pop_back();
    }
    (void)cu.cuMemFreeHost(memory.host);
  }
}

bool CudaCore::others_are_done() const noexcept {
  const sync::LeafLock lock(marks_mutex_);
  return std::all_of(marks_.begin(), marks_.end(), [](const CudaProgress* mark) {
    const auto now = static_cast<uint32_t>(mark->counter->load(std::memory_order_acquire));
    return static_cast<int32_t>(now - static_cast<uint32_t>(mark->started.load())) >= 0;
  });
}

void CudaCore::forget_mark(const CudaProgress& progress) noexcept {
  const sync::LeafLock lock(marks_mutex_);
  std::erase(marks_, &progress);
}

void CudaCore::begin_closing() noexcept {
  if (!retained_) return;
  // Their last counters are written; but the driver may not have let go of what wrote them.
  const Current current(*this);
  for (const auto& progress : streams_) (void)cu.cuStreamSynchronize(progress->stream);
}

void CudaCore::finish_closing() noexcept {
  if (!retained_) return;
  {
    const Current current(*this);
    profiler.destroy(*this);
    for (const auto& progress : streams_) (void)cu.cuStreamDestroy(progress->stream);
    pinned_mutex_.assert_held();  // nobody else is left
    for (const Memory& kept : kept_pinned_) (void)cu.cuMemFreeHost(kept.host);
    kept_pinned_.clear();
    if (pool_ != nullptr) {
      (void)cu.cuStreamSynchronize(memory_stream_);
      (void)cu.cuMemPoolDestroy(pool_);
    }
    if (memory_stream_ != nullptr) (void)cu.cuStreamDestroy(memory_stream_);
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
