#include "holdfast/testing/cuda.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "holdfast/base/env.h"
#include "holdfast/testing/family.h"
#include "holdfast/testing/stub_cuda.h"

namespace holdfast::testing {
namespace {

// For CudaApi::load.
std::string driver_path() {
  return cuda_driver() == CudaDriver::gpu ? std::string() : stub_cuda_path();
}

hal::CudaModule module_of(std::string_view entry_point, std::string_view text, uint32_t threads) {
  hal::CudaModule module;
  const auto bytes = std::as_bytes(std::span(text));
  module.code.assign(bytes.begin(), bytes.end());
  module.code.push_back(std::byte{0});
  module.entry_point = entry_point;
  module.binding_lengths = true;
  module.threads = {threads, 1, 1};
  return module;
}

// One block, as a group of the CPU's function. The arguments: see CudaModule.
int run_block(const hal::HostFunction& function, uint32_t bindings, uint32_t threads,
              const StubLaunch& launch) {
  constexpr size_t kWord = sizeof(uint64_t);
  std::vector<std::span<std::byte>> spans;
  for (uint32_t i = 0; i < bindings; ++i) {
    const auto address = launch.argument<uint64_t>(i * kWord);
    const auto length = launch.argument<uint64_t>((bindings + i) * kWord);
    spans.emplace_back(stub_cuda::pointer_of<std::byte>(address), length);
  }
  const std::span arguments(launch.arguments, launch.argument_bytes);
  const auto& [grid, block, at] = std::tie(launch.grid, launch.block, launch.block_index);
  if (block.x != threads || block.y != 1 || block.z != 1) return hal::cu::CUDA_ERROR_INVALID_VALUE;
  function({{at.x, at.y, at.z},
            {grid.x, grid.y, grid.z},
            spans,
            arguments.subspan(std::min(2 * bindings * kWord, arguments.size()))});
  return hal::cu::CUDA_SUCCESS;
}

}  // namespace

std::string why_no_cuda_gpu() {
  if (env::flag("HOLDFAST_REQUIRE_CUDA").value_or(false)) return {};
  const auto api = hal::CudaApi::load();
  return api ? std::string() : api.failure().message();
}

const char* to_string(CudaDriver driver) {
  return driver == CudaDriver::gpu ? "a GPU" : "the stub driver";
}

CudaDriver cuda_driver() {
  static const CudaDriver chosen = [] {
    const auto wanted = env::text("HOLDFAST_TEST_CUDA");
    if (wanted && *wanted != "stub") {
      throw UsageError("HOLDFAST_TEST_CUDA is 'stub' or not set, and not '" + *wanted + "'");
    }
    return !wanted && why_no_cuda_gpu().empty() ? CudaDriver::gpu : CudaDriver::stub;
  }();
  return chosen;
}

std::string why_no_cuda() {
  const CudaDriver driver = cuda_driver();
  if (::testing::UnitTest::GetInstance()->current_test_info() != nullptr) {
    ::testing::Test::RecordProperty("cuda_driver", to_string(driver));
  }
  return driver == CudaDriver::gpu ? why_no_cuda_gpu() : why_no_stub_cuda();
}

Failure load_cuda() {
  const auto api = hal::CudaApi::load(driver_path());
  if (!api) return api.failure();
  static const hal::cu::CUresult retained = [&] {
    hal::cu::CUcontext context = nullptr;
    return api.value()->calls().cuDevicePrimaryCtxRetain(&context, 0);
  }();
  if (retained == hal::cu::CUDA_SUCCESS) return {};
  return Failure(ErrorCode::environment,
                 "the GPU has no context: " + api.value()->describe(retained));
}

std::shared_ptr<const hal::CudaApi> cuda_api() {
  return hal::CudaApi::load(driver_path()).or_raise();
}

Result<Ref<hal::CudaDevice>> open_cuda(hal::CudaOptions options) {
  options.driver = driver_path();
  options.queues = limited_queues(options.queues);
  if (Failure failure = load_cuda()) return failure;
  return hal::CudaDevice::open(options);
}

std::vector<std::string> take_cuda_complaints() {
  if (cuda_driver() == CudaDriver::gpu) return {};
  return stub_cuda_control().take_violations();
}

hal::CudaModule ptx_module(std::string_view entry_point, std::string_view ptx, uint32_t threads) {
  return module_of(entry_point, ptx, threads);
}

hal::CudaModule stub_module(std::string_view entry_point, hal::HostFunction function,
                            uint32_t bindings, Bytes parameter_bytes, uint32_t threads) {
  const std::string name(entry_point);
  stub_cuda_control().register_kernel(
      name, [function = std::move(function), bindings, threads](const StubLaunch& launch) {
        return run_block(function, bindings, threads, launch);
      });
  std::string declared = name;
  for (uint32_t i = 0; i < 2 * bindings; ++i) declared += " 8";
  if (parameter_bytes > 0_B) declared += fmt::format(" {}", parameter_bytes.value);
  return module_of(entry_point, stub_cuda_module({declared}), threads);
}

}  // namespace holdfast::testing
