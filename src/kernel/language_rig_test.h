#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "holdfast/kernel/scenarios/kernel_rig_test.h"

namespace holdfast::kernel {

using testing::World;

inline std::vector<float> iota(size_t count, float first = 0) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

struct Call {
  std::string body;
  std::string header{};
  std::vector<float> x{};        // the input x, of one dimension
  size_t outputs = 1;            // elements of y
  Dtype dtype = Dtype::float32;  // of x, y is float32
  Size3 grid{};
  Size3 threadgroup{32, 1, 1};
  std::vector<Constant> constants{};
  std::vector<Param> params{};
  bool atomic = false;
  bool bounds = false;
  MathMode math = MathMode::safe;
};

inline std::vector<std::byte> converted(const std::vector<float>& values, Dtype dtype) {
  std::vector<std::byte> bytes;
  const auto put = [&](auto value) {
    const auto part = std::bit_cast<std::array<std::byte, sizeof(value)>>(value);
    bytes.insert(bytes.end(), part.begin(), part.end());
  };
  for (const float value : values) {
    switch (dtype) {
      case Dtype::bool_: put(value != 0); break;
      case Dtype::int8: put(static_cast<int8_t>(value)); break;
      case Dtype::uint8: put(static_cast<uint8_t>(value)); break;
      case Dtype::int16: put(static_cast<int16_t>(value)); break;
      case Dtype::uint16: put(static_cast<uint16_t>(value)); break;
      case Dtype::int32: put(static_cast<int32_t>(value)); break;
      case Dtype::uint32: put(static_cast<uint32_t>(value)); break;
      case Dtype::int64: put(static_cast<int64_t>(value)); break;
      case Dtype::uint64: put(static_cast<uint64_t>(value)); break;
      case Dtype::float16: put(Float16(value).bits); break;
      case Dtype::bfloat16: put(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16)); break;
      case Dtype::float32: put(value); break;
      case Dtype::float64: put(static_cast<double>(value)); break;
    }
  }
  return bytes;
}

// Runs bodies of one kernel, `body`, on a device of family_of_bodies(), validated.
struct LanguageTest : ::testing::Test {
  World world{World::Mode::validate};

  ~LanguageTest() override { EXPECT_EQ(world.failure(), ""); }

  // What the kernel leaves in y, which is zero before.
  std::vector<float> run(const Call& call) {
    KernelRig rig(world, {.disk = nullptr, .bounds = call.bounds});
    const auto stream = rig.stream("main");
    const std::vector<float> input = call.x.empty() ? std::vector<float>{0} : call.x;
    const std::vector<std::byte> bytes = converted(input, call.dtype);
    const TestArray x{stream->allocate(Bytes{bytes.size()}, "x"),
                      call.dtype,
                      {static_cast<int64_t>(input.size())}};
    stream->upload(x.memory, {}, bytes);
    const TestArray y = array_of(*stream, std::vector<float>(call.outputs), "y");
    Definition definition{.name = "body",
                          .inputs = {"x"},
                          .in_place = {"y"},
                          .source = call.body,
                          .header = call.header,
                          .math = call.math};
    if (call.atomic) {
      definition.outputs = std::exchange(definition.in_place, {});
      definition.atomic_outputs = true;
    }
    const std::array inputs{x.ref()};
    const std::array written{y.ref()};
    Launch launch{.inputs = inputs,
                  .grid = call.grid,
                  .threadgroup = call.threadgroup,
                  .constants = call.constants,
                  .params = call.params};
    (call.atomic ? launch.outputs : launch.in_place) = written;
    rig.kernels.launch(*stream, Kernel(definition), launch);
    return values_of<float>(*stream, y);
  }
  std::string failure_of(const Call& call) {
    try {
      run(call);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing failed";
  }
};

}  // namespace holdfast::kernel
