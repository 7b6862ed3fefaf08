#include "holdfast/kernel/targets/vulkan/ir/wide_products.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

namespace holdfast::kernel::ir {
namespace {

// The factor of a product, as a number of 64 bits.
struct Factor {
  Value* value = nullptr;
  bool has_sign = false;
};

class Splitter {
 public:
  Splitter(Module& module, Function& function) : module_(module), function_(function) {}

  void run() {
    for (Block* block : function_.blocks) {
      const std::vector<Value*> before = std::exchange(block->instructions, {});
      block_ = block;
      for (Value* value : before) {
        if (value->is(Opcode::trunc)) split(*value);
        block->instructions.push_back(value);
      }
    }
    if (found_) remove_unused();
  }

 private:
  static bool is_wide(const Value& value) { return value.type->is_integer(128); }

  std::optional<Factor> factor_of(Value* value, bool others_sign) const {
    if (value->kind == ValueKind::number) {
      // Of those above 64 bits the reader knows nothing.
      return Factor{module_.number(module_.integer(64), value->bits), others_sign};
    }
    const bool extends = value->is(Opcode::zext) || value->is(Opcode::sext);
    if (!extends || !value->operands[0]->type->is_integer(64)) return std::nullopt;
    return Factor{value->operands[0], value->is(Opcode::sext)};
  }

  void split(Value& value) {
    if (value.operands.empty() || !is_wide(*value.operands[0]) || value.type->bits > 64) return;
    Value* product = value.operands[0];
    uint64_t shift = 0;
    bool with_sign = false;
    if (product->is(Opcode::lshr) || product->is(Opcode::ashr)) {
      const Value& by = *product->operands[1];
      if (by.kind != ValueKind::number || by.bits >= 128) return;
      shift = by.bits;
      with_sign = product->is(Opcode::ashr);
      product = product->operands[0];
    }
    if (!product->is(Opcode::mul)) return;
    const bool sign = std::ranges::any_of(
        product->operands, [](const Value* operand) { return operand->is(Opcode::sext); });
    const auto a = factor_of(product->operands[0], sign);
    const auto b = factor_of(product->operands[1], sign);
    if (!a || !b || a->has_sign != b->has_sign) return;
    found_ = true;
    at_ = value.location;
    Value* bits = nullptr;
    if (shift < 64) {
      bits = add(Opcode::mul, a->value, b->value);
      if (shift > 0) {
        Value* const above = add(Opcode::shl, high_of(*a, *b), word(64 - shift));
        bits = add(Opcode::bit_or, add(Opcode::lshr, bits, word(shift)), above);
      }
    } else {
      bits = high_of(*a, *b);
      if (shift > 64) bits = add(with_sign ? Opcode::ashr : Opcode::lshr, bits, word(shift - 64));
    }
    if (value.type->bits < 64) {
      value.operands = {bits};
    } else {
      value.op = Opcode::bit_or;
      value.operands = {bits, word(0)};
    }
  }

  // By halves, of which no sum is larger than 64 bits.
  Value* high_of(const Factor& a, const Factor& b) {
    const auto low = [&](Value* of) { return add(Opcode::bit_and, of, word(0xffffffff)); };
    const auto high = [&](Value* of) { return add(Opcode::lshr, of, word(32)); };
    const auto product = [&](Value* x, Value* y) { return add(Opcode::mul, x, y); };
    const auto sum = [&](Value* x, Value* y) { return add(Opcode::add, x, y); };
    Value* const low_a = low(a.value);
    Value* const low_b = low(b.value);
    Value* const high_a = high(a.value);
    Value* const high_b = high(b.value);
    Value* const inner = sum(product(high_a, low_b), high(product(low_a, low_b)));
    Value* const outer = sum(product(low_a, high_b), low(inner));
    Value* result = sum(sum(product(high_a, high_b), high(inner)), high(outer));
    if (!a.has_sign) return result;
    for (const auto& [one, other] : {std::pair{a.value, b.value}, std::pair{b.value, a.value}}) {
      Value* const all_if_negative = add(Opcode::ashr, one, word(63));
      result = add(Opcode::sub, result, add(Opcode::bit_and, all_if_negative, other));
    }
    return result;
  }

  Value* word(uint64_t bits) { return module_.number(module_.integer(64), bits); }
  Value* add(Opcode op, Value* a, Value* b) {
    Value* const made = module_.add({.kind = ValueKind::instruction,
                                     .op = op,
                                     .type = module_.integer(64),
                                     .operands = {a, b},
                                     .parent = block_,
                                     .location = at_});
    block_->instructions.push_back(made);
    return made;
  }

  // What of 128 bits nothing needs any more. None of them has an effect.
  void remove_unused() {
    for (bool removed = true; removed;) {
      std::unordered_map<const Value*, uint32_t> uses;
      for (const Block* block : function_.blocks) {
        for (const Value* value : block->instructions) {
          for (const Value* operand : value->operands) ++uses[operand];
        }
      }
      removed = false;
      for (Block* block : function_.blocks) {
        removed |= std::erase_if(block->instructions, [&](const Value* value) {
                     const bool pure = value->is(Opcode::zext) || value->is(Opcode::sext) ||
                                       value->is(Opcode::mul) || value->is(Opcode::lshr) ||
                                       value->is(Opcode::ashr);
                     return is_wide(*value) && pure && !uses.contains(value);
                   }) > 0;
      }
    }
  }

  Module& module_;
  Function& function_;
  Block* block_ = nullptr;
  LocationId at_ = 0;
  bool found_ = false;
};

}  // namespace

void split_wide_products(Module& module, Function& function) { Splitter(module, function).run(); }

}  // namespace holdfast::kernel::ir
