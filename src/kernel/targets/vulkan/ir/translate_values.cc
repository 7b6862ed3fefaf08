#include <fmt/format.h>

#include "holdfast/kernel/targets/vulkan/ir/translator.h"

namespace holdfast::kernel::ir {
namespace {

constexpr size_t kMostScalars = 4096;

}  // namespace

// The least width of an integer that SPIR-V has.
uint32_t Translator::container(uint32_t bits) {
  return bits <= 8 ? 8 : bits <= 16 ? 16 : bits <= 32 ? 32 : 64;
}

void Translator::add_scalars(const Type& type, std::vector<const Type*>& into) {
  if (into.size() > kMostScalars || type.count > kMostScalars) {
    throw Refused{"it takes a large array or structure as one value"};
  }
  switch (type.kind) {
    case TypeKind::nothing: break;
    case TypeKind::vector:
    case TypeKind::array:
      for (uint64_t i = 0; i < type.count; ++i) add_scalars(*type.element, into);
      break;
    case TypeKind::structure:
      for (const Type* field : type.fields) add_scalars(*field, into);
      break;
    default: into.push_back(&type);
  }
}

std::vector<Translator::Scalar> Translator::scalars_of(const Value& value) const {
  std::vector<const Type*> types;
  add_scalars(*value.type, types);
  std::vector<Scalar> result;
  for (const Type* type : types) {
    // Pointers in structures and vectors are device pointers: see load().
    const bool whole = value.type->is(TypeKind::pointer);
    result.push_back({type, whole ? memory_.region_of(&value) : nullptr});
  }
  return result;
}

Translator::Id Translator::type_of(const Scalar& scalar) {
  switch (scalar.type->kind) {
    case TypeKind::integer:
      if (scalar.type->bits == 1) return spirv_.boolean();
      if (scalar.type->bits > 64) {
        refuse(fmt::format("it needs an integer of {} bits, and Vulkan has none of more than 64",
                           scalar.type->bits));
      }
      return spirv_.integer(container(scalar.type->bits));
    case TypeKind::floating: return spirv_.floating(scalar.type->bits);
    case TypeKind::pointer: return spirv_.integer(is_wide(scalar.region) ? 64 : 32);
    default: break;
  }
  refuse("it needs a value of a type that Vulkan has not");
}

Translator::Id Translator::make(spv::Op op, Id type, std::initializer_list<Id> operands) {
  const Id made = spirv_.id();
  std::vector<uint32_t> words{type, made};
  words.insert(words.end(), operands.begin(), operands.end());
  SpirvBuilder::put(code_, op, words);
  return made;
}

Translator::Id Translator::glsl(uint32_t function, Id type, std::initializer_list<Id> operands) {
  const Id made = spirv_.id();
  std::vector<uint32_t> words{type, made, spirv_.glsl(), function};
  words.insert(words.end(), operands.begin(), operands.end());
  SpirvBuilder::put(code_, spv::Op::OpExtInst, words);
  return made;
}

Translator::Id Translator::number(const Type& type, uint64_t bits) {
  if (type.is_integer(1)) return spirv_.truth((bits & 1) != 0);
  const uint32_t width = type.is(TypeKind::integer)    ? container(type.bits)
                         : type.is(TypeKind::floating) ? type.bits
                                                       : 64;
  return spirv_.constant(type_of(type), bits, width);
}

Translator::Parts Translator::constant(const Value& value) {
  switch (value.kind) {
    case ValueKind::number: return {number(*value.type, value.bits)};
    case ValueKind::zero:
    case ValueKind::undefined: {
      Parts parts;
      std::vector<const Type*> types;
      add_scalars(*value.type, types);
      for (const Type* type : types) parts.push_back(number(*type, 0));
      return parts;
    }
    case ValueKind::aggregate: {
      Parts parts;
      for (const Value* element : value.operands) {
        const Parts own = use(element);
        parts.insert(parts.end(), own.begin(), own.end());
      }
      return parts;
    }
    case ValueKind::global: {
      const auto it = offsets_.find(&value);
      const Region* region = memory_.region_of(&value);
      if (it == offsets_.end() || region == nullptr) {
        refuse(
            "it uses the address of what Vulkan has none of: a function, or a variable that is "
            "declared elsewhere");
      }
      return {spirv_.u32(static_cast<uint32_t>(it->second / region->unit))};
    }
    case ValueKind::expression:
      // Computed where it is used; compilers after us fold it.
      instruction(value);
      return parts_of_.at(&value);
    default: break;
  }
  refuse("it uses a value that is not there");
}

Translator::Parts Translator::use(const Value* value) {
  if (value->is_constant()) return constant(*value);
  if (crossing_.contains(value) && !is_within(scope_, scope_of_.at(value))) {
    const std::vector<Scalar> scalars = scalars_of(*value);
    std::vector<Id>& variables = variable_of_[value];
    if (variables.empty()) {
      for (const Scalar& scalar : scalars) variables.push_back(local(type_of(scalar)));
    }
    Parts parts;
    for (size_t i = 0; i < scalars.size(); ++i) {
      parts.push_back(make(spv::Op::OpLoad, type_of(scalars[i]), {variables[i]}));
    }
    return parts;
  }
  const auto it = parts_of_.find(value);
  if (it == parts_of_.end()) refuse("it uses a value before it is there");
  return it->second;
}

Translator::Id Translator::use_one(const Value* value) {
  const Parts parts = use(value);
  if (parts.size() != 1) refuse("it uses a vector where a number belongs");
  return parts[0];
}

Translator::Id Translator::use_pointer(const Value* value, const Region* region) {
  if (value->kind == ValueKind::zero || value->kind == ValueKind::undefined) {
    return is_wide(region) ? spirv_.u64(0) : spirv_.u32(region->null);
  }
  const Id own = use_one(value);
  if (region == nullptr || region->storage != Storage::mixed) return own;
  const Region* from = memory_.region_of(value);
  return from == region ? own : as_mixed(own, from);
}

void Translator::define(const Value& value, Parts parts) {
  std::vector<const Type*> types;
  add_scalars(*value.type, types);
  if (parts.size() != types.size()) refuse("it calls a function that gives another type");
  if (crossing_.contains(&value)) {
    std::vector<Id>& variables = variable_of_[&value];
    if (variables.empty()) {
      for (const Scalar& scalar : scalars_of(value)) variables.push_back(local(type_of(scalar)));
    }
    for (size_t i = 0; i < parts.size(); ++i) put(spv::Op::OpStore, {variables[i], parts[i]});
  }
  parts_of_[&value] = std::move(parts);
}

}  // namespace holdfast::kernel::ir
