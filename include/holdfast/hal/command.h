#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "holdfast/hal/access.h"
#include "holdfast/hal/allocation.h"
#include "holdfast/hal/native_call.h"
#include "holdfast/hal/pipeline.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

// Slots of a Program are numbered from zero, below this.
inline constexpr int32_t kMaxSlots = 256;

// A caller's use of a range: of an Allocation (borrowed for the call; the recording call takes the
// hold), or of a Program's slot, which each replay binds.
struct Binding {
  Allocation* allocation = nullptr;
  ByteRange range;
  Access access = Access::read;
  int32_t slot = -1;

  static Binding of(const Ref<Allocation>& allocation, Access access) {
    return {allocation.get(), {{}, allocation ? allocation->size() : Bytes{}}, access, -1};
  }
  static Binding of(const Ref<Allocation>& allocation, ByteRange range, Access access) {
    return {allocation.get(), range, access, -1};
  }
  // The range counts from the start of what the slot is bound to.
  static Binding of_slot(uint32_t slot, ByteRange range, Access access) {
    return {nullptr, range, access, static_cast<int32_t>(std::min<uint32_t>(slot, kMaxSlots))};
  }
};

// Parameter bytes: given now and copied into the list, or taken from each replay's parameters.
struct Parameters {
  std::span<const std::byte> bytes;
  bool from_replay = false;
  ByteRange replay_range;

  Parameters() = default;
  Parameters(std::span<const std::byte> now) : bytes(now) {}
  static Parameters of_replay(ByteRange range) {
    Parameters p;
    p.from_replay = true;
    p.replay_range = range;
    return p;
  }
  // The object representation of a plain value, which only has to outlive the call.
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  static Parameters of(const T& value) {
    return {std::as_bytes(std::span(&value, 1))};
  }
};

enum class CommandKind : uint8_t { dispatch, copy, fill, barrier, native, birth, death };
const char* to_string(CommandKind kind);

// A recorded binding. The pointer is kept alive by the list's Holds; it is null for a slot.
struct BoundRange {
  Allocation* allocation = nullptr;
  ResourceId id;
  ByteRange range;
  int32_t slot = -1;
  Access access = Access::read;
};

// What a mark tells of: the Allocation that begins or ends, and its buffer and range.
struct Mark {
  ResourceId allocation;
  BufferId buffer;
  ByteRange range;
};

// One recorded command: plain data, followed in the list by its bindings, its parameters and its
// label. Marks (birth, death) order nothing and touch nothing; they tell wrapping devices about
// lives, and have a Mark as their parameters. Those of a command that takes a replay's are the
// range of these.
struct Command {
  CommandKind kind = CommandKind::barrier;
  std::byte fill_value{};
  bool parameters_from_replay = false;
  uint16_t binding_count = 0;
  uint16_t label_bytes = 0;
  uint32_t record_bytes = 0;
  uint32_t parameter_bytes = 0;  // stored in the record
  uint32_t native_index = 0;
  Groups groups;
  Pipeline* pipeline = nullptr;  // kept alive by the Holds
  ResourceId pipeline_id;        // for code that must not trust the pointer
  // Replaces the parameters in the record. Null except with ablations; always a member, so that the
  // layout is the same without them.
  const std::byte* shared_parameters = nullptr;

  bool is_mark() const noexcept { return kind == CommandKind::birth || kind == CommandKind::death; }
  // Whether it is a dispatch without groups, or a copy or fill without bytes.
  bool is_idle() const noexcept {
    switch (kind) {
      case CommandKind::dispatch: return groups.x == 0 || groups.y == 0 || groups.z == 0;
      case CommandKind::copy:
      case CommandKind::fill: return !bindings()[0].range.length;
      default: return false;
    }
  }
  // copy: source, then destination.
  std::span<const BoundRange> bindings() const noexcept {
    return {reinterpret_cast<const BoundRange*>(this + 1), binding_count};
  }
  std::span<const std::byte> parameters() const noexcept {
    if (shared_parameters != nullptr) return {shared_parameters, parameter_bytes};
    return {after_bindings(), parameter_bytes};
  }
  // Only of a mark.
  Mark mark() const noexcept { return recorded_as<Mark>(); }
  // Only with parameters_from_replay: of these.
  ByteRange replay_parameters() const noexcept { return recorded_as<ByteRange>(); }
  std::string_view label() const noexcept {
    return {reinterpret_cast<const char*>(after_bindings() + parameter_bytes), label_bytes};
  }

 private:
  template <typename T>
  T recorded_as() const noexcept {
    T copy;
    std::memcpy(&copy, after_bindings(), sizeof copy);
    return copy;
  }
  const std::byte* after_bindings() const noexcept {
    return reinterpret_cast<const std::byte*>(this + 1) + binding_count * sizeof(BoundRange);
  }
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
