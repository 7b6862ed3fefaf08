#include "holdfast/kernel/targets/vulkan/ir/wide_products.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

#include "holdfast/kernel/targets/vulkan/ir/ir_reader.h"

namespace holdfast::kernel::ir {
namespace {

// What the function's last value before its end is, in 64-bit arithmetic.
uint64_t last_value(const Function& function, uint64_t a, uint64_t b) {
  std::unordered_map<const Value*, uint64_t> known{{function.arguments[0], a},
                                                   {function.arguments[1], b}};
  uint64_t last = 0;
  for (const Value* value : function.blocks[0]->instructions) {
    if (ends_block(value->op)) break;
    EXPECT_LE(value->type->bits, 64U);
    const auto at = [&](size_t i) {
      const Value* operand = value->operands.at(i);
      return operand->kind == ValueKind::number ? operand->bits : known.at(operand);
    };
    switch (value->op) {
      case Opcode::add: last = at(0) + at(1); break;
      case Opcode::sub: last = at(0) - at(1); break;
      case Opcode::mul: last = at(0) * at(1); break;
      case Opcode::bit_and: last = at(0) & at(1); break;
      case Opcode::bit_or: last = at(0) | at(1); break;
      case Opcode::shl: last = at(0) << at(1); break;
      case Opcode::lshr: last = at(0) >> at(1); break;
      case Opcode::ashr: last = static_cast<uint64_t>(static_cast<int64_t>(at(0)) >> at(1)); break;
      case Opcode::trunc: last = at(0) & ((uint64_t{1} << value->type->bits) - 1); break;
      default: ADD_FAILURE() << "an operation that is not expected"; break;
    }
    known[value] = last;
  }
  return last;
}

// As clang 22 writes mulhi().
std::unique_ptr<Module> product_of(const char* extends, const char* shifts, int by,
                                   const char* to) {
  return read(fmt::format(R"(define void @f(i64 %0, i64 %1) {{
  %3 = {0} i64 %0 to i128
  %4 = {0} i64 %1 to i128
  %5 = mul nuw i128 %3, %4
  %6 = {1} i128 %5, {2}
  %7 = trunc i128 %6 to {3}
  ret void
}}
)",
                          extends, shifts, by, to))
      .or_raise();
}

TEST(WideProducts, become_products_of_halves) {
  __extension__ using Wide = __int128;
  __extension__ using WideUnsigned = unsigned __int128;
  std::mt19937_64 random(5);
  for (const int by : {1, 17, 63, 64, 65, 100}) {
    for (const bool sign : {false, true}) {
      for (const bool word : {false, true}) {
        const auto module =
            product_of(sign ? "sext" : "zext", sign ? "ashr" : "lshr", by, word ? "i64" : "i32");
        Function& function = module->functions.at("f");
        split_wide_products(*module, function);
        for (int i = 0; i < 50; ++i) {
          const uint64_t a = i == 0 ? ~uint64_t{0} : random() >> random() % 64;
          const uint64_t b = i < 2 ? uint64_t{1} << 63 : random();
          const auto product =
              sign ? static_cast<WideUnsigned>(
                         (static_cast<Wide>(static_cast<int64_t>(a)) * static_cast<int64_t>(b)) >>
                         by)
                   : (static_cast<WideUnsigned>(a) * b) >> by;
          const uint64_t wanted =
              word ? static_cast<uint64_t>(product) : static_cast<uint32_t>(product);
          ASSERT_EQ(last_value(function, a, b), wanted)
              << by << sign << word << " " << a << " " << b;
        }
      }
    }
  }
}

}  // namespace
}  // namespace holdfast::kernel::ir
