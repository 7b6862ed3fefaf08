#include <array>

#include <spirv/unified1/GLSL.std.450.h>

#include "holdfast/kernel/targets/vulkan/ir/translator.h"

namespace holdfast::kernel::ir {

Translator::Id Translator::count_bits(const Type& type, Id value) {
  const Id word = spirv_.integer(32);
  const uint32_t width = container(type.bits);
  if (width <= 32) {
    const Id count = make(spv::Op::OpBitCount, word, {convert(value, width, 32, false)});
    return convert(count, 32, width, false);
  }
  const Id low = make(spv::Op::OpBitCount, word, {convert(value, 64, 32, false)});
  const Id above = make(spv::Op::OpShiftRightLogical, spirv_.integer(64), {value, spirv_.u32(32)});
  const Id high = make(spv::Op::OpBitCount, word, {convert(above, 64, 32, false)});
  return convert(make(spv::Op::OpIAdd, word, {low, high}), 32, 64, false);
}

Translator::Id Translator::leading_zeros(const Type& type, Id value) {
  const Id word = spirv_.integer(32);
  const auto of_word = [&](Id v) {  // FindUMsb is -1 for zero
    return make(spv::Op::OpISub, word, {spirv_.u32(31), glsl(GLSLstd450FindUMsb, word, {v})});
  };
  const uint32_t width = container(type.bits);
  if (width <= 32) {
    const Id zeros = of_word(convert(value, width, 32, false));
    const Id own = make(spv::Op::OpISub, word, {zeros, spirv_.u32(32 - type.bits)});
    return convert(own, 32, width, false);
  }
  const Id above = make(spv::Op::OpShiftRightLogical, spirv_.integer(64), {value, spirv_.u32(32)});
  const Id high = convert(above, 64, 32, false);
  const Id low = convert(value, 64, 32, false);
  const Id none = make(spv::Op::OpIEqual, spirv_.boolean(), {high, spirv_.u32(0)});
  const Id further = make(spv::Op::OpIAdd, word, {of_word(low), spirv_.u32(32)});
  const Id zeros = make(spv::Op::OpSelect, word, {none, further, of_word(high)});
  const Id own = make(spv::Op::OpISub, word, {zeros, spirv_.u32(64 - type.bits)});
  return convert(own, 32, 64, false);
}

Translator::Id Translator::trailing_zeros(const Type& type, Id value) {
  const Id word = spirv_.integer(32);
  const uint32_t width = container(type.bits);
  const auto of_word = [&](Id v, uint32_t if_zero) {
    const Id none = make(spv::Op::OpIEqual, spirv_.boolean(), {v, spirv_.u32(0)});
    return make(spv::Op::OpSelect, word,
                {none, spirv_.u32(if_zero), glsl(GLSLstd450FindILsb, word, {v})});
  };
  if (width <= 32) {
    return convert(of_word(convert(value, width, 32, false), type.bits), 32, width, false);
  }
  const Id above = make(spv::Op::OpShiftRightLogical, spirv_.integer(64), {value, spirv_.u32(32)});
  const Id low = convert(value, 64, 32, false);
  const Id none = make(spv::Op::OpIEqual, spirv_.boolean(), {low, spirv_.u32(0)});
  const Id further = make(spv::Op::OpIAdd, word,
                          {of_word(convert(above, 64, 32, false), type.bits - 32), spirv_.u32(32)});
  return convert(make(spv::Op::OpSelect, word, {none, further, of_word(low, 32)}), 32, 64, false);
}

Translator::Id Translator::reversed_bits(const Type& type, Id value) {
  const Id word = spirv_.integer(32);
  const uint32_t width = container(type.bits);
  if (width <= 32) {
    const Id all = make(spv::Op::OpBitReverse, word, {convert(value, width, 32, false)});
    const Id own = make(spv::Op::OpShiftRightLogical, word, {all, spirv_.u32(32 - type.bits)});
    return convert(own, 32, width, false);
  }
  const Id wide = spirv_.integer(64);
  const Id above = make(spv::Op::OpShiftRightLogical, wide, {value, spirv_.u32(32)});
  const Id low = make(spv::Op::OpBitReverse, word, {convert(value, 64, 32, false)});
  const Id high = make(spv::Op::OpBitReverse, word, {convert(above, 64, 32, false)});
  const Id moved =
      make(spv::Op::OpShiftLeftLogical, wide, {convert(low, 32, 64, false), spirv_.u32(32)});
  const Id all = make(spv::Op::OpBitwiseOr, wide, {moved, convert(high, 32, 64, false)});
  if (type.bits == 64) return all;
  return make(spv::Op::OpShiftRightLogical, wide, {all, spirv_.u32(64 - type.bits)});
}

Translator::Id Translator::reversed_bytes(const Type& type, Id value) {
  const Id whole = type_of(type);
  Id result = 0;
  for (uint32_t at = 0; at < type.bits; at += 8) {
    Id byte = make(spv::Op::OpShiftRightLogical, whole, {value, spirv_.u32(at)});
    byte = make(spv::Op::OpBitwiseAnd, whole, {byte, number(type, 0xff)});
    byte = make(spv::Op::OpShiftLeftLogical, whole, {byte, spirv_.u32(type.bits - 8 - at)});
    result = result == 0 ? byte : make(spv::Op::OpBitwiseOr, whole, {result, byte});
  }
  return result;
}

Translator::Id Translator::funnel(const Type& type, Id high, Id low, Id by, bool left) {
  const Id whole = type_of(type);
  const Id width = number(type, type.bits);
  const Id n = make(spv::Op::OpUMod, whole, {by, width});
  const Id rest = make(spv::Op::OpISub, whole, {width, n});
  const Id none = make(spv::Op::OpIEqual, spirv_.boolean(), {n, number(type, 0)});
  const Id up = make(spv::Op::OpShiftLeftLogical, whole, {high, left ? n : rest});
  const Id down = make(spv::Op::OpShiftRightLogical, whole, {low, left ? rest : n});
  const Id both = make(spv::Op::OpBitwiseOr, whole, {up, down});
  return cut(type, make(spv::Op::OpSelect, whole, {none, left ? high : low, both}));
}

bool Translator::call_of_integers(const Value& value, std::string_view name) {
  if (value.operands.empty()) return false;
  const Type& type = *value.operands[0]->type;
  if (!type.is(TypeKind::integer)) return false;
  if (name == "expect" || name == "ssa.copy") {
    define(value, use(value.operands[0]));
    return true;
  }
  const Id a = use_one(value.operands[0]);
  if (name == "ctpop") return define(value, count_bits(type, a)), true;
  if (name == "ctlz") return define(value, leading_zeros(type, a)), true;
  if (name == "cttz") return define(value, trailing_zeros(type, a)), true;
  if (name == "bitreverse") return define(value, reversed_bits(type, a)), true;
  if (name == "bswap") return define(value, reversed_bytes(type, a)), true;
  const Id whole = type_of(type);
  const Id truth = spirv_.boolean();
  if (name == "abs") {
    const Id zero = number(type, 0);
    const Id negative = compare_integers(Predicate::slt, type, a, zero);
    const Id opposite = cut(type, make(spv::Op::OpISub, whole, {zero, a}));
    define(value, make(spv::Op::OpSelect, whole, {negative, opposite, a}));
    return true;
  }
  if (value.operands.size() < 2 || !value.operands[1]->type->is(TypeKind::integer)) return false;
  const Id b = use_one(value.operands[1]);
  constexpr std::array<std::pair<std::string_view, Predicate>, 4> kPicks{
      {{"umin", Predicate::ult},
       {"umax", Predicate::ugt},
       {"smin", Predicate::slt},
       {"smax", Predicate::sgt}}};
  for (const auto& [known, predicate] : kPicks) {
    if (known != name) continue;
    define(value, make(spv::Op::OpSelect, whole, {compare_integers(predicate, type, a, b), a, b}));
    return true;
  }
  if (name == "fshl" || name == "fshr") {
    define(value, funnel(type, a, b, use_one(value.operands.at(2)), name == "fshl"));
    return true;
  }
  if (name == "ucmp" || name == "scmp") {
    const bool with_sign = name == "scmp";
    const Type& to = *value.type;
    const Id less = compare_integers(with_sign ? Predicate::slt : Predicate::ult, type, a, b);
    const Id more = compare_integers(with_sign ? Predicate::sgt : Predicate::ugt, type, a, b);
    const Id up = make(spv::Op::OpSelect, type_of(to), {more, number(to, 1), number(to, 0)});
    define(value, make(spv::Op::OpSelect, type_of(to), {less, number(to, bit_mask(to.bits)), up}));
    return true;
  }
  if (name == "umul.with.overflow" || name == "smul.with.overflow") {
    const bool with_sign = name[0] == 's';
    const Id product = cut(type, make(spv::Op::OpIMul, whole, {a, b}));
    Id over = 0;
    if (type.bits <= 32) {
      const uint32_t width = container(type.bits);
      const Type& wide = *module_.integer(64);
      const auto widened = [&](Id v) {
        return convert(with_sign ? as_signed(type, v) : v, width, 64, with_sign);
      };
      const Id exact = make(spv::Op::OpIMul, type_of(wide), {widened(a), widened(b)});
      over = compare_integers(Predicate::ne, wide, exact, widened(product));
    } else if (with_sign) {
      // Divided again, which must not be by 0, nor the least by -1.
      const Id least = number(type, uint64_t{1} << (type.bits - 1));
      const Id none = compare_integers(Predicate::eq, type, a, number(type, 0));
      const Id opposite =
          compare_integers(Predicate::eq, type, a, number(type, bit_mask(type.bits)));
      const Id easy = make(spv::Op::OpLogicalOr, truth, {none, opposite});
      const Id by = make(spv::Op::OpSelect, whole, {easy, number(type, 1), as_signed(type, a)});
      const Id back = cut(type, make(spv::Op::OpSDiv, whole, {as_signed(type, product), by}));
      const Id lost = compare_integers(Predicate::ne, type, back, b);
      const Id of_opposite = make(spv::Op::OpLogicalAnd, truth,
                                  {opposite, compare_integers(Predicate::eq, type, b, least)});
      over = make(spv::Op::OpLogicalOr, truth,
                  {of_opposite, make(spv::Op::OpLogicalAnd, truth,
                                     {make(spv::Op::OpLogicalNot, truth, {easy}), lost})});
    } else {
      const Id zero = number(type, 0);
      const Id none = compare_integers(Predicate::eq, type, a, zero);
      const Id by = make(spv::Op::OpSelect, whole, {none, number(type, 1), a});
      const Id back = make(spv::Op::OpUDiv, whole, {product, by});
      over = make(spv::Op::OpLogicalAnd, truth,
                  {make(spv::Op::OpLogicalNot, truth, {none}),
                   compare_integers(Predicate::ne, type, back, b)});
    }
    define(value, Parts{product, over});
    return true;
  }
  const bool sum = name.starts_with("uadd.") || name.starts_with("sadd.");
  const bool difference = name.starts_with("usub.") || name.starts_with("ssub.");
  const bool with_sign = name.starts_with("s");
  if (sum || difference) {
    const Id result = cut(type, make(sum ? spv::Op::OpIAdd : spv::Op::OpISub, whole, {a, b}));
    const Id zero = number(type, 0);
    Id over = 0;
    if (!with_sign) {
      over = sum ? compare_integers(Predicate::ult, type, result, a)
                 : compare_integers(Predicate::ult, type, a, b);
    } else {
      // A sum is below a exactly where b is negative, unless it went over; a difference the other
      // way round.
      const Id below = compare_integers(Predicate::slt, type, result, a);
      const Id wanted = compare_integers(sum ? Predicate::slt : Predicate::sgt, type, b, zero);
      over = make(spv::Op::OpLogicalNotEqual, truth, {below, wanted});
    }
    if (name.ends_with(".with.overflow")) {
      define(value, Parts{result, over});
      return true;
    }
    if (!name.ends_with(".sat")) return false;
    Id limit = 0;
    if (!with_sign) {
      limit = number(type, sum ? bit_mask(type.bits) : 0);
    } else {
      const Id low = number(type, uint64_t{1} << (type.bits - 1));
      const Id high = number(type, bit_mask(type.bits - 1));
      limit = make(spv::Op::OpSelect, whole,
                   {compare_integers(Predicate::slt, type, a, zero), low, high});
    }
    define(value, make(spv::Op::OpSelect, whole, {over, limit, result}));
    return true;
  }
  return false;
}

}  // namespace holdfast::kernel::ir
