#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/kernel/cache/content_key.h"
#include "holdfast/kernel/cache/variant_cache.h"
#include "holdfast/kernel/float16.h"
#include "holdfast/kernel/launch.h"
#include "holdfast/kernel/targets/wrapping_target_test.h"
#include "holdfast/testing/rig.h"
#include "holdfast/testing/scenario.h"

namespace holdfast::kernel {

// The device's own compiler, counted. What it made is remembered for the life of the process, so
// that a thousand schedules of one scenario run it once.
class CountedTarget final : public WrappingTarget {
 public:
  explicit CountedTarget(const hal::DeviceInfo& device) : WrappingTarget(make_target(device)) {}

  Result<Code> compile(const CompileJob& job) override {
    compiles_.fetch_add(1);
    sync::switch_point("compile a kernel");
    const std::string text = ContentKey(job, version().or_raise()).bytes();
    {
      const sync::LeafLock lock(memory().mutex);
      const auto found = memory().made.find(text);
      if (found != memory().made.end()) return found->second;
    }
    Result<Code> made = WrappingTarget::compile(job);
    const sync::LeafLock lock(memory().mutex);
    return memory().made.emplace(text, std::move(made)).first->second;
  }
  uint64_t compiles() const { return compiles_.load(); }

 private:
  struct Memory {
    sync::LeafMutex mutex;  // guards made
    std::map<std::string, Result<Code>> made;
  };
  static Memory& memory() {
    static Memory of_process;
    return of_process;
  }

  std::atomic<uint64_t> compiles_{0};
};

// A rig with kernels, whose compiles are counted and whose disk cache is off.
struct KernelRig : testing::Rig {
  explicit KernelRig(testing::World& world, Options options = {.disk = nullptr})
      : Rig(world),
        target(std::make_shared<CountedTarget>(device->info())),
        kernels(context, with(std::move(options), target)) {}

  std::shared_ptr<CountedTarget> target;
  KernelRuntime kernels;

 private:
  static Options with(Options options, std::shared_ptr<Target> target) {
    if (!options.target) options.target = std::move(target);
    return options;
  }
};

// Memory of a known type and shape.
struct TestArray {
  Ref<hal::Allocation> memory;
  Dtype dtype = Dtype::float32;
  std::vector<int64_t> shape;

  ArrayRef ref() const { return {memory, dtype, shape}; }
};

template <typename T>
constexpr Dtype dtype_of();
template <>
constexpr Dtype dtype_of<float>() {
  return Dtype::float32;
}
template <>
constexpr Dtype dtype_of<int32_t>() {
  return Dtype::int32;
}
template <>
constexpr Dtype dtype_of<uint32_t>() {
  return Dtype::uint32;
}
template <>
constexpr Dtype dtype_of<Float16>() {
  return Dtype::float16;
}

template <typename T>
TestArray array_of(runtime::Stream& stream, const std::vector<T>& values, std::string name = {}) {
  const Bytes size{values.size() * sizeof(T)};
  TestArray array{
      stream.allocate(size, std::move(name)), dtype_of<T>(), {static_cast<int64_t>(values.size())}};
  stream.upload(array.memory, {}, std::as_bytes(std::span(values)));
  return array;
}

inline TestArray empty_array(runtime::Stream& stream, Dtype dtype, int64_t length,
                             std::string name = {}) {
  return {stream.allocate(size_of(dtype) * static_cast<uint64_t>(length), std::move(name)),
          dtype,
          {length}};
}

template <typename T>
std::vector<T> values_of(runtime::Stream& stream, const TestArray& array) {
  std::vector<T> values(static_cast<size_t>(array.shape.at(0)));
  stream.readback(array.memory, {}, std::as_writable_bytes(std::span(values)), testing::patient());
  return values;
}

// One input x, one output y of the same length, one thread for each element.
inline void run_elementwise(KernelRig& rig, runtime::Stream& stream, const Kernel& kernel,
                            const TestArray& x, const TestArray& y,
                            std::vector<Constant> constants = {}) {
  const std::array in{x.ref()};
  const std::array out{y.ref()};
  rig.kernels.launch(stream, kernel,
                     {.inputs = in,
                      .outputs = out,
                      .grid = {static_cast<uint32_t>(x.shape[0]), 1, 1},
                      .threadgroup = {32, 1, 1},
                      .constants = constants});
}

}  // namespace holdfast::kernel
