#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/base/bytes.h"
#include "holdfast/hal/access.h"
#include "holdfast/kernel/definition.h"

namespace holdfast::kernel {

// How a compiled kernel is called: what the generator decided and a launch fills in.

// Binding i of the pipeline.
struct BindingUse {
  ArgumentGroup group = ArgumentGroup::input;
  uint32_t index = 0;  // in its group
  hal::Access access = hal::Access::read;
  friend bool operator==(const BindingUse&, const BindingUse&) = default;
};

enum class FieldKind : uint8_t {
  shape,       // int32 for each dimension of a binding's argument
  strides,     // int64 for each, in elements
  param,       // a param's bytes
  threadgroup  // uint32 for each axis of the call's threadgroup, for the device alone
};
// A part of the parameter bytes, naturally aligned.
struct ParameterField {
  FieldKind kind = FieldKind::param;
  uint32_t index = 0;  // of the binding, or of the param in the signature
  uint32_t count = 1;  // elements: the rank for shape and strides, 3 for threadgroup
  Bytes offset{};
  Bytes size{};  // of all elements
  friend bool operator==(const ParameterField&, const ParameterField&) = default;
};

// What generated kernels find at the start of their parameters; native ones have none.
struct alignas(8) LaunchBlock {
  uint32_t grid[3];              // threads
  uint32_t group[3];             // threads of a whole threadgroup
  uint32_t first_group[3];       // added to the group's position: grids dispatched in parts
  uint32_t groups_per_dispatch;  // threadgroups that one group of the device runs; see Target::cut
  // Where the device's groups are threadgroups: the threads of each that this dispatch starts.
  // Fewer than `group` where none has more.
  uint32_t block[3] = {};
};
static_assert(sizeof(LaunchBlock) == 56);

// Whether threads of a group need each other, and so what runs them.
enum class Cooperation : uint8_t {
  none,     // any order of all threads of the grid will do
  groups,   // the body asks for its place in the threadgroup
  barriers  // barriers or simdgroup operations: threads of a group run in step
};

struct Interface {
  std::vector<BindingUse> bindings{};
  std::vector<ParameterField> fields{};
  Bytes parameter_bytes{};  // the launch block, where there is one, and all fields
  bool has_launch_block = true;
  Cooperation cooperation = Cooperation::none;
  bool binding_lengths = false;  // the code is told how many bytes each binding has
  hal::Groups cluster{};         // a dispatch has a multiple of these groups along each axis
  bool waits_for_grids = false;  // see hal::CudaModule
  bool reports = false;          // the code has memory to which it reports failures
  friend bool operator==(const Interface&, const Interface&) = default;
};

}  // namespace holdfast::kernel
