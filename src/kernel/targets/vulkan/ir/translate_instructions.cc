#include <fmt/format.h>

#include <spirv/unified1/GLSL.std.450.h>
#include <array>
#include <bit>
#include <span>

#include "holdfast/kernel/targets/vulkan/ir/translator.h"

namespace holdfast::kernel::ir {
namespace {

bool is_signed(Opcode op) { return op == Opcode::sdiv || op == Opcode::srem || op == Opcode::ashr; }

// Of a vector its elements', else itself.
const Type& scalar_in(const Type& type) { return type.is(TypeKind::vector) ? *type.element : type; }

}  // namespace

Translator::Id Translator::cut(const Type& type, Id id) {
  if (!has_odd_width(type)) return id;
  return make(spv::Op::OpBitwiseAnd, type_of(type), {id, number(type, bit_mask(type.bits))});
}

Translator::Id Translator::as_signed(const Type& type, Id id) {
  if (!has_odd_width(type)) return id;
  const Id by = spirv_.u32(container(type.bits) - type.bits);
  const Id high = make(spv::Op::OpShiftLeftLogical, type_of(type), {id, by});
  return make(spv::Op::OpShiftRightArithmetic, type_of(type), {high, by});
}

Translator::Id Translator::convert(Id id, uint32_t from, uint32_t to, bool with_sign) {
  if (from == to) return id;
  return make(with_sign ? spv::Op::OpSConvert : spv::Op::OpUConvert, spirv_.integer(to), {id});
}

void Translator::instruction(const Value& value) {
  switch (value.op) {
    case Opcode::alloca: {
      const auto it = offsets_.find(&value);
      const Region* region = memory_.region_of(&value);
      define(value, spirv_.u32(static_cast<uint32_t>(it->second / region->unit)));
      return;
    }
    case Opcode::load: return load(value);
    case Opcode::store: return store(value);
    case Opcode::gep: return gep(value);
    case Opcode::call: return call(value);
    case Opcode::ptrtoint:
    case Opcode::inttoptr: return cast_pointer(value);
    case Opcode::bitcast: return bitcast(value);
    case Opcode::freeze: return define(value, use(value.operands[0]));
    case Opcode::extractelement:
    case Opcode::insertelement:
    case Opcode::shufflevector:
    case Opcode::extractvalue:
    case Opcode::insertvalue: return element(value);
    case Opcode::icmp:
      if (value.operands[0]->type->is(TypeKind::pointer)) {
        return compare_pointers(value);
      }
      return each_part(value);
    case Opcode::select:
      if (value.type->is(TypeKind::pointer)) {
        const Region* region = memory_.region_of(&value);
        define(value, make(spv::Op::OpSelect, spirv_.integer(is_wide(region) ? 64 : 32),
                           {use_one(value.operands[0]), use_pointer(value.operands[1], region),
                            use_pointer(value.operands[2], region)}));
        return;
      }
      return each_part(value);
    default: return each_part(value);
  }
}

// What is done to each number of a vector, or to the one that there is.
void Translator::each_part(const Value& value) {
  std::vector<Parts> operands;
  for (const Value* operand : value.operands) operands.push_back(use(operand));
  const Type& to = scalar_in(*value.type);
  const Type& from = scalar_in(*value.operands[value.op == Opcode::select ? 1 : 0]->type);
  const size_t count = value.is(Opcode::select) ? operands[1].size() : operands[0].size();
  const auto part = [&](size_t operand, size_t i) {
    const Parts& all = operands[operand];
    if (all.size() != count && all.size() != 1) refuse("it has operands of two lengths");
    return all.size() == 1 ? all[0] : all[i];
  };
  std::vector<const Type*> types;
  add_scalars(*value.type, types);
  Parts parts;
  for (size_t i = 0; i < count; ++i) {
    switch (value.op) {
      case Opcode::fneg:
        parts.push_back(make(spv::Op::OpFNegate, type_of(to), {part(0, i)}));
        break;
      case Opcode::icmp:
        parts.push_back(compare_integers(value.predicate, from, part(0, i), part(1, i)));
        break;
      case Opcode::fcmp:
        parts.push_back(compare_floats(value.predicate, from, part(0, i), part(1, i)));
        break;
      case Opcode::select:
        parts.push_back(
            make(spv::Op::OpSelect, type_of(*types[i]), {part(0, i), part(1, i), part(2, i)}));
        break;
      case Opcode::trunc:
      case Opcode::zext:
      case Opcode::sext:
      case Opcode::fptrunc:
      case Opcode::fpext:
      case Opcode::fptoui:
      case Opcode::fptosi:
      case Opcode::uitofp:
      case Opcode::sitofp: parts.push_back(cast(value, from, to, part(0, i))); break;
      default: {
        const Id fused = value.is(Opcode::fadd) || value.is(Opcode::fsub)
                             ? fused_sum(value, to, part(0, i), part(1, i), i)
                             : 0;
        parts.push_back(fused != 0 ? fused : binary(value, to, part(0, i), part(1, i)));
      }
    }
  }
  define(value, std::move(parts));
}

Translator::Id Translator::binary_of_truths(Opcode op, Id a, Id b) {
  const Id truth = spirv_.boolean();
  switch (op) {
    case Opcode::bit_and:
    case Opcode::mul: return make(spv::Op::OpLogicalAnd, truth, {a, b});
    case Opcode::bit_or: return make(spv::Op::OpLogicalOr, truth, {a, b});
    case Opcode::bit_xor:
    case Opcode::add:
    case Opcode::sub: return make(spv::Op::OpLogicalNotEqual, truth, {a, b});
    // Divided by one, or shifted by nothing: anything else is undefined.
    default: return a;
  }
}

Translator::Id Translator::binary(const Value& value, const Type& type, Id a, Id b) {
  if (type.is_integer(1)) return binary_of_truths(value.op, a, b);
  if (has_odd_width(type) && is_signed(value.op)) {
    a = as_signed(type, a);
    if (value.op != Opcode::ashr) b = as_signed(type, b);
  }
  spv::Op op = spv::Op::OpNop;
  switch (value.op) {
    case Opcode::add: op = spv::Op::OpIAdd; break;
    case Opcode::sub: op = spv::Op::OpISub; break;
    case Opcode::mul: op = spv::Op::OpIMul; break;
    case Opcode::udiv: op = spv::Op::OpUDiv; break;
    case Opcode::sdiv: op = spv::Op::OpSDiv; break;
    case Opcode::urem: op = spv::Op::OpUMod; break;
    case Opcode::srem: {
      // Vulkan's own remainder is undefined where an operand is negative.
      const Id quotient = make(spv::Op::OpSDiv, type_of(type), {a, b});
      const Id whole = make(spv::Op::OpIMul, type_of(type), {quotient, b});
      return cut(type, make(spv::Op::OpISub, type_of(type), {a, whole}));
    }
    case Opcode::shl: op = spv::Op::OpShiftLeftLogical; break;
    case Opcode::lshr: op = spv::Op::OpShiftRightLogical; break;
    case Opcode::ashr: op = spv::Op::OpShiftRightArithmetic; break;
    case Opcode::bit_and: op = spv::Op::OpBitwiseAnd; break;
    case Opcode::bit_or: op = spv::Op::OpBitwiseOr; break;
    case Opcode::bit_xor: op = spv::Op::OpBitwiseXor; break;
    case Opcode::fadd: op = spv::Op::OpFAdd; break;
    case Opcode::fsub: op = spv::Op::OpFSub; break;
    case Opcode::fmul: op = spv::Op::OpFMul; break;
    case Opcode::fdiv: return quotient(type, a, b);
    case Opcode::frem: op = spv::Op::OpFRem; break;
    default: refuse("it has an instruction that is not known");
  }
  const Id made = make(op, type_of(type), {a, b});
  if (type.is(TypeKind::floating)) keep_apart(made);
  return cut(type, made);
}

// Without this a driver may regroup sums, as NVIDIA's does, and not only fuse them.
void Translator::keep_apart(Id id) {
  if (!options_.fast) spirv_.decorate(id, spv::Decoration::NoContraction);
}

bool Translator::can_fuse(const Type& type) const {
  return options_.contracts && !options_.fast && (type.bits == 32 || type.bits == 64);
}

Translator::Id Translator::fused(const Type& type, Id a, Id b, Id c) {
  const Id made = glsl(GLSLstd450Fma, type_of(type), {a, b, c});
  keep_apart(made);
  return made;
}

// A sum one of whose terms is a product, as one operation; 0: it is none. The product, if nothing
// else needs it, is left for the driver to remove.
Translator::Id Translator::fused_sum(const Value& sum, const Type& type, Id left, Id right,
                                     size_t part) {
  if (!can_fuse(type)) return 0;
  for (const size_t at : {size_t{0}, size_t{1}}) {
    const Value* product = sum.operands[at];
    if (!product->is(Opcode::fmul) || product->kind != ValueKind::instruction) continue;
    const auto made_in = scope_of_.find(product);
    if (made_in == scope_of_.end() || made_in->second != scope_ || product->parent != sum.parent) {
      continue;
    }
    const auto factor = [&](size_t i) {
      const Parts all = use(product->operands[i]);
      return all.size() == 1 ? all[0] : all.at(part);
    };
    const auto opposite = [&](Id id) { return make(spv::Op::OpFNegate, type_of(type), {id}); };
    const bool minus = sum.is(Opcode::fsub);
    const Id a = minus && at == 1 ? opposite(factor(0)) : factor(0);
    const Id other = at == 1 ? left : minus ? opposite(right) : right;
    return fused(type, a, factor(1), other);
  }
  return 0;
}

Translator::Id Translator::compare_integers(Predicate predicate, const Type& type, Id a, Id b) {
  const Id truth = spirv_.boolean();
  if (type.is_integer(1)) {
    if (predicate == Predicate::eq) return make(spv::Op::OpLogicalEqual, truth, {a, b});
    if (predicate == Predicate::ne) return make(spv::Op::OpLogicalNotEqual, truth, {a, b});
    const Type& word = *module_.integer(32);
    // As one bit with a sign, true is -1.
    const bool with_sign = predicate >= Predicate::sgt && predicate <= Predicate::sle;
    const Id one = number(word, with_sign ? ~uint32_t{0} : 1);
    a = make(spv::Op::OpSelect, type_of(word), {a, one, number(word, 0)});
    b = make(spv::Op::OpSelect, type_of(word), {b, one, number(word, 0)});
    return compare_integers(predicate, word, a, b);
  }
  spv::Op op = spv::Op::OpIEqual;
  switch (predicate) {
    case Predicate::eq: break;
    case Predicate::ne: op = spv::Op::OpINotEqual; break;
    case Predicate::ugt: op = spv::Op::OpUGreaterThan; break;
    case Predicate::uge: op = spv::Op::OpUGreaterThanEqual; break;
    case Predicate::ult: op = spv::Op::OpULessThan; break;
    case Predicate::ule: op = spv::Op::OpULessThanEqual; break;
    case Predicate::sgt: op = spv::Op::OpSGreaterThan; break;
    case Predicate::sge: op = spv::Op::OpSGreaterThanEqual; break;
    case Predicate::slt: op = spv::Op::OpSLessThan; break;
    case Predicate::sle: op = spv::Op::OpSLessThanEqual; break;
    default: refuse("it has a comparison that is not known");
  }
  if (predicate >= Predicate::sgt && predicate <= Predicate::sle) {
    a = as_signed(type, a);
    b = as_signed(type, b);
  }
  return make(op, truth, {a, b});
}

// By its bits: drivers that take numbers for finite fold what asks for NaN.
Translator::Id Translator::is_nan(const Type& type, Id value) {
  if (options_.fast) return make(spv::Op::OpIsNan, spirv_.boolean(), {value});
  const uint64_t infinity = type.bits == 16   ? 0x7c00
                            : type.bits == 32 ? 0x7f800000
                                              : 0x7ff0000000000000;
  const Type& bits = *module_.integer(type.bits);
  const Id magnitude = make(spv::Op::OpBitwiseAnd, type_of(bits),
                            {to_bits(value, type), number(bits, bit_mask(type.bits - 1))});
  return make(spv::Op::OpUGreaterThan, spirv_.boolean(), {magnitude, number(bits, infinity)});
}

Translator::Id Translator::compare_floats(Predicate predicate, const Type& type, Id a, Id b) {
  const Id truth = spirv_.boolean();
  switch (predicate) {
    case Predicate::always: return spirv_.truth(true);
    case Predicate::never: return spirv_.truth(false);
    case Predicate::uno:
    case Predicate::ord: {
      Id any = is_nan(type, a);
      if (a != b) any = make(spv::Op::OpLogicalOr, truth, {any, is_nan(type, b)});
      return predicate == Predicate::uno ? any : make(spv::Op::OpLogicalNot, truth, {any});
    }
    case Predicate::oeq: return make(spv::Op::OpFOrdEqual, truth, {a, b});
    case Predicate::one: return make(spv::Op::OpFOrdNotEqual, truth, {a, b});
    case Predicate::ogt: return make(spv::Op::OpFOrdGreaterThan, truth, {a, b});
    case Predicate::oge: return make(spv::Op::OpFOrdGreaterThanEqual, truth, {a, b});
    case Predicate::olt: return make(spv::Op::OpFOrdLessThan, truth, {a, b});
    case Predicate::ole: return make(spv::Op::OpFOrdLessThanEqual, truth, {a, b});
    case Predicate::ueq: return make(spv::Op::OpFUnordEqual, truth, {a, b});
    case Predicate::une: return make(spv::Op::OpFUnordNotEqual, truth, {a, b});
    case Predicate::ugt: return make(spv::Op::OpFUnordGreaterThan, truth, {a, b});
    case Predicate::uge: return make(spv::Op::OpFUnordGreaterThanEqual, truth, {a, b});
    case Predicate::ult: return make(spv::Op::OpFUnordLessThan, truth, {a, b});
    case Predicate::ule: return make(spv::Op::OpFUnordLessThanEqual, truth, {a, b});
    default: refuse("it has a comparison that is not known");
  }
}

Translator::Id Translator::cast(const Value& value, const Type& from, const Type& to, Id id) {
  const uint32_t width = from.is(TypeKind::integer) ? container(from.bits) : from.bits;
  const uint32_t wanted = to.is(TypeKind::integer) ? container(to.bits) : to.bits;
  const Id type = type_of(to);
  const auto chosen = [&](uint64_t yes) {
    return make(spv::Op::OpSelect, type, {id, number(to, yes), number(to, 0)});
  };
  switch (value.op) {
    case Opcode::trunc:
      if (to.bits == 1) {
        const Id low = make(spv::Op::OpBitwiseAnd, type_of(from), {id, number(from, 1)});
        return make(spv::Op::OpINotEqual, spirv_.boolean(), {low, number(from, 0)});
      }
      return cut(to, convert(id, width, wanted, false));
    case Opcode::zext: return from.bits == 1 ? chosen(1) : convert(id, width, wanted, false);
    case Opcode::sext:
      if (from.bits == 1) return chosen(bit_mask(to.bits));
      return cut(to, convert(as_signed(from, id), width, wanted, true));
    case Opcode::fptrunc:
      if (from.bits == 64 && to.bits == 16) id = rounded_to_odd(id);
      [[fallthrough]];
    case Opcode::fpext: return make(spv::Op::OpFConvert, type, {id});
    case Opcode::fptoui:
    case Opcode::fptosi: {
      const bool with_sign = value.op == Opcode::fptosi;
      // Few devices convert to integers of less than 32 bits.
      const uint32_t between = wanted < 32 ? 32 : wanted;
      const Id whole = make(with_sign ? spv::Op::OpConvertFToS : spv::Op::OpConvertFToU,
                            spirv_.integer(between), {id});
      if (to.bits == 1) {
        return make(spv::Op::OpINotEqual, spirv_.boolean(), {whole, spirv_.u32(0)});
      }
      return cut(to, convert(whole, between, wanted, false));
    }
    case Opcode::uitofp:
    case Opcode::sitofp: {
      const bool with_sign = value.op == Opcode::sitofp;
      if (from.bits == 1) {
        const double one = with_sign ? -1.0 : 1.0;
        return make(spv::Op::OpSelect, type, {id, float_number(to, one), float_number(to, 0)});
      }
      if (with_sign) id = as_signed(from, id);
      const uint32_t between = width < 32 ? 32 : width;
      id = convert(id, width, between, with_sign);
      return make(with_sign ? spv::Op::OpConvertSToF : spv::Op::OpConvertUToF, type, {id});
    }
    default: refuse("it has a conversion that is not known");
  }
}

// Drivers go from double to half through float, and round twice. With a last bit that says whether
// anything was lost, the second rounding is the only one.
Translator::Id Translator::rounded_to_odd(Id value) {
  const Id single = spirv_.floating(32), wide = spirv_.floating(64);
  const Id word = spirv_.integer(32);
  const Id truth = spirv_.boolean();
  const auto size = [&](Id v) { return glsl(GLSLstd450FAbs, wide, {v}); };
  const Id near = make(spv::Op::OpFConvert, single, {value});
  const Id back = make(spv::Op::OpFConvert, wide, {near});
  const Id bits = make(spv::Op::OpBitcast, word, {near});
  const Id above = make(spv::Op::OpFOrdGreaterThan, truth, {size(back), size(value)});
  const Id below = make(spv::Op::OpFOrdLessThan, truth, {size(back), size(value)});
  const Id less = make(spv::Op::OpISub, word, {bits, spirv_.u32(1)});
  const Id cut_off = make(spv::Op::OpSelect, word, {above, less, bits});
  const Id odd = make(spv::Op::OpBitwiseOr, word, {cut_off, spirv_.u32(1)});
  const Id lost = make(spv::Op::OpLogicalOr, truth, {above, below});
  return make(spv::Op::OpBitcast, single, {make(spv::Op::OpSelect, word, {lost, odd, bits})});
}

void Translator::compare_pointers(const Value& value) {
  const Value* a = value.operands[0];
  const Value* b = value.operands[1];
  const auto is_null = [](const Value* v) {
    return v->kind == ValueKind::zero || v->kind == ValueKind::undefined;
  };
  const Region* of_a = memory_.region_of(is_null(a) ? b : a);
  const Region* of_b = memory_.region_of(is_null(b) ? a : b);
  Id first = use_pointer(a, of_a);
  Id second = use_pointer(b, of_b);
  const bool same = of_a == of_b;
  const auto is_mixed = [](const Region* r) {
    return r != nullptr && r->storage == Storage::mixed;
  };
  if (!same && !is_mixed(of_a) && !is_mixed(of_b)) {
    // Pointers into two variables are never equal; which is smaller, nobody can say.
    return define(value, spirv_.truth(value.predicate == Predicate::ne));
  }
  if (!same) {
    first = as_mixed(first, of_a);
    second = as_mixed(second, of_b);
  }
  const Type& type = *module_.integer(!same || is_wide(of_a) ? 64 : 32);
  define(value, compare_integers(value.predicate, type, first, second));
}

void Translator::cast_pointer(const Value& value) {
  const bool to_integer = value.op == Opcode::ptrtoint;
  const Value* operand = value.operands[0];
  const Region* region = memory_.region_of(to_integer ? operand : &value);
  const bool device = is_wide(region);
  if (to_integer) {
    Id id = use_pointer(operand, region);
    if (!device) {
      id = convert(id, 32, 64, false);
      id = make(spv::Op::OpIMul, spirv_.integer(64), {id, spirv_.u64(region->unit)});
    }
    define(value, cut(*value.type, convert(id, 64, container(value.type->bits), false)));
    return;
  }
  Id id = convert(use_one(operand), container(operand->type->bits), 64, false);
  if (!device) {
    id = convert(id, 64, 32, false);
    const auto shift = static_cast<uint32_t>(std::countr_zero(region->unit));
    if (shift > 0) {
      id = make(spv::Op::OpShiftRightLogical, spirv_.integer(32), {id, spirv_.u32(shift)});
    }
  }
  define(value, id);
}

void Translator::bitcast(const Value& value) {
  const Value* operand = value.operands[0];
  if (value.type->is(TypeKind::pointer)) {
    define(value, use_pointer(operand, memory_.region_of(&value)));
    return;
  }
  const Type& from = scalar_in(*operand->type);
  const Type& to = scalar_in(*value.type);
  const Parts parts = use(operand);
  if (&from == &to) return define(value, parts);
  if (from.is_integer(1) && value.type->is(TypeKind::integer) && value.type->bits <= 64) {
    const Id type = type_of(to);
    Id all = number(to, 0);
    for (size_t i = 0; i < parts.size(); ++i) {
      const Id bit =
          make(spv::Op::OpSelect, type, {parts[i], number(to, uint64_t{1} << i), number(to, 0)});
      all = make(spv::Op::OpBitwiseOr, type, {all, bit});
    }
    return define(value, all);
  }
  if (to.is_integer(1) && operand->type->is(TypeKind::integer) && operand->type->bits <= 64) {
    Parts truths;
    for (uint64_t i = 0; i < value.type->count; ++i) {
      const Id bit =
          make(spv::Op::OpBitwiseAnd, type_of(from), {parts[0], number(from, uint64_t{1} << i)});
      truths.push_back(make(spv::Op::OpINotEqual, spirv_.boolean(), {bit, number(from, 0)}));
    }
    return define(value, std::move(truths));
  }
  if (from.is_integer(1) || to.is_integer(1) || has_odd_width(from) || has_odd_width(to)) {
    refuse("it takes the bits of a vector of truths");
  }
  const auto width = static_cast<uint32_t>(size_of(from) * 8);
  const auto wanted = static_cast<uint32_t>(size_of(to) * 8);
  Parts bits;
  for (const Id part : parts) bits.push_back(to_bits(part, from));
  Parts result;
  if (width >= wanted) {
    for (const Id part : bits) {
      for (uint32_t at = 0; at < width; at += wanted) {
        Id piece = part;
        if (at > 0) {
          piece = make(spv::Op::OpShiftRightLogical, spirv_.integer(width), {part, spirv_.u32(at)});
        }
        result.push_back(from_bits(convert(piece, width, wanted, false), to));
      }
    }
  } else {
    const uint32_t pieces = wanted / width;
    if (bits.size() % pieces != 0) refuse("it takes the bits of a vector of another size");
    for (size_t i = 0; i < bits.size(); i += pieces) {
      Id whole = convert(bits[i], width, wanted, false);
      for (uint32_t k = 1; k < pieces; ++k) {
        const Id piece = make(spv::Op::OpShiftLeftLogical, spirv_.integer(wanted),
                              {convert(bits[i + k], width, wanted, false), spirv_.u32(k * width)});
        whole = make(spv::Op::OpBitwiseOr, spirv_.integer(wanted), {whole, piece});
      }
      result.push_back(from_bits(whole, to));
    }
  }
  define(value, std::move(result));
}

void Translator::element(const Value& value) {
  Parts parts = use(value.operands[0]);
  const auto part_of = [&](const Type& whole, std::span<const uint32_t> path) {
    size_t at = 0;
    const Type* type = &whole;
    for (const uint32_t index : path) {
      std::vector<const Type*> before;
      for (uint32_t i = 0; i < index; ++i) {
        add_scalars(type->is(TypeKind::structure) ? *type->fields[i] : *type->element, before);
      }
      at += before.size();
      type = type->is(TypeKind::structure) ? type->fields[index] : type->element;
    }
    std::vector<const Type*> own;
    add_scalars(*type, own);
    return std::pair{at, own.size()};
  };
  switch (value.op) {
    case Opcode::extractvalue: {
      const auto [at, count] = part_of(*value.operands[0]->type, value.indices);
      const auto begin = parts.begin() + static_cast<ptrdiff_t>(at);
      return define(value, Parts(begin, begin + static_cast<ptrdiff_t>(count)));
    }
    case Opcode::insertvalue: {
      if (value.operands[1]->type->is(TypeKind::pointer) &&
          !is_device(memory_.region_of(value.operands[1]))) {
        refuse(std::string(kPointerInValue));
      }
      const auto [at, count] = part_of(*value.type, value.indices);
      const Parts inserted = use(value.operands[1]);
      for (size_t i = 0; i < count; ++i) parts[at + i] = inserted[i];
      return define(value, std::move(parts));
    }
    case Opcode::shufflevector: {
      const Parts second = use(value.operands[1]);
      Parts result;
      for (const uint32_t index : value.indices) {
        result.push_back(index == kAnyElement   ? parts[0]
                         : index < parts.size() ? parts[index]
                                                : second[index - parts.size()]);
      }
      return define(value, std::move(result));
    }
    default: break;
  }
  const bool inserts = value.op == Opcode::insertelement;
  const Value* index = value.operands[inserts ? 2 : 1];
  const Id inserted = inserts ? use_one(value.operands[1]) : 0;
  const Type& type = *value.operands[0]->type->element;
  if (index->is_constant()) {
    const uint64_t at = index->kind == ValueKind::number ? index->bits : 0;
    if (at >= parts.size()) return define(value, inserts ? parts : Parts{parts[0]});
    if (!inserts) return define(value, parts[at]);
    parts[at] = inserted;
    return define(value, std::move(parts));
  }
  // One question for each element.
  const Id at = use_one(index);
  Id found = parts[0];
  for (size_t i = 0; i < parts.size(); ++i) {
    const Id here = make(spv::Op::OpIEqual, spirv_.boolean(), {at, number(*index->type, i)});
    if (inserts) {
      parts[i] = make(spv::Op::OpSelect, type_of(type), {here, inserted, parts[i]});
    } else {
      found = make(spv::Op::OpSelect, type_of(type), {here, parts[i], found});
    }
  }
  if (inserts) return define(value, std::move(parts));
  define(value, found);
}

}  // namespace holdfast::kernel::ir
