#include "holdfast/kernel/targets/vulkan/ir/translator.h"

#include <algorithm>

#include "holdfast/hal/module.h"

namespace holdfast::kernel::ir {

Translator::Translator(Module& module, Function& function, const Memory& memory,
                       const Structure& structure, const TranslateOptions& options)
    : module_(module),
      function_(function),
      memory_(memory),
      structure_(structure),
      options_(options),
      exchanged_(function) {}

void Translator::refuse(std::string message) const {
  throw Refused{std::move(message), here_ != nullptr ? here_->location : 0};
}

Translator::Id Translator::local(Id type) {
  const Id pointer = spirv_.pointer(spv::StorageClass::Function, type);
  const Id made = spirv_.id();
  SpirvBuilder::put(variables_, spv::Op::OpVariable,
                    {pointer, made, static_cast<uint32_t>(spv::StorageClass::Function)});
  return made;
}

SpirvWords Translator::run() {
  try {
    return translated();
  } catch (Refused& refused) {
    if (refused.location == 0 && here_ != nullptr) refused.location = here_->location;
    throw;
  }
}

SpirvWords Translator::translated() {
  find_scopes(structure_.steps, 0);
  find_crossings(structure_.steps, 0);
  declare_regions();
  const Id first_label = spirv_.id();
  if (structure_.has_guards) next_ = local(spirv_.integer(32));
  for (size_t i = 0; i < structure_.loops.size(); ++i) stays_.push_back(local(spirv_.boolean()));
  for (uint32_t i = 0; i < structure_.selectors; ++i) {
    selectors_.push_back(local(spirv_.integer(32)));
  }
  masks_.push_back(0);
  for (uint32_t i = 0; i < structure_.masks; ++i) masks_.push_back(local(spirv_.boolean()));
  begin_arguments();
  emit(structure_.steps);
  put(spv::Op::OpReturn, {});
  if (!options_.fast) {
    // As the language of the text has it; devices that know no such mode do as they do.
    const auto keep = [&](bool can, uint32_t bits) {
      if (!can) return;
      spirv_.need(spv::Capability::SignedZeroInfNanPreserve);
      spirv_.need("SPV_KHR_float_controls");
      spirv_.mode(spv::ExecutionMode::SignedZeroInfNanPreserve, {bits});
    };
    keep(options_.keeps_16, 16);
    keep(options_.keeps_32, 32);
    keep(options_.keeps_64, 64);
    if (options_.keeps_small_32) {
      spirv_.need(spv::Capability::DenormPreserve);
      spirv_.need("SPV_KHR_float_controls");
      spirv_.mode(spv::ExecutionMode::DenormPreserve, {32});
    }
    if (options_.rounds_to_nearest) {
      spirv_.need(spv::Capability::RoundingModeRTE);
      spirv_.need("SPV_KHR_float_controls");
      for (const uint32_t bits : {16, 32, 64}) {
        spirv_.mode(spv::ExecutionMode::RoundingModeRTE, {bits});
      }
    }
  }
  return spirv_.finish(variables_, code_, first_label);
}

// ---- scopes ----

bool Translator::is_within(Scope scope, Scope around) const {
  while (scope > around) scope = parents_[scope];
  return scope == around;
}

void Translator::find_scopes(const Steps& steps, Scope scope) {
  const auto inner = [&](const Steps& inside) {
    const auto made = static_cast<Scope>(parents_.size());
    parents_.push_back(scope);
    find_scopes(inside, made);
    return made;
  };
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::block) {
      for (const Value* value : step.block->instructions) scope_of_[value] = scope;
    }
    for (const Value* value : step.values) scope_of_[value] = scope;
    if (step.kind == Step::Kind::meet) scope_of_[step.value] = scope;
    if (step.kind != Step::Kind::choice && step.kind != Step::Kind::guarded &&
        step.kind != Step::Kind::loop && step.kind != Step::Kind::active) {
      continue;
    }
    const Scope inside = inner(step.inside);
    scopes_of_[&step] = {inside, inner(step.otherwise)};
  }
}

void Translator::used(const Value* value, Scope scope) {
  if (value->kind != ValueKind::instruction) return;
  const auto it = scope_of_.find(value);
  if (it != scope_of_.end() && !is_within(scope, it->second)) crossing_.insert(value);
}

void Translator::find_crossings(const Steps& steps, Scope scope) {
  for (const Step& step : steps) {
    switch (step.kind) {
      case Step::Kind::block:
      case Step::Kind::part:
        for (const Value* value :
             step.kind == Step::Kind::part ? step.values : step.block->instructions) {
          if (value->is(Opcode::phi)) continue;
          for (const Value* operand : value->operands) used(operand, scope);
        }
        break;
      case Step::Kind::meet:
        for (const Value* operand : step.value->operands) used(operand, scope);
        break;
      case Step::Kind::mask_yes:
      case Step::Kind::mask_no:
        if (step.question.value != nullptr) used(step.question.value, scope);
        break;
      case Step::Kind::pass:
        for (const Value* phi : step.to->instructions) {
          if (!phi->is(Opcode::phi)) break;
          for (size_t i = 0; i < phi->blocks.size(); ++i) {
            if (phi->blocks[i] == step.block) used(phi->operands[i], scope);
          }
        }
        break;
      case Step::Kind::choice:
        if (step.question.value != nullptr) used(step.question.value, scope);
        [[fallthrough]];
      case Step::Kind::guarded:
      case Step::Kind::active:
      case Step::Kind::loop: {
        const auto [inside, otherwise] = scopes_of_.at(&step);
        find_crossings(step.inside, inside);
        find_crossings(step.otherwise, otherwise);
        break;
      }
      default: break;
    }
  }
}

// ---- steps ----

void Translator::emit(const Steps& steps) {
  for (const Step& step : steps) {
    switch (step.kind) {
      case Step::Kind::block: emit_values(step.block->instructions); break;
      case Step::Kind::part: emit_values(step.values); break;
      case Step::Kind::active:
        emit_when(mask_now(step.mask), step.inside, scopes_of_.at(&step).first);
        break;
      case Step::Kind::meet:
        here_ = step.value;
        mask_ = step.mask;
        instruction(*step.value);
        mask_ = kAll;
        break;
      case Step::Kind::mask_yes:
      case Step::Kind::mask_no:
      case Step::Kind::mask_next:
      case Step::Kind::mask_stay: emit_mask(step); break;
      case Step::Kind::pass: emit_pass(*step.block, *step.to); break;
      case Step::Kind::select:
        put(spv::Op::OpStore,
            {selectors_[step.question.selector], spirv_.u32(step.question.number)});
        break;
      case Step::Kind::leave: emit_leave(step.target); break;
      case Step::Kind::choice:
      case Step::Kind::guarded: {
        Id condition = 0;
        if (step.question.value != nullptr) {
          here_ = step.question.value;
          condition = use_one(step.question.value);
        } else {
          const bool guard = step.kind == Step::Kind::guarded;
          const Id word = spirv_.integer(32);
          const Id asked =
              make(spv::Op::OpLoad, word, {guard ? next_ : selectors_[step.question.selector]});
          condition = make(spv::Op::OpIEqual, spirv_.boolean(),
                           {asked, spirv_.u32(guard ? step.target : step.question.number)});
        }
        const Scope before = scope_;
        const auto [inside, otherwise] = scopes_of_.at(&step);
        const Id yes = spirv_.id(), no = spirv_.id(), merge = spirv_.id();
        const bool has_else = !step.otherwise.empty();
        put(spv::Op::OpSelectionMerge, {merge, 0});
        put(spv::Op::OpBranchConditional, {condition, yes, has_else ? no : merge});
        put(spv::Op::OpLabel, {yes});
        scope_ = inside;
        emit(step.inside);
        put(spv::Op::OpBranch, {merge});
        if (has_else) {
          put(spv::Op::OpLabel, {no});
          scope_ = otherwise;
          emit(step.otherwise);
          put(spv::Op::OpBranch, {merge});
        }
        put(spv::Op::OpLabel, {merge});
        scope_ = before;
        break;
      }
      case Step::Kind::loop: emit_loop(step); break;
    }
  }
}

void Translator::emit_when(Id condition, const Steps& inside, Scope scope) {
  const Scope before = scope_;
  const Id yes = spirv_.id(), merge = spirv_.id();
  put(spv::Op::OpSelectionMerge, {merge, 0});
  put(spv::Op::OpBranchConditional, {condition, yes, merge});
  put(spv::Op::OpLabel, {yes});
  scope_ = scope;
  emit(inside);
  put(spv::Op::OpBranch, {merge});
  put(spv::Op::OpLabel, {merge});
  scope_ = before;
}

Translator::Id Translator::mask_now(MaskId mask) {
  if (mask == kAll) return spirv_.truth(true);
  return make(spv::Op::OpLoad, spirv_.boolean(), {masks_[mask]});
}

// Who is in the new mask. A question's value is not there for threads that take no part.
void Translator::emit_mask(const Step& step) {
  const Id truth = spirv_.boolean();
  const Id word = spirv_.integer(32);
  Id answer = 0;
  if (step.kind == Step::Kind::mask_stay) {
    answer = make(spv::Op::OpLoad, truth, {stays_[step.loop]});
  } else if (step.kind == Step::Kind::mask_next) {
    answer = make(spv::Op::OpIEqual, truth,
                  {make(spv::Op::OpLoad, word, {next_}), spirv_.u32(step.target)});
  } else if (step.question.value != nullptr) {
    here_ = step.question.value;
    answer = use_one(step.question.value);
  } else {
    answer = make(spv::Op::OpIEqual, truth,
                  {make(spv::Op::OpLoad, word, {selectors_[step.question.selector]}),
                   spirv_.u32(step.question.number)});
  }
  if (step.kind == Step::Kind::mask_no) answer = make(spv::Op::OpLogicalNot, truth, {answer});
  put(spv::Op::OpStore,
      {masks_[step.into], make(spv::Op::OpLogicalAnd, truth, {mask_now(step.mask), answer})});
}

void Translator::emit_loop(const Step& step) {
  const Scope before = scope_;
  const Id header = spirv_.id(), body = spirv_.id(), again = spirv_.id(), merge = spirv_.id();
  const Id stay = stays_[step.loop];
  const Id goes_on = step.votes ? local(spirv_.boolean()) : stay;
  put(spv::Op::OpStore, {stay, mask_now(step.mask)});
  if (step.votes) put(spv::Op::OpStore, {goes_on, spirv_.truth(true)});
  put(spv::Op::OpBranch, {header});
  put(spv::Op::OpLabel, {header});
  const Id stays = make(spv::Op::OpLoad, spirv_.boolean(), {goes_on});
  put(spv::Op::OpLoopMerge, {merge, again, 0});
  put(spv::Op::OpBranchConditional, {stays, body, merge});
  put(spv::Op::OpLabel, {body});
  scope_ = scopes_of_.at(&step).first;
  around_.push_back(step.loop);
  emit(step.inside);
  around_.pop_back();
  if (step.votes) {
    const Id mine = make(spv::Op::OpLoad, spirv_.boolean(), {stay});
    put(spv::Op::OpStore, {goes_on, any_of_group(mine)});
  }
  put(spv::Op::OpBranch, {again});
  put(spv::Op::OpLabel, {again});
  put(spv::Op::OpBranch, {header});
  put(spv::Op::OpLabel, {merge});
  scope_ = before;
}

void Translator::emit_leave(Target target) {
  if (next_ != 0) put(spv::Op::OpStore, {next_, spirv_.u32(target)});
  for (size_t i = around_.size(); i-- > 0;) {
    const Structure::Loop& loop = structure_.loops[around_[i]];
    if (target == loop.begin) {
      put(spv::Op::OpStore, {stays_[around_[i]], spirv_.truth(true)});
      return;
    }
    if (target != kReturn && loop.inside.contains(target)) return;
    put(spv::Op::OpStore, {stays_[around_[i]], spirv_.truth(false)});
  }
}

void Translator::emit_values(const std::vector<Value*>& values) {
  for (const Value* value : values) {
    here_ = value;
    if (value->is(Opcode::phi)) {
      const std::vector<Scalar> scalars = scalars_of(*value);
      std::vector<Id>& variables = passed_to_[value];
      if (variables.empty()) {
        for (const Scalar& scalar : scalars) variables.push_back(local(type_of(scalar)));
      }
      Parts parts;
      for (size_t i = 0; i < scalars.size(); ++i) {
        parts.push_back(make(spv::Op::OpLoad, type_of(scalars[i]), {variables[i]}));
      }
      define(*value, std::move(parts));
      continue;
    }
    if (ends_block(value->op)) break;
    instruction(*value);
  }
}

// All phis of a block change at once.
void Translator::emit_pass(const Block& from, const Block& to) {
  std::vector<std::pair<const Value*, Parts>> passed;
  for (const Value* phi : to.instructions) {
    if (!phi->is(Opcode::phi)) break;
    here_ = phi;
    const auto at = std::ranges::find(phi->blocks, &from);
    if (at == phi->blocks.end()) continue;
    const Value* operand = phi->operands[static_cast<size_t>(at - phi->blocks.begin())];
    Parts parts = phi->type->is(TypeKind::pointer)
                      ? Parts{use_pointer(operand, memory_.region_of(phi))}
                      : use(operand);
    passed.emplace_back(phi, std::move(parts));
  }
  for (const auto& [phi, parts] : passed) {
    std::vector<Id>& variables = passed_to_[phi];
    if (variables.empty()) {
      for (const Scalar& scalar : scalars_of(*phi)) variables.push_back(local(type_of(scalar)));
    }
    for (size_t i = 0; i < parts.size(); ++i) put(spv::Op::OpStore, {variables[i], parts[i]});
  }
}

void Translator::begin_arguments() {
  const size_t count = function_.arguments.size();
  const uint64_t before = 8 * (count - 1 + (options_.reports ? 1 : 0));
  const uint64_t bytes = before + options_.parameter_bytes.value;
  pushed_ = Bytes{bytes} <= hal::SpirvModule::kMaxPushBytes;
  push_addresses_ = static_cast<uint32_t>(pushed_ ? before / 8 : 1);
  push_words_ = static_cast<uint32_t>(pushed_ ? (options_.parameter_bytes.value + 3) / 4 : 0);
  const Id wide = spirv_.integer(64);
  const auto pushed_address = [&](uint32_t index) {
    const Id pointer =
        make(spv::Op::OpAccessChain, spirv_.pointer(spv::StorageClass::PushConstant, wide),
             {push_constants(), spirv_.u32(0), spirv_.u32(index)});
    return make(spv::Op::OpLoad, wide, {pointer});
  };
  if (!pushed_) arguments_ = pushed_address(0);
  const auto wide_word = [&](size_t i) {
    if (pushed_) return pushed_address(static_cast<uint32_t>(i));
    const Id at = make(spv::Op::OpIAdd, wide, {arguments_, spirv_.u64(8 * i)});
    return load_number(at, nullptr, *module_.integer(64), 8, false);
  };
  for (size_t i = 0; i + 1 < count; ++i) parts_of_[function_.arguments[i]] = {wide_word(i)};
  if (options_.reports) report_ = wide_word(count - 1);
  parts_of_[function_.arguments.back()] = {
      pushed_ ? spirv_.u32(0) : make(spv::Op::OpIAdd, wide, {arguments_, spirv_.u64(before)})};
}

}  // namespace holdfast::kernel::ir
