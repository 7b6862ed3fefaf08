#include <array>

#include "holdfast/kernel/targets/vulkan/ir/translator.h"

// What threads have in common: barriers, exchanges of words, atomic operations.

namespace holdfast::kernel::ir {
namespace {

constexpr uint32_t word_of(spv::Scope scope) { return static_cast<uint32_t>(scope); }
constexpr uint32_t word_of(spv::MemorySemanticsMask mask) { return static_cast<uint32_t>(mask); }

constexpr uint32_t kAcquireRelease = word_of(spv::MemorySemanticsMask::AcquireRelease);
constexpr uint32_t kOfGroup = word_of(spv::MemorySemanticsMask::WorkgroupMemory);
constexpr uint32_t kOfDevice = word_of(spv::MemorySemanticsMask::UniformMemory);

}  // namespace

void Translator::meet() {
  const Id scope = spirv_.u32(word_of(spv::Scope::Workgroup));
  put(spv::Op::OpControlBarrier,
      {scope, scope, spirv_.u32(kAcquireRelease | kOfGroup | kOfDevice)});
}

void Translator::fence() {
  if (!options_.fences_meet) {
    put(spv::Op::OpMemoryBarrier, {spirv_.u32(word_of(spv::Scope::Device)),
                                   spirv_.u32(kAcquireRelease | kOfGroup | kOfDevice)});
    return;
  }
  // Every atomic operation of lavapipe is sequentially consistent, whatever it touches.
  const Id word = spirv_.integer(32);
  if (fence_ == 0) fence_ = spirv_.variable(spv::StorageClass::Workgroup, word);
  make(spv::Op::OpAtomicIAdd, word,
       {fence_, spirv_.u32(word_of(spv::Scope::Workgroup)), spirv_.u32(0), spirv_.u32(0)});
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
    fence();
    return true;
  }
  return false;
}

// All threads of the group come here together: as SPIR-V has it, the subgroup is whole then,
// except for threads that the group does not have.
bool Translator::call_of_subgroup(const Value& value) {
  const std::string& name = value.callee;
  const Id word = spirv_.integer(32);
  const Id scope = spirv_.u32(word_of(spv::Scope::Subgroup));
  const auto truth_of = [&](Id number) {
    return make(spv::Op::OpINotEqual, spirv_.boolean(), {number, spirv_.u32(0)});
  };
  if (name == "hf_spirv_ballot") {
    spirv_.need(spv::Capability::GroupNonUniformBallot);
    const Id yes = make(spv::Op::OpLogicalAnd, spirv_.boolean(),
                        {mask_now(mask_), truth_of(use_one(value.operands.at(0)))});
    const Id all = make(spv::Op::OpGroupNonUniformBallot, spirv_.vector(word, 4), {scope, yes});
    define(value, make(spv::Op::OpCompositeExtract, word, {all, 0}));
    return true;
  }
  if (name == "hf_spirv_word_from") {
    spirv_.need(spv::Capability::GroupNonUniformShuffle);
    const Id given = use_one(value.operands.at(0));
    const Id lane = use_one(value.operands.at(1));
    define(value, make(spv::Op::OpGroupNonUniformShuffle, word, {scope, given, lane}));
    return true;
  }
  if (name == "hf_spirv_whole") {
    if (mask_ != kAll) {
      define(value, spirv_.u32(0));
      return true;
    }
    const Id rest = make(spv::Op::OpBitwiseAnd, word, {group_threads(), spirv_.u32(31)});
    const Id whole = make(spv::Op::OpIEqual, spirv_.boolean(), {rest, spirv_.u32(0)});
    define(value, make(spv::Op::OpSelect, word, {whole, spirv_.u32(1), spirv_.u32(0)}));
    return true;
  }
  if (name == "hf_spirv_simd_barrier") {
    put(spv::Op::OpControlBarrier, {scope, spirv_.u32(word_of(spv::Scope::Workgroup)),
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

}  // namespace holdfast::kernel::ir
