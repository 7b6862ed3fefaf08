#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// What kernels for Vulkan are made of on their way from clang to SPIR-V: the part of LLVM's
// intermediate language that clang writes for them. A Module owns everything; pointers into it stay
// valid as long as it lives.
namespace holdfast::kernel::ir {

enum class TypeKind : uint8_t { nothing, integer, floating, pointer, vector, array, structure };

struct Type {
  TypeKind kind = TypeKind::nothing;
  uint32_t bits = 0;                  // of an integer or a floating number
  uint64_t count = 0;                 // of the elements of a vector or an array
  const Type* element = nullptr;      // of a vector or an array
  std::vector<const Type*> fields{};  // of a structure
  bool packed = false;                // a structure without gaps
  // Filled in by Module::type().
  uint64_t bytes = 0;
  uint64_t alignment = 1;

  bool is(TypeKind k) const noexcept { return kind == k; }
  bool is_integer(uint32_t width) const noexcept {
    return kind == TypeKind::integer && bits == width;
  }
};
// The low bits, as many as are asked for.
constexpr uint64_t bit_mask(uint32_t bits) {
  return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}
// Whether it is an integer of a width that SPIR-V has not. In memory it is bytes, and takes the
// room of the next width.
inline bool has_odd_width(const Type& type) noexcept {
  return type.is(TypeKind::integer) && type.bits != 1 && type.bits != 8 && type.bits != 16 &&
         type.bits != 32 && type.bits != 64;
}
// In memory, padding included; of types that Module::type() made.
uint64_t size_of(const Type& type);
uint64_t align_of(const Type& type);
uint64_t offset_of(const Type& structure, size_t field);

enum class Opcode : uint8_t {
  // Of two numbers.
  add,
  sub,
  mul,
  udiv,
  sdiv,
  urem,
  srem,
  shl,
  lshr,
  ashr,
  bit_and,
  bit_or,
  bit_xor,
  fadd,
  fsub,
  fmul,
  fdiv,
  frem,
  fneg,
  freeze,
  icmp,
  fcmp,
  select,
  // From one type to another.
  trunc,
  zext,
  sext,
  fptrunc,
  fpext,
  fptoui,
  fptosi,
  uitofp,
  sitofp,
  ptrtoint,
  inttoptr,
  bitcast,
  // Of memory.
  alloca,
  load,
  store,
  gep,
  // Of vectors and structures.
  extractelement,
  insertelement,
  shufflevector,
  extractvalue,
  insertvalue,
  phi,
  call,
  // The end of a block.
  jump,
  branch,
  choose,  // switch
  ret,
  unreachable,
};
bool ends_block(Opcode op) noexcept;

enum class Predicate : uint8_t {
  eq,
  ne,
  ugt,
  uge,
  ult,
  ule,
  sgt,
  sge,
  slt,
  sle,  // of integers and pointers
  oeq,
  one,
  ogt,
  oge,
  olt,
  ole,
  ord,
  ueq,
  une,
  uno,  // of floating numbers; also ugt to ule
  always,
  never,
};

enum class ValueKind : uint8_t {
  number,     // `bits`, of an integer or a floating type
  zero,       // of any type; a null pointer
  undefined,  // any value will do
  aggregate,  // `operands` are its elements
  global,     // the address of one
  argument,   // of the function, number `bits`
  instruction,
  expression,  // an instruction whose operands are all constant
};

// Where the text that a value comes from stands: an entry of Module::locations; 0: unknown.
using LocationId = uint32_t;

struct Block;
struct Global;
struct Function;

struct Value {
  ValueKind kind = ValueKind::undefined;
  Opcode op = Opcode::add;
  Predicate predicate = Predicate::eq;
  const Type* type = nullptr;  // of the result
  uint64_t bits = 0;           // a number's, in its low bits; an argument's place
  std::vector<Value*> operands{};
  // By opcode: the type that gep steps over, that alloca makes room for; else null.
  const Type* inner = nullptr;
  // A phi's, one for each operand; a terminator's targets: of a branch the one for true first, of a
  // switch the default first, then one for each operand behind the first.
  std::vector<Block*> blocks{};
  // Of extractvalue and insertvalue; a shuffle's mask (kAnyElement: any); how a call's arguments
  // are aligned.
  std::vector<uint32_t> indices{};
  Global* global = nullptr;
  std::string callee{};     // of a call: the function's name
  Block* parent = nullptr;  // of an instruction
  uint32_t align = 1;       // of a load or store
  LocationId location = 0;
  bool is_volatile = false;

  bool is(Opcode o) const noexcept {
    return (kind == ValueKind::instruction || kind == ValueKind::expression) && op == o;
  }
  bool is_constant() const noexcept {
    return kind != ValueKind::argument && kind != ValueKind::instruction;
  }
};
inline constexpr uint32_t kAnyElement = ~uint32_t{0};

struct Block {
  std::vector<Value*> instructions{};  // phis first; the last ends the block
  Value* end() const { return instructions.back(); }
};

struct Global {
  std::string name{};
  const Type* type = nullptr;  // of what it holds
  Value* initial = nullptr;    // null: declared elsewhere
  bool is_constant = false;
  std::string section{};
  Value* address = nullptr;
};

struct Function {
  std::string name{};
  const Type* result = nullptr;
  std::vector<Value*> arguments{};
  std::deque<Block> body{};      // owns
  std::vector<Block*> blocks{};  // in the order of the text; none: declared alone
};

// A place in the author's text, and the one that called it, where it was inlined.
struct Location {
  std::string file{};
  uint32_t line = 0;
  uint32_t column = 0;
  LocationId caller = 0;
};

struct Module {
  std::deque<Type> types{};
  std::deque<Value> values{};
  std::deque<Global> globals{};
  std::map<std::string, Function, std::less<>> functions{};
  std::vector<Location> locations{{}};

  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // The type with such content: of two calls with the same, one and the same.
  const Type* type(Type wanted);
  const Type* integer(uint32_t bits) { return type({.kind = TypeKind::integer, .bits = bits}); }
  const Type* boolean() { return integer(1); }
  const Type* floating(uint32_t bits) { return type({.kind = TypeKind::floating, .bits = bits}); }
  const Type* pointer() { return type({.kind = TypeKind::pointer}); }
  const Type* nothing() { return type({}); }

  Value* add(Value value) { return &values.emplace_back(std::move(value)); }
  Value* number(const Type* type, uint64_t bits) {
    return add({.kind = ValueKind::number, .type = type, .bits = bits});
  }
};

// Blocks that control reaches from the first one; what phis have of others is taken out.
void remove_unreachable(Function& function);

}  // namespace holdfast::kernel::ir
