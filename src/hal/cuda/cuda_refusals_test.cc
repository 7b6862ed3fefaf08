#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "holdfast/hal/cuda/stub_gpu_test.h"

// Every call of the driver fails once, at each place where the device makes it. Each failure is
// named, nothing leaks, nothing hangs, and the device works on unless its context is gone.

namespace holdfast::hal {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr const char* kDriverCalls[] = {
#define HOLDFAST_TEST_CALL_NAME(name, version, parameters) #name,
    HOLDFAST_CUDA_CALLS(HOLDFAST_TEST_CALL_NAME)
#undef HOLDFAST_TEST_CALL_NAME
};

constexpr size_t kLifeWords = 64;
constexpr ByteRange kLifeBytes{{}, {kLifeWords * sizeof(uint32_t)}};

// Everything that is done with a device, step by step. Each step can be made again after it failed.
class LifeOfADevice {
 public:
  LifeOfADevice(testing::StubControl& stub, CudaOptions options)
      : stub_(stub), options_(std::move(options)) {}
  ~LifeOfADevice() {
    let_go();
    close();
    device_.reset();
    std::free(external_);
  }
  LifeOfADevice(const LifeOfADevice&) = delete;
  LifeOfADevice& operator=(const LifeOfADevice&) = delete;

  Failure lost() const { return device_ ? device_->lost() : Failure(); }

  Failure open() {
    auto opened = CudaDevice::open(options_);
    if (opened) device_ = opened.value();
    return opened.failure();
  }
  Failure make_device_memory() { return make(data_, MemoryKind::device, "data"); }
  Failure make_pinned_memory() {
    if (Failure failure = make(staging_, MemoryKind::upload, "staging")) return failure;
    for (uint32_t i = 0; i < kLifeWords; ++i) words_of(staging_)[i] = i;
    return make(back_, MemoryKind::readback, "back");
  }
  Failure import_memory() {
    if (external_ == nullptr) external_ = std::aligned_alloc(4096, 4096);
    auto made = device_->import_buffer({external_, {4096}, {}, "external"});
    if (made) imported_ = Allocation::whole(made.value());
    return made.failure();
  }
  Failure load_kernels() {
    CudaModule large = stub_kernel("affine");
    large.shared_memory = 96_KiB;
    if (Failure failure = load(kernel_, {"large", large, 1, {12}})) return failure;
    CudaModule cooperative = stub_kernel("affine");
    cooperative.cooperative = true;
    cooperative.cluster = {2, 1, 1};
    return load(cooperative_, {"cooperative", cooperative, 1, {12}});
  }
  Failure submit_commands() {
    if (!is_complete()) return lost();
    CommandList work = list();
    upload(work);
    affine(work, kernel_, 3, 1);
    download(work);
    return run(work, 3, 1);
  }
  Failure submit_fills() {
    if (!is_complete()) return lost();
    CommandList work = list();
    work.fill(data_, kLifeBytes, std::byte{0});
    affine(work, kernel_, 1, 9);
    download(work);
    return run(work, 0, 9);
  }
  Failure submit_with_attributes() {
    if (!is_complete()) return lost();
    CommandList work = list();
    upload(work);
    affine(work, cooperative_, 1, 0, {2, 1, 1});
    download(work);
    return run(work, 1, 0);
  }
  // Both are in the driver's hands before either runs.
  Failure wait_for_another_queue() {
    if (!is_complete()) return lost();
    stub_.hold();
    CommandList first = list();
    upload(first);
    affine(first, kernel_, 5, 2);
    auto one = device_->queues()[0]->submit(first);
    if (!one) {
      stub_.release();
      return one.failure();
    }
    CommandList second = list();
    download(second);
    auto two = device_->queues()[1]->submit(second, {{one.value(), WaitKind::data}});
    stub_.release();
    const Failure failed = outcome(one.value());
    if (!two) return two.failure();
    return failed ? failed : outcome(two.value(), 5, 2);
  }
  // The shape is seen, made into a graph, and launched with other parameters.
  Failure submit_graphs() {
    if (!is_complete()) return lost();
    for (uint32_t i = 0; i < 3; ++i) {
      CommandList work = list();
      upload(work);
      affine(work, kernel_, 2 + i, i);
      work.barrier();
      affine(work, kernel_, 1, 1);
      work.fill(imported_, {{}, {64 + 64 * i}}, std::byte{7});
      download(work);
      if (Failure failure = run(work, 2 + i, i + 1)) return failure;
    }
    return {};
  }
  Failure let_go() {
    if (device_) {
      for (const Ref<Queue>& queue : device_->queues()) queue->retire();
    }
    for (Ref<Allocation>* one : {&data_, &staging_, &back_, &imported_}) one->reset();
    kernel_.reset();
    cooperative_.reset();
    return {};
  }
  Failure close() {
    if (!device_) return {};
    const CloseReport report = device_->close(stub_patience());
    return report.clean() ? Failure() : Failure(ErrorCode::execution, report.details);
  }

 private:
  bool is_complete() const {
    return data_ && staging_ && back_ && imported_ && kernel_ && cooperative_;
  }
  static uint32_t* words_of(const Ref<Allocation>& allocation) {
    return reinterpret_cast<uint32_t*>(allocation->host_pointer());
  }
  Failure make(Ref<Allocation>& allocation, MemoryKind kind, const char* name) {
    auto made = device_->create_buffer({kLifeBytes.length, kind, name});
    if (made) allocation = Allocation::whole(made.value());
    return made.failure();
  }
  Failure load(Ref<Pipeline>& pipeline, PipelineDesc desc) {
    auto made = device_->create_pipeline(std::move(desc));
    if (made) pipeline = made.value();
    return made.failure();
  }

  CommandList list() { return {device_->info(), "life"}; }
  void upload(CommandList& to) {
    to.copy(staging_, kLifeBytes, data_, kLifeBytes);
    to.barrier();
  }
  void download(CommandList& to) {
    to.barrier();
    to.copy(data_, kLifeBytes, back_, kLifeBytes);
  }
  void affine(CommandList& to, const Ref<Pipeline>& kernel, uint32_t multiplier, uint32_t addend,
              Groups groups = {1, 1, 1}) {
    const AffineOfStub parameters{multiplier, addend, kLifeWords};
    to.dispatch(kernel, std::array{Binding::of(data_, Access::read_write)},
                Parameters::of(parameters), groups);
  }
  // What the host reads afterwards is element * multiplier + addend.
  Failure run(CommandList& work, uint32_t multiplier, uint32_t addend) {
    auto point = device_->queues()[0]->submit(work);
    return point ? outcome(point.value(), multiplier, addend) : point.failure();
  }
  static Failure outcome(const Point& point) {
    if (point.timeline->wait(point.value, stub_patience()) == PointState::pending) {
      return {ErrorCode::timeout, "hangs"};
    }
    return point.failure();
  }
  Failure outcome(const Point& point, uint32_t multiplier, uint32_t addend) {
    if (Failure failure = outcome(point)) return failure;
    for (uint32_t i = 0; i < kLifeWords; ++i) {
      if (words_of(back_)[i] == i * multiplier + addend) continue;
      return {ErrorCode::execution, fmt::format("word {} is {}", i, words_of(back_)[i])};
    }
    return {};
  }

  testing::StubControl& stub_;
  CudaOptions options_;
  Ref<CudaDevice> device_;
  Ref<Allocation> data_;
  Ref<Allocation> staging_;
  Ref<Allocation> back_;
  Ref<Allocation> imported_;
  void* external_ = nullptr;
  Ref<Pipeline> kernel_;
  Ref<Pipeline> cooperative_;
};

struct StepOfLife {
  const char* name;
  Failure (LifeOfADevice::*run)();
  // Calls whose failure fails the step. With others it succeeds all the same: they give something
  // back, only make something faster, or are made again.
  std::set<std::string> needed;
};
const std::vector<StepOfLife>& steps_of_life() {
  static const std::vector<StepOfLife> steps{
      {"open",
       &LifeOfADevice::open,
       {"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem",
        "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuStreamCreate", "cuMemPoolCreate",
        "cuMemHostAlloc", "cuMemHostGetDevicePointer"}},
      {"make_device_memory",
       &LifeOfADevice::make_device_memory,
       {"cuCtxPushCurrent", "cuMemAllocFromPoolAsync", "cuStreamSynchronize"}},
      {"make_pinned_memory",
       &LifeOfADevice::make_pinned_memory,
       {"cuCtxPushCurrent", "cuMemHostAlloc", "cuMemHostGetDevicePointer"}},
      {"import_memory",
       &LifeOfADevice::import_memory,
       {"cuCtxPushCurrent", "cuMemHostRegister", "cuMemHostGetDevicePointer"}},
      {"load_kernels",
       &LifeOfADevice::load_kernels,
       {"cuCtxPushCurrent", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncGetAttribute",
        "cuFuncSetAttribute", "cuFuncGetParamInfo"}},
      {"submit_commands",
       &LifeOfADevice::submit_commands,
       {"cuCtxPushCurrent", "cuMemcpyAsync", "cuLaunchKernel"}},
      {"submit_fills",
       &LifeOfADevice::submit_fills,
       {"cuCtxPushCurrent", "cuMemsetD8Async", "cuLaunchKernel", "cuMemcpyAsync"}},
      {"submit_with_attributes",
       &LifeOfADevice::submit_with_attributes,
       {"cuCtxPushCurrent", "cuMemcpyAsync", "cuLaunchKernelEx"}},
      {"wait_for_another_queue",
       &LifeOfADevice::wait_for_another_queue,
       {"cuCtxPushCurrent", "cuMemcpyAsync", "cuLaunchKernel", "cuStreamWaitValue64",
        "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"}},
      {"submit_graphs",
       &LifeOfADevice::submit_graphs,
       {"cuCtxPushCurrent", "cuMemcpyAsync", "cuLaunchKernel", "cuMemsetD8Async"}},
      {"let_go", &LifeOfADevice::let_go, {}},
      {"close", &LifeOfADevice::close, {}},
  };
  return steps;
}

// What a failed call of these leaves behind is the driver's, and so is what is to be given back
// while the context cannot be made current.
bool gives_back(const std::string& call) {
  static const std::set<std::string> calls{
      "cuCtxPushCurrent", "cuStreamDestroy",    "cuEventDestroy",           "cuMemPoolDestroy",
      "cuMemFreeAsync",   "cuMemFreeHost",      "cuMemHostUnregister",      "cuModuleUnload",
      "cuGraphDestroy",   "cuGraphExecDestroy", "cuDevicePrimaryCtxRelease"};
  return calls.contains(call);
}
// How often these are called depends on how fast a list is done.
bool depends_on_time(const std::string& call) { return call == "cuStreamQuery"; }

bool writes_counters(const std::string& call) {
  return call == "cuStreamWriteValue64" || call == "cuMemsetD32Async";
}

struct CallPlace {
  std::string call;
  uint64_t nth = 0;
  cu::CUresult result = cu::CUDA_SUCCESS;
};

class CudaRefusals : public StubGpu, public ::testing::WithParamInterface<size_t> {
 protected:
  void SetUp() override {
    StubGpu::SetUp();
    if (IsSkipped()) return;
    calls_ = CudaApi::load(testing::stub_cuda_path()).or_raise()->calls();
  }

  // The context lives on, so that what a device leaves in it can be seen.
  void retain() {
    cu::CUcontext context = nullptr;
    ASSERT_EQ(calls_.cuDevicePrimaryCtxRetain(&context, 0), cu::CUDA_SUCCESS);
  }
  void release() {
    // A pop that failed left it current.
    cu::CUcontext current = nullptr;
    while (calls_.cuCtxPopCurrent(&current) == cu::CUDA_SUCCESS) {
    }
    ASSERT_EQ(calls_.cuDevicePrimaryCtxRelease(0), cu::CUDA_SUCCESS);
  }

  static const StepOfLife& step() { return steps_of_life()[GetParam()]; }

  // The calls that the step makes.
  std::map<std::string, uint64_t> places(const CudaOptions& with) {
    LifeOfADevice life(stub(), with);
    EXPECT_FALSE(run_up_to_step(life));
    std::map<std::string, uint64_t> before;
    for (const char* call : kDriverCalls) before[call] = stub().calls(call);
    const Failure failure = (life.*step().run)();
    EXPECT_FALSE(failure) << failure.message();
    std::map<std::string, uint64_t> made;
    for (const char* call : kDriverCalls) {
      if (depends_on_time(call)) continue;
      // Where a counter cannot be written, the host waits for the stream, which the step holds:
      // CudaCounter shows it.
      if (step().run == &LifeOfADevice::wait_for_another_queue && writes_counters(call)) continue;
      made[call] = stub().calls(call) - before[call];
    }
    return made;
  }

  Failure run_up_to_step(LifeOfADevice& life) {
    for (size_t i = 0; i < GetParam(); ++i) {
      if (Failure failure = (life.*steps_of_life()[i].run)()) return failure;
    }
    return {};
  }
  static Failure run_after_step(LifeOfADevice& life) {
    for (size_t i = GetParam() + 1; i < steps_of_life().size(); ++i) {
      if (Failure failure = (life.*steps_of_life()[i].run)()) return failure;
    }
    return {};
  }

  // As it happens: the one call fails, and the step is made again.
  void expect_a_passing_failure(const CallPlace& place, const CudaOptions& with) {
    retain();
    {
      LifeOfADevice life(stub(), with);
      ASSERT_FALSE(run_up_to_step(life));
      stub().fail(place.call, place.nth, place.result);
      const Failure failure = (life.*step().run)();
      stub().fail_no_more();
      expect_named(failure, place, step().needed.contains(place.call));
      if (failure) {
        const Failure again = (life.*step().run)();
        EXPECT_FALSE(again) << again.message();
      }
      if (const Failure gone = life.lost(); gone && gone.code() != ErrorCode::closed) {
        ADD_FAILURE() << gone.message();
      }
      const Failure later = run_after_step(life);
      EXPECT_FALSE(later) << later.message();
    }
    stub().drain();
    if (!gives_back(place.call)) {
      EXPECT_EQ(stub().live(), (std::map<std::string, size_t>{{"context", 1}}));
    }
    if (place.call != "cuDevicePrimaryCtxRelease") {
      EXPECT_EQ(stub().live()["context"], 1U);
    }
    release();
    stub().reset();
  }
  // The call says that the context does nothing any more.
  void expect_a_lost_device(const CallPlace& place, const CudaOptions& with) {
    retain();
    {
      LifeOfADevice life(stub(), with);
      ASSERT_FALSE(run_up_to_step(life));
      stub().fail(place.call, place.nth, place.result);
      const Failure failure = (life.*step().run)();
      stub().fail_no_more();
      if (failure) {
        EXPECT_THAT(failure.message(), HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
      }
      if (const Failure lost = life.lost(); lost && lost.code() != ErrorCode::closed) {
        EXPECT_EQ(lost.code(), ErrorCode::device_lost);
        EXPECT_THAT(lost.message(), ::testing::AllOf(HasSubstr("device 'cuda:0' is lost"),
                                                     HasSubstr("end the process")));
        const Failure again = (life.*step().run)();
        const Failure later = run_after_step(life);
        EXPECT_TRUE(!again || again.code() == ErrorCode::device_lost) << again.message();
        EXPECT_TRUE(!later || later.code() == ErrorCode::device_lost) << later.message();
      }
    }
    stub().drain();
    if (place.call != "cuDevicePrimaryCtxRelease") {
      EXPECT_EQ(stub().live()["context"], 1U);
    }
    release();
    stub().reset();
  }

 private:
  static void expect_named(const Failure& failure, const CallPlace& place, bool expected) {
    // Not every attribute is needed, and waiting may ask the driver how a stream is.
    if (place.call != "cuDeviceGetAttribute" && place.call != "cuCtxPushCurrent") {
      EXPECT_EQ(static_cast<bool>(failure), expected) << (failure ? failure.message() : "");
    }
    if (!failure) return;
    EXPECT_THAT(failure.message(), AnyOf(HasSubstr("cuda:0"), HasSubstr("NVIDIA's driver")));
    EXPECT_THAT(failure.message(), HasSubstr("CUDA_ERROR_NOT_PERMITTED"));
  }

  cu::Calls calls_;
};

CudaOptions with_memory_operations(bool has) {
  CudaOptions options;
  options.driver = testing::stub_cuda_path();
  options.queues = 2;
  options.copy_queues = 1;
  options.stream_memory_operations = has;
  return options;
}

TEST_P(CudaRefusals, are_named_leave_nothing_behind_and_pass) {
  for (const bool memory_operations : {true, false}) {
    const CudaOptions with = with_memory_operations(memory_operations);
    for (const auto& [call, count] : places(with)) {
      for (uint64_t nth = 1; nth <= count && !HasFailure(); ++nth) {
        SCOPED_TRACE(fmt::format("call {} of {}, {} memory operations", nth, call,
                                 memory_operations ? "with" : "without"));
        expect_a_passing_failure({call, nth, cu::CUDA_ERROR_NOT_PERMITTED}, with);
      }
    }
  }
}

TEST_P(CudaRefusals, that_end_the_context_lose_the_device_and_nothing_hangs) {
  for (const bool memory_operations : {true, false}) {
    const CudaOptions with = with_memory_operations(memory_operations);
    for (const auto& [call, count] : places(with)) {
      for (uint64_t nth = 1; nth <= count && !HasFailure(); ++nth) {
        SCOPED_TRACE(fmt::format("call {} of {}, {} memory operations", nth, call,
                                 memory_operations ? "with" : "without"));
        expect_a_lost_device({call, nth, cu::CUDA_ERROR_LAUNCH_FAILED}, with);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryCall, CudaRefusals,
                         ::testing::Range<size_t>(0, steps_of_life().size()),
                         [](const auto& test) { return steps_of_life()[test.param].name; });

}  // namespace
}  // namespace holdfast::hal
