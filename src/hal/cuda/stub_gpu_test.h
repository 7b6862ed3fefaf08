#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/hal/cuda/cuda_api.h"
#include "holdfast/hal/cuda/cuda_device.h"
#include "holdfast/testing/stub_cuda.h"

// A CUDA device on the stub driver, and what its tests do with it again and again.

namespace holdfast::hal {

using StubWords = std::vector<uint32_t>;

// For hangs alone: a sanitizer on a busy machine takes a hundred times what a device takes.
sync::Deadline stub_patience();

// How a Point turns out, with patience; the text says what it did instead.
::testing::AssertionResult stub_reached(const Point& point);
::testing::AssertionResult stub_failed(const Point& point);

// A kernel of the stub's, as the device takes it: pointers, then the parameters.
//
//   affine     0: u32, read and written. {multiplier, addend, count}
//   twice      0: u32, read and written. {count}. Doubles.
//   increment  0: u32, read and written. {count}. Adds one.
//   blend      0: u32, read; 1: u32, read and written. {salt, count}. out = 31 * out + in + salt.
//   fault      no bindings. An illegal access.
//
// `declares`: what its image says of its arguments, in place of that; see stub_cuda_module.
CudaModule stub_kernel(std::string_view kernel, std::string_view declares = {});
// Makes the kernels known to the stub.
void register_stub_kernels();

struct AffineOfStub {
  uint32_t multiplier = 1;
  uint32_t addend = 0;
  uint32_t count = 0;
};
struct BlendOfStub {
  uint32_t salt = 0;
  uint32_t count = 0;
};

// Every helper raises where the device refuses.
class StubGpu : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  static testing::StubControl& stub() { return testing::stub_cuda_control(); }
  // Two queues, none for copies alone.
  static CudaOptions options();
  void open(const CudaOptions& chosen = options());
  bool is_open() const { return static_cast<bool>(device_); }
  CudaDevice& device() { return *device_; }
  const Ref<CudaDevice>& device_ref() { return device_; }
  void drop_device();
  const Ref<Queue>& queue(size_t index = 0) { return device_->queues()[index]; }

  static PipelineDesc described(std::string_view kernel);
  Ref<Pipeline> make_pipeline(std::string_view kernel) {
    return device_->create_pipeline(described(kernel)).or_raise();
  }
  // One for the test.
  const Ref<Pipeline>& pipeline(std::string_view kernel);

  Ref<Allocation> words(size_t count, std::string name = "words",
                        MemoryKind kind = MemoryKind::device);
  Ref<Allocation> uploaded(const StubWords& content, std::string name = "uploaded");
  // By way of queue 0, after `after`.
  StubWords read(const Ref<Allocation>& from, const Point& after = {});

  CommandList list(std::string name = "list") { return {device_->info(), std::move(name)}; }
  void affine(CommandList& to, const Ref<Allocation>& data, uint32_t multiplier, uint32_t addend);
  void blend(CommandList& to, const Ref<Allocation>& in, const Ref<Allocation>& out, uint32_t salt);
  // A kernel that takes the count alone.
  void apply(CommandList& to, std::string_view kernel, const Ref<Allocation>& data);
  void apply(CommandList& to, const Ref<Pipeline>& kernel, const Ref<Allocation>& data);
  void fault(CommandList& to);
  Point submit(CommandList& list, std::vector<Wait> waits = {}, size_t on = 0) {
    return queue(on)->submit(list, std::move(waits)).or_raise();
  }

 private:
  Ref<CudaDevice> device_;
  std::map<std::string, Ref<Pipeline>, std::less<>> pipelines_;
};

}  // namespace holdfast::hal
