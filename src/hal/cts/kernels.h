#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "holdfast/base/rounding.h"
#include "holdfast/hal/pipeline.h"

namespace holdfast::hal::cts {

// The kernels that a device must bring to be tested. Numbers are 32 bits wide and little-endian;
// bound ranges start at multiples of the device's buffer alignment and have lengths that are
// multiples of four.
//
// Unless said otherwise a kernel works on all elements n of its bindings, and group g of the first
// axis on the elements [64 g, 64 g + 64) as far as they exist: see groups_for().
struct KernelInterface {
  std::string_view name;
  uint32_t bindings;
  Bytes parameter_bytes;
};

inline constexpr KernelInterface kKernels[] = {
    // 0: u32, read and written. Adds one to every element.
    {"increment", 1, {0}},
    // 0: u32, read; 1: u32, written. Copies.
    {"copy_u32", 2, {0}},
    // 0: u32, written. Parameters: u32 value. Stores the value in every element.
    {"store", 1, {4}},
    // 0: u32, read and written. Parameters: AffineParameters. Every element x becomes x *
    // multiplier + addend, modulo
    // 2^32: the order of two of them shows.
    {"affine", 1, {8}},
    // 0: u32, read; 1: u32, written. Parameters: u32 rounds. out[i] = mix_element(in[n - 1 - i],
    // rounds): every group reads what
    // another one's counterpart wrote, and takes its time.
    {"mix", 2, {4}},
    // 0: f32, read; 1: f32, read and written. Parameters: AxpyParameters. y[i] += a * x[i] for i
    // below n.
    {"axpy", 2, {8}},
    // 0: bytes, written. Parameters: up to 4 KiB, as many as the binding is long. One group. Stores
    // the parameters.
    {"store_params", 1, {4}},
    // 0: u32, written. A group of any grid stores its x, y and z at element 3 * (x + groups.x * (y
    // + groups.y * z)).
    {"write_group_ids", 1, {0}},
    // 0 to 29: u32, read; 30: u32, written. out[i] = sum over k of (k + 1) * in_k[i].
    {"sum31", 31, {0}},
    // No bindings. Fails while it executes, where a device's kernels can.
    {"fail", 0, {0}},
};

inline constexpr uint32_t kGroupElements = 64;

constexpr Groups groups_for(size_t elements) {
  return {static_cast<uint32_t>(ceil_div<size_t>(elements, kGroupElements)), 1, 1};
}

struct AffineParameters {
  uint32_t multiplier = 1;
  uint32_t addend = 0;
};

struct AxpyParameters {
  float a = 0;
  uint32_t n = 0;
};

constexpr uint32_t mix_element(uint32_t x, uint32_t rounds) {
  for (uint32_t i = 0; i < rounds; ++i) x = x * 1664525U + 1013904223U;
  return x;
}

// What "mix" makes of its input.
inline std::vector<uint32_t> mixed(const std::vector<uint32_t>& in, uint32_t rounds) {
  std::vector<uint32_t> out;
  out.reserve(in.size());
  for (auto x = in.rbegin(); x != in.rend(); ++x) out.push_back(mix_element(*x, rounds));
  return out;
}

}  // namespace holdfast::hal::cts
