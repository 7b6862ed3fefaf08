#include "holdfast/kernel/cache/signature_key.h"

#include <array>

#include "holdfast/base/ablation.h"
#include "holdfast/base/hash.h"

namespace holdfast::kernel {

SignatureKey::SignatureKey(const CallSignature& signature) {
  // All members, so that a new one does not compile until it is part of the key.
  const auto& [inputs, outputs, in_place, constants, params] = signature;
  add_counts(inputs.size(), outputs.size(), in_place.size(), constants.size(), params.size());
  for (const auto* group : {&inputs, &outputs, &in_place}) {
    for (const auto& [dtype, rank] : *group) add(dtype, rank);
  }
  for (const auto& [name, value] : constants) add(name, value);
  for (const auto& [name, dtype] : params) add(name, dtype);
}

void SignatureKey::put(const void* data, size_t size) {
  if (size == 0) return;
  const size_t before = bytes_.size();
  bytes_.resize(before + size, boost::container::default_init);
  std::memcpy(bytes_.data() + before, data, size);
}

void SignatureKey::put_name(std::string_view name) {
  const uint64_t length = name.size();
  if (!ablated(Ablation::key_without_lengths)) put(&length, sizeof length);
  put(name.data(), name.size());
}

void SignatureKey::add_counts(size_t inputs, size_t outputs, size_t in_place, size_t constants,
                              size_t params) {
  const std::array<uint64_t, 5> counts{inputs, outputs, in_place, constants, params};
  put(counts.data(), sizeof counts);
}

void SignatureKey::add(Dtype dtype, uint32_t rank) {
  const std::array<uint32_t, 2> argument{static_cast<uint32_t>(dtype), rank};
  put(argument.data(), sizeof argument);
}

void SignatureKey::add(std::string_view name, const ConstantValue& value) {
  put_name(name);
  const auto number = [](auto v) { return static_cast<uint64_t>(v); };
  const std::array<uint64_t, 2> typed{value.index(), std::visit(number, value)};
  put(typed.data(), sizeof typed);
}

void SignatureKey::add(std::string_view name, Dtype dtype) {
  put_name(name);
  const auto number = static_cast<uint64_t>(dtype);
  put(&number, sizeof number);
}

uint64_t SignatureKey::hash() const noexcept { return digest_of(bytes()).words[0]; }

}  // namespace holdfast::kernel
