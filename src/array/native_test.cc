#include "holdfast/native.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "holdfast/array/dlpack_abi.h"
#include "holdfast/base/log.h"
#include "holdfast/creation.h"
#include "holdfast/dlpack.h"
#include "holdfast/hal/cuda/cuda_api.h"
#include "holdfast/hal/cuda/cuda_device.h"
#include "holdfast/hal/validate/validate_device.h"
#include "holdfast/runtime/context.h"
#include "holdfast/runtime/stream.h"
#include "holdfast/testing/rig.h"
#include "holdfast/testing/stub_cuda.h"
#include "holdfast/views.h"

// Arrays shared with others' streams, on the stub driver; no kernel runs there, so elements come
// from the host, from fills and from copies.

namespace holdfast {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::Gate;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using testing::until;
namespace cu = hal::cu;

constexpr int64_t kCount = 1024;

class NativeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = testing::why_no_stub_cuda(); !why.empty()) GTEST_SKIP() << why;
    stub().reset();
    api_ = hal::CudaApi::load(testing::stub_cuda_path()).or_raise();
    hal::CudaOptions options;
    options.driver = testing::stub_cuda_path();
    options.queues = 2;
    auto opened = hal::CudaDevice::open(options).or_raise();
    void* const context = opened->context();
    device_.emplace(hal::ValidateDevice::wrap(std::move(opened)));
    ASSERT_EQ(cu().cuCtxPushCurrent(static_cast<cu::CUcontext>(context)), cu::CUDA_SUCCESS);
    void* pinned = nullptr;
    ASSERT_EQ(cu().cuMemHostAlloc(&pinned, (kCount + 1) * sizeof(uint64_t),
                                  cu::CU_MEMHOSTALLOC_PORTABLE | cu::CU_MEMHOSTALLOC_DEVICEMAP),
              cu::CUDA_SUCCESS);
    gate_ = static_cast<std::atomic<uint64_t>*>(pinned);
    gate_->store(0);
    std::fill_n(seen(), kCount, -1.0F);
  }
  void TearDown() override {
    if (!device_) return;
    open_gate();
    stub().release();
    for (const cu::CUstream stream : streams_) {
      EXPECT_EQ(cu().cuStreamSynchronize(stream), cu::CUDA_SUCCESS);
      EXPECT_EQ(cu().cuStreamDestroy(stream), cu::CUDA_SUCCESS);
    }
    EXPECT_EQ(cu().cuMemFreeHost(gate_), cu::CUDA_SUCCESS);
    device_->context()->close();
    device_.reset();
    cu::CUcontext popped = nullptr;
    EXPECT_EQ(cu().cuCtxPopCurrent(&popped), cu::CUDA_SUCCESS);
  }

  static testing::StubControl& stub() { return testing::stub_cuda_control(); }
  const cu::Calls& cu() const { return api_->calls(); }
  Device& device() { return *device_; }
  runtime::Context& context() { return *device_->context(); }

  // A stream that Holdfast knows nothing of.
  cu::CUstream theirs() {
    cu::CUstream made = nullptr;
    EXPECT_EQ(cu().cuStreamCreate(&made, cu::CU_STREAM_NON_BLOCKING), cu::CUDA_SUCCESS);
    streams_.push_back(made);
    return made;
  }
  // What comes later on the stream waits for open_gate().
  void gate(cu::CUstream stream) {
    ASSERT_EQ(cu().cuStreamWaitValue64(stream, address_of(gate_), 1, cu::CU_STREAM_WAIT_VALUE_GEQ),
              cu::CUDA_SUCCESS);
  }
  void open_gate() { gate_->store(1); }
  // Their stream copies the elements to where the test sees them.
  void read_on(cu::CUstream stream, const NativeView& view) {
    ASSERT_EQ(
        cu().cuMemcpyAsync(address_of(seen()), view.address(), view.array().nbytes().value, stream),
        cu::CUDA_SUCCESS);
  }
  bool is_done(cu::CUstream stream) const { return cu().cuStreamQuery(stream) == cu::CUDA_SUCCESS; }
  void wait(cu::CUstream stream) { ASSERT_EQ(cu().cuStreamSynchronize(stream), cu::CUDA_SUCCESS); }
  float* seen() const { return reinterpret_cast<float*>(gate_ + 1); }
  std::vector<float> all_seen() const { return {seen(), seen() + kCount}; }

  Array counted() {
    std::vector<float> values(kCount);
    std::iota(values.begin(), values.end(), 0.0F);
    return {values, Shape{kCount}, "counted", device()};
  }
  uint64_t waits() {
    uint64_t all = 0;
    for (const auto& one : context().stats().waits) all += one.count;
    return all;
  }

  // Memory of others on the GPU.
  class Memory {
   public:
    Memory(NativeTest& test, size_t bytes) : test_(test), stream_(test.theirs()) {
      cu::CUmemPoolProps properties;
      properties.allocType = cu::CU_MEM_ALLOCATION_TYPE_PINNED;
      properties.location = {cu::CU_MEM_LOCATION_TYPE_DEVICE, 0};
      EXPECT_EQ(test.cu().cuMemPoolCreate(&pool_, &properties), cu::CUDA_SUCCESS);
      EXPECT_EQ(test.cu().cuMemAllocFromPoolAsync(&address_, bytes, pool_, stream_),
                cu::CUDA_SUCCESS);
      test.wait(stream_);
    }
    ~Memory() {
      EXPECT_EQ(test_.cu().cuMemFreeAsync(address_, stream_), cu::CUDA_SUCCESS);
      test_.wait(stream_);
      EXPECT_EQ(test_.cu().cuMemPoolDestroy(pool_), cu::CUDA_SUCCESS);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    cu::CUdeviceptr address() const { return address_; }

   private:
    NativeTest& test_;
    cu::CUmemoryPool pool_ = nullptr;
    cu::CUstream stream_ = nullptr;
    cu::CUdeviceptr address_ = 0;
  };

  template <typename T>
  cu::CUdeviceptr address_of(T* host) const {
    cu::CUdeviceptr address = 0;
    EXPECT_EQ(cu().cuMemHostGetDevicePointer(&address, host, 0), cu::CUDA_SUCCESS);
    return address;
  }

 private:
  std::shared_ptr<const hal::CudaApi> api_;
  std::optional<Device> device_;
  std::atomic<uint64_t>* gate_ = nullptr;
  std::vector<cu::CUstream> streams_;
};

TEST_F(NativeTest, a_reader_waits_for_the_elements_on_the_device) {
  const Array x = counted();  // recorded, and not even submitted
  const cu::CUstream reader = theirs();
  stub().hold();
  const NativeView view(x, reader);
  read_on(reader, view);
  EXPECT_FALSE(is_done(reader));
  EXPECT_EQ(waits(), 0U) << "nothing waited on the host";
  stub().release();
  wait(reader);
  EXPECT_EQ(seen()[0], 0.0F);
  EXPECT_EQ(seen()[kCount - 1], kCount - 1);
}

TEST_F(NativeTest, shows_views_where_they_begin) {
  const Array x = counted();
  const cu::CUstream reader = theirs();
  const NativeView whole(x, reader);
  const NativeView part(slice(x, {{.start = 3, .stop = 9, .step = 2}}), reader);
  EXPECT_EQ(part.address(), whole.address() + 3 * sizeof(float));
  EXPECT_EQ(part.array().strides(), Strides{2});
}

TEST_F(NativeTest, memory_is_not_reused_before_its_reader_is_done) {
  const cu::CUstream reader = theirs();
  uint64_t address = 0;
  {
    NativeView view(counted(), reader);
    address = view.address();
    gate(reader);
    read_on(reader, view);
    context().synchronize();
  }
  // The consumer has given it back, and its copy has not begun.
  EXPECT_GE(context().stats().memory.deferred.value, kCount * sizeof(float));
  std::vector<Array> others;
  for (int i = 0; i < 16; ++i) {
    others.emplace_back(std::vector<float>(kCount, 9.0F), Shape{kCount}, "other", device());
    EXPECT_NE(others.back().value()->memory()->device_address(), address);
  }
  context().synchronize();
  EXPECT_FALSE(is_done(reader));
  open_gate();
  wait(reader);
  EXPECT_EQ(seen()[kCount - 1], kCount - 1);
  EXPECT_TRUE(until([&] {
    context().retire();
    return context().stats().memory.deferred.value == 0;
  }));
}

TEST_F(NativeTest, where_memory_is_short_the_next_user_waits_for_the_reader_on_the_device) {
  const cu::CUstream reader = theirs();
  const Ref<runtime::Stream>& stream = device().default_stream().runtime_stream();
  uint64_t address = 0;
  {
    const Array x(std::vector<float>(4 << 20, 3.0F), Shape{4 << 20}, "big", device());
    const NativeView view(x, reader);
    address = view.address();
    context().synchronize();
    gate(reader);
    ASSERT_EQ(cu().cuMemcpyAsync(address_of(seen()), address, kCount * sizeof(float), reader),
              cu::CUDA_SUCCESS);
  }
  context().trim();
  context().set_memory_limit(16_MiB);
  const uint64_t waited = waits();
  const Ref<hal::Allocation> next = stream->allocate(16_MiB, "next");
  EXPECT_EQ(next->device_address(), address);
  stream->fill(testing::write_of(next), std::byte{0});
  EXPECT_TRUE(stream->flush().pending());
  EXPECT_EQ(waits(), waited);
  open_gate();
  wait(reader);
  EXPECT_THAT(all_seen(), Each(3.0F)) << "the fill came after the reader";
}

TEST_F(NativeTest, elements_that_wait_for_the_host_are_not_exported) {
  Gate closed(context());
  const Stream stream = device().default_stream();
  stream.runtime_stream()->wait_for(closed.point(), hal::WaitKind::order);
  const Array x = counted();
  const cu::CUstream reader = theirs();
  EXPECT_THAT([&] { const NativeView view(x, reader); },
              ThrowsMessage<UsageError>(HasSubstr("still waits for the host")));
  closed.open();
  EXPECT_TRUE(until([&] {
    try {
      const NativeView view(x, reader);
      return true;
    } catch (const UsageError&) {
      return false;
    }
  }));
}

TEST_F(NativeTest, an_unordered_view_lets_the_reader_order_itself) {
  const cu::CUstream reader = theirs();
  Array x = counted();
  stub().hold();
  {
    NativeView view = NativeView::unordered(std::exchange(x, {}));
    EXPECT_TRUE(is_done(reader)) << "nothing was put on it";
    gate(reader);
    view.set_last_reader(reader);
  }
  stub().release();
  context().synchronize();
  context().retire();
  EXPECT_GT(context().stats().memory.deferred.value, 0U) << "the reader is not done";
}

TEST_F(NativeTest, a_reader_that_is_gone_is_never_overtaken) {
  std::string said;
  auto before = logging::set_sink([&](const logging::Message& m) { said += m.text; });
  cu::CUstream gone = nullptr;
  ASSERT_EQ(cu().cuStreamCreate(&gone, cu::CU_STREAM_NON_BLOCKING), cu::CUDA_SUCCESS);
  uint64_t live = 0;
  {
    const NativeView view(counted(), gone);
    wait(gone);
    ASSERT_EQ(cu().cuStreamDestroy(gone), cu::CUDA_SUCCESS);
    live = context().stats().memory.live.value;
  }
  logging::set_sink(std::move(before));
  EXPECT_THAT(said, HasSubstr("its memory is never used again"));
  EXPECT_THAT(stub().take_violations(), ElementsAre(HasSubstr("does not exist")));
  context().synchronize();
  EXPECT_EQ(context().stats().memory.live.value, live);
}

TEST_F(NativeTest, imported_memory_is_used_once_its_writer_is_done) {
  const Memory memory(*this, kCount * sizeof(float));
  const cu::CUstream writer = theirs();
  gate(writer);
  ASSERT_EQ(cu().cuMemsetD32Async(memory.address(), 0x40e00000, kCount, writer),  // 7.0f
            cu::CUDA_SUCCESS);
  bool deleted = false;
  {
    const Array x = from_native(
        memory.address(), float32, {kCount}, writer, [&] { deleted = true; }, "theirs", device());
    const cu::CUstream reader = theirs();
    const NativeView view(x, reader);
    EXPECT_EQ(view.address(), memory.address());
    read_on(reader, view);
    EXPECT_FALSE(is_done(reader));
    EXPECT_EQ(waits(), 0U);
    EXPECT_TRUE(testing::blocks([&] { (void)x.to_vector<float>(); })) << "the host waits, too";
    open_gate();
    wait(reader);
    EXPECT_THAT(all_seen(), Each(7.0F));
    EXPECT_THAT(x.to_vector<float>(), Each(7.0F));
    EXPECT_FALSE(deleted);
  }
  EXPECT_TRUE(until([&] {
    context().retire();
    return deleted;
  }));
}

TEST_F(NativeTest, the_deleter_of_imported_memory_runs_after_the_last_list_that_reads_it) {
  const Memory memory(*this, kCount * sizeof(float));
  std::atomic<bool> deleted = false;
  const Stream stream = device().default_stream();
  const auto target = stream.runtime_stream()->allocate(Bytes{kCount * sizeof(float)}, "target");
  stub().hold();
  {
    const Array x = from_native(
        memory.address(), float32, {kCount}, nullptr, [&] { deleted = true; }, "theirs", device());
    stream.runtime_stream()->copy(testing::read_of(x.value()->memory()), testing::write_of(target));
    stream.flush();
  }
  context().retire();
  EXPECT_FALSE(deleted);
  stub().release();
  context().synchronize();
  EXPECT_TRUE(until([&] {
    context().retire();
    return deleted.load();
  }));
}

TEST_F(NativeTest, memory_that_cannot_be_imported_is_given_back) {
  int deleted = 0;
  const auto import = [&](uint64_t address, const Shape& shape) {
    (void)from_native(
        address, float32, shape, nullptr, [&] { ++deleted; }, "theirs", device());
  };
  const Memory memory(*this, 64);
  EXPECT_THAT([&] { import(memory.address() + 2, {2}); },
              ThrowsMessage<UsageError>(HasSubstr("not aligned")));
  EXPECT_THAT([&] { import(memory.address(), {0}); },
              ThrowsMessage<UsageError>(HasSubstr("zeros")));
  EXPECT_THAT([&] { import(memory.address(), {1 << 30}); },
              ThrowsMessage<UsageError>(HasSubstr("behind the memory")));
  EXPECT_EQ(deleted, 3);
}

TEST_F(NativeTest, the_devices_own_native_stream_is_one_and_has_nothing_on_it) {
  void* const own = native_stream(device());
  EXPECT_EQ(native_stream(device()), own);
  const Array x = counted();
  device().default_stream().flush();
  EXPECT_TRUE(is_done(static_cast<cu::CUstream>(own)));
  EXPECT_EQ(driver_ordinal(device()), 0);
}

TEST(Native, devices_without_native_streams_say_so) {
  const Device cpu = open_device("cpu");
  EXPECT_EQ(driver_ordinal(cpu), -1);
  EXPECT_THROW(native_stream(cpu), UnsupportedError);
  const Array x(std::vector<float>{1, 2}, Shape{2}, "x", cpu);
  EXPECT_THROW(NativeView(x, nullptr), UnsupportedError);
  bool deleted = false;
  EXPECT_THROW((void)from_native(
                   64, float32, {4}, nullptr, [&] { deleted = true; }, {}, cpu),
               UnsupportedError);
  EXPECT_TRUE(deleted);
}

const array::dl::ManagedTensorVersioned& inside_of(const DlpackTensorVersioned& tensor) {
  return *reinterpret_cast<const array::dl::ManagedTensorVersioned*>(tensor.get());
}

TEST_F(NativeTest, a_tensor_of_dlpack_is_ordered_for_its_reader_and_held_until_the_reader_is_done) {
  const cu::CUstream reader = theirs();
  Array x = slice(counted(), {{.start = 3, .stop = 9, .step = 2}});
  stub().hold();
  DlpackTensorVersioned tensor =
      to_dlpack_versioned_on_gpu(std::exchange(x, {}), reader, Copying::never);
  const array::dl::Tensor& t = inside_of(tensor).tensor;
  EXPECT_EQ(gpu_number(tensor), 0);
  EXPECT_EQ(inside_of(tensor).flags, array::dl::kReadOnly);
  EXPECT_EQ(t.device.type, array::dl::kCuda);
  EXPECT_THAT(std::span(t.shape, 1), ElementsAre(3));
  EXPECT_THAT(std::span(t.strides, 1), ElementsAre(2));
  ASSERT_EQ(cu().cuMemcpyAsync(address_of(seen()), reinterpret_cast<uint64_t>(t.data),
                               5 * sizeof(float), reader),
            cu::CUDA_SUCCESS);
  EXPECT_FALSE(is_done(reader));
  EXPECT_EQ(waits(), 0U) << "nothing waited on the host";
  stub().release();
  wait(reader);
  EXPECT_THAT(std::span(seen(), 5), ElementsAre(3, 4, 5, 6, 7));
  gate(reader);
  tensor.reset();
  context().synchronize();
  EXPECT_GE(context().stats().memory.deferred.value, kCount * sizeof(float));
}

TEST_F(NativeTest, a_tensor_of_dlpack_in_memory_of_the_gpu_becomes_an_array_there) {
  DlpackTensorVersioned given = to_dlpack_versioned_on_gpu(flip(counted()), nullptr);
  const void* const last = inside_of(given).tensor.data;
  EXPECT_THAT([&] { (void)from_dlpack(std::move(given), Copying::never, holdfast::device("cpu")); },
              ThrowsMessage<UsageError>(HasSubstr("import it, then use to()")));
  ASSERT_NE(given, nullptr) << "still its owner's";
  bool dropped = false;
  {
    const Array back = from_dlpack(std::move(given), Copying::never, device(),
                                   [&](const std::function<void()>& drop) {
                                     drop();
                                     dropped = true;
                                   });
    EXPECT_EQ(back.device(), device());
    EXPECT_EQ(back.strides(), Strides{-1});
    const NativeView view(back, theirs());
    EXPECT_EQ(view.address(), reinterpret_cast<uintptr_t>(last));
    EXPECT_THAT(flip(back).to_vector<float>(), ElementsAreArray(counted().to_vector<float>()));
    EXPECT_FALSE(dropped);
  }
  EXPECT_TRUE(until([&] {
    context().synchronize();
    context().retire();
    return dropped;
  }));
}

TEST_F(NativeTest, a_copy_of_a_tensor_of_dlpack_gives_it_back_at_once) {
  int dropped = 0;
  const Array own = from_dlpack(to_dlpack_on_gpu(counted(), nullptr), Copying::always, device(),
                                [&](const std::function<void()>& drop) {
                                  drop();
                                  ++dropped;
                                });
  EXPECT_EQ(dropped, 1);
  EXPECT_EQ(own.shape(), Shape{kCount});
  context().synchronize();
  context().retire();
  EXPECT_EQ(dropped, 1);
}

TEST(Native, an_array_on_the_cpu_is_not_exported_on_a_gpu) {
  EXPECT_THAT([] { (void)to_dlpack_on_gpu(zeros({2}, float32, holdfast::device("cpu")), nullptr); },
              ThrowsMessage<UnsupportedError>(HasSubstr("is no NVIDIA GPU")));
}

}  // namespace
}  // namespace holdfast
