#include "workloads/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "holdfast/kernel/float16.h"

namespace holdfast::workloads {
namespace {

using kernel::BFloat16;
using kernel::Dtype;
using kernel::Float16;

template <typename T>
std::vector<std::byte> stored(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    const T value(values[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

std::vector<std::byte> encode(Dtype dtype, const std::vector<float>& values) {
  switch (dtype) {
    case Dtype::float16: return stored<Float16>(values);
    case Dtype::bfloat16: return stored<BFloat16>(values);
    case Dtype::float32: return stored<float>(values);
    default: throw UsageError("the workloads keep floats as float16, bfloat16 or float32");
  }
}

template <typename T>
std::vector<float> loaded(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value{};
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<float>(value);
  }
  return values;
}

std::vector<float> decode(Dtype dtype, const std::vector<std::byte>& bytes) {
  switch (dtype) {
    case Dtype::float16: return loaded<Float16>(bytes);
    case Dtype::bfloat16: return loaded<BFloat16>(bytes);
    default: return loaded<float>(bytes);
  }
}

}  // namespace

uint64_t Tensor::elements() const {
  uint64_t count = 1;
  for (const int64_t length : shape) count *= static_cast<uint64_t>(length);
  return count;
}

Tensor make_tensor(runtime::Stream& stream, Dtype dtype, std::vector<int64_t> shape,
                   std::string name) {
  Tensor tensor{{}, dtype, std::move(shape), {}};
  tensor.memory = stream.allocate(size_of(dtype) * tensor.elements(), std::move(name));
  return tensor;
}

Tensor upload(runtime::Stream& stream, Dtype dtype, std::vector<int64_t> shape,
              const std::vector<float>& values, std::string name) {
  Tensor tensor = make_tensor(stream, dtype, std::move(shape), std::move(name));
  write(stream, tensor, values);
  return tensor;
}

Tensor upload_words(runtime::Stream& stream, Dtype dtype, std::vector<int64_t> shape,
                    const std::vector<uint32_t>& words, std::string name) {
  Tensor tensor = make_tensor(stream, dtype, std::move(shape), std::move(name));
  stream.upload(tensor.memory, {}, std::as_bytes(std::span(words)));
  return tensor;
}

void write(runtime::Stream& stream, const Tensor& to, const std::vector<float>& values) {
  stream.upload(to.memory, to.offset, encode(to.dtype, values));
}

std::vector<float> read(runtime::Stream& stream, const Tensor& from) {
  std::vector<std::byte> bytes((size_of(from.dtype) * from.elements()).value);
  stream.readback(from.memory, from.offset, bytes);
  return decode(from.dtype, bytes);
}

std::vector<float> rounded(Dtype dtype, const std::vector<float>& values) {
  return decode(dtype, encode(dtype, values));
}

std::vector<float> random_values(uint64_t seed, size_t count) {
  std::vector<float> values(count);
  uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (float& value : values) {
    // splitmix64
    state += 0x9e3779b97f4a7c15ULL;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    z ^= z >> 31;
    value = static_cast<float>(static_cast<int64_t>(z >> 40) - (int64_t{1} << 23)) * 0x1p-23F;
  }
  return values;
}

double relative_error(const std::vector<float>& values, const std::vector<double>& reference) {
  if (values.size() != reference.size()) throw UsageError("results of different lengths");
  double largest = 0;
  double distance = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(reference[i]));
    // Not max(): a NaN must not pass.
    const double here = std::abs(static_cast<double>(values[i]) - reference[i]);
    if (!(here <= distance)) distance = here;
  }
  return distance / std::max(largest, 1e-30);
}

}  // namespace holdfast::workloads
