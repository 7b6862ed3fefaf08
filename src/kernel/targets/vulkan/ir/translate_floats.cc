#include <fmt/format.h>

#include <spirv/unified1/GLSL.std.450.h>
#include <array>
#include <bit>

#include "holdfast/kernel/float16.h"
#include "holdfast/kernel/targets/vulkan/ir/translator.h"

namespace holdfast::kernel::ir {
namespace {

struct GlslFunction {
  std::string_view name;
  uint32_t function;
  bool doubles;  // whether Vulkan has it for 64 bits
};
constexpr std::array kFunctions{
    GlslFunction{"exp", GLSLstd450Exp, false},
    GlslFunction{"exp2", GLSLstd450Exp2, false},
    GlslFunction{"log", GLSLstd450Log, false},
    GlslFunction{"log2", GLSLstd450Log2, false},
    GlslFunction{"sin", GLSLstd450Sin, false},
    GlslFunction{"cos", GLSLstd450Cos, false},
    GlslFunction{"tan", GLSLstd450Tan, false},
    GlslFunction{"sinh", GLSLstd450Sinh, false},
    GlslFunction{"cosh", GLSLstd450Cosh, false},
    GlslFunction{"tanh", GLSLstd450Tanh, false},
    GlslFunction{"asin", GLSLstd450Asin, false},
    GlslFunction{"acos", GLSLstd450Acos, false},
    GlslFunction{"atan", GLSLstd450Atan, false},
    GlslFunction{"asinh", GLSLstd450Asinh, false},
    GlslFunction{"acosh", GLSLstd450Acosh, false},
    GlslFunction{"atanh", GLSLstd450Atanh, false},
    GlslFunction{"floor", GLSLstd450Floor, true},
    GlslFunction{"ceil", GLSLstd450Ceil, true},
    GlslFunction{"trunc", GLSLstd450Trunc, true},
    GlslFunction{"rint", GLSLstd450RoundEven, true},
    GlslFunction{"nearbyint", GLSLstd450RoundEven, true},
    GlslFunction{"roundeven", GLSLstd450RoundEven, true},
    GlslFunction{"fabs", GLSLstd450FAbs, true},
    GlslFunction{"pow", GLSLstd450Pow, false},
    GlslFunction{"atan2", GLSLstd450Atan2, false},
    GlslFunction{"fma", GLSLstd450Fma, true},
    GlslFunction{"minnum", GLSLstd450NMin, true},
    GlslFunction{"maxnum", GLSLstd450NMax, true},
};

}  // namespace

Translator::Id Translator::float_number(const Type& type, double value) {
  if (type.bits == 64) return number(type, std::bit_cast<uint64_t>(value));
  const auto single = static_cast<float>(value);
  if (type.bits == 32) return number(type, std::bit_cast<uint32_t>(single));
  return number(type, Float16(single).bits);
}

// Exact to half a unit in the last place, which Vulkan does not promise; where the quotient is too
// small to be normal, to a whole one.
Translator::Id Translator::quotient(const Type& type, Id a, Id b) {
  const Id own = type_of(type);
  const auto divided = [&](Id x, Id y) {
    const Id made = make(spv::Op::OpFDiv, own, {x, y});
    keep_apart(made);
    return made;
  };
  if (options_.fast || options_.exact_quotients || type.bits == 64) return divided(a, b);
  if (type.bits == 16) {
    const Type& single = *module_.floating(32);
    const auto widened = [&](Id v) { return make(spv::Op::OpFConvert, type_of(single), {v}); };
    return make(spv::Op::OpFConvert, own, {quotient(single, widened(a), widened(b))});
  }
  // Of numbers from 1 to 2, which the exponents are added to again.
  const Type& bits = *module_.integer(32);
  const Id word = type_of(bits);
  const Id truth = spirv_.boolean();
  const auto exponent = [&](Id v) {
    const Id above = make(spv::Op::OpShiftRightLogical, word, {to_bits(v, type), spirv_.u32(23)});
    return make(spv::Op::OpBitwiseAnd, word, {above, spirv_.u32(0xff)});
  };
  const auto mantissa = [&](Id v) {
    const Id rest = make(spv::Op::OpBitwiseAnd, word, {to_bits(v, type), spirv_.u32(0x807fffff)});
    return from_bits(make(spv::Op::OpBitwiseOr, word, {rest, spirv_.u32(0x3f800000)}), type);
  };
  const Id exponent_a = exponent(a), exponent_b = exponent(b);
  const Id x = mantissa(a), y = mantissa(b);
  const Id minus_y = make(spv::Op::OpFNegate, own, {y});
  Id inverse = divided(float_number(type, 1), y);
  inverse = fused(type, fused(type, minus_y, inverse, float_number(type, 1)), inverse, inverse);
  Id result = make(spv::Op::OpFMul, own, {x, inverse});
  keep_apart(result);
  for (int i = 0; i < 2; ++i) {
    result = fused(type, fused(type, minus_y, result, x), inverse, result);
  }
  // By two powers of two, since one may be out of range.
  const Id power = make(spv::Op::OpISub, word, {exponent_a, exponent_b});
  const Id half = make(spv::Op::OpShiftRightArithmetic, word, {power, spirv_.u32(1)});
  for (const Id part : {half, make(spv::Op::OpISub, word, {power, half})}) {
    const Id biased = make(spv::Op::OpIAdd, word, {part, spirv_.u32(127)});
    const Id factor = make(spv::Op::OpShiftLeftLogical, word, {biased, spirv_.u32(23)});
    result = make(spv::Op::OpFMul, own, {result, from_bits(factor, type)});
    keep_apart(result);
  }
  // Zeros, infinities, what is no number, and what is too small to be normal.
  const auto is_normal = [&](Id of) {
    const Id less = make(spv::Op::OpISub, word, {of, spirv_.u32(1)});
    return make(spv::Op::OpULessThan, truth, {less, spirv_.u32(0xfe)});
  };
  const Id both =
      make(spv::Op::OpLogicalAnd, truth, {is_normal(exponent_a), is_normal(exponent_b)});
  return make(spv::Op::OpSelect, own, {both, result, divided(a, b)});
}

// As quotient().
Translator::Id Translator::square_root(const Type& type, Id value) {
  const Id own = type_of(type);
  const Id root = glsl(GLSLstd450Sqrt, own, {value});
  if (options_.fast || options_.exact_quotients || type.bits == 64) return root;
  if (type.bits == 16) {
    const Type& single = *module_.floating(32);
    const Id wide = make(spv::Op::OpFConvert, type_of(single), {value});
    return make(spv::Op::OpFConvert, own, {square_root(single, wide)});
  }
  const Id truth = spirv_.boolean();
  const auto chosen = [&](Id question, double yes, double no) {
    return make(spv::Op::OpSelect, own,
                {question, float_number(type, yes), float_number(type, no)});
  };
  const auto product = [&](Id a, Id b) {
    const Id made = make(spv::Op::OpFMul, own, {a, b});
    keep_apart(made);
    return made;
  };
  const Id small = make(spv::Op::OpFOrdLessThan, truth, {value, float_number(type, 1)});
  const Id x = product(value, chosen(small, 0x1p+64, 0x1p-64));
  const Id inverse = glsl(GLSLstd450InverseSqrt, own, {x});
  Id result = product(x, inverse);
  const Id rest = fused(type, make(spv::Op::OpFNegate, own, {result}), result, x);
  result = fused(type, rest, product(inverse, float_number(type, 0.5)), result);
  result = product(result, chosen(small, 0x1p-32, 0x1p+32));
  const Id above = make(spv::Op::OpFOrdGreaterThan, truth, {x, float_number(type, 0)});
  const Id below = make(spv::Op::OpULessThan, truth, {to_bits(x, type), spirv_.u32(0x7f800000)});
  return make(spv::Op::OpSelect, own,
              {make(spv::Op::OpLogicalAnd, truth, {above, below}), result, root});
}

bool Translator::call_of_floats(const Value& value, std::string_view name) {
  if (value.operands.empty() || !value.operands[0]->type->is(TypeKind::floating)) return false;
  const Type& type = *value.operands[0]->type;
  const Id own = type_of(type);
  const Id a = use_one(value.operands[0]);
  const auto operand = [&](size_t i) { return use_one(value.operands.at(i)); };
  const Id truth = spirv_.boolean();
  if (name == "is.fpclass") {
    // Bits of the question: 0-1 NaN, 2 and 9 infinities, 3-8 finite ones by sign and kind.
    const auto asked = static_cast<uint32_t>(value.operands.at(1)->bits);
    const Type& bits = *module_.integer(type.bits);
    const uint64_t infinity = type.bits == 16   ? 0x7c00
                              : type.bits == 32 ? 0x7f800000
                                                : 0x7ff0000000000000;
    const uint64_t normal = type.bits == 16   ? 0x0400
                            : type.bits == 32 ? 0x00800000
                                              : 0x0010000000000000;
    const Id raw = to_bits(a, type);
    const Id size =
        make(spv::Op::OpBitwiseAnd, type_of(bits), {raw, number(bits, bit_mask(type.bits - 1))});
    const Id negative = make(spv::Op::OpINotEqual, truth, {raw, size});
    const auto compare = [&](Predicate p, uint64_t with) {
      return compare_integers(p, bits, size, number(bits, with));
    };
    Id result = spirv_.truth(false);
    const auto add = [&](uint32_t mask_negative, uint32_t mask_positive, Id is) {
      const bool minus = (asked & mask_negative) != 0;
      const bool plus = (asked & mask_positive) != 0;
      if (!minus && !plus) return;
      Id one = is;
      if (minus != plus) {
        const Id sign = minus ? negative : make(spv::Op::OpLogicalNot, truth, {negative});
        one = make(spv::Op::OpLogicalAnd, truth, {is, sign});
      }
      result = make(spv::Op::OpLogicalOr, truth, {result, one});
    };
    if ((asked & 3) != 0) result = compare(Predicate::ugt, infinity);
    add(1U << 2, 1U << 9, compare(Predicate::eq, infinity));
    add(1U << 3, 1U << 8,
        make(spv::Op::OpLogicalAnd, truth,
             {compare(Predicate::uge, normal), compare(Predicate::ult, infinity)}));
    add(1U << 4, 1U << 7,
        make(spv::Op::OpLogicalAnd, truth,
             {compare(Predicate::ugt, 0), compare(Predicate::ult, normal)}));
    add(1U << 5, 1U << 6, compare(Predicate::eq, 0));
    define(value, result);
    return true;
  }
  if (name == "copysign") {
    const Type& bits = *module_.integer(type.bits);
    const uint64_t all = bit_mask(type.bits - 1);
    const Id size =
        make(spv::Op::OpBitwiseAnd, type_of(bits), {to_bits(a, type), number(bits, all)});
    const Id sign = make(spv::Op::OpBitwiseAnd, type_of(bits),
                         {to_bits(operand(1), type), number(bits, uint64_t{1} << (type.bits - 1))});
    define(value, from_bits(make(spv::Op::OpBitwiseOr, type_of(bits), {size, sign}), type));
    return true;
  }
  if (name == "fabs") {
    const Type& bits = *module_.integer(type.bits);
    define(value, from_bits(make(spv::Op::OpBitwiseAnd, type_of(bits),
                                 {to_bits(a, type), number(bits, bit_mask(type.bits - 1))}),
                            type));
    return true;
  }
  if (name == "fmuladd") {
    if (can_fuse(type)) return define(value, fused(type, a, operand(1), operand(2))), true;
    const Id product = make(spv::Op::OpFMul, own, {a, operand(1)});
    const Id result = make(spv::Op::OpFAdd, own, {product, operand(2)});
    keep_apart(product);
    keep_apart(result);
    define(value, result);
    return true;
  }
  if (name == "round") {  // halves away from zero
    const Id whole = glsl(GLSLstd450Trunc, own, {a});
    const Id rest = glsl(GLSLstd450FAbs, own, {make(spv::Op::OpFSub, own, {a, whole})});
    const Id far = make(spv::Op::OpFOrdGreaterThanEqual, truth, {rest, float_number(type, 0.5)});
    const Id next = make(spv::Op::OpFAdd, own, {whole, glsl(GLSLstd450FSign, own, {a})});
    define(value, make(spv::Op::OpSelect, own, {far, next, whole}));
    return true;
  }
  if (name == "ldexp") {
    define(value, glsl(GLSLstd450Ldexp, own, {a, operand(1)}));
    return true;
  }
  if (name == "sqrt") return define(value, square_root(type, a)), true;
  for (const GlslFunction& known : kFunctions) {
    if (known.name != name) continue;
    if (type.bits == 64 && !known.doubles) {
      refuse(
          fmt::format("it uses {} of a double, and Vulkan has it of float alone; convert to "
                      "float",
                      name));
    }
    // Halves are computed as floats.
    const bool half = type.bits == 16 && !known.doubles;
    const Type& in = half ? *module_.floating(32) : type;
    const auto wide = [&](Id v) { return half ? make(spv::Op::OpFConvert, type_of(in), {v}) : v; };
    Id result = 0;
    if (value.operands.size() == 1) {
      result = glsl(known.function, type_of(in), {wide(a)});
    } else if (value.operands.size() == 2) {
      result = glsl(known.function, type_of(in), {wide(a), wide(operand(1))});
    } else {
      result = glsl(known.function, type_of(in), {wide(a), wide(operand(1)), wide(operand(2))});
    }
    define(value, half ? make(spv::Op::OpFConvert, own, {result}) : result);
    return true;
  }
  return false;
}

}  // namespace holdfast::kernel::ir
