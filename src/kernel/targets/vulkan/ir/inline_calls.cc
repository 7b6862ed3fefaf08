#include "holdfast/kernel/targets/vulkan/ir/inline_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "holdfast/kernel/targets/vulkan/ir/plain_name.h"
#include "holdfast/kernel/targets/vulkan/ir/refused.h"

namespace holdfast::kernel::ir {
namespace {

constexpr size_t kMostInstructions = 200'000;

class Inliner {
 public:
  Inliner(Module& module, Function& function) : module_(module), function_(function) {}

  void run() {
    // Blocks that a call leaves behind stand after it, and are looked at in their turn.
    for (size_t i = 0; i < function_.blocks.size(); ++i) {
      Block* block = function_.blocks[i];
      const auto at = std::ranges::find_if(block->instructions,
                                           [&](const Value* v) { return called(*v) != nullptr; });
      if (at == block->instructions.end()) continue;
      put_in(i, static_cast<size_t>(at - block->instructions.begin()));
    }
  }

 private:
  Function* called(const Value& value) {
    if (!value.is(Opcode::call)) return nullptr;
    const auto it = module_.functions.find(value.callee);
    return it == module_.functions.end() ? nullptr : &it->second;
  }

  void put_in(size_t block_index, size_t at) {
    Block* block = function_.blocks[block_index];
    Value* call = block->instructions[at];
    const Function& callee = *called(*call);
    std::vector<const Function*> chain = chains_[block];
    if (&callee == &function_ || std::ranges::find(chain, &callee) != chain.end()) {
      throw Refused{fmt::format("the function '{}' calls itself, which no GPU does through "
                                "Vulkan; write it as a loop",
                                plain_name(callee.name)),
                    call->location};
    }
    if (call->operands.size() != callee.arguments.size() || call->type != callee.result) {
      throw Refused{
          fmt::format("the function '{}' is called with other arguments", plain_name(callee.name)),
          call->location};
    }

    Block* tail = &function_.body.emplace_back();
    chains_[tail] = chain;
    const auto begin = block->instructions.begin();
    tail->instructions.assign(begin + static_cast<ptrdiff_t>(at) + 1, block->instructions.end());
    block->instructions.resize(at);
    for (Value* moved : tail->instructions) moved->parent = tail;
    for (Block* next : tail->end()->blocks) {
      for (Value* phi : next->instructions) {
        if (!phi->is(Opcode::phi)) break;
        std::ranges::replace(phi->blocks, block, tail);
      }
    }
    chain.push_back(&callee);
    const std::vector<Block*> copies = copy(callee, *call, chain);
    size_ += copies.size();
    block->instructions.push_back(jump(copies.front(), block, call->location));
    finish(copies, *call, tail);
    if (size_ > kMostInstructions) {
      throw Refused{
          "it is too long with all functions that it calls put in their places; make the kernel "
          "smaller",
          call->location};
    }
    auto place = function_.blocks.begin() + static_cast<ptrdiff_t>(block_index) + 1;
    place = function_.blocks.insert(place, copies.begin(), copies.end());
    function_.blocks.insert(place + static_cast<ptrdiff_t>(copies.size()), tail);
  }

  Value* jump(Block* to, Block* from, LocationId location) {
    return module_.add({.kind = ValueKind::instruction,
                        .op = Opcode::jump,
                        .type = module_.nothing(),
                        .blocks = {to},
                        .parent = from,
                        .location = location});
  }

  std::vector<Block*> copy(const Function& callee, const Value& call,
                           const std::vector<const Function*>& chain) {
    std::unordered_map<const Value*, Value*> values;
    std::unordered_map<const Block*, Block*> blocks;
    std::vector<Block*> made;
    for (size_t i = 0; i < callee.arguments.size(); ++i) {
      values[callee.arguments[i]] = call.operands[i];
    }
    for (const Block* block : callee.blocks) {
      made.push_back(&function_.body.emplace_back());
      chains_[made.back()] = chain;
      blocks[block] = made.back();
      for (const Value* value : block->instructions) values[value] = module_.add(*value);
      size_ += block->instructions.size();
    }
    for (const Block* block : callee.blocks) {
      Block* into = blocks.at(block);
      for (const Value* value : block->instructions) {
        Value* own = values.at(value);
        own->parent = into;
        for (Value*& operand : own->operands) {
          if (const auto it = values.find(operand); it != values.end()) operand = it->second;
        }
        for (Block*& target : own->blocks) target = blocks.at(target);
        into->instructions.push_back(own);
      }
    }
    return made;
  }

  // Returns go on behind the call, which becomes the phi of what they return.
  void finish(const std::vector<Block*>& copies, Value& call, Block* tail) {
    const bool has_result = !call.type->is(TypeKind::nothing);
    call.op = Opcode::phi;
    call.callee.clear();
    call.operands.clear();
    call.parent = tail;
    for (Block* block : copies) {
      Value* end = block->end();
      if (!end->is(Opcode::ret)) continue;
      if (has_result) {
        call.operands.push_back(end->operands[0]);
        call.blocks.push_back(block);
      }
      block->instructions.back() = jump(tail, block, end->location);
    }
    if (has_result) tail->instructions.insert(tail->instructions.begin(), &call);
  }

  Module& module_;
  Function& function_;
  std::unordered_map<const Block*, std::vector<const Function*>> chains_;
  size_t size_ = 0;
};

}  // namespace

void inline_calls(Module& module, Function& function) { Inliner(module, function).run(); }

}  // namespace holdfast::kernel::ir
