#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/cuda/cuda_api.h"
#include "holdfast/testing/stub_cuda.h"
#include "holdfast/testing/variable.h"

// The stub of NVIDIA's driver, used as a program in plain CUDA uses a driver.

namespace holdfast::hal {
namespace {

using namespace cu;
using stub_cuda::pointer_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Arguments as one block of bytes.
struct Arguments {
  uint64_t data = 0;
  uint32_t multiplier = 1;
  uint32_t addend = 0;
};

int affine_word(const testing::StubLaunch& launch) {
  const auto arguments = launch.argument<Arguments>(0);
  auto* const word = pointer_of<uint32_t>(arguments.data);
  *word = *word * arguments.multiplier + arguments.addend;
  return CUDA_SUCCESS;
}
// Block (x, y, z) stores its own number.
int number_blocks(const testing::StubLaunch& launch) {
  const auto [x, y, z] = launch.block_index;
  const unsigned number = x + launch.grid.x * (y + launch.grid.y * z);
  pointer_of<uint32_t>(launch.argument<uint64_t>(0))[number] = number;
  return CUDA_SUCCESS;
}
int illegal_access(const testing::StubLaunch&) { return CUDA_ERROR_ILLEGAL_ADDRESS; }
int throwing(const testing::StubLaunch&) { throw std::runtime_error("no"); }

class StubDriver : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = testing::why_no_stub_cuda(); !why.empty()) GTEST_SKIP() << why;
    stub_ = &testing::stub_cuda_control();
    stub_->reset();
    stub_->register_kernel("affine_word", affine_word);
    stub_->register_kernel("waiting_affine_word", affine_word);
    stub_->register_kernel("number_blocks", number_blocks);
    stub_->register_kernel("illegal_access", illegal_access);
    stub_->register_kernel("throwing", throwing);
    calls_ = CudaApi::load(testing::stub_cuda_path()).or_raise()->calls();
    open();
  }
  void TearDown() override {
    if (stub_ == nullptr) return;
    stub_->release();
    if (context_ != nullptr) close();
    stub_->reset();
  }

  void open() {
    ASSERT_EQ(calls_.cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(calls_.cuCtxPushCurrent(context_), CUDA_SUCCESS);
    CUmemPoolProps properties;
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    ASSERT_EQ(calls_.cuMemPoolCreate(&pool_, &properties), CUDA_SUCCESS);
    ASSERT_EQ(
        calls_.cuModuleLoadDataEx(
            &module_,
            testing::stub_cuda_module({"affine_word", "waiting_affine_word waits", "number_blocks",
                                       "illegal_access", "throwing", "unknown"})
                .c_str(),
            0, nullptr, nullptr),
        CUDA_SUCCESS);
  }
  // As a program that ends well: nothing is in flight.
  void close() {
    CUcontext current = nullptr;
    EXPECT_EQ(calls_.cuCtxPopCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, context_);
    context_ = nullptr;
    stub_->drain();
    EXPECT_EQ(calls_.cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }

  // What a reset() leaves behind cannot be closed.
  void leave() {
    CUcontext current = nullptr;
    EXPECT_EQ(calls_.cuCtxPopCurrent(&current), CUDA_SUCCESS);
    context_ = nullptr;
  }

  testing::StubControl& stub() { return *stub_; }
  const Calls& cuda() const { return calls_; }
  CUcontext context() const { return context_; }

  CUstream stream() {
    CUstream made = nullptr;
    EXPECT_EQ(cuda().cuStreamCreate(&made, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return made;
  }
  CUevent event() {
    CUevent made = nullptr;
    EXPECT_EQ(cuda().cuEventCreate(&made, 0), CUDA_SUCCESS);
    return made;
  }
  CUdeviceptr device_words(size_t count, CUstream on) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuda().cuMemAllocFromPoolAsync(&address, count * 4, pool_, on), CUDA_SUCCESS);
    return address;
  }
  template <typename T>
  T* pinned(size_t count) {
    void* address = nullptr;
    EXPECT_EQ(cuda().cuMemHostAlloc(&address, count * sizeof(T), CU_MEMHOSTALLOC_PORTABLE),
              CUDA_SUCCESS);
    std::fill_n(static_cast<T*>(address), count, T{});
    return static_cast<T*>(address);
  }
  static CUdeviceptr address_of(const void* host) { return reinterpret_cast<uintptr_t>(host); }

  CUfunction function(const char* name) {
    CUfunction found = nullptr;
    EXPECT_EQ(cuda().cuModuleGetFunction(&found, module_, name), CUDA_SUCCESS) << name;
    return found;
  }
  CUmodule module() const { return module_; }
  CUmemoryPool pool() const { return pool_; }

  CUresult launch(CUfunction kernel, const Arguments& arguments, CUstream on,
                  std::array<unsigned, 3> grid = {1, 1, 1}, unsigned threads = 32) {
    Arguments copied = arguments;
    size_t size = sizeof(copied);
    std::array<void*, 5> extra = extra_of(copied, size);
    return cuda().cuLaunchKernel(kernel, grid[0], grid[1], grid[2], threads, 1, 1, 0, on, nullptr,
                                 extra.data());
  }
  static std::array<void*, 5> extra_of(Arguments& arguments, size_t& size) {
    return {pointer_of<void>(CU_LAUNCH_PARAM_BUFFER_POINTER), &arguments,
            pointer_of<void>(CU_LAUNCH_PARAM_BUFFER_SIZE), &size,
            pointer_of<void>(CU_LAUNCH_PARAM_END)};
  }
  // A node that runs affine_word.
  CUgraphNode add_affine(CUgraph graph, const Arguments& arguments,
                         const std::vector<CUgraphNode>& after = {},
                         const char* kernel = "affine_word") {
    Arguments copied = arguments;
    size_t size = sizeof(copied);
    std::array<void*, 5> extra = extra_of(copied, size);
    CudaKernelNodeParams parameters;
    parameters.func = function(kernel);
    parameters.extra = extra.data();
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuda().cuGraphAddKernelNode(&node, graph, after.data(), after.size(), &parameters),
              CUDA_SUCCESS);
    return node;
  }
  CUresult set_affine(CUgraphExec exec, CUgraphNode node, const Arguments& arguments) {
    Arguments copied = arguments;
    size_t size = sizeof(copied);
    std::array<void*, 5> extra = extra_of(copied, size);
    CudaKernelNodeParams parameters;
    parameters.func = function("affine_word");
    parameters.extra = extra.data();
    return cuda().cuGraphExecKernelNodeSetParams(exec, node, &parameters);
  }
  CUgraph graph() {
    CUgraph made = nullptr;
    EXPECT_EQ(cuda().cuGraphCreate(&made, 0), CUDA_SUCCESS);
    return made;
  }
  CUgraphExec instantiated(CUgraph from) {
    CUgraphExec made = nullptr;
    EXPECT_EQ(cuda().cuGraphInstantiateWithFlags(&made, from, 0), CUDA_SUCCESS);
    return made;
  }
  void wait(CUstream on) { EXPECT_EQ(cuda().cuStreamSynchronize(on), CUDA_SUCCESS); }
  // The one violation so far.
  std::string violation() {
    const auto all = stub().take_violations();
    EXPECT_EQ(all.size(), 1U) << ::testing::PrintToString(all);
    return all.empty() ? std::string() : all.front();
  }

 private:
  testing::StubControl* stub_ = nullptr;
  Calls calls_;
  CUcontext context_ = nullptr;
  CUmemoryPool pool_ = nullptr;
  CUmodule module_ = nullptr;
};

// Devices and contexts

TEST_F(StubDriver, devices_are_what_the_test_says) {
  stub().set_devices(
      {{"A", 1 << 20, {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 7}}}, {"B", 2 << 20}});
  int count = 0;
  EXPECT_EQ(cuda().cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2);
  std::array<char, 8> name{};
  EXPECT_EQ(cuda().cuDeviceGetName(name.data(), name.size(), 1), CUDA_SUCCESS);
  EXPECT_STREQ(name.data(), "B");
  int major = 0;
  EXPECT_EQ(cuda().cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(major, 7);
  EXPECT_EQ(cuda().cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 1),
            CUDA_SUCCESS);
  EXPECT_EQ(major, 9);
  size_t bytes = 0;
  EXPECT_EQ(cuda().cuDeviceTotalMem(&bytes, 1), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 2U << 20);
  CUdevice device = 0;
  EXPECT_EQ(cuda().cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
  stub().reset();
  open();  // what TearDown closes: the context before belongs to a device that is gone
}

TEST_F(StubDriver, calls_need_a_context_of_their_thread) {
  CUresult elsewhere = CUDA_SUCCESS;
  sync::Thread("other", [&] {
    CUstream made = nullptr;
    elsewhere = cuda().cuStreamCreate(&made, 0);
  }).join();
  EXPECT_EQ(elsewhere, CUDA_ERROR_INVALID_CONTEXT);
  CUcontext current = nullptr;
  EXPECT_EQ(cuda().cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, context());
}

TEST_F(StubDriver, the_primary_context_lives_until_its_last_release) {
  CUcontext again = nullptr;
  EXPECT_EQ(cuda().cuDevicePrimaryCtxRetain(&again, 0), CUDA_SUCCESS);
  EXPECT_EQ(again, context());
  EXPECT_EQ(cuda().cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  const CUstream on = stream();
  close();
  EXPECT_EQ(cuda().cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_THAT(violation(), HasSubstr("cuDevicePrimaryCtxRelease"));
  open();
  EXPECT_EQ(cuda().cuStreamQuery(on), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_THAT(violation(), HasSubstr("cuStreamQuery was given the handle"));
}

// Streams, events and values

TEST_F(StubDriver, a_stream_runs_in_order_and_asynchronously) {
  auto* const word = pinned<uint32_t>(1);
  const CUstream on = stream();
  stub().hold(on);
  EXPECT_EQ(launch(function("affine_word"), {address_of(word), 1, 5}, on), CUDA_SUCCESS);
  EXPECT_EQ(launch(function("affine_word"), {address_of(word), 3, 1}, on), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamQuery(on), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(*word, 0U);
  EXPECT_EQ(stub().in_flight(), 2U);
  stub().release(on);
  wait(on);
  EXPECT_EQ(cuda().cuStreamQuery(on), CUDA_SUCCESS);
  EXPECT_EQ(*word, 16U);
  EXPECT_EQ(stub().in_flight(), 0U);
}

TEST_F(StubDriver, copies_and_fills_reach_device_memory) {
  const CUstream on = stream();
  auto* const host = pinned<uint32_t>(4);
  const CUdeviceptr device = device_words(4, on);
  EXPECT_EQ(cuda().cuMemsetD32Async(device, 7, 4, on), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemsetD8Async(device + 4, 1, 4, on), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemcpyAsync(address_of(host), device, 16, on), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemcpyAsync(address_of(host), device, 17, on), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuda().cuMemFreeAsync(device, on), CUDA_SUCCESS);
  wait(on);
  EXPECT_THAT(std::vector<uint32_t>(host, host + 4), ElementsAre(7, 0x01010101, 7, 7));
}

TEST_F(StubDriver, an_event_orders_streams) {
  auto* const word = pinned<uint32_t>(1);
  const CUstream first = stream();
  const CUstream second = stream();
  const CUevent recorded = event();
  EXPECT_EQ(cuda().cuEventQuery(recorded), CUDA_SUCCESS);
  stub().hold(first);
  EXPECT_EQ(launch(function("affine_word"), {address_of(word), 1, 5}, first), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuEventRecord(recorded, first), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuEventQuery(recorded), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuda().cuStreamWaitEvent(second, recorded, 0), CUDA_SUCCESS);
  EXPECT_EQ(launch(function("affine_word"), {address_of(word), 3, 1}, second), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamQuery(second), CUDA_ERROR_NOT_READY);
  stub().release(first);
  wait(second);
  EXPECT_EQ(*word, 16U);
  EXPECT_EQ(cuda().cuEventQuery(recorded), CUDA_SUCCESS);
}

TEST_F(StubDriver, a_wait_is_for_the_recording_before_it) {
  const CUstream first = stream();
  const CUstream second = stream();
  const CUevent recorded = event();
  EXPECT_EQ(cuda().cuEventRecord(recorded, first), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamWaitEvent(second, recorded, 0), CUDA_SUCCESS);
  wait(first);
  stub().hold(first);
  EXPECT_EQ(cuda().cuEventRecord(recorded, first), CUDA_SUCCESS);
  wait(second);
  EXPECT_EQ(cuda().cuEventQuery(recorded), CUDA_ERROR_NOT_READY);
  stub().release(first);
}

TEST_F(StubDriver, events_measure_time) {
  const CUstream on = stream();
  const CUevent begin = event();
  const CUevent end = event();
  float milliseconds = -1;
  EXPECT_EQ(cuda().cuEventElapsedTime(&milliseconds, begin, end), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuda().cuEventRecord(begin, on), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuEventRecord(end, on), CUDA_SUCCESS);
  wait(on);
  EXPECT_EQ(cuda().cuEventElapsedTime(&milliseconds, begin, end), CUDA_SUCCESS);
  EXPECT_GE(milliseconds, 0);
}

TEST_F(StubDriver, values_order_streams_and_the_host) {
  auto* const counters = pinned<uint64_t>(2);
  const CUstream first = stream();
  const CUstream second = stream();
  EXPECT_EQ(cuda().cuStreamWaitValue64(first, address_of(counters), 3, CU_STREAM_WAIT_VALUE_GEQ),
            CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamWriteValue64(first, address_of(counters + 1), 8, 0), CUDA_SUCCESS);
  EXPECT_EQ(
      cuda().cuStreamWaitValue64(second, address_of(counters + 1), 8, CU_STREAM_WAIT_VALUE_GEQ),
      CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamQuery(second), CUDA_ERROR_NOT_READY);
  std::atomic_ref<uint64_t>(counters[0]).store(4);
  wait(second);
  EXPECT_EQ(std::atomic_ref<uint64_t>(counters[1]).load(), 8U);
}

TEST_F(StubDriver, values_are_refused_where_the_device_lacks_them) {
  auto* const counter = pinned<uint64_t>(1);
  const CUstream on = stream();
  EXPECT_EQ(cuda().cuStreamWriteValue64(on, address_of(counter) + 4, 1, 0),
            CUDA_ERROR_INVALID_VALUE);
  uint64_t pageable = 0;
  EXPECT_EQ(cuda().cuStreamWriteValue64(on, address_of(&pageable), 1, 0), CUDA_ERROR_INVALID_VALUE);
  close();
  stub().set_devices({{"old", 1 << 20, {{CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0}}}});
  open();
  EXPECT_EQ(cuda().cuStreamWriteValue64(stream(), address_of(pinned<uint64_t>(1)), 1, 0),
            CUDA_ERROR_NOT_SUPPORTED);
}

// Memory

TEST_F(StubDriver, memory_is_limited) {
  close();
  stub().set_devices({{"small", 1 << 20}});
  open();
  const CUstream on = stream();
  const CUdeviceptr first = device_words((3 << 20) / 16, on);
  size_t free = 0;
  size_t total = 0;
  EXPECT_EQ(cuda().cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(free, 1U << 18);
  EXPECT_EQ(total, 1U << 20);
  CUdeviceptr second = 0;
  EXPECT_EQ(cuda().cuMemAllocFromPoolAsync(&second, 1 << 19, pool(), on), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuda().cuMemFreeAsync(first, on), CUDA_SUCCESS);
  wait(on);
  EXPECT_EQ(cuda().cuMemAllocFromPoolAsync(&second, 1 << 19, pool(), on), CUDA_SUCCESS);
}

TEST_F(StubDriver, registered_memory_is_known_until_it_is_unregistered) {
  std::vector<uint32_t> host(64);
  EXPECT_EQ(cuda().cuMemHostRegister(host.data(), 128, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemHostRegister(host.data() + 16, 128, 0),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cuda().cuMemHostRegister(host.data() + 32, 128, 0), CUDA_SUCCESS);
  CUdeviceptr device = 0;
  EXPECT_EQ(cuda().cuMemHostGetDevicePointer(&device, host.data(), 0), CUDA_SUCCESS);
  EXPECT_EQ(device, address_of(host.data()));
  unsigned type = 0;
  size_t size = 0;
  std::array<int, 2> attributes{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  std::array<void*, 2> values{&type, &size};
  EXPECT_EQ(cuda().cuPointerGetAttributes(2, attributes.data(), values.data(),
                                          address_of(host.data()) + 5),
            CUDA_SUCCESS);
  EXPECT_EQ(type, CU_MEMORYTYPE_HOST);
  EXPECT_EQ(size, 128U);
  EXPECT_EQ(cuda().cuMemHostUnregister(host.data()), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemHostUnregister(host.data() + 32), CUDA_SUCCESS);
  EXPECT_EQ(
      cuda().cuPointerGetAttributes(2, attributes.data(), values.data(), address_of(host.data())),
      CUDA_SUCCESS);
  EXPECT_EQ(type, 0U);
  EXPECT_EQ(cuda().cuMemHostGetDevicePointer(&device, host.data(), 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StubDriver, copies_of_pageable_memory_wait_and_are_counted) {
  const CUstream on = stream();
  std::vector<uint32_t> host{1, 2};
  const CUdeviceptr device = device_words(2, on);
  EXPECT_EQ(cuda().cuMemcpyAsync(device, address_of(host.data()), 8, on), CUDA_SUCCESS);
  EXPECT_EQ(stub().synchronising_calls("cuMemcpyAsync"), 1U);
  EXPECT_EQ(cuda().cuStreamQuery(on), CUDA_SUCCESS);
}

// Kernels

TEST_F(StubDriver, blocks_of_a_grid_have_their_numbers) {
  auto* const words = pinned<uint32_t>(24);
  const CUstream on = stream();
  EXPECT_EQ(launch(function("number_blocks"), {address_of(words)}, on, {2, 3, 4}), CUDA_SUCCESS);
  wait(on);
  for (uint32_t i = 0; i < 24; ++i) EXPECT_EQ(words[i], i);
}

TEST_F(StubDriver, launches_that_exceed_the_device_are_refused) {
  const CUstream on = stream();
  const CUfunction kernel = function("illegal_access");
  EXPECT_EQ(launch(kernel, {}, on, {0, 1, 1}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(kernel, {}, on, {1, 65536, 1}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(kernel, {}, on, {1, 1, 1}, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(kernel, {}, on, {1, 1, 1}, 1025), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuda().cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 64 << 10, on, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(
      cuda().cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300 << 10),
      CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(
      cuda().cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10),
      CUDA_SUCCESS);
  EXPECT_EQ(stub().in_flight(), 0U);
}

TEST_F(StubDriver, launch_attributes_are_checked) {
  auto* const words = pinned<uint32_t>(16);
  const CUfunction kernel = function("number_blocks");
  CUlaunchAttribute attribute;
  CUlaunchConfig config;
  config.hStream = stream();
  config.attrs = &attribute;
  config.numAttrs = 1;
  Arguments arguments{address_of(words)};
  size_t size = sizeof(arguments);
  std::array<void*, 5> extra = extra_of(arguments, size);
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {2, 1, 1};
  config.gridDimX = 3;
  EXPECT_EQ(cuda().cuLaunchKernelEx(&config, kernel, nullptr, extra.data()),
            CUDA_ERROR_INVALID_CLUSTER_SIZE);
  config.gridDimX = 4;
  EXPECT_EQ(cuda().cuLaunchKernelEx(&config, kernel, nullptr, extra.data()), CUDA_SUCCESS);
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  config.gridDimX = 16;
  EXPECT_EQ(cuda().cuLaunchKernelEx(&config, kernel, nullptr, extra.data()), CUDA_SUCCESS);
  config.gridDimX = 1 << 20;
  EXPECT_EQ(cuda().cuLaunchKernelEx(&config, kernel, nullptr, extra.data()),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  wait(config.hStream);
}

TEST_F(StubDriver, images_and_names_are_checked) {
  CUmodule made = nullptr;
  EXPECT_EQ(cuda().cuModuleLoadDataEx(&made, "what is this", 0, nullptr, nullptr),
            CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(cuda().cuModuleLoadDataEx(&made, "\177ELF of another GPU", 0, nullptr, nullptr),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  std::array<char, 64> log{};
  std::array<int, 2> options{5, 6};  // the error log, and its size
  std::array<void*, 2> values{log.data(), pointer_of<void>(log.size())};
  EXPECT_EQ(
      cuda().cuModuleLoadDataEx(&made, "holdfast broken ptx\n", 2, options.data(), values.data()),
      CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(log.data(), HasSubstr("Parsing error"));
  CUfunction found = nullptr;
  EXPECT_EQ(cuda().cuModuleGetFunction(&found, module(), "not_in_the_image"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuda().cuModuleGetFunction(&found, module(), "unknown"), CUDA_ERROR_NOT_FOUND);
}

TEST_F(StubDriver, real_images_are_taken_and_do_nothing_where_that_is_asked_for) {
  const testing::Variable idle("HOLDFAST_STUB_CUDA_IDLE", "1");
  CUmodule made = nullptr;
  ASSERT_EQ(cuda().cuModuleLoadDataEx(&made, "\177ELF of a GPU", 0, nullptr, nullptr),
            CUDA_SUCCESS);
  CUfunction any = nullptr;
  ASSERT_EQ(cuda().cuModuleGetFunction(&any, made, "whatever"), CUDA_SUCCESS);
  const CUstream on = stream();
  uint64_t argument = 1;
  std::array<void*, 1> arguments{&argument};
  EXPECT_EQ(cuda().cuLaunchKernel(any, 1, 1, 1, 1, 1, 1, 0, on, arguments.data(), nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamSynchronize(on), CUDA_SUCCESS);
}

TEST_F(StubDriver, a_kernel_may_declare_its_arguments) {
  const CUstream on = stream();
  CUmodule declaring = nullptr;
  ASSERT_EQ(cuda().cuModuleLoadDataEx(&declaring,
                                      testing::stub_cuda_module({"affine_word 8 4 12"}).c_str(), 0,
                                      nullptr, nullptr),
            CUDA_SUCCESS);
  CUfunction kernel = nullptr;
  ASSERT_EQ(cuda().cuModuleGetFunction(&kernel, declaring, "affine_word"), CUDA_SUCCESS);
  size_t offset = 0;
  size_t size = 0;
  EXPECT_EQ(cuda().cuFuncGetParamInfo(kernel, 2, &offset, &size), CUDA_SUCCESS);
  EXPECT_EQ(offset, 16U);
  EXPECT_EQ(size, 12U);
  EXPECT_EQ(cuda().cuFuncGetParamInfo(kernel, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuda().cuFuncGetParamInfo(function("affine_word"), 0, &offset, &size),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(launch(kernel, {}, on), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(violation(), HasSubstr("16 bytes of arguments, and it declares 28"));
}

TEST_F(StubDriver, a_fault_is_sticky_and_ends_all_work) {
  auto* const word = pinned<uint32_t>(1);
  const CUstream first = stream();
  const CUstream second = stream();
  stub().hold(second);
  EXPECT_EQ(launch(function("affine_word"), {address_of(word), 1, 5}, second), CUDA_SUCCESS);
  EXPECT_EQ(launch(function("illegal_access"), {}, first), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamSynchronize(first), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuda().cuStreamSynchronize(second), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuda().cuStreamQuery(second), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUevent made = nullptr;
  EXPECT_EQ(cuda().cuEventCreate(&made, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuda().cuMemFreeHost(word), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(*word, 0U);
  close();
  open();  // a new context works
  EXPECT_NE(stream(), nullptr);
}

TEST_F(StubDriver, what_a_kernel_throws_is_a_failed_launch) {
  const CUstream on = stream();
  EXPECT_EQ(launch(function("throwing"), {}, on), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamSynchronize(on), CUDA_ERROR_LAUNCH_FAILED);
}

TEST_F(StubDriver, a_lost_device_wakes_whoever_waits) {
  auto* const counter = pinned<uint64_t>(1);
  const CUstream on = stream();
  EXPECT_EQ(cuda().cuStreamWaitValue64(on, address_of(counter), 1, 0), CUDA_SUCCESS);
  CUresult result = CUDA_SUCCESS;
  sync::Thread waits("waits", [&] {
    cuda().cuCtxPushCurrent(context());
    result = cuda().cuStreamSynchronize(on);
  });
  stub().lose(0, CUDA_ERROR_ECC_UNCORRECTABLE);
  waits.join();
  EXPECT_EQ(result, CUDA_ERROR_ECC_UNCORRECTABLE);
}

// Graphs

TEST_F(StubDriver, edges_order_a_graph) {
  auto* const word = pinned<uint32_t>(1);
  const CUstream on = stream();
  const CUgraph made = graph();
  const CUgraphNode first = add_affine(made, {address_of(word), 0, 5});
  const CUgraphNode second = add_affine(made, {address_of(word), 3, 1}, {first});
  const CUgraphNode third = add_affine(made, {address_of(word), 2, 7});
  EXPECT_EQ(cuda().cuGraphAddDependencies(made, &second, &third, nullptr, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuGraphAddDependencies(made, &second, &third, nullptr, 1),
            CUDA_ERROR_INVALID_VALUE);
  const CUgraphExec exec = instantiated(made);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(cuda().cuGraphLaunch(exec, on), CUDA_SUCCESS);
    wait(on);
    EXPECT_EQ(*word, (5U * 3 + 1) * 2 + 7);
  }
}

TEST_F(StubDriver, a_programmatic_edge_orders_kernels_that_wait_and_no_others) {
  auto* const word = pinned<uint32_t>(1);
  const CUstream on = stream();
  CUgraphEdgeData edge;
  edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  for (const char* kernel : {"waiting_affine_word", "affine_word"}) {
    const CUgraph made = graph();
    const CUgraphNode first = add_affine(made, {address_of(word), 0, 5});
    const CUgraphNode second = add_affine(made, {address_of(word), 3, 1}, {}, kernel);
    EXPECT_EQ(cuda().cuGraphAddDependencies(made, &first, &second, &edge, 1), CUDA_SUCCESS);
    const CUgraphExec exec = instantiated(made);
    EXPECT_EQ(stub().latest_graph().edges, 1U);
    EXPECT_EQ(stub().latest_graph().programmatic, 1U);
    EXPECT_EQ(cuda().cuGraphLaunch(exec, on), CUDA_SUCCESS);
    wait(on);
    EXPECT_EQ(*word == 5U * 3 + 1, std::string_view(kernel) == "waiting_affine_word") << kernel;
  }
}

TEST_F(StubDriver, a_missing_edge_shows_at_the_first_launch_and_in_later_ones) {
  auto* const word = pinned<uint32_t>(1);
  const CUstream on = stream();
  const CUgraph made = graph();
  add_affine(made, {address_of(word), 0, 5});
  add_affine(made, {address_of(word), 3, 1});
  const CUgraphExec exec = instantiated(made);
  int wrong = 0;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(cuda().cuGraphLaunch(exec, on), CUDA_SUCCESS);
    wait(on);
    wrong += *word == 5 ? 1 : 0;
    if (i == 0) {
      EXPECT_EQ(wrong, 1);
    }
  }
  EXPECT_GT(wrong, 3);
  EXPECT_LT(wrong, 17);
}

TEST_F(StubDriver, a_graph_with_a_cycle_is_refused) {
  auto* const word = pinned<uint32_t>(1);
  const CUgraph made = graph();
  const CUgraphNode first = add_affine(made, {address_of(word)});
  const CUgraphNode second = add_affine(made, {address_of(word)}, {first});
  EXPECT_EQ(cuda().cuGraphAddDependencies(made, &second, &first, nullptr, 1), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuda().cuGraphInstantiateWithFlags(&exec, made, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StubDriver, new_parameters_are_for_later_launches) {
  auto* const words = pinned<uint32_t>(2);
  const CUstream on = stream();
  const CUgraph made = graph();
  const CUgraphNode node = add_affine(made, {address_of(words), 0, 5});
  const CUgraphExec exec = instantiated(made);
  stub().hold(on);
  EXPECT_EQ(cuda().cuGraphLaunch(exec, on), CUDA_SUCCESS);
  EXPECT_EQ(set_affine(exec, node, {address_of(words + 1), 0, 6}), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuGraphLaunch(exec, on), CUDA_SUCCESS);
  // The driver frees an executable once its launches are over; Holdfast waits for that.
  EXPECT_EQ(cuda().cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_THAT(violation(), HasSubstr("while a launch of it is in flight"));
  stub().release(on);
  wait(on);
  EXPECT_EQ(words[0], 5U);
  EXPECT_EQ(words[1], 6U);
  EXPECT_EQ(cuda().cuGraphDestroy(made), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuGraphLaunch(exec, on), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_THAT(violation(), HasSubstr("cuGraphLaunch was given the handle"));
}

TEST_F(StubDriver, nodes_belong_to_their_graph) {
  auto* const word = pinned<uint32_t>(1);
  const CUgraph made = graph();
  const CUgraphNode node = add_affine(made, {address_of(word)});
  const CUgraphExec exec = instantiated(made);
  EXPECT_EQ(cuda().cuGraphDestroy(made), CUDA_SUCCESS);
  EXPECT_EQ(set_affine(exec, node, {address_of(word)}), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_THAT(violation(), HasSubstr("cuGraphExecKernelNodeSetParams"));
}

TEST_F(StubDriver, an_executable_graph_does_not_run_beside_itself) {
  auto* const word = pinned<uint32_t>(1);
  const CUstream first = stream();
  const CUstream second = stream();
  const CUgraph made = graph();
  add_affine(made, {address_of(word), 1, 1});
  const CUgraphExec exec = instantiated(made);
  stub().hold(first);
  EXPECT_EQ(cuda().cuGraphLaunch(exec, first), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuGraphLaunch(exec, second), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamQuery(second), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(*word, 0U);
  stub().release(first);
  wait(second);
  EXPECT_EQ(*word, 2U);
}

TEST_F(StubDriver, copy_and_fill_nodes_take_new_operands_of_the_same_kind) {
  const CUstream on = stream();
  const CUdeviceptr device = device_words(8, on);
  auto* const host = pinned<uint32_t>(8);
  wait(on);
  const CUgraph made = graph();
  CudaMemsetNodeParams fill;
  fill.dst = device;
  fill.value = 9;
  fill.elementSize = 4;
  fill.width = 4;
  CUgraphNode filled = nullptr;
  ASSERT_EQ(cuda().cuGraphAddMemsetNode(&filled, made, nullptr, 0, &fill, context()), CUDA_SUCCESS);
  CudaMemcpy3D copy;
  copy.srcDevice = device;
  copy.dstDevice = address_of(host);
  copy.WidthInBytes = 16;
  CUgraphNode copied = nullptr;
  ASSERT_EQ(cuda().cuGraphAddMemcpyNode(&copied, made, &filled, 1, &copy, context()), CUDA_SUCCESS);
  const CUgraphExec exec = instantiated(made);
  EXPECT_EQ(cuda().cuGraphLaunch(exec, on), CUDA_SUCCESS);
  fill.dst = device + 16;
  fill.value = 8;
  EXPECT_EQ(cuda().cuGraphExecMemsetNodeSetParams(exec, filled, &fill, context()), CUDA_SUCCESS);
  copy.srcDevice = device + 16;
  copy.dstDevice = address_of(host + 4);
  EXPECT_EQ(cuda().cuGraphExecMemcpyNodeSetParams(exec, copied, &copy, context()), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuGraphLaunch(exec, on), CUDA_SUCCESS);
  wait(on);
  EXPECT_THAT(std::vector<uint32_t>(host, host + 8), ElementsAre(9, 9, 9, 9, 8, 8, 8, 8));

  copy.dstDevice = device;  // which was the host's
  EXPECT_EQ(cuda().cuGraphExecMemcpyNodeSetParams(exec, copied, &copy, context()),
            CUDA_ERROR_INVALID_VALUE);
  fill.elementSize = 1;
  EXPECT_EQ(cuda().cuGraphExecMemsetNodeSetParams(exec, filled, &fill, context()),
            CUDA_ERROR_INVALID_VALUE);
}

// What a driver leaves undefined

TEST_F(StubDriver, memory_freed_before_its_user_ran_is_reported) {
  const CUstream first = stream();
  const CUstream second = stream();
  const CUdeviceptr device = device_words(4, first);
  wait(first);
  stub().hold(first);
  EXPECT_EQ(launch(function("affine_word"), {device, 1, 1}, first), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemFreeAsync(device, second), CUDA_SUCCESS);
  wait(second);
  EXPECT_THAT(violation(), HasSubstr("was not made to wait for 'affine_word'"));
  stub().release(first);
  EXPECT_EQ(cuda().cuStreamSynchronize(first), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(violation(), HasSubstr("that it uses is freed"));
}

TEST_F(StubDriver, memory_freed_after_its_user_is_fine) {
  const CUstream first = stream();
  const CUstream second = stream();
  const CUevent used = event();
  const CUdeviceptr device = device_words(4, first);
  stub().hold(first);
  EXPECT_EQ(launch(function("affine_word"), {device, 0, 1}, first), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuEventRecord(used, first), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamWaitEvent(second, used, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemFreeAsync(device, second), CUDA_SUCCESS);
  stub().release(first);
  wait(second);
  EXPECT_THAT(stub().violations(), IsEmpty());
}

TEST_F(StubDriver, a_use_after_a_free_is_reported) {
  const CUstream on = stream();
  const CUdeviceptr device = device_words(4, on);
  stub().hold(on);
  EXPECT_EQ(cuda().cuMemFreeAsync(device, on), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemsetD32Async(device, 0, 4, on), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(violation(), HasSubstr("was given to cuMemFreeAsync before"));
  EXPECT_EQ(cuda().cuMemFreeAsync(device, on), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(violation(), HasSubstr("is not allocated"));
  stub().release(on);
  wait(on);
  EXPECT_EQ(cuda().cuMemsetD32Async(device, 0, 4, on), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(violation(), HasSubstr("which was freed"));
  EXPECT_EQ(launch(function("affine_word"), {device, 1, 1}, on), CUDA_SUCCESS);
  EXPECT_THAT(violation(), HasSubstr("'affine_word' gets a pointer into"));
  EXPECT_EQ(cuda().cuStreamSynchronize(on), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(StubDriver, a_use_before_the_allocation_is_reported) {
  const CUstream first = stream();
  const CUstream second = stream();
  stub().hold(first);
  const CUdeviceptr device = device_words(4, first);
  EXPECT_EQ(cuda().cuMemsetD32Async(device, 0, 4, second), CUDA_SUCCESS);
  wait(second);
  EXPECT_THAT(violation(), HasSubstr("runs before the allocation"));
  stub().release(first);
}

TEST_F(StubDriver, pinned_memory_freed_in_flight_is_reported_and_counted) {
  auto* const word = pinned<uint32_t>(1);
  auto* const other = pinned<uint32_t>(1);
  const CUstream on = stream();
  stub().hold(on);
  EXPECT_EQ(cuda().cuMemsetD32Async(address_of(word), 1, 1, on), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuMemFreeHost(other), CUDA_SUCCESS);
  EXPECT_THAT(stub().violations(), IsEmpty());
  EXPECT_EQ(stub().synchronising_calls("cuMemFreeHost"), 1U);
  EXPECT_EQ(cuda().cuMemFreeHost(word), CUDA_SUCCESS);
  EXPECT_THAT(violation(), HasSubstr("while 'cuMemsetD32Async' in stream"));
  EXPECT_EQ(stub().synchronising_calls(), 2U);
  stub().release(on);
  EXPECT_EQ(cuda().cuStreamSynchronize(on), CUDA_ERROR_ILLEGAL_ADDRESS);
  stub().take_violations();
}

TEST_F(StubDriver, a_module_unloaded_in_flight_is_reported) {
  auto* const word = pinned<uint32_t>(1);
  const CUstream on = stream();
  const CUfunction kernel = function("affine_word");
  stub().hold(on);
  EXPECT_EQ(launch(kernel, {address_of(word), 1, 1}, on), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuModuleUnload(module()), CUDA_SUCCESS);
  EXPECT_THAT(violation(), HasSubstr("while a kernel of it is in flight"));
  EXPECT_EQ(launch(kernel, {address_of(word), 1, 1}, on), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_THAT(violation(), HasSubstr("cuLaunchKernel was given the handle"));
  stub().release(on);
  EXPECT_EQ(cuda().cuStreamSynchronize(on), CUDA_ERROR_LAUNCH_FAILED);
  stub().take_violations();
}

TEST_F(StubDriver, streams_and_events_destroyed_in_flight_are_reported_and_finish) {
  auto* const word = pinned<uint32_t>(1);
  const CUstream on = stream();
  const CUevent recorded = event();
  stub().hold();
  EXPECT_EQ(launch(function("affine_word"), {address_of(word), 1, 5}, on), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuEventRecord(recorded, on), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuEventDestroy(recorded), CUDA_SUCCESS);
  EXPECT_THAT(violation(), HasSubstr("cuEventDestroy"));
  EXPECT_EQ(cuda().cuStreamDestroy(on), CUDA_SUCCESS);
  EXPECT_THAT(violation(), HasSubstr("cuStreamDestroy"));
  stub().release();
  stub().drain();
  EXPECT_EQ(*word, 5U);
}

TEST_F(StubDriver, a_context_released_with_work_in_flight_is_reported) {
  auto* const word = pinned<uint32_t>(1);
  const CUstream on = stream();
  stub().hold();
  EXPECT_EQ(launch(function("affine_word"), {address_of(word), 1, 5}, on), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  EXPECT_THAT(violation(), HasSubstr("had 'affine_word' in flight"));
  EXPECT_EQ(cuda().cuStreamQuery(on), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuda().cuCtxPopCurrent(nullptr), CUDA_SUCCESS);
  open();
}

TEST_F(StubDriver, a_default_stream_without_a_name_is_refused) {
  EXPECT_EQ(cuda().cuStreamQuery(nullptr), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_THAT(violation(), HasSubstr("default stream"));
}

TEST_F(StubDriver, the_legacy_stream_and_blocking_streams_wait_for_each_other) {
  auto* const word = pinned<uint32_t>(1);
  const CUstream legacy = pointer_of<std::remove_pointer_t<CUstream>>(1);
  CUstream blocking = nullptr;
  ASSERT_EQ(cuda().cuStreamCreate(&blocking, 0), CUDA_SUCCESS);
  const CUstream apart = stream();
  auto* const gate = pinned<uint64_t>(1);
  stub().hold(blocking);
  EXPECT_EQ(launch(function("affine_word"), {address_of(word), 1, 5}, blocking), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamWaitValue64(legacy, address_of(gate), 1, CU_STREAM_WAIT_VALUE_GEQ),
            CUDA_SUCCESS);
  EXPECT_EQ(launch(function("affine_word"), {address_of(word), 3, 1}, legacy), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamQuery(legacy), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(launch(function("affine_word"), {address_of(word), 1, 2}, apart), CUDA_SUCCESS);
  wait(apart);
  EXPECT_EQ(*word, 2U) << "a stream that does not block waits for neither";
  stub().release(blocking);
  EXPECT_EQ(launch(function("affine_word"), {address_of(word), 10, 0}, blocking), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
  std::atomic_ref<uint64_t>(*gate).store(1);
  wait(blocking);
  EXPECT_EQ(*word, 220U);
}

TEST_F(StubDriver, calls_fail_by_plan_and_are_counted) {
  stub().fail("cuStreamCreate", 2, CUDA_ERROR_OUT_OF_MEMORY, 2);
  std::vector<CUresult> results;
  for (int i = 0; i < 4; ++i) {
    CUstream made = nullptr;
    results.push_back(cuda().cuStreamCreate(&made, 0));
  }
  EXPECT_THAT(results, ElementsAre(CUDA_SUCCESS, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY,
                                   CUDA_SUCCESS));
  EXPECT_EQ(stub().calls("cuStreamCreate"), 4U);
  EXPECT_THROW(stub().fail("cuStreamCreat", 1, CUDA_ERROR_UNKNOWN), UsageError);
}

TEST_F(StubDriver, a_planned_fault_is_sticky) {
  stub().fail("cuMemHostAlloc", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
  void* address = nullptr;
  EXPECT_EQ(cuda().cuMemHostAlloc(&address, 64, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUstream made = nullptr;
  EXPECT_EQ(cuda().cuStreamCreate(&made, CU_STREAM_NON_BLOCKING), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(StubDriver, a_driver_that_has_shut_down_drops_its_work_and_answers_nothing_else) {
  auto* const word = pinned<uint32_t>(1);
  const CUstream on = stream();
  stub().hold(on);
  EXPECT_EQ(launch(function("affine_word"), {address_of(word), 0, 5}, on), CUDA_SUCCESS);
  stub().shut_down();
  EXPECT_EQ(cuda().cuStreamQuery(on), CUDA_ERROR_DEINITIALIZED);
  EXPECT_EQ(cuda().cuCtxPushCurrent(context()), CUDA_ERROR_DEINITIALIZED);
  int count = 0;
  EXPECT_EQ(cuda().cuDeviceGetCount(&count), CUDA_ERROR_DEINITIALIZED);
  stub().drain();
  EXPECT_EQ(*word, 0U);
  stub().reset();
  EXPECT_EQ(cuda().cuDeviceGetCount(&count), CUDA_SUCCESS);
  leave();
}

TEST_F(StubDriver, what_is_not_given_back_is_counted) {
  const auto before = stub().live();
  const CUstream on = stream();
  const CUdeviceptr words = device_words(4, on);
  auto* const host = pinned<uint32_t>(4);
  const CUgraph made = graph();
  auto more = before;
  ++more["stream"];
  ++more["device memory"];
  ++more["pinned memory"];
  ++more["graph"];
  EXPECT_EQ(stub().live(), more);
  EXPECT_EQ(cuda().cuMemFreeAsync(words, on), CUDA_SUCCESS);
  wait(on);
  EXPECT_EQ(cuda().cuMemFreeHost(host), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuGraphDestroy(made), CUDA_SUCCESS);
  EXPECT_EQ(cuda().cuStreamDestroy(on), CUDA_SUCCESS);
  EXPECT_EQ(stub().live(), before);
}

TEST_F(StubDriver, many_threads_use_one_context) {
  auto* const words = pinned<uint32_t>(4);
  std::vector<sync::Thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back("uses", [&, t] {
      ASSERT_EQ(cuda().cuCtxPushCurrent(context()), CUDA_SUCCESS);
      const CUstream on = stream();
      const CUfunction kernel = function("affine_word");
      for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(launch(kernel, {address_of(words + t), 1, 1}, on), CUDA_SUCCESS);
      }
      wait(on);
      EXPECT_EQ(cuda().cuStreamDestroy(on), CUDA_SUCCESS);
    });
  }
  threads.clear();
  for (size_t t = 0; t < 4; ++t) EXPECT_EQ(words[t], 100U);
}

}  // namespace
}  // namespace holdfast::hal
