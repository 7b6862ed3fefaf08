#include "holdfast/kernel/targets/vulkan/ir/exchanged.h"

#include <algorithm>

#include "holdfast/kernel/targets/vulkan/ir/memory.h"

namespace holdfast::kernel::ir {

Exchanged::Exchanged(const Function& function) {
  const auto all = [&](const auto& with) {
    for (const Block* block : function.blocks) {
      for (const Value* value : block->instructions) with(*value);
    }
  };
  bool orders = false;
  all([&](const Value& value) {
    if (!value.is(Opcode::call)) return;
    orders |= value.callee == "hf_spirv_barrier" || value.callee == "hf_spirv_publish" ||
              value.callee == "hf_spirv_simd_barrier";
    across_groups_ |= value.callee == "hf_spirv_fence";
  });
  if (!orders && !across_groups_) return;
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    origins_[function.arguments[i]] = Origins{1} << std::min<size_t>(i, 63);
  }
  for (bool changed = true; changed;) {
    changed = false;
    all([&](const Value& value) {
      const Origins now = made_of(value);
      if (now == 0) return;
      Origins& known = origins_[&value];
      changed |= (known | now) != known;
      known |= now;
    });
  }
  Origins read = 0;
  Origins written = 0;
  all([&](const Value& value) {
    if (value.is(Opcode::load)) read |= origins_of(value.operands.at(0));
    if (value.is(Opcode::store)) written |= origins_of(value.operands.at(1));
    if (!value.is(Opcode::call)) return;
    if (copies_memory(value)) read |= origins_of(value.operands.at(1));
    if (copies_memory(value) || fills_memory(value)) written |= origins_of(value.operands.at(0));
    if (!value.callee.starts_with("hf_spirv_atomic_") || value.operands.empty()) return;
    read |= origins_of(value.operands.at(0));
    written |= origins_of(value.operands.at(0));
  });
  exchanged_ = read & written;
}

Exchanged::Origins Exchanged::origins_of(const Value* value) const {
  // Addresses that are constant are computed where they are used.
  if (value->kind == ValueKind::instruction || value->kind == ValueKind::argument) {
    const auto it = origins_.find(value);
    return it == origins_.end() ? 0 : it->second;
  }
  return 0;
}

Exchanged::Origins Exchanged::made_of(const Value& value) const {
  const bool pointer = value.type->is(TypeKind::pointer);
  switch (value.op) {
    case Opcode::load:
    case Opcode::call: return pointer ? kAny : 0;  // kept in memory
    case Opcode::store:
    case Opcode::icmp:
    case Opcode::fcmp:
    case Opcode::alloca: return 0;
    default: break;
  }
  Origins made = 0;
  for (const Value* operand : value.operands) made |= origins_of(operand);
  // A number that is none of the addresses known here may be any.
  return made == 0 && value.is(Opcode::inttoptr) ? kAny : made;
}

}  // namespace holdfast::kernel::ir
