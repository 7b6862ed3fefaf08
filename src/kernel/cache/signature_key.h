#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "holdfast/kernel/signature.h"

namespace holdfast::kernel {

// A call signature as bytes that can be compared, made on every call without allocating for usual
// sizes. Each part has its length. For one process: bytes are in the host's order.
class SignatureKey {
 public:
  SignatureKey() = default;
  explicit SignatureKey(const CallSignature& signature);

  // Built in parts, in the order inputs, outputs, in_place, constants, params; the counts of all of
  // them come first.
  void add_counts(size_t inputs, size_t outputs, size_t in_place, size_t constants, size_t params);
  void add(Dtype dtype, uint32_t rank);
  void add(std::string_view name, const ConstantValue& value);
  void add(std::string_view name, Dtype dtype);

  std::span<const std::byte> bytes() const noexcept { return {bytes_.data(), bytes_.size()}; }
  uint64_t hash() const noexcept;
  friend bool operator==(const SignatureKey& a, const SignatureKey& b) noexcept {
    return a.bytes_.size() == b.bytes_.size() &&
           std::memcmp(a.bytes_.data(), b.bytes_.data(), a.bytes_.size()) == 0;
  }

 private:
  void put(const void* data, size_t size);
  void put_name(std::string_view name);
  boost::container::small_vector<std::byte, 256> bytes_;
};

}  // namespace holdfast::kernel
