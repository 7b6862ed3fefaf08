#include <fmt/format.h>

#include <spirv/unified1/GLSL.std.450.h>
#include <algorithm>
#include <array>
#include <bit>

#include "holdfast/kernel/float16.h"
#include "holdfast/kernel/targets/vulkan/ir/plain_name.h"
#include "holdfast/kernel/targets/vulkan/ir/translator.h"

namespace holdfast::kernel::ir {
namespace {

// Instructions of the optimizer's own that mean nothing here.
constexpr std::array<std::string_view, 10> kNothing{
    "llvm.lifetime",  "llvm.assume",    "llvm.dbg",        "llvm.experimental.noalias",
    "llvm.invariant", "llvm.donothing", "llvm.sideeffect", "llvm.trap",
    "llvm.debugtrap", "llvm.prefetch"};

std::string unknown_call(const std::string& callee) {
  const std::string name = plain_name(callee);
  if (name == "printf") {
    return "it calls 'printf', which has no way to the host; write what you want to see to an "
           "output, or run the kernel on the CPU";
  }
  if (name.starts_with("operator new") || name.starts_with("operator delete") || name == "malloc" ||
      name == "free") {
    return fmt::format(
        "it calls '{}', and threads have no memory to take from; use an array of "
        "constant length",
        name);
  }
  if (name.starts_with("llvm.")) {
    return fmt::format("it needs '{}' of LLVM, which is not known here; write it in other words",
                       name);
  }
  return fmt::format("it calls '{}', which nothing defines; write it in the kernel's header", name);
}

}  // namespace

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
    define(value, group_threads());
    return true;
  }
  return false;
}

Translator::Id Translator::group_threads() {
  const Id word = spirv_.integer(32);
  Id product = spirv_.u32(1);
  for (uint32_t i = 0; i < 3; ++i) {
    const Id size = make(spv::Op::OpCompositeExtract, word, {spirv_.group_size(), i});
    product = make(spv::Op::OpIMul, word, {product, size});
  }
  return product;
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
  if (call_of_place(value) || call_of_meeting(value) || call_of_subgroup(value) ||
      call_of_atomic(value) || call_of_check(value)) {
    return;
  }
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
  refuse(unknown_call(value.callee));
}

}  // namespace holdfast::kernel::ir
