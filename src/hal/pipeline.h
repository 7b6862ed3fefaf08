#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "holdfast/hal/resource.h"

namespace holdfast::hal {

// The kernel interface, the same on every device.
inline constexpr uint32_t kMaxBindings = 31;
inline constexpr Bytes kMaxParameterBytes = 4_KiB;

// How many groups a dispatch has along each axis. A zero means that the dispatch does nothing.
struct Groups {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
  constexpr uint64_t count() const noexcept { return uint64_t{x} * y * z; }
  friend bool operator==(const Groups&, const Groups&) = default;
};

// What a host function sees while it runs as one group of a dispatch. The spans are valid during
// the call; each binding covers exactly the bound range.
struct HostGroup {
  Groups group;   // which one
  Groups groups;  // of how many
  std::span<const std::span<std::byte>> bindings;
  std::span<const std::byte> parameters;

  template <typename T>
  std::span<T> binding(size_t index) const {
    const auto bytes = bindings[index];
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  // A copy, so that parameters need no alignment.
  template <typename T>
  T parameter(size_t byte_offset = 0) const;
};

// Called for every group, from several threads at once. An exception fails the list with its text.
using HostFunction = std::function<void(const HostGroup&)>;

// A finished module, in one of the forms that devices take. Devices refuse the forms they do not
// know.
struct SpirvModule {
  std::vector<uint32_t> words;
  std::string entry_point = "main";
};
using Module = std::variant<HostFunction, SpirvModule>;

struct PipelineDesc {
  std::string name{};
  Module module{};
  uint32_t bindings = 0;    // how many every dispatch gives
  Bytes parameter_bytes{};  // how many every dispatch gives
};

class Pipeline : public Resource {
 public:
  uint32_t bindings() const noexcept { return bindings_; }
  Bytes parameter_bytes() const noexcept { return parameter_bytes_; }
  std::string describe() const override;

#ifdef HOLDFAST_ABLATIONS
  // Puts the bytes where all dispatches read theirs; see Ablation::shared_parameter_slot.
  const std::byte* share_parameters(std::span<const std::byte> bytes) const {
    shared_parameters_.resize(parameter_bytes_.value);
    std::copy(bytes.begin(), bytes.end(), shared_parameters_.begin());
    return shared_parameters_.data();
  }
#endif

 protected:
  Pipeline(DeviceId device, std::string name, uint32_t bindings, Bytes parameter_bytes)
      : Resource(device, std::move(name)), bindings_(bindings), parameter_bytes_(parameter_bytes) {}

 private:
  uint32_t bindings_;
  Bytes parameter_bytes_;
#ifdef HOLDFAST_ABLATIONS
  mutable std::vector<std::byte> shared_parameters_;
#endif
};

template <typename T>
T HostGroup::parameter(size_t byte_offset) const {
  T value;
  const auto source = parameters.subspan(byte_offset, sizeof(T));
  std::copy(source.begin(), source.end(), reinterpret_cast<std::byte*>(&value));
  return value;
}

}  // namespace holdfast::hal
