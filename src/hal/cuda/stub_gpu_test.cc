#include "holdfast/hal/cuda/stub_gpu_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace holdfast::hal {
namespace {

struct StubKernelOf {
  const char* name;
  const char* declares;
  uint32_t bindings;
  Bytes parameters;
};
constexpr StubKernelOf kStubKernels[] = {
    {"affine", "8 12", 1, {12}}, {"twice", "8 4", 1, {4}}, {"increment", "8 4", 1, {4}},
    {"blend", "8 8 8", 2, {8}},  {"fault", "", 0, {0}},
};

const StubKernelOf& find_kernel(std::string_view name) {
  const auto* const found = std::ranges::find(kStubKernels, name, &StubKernelOf::name);
  if (found == std::end(kStubKernels)) throw UsageError("no kernel '" + std::string(name) + "'");
  return *found;
}

// Each element of the first binding.
template <typename Change>
int change_words(const testing::StubLaunch& launch, uint32_t count, const Change& change) {
  auto* const data = stub_cuda::pointer_of<uint32_t>(launch.argument<uint64_t>(0));
  for (uint32_t i = 0; i < count; ++i) data[i] = change(data[i]);
  return cu::CUDA_SUCCESS;
}

::testing::AssertionResult has_come_to(const Point& point, PointState wanted) {
  const PointState state = point.timeline->wait(point.value, stub_patience());
  auto result = state == wanted ? ::testing::AssertionSuccess() : ::testing::AssertionFailure();
  result << to_string(point) << " is " << to_string(state);
  if (const Failure failure = point.failure()) result << ": " << failure.message();
  return result;
}

}  // namespace

sync::Deadline stub_patience() { return sync::Deadline::after(std::chrono::minutes(10)); }

::testing::AssertionResult stub_reached(const Point& point) {
  return has_come_to(point, PointState::reached);
}

::testing::AssertionResult stub_failed(const Point& point) {
  return has_come_to(point, PointState::failed);
}

CudaModule stub_kernel(std::string_view kernel, std::string_view declares) {
  const std::string text = testing::stub_cuda_module(
      {fmt::format("{} {}", kernel, declares.empty() ? find_kernel(kernel).declares : declares)});
  const auto bytes = std::as_bytes(std::span(text));
  CudaModule module;
  module.code.assign(bytes.begin(), bytes.end());
  module.entry_point = kernel;
  module.threads = {32, 1, 1};
  return module;
}

void register_stub_kernels() {
  testing::StubControl& stub = testing::stub_cuda_control();
  stub.register_kernel("affine", [](const testing::StubLaunch& launch) {
    const auto [multiplier, addend, count] = launch.argument<AffineOfStub>(8);
    return change_words(launch, count,
                        [m = multiplier, a = addend](uint32_t x) { return x * m + a; });
  });
  stub.register_kernel("twice", [](const testing::StubLaunch& launch) {
    return change_words(launch, launch.argument<uint32_t>(8), [](uint32_t x) { return 2 * x; });
  });
  stub.register_kernel("increment", [](const testing::StubLaunch& launch) {
    return change_words(launch, launch.argument<uint32_t>(8), [](uint32_t x) { return x + 1; });
  });
  stub.register_kernel("blend", [](const testing::StubLaunch& launch) {
    const auto* const in = stub_cuda::pointer_of<uint32_t>(launch.argument<uint64_t>(0));
    auto* const out = stub_cuda::pointer_of<uint32_t>(launch.argument<uint64_t>(8));
    const auto [salt, count] = launch.argument<BlendOfStub>(16);
    for (uint32_t i = 0; i < count; ++i) out[i] = 31 * out[i] + in[i] + salt;
    return cu::CUDA_SUCCESS;
  });
  stub.register_kernel("fault",
                       [](const testing::StubLaunch&) { return cu::CUDA_ERROR_ILLEGAL_ADDRESS; });
}

void StubGpu::SetUp() {
  if (const std::string why = testing::why_no_stub_cuda(); !why.empty()) GTEST_SKIP() << why;
  stub().reset();
  register_stub_kernels();
}

void StubGpu::TearDown() {
  if (!testing::why_no_stub_cuda().empty()) return;
  stub().release();
  stub().fail_no_more();
  drop_device();
  stub().drain();
  stub().reset();
}

CudaOptions StubGpu::options() {
  CudaOptions options;
  options.driver = testing::stub_cuda_path();
  options.queues = 2;
  options.copy_queues = 0;
  return options;
}

void StubGpu::open(const CudaOptions& chosen) { device_ = CudaDevice::open(chosen).or_raise(); }

void StubGpu::drop_device() {
  pipelines_.clear();
  device_.reset();
}

PipelineDesc StubGpu::described(std::string_view kernel) {
  const StubKernelOf& known = find_kernel(kernel);
  return {std::string(kernel), stub_kernel(kernel), known.bindings, known.parameters};
}

const Ref<Pipeline>& StubGpu::pipeline(std::string_view kernel) {
  auto& made = pipelines_[std::string(kernel)];
  if (!made) made = make_pipeline(kernel);
  return made;
}

Ref<Allocation> StubGpu::words(size_t count, std::string name, MemoryKind kind) {
  return Allocation::whole(
      device_->create_buffer({{count * sizeof(uint32_t)}, kind, std::move(name)}).or_raise());
}

Ref<Allocation> StubGpu::uploaded(const StubWords& content, std::string name) {
  const auto staging = words(content.size(), "staging", MemoryKind::upload);
  std::memcpy(staging->host_pointer(), content.data(), content.size() * sizeof(uint32_t));
  auto made = words(content.size(), std::move(name));
  auto copy = list("upload");
  copy.copy(staging, {{}, made->size()}, made, {{}, made->size()});
  EXPECT_TRUE(stub_reached(submit(copy)));
  queue()->retire();
  return made;
}

StubWords StubGpu::read(const Ref<Allocation>& from, const Point& after) {
  const auto staging =
      words(from->size().value / sizeof(uint32_t), "readback", MemoryKind::readback);
  auto copy = list("readback");
  copy.copy(from, {{}, from->size()}, staging, {{}, from->size()});
  EXPECT_TRUE(stub_reached(submit(copy, {{after, WaitKind::data}})));
  queue()->retire();
  StubWords result(from->size().value / sizeof(uint32_t));
  std::memcpy(result.data(), staging->host_pointer(), from->size().value);
  return result;
}

void StubGpu::affine(CommandList& to, const Ref<Allocation>& data, uint32_t multiplier,
                     uint32_t addend) {
  const AffineOfStub parameters{multiplier, addend,
                                static_cast<uint32_t>(data->size().value / sizeof(uint32_t))};
  to.dispatch(pipeline("affine"), std::array{Binding::of(data, Access::read_write)},
              Parameters::of(parameters), {1, 1, 1});
}

void StubGpu::blend(CommandList& to, const Ref<Allocation>& in, const Ref<Allocation>& out,
                    uint32_t salt) {
  const BlendOfStub parameters{salt, static_cast<uint32_t>(in->size().value / sizeof(uint32_t))};
  to.dispatch(pipeline("blend"),
              std::array{Binding::of(in, Access::read), Binding::of(out, Access::read_write)},
              Parameters::of(parameters), {1, 1, 1});
}

void StubGpu::apply(CommandList& to, std::string_view kernel, const Ref<Allocation>& data) {
  apply(to, pipeline(kernel), data);
}

void StubGpu::apply(CommandList& to, const Ref<Pipeline>& kernel, const Ref<Allocation>& data) {
  const auto count = static_cast<uint32_t>(data->size().value / sizeof(uint32_t));
  to.dispatch(kernel, std::array{Binding::of(data, Access::read_write)}, Parameters::of(count),
              {1, 1, 1});
}

void StubGpu::fault(CommandList& to) { to.dispatch(pipeline("fault"), {}, {}, {1, 1, 1}); }

}  // namespace holdfast::hal
