#include "holdfast/kernel/targets/vulkan/ir/structure.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace holdfast::kernel::ir {
namespace {

// A function of blocks that end in whatever a generator says, without instructions of their own.
struct RandomFlow {
  Module module;
  Function function;
  std::vector<Value*> questions;  // by block

  explicit RandomFlow(uint32_t seed) {
    std::mt19937 random(seed);
    const size_t count = 2 + random() % 14;
    for (size_t i = 0; i < count; ++i) function.blocks.push_back(&function.body.emplace_back());
    // The first block of a function has none before it.
    const auto any = [&] { return function.blocks[1 + random() % (count - 1)]; };
    for (size_t i = 0; i < count; ++i) {
      Block* block = function.blocks[i];
      Value end{.kind = ValueKind::instruction, .type = module.nothing(), .parent = block};
      const uint64_t kind = i + 1 == count ? 0 : random() % 10;
      if (kind == 0) {
        end.op = Opcode::ret;
      } else if (kind < 4) {
        end.op = Opcode::jump;
        end.blocks = {any()};
      } else if (kind < 9) {
        end.op = Opcode::branch;
        end.operands = {question(block)};
        end.blocks = {any(), any()};
      } else {
        end.op = Opcode::choose;
        end.operands = {module.add(
            {.kind = ValueKind::instruction, .type = module.integer(32), .parent = block})};
        block->instructions.push_back(end.operands[0]);
        end.blocks = {any()};
        for (uint64_t k = 0; k < 3; ++k) {
          end.operands.push_back(module.number(module.integer(32), k));
          end.blocks.push_back(any());
        }
      }
      block->instructions.push_back(module.add(std::move(end)));
    }
  }

 private:
  Value* question(Block* block) {
    Value* made = module.add({.kind = ValueKind::instruction,
                              .op = Opcode::freeze,
                              .type = module.boolean(),
                              .parent = block});
    block->instructions.push_back(made);
    return made;
  }
};

// What a block's own value is the n-th time that it runs: the same on both ways.
uint32_t answer(const Value* value, uint32_t visit, uint32_t seed) {
  const auto mixed =
      (reinterpret_cast<uintptr_t>(value) >> 4) * 2654435761U + visit * 40503U + seed;
  return static_cast<uint32_t>((mixed >> 7) ^ (mixed >> 13));
}

constexpr size_t kMostVisits = 300;
using Visits = std::vector<const Block*>;

Visits walk_flow(const Function& function, uint32_t seed) {
  Visits visits;
  std::map<const Block*, uint32_t> times;
  const Block* block = function.blocks.front();
  while (visits.size() < kMostVisits) {
    visits.push_back(block);
    const uint32_t visit = times[block]++;
    const Value& end = *block->end();
    if (end.op == Opcode::ret) break;
    if (end.op == Opcode::jump) {
      block = end.blocks[0];
    } else if (end.op == Opcode::branch) {
      block = end.blocks[answer(end.operands[0], visit, seed) % 2 == 1 ? 0 : 1];
    } else {
      const uint32_t value = answer(end.operands[0], visit, seed) % 5;
      size_t to = 0;
      for (size_t i = 1; i < end.operands.size(); ++i) {
        if (end.operands[i]->bits == value) to = i;
      }
      block = end.blocks[to];
    }
  }
  return visits;
}

// Runs the nested form as its header says.
class FormWalk {
 public:
  FormWalk(const Structure& form, uint32_t seed)
      : form_(form), seed_(seed), stays_(form.loops.size()), selectors_(form.selectors) {
    run(form.steps);
  }
  Visits visits;

 private:
  bool full() const { return visits.size() >= kMostVisits; }
  uint32_t value_of(const Value* value) {
    switch (value->op) {
      case Opcode::icmp: return value_of(value->operands[0]) == value->operands[1]->bits ? 1 : 0;
      case Opcode::bit_or: return value_of(value->operands[0]) | value_of(value->operands[1]);
      default: break;
    }
    const uint32_t raw = answer(value, times_[value->parent] - 1, seed_);
    return value->type->bits == 1 ? raw % 2 : raw % 5;
  }
  void leave(Target target) {
    next_ = target;
    for (size_t i = around_.size(); i-- > 0;) {
      const Structure::Loop& loop = form_.loops[around_[i]];
      if (target == loop.begin) {
        stays_[around_[i]] = true;
        return;
      }
      if (target != kReturn && loop.inside.contains(target)) return;
      stays_[around_[i]] = false;
    }
  }
  void run(const Steps& steps) {
    for (const Step& step : steps) {
      if (full()) return;
      switch (step.kind) {
        case Step::Kind::block:
          visits.push_back(step.block);
          ++times_[step.block];
          break;
        case Step::Kind::select: selectors_[step.question.selector] = step.question.number; break;
        case Step::Kind::leave: leave(step.target); break;
        case Step::Kind::choice: {
          const bool yes = step.question.value != nullptr
                               ? value_of(step.question.value) != 0
                               : selectors_[step.question.selector] == step.question.number;
          run(yes ? step.inside : step.otherwise);
          break;
        }
        case Step::Kind::guarded:
          if (next_ == step.target) run(step.inside);
          break;
        case Step::Kind::loop:
          stays_[step.loop] = true;
          around_.push_back(step.loop);
          while (stays_[step.loop] && !full()) run(step.inside);
          around_.pop_back();
          break;
        default: break;
      }
    }
  }

  const Structure& form_;
  uint32_t seed_;
  std::vector<bool> stays_;
  std::vector<uint32_t> selectors_;
  std::vector<LoopId> around_;
  std::map<const Block*, uint32_t> times_;
  Target next_ = 0;
};

TEST(Structure, any_flow_visits_its_blocks_in_the_same_order_when_it_is_nested) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    RandomFlow flow(seed);
    remove_unreachable(flow.function);
    std::vector<Visits> wanted;
    for (uint32_t oracle = 0; oracle < 4; ++oracle) {
      wanted.push_back(walk_flow(flow.function, oracle));
    }
    const Result<Structure> form = structure(flow.module, flow.function);
    ASSERT_TRUE(form) << seed << ": " << form.failure().message();
    for (uint32_t oracle = 0; oracle < 4; ++oracle) {
      ASSERT_EQ(FormWalk(form.value(), oracle).visits, wanted[oracle]) << seed << " " << oracle;
    }
  }
}

// A jump to the middle of a loop from outside.
TEST(Structure, a_loop_with_two_ways_in_asks_which_was_taken) {
  Module module;
  Function function;
  for (int i = 0; i < 4; ++i) function.blocks.push_back(&function.body.emplace_back());
  const auto& b = function.blocks;
  const auto end = [&](size_t i, Opcode op, std::vector<Block*> to) {
    Value value{.kind = ValueKind::instruction, .op = op, .type = module.nothing(), .parent = b[i]};
    if (op == Opcode::branch) {
      Value* asked = module.add({.kind = ValueKind::instruction,
                                 .op = Opcode::freeze,
                                 .type = module.boolean(),
                                 .parent = b[i]});
      b[i]->instructions.push_back(asked);
      value.operands = {asked};
    }
    value.blocks = std::move(to);
    b[i]->instructions.push_back(module.add(std::move(value)));
  };
  end(0, Opcode::branch, {b[1], b[2]});
  end(1, Opcode::jump, {b[2]});
  end(2, Opcode::branch, {b[1], b[3]});
  end(3, Opcode::ret, {});
  const Structure form = structure(module, function).or_raise();
  EXPECT_EQ(form.selectors, 1U);
  EXPECT_EQ(form.loops.size(), 1U);
}

TEST(Structure, plain_statements_need_no_guards) {
  // if (a) x; else y; then a loop that is left at its end.
  Module module;
  Function function;
  for (int i = 0; i < 6; ++i) function.blocks.push_back(&function.body.emplace_back());
  const auto& b = function.blocks;
  const auto end = [&](size_t i, Opcode op, std::vector<Block*> to) {
    Value value{.kind = ValueKind::instruction, .op = op, .type = module.nothing(), .parent = b[i]};
    if (op == Opcode::branch) value.operands = {module.number(module.boolean(), 1)};
    value.blocks = std::move(to);
    b[i]->instructions.push_back(module.add(std::move(value)));
  };
  end(0, Opcode::branch, {b[1], b[2]});
  end(1, Opcode::jump, {b[3]});
  end(2, Opcode::jump, {b[3]});
  end(3, Opcode::jump, {b[4]});
  end(4, Opcode::branch, {b[4], b[5]});
  end(5, Opcode::ret, {});
  const Structure form = structure(module, function).or_raise();
  EXPECT_FALSE(form.has_guards);
  EXPECT_EQ(form.selectors, 0U);
  EXPECT_EQ(form.loops.size(), 1U);
}

}  // namespace
}  // namespace holdfast::kernel::ir
