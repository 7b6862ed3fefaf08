#include <gtest/gtest.h>

#include "holdfast/hal/cts/cts.h"
#include "holdfast/hal/cts/cuda_kernels.h"
#include "holdfast/hal/cts/gpu.h"
#include "holdfast/hal/cuda/cuda_device.h"
#include "holdfast/testing/cuda.h"
#include "holdfast/testing/stub_cuda.h"

namespace holdfast::hal::cts {
namespace {

// The driver behind a device.
struct CudaDriver {
  std::string (*path)();
  std::string (*missing)();
  Module (*module)(std::string_view kernel, Bytes parameter_bytes);
};

constexpr CudaDriver kRealDriver{[] { return std::string(); }, testing::why_no_cuda_gpu,
                                 cuda_module};
constexpr CudaDriver kStubDriver{testing::stub_cuda_path, testing::why_no_stub_cuda,
                                 stub_cuda_module};

bool add_cuda(std::string name, const CudaDriver& driver, const CudaOptions& options = {},
              GpuWrapper wrap = plain_gpu,
              const std::set<std::string>& unsupported = unsupported_by_gpus()) {
  return register_device({std::move(name),
                          [driver, options, wrap]() -> Result<Ref<Device>> {
                            CudaOptions own = options;
                            own.driver = driver.path();
                            own.queues = kGpuQueues;
                            // The suite means queues that take everything.
                            own.copy_queues = 0;
                            own.close_bound = kGpuCloseBound;
                            auto opened = CudaDevice::open(own);
                            if (!opened) return opened.failure();
                            return wrap(opened.value());
                          },
                          driver.module, unsupported, driver.missing});
}

CudaOptions without_memory_operations() {
  CudaOptions options;
  options.stream_memory_operations = false;
  return options;
}

CudaOptions without_graphs() {
  CudaOptions options;
  options.graphs = false;
  return options;
}

CudaOptions immediate_cuda() {
  CudaOptions options;
  options.immediate = true;
  return options;
}

const bool kCudaRegistered =
    add_cuda("cuda_stub", kStubDriver) &&
    add_cuda("cuda_stub_without_memory_operations", kStubDriver, without_memory_operations()) &&
    add_cuda("cuda_stub_without_graphs", kStubDriver, without_graphs()) &&
    add_cuda("validate_cuda_stub", kStubDriver, {}, validated_gpu) &&
    add_cuda("validate_adversary_cuda_stub", kStubDriver, immediate_cuda(), hostile_gpu,
             unsupported_by_hostile_gpus()) &&
    add_cuda("cuda", kRealDriver) && add_cuda("validate_cuda", kRealDriver, {}, validated_gpu) &&
    add_cuda("validate_adversary_cuda", kRealDriver, immediate_cuda(), hostile_gpu,
             unsupported_by_hostile_gpus());

}  // namespace
}  // namespace holdfast::hal::cts
