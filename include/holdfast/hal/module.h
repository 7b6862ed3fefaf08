#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "holdfast/base/bytes.h"

#pragma GCC visibility push(default)

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

// How a SPIR-V kernel reaches what a dispatch binds.
enum class SpirvBindings : uint8_t {
  descriptors,  // binding i is the storage buffer at set 0, binding i
  addresses     // by 64-bit addresses, for devices that have them: least work for the host
};

// SPIR-V for Vulkan, with one compute entry point of the given name. The module sets its own group
// size.
//
// With `descriptors`, up to kMaxPushBytes of parameters are the push constants from byte 0 on.
// Larger parameters are a read-only storage buffer at the binding after the last. With `addresses`
// there is one block: the address of each binding, 8 bytes each, then what `binding_lengths` and
// `report` add, then the parameters. A block of up to kMaxPushBytes is the push constants; for a
// larger block they hold its address.
struct SpirvModule {
  static constexpr Bytes kMaxPushBytes{128};  // what every Vulkan device has

  struct Constant {
    uint32_t id = 0;
    uint64_t bits = 0;   // the low `bytes` of them, little-endian
    uint32_t bytes = 4;  // 4 (also for bool) or 8
    friend bool operator==(const Constant&, const Constant&) = default;
  };

  std::vector<uint32_t> words;
  std::string entry_point = "main";
  std::vector<Constant> constants{};  // specialization constants that differ from their defaults
  SpirvBindings bindings = SpirvBindings::descriptors;
  // Where it is there, the threads of a group are the specialization constants 0 to 2, and every
  // dispatch says them: three 32-bit numbers among its parameters, from this byte on. The driver
  // finishes the module anew for every size that it meets.
  std::optional<Bytes> threads_at{};
  // With `addresses`: the block has the bytes of each binding, too, 8 bytes each.
  bool binding_lengths = false;
  // With `addresses`: the block has the address of memory to which the kernel reports a failure.
  // The memory is zero before the dispatch. If its first word is not zero afterwards, the dispatch
  // has failed for the reason that `read` makes of the memory.
  struct Report {
    Bytes size{};
    std::function<std::string(std::span<const std::byte>)> read{};  // touches memory alone
  };
  std::optional<Report> report{};

  // Of the block, before the parameters.
  Bytes address_bytes(uint32_t binding_count) const noexcept {
    return Bytes{sizeof(uint64_t)} *
           (uint64_t{binding_count} * (binding_lengths ? 2 : 1) + (report ? 1 : 0));
  }
};

// Code for an NVIDIA GPU, with a kernel of the given name: a cubin, or PTX, which the driver
// finishes.
//
// Its arguments are a pointer for each binding; with `binding_lengths` then the bytes of each, as
// 64-bit numbers; then the parameter bytes, if it takes any, as one value aligned to eight. Drivers
// since CUDA 12.4 know what code declares: it may then take fewer of the parameter bytes, and code
// that takes other arguments is refused.
struct CudaModule {
  std::vector<std::byte> code;
  std::string entry_point = "main";
  bool binding_lengths = false;
  // The threads of a group. Where they are zero, every dispatch says them: three 32-bit numbers
  // among its parameters, from this byte on.
  Groups threads{0, 0, 0};
  Bytes threads_at{};
  Bytes taken_parameters = kMaxParameterBytes;  // no more of the parameter bytes are arguments
  Bytes shared_memory{};                        // of a group, besides what the code declares
  Groups cluster{1, 1, 1};   // groups that run together; the grid is a multiple of it
  bool cooperative = false;  // all groups run at once, and may wait for one another
  // Every thread waits for the grids before it (griddepcontrol.wait) before it reads or writes
  // memory, and reads none past the caches' coherence (ld.global.nc): it may be launched while the
  // kernel that it comes after still ends.
  bool waits_for_grids = false;
};

// A finished module, in one of the forms that devices take. Devices refuse the forms they do not
// know.
using Module = std::variant<HostFunction, SpirvModule, CudaModule>;

template <typename T>
T HostGroup::parameter(size_t byte_offset) const {
  T value;
  const auto source = parameters.subspan(byte_offset, sizeof(T));
  std::copy(source.begin(), source.end(), reinterpret_cast<std::byte*>(&value));
  return value;
}

}  // namespace holdfast::hal

#pragma GCC visibility pop
