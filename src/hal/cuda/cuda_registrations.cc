#include "holdfast/hal/cuda/cuda_registrations.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "holdfast/base/sync/mutex.h"
#include "holdfast/hal/cuda/cuda_core.h"

namespace holdfast::hal {
namespace {

struct Pages {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  bool contain(const Pages& other) const { return begin <= other.begin && other.end <= end; }
  bool overlap(const Pages& other) const { return begin < other.end && other.begin < end; }
};

Pages pages_of(const std::byte* data, Bytes size) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return {begin / page * page, (begin + size.value + page - 1) / page * page};
}

void* pointer_to(uintptr_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): page by page
}

struct Registration {
  const CudaApi* driver = nullptr;
  Pages pages;
  size_t imports = 0;
};
using Registrations = sync::ProcessGuarded<std::vector<Registration>>;
// Left alive: imports may end while the process does.
Registrations& registrations() {
  static auto* const forever = new Registrations;  // NOLINT
  return *forever;
}

// Whether memory that others made known to the driver contains all of these bytes.
bool is_known(const cu::Calls& cu, const std::byte* data, Bytes size) {
  cu::CUdeviceptr begin = 0;
  size_t length = 0;
  std::array attributes{cu::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                        cu::CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  std::array<void*, 2> values{&begin, &length};
  const auto at = reinterpret_cast<cu::CUdeviceptr>(data);
  return cu.cuPointerGetAttributes(2, attributes.data(), values.data(), at) == cu::CUDA_SUCCESS &&
         begin <= at && at + size.value <= begin + length;
}

}  // namespace

Result<CudaRegistered> register_host_memory(const CudaCore& core, std::byte* data, Bytes size,
                                            std::string_view what) {
  const Pages wanted = pages_of(data, size);
  const auto address_of = [&](bool owned) -> Result<CudaRegistered> {
    CudaRegistered result{0, owned};
    if (Failure failure =
            core.check(core.cu.cuMemHostGetDevicePointer(&result.address, data, 0), what)) {
      return failure;
    }
    return result;
  };
  const auto all = registrations().lock();
  for (Registration& known : *all) {
    if (known.driver != core.api.get() || !known.pages.overlap(wanted)) continue;
    if (!known.pages.contain(wanted)) {
      return Failure(ErrorCode::usage,
                     fmt::format("{}: a part of its pages belongs to memory that is imported "
                                 "already; import all of it at once, or copy it to the device",
                                 what));
    }
    Result<CudaRegistered> shared = address_of(true);
    if (shared) ++known.imports;
    return shared;
  }
  all->reserve(all->size() + 1);
  const cu::CUresult result =
      core.cu.cuMemHostRegister(pointer_to(wanted.begin), wanted.end - wanted.begin,
                                cu::CU_MEMHOSTREGISTER_PORTABLE | cu::CU_MEMHOSTREGISTER_DEVICEMAP);
  if (result == cu::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED && is_known(core.cu, data, size)) {
    return address_of(false);
  }
  if (Failure failure = core.check(result, what)) return failure;
  Result<CudaRegistered> made = address_of(true);
  if (made) {
    all->push_back({core.api.get(), wanted, 1});
  } else {
    (void)core.cu.cuMemHostUnregister(pointer_to(wanted.begin));
  }
  return made;
}

void end_registration(const CudaCore& core, std::byte* data, Bytes size) noexcept {
  const Pages ended = pages_of(data, size);
  const auto all = registrations().lock();
  for (Registration& known : *all) {
    if (known.driver != core.api.get() || !known.pages.contain(ended)) continue;
    if (--known.imports > 0) return;
    (void)core.cu.cuMemHostUnregister(pointer_to(known.pages.begin));
    std::swap(known, all->back());
    all->pop_back();
    return;
  }
}

}  // namespace holdfast::hal
