#include "holdfast/dlpack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "holdfast/array/dlpack_abi.h"
#include "holdfast/creation.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/host_view.h"
#include "holdfast/ops.h"
#include "holdfast/runtime/context.h"
#include "holdfast/testing/vulkan.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace dl = array::dl;

// A device whose memory the host reaches, whatever the default one is.
Device reachable_device() { return Device(hal::CpuDevice::open()); }
// A device whose memory the host cannot reach.
Device unreachable_device() {
  return Device(hal::CpuDevice::open({.device_memory_host_visible = false}));
}

// Twelve floats of another library, as a matrix of 3 and 4.
struct Producer {
  Producer() {
    std::iota(memory.begin(), memory.end(), 0.0F);
    managed.tensor = {.data = memory.data(),
                      .device = {dl::kCpu, 0},
                      .ndim = 2,
                      .dtype = {dl::kFloat, 32, 1},
                      .shape = shape.data(),
                      .strides = nullptr,
                      .byte_offset = 0};
    managed.context = this;
    managed.deleter = [](dl::ManagedTensor* m) {
      ++static_cast<Producer*>(m->context)->given_back;
    };
  }
  DlpackTensor tensor() { return DlpackTensor(reinterpret_cast<DLManagedTensor*>(&managed)); }

  std::array<float, 12> memory{};
  std::array<int64_t, 2> shape{3, 4};
  dl::ManagedTensor managed{};
  int given_back = 0;
};

const dl::Tensor& inside_of(const DlpackTensor& tensor) {
  return reinterpret_cast<const dl::ManagedTensor*>(tensor.get())->tensor;
}

TEST(Dlpack, an_exported_view_is_shared_with_its_strides) {
  const Array a = reshape(arange(6, int16, reachable_device()), {2, 3});
  const DlpackTensor tensor = to_dlpack(flip(transpose(a)), Copying::never);
  const dl::Tensor& t = inside_of(tensor);
  ASSERT_EQ(t.ndim, 2);
  EXPECT_THAT(std::span(t.shape, 2), ElementsAre(3, 2));
  EXPECT_THAT(std::span(t.strides, 2), ElementsAre(-1, -3));
  EXPECT_EQ(static_cast<const int16_t*>(t.data)[0], 5);
  EXPECT_EQ(static_cast<const int16_t*>(t.data)[2 * t.strides[0] + t.strides[1]], 0);
}

TEST(Dlpack, memory_that_the_host_cannot_reach_is_exported_as_a_copy_in_rows) {
  const Device device = unreachable_device();
  const Array a(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3}, {}, device);
  const HostView view(transpose(a));
  EXPECT_TRUE(view.copied());
  EXPECT_THAT(view.strides().span(), ElementsAre(2, 1));
  const DlpackTensorVersioned tensor = to_dlpack_versioned(transpose(a));
  const auto* versioned = reinterpret_cast<const dl::ManagedTensorVersioned*>(tensor.get());
  EXPECT_EQ(versioned->flags, dl::kCopied);
  EXPECT_EQ(static_cast<const float*>(versioned->tensor.data)[1], 3.0F);
  EXPECT_THAT([&] { (void)to_dlpack(a, Copying::never); },
              ThrowsMessage<UsageError>(HasSubstr("without a copy")));
}

TEST(Dlpack, such_memory_imports_copies_and_the_tensor_is_given_back_at_once) {
  const Device device = unreachable_device();
  Producer producer;
  const Array a = from_dlpack(producer.tensor(), Copying::if_needed, device);
  EXPECT_EQ(producer.given_back, 1);
  EXPECT_EQ(a.device(), device);
  EXPECT_THAT(index(a, 2).to_vector<float>(), ElementsAre(8, 9, 10, 11));
  DlpackTensor tensor = producer.tensor();
  EXPECT_THAT([&] { (void)from_dlpack(std::move(tensor), Copying::never, device); },
              ThrowsMessage<UsageError>(HasSubstr("cannot be shared")));
  EXPECT_NE(tensor, nullptr);  // still its owner's
  EXPECT_EQ(producer.given_back, 1);
}

TEST(Dlpack, a_tensor_is_given_back_when_the_last_user_of_its_memory_is_gone) {
  Producer producer;
  const Device device = reachable_device();
  {
    const Array a = from_dlpack(producer.tensor(), Copying::never, device);
    EXPECT_THAT(sum(a, {.axes = {1}}).to_vector<float>(), ElementsAre(6, 22, 38));
    const DlpackTensor again = to_dlpack(a);
    EXPECT_EQ(inside_of(again).data, producer.memory.data());
    EXPECT_EQ(producer.given_back, 0);
  }
  device.synchronize();
  device.context()->retire();
  EXPECT_EQ(producer.given_back, 1);
}

TEST(Dlpack, tensors_can_be_given_back_elsewhere) {
  Producer shared;
  Producer copied;
  const Device device = reachable_device();
  std::vector<std::function<void()>> later;
  const DropTensor put_off = [&](std::function<void()> drop) { later.push_back(std::move(drop)); };
  (void)from_dlpack(shared.tensor(), Copying::never, device, put_off);
  (void)from_dlpack(copied.tensor(), Copying::always, device, put_off);
  device.synchronize();
  device.context()->retire();
  ASSERT_EQ(later.size(), 2U);
  EXPECT_EQ(shared.given_back + copied.given_back, 0);
  for (const auto& drop : later) drop();
  EXPECT_EQ(shared.given_back, 1);
  EXPECT_EQ(copied.given_back, 1);
}

TEST(Dlpack, memory_that_a_device_takes_only_in_whole_pages_is_copied_on_vulkan) {
  if (const std::string why = testing::why_no_vulkan(); !why.empty()) GTEST_SKIP() << why;
  const Device device(testing::open_vulkan({}).or_raise());
  if (!device.context()->device()->info().device_memory_host_visible) {
    GTEST_SKIP() << "the host cannot reach this device's memory at all";
  }
  Producer producer;
  DlpackTensor tensor = producer.tensor();
  EXPECT_THAT([&] { (void)from_dlpack(std::move(tensor), Copying::never, device); },
              ThrowsMessage<UnsupportedError>(HasSubstr("4096")));
  const Array a = from_dlpack(std::move(tensor), Copying::if_needed, device);
  EXPECT_EQ(producer.given_back, 1);
  EXPECT_THAT(index(a, 0).to_vector<float>(), ElementsAre(0, 1, 2, 3));
}

TEST(HostView, of_no_elements_shows_something_and_copies_nothing) {
  const HostView view(zeros({0, 3}));
  EXPECT_NE(view.data(), nullptr);
  EXPECT_FALSE(view.copied());
  EXPECT_EQ(view.shape(), (Shape{0, 3}));
}

}  // namespace
}  // namespace holdfast
