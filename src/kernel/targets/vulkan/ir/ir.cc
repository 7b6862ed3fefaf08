#include "holdfast/kernel/targets/vulkan/ir/ir.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "holdfast/base/rounding.h"

namespace holdfast::kernel::ir {
namespace {

bool same(const Type& a, const Type& b) {
  return a.kind == b.kind && a.bits == b.bits && a.count == b.count && a.element == b.element &&
         a.fields == b.fields && a.packed == b.packed;
}

// Vectors of three take the room of four; those of bits a byte for eight.
uint64_t vector_bytes(const Type& type) {
  const uint64_t bits = type.element->bits == 0 ? 64 : type.element->bits;
  uint64_t bytes = 1;
  while (bytes * 8 < bits * type.count) bytes *= 2;
  return bytes;
}

uint64_t integer_bytes(uint32_t bits) {
  uint64_t bytes = 1;
  while (bytes * 8 < bits) bytes *= 2;
  return bytes;
}

uint64_t find_alignment(const Type& type) {
  switch (type.kind) {
    case TypeKind::nothing: return 1;
    case TypeKind::integer: return std::min<uint64_t>(integer_bytes(type.bits), 8);
    case TypeKind::floating: return type.bits / 8;
    case TypeKind::pointer: return 8;
    case TypeKind::vector: return vector_bytes(type);
    case TypeKind::array: return align_of(*type.element);
    case TypeKind::structure: break;
  }
  uint64_t most = 1;
  if (type.packed) return most;
  for (const Type* field : type.fields) most = std::max(most, align_of(*field));
  return most;
}

uint64_t find_size(const Type& type) {
  switch (type.kind) {
    case TypeKind::nothing: return 0;
    case TypeKind::integer: return integer_bytes(type.bits);
    case TypeKind::floating: return type.bits / 8;
    case TypeKind::pointer: return 8;
    case TypeKind::vector: return vector_bytes(type);
    case TypeKind::array: return type.count * size_of(*type.element);
    case TypeKind::structure: break;
  }
  if (type.fields.empty()) return 0;
  const size_t last = type.fields.size() - 1;
  return round_up(offset_of(type, last) + size_of(*type.fields[last]), align_of(type));
}

}  // namespace

uint64_t align_of(const Type& type) { return type.alignment; }
uint64_t size_of(const Type& type) { return type.bytes; }

uint64_t offset_of(const Type& structure, size_t field) {
  uint64_t at = 0;
  for (size_t i = 0;; ++i) {
    if (!structure.packed) at = round_up(at, align_of(*structure.fields[i]));
    if (i == field) return at;
    at += size_of(*structure.fields[i]);
  }
}

bool ends_block(Opcode op) noexcept { return op >= Opcode::jump; }

const Type* Module::type(Type wanted) {
  for (const Type& known : types) {
    if (same(known, wanted)) return &known;
  }
  Type& made = types.emplace_back(std::move(wanted));
  made.alignment = find_alignment(made);
  made.bytes = find_size(made);
  return &made;
}

void remove_unreachable(Function& function) {
  std::set<const Block*> reached{function.blocks.front()};
  std::vector<const Block*> open{function.blocks.front()};
  while (!open.empty()) {
    const Block* block = open.back();
    open.pop_back();
    for (const Block* next : block->end()->blocks) {
      if (reached.insert(next).second) open.push_back(next);
    }
  }
  if (reached.size() == function.blocks.size()) return;
  std::erase_if(function.blocks, [&](const Block* block) { return !reached.contains(block); });
  for (Block* block : function.blocks) {
    for (Value* phi : block->instructions) {
      if (!phi->is(Opcode::phi)) break;
      for (size_t i = phi->blocks.size(); i-- > 0;) {
        if (reached.contains(phi->blocks[i])) continue;
        phi->blocks.erase(phi->blocks.begin() + static_cast<ptrdiff_t>(i));
        phi->operands.erase(phi->operands.begin() + static_cast<ptrdiff_t>(i));
      }
    }
  }
}

}  // namespace holdfast::kernel::ir
