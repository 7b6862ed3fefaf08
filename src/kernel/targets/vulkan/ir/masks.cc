#include "holdfast/kernel/targets/vulkan/ir/masks.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace holdfast::kernel::ir {
namespace {

// In simdgroups that are subgroups of the device.
bool is_of_subgroup(const Value& value) {
  return value.callee == "hf_spirv_ballot" || value.callee == "hf_spirv_word_from" ||
         value.callee == "hf_spirv_whole" || value.callee == "hf_spirv_simd_barrier";
}

bool parts_threads(const Value& value) {
  return value.is(Opcode::call) && (value.callee == "hf_spirv_publish" ||
                                    value.callee == "hf_spirv_stop" || is_of_subgroup(value));
}

template <typename Predicate>
bool any_in(const Steps& steps, const Predicate& predicate) {
  return std::ranges::any_of(steps, [&](const Step& step) {
    return predicate(step) || any_in(step.inside, predicate) || any_in(step.otherwise, predicate);
  });
}

bool has_meeting(const Step& step) {
  const auto own = [](const Step& s) {
    return s.kind == Step::Kind::block &&
           std::ranges::any_of(s.block->instructions,
                               [](const Value* v) { return is_meeting(*v); });
  };
  return own(step) || any_in(step.inside, own) || any_in(step.otherwise, own);
}

// What may differ from thread to thread, by data and by the ways that they took.
class Divergence {
 public:
  Divergence(const Function& function, const Memory& memory, const Structure& structure)
      : function_(function), memory_(memory), structure_(structure) {
    for (bool changed = true; changed;) {
      const size_t before = values_.size() + steps_.size();
      for (const Block* block : function_.blocks) {
        for (const Value* value : block->instructions) look_at(*value);
      }
      walk(structure_.steps, false);
      changed = values_.size() + steps_.size() != before;
    }
  }
  bool has(const Step& step) const { return steps_.contains(&step); }

 private:
  bool differs(const Value* value) const { return values_.contains(value); }

  void look_at(const Value& value) {
    bool differs_itself = false;
    if (value.is(Opcode::load)) {
      const Region* region = memory_.region_of(value.operands[0]);
      differs_itself = region == nullptr || (region->storage != Storage::parameters &&
                                             region->storage != Storage::constant);
    } else if (value.is(Opcode::call)) {
      differs_itself = value.callee.starts_with("hf_spirv_") &&
                       value.callee != "hf_spirv_group_id" &&
                       value.callee != "hf_spirv_group_threads" && value.callee != "hf_spirv_whole";
    }
    const auto other = [&](const Value* operand) { return differs(operand); };
    if (differs_itself || std::ranges::any_of(value.operands, other)) values_.insert(&value);
  }

  // `inside`: of something that differs. Phis that get their values there differ.
  // Returns whether anything in the list differs.
  bool walk(const Steps& steps, bool inside) {
    bool before = false;  // whether ways parted earlier in this list
    for (const Step& step : steps) {
      switch (step.kind) {
        case Step::Kind::pass:
          if (!inside) break;
          for (const Value* phi : step.to->instructions) {
            if (!phi->is(Opcode::phi)) break;
            values_.insert(phi);
          }
          break;
        case Step::Kind::choice:
          if (step.question.value == nullptr || differs(step.question.value)) steps_.insert(&step);
          break;
        case Step::Kind::guarded:
          if (before) steps_.insert(&step);
          break;
        case Step::Kind::loop:
          if (leaves_apart(step.inside, structure_.loops[step.loop], false)) {
            steps_.insert(&step);
            // Who leaves earlier keeps what the others go on to change.
            defined_in(step.inside);
          }
          break;
        default: break;
      }
      const bool parts = has(step);
      const bool deeper =
          walk(step.inside, inside || parts) | walk(step.otherwise, inside || parts);
      before = before || parts || deeper;
    }
    return before;
  }
  bool leaves_apart(const Steps& steps, const Structure::Loop& loop, bool apart) const {
    bool before = apart;
    for (const Step& step : steps) {
      if (step.kind == Step::Kind::leave && before &&
          (step.target == loop.begin || step.target == kReturn ||
           !loop.inside.contains(step.target))) {
        return true;
      }
      const bool parts = apart || has(step);
      if (leaves_apart(step.inside, loop, parts) || leaves_apart(step.otherwise, loop, parts)) {
        return true;
      }
    }
    return false;
  }
  void defined_in(const Steps& steps) {
    for (const Step& step : steps) {
      if (step.kind == Step::Kind::block) {
        for (const Value* value : step.block->instructions) values_.insert(value);
      }
      defined_in(step.inside);
      defined_in(step.otherwise);
    }
  }

  const Function& function_;
  const Memory& memory_;
  const Structure& structure_;
  std::unordered_set<const Value*> values_;
  std::unordered_set<const Step*> steps_;
};

class Masker {
 public:
  Masker(const Divergence& divergence, Structure& structure)
      : divergence_(divergence), structure_(structure) {}

  Steps masked(const Steps& steps, MaskId mask) {
    Steps result;
    Steps plain;
    const auto flush = [&] {
      if (plain.empty()) return;
      if (mask == kAll) {
        std::ranges::move(plain, std::back_inserter(result));
      } else {
        result.push_back(
            {.kind = Step::Kind::active, .mask = mask, .inside = std::exchange(plain, {})});
      }
      plain.clear();
    };
    const auto append = [&](Steps more) { std::ranges::move(more, std::back_inserter(result)); };
    for (const Step& step : steps) {
      if (!has_meeting(step)) {
        plain.push_back(step);
        continue;
      }
      const bool apart = mask != kAll || divergence_.has(step);
      switch (step.kind) {
        case Step::Kind::block: {
          std::vector<Value*> run;
          const auto add_run = [&] {
            if (run.empty()) return;
            plain.push_back({.kind = Step::Kind::part, .values = std::exchange(run, {})});
          };
          for (Value* value : step.block->instructions) {
            if (!is_meeting(*value)) {
              if (!ends_block(value->op)) run.push_back(value);
              continue;
            }
            add_run();
            flush();
            result.push_back({.kind = Step::Kind::meet, .mask = mask, .value = value});
          }
          add_run();
          break;
        }
        case Step::Kind::choice: {
          flush();
          if (!apart) {
            Step same = step;
            same.inside = masked(step.inside, kAll);
            same.otherwise = masked(step.otherwise, kAll);
            result.push_back(std::move(same));
            break;
          }
          const MaskId yes = new_mask();
          const MaskId no = new_mask();
          result.push_back(
              {.kind = Step::Kind::mask_yes, .question = step.question, .mask = mask, .into = yes});
          result.push_back(
              {.kind = Step::Kind::mask_no, .question = step.question, .mask = mask, .into = no});
          append(masked(step.inside, yes));
          append(masked(step.otherwise, no));
          break;
        }
        case Step::Kind::guarded: {
          flush();
          if (!apart) {
            Step same = step;
            same.inside = masked(step.inside, kAll);
            result.push_back(std::move(same));
            break;
          }
          const MaskId here = new_mask();
          result.push_back(
              {.kind = Step::Kind::mask_next, .target = step.target, .mask = mask, .into = here});
          append(masked(step.inside, here));
          break;
        }
        case Step::Kind::loop: {
          flush();
          Step same = step;
          if (!apart) {
            same.inside = masked(step.inside, kAll);
          } else {
            const MaskId round = new_mask();
            same.votes = true;
            same.mask = mask;
            same.inside = {{.kind = Step::Kind::mask_stay, .loop = step.loop, .into = round}};
            std::ranges::move(masked(step.inside, round), std::back_inserter(same.inside));
          }
          result.push_back(std::move(same));
          break;
        }
        default: plain.push_back(step);
      }
    }
    flush();
    return result;
  }

 private:
  MaskId new_mask() { return ++structure_.masks; }

  const Divergence& divergence_;
  Structure& structure_;
};

}  // namespace

bool is_meeting(const Value& value) {
  return value.is(Opcode::call) &&
         (value.callee == "hf_spirv_barrier" || value.callee == "hf_spirv_publish" ||
          value.callee == "hf_spirv_conclude" || is_of_subgroup(value));
}

void add_masks(const Function& function, const Memory& memory, Structure& structure) {
  const bool any = std::ranges::any_of(function.blocks, [](const Block* block) {
    return std::ranges::any_of(block->instructions,
                               [](const Value* v) { return parts_threads(*v); });
  });
  if (!any || std::ranges::none_of(structure.steps, has_meeting)) return;
  const Divergence divergence(function, memory, structure);
  Steps steps = Masker(divergence, structure).masked(structure.steps, kAll);
  structure.steps = std::move(steps);
}

}  // namespace holdfast::kernel::ir
