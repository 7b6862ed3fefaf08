#include <fmt/format.h>

#include <spirv/unified1/GLSL.std.450.h>
#include <algorithm>
#include <array>
#include <bit>

#include "holdfast/kernel/float16.h"
#include "holdfast/kernel/targets/vulkan/ir/translator.h"

namespace holdfast::kernel::ir {
namespace {

constexpr uint32_t word_of(spv::Scope scope) { return static_cast<uint32_t>(scope); }
constexpr uint32_t word_of(spv::MemorySemanticsMask mask) { return static_cast<uint32_t>(mask); }

constexpr uint32_t kAcquireRelease = word_of(spv::MemorySemanticsMask::AcquireRelease);
constexpr uint32_t kOfGroup = word_of(spv::MemorySemanticsMask::WorkgroupMemory);
constexpr uint32_t kOfDevice = word_of(spv::MemorySemanticsMask::UniformMemory);

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
    GlslFunction{"sqrt", GLSLstd450Sqrt, true},
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

// Instructions of the optimizer's own that mean nothing here.
constexpr std::array<std::string_view, 10> kNothing{
    "llvm.lifetime",  "llvm.assume",    "llvm.dbg",        "llvm.experimental.noalias",
    "llvm.invariant", "llvm.donothing", "llvm.sideeffect", "llvm.trap",
    "llvm.debugtrap", "llvm.prefetch"};

}  // namespace

Translator::Id Translator::float_number(const Type& type, double value) {
  if (type.bits == 64) return number(type, std::bit_cast<uint64_t>(value));
  const auto single = static_cast<float>(value);
  if (type.bits == 32) return number(type, std::bit_cast<uint32_t>(single));
  return number(type, Float16(single).bits);
}

Translator::Id Translator::input_part(spv::BuiltIn what, uint32_t axis) {
  const Id word = spirv_.integer(32);
  const Id three = spirv_.vector(word, 3);
  const Id all = make(spv::Op::OpLoad, three, {spirv_.input(what, three)});
  return make(spv::Op::OpCompositeExtract, word, {all, axis});
}

Translator::Id Translator::input_part(spv::BuiltIn what, const Value* axis) {
  const Id word = spirv_.integer(32);
  const Id three = spirv_.vector(word, 3);
  const Id all = make(spv::Op::OpLoad, three, {spirv_.input(what, three)});
  if (axis->kind == ValueKind::number || axis->kind == ValueKind::zero) {
    const uint64_t i = axis->kind == ValueKind::number ? axis->bits : 0;
    return make(spv::Op::OpCompositeExtract, word, {all, static_cast<uint32_t>(i < 3 ? i : 0)});
  }
  return make(spv::Op::OpVectorExtractDynamic, word, {all, use_one(axis)});
}

bool Translator::call_of_place(const Value& value) {
  const std::string& name = value.callee;
  if (name == "hf_spirv_local_id" || name == "hf_spirv_group_id") {
    define(value, input_part(name == "hf_spirv_local_id" ? spv::BuiltIn::LocalInvocationId
                                                         : spv::BuiltIn::WorkgroupId,
                             value.operands.at(0)));
    return true;
  }
  if (name == "hf_spirv_local_index") {
    const Id word = spirv_.integer(32);
    define(value,
           make(spv::Op::OpLoad, word, {spirv_.input(spv::BuiltIn::LocalInvocationIndex, word)}));
    return true;
  }
  if (name == "hf_spirv_group_threads") {
    const Id word = spirv_.integer(32);
    Id product = spirv_.u32(1);
    for (uint32_t i = 0; i < 3; ++i) {
      const Id size = make(spv::Op::OpCompositeExtract, word, {spirv_.group_size(), i});
      product = make(spv::Op::OpIMul, word, {product, size});
    }
    define(value, product);
    return true;
  }
  return false;
}

void Translator::meet() {
  const Id scope = spirv_.u32(word_of(spv::Scope::Workgroup));
  put(spv::Op::OpControlBarrier,
      {scope, scope, spirv_.u32(kAcquireRelease | kOfGroup | kOfDevice)});
}

// A word of each thread of the group, and whether it is on the same way.
void Translator::declare_exchange() {
  if (words_ != 0) return;
  const Id type = spirv_.array_of_group(spirv_.integer(32));
  words_ = spirv_.variable(spv::StorageClass::Workgroup, type);
  there_ = spirv_.variable(spv::StorageClass::Workgroup, type);
}

Translator::Id Translator::exchange_place(Id array, Id index) {
  return make(spv::Op::OpAccessChain,
              spirv_.pointer(spv::StorageClass::Workgroup, spirv_.integer(32)), {array, index});
}

// Of all threads, of which all come here.
Translator::Id Translator::any_of_group(Id truth) {
  const Id word = spirv_.integer(32);
  if (votes_ == 0) votes_ = spirv_.variable(spv::StorageClass::Workgroup, word);
  put(spv::Op::OpStore, {votes_, spirv_.u32(0)});  // all write the same
  meet();
  const Id yes = spirv_.id(), merge = spirv_.id();
  put(spv::Op::OpSelectionMerge, {merge, 0});
  put(spv::Op::OpBranchConditional, {truth, yes, merge});
  put(spv::Op::OpLabel, {yes});
  put(spv::Op::OpStore, {votes_, spirv_.u32(1)});
  put(spv::Op::OpBranch, {merge});
  put(spv::Op::OpLabel, {merge});
  meet();
  const Id all = make(spv::Op::OpLoad, word, {votes_});
  meet();
  return make(spv::Op::OpINotEqual, spirv_.boolean(), {all, spirv_.u32(0)});
}

bool Translator::call_of_meeting(const Value& value) {
  const std::string& name = value.callee;
  const Id word = spirv_.integer(32);
  const auto own_index = [&] {
    return make(spv::Op::OpLoad, word, {spirv_.input(spv::BuiltIn::LocalInvocationIndex, word)});
  };
  if (name == "hf_spirv_barrier" || name == "hf_spirv_conclude") {
    meet();
    return true;
  }
  if (name == "hf_spirv_publish") {
    declare_exchange();
    const Id index = own_index();
    const Id published = use_one(value.operands.at(0));
    const Id there = make(spv::Op::OpSelect, word, {mask_now(mask_), spirv_.u32(1), spirv_.u32(0)});
    put(spv::Op::OpStore, {exchange_place(words_, index), published});
    put(spv::Op::OpStore, {exchange_place(there_, index), there});
    meet();
    return true;
  }
  if (name == "hf_spirv_word_of" || name == "hf_spirv_is_there") {
    declare_exchange();
    const Id first = make(spv::Op::OpBitwiseAnd, word, {own_index(), spirv_.u32(~uint32_t{31})});
    const Id index = make(spv::Op::OpIAdd, word, {first, use_one(value.operands.at(0))});
    const Id array = name == "hf_spirv_word_of" ? words_ : there_;
    define(value, make(spv::Op::OpLoad, word, {exchange_place(array, index)}));
    return true;
  }
  if (name == "hf_spirv_fence") {
    put(spv::Op::OpMemoryBarrier, {spirv_.u32(word_of(spv::Scope::Device)),
                                   spirv_.u32(kAcquireRelease | kOfGroup | kOfDevice)});
    return true;
  }
  return false;
}

bool Translator::call_of_atomic(const Value& value) {
  constexpr std::string_view kPrefix = "hf_spirv_atomic_";
  if (!value.callee.starts_with(kPrefix)) return false;
  std::string_view name = std::string_view(value.callee).substr(kPrefix.size());
  const uint32_t bits = name.ends_with("64") ? 64 : 32;
  name.remove_suffix(2);
  const Id type = spirv_.integer(bits);
  if (bits == 64) spirv_.need(spv::Capability::Int64Atomics);
  const Id pointer = word_pointer(value.operands.at(0), bits);
  const Region* region = memory_.region_of(value.operands[0]);
  const Id scope =
      spirv_.u32(word_of(is_device(region) ? spv::Scope::Device : spv::Scope::Workgroup));
  const Id relaxed = spirv_.u32(0);
  if (name == "load") {
    define(value, make(spv::Op::OpAtomicLoad, type, {pointer, scope, relaxed}));
    return true;
  }
  // lavapipe of Mesa 22 ends the process where what is compared or written comes straight from a
  // floating operation. No group's number has its highest bit set, which no compiler knows.
  const auto as_integer = [&](Id id) {
    const Id none = make(spv::Op::OpShiftRightLogical, spirv_.integer(32),
                         {input_part(spv::BuiltIn::WorkgroupId, uint32_t{0}), spirv_.u32(31)});
    return make(spv::Op::OpBitwiseXor, type, {id, convert(none, 32, bits, false)});
  };
  const Id given = as_integer(use_one(value.operands.at(1)));
  if (name == "store") {
    put(spv::Op::OpAtomicStore, {pointer, scope, relaxed, given});
    return true;
  }
  if (name == "cas") {
    define(value, make(spv::Op::OpAtomicCompareExchange, type,
                       {pointer, scope, relaxed, relaxed, given,
                        as_integer(use_one(value.operands.at(2)))}));
    return true;
  }
  constexpr std::array<std::pair<std::string_view, spv::Op>, 9> kOps{
      {{"exchange", spv::Op::OpAtomicExchange},
       {"add", spv::Op::OpAtomicIAdd},
       {"and", spv::Op::OpAtomicAnd},
       {"or", spv::Op::OpAtomicOr},
       {"xor", spv::Op::OpAtomicXor},
       {"umin", spv::Op::OpAtomicUMin},
       {"umax", spv::Op::OpAtomicUMax},
       {"smin", spv::Op::OpAtomicSMin},
       {"smax", spv::Op::OpAtomicSMax}}};
  for (const auto& [known, op] : kOps) {
    if (known != name) continue;
    define(value, make(op, type, {pointer, scope, relaxed, given}));
    return true;
  }
  return false;
}

// ---- integers ----

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
    } else {
      if (with_sign) refuse("it multiplies signed integers of 64 bits with a check");
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

// ---- floating numbers ----

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
    const Id product = make(spv::Op::OpFMul, own, {a, operand(1)});
    const Id result = make(spv::Op::OpFAdd, own, {product, operand(2)});
    if (!options_.contracts) {
      spirv_.decorate(product, spv::Decoration::NoContraction);
      spirv_.decorate(result, spv::Decoration::NoContraction);
    }
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

// One lane after another, joined in order.
bool Translator::call_of_reduction(const Value& value, std::string_view name) {
  constexpr std::string_view kPrefix = "vector.reduce.";
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  const bool starts = name == "fadd" || name == "fmul";
  const Parts lanes = use(value.operands.at(starts ? 1 : 0));
  const Type& type = *value.type;
  Id result = starts ? use_one(value.operands[0]) : lanes.at(0);
  constexpr std::array<std::pair<std::string_view, Opcode>, 7> kJoins{{{"add", Opcode::add},
                                                                       {"mul", Opcode::mul},
                                                                       {"and", Opcode::bit_and},
                                                                       {"or", Opcode::bit_or},
                                                                       {"xor", Opcode::bit_xor},
                                                                       {"fadd", Opcode::fadd},
                                                                       {"fmul", Opcode::fmul}}};
  constexpr std::array<std::pair<std::string_view, Predicate>, 4> kPicks{
      {{"umin", Predicate::ult},
       {"umax", Predicate::ugt},
       {"smin", Predicate::slt},
       {"smax", Predicate::sgt}}};
  for (size_t i = starts ? 0 : 1; i < lanes.size(); ++i) {
    const Id lane = lanes[i];
    const auto join = std::ranges::find(kJoins, name, &std::pair<std::string_view, Opcode>::first);
    const auto pick =
        std::ranges::find(kPicks, name, &std::pair<std::string_view, Predicate>::first);
    if (join != kJoins.end()) {
      Value step = value;
      step.op = join->second;
      result = binary(step, type, result, lane);
    } else if (pick != kPicks.end()) {
      result = make(spv::Op::OpSelect, type_of(type),
                    {compare_integers(pick->second, type, result, lane), result, lane});
    } else if (name == "fmin" || name == "fmax") {
      result =
          glsl(name == "fmin" ? GLSLstd450NMin : GLSLstd450NMax, type_of(type), {result, lane});
    } else {
      return false;
    }
  }
  define(value, result);
  return true;
}

// What is done to each element: as many calls as the vector has elements.
void Translator::call_by_element(const Value& value) {
  Parts result;
  std::vector<Parts> operands;
  for (const Value* operand : value.operands) operands.push_back(use(operand));
  for (uint64_t i = 0; i < value.type->count; ++i) {
    Value* one = module_.add(value);
    one->type = value.type->element;
    for (size_t k = 0; k < operands.size(); ++k) {
      const Type& type = *value.operands[k]->type;
      if (!type.is(TypeKind::vector)) continue;
      one->operands[k] =
          module_.add({.kind = ValueKind::instruction, .type = type.element, .parent = nullptr});
      parts_of_[one->operands[k]] = {operands[k].at(i)};
    }
    call(*one);
    result.push_back(parts_of_.at(one).at(0));
  }
  define(value, std::move(result));
}

void Translator::call(const Value& value) {
  for (const std::string_view nothing : kNothing) {
    if (value.callee.starts_with(nothing)) return;
  }
  if (copies_memory(value)) return copy_memory(value);
  if (fills_memory(value)) return fill_memory(value);
  if (call_of_place(value) || call_of_meeting(value) || call_of_atomic(value)) return;
  if (value.callee.starts_with("llvm.ptrmask")) {
    const Region* region = memory_.region_of(&value);
    const Id pointer = use_pointer(value.operands.at(0), region);
    Id mask = use_one(value.operands.at(1));
    if (!is_device(region)) {
      if (region->unit != 1) refuse("it clears bits of a pointer to a variable");
      mask = convert(mask, container(value.operands[1]->type->bits), 32, false);
    }
    define(value, make(spv::Op::OpBitwiseAnd, spirv_.integer(is_device(region) ? 64 : 32),
                       {pointer, mask}));
    return;
  }
  // "llvm.exp.f32", "llvm.uadd.with.overflow.i32", "expf" and "exp" by what they do.
  std::string_view name = value.callee;
  if (name.starts_with("llvm.")) {
    name.remove_prefix(5);
    while (name.rfind('.') != name.npos) {
      const std::string_view last = name.substr(name.rfind('.') + 1);
      const bool type = last.size() > 1 && std::string_view("fipv").find(last[0]) != last.npos &&
                        last[1] >= '0' && last[1] <= '9';
      if (!type) break;
      name.remove_suffix(last.size() + 1);
    }
  } else if (name.ends_with('f') && value.type->is(TypeKind::floating) && value.type->bits == 32) {
    name.remove_suffix(1);
  }
  if (value.type->is(TypeKind::vector)) return call_by_element(value);
  if (call_of_reduction(value, name)) return;
  if (call_of_integers(value, name) || call_of_floats(value, name)) return;
  refuse(fmt::format("it calls '{}', which kernels for Vulkan do not have", value.callee));
}

}  // namespace holdfast::kernel::ir
