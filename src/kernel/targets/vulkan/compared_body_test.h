#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "holdfast/kernel/language_rig_test.h"
#include "holdfast/kernel/targets/vulkan/clang.h"
#include "holdfast/simulation/driver.h"
#include "holdfast/testing/vulkan.h"

namespace holdfast::kernel {

// An argument of a body: what its memory has before, and how elements lie there.
struct BodyArray {
  std::string name{};
  Dtype dtype = Dtype::float32;
  std::vector<std::byte> bytes{};
  std::vector<int64_t> shape{};
  std::vector<int64_t> strides{};  // empty: row-contiguous
};

// A body that gives the same results on the CPU and on Vulkan.
struct ComparedBody {
  std::string name{};
  std::string body{};
  std::string header{};
  std::vector<BodyArray> inputs{};
  std::vector<BodyArray> outputs{};
  Size3 grid{};
  Size3 threadgroup{32, 1, 1};
  std::vector<Constant> constants{};
  std::vector<Param> params{};
  bool atomic = false;
  // By how many units in the last place floats may differ: of the larger of the two, or of `about`
  // where that is larger, as in sums that come out smaller than their terms.
  double units = 0;
  double about = 0;

  friend void PrintTo(const ComparedBody& body, std::ostream* out) { *out << body.name; }
};

// Why bodies cannot be compared here; empty: they can.
inline std::string why_no_bodies_on_vulkan() {
  if (std::string why = testing::why_no_vulkan(); !why.empty()) return why;
  const auto clang = Clang::find();
  return clang ? "" : clang.failure().message();
}

// Numbers from `least` on and below `least + range`: multiples of 1/64, which every float holds, if
// they are whole for integers. The same for the same seed.
inline BodyArray numbers(std::string name, Dtype dtype, size_t count, uint64_t seed,
                         float least = -4, float range = 8) {
  simulation::Random random(seed);
  const bool is_float = dtype == Dtype::float16 || dtype == Dtype::bfloat16 ||
                        dtype == Dtype::float32 || dtype == Dtype::float64;
  // A bfloat has 8 bits.
  const float parts = !is_float ? 1 : dtype == Dtype::bfloat16 ? 16 : 64;
  std::vector<float> values(count);
  for (float& value : values) {
    value = least + static_cast<float>(random.below(static_cast<uint64_t>(range * parts))) / parts;
  }
  return {std::move(name), dtype, converted(values, dtype), {static_cast<int64_t>(count)}};
}
// Any bits at all.
inline BodyArray any_bits(std::string name, Dtype dtype, size_t count, uint64_t seed) {
  simulation::Random random(seed);
  std::vector<std::byte> bytes(count * size_of(dtype).value);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next() >> 24);
  return {std::move(name), dtype, std::move(bytes), {static_cast<int64_t>(count)}};
}
inline BodyArray filled(std::string name, Dtype dtype, size_t count, float value = 0) {
  return {std::move(name),
          dtype,
          converted(std::vector<float>(count, value), dtype),
          {static_cast<int64_t>(count)}};
}

// Bytes of every output after the body ran on a device of the family, which is validated.
inline std::vector<std::vector<std::byte>> outcome_of(const ComparedBody& body,
                                                      testing::Family family) {
  World world(World::Mode::validate, {}, family);
  std::vector<std::vector<std::byte>> outcome;
  {
    KernelRig rig(world);
    const auto stream = rig.stream("main");
    std::vector<Ref<hal::Allocation>> memory;
    const auto upload = [&](const BodyArray& array) {
      memory.push_back(stream->allocate(Bytes{array.bytes.size()}, array.name));
      stream->upload(memory.back(), {}, array.bytes);
      return ArrayRef(memory.back(), array.dtype, array.shape, array.strides);
    };
    Definition definition{.name = body.name,
                          .source = body.body,
                          .header = body.header,
                          .atomic_outputs = body.atomic};
    std::vector<ArrayRef> inputs;
    std::vector<ArrayRef> outputs;
    for (const BodyArray& array : body.inputs) {
      definition.inputs.push_back(array.name);
      inputs.push_back(upload(array));
    }
    for (const BodyArray& array : body.outputs) {
      (body.atomic ? definition.outputs : definition.in_place).push_back(array.name);
      outputs.push_back(upload(array));
    }
    Launch launch{.inputs = inputs,
                  .grid = body.grid,
                  .threadgroup = body.threadgroup,
                  .constants = body.constants,
                  .params = body.params,
                  .keeps_outputs = body.atomic};
    (body.atomic ? launch.outputs : launch.in_place) = outputs;
    rig.kernels.launch(*stream, Kernel(definition), launch);
    for (size_t i = 0; i < body.outputs.size(); ++i) {
      outcome.emplace_back(body.outputs[i].bytes.size());
      stream->readback(memory[inputs.size() + i], {}, outcome.back(), testing::patient());
    }
  }
  if (const std::string failure = world.failure(); !failure.empty()) {
    throw UsageError(failure);
  }
  return outcome;
}

// A float of the dtype, and the unit in its last place if it is as large as `about`.
struct FloatParts {
  double value = 0;
  double unit = 0;
};
inline FloatParts float_parts(const std::byte* at, Dtype dtype, double about) {
  double value = 0;
  int digits = 24;
  const auto take = [&]<typename T>(T into) {
    std::memcpy(&into, at, sizeof(T));
    return into;
  };
  switch (dtype) {
    case Dtype::float16:
      value = static_cast<float>(take(Float16{}));
      digits = 11;
      break;
    case Dtype::bfloat16:
      value = std::bit_cast<float>(static_cast<uint32_t>(take(uint16_t{})) << 16);
      digits = 8;
      break;
    case Dtype::float32: value = take(float{}); break;
    default:
      value = take(double{});
      digits = 53;
      break;
  }
  const double size = std::max(std::abs(value), about);
  const int exponent = size > 0 && std::isfinite(size) ? std::ilogb(size) : -126;
  return {value, std::ldexp(1.0, exponent + 1 - digits)};
}

// Where the two first differ by more than the body allows; empty: nowhere.
inline std::string difference(const ComparedBody& body,
                              const std::vector<std::vector<std::byte>>& cpu,
                              const std::vector<std::vector<std::byte>>& vulkan) {
  for (size_t o = 0; o < body.outputs.size(); ++o) {
    const Dtype dtype = body.outputs[o].dtype;
    const size_t size = size_of(dtype).value;
    for (size_t at = 0; at + size <= cpu[o].size(); at += size) {
      if (std::memcmp(&cpu[o][at], &vulkan[o][at], size) == 0) continue;
      const auto text = [&](const std::vector<std::byte>& bytes) {
        uint64_t bits = 0;
        std::memcpy(&bits, &bytes[at], size);
        return fmt::format("{:#x}", bits);
      };
      std::string said = fmt::format("{}[{}]: {} on the CPU, {} on Vulkan", body.outputs[o].name,
                                     at / size, text(cpu[o]), text(vulkan[o]));
      const bool is_float = dtype == Dtype::float16 || dtype == Dtype::bfloat16 ||
                            dtype == Dtype::float32 || dtype == Dtype::float64;
      if (!is_float) return said;
      const FloatParts a = float_parts(&cpu[o][at], dtype, body.about);
      const FloatParts b = float_parts(&vulkan[o][at], dtype, body.about);
      if (std::isnan(a.value) && std::isnan(b.value)) continue;
      const double units = std::abs(a.value - b.value) / std::max(a.unit, b.unit);
      if (units <= body.units) continue;
      return said +
             fmt::format(" ({} and {}, {} units in the last place)", a.value, b.value, units);
    }
  }
  return {};
}

}  // namespace holdfast::kernel
