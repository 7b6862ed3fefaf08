#include "holdfast/hal/cts/cpu_kernels.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "holdfast/hal/cts/kernels.h"

namespace holdfast::hal::cts {

namespace {

// Calls body(i) for the elements of this group.
template <typename Body>
void for_elements(const HostGroup& group, size_t elements, Body body) {
  const size_t begin = size_t{group.group.x} * kGroupElements;
  const size_t end = std::min(begin + kGroupElements, elements);
  for (size_t i = begin; i < end; ++i) body(i);
}

void increment(const HostGroup& group) {
  const auto data = group.binding<uint32_t>(0);
  for_elements(group, data.size(), [&](size_t i) { ++data[i]; });
}

void copy_u32(const HostGroup& group) {
  const auto in = group.binding<const uint32_t>(0);
  const auto out = group.binding<uint32_t>(1);
  for_elements(group, out.size(), [&](size_t i) { out[i] = in[i]; });
}

void store(const HostGroup& group) {
  const auto out = group.binding<uint32_t>(0);
  const auto value = group.parameter<uint32_t>();
  for_elements(group, out.size(), [&](size_t i) { out[i] = value; });
}

void affine(const HostGroup& group) {
  const auto data = group.binding<uint32_t>(0);
  const auto p = group.parameter<AffineParameters>();
  for_elements(group, data.size(), [&](size_t i) { data[i] = data[i] * p.multiplier + p.addend; });
}

void mix(const HostGroup& group) {
  const auto in = group.binding<const uint32_t>(0);
  const auto out = group.binding<uint32_t>(1);
  const auto rounds = group.parameter<uint32_t>();
  for_elements(group, out.size(),
               [&](size_t i) { out[i] = mix_element(in[out.size() - 1 - i], rounds); });
}

void axpy(const HostGroup& group) {
  const auto x = group.binding<const float>(0);
  const auto y = group.binding<float>(1);
  const auto p = group.parameter<AxpyParameters>();
  for_elements(group, p.n, [&](size_t i) { y[i] += p.a * x[i]; });
}

void store_params(const HostGroup& group) {
  std::ranges::copy(group.parameters, group.bindings[0].begin());
}

void write_group_ids(const HostGroup& group) {
  const auto out = group.binding<uint32_t>(0);
  const auto [x, y, z] = group.group;
  const size_t at = 3 * (x + size_t{group.groups.x} * (y + size_t{group.groups.y} * z));
  out[at] = x;
  out[at + 1] = y;
  out[at + 2] = z;
}

void sum31(const HostGroup& group) {
  const auto out = group.binding<uint32_t>(30);
  for_elements(group, out.size(), [&](size_t i) {
    uint32_t sum = 0;
    for (uint32_t k = 0; k < 30; ++k) sum += (k + 1) * group.binding<const uint32_t>(k)[i];
    out[i] = sum;
  });
}

void fail(const HostGroup&) { throw std::runtime_error("the kernel was asked to fail"); }

}  // namespace

Module cpu_module(std::string_view kernel, Bytes /*parameter_bytes*/) {
  static const std::map<std::string_view, void (*)(const HostGroup&)> functions{
      {"increment", increment},
      {"copy_u32", copy_u32},
      {"store", store},
      {"affine", affine},
      {"mix", mix},
      {"axpy", axpy},
      {"sum31", sum31},
      {"store_params", store_params},
      {"write_group_ids", write_group_ids},
      {"fail", fail},
  };
  return HostFunction(functions.at(kernel));
}

}  // namespace holdfast::hal::cts
