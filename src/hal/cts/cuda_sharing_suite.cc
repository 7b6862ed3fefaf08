#include <array>
#include <utility>

#include "holdfast/hal/cts/cts.h"
#include "holdfast/hal/cuda/cuda_api.h"
#include "holdfast/hal/cuda/cuda_device.h"
#include "holdfast/hal/cuda/cuda_resources.h"
#include "holdfast/hal/wrapping_device.h"
#include "holdfast/testing/stub_cuda.h"

// What a CUDA device shares with others in the process: their streams and their memory.

namespace holdfast::hal::cts {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr size_t kSharedBytes = 4096;

class CtsCuda : public Cts {
 protected:
  void SetUp() override {
    Cts::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const bool stub = GetParam().name.find("stub") != std::string::npos;
    api_ = CudaApi::load(stub ? testing::stub_cuda_path() : std::string()).or_raise();
    cu::CUcontext context = static_cast<cu::CUcontext>(cuda().context());
    ASSERT_EQ(cu().cuCtxPushCurrent(context), cu::CUDA_SUCCESS);
    void* flag = nullptr;
    ASSERT_EQ(cu().cuMemHostAlloc(&flag, kSharedBytes,
                                  cu::CU_MEMHOSTALLOC_PORTABLE | cu::CU_MEMHOSTALLOC_DEVICEMAP),
              cu::CUDA_SUCCESS);
    flag_ = static_cast<std::atomic<uint64_t>*>(flag);
    flag_->store(0);
  }
  void TearDown() override {
    if (api_ != nullptr) {
      open_gate();
      for (const cu::CUstream stream : streams_) {
        EXPECT_EQ(cu().cuStreamSynchronize(stream), cu::CUDA_SUCCESS);
        EXPECT_EQ(cu().cuStreamDestroy(stream), cu::CUDA_SUCCESS);
      }
      EXPECT_EQ(cu().cuMemFreeHost(flag_), cu::CUDA_SUCCESS);
      cu::CUcontext popped = nullptr;
      EXPECT_EQ(cu().cuCtxPopCurrent(&popped), cu::CUDA_SUCCESS);
    }
    Cts::TearDown();
  }

  const cu::Calls& cu() const { return api_->calls(); }
  CudaDevice& cuda() {
    Device* at = &device();
    while (auto* const wrapper = dynamic_cast<WrappingDevice*>(at)) at = wrapper->inner().get();
    return dynamic_cast<CudaDevice&>(*at);
  }

  // A stream that Holdfast knows nothing of.
  cu::CUstream native_stream() {
    cu::CUstream made = nullptr;
    EXPECT_EQ(cu().cuStreamCreate(&made, cu::CU_STREAM_NON_BLOCKING), cu::CUDA_SUCCESS);
    streams_.push_back(made);
    return made;
  }
  // What comes later on the stream waits for open_gate().
  void gate_native(cu::CUstream stream) {
    cu::CUdeviceptr address = 0;
    ASSERT_EQ(cu().cuMemHostGetDevicePointer(&address, flag_, 0), cu::CUDA_SUCCESS);
    ASSERT_EQ(cu().cuStreamWaitValue64(stream, address, 1, cu::CU_STREAM_WAIT_VALUE_GEQ),
              cu::CUDA_SUCCESS);
  }
  void open_gate() { flag_->store(1); }
  void fill_native(cu::CUstream stream, const Ref<Allocation>& to, unsigned char value) {
    ASSERT_EQ(cu().cuMemsetD8Async(address_of(to), value, to->size().value, stream),
              cu::CUDA_SUCCESS);
  }
  static cu::CUdeviceptr address_of(const Ref<Allocation>& allocation) {
    return static_cast<const CudaBuffer&>(*allocation->buffer()).address() +
           allocation->offset().value;
  }
  // The adversary runs lists when it likes, and inside submit(): its Points are its own.
  bool is_hostile() const { return GetParam().name.find("adversary") != std::string::npos; }

 private:
  std::shared_ptr<const CudaApi> api_;
  std::atomic<uint64_t>* flag_ = nullptr;
  std::vector<cu::CUstream> streams_;
};

TEST_P(CtsCuda, a_list_waits_for_the_work_of_a_native_stream) {
  const auto data = uploaded(ByteVector(kSharedBytes, std::byte{1}), "data");
  const auto copy = buffer(Bytes{kSharedBytes}, "copy");
  const cu::CUstream theirs = native_stream();
  gate_native(theirs);
  fill_native(theirs, data, 7);
  const Point point = device().point_of_native(theirs, "theirs").or_raise();
  CommandList reader = list("reader");
  reader.copy(data, {{}, data->size()}, copy, {{}, data->size()});
  const Point done = submit(queue(), reader, {{point, WaitKind::data}});
  EXPECT_TRUE(pending(point));
  EXPECT_TRUE(pending(done));
  open_gate();
  EXPECT_TRUE(reached(done));
  EXPECT_TRUE(reached(point));
  EXPECT_THAT(read_bytes(copy), Each(std::byte{7}));
}

TEST_P(CtsCuda, a_native_stream_waits_for_a_list) {
  if (is_hostile()) GTEST_SKIP() << "the adversary's Points are not the device's";
  const auto data = uploaded(ByteVector(kSharedBytes, std::byte{1}), "data");
  const auto copy = buffer(Bytes{kSharedBytes}, "copy", MemoryKind::readback);
  const cu::CUstream first = native_stream();
  gate_native(first);
  const Point gate_passed = device().point_of_native(first, "first").or_raise();
  CommandList writer = list("writer");
  writer.fill(data, {{}, data->size()}, std::byte{9});
  const Point written = submit(queue(), writer, {{gate_passed, WaitKind::order}});
  const cu::CUstream second = native_stream();
  ASSERT_FALSE(device().make_native_wait(second, written));
  ASSERT_EQ(cu().cuMemcpyAsync(address_of(copy), address_of(data), kSharedBytes, second),
            cu::CUDA_SUCCESS);
  const Point copied = device().point_of_native(second, "second").or_raise();
  EXPECT_TRUE(pending(copied));
  open_gate();
  EXPECT_TRUE(reached(copied));
  EXPECT_TRUE(reached(written));
  EXPECT_EQ(copy->host_pointer()[0], std::byte{9});
  EXPECT_EQ(copy->host_pointer()[kSharedBytes - 1], std::byte{9});
}

TEST_P(CtsCuda, a_native_stream_does_not_wait_for_what_the_host_holds_back) {
  if (is_hostile()) GTEST_SKIP() << "the adversary's Points are not the device's";
  const auto data = words(64, "data");
  const Gate closed = gate();
  CommandList writer = list("writer");
  writer.fill(data, {{}, data->size()}, std::byte{3});
  const Point written = submit(queue(), writer, {closed.order()});
  const Failure refused = device().make_native_wait(native_stream(), written);
  EXPECT_THAT(refused.message(), HasSubstr("still waits for the host"));
  EXPECT_EQ(refused.code(), ErrorCode::usage);
  closed.open();
  EXPECT_TRUE(reached(written));
  EXPECT_FALSE(device().make_native_wait(native_stream(), written));
}

TEST_P(CtsCuda, a_native_stream_is_told_of_a_failed_point) {
  const Point bad = failed_point(queue(), Failure(ErrorCode::execution, "spoiled"));
  EXPECT_THAT(device().make_native_wait(native_stream(), bad).message(), HasSubstr("spoiled"));
}

TEST_P(CtsCuda, a_native_stream_does_not_wait_for_points_of_others) {
  const Gate closed = gate("closed");
  EXPECT_THAT(device().make_native_wait(native_stream(), closed.point()).message(),
              HasSubstr("it is none of device"));
}

TEST_P(CtsCuda, points_of_native_streams_are_taken_again_and_again) {
  const cu::CUstream theirs = native_stream();
  const auto data = uploaded(ByteVector(64, std::byte{1}), "data");
  Point last;
  for (int i = 0; i < 1000; ++i) {
    fill_native(theirs, data, static_cast<unsigned char>(i));
    last = device().point_of_native(theirs, "theirs").or_raise();
    if (i % 100 == 0) {
      EXPECT_TRUE(reached(last));
    }
  }
  EXPECT_TRUE(reached(last));
  EXPECT_THAT(read_bytes(data), Each(static_cast<std::byte>(999 % 256)));
}

TEST_P(CtsCuda, a_point_of_a_native_stream_outlives_the_device) {
  const Point point = device().point_of_native(native_stream(), "theirs").or_raise();
  EXPECT_TRUE(reached(point));
  const cu::CUstream gated = native_stream();
  gate_native(gated);
  const Point later = device().point_of_native(gated, "later").or_raise();
  EXPECT_TRUE(pending(later));
  open_gate();
  EXPECT_TRUE(reached(later));
}

// Memory of the GPU that Holdfast did not allocate.
class Theirs {
 public:
  Theirs(const cu::Calls& calls, size_t bytes) : cu_(calls) {
    cu::CUmemPoolProps properties;
    properties.allocType = cu::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {cu::CU_MEM_LOCATION_TYPE_DEVICE, 0};
    EXPECT_EQ(cu_.cuMemPoolCreate(&pool_, &properties), cu::CUDA_SUCCESS);
    EXPECT_EQ(cu_.cuStreamCreate(&stream_, cu::CU_STREAM_NON_BLOCKING), cu::CUDA_SUCCESS);
    EXPECT_EQ(cu_.cuMemAllocFromPoolAsync(&address_, bytes, pool_, stream_), cu::CUDA_SUCCESS);
    EXPECT_EQ(cu_.cuMemsetD8Async(address_, 0, bytes, stream_), cu::CUDA_SUCCESS);
    EXPECT_EQ(cu_.cuStreamSynchronize(stream_), cu::CUDA_SUCCESS);
  }
  ~Theirs() {
    EXPECT_EQ(cu_.cuMemFreeAsync(address_, stream_), cu::CUDA_SUCCESS);
    EXPECT_EQ(cu_.cuStreamSynchronize(stream_), cu::CUDA_SUCCESS);
    EXPECT_EQ(cu_.cuStreamDestroy(stream_), cu::CUDA_SUCCESS);
    EXPECT_EQ(cu_.cuMemPoolDestroy(pool_), cu::CUDA_SUCCESS);
  }
  Theirs(const Theirs&) = delete;
  Theirs& operator=(const Theirs&) = delete;

  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the GPU
  void* data() const { return reinterpret_cast<void*>(address_); }
  cu::CUdeviceptr address() const { return address_; }

 private:
  const cu::Calls& cu_;
  cu::CUmemoryPool pool_ = nullptr;
  cu::CUstream stream_ = nullptr;
  cu::CUdeviceptr address_ = 0;
};

TEST_P(CtsCuda, memory_of_others_on_the_gpu_is_used_in_place) {
  const Theirs theirs(cu(), kSharedBytes);
  Counter deleted;
  {
    const auto imported = Allocation::whole(device()
                                                .import_buffer({.data = theirs.data(),
                                                                .size = Bytes{kSharedBytes},
                                                                .deleter = [&] { deleted.add(); },
                                                                .name = "theirs",
                                                                .on_device = true})
                                                .or_raise());
    EXPECT_TRUE(imported->buffer()->is_imported());
    EXPECT_EQ(imported->buffer()->host_pointer(), nullptr);
    EXPECT_EQ(address_of(imported), theirs.address());
    CommandList writer = list("writer");
    store(writer, imported, 41);
    writer.barrier();
    increment(writer, imported);
    EXPECT_TRUE(reached(submit(queue(), writer)));
    EXPECT_THAT(read(imported), Each(42U));
    EXPECT_EQ(deleted.value(), 0);
    queue()->retire();
  }
  EXPECT_TRUE(deleted.reaches(1));
}

TEST_P(CtsCuda, what_is_no_memory_of_this_gpu_is_refused_and_deleted) {
  const Theirs theirs(cu(), kSharedBytes);
  Counter deleted;
  const auto refusal = [&](void* data, size_t bytes) {
    return device()
        .import_buffer({.data = data,
                        .size = Bytes{bytes},
                        .deleter = [&] { deleted.add(); },
                        .name = "theirs",
                        .on_device = true})
        .failure();
  };
  std::array<std::byte, 64> on_host{};
  EXPECT_TRUE(refusal(on_host.data(), on_host.size()));
  EXPECT_THAT(refusal(theirs.data(), size_t{1} << 40).message(), HasSubstr("behind the memory"));
  EXPECT_THAT(refusal(nullptr, 64).message(), HasSubstr("no bytes"));
  EXPECT_EQ(deleted.value(), 3);
}

std::vector<DeviceUnderTest> cuda_devices() {
  std::vector<DeviceUnderTest> found;
  for (const DeviceUnderTest& device : registered_devices()) {
    if (device.name.find("cuda") != std::string::npos) found.push_back(device);
  }
  return found;
}

INSTANTIATE_TEST_SUITE_P(CudaDevices, CtsCuda, ::testing::ValuesIn(cuda_devices()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace holdfast::hal::cts
