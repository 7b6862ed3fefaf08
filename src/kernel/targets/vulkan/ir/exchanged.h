#pragma once

#include <cstdint>
#include <unordered_map>

#include "holdfast/kernel/targets/vulkan/ir/ir.h"

namespace holdfast::kernel::ir {

// The arguments of a function through which its threads may pass each other what they write: where
// threads meet at barriers or order accesses by fences, those that it both reads and writes. What
// is written there must not stay where other threads do not see it.
class Exchanged {
 public:
  explicit Exchanged(const Function& function);

  // Whether the pointer may point into the memory of one.
  bool has(const Value* pointer) const { return (origins_of(pointer) & exchanged_) != 0; }
  // Whether fences order accesses, so that other groups may see them: what a barrier orders is seen
  // by the group alone.
  bool across_groups() const { return across_groups_; }

 private:
  // Arguments that a value may have been made of, a bit each; beyond 64 they share the last.
  using Origins = uint64_t;
  static constexpr Origins kAny = ~Origins{0};
  Origins origins_of(const Value* value) const;
  Origins made_of(const Value& value) const;

  std::unordered_map<const Value*, Origins> origins_;
  Origins exchanged_ = 0;
  bool across_groups_ = false;
};

}  // namespace holdfast::kernel::ir
