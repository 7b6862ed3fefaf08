#include "holdfast/kernel/targets/vulkan/ir/ir_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <unordered_map>
#include <utility>

#include "holdfast/kernel/float16.h"
#include "holdfast/kernel/targets/vulkan/ir/ir_lexer.h"
#include "holdfast/kernel/targets/vulkan/ir/ir_locations.h"

namespace holdfast::kernel::ir {
namespace {

struct NotUnderstood {
  std::string what;
};

template <typename T>
using Named = std::pair<std::string_view, T>;

template <typename T, size_t N>
const T* find(const std::array<Named<T>, N>& table, std::string_view name) {
  const auto it = std::ranges::find(table, name, &Named<T>::first);
  return it == table.end() ? nullptr : &it->second;
}

constexpr auto kBinary = std::to_array<Named<Opcode>>({
    {"add", Opcode::add},
    {"sub", Opcode::sub},
    {"mul", Opcode::mul},
    {"udiv", Opcode::udiv},
    {"sdiv", Opcode::sdiv},
    {"urem", Opcode::urem},
    {"srem", Opcode::srem},
    {"shl", Opcode::shl},
    {"lshr", Opcode::lshr},
    {"ashr", Opcode::ashr},
    {"and", Opcode::bit_and},
    {"or", Opcode::bit_or},
    {"xor", Opcode::bit_xor},
    {"fadd", Opcode::fadd},
    {"fsub", Opcode::fsub},
    {"fmul", Opcode::fmul},
    {"fdiv", Opcode::fdiv},
    {"frem", Opcode::frem},
});
constexpr auto kCasts = std::to_array<Named<Opcode>>({
    {"trunc", Opcode::trunc},
    {"zext", Opcode::zext},
    {"sext", Opcode::sext},
    {"fptrunc", Opcode::fptrunc},
    {"fpext", Opcode::fpext},
    {"fptoui", Opcode::fptoui},
    {"fptosi", Opcode::fptosi},
    {"uitofp", Opcode::uitofp},
    {"sitofp", Opcode::sitofp},
    {"ptrtoint", Opcode::ptrtoint},
    {"ptrtoaddr", Opcode::ptrtoint},
    {"inttoptr", Opcode::inttoptr},
    {"bitcast", Opcode::bitcast},
    {"addrspacecast", Opcode::bitcast},
});
constexpr auto kPredicates = std::to_array<Named<Predicate>>({
    {"eq", Predicate::eq},       {"ne", Predicate::ne},   {"ugt", Predicate::ugt},
    {"uge", Predicate::uge},     {"ult", Predicate::ult}, {"ule", Predicate::ule},
    {"sgt", Predicate::sgt},     {"sge", Predicate::sge}, {"slt", Predicate::slt},
    {"sle", Predicate::sle},     {"oeq", Predicate::oeq}, {"one", Predicate::one},
    {"ogt", Predicate::ogt},     {"oge", Predicate::oge}, {"olt", Predicate::olt},
    {"ole", Predicate::ole},     {"ord", Predicate::ord}, {"ueq", Predicate::ueq},
    {"une", Predicate::une},     {"uno", Predicate::uno}, {"true", Predicate::always},
    {"false", Predicate::never},
});
// Words that may stand between an opcode, or a type, and what follows it, and change nothing here.
constexpr std::array<std::string_view, 24> kFlags{
    "nuw",  "nsw",      "exact",  "disjoint", "nneg",     "samesign", "inbounds", "nusw",
    "nnan", "ninf",     "nsz",    "arcp",     "afn",      "reassoc",  "contract", "fast",
    "tail", "musttail", "notail", "atomic",   "volatile", "inrange",  "weak",     "syncscope"};
// Words that begin a constant.
constexpr std::array<std::string_view, 12> kConstants{"null",
                                                      "true",
                                                      "false",
                                                      "undef",
                                                      "poison",
                                                      "zeroinitializer",
                                                      "getelementptr",
                                                      "splat",
                                                      "none",
                                                      "c",
                                                      "dso_local_equivalent",
                                                      "no_cfi"};
constexpr int kDeepest = 64;

class Reader {
 public:
  Reader(std::string_view text, Module& module) : module_(module), lexer_(text), text_(text) {}

  void run() {
    find_type_names();
    while (!peek().is(TokenKind::end)) top_level();
    locations_.resolve(module_);
  }
  std::string_view here() const { return lexer_.rest_of_line(); }
  // Of the instruction whose text goes on here, innermost first; empty: it has none.
  std::vector<Location> place() {
    constexpr std::string_view kMark = "!dbg !";
    std::string_view line = here();
    const size_t at = line.find(kMark);
    if (at == line.npos) return {};
    uint32_t number = 0;
    line.remove_prefix(at + kMark.size());
    (void)std::from_chars(line.data(), line.data() + line.size(), number);
    // What says where it is stands at the end of the text.
    for (std::string_view rest = text_; !rest.empty();) {
      const size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
      if (rest.starts_with('!')) locations_.read_line(rest.substr(0, end));
      rest.remove_prefix(end);
    }
    Value* const marked = module_.add({.location = number});
    locations_.resolve(module_);
    std::vector<Location> places;
    for (LocationId id = marked->location; id != 0; id = module_.locations[id].caller) {
      places.push_back(module_.locations[id]);
    }
    return places;
  }

 private:
  const Token& peek() const { return lexer_.peek(); }
  Token take() { return lexer_.take(); }
  [[noreturn]] static void refuse(std::string what) { throw NotUnderstood{std::move(what)}; }

  bool accept(char sign) {
    if (!peek().is(sign)) return false;
    take();
    return true;
  }
  bool accept(std::string_view word) {
    if (!peek().is(word)) return false;
    take();
    return true;
  }
  void expect(char sign) {
    if (!accept(sign)) refuse(fmt::format("'{}' is missing", sign));
  }
  void expect(std::string_view word) {
    if (!accept(word)) refuse(fmt::format("'{}' is missing", word));
  }
  // From the opening sign, which is next, to the one that closes it.
  void skip_balanced() {
    int depth = 0;
    do {
      const Token token = take();
      if (token.is(TokenKind::end)) refuse("a bracket is not closed");
      if (token.is('(') || token.is('[') || token.is('{')) ++depth;
      if (token.is(')') || token.is(']') || token.is('}')) --depth;
    } while (depth > 0);
  }
  uint64_t unsigned_number() {
    const Token token = take();
    uint64_t value = 0;
    const char* end = token.text.data() + token.text.size();
    if (!token.is(TokenKind::number) || std::from_chars(token.text.data(), end, value).ptr != end) {
      refuse("a number is missing");
    }
    return value;
  }

  // ---- types ----

  const Type* checked(Type type) {
    const uint64_t element = type.element != nullptr ? size_of(*type.element) : 0;
    if (type.count != 0 && element > kMaxTypeBytes / type.count) refuse("a type is too large");
    const Type* made = module_.type(std::move(type));
    if (size_of(*made) > kMaxTypeBytes) refuse("a type is too large");
    return made;
  }

  bool begins_type() const {
    const Token& token = peek();
    if (token.is('[') || token.is('<') || token.is('{')) return true;
    if (token.is(TokenKind::local)) return type_texts_.contains(token.text);
    return token.is(TokenKind::word) && scalar(token.text) != nullptr;
  }
  const Type* scalar(std::string_view word) const {
    if (word == "ptr") return module_.pointer();
    if (word == "void" || word == "label" || word == "metadata" || word == "token") {
      return module_.nothing();
    }
    if (word == "half") return module_.floating(16);
    if (word == "float") return module_.floating(32);
    if (word == "double") return module_.floating(64);
    if (word.size() > 1 && word[0] == 'i') {
      uint32_t bits = 0;
      const char* end = word.data() + word.size();
      if (std::from_chars(word.data() + 1, end, bits).ptr != end) return nullptr;
      if (bits == 0 || bits > 128) return nullptr;
      return module_.integer(bits);
    }
    return nullptr;
  }
  const Type* type() {
    if (++depth_ > kDeepest) refuse("types are nested too deeply");
    const Type* result = type_itself();
    --depth_;
    return result;
  }
  const Type* type_itself() {
    const Token token = take();
    if (token.is(TokenKind::local)) return named_type(token.text);
    if (token.is(TokenKind::word)) {
      const Type* result = scalar(token.text);
      if (result == nullptr) refuse(fmt::format("the type '{}' is unknown", token.text));
      if (token.text == "ptr" && peek().is("addrspace")) {
        take();
        skip_balanced();
      }
      return result;
    }
    if (token.is('{')) return fields(false);
    if (token.is('<') && accept('{')) {
      const Type* result = fields(true);
      expect('>');
      return result;
    }
    if (token.is('[') || token.is('<')) {
      const bool vector = token.is('<');
      if (peek().is("vscale")) refuse("a vector of unknown length");
      const uint64_t count = unsigned_number();
      expect("x");
      const Type* element = type();
      expect(vector ? '>' : ']');
      if (vector && (count == 0 || count > 1024 || element->is(TypeKind::vector) ||
                     element->is(TypeKind::array) || element->is(TypeKind::structure) ||
                     element->is(TypeKind::nothing))) {
        refuse("a vector of a kind that is unknown");
      }
      if (vector && element->is(TypeKind::pointer)) {
        refuse("it has a vector of pointers; use an array of pointers");
      }
      return checked({.kind = vector ? TypeKind::vector : TypeKind::array,
                      .count = count,
                      .element = element});
    }
    refuse("a type is missing");
  }
  // Types may be used before the line that says what they are.
  void find_type_names() {
    std::string_view rest = text_;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      constexpr std::string_view kIs = " = type ";
      const size_t at = line.find(kIs);
      if (!line.starts_with('%') || at == line.npos) continue;
      std::string_view name = line.substr(1, at - 1);
      if (name.size() > 1 && name.front() == '"') name = name.substr(1, name.size() - 2);
      type_texts_[name] = line.substr(at + kIs.size());
    }
  }
  const Type* named_type(std::string_view name) {
    const auto known = named_.find(name);
    if (known != named_.end()) return known->second;
    const auto text = type_texts_.find(name);
    if (text == type_texts_.end()) refuse(fmt::format("the type %{} is unknown", name));
    if (text->second.starts_with("opaque")) return named_[name] = module_.nothing();
    const Lexer here = std::exchange(lexer_, Lexer(text->second));
    const Type* made = type();
    lexer_ = here;
    return named_[name] = made;
  }
  const Type* fields(bool packed) {
    Type result{.kind = TypeKind::structure, .packed = packed};
    if (!accept('}')) {
      do result.fields.push_back(type());
      while (accept(','));
      expect('}');
    }
    return checked(std::move(result));
  }
  // What stands before a function's name may be its whole type.
  const Type* result_type() {
    const Type* result = type();
    if (peek().is('(')) skip_balanced();
    return result;
  }

  // ---- constants and operands ----

  Value* constant(ValueKind kind, const Type* type) {
    return module_.add({.kind = kind, .type = type});
  }

  // Widths above 64 are read only as far as they fit.
  uint64_t integer_bits(std::string_view text, uint32_t width) {
    const bool negative = text.starts_with('-');
    const bool hex = text.starts_with("u0x") || text.starts_with("s0x");
    uint64_t value = 0;
    const char* begin = text.data() + (negative ? 1 : hex ? 3 : 0);
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, value, hex ? 16 : 10);
    if (error != std::errc() || stop != end) refuse("an integer is not understood");
    if (negative) value = 0 - value;
    return width >= 64 ? value : value & ((uint64_t{1} << width) - 1);
  }

  static uint64_t floating_bits(std::string_view text, uint32_t width) {
    const auto hex = [&](size_t skip) {
      uint64_t bits = 0;
      const char* end = text.data() + text.size();
      if (std::from_chars(text.data() + skip, end, bits, 16).ptr != end) {
        refuse("a floating number is not understood");
      }
      return bits;
    };
    if (text.starts_with("0xH")) return hex(3) & 0xffff;
    if (text.starts_with("0xK") || text.starts_with("0xL") || text.starts_with("0xM") ||
        text.starts_with("0xR")) {
      refuse("a floating number of a type that is unknown");
    }
    if (text.starts_with("f0x")) return hex(3);
    double value = 0;
    if (text.starts_with("0x")) {
      value = std::bit_cast<double>(hex(2));
    } else {
      const std::string copy(text);
      char* end = nullptr;
      value = std::strtod(copy.c_str(), &end);
      if (end != copy.c_str() + copy.size()) refuse("a floating number is not understood");
    }
    if (width == 64) return std::bit_cast<uint64_t>(value);
    const auto single = static_cast<float>(value);
    if (width == 32) return std::bit_cast<uint32_t>(single);
    return Float16(single).bits;
  }

  Value* value(const Type* type) {
    if (++depth_ > kDeepest) refuse("constants are nested too deeply");
    Value* result = value_itself(type);
    --depth_;
    return result;
  }
  Value* value_itself(const Type* type) {
    const Token token = peek();
    switch (token.kind) {
      case TokenKind::local: take(); return local(token.text, type);
      case TokenKind::global: take(); return global(token.text);
      case TokenKind::number:
        take();
        if (type->is(TypeKind::integer)) {
          return module_.number(type, integer_bits(token.text, type->bits));
        }
        if (!type->is(TypeKind::floating)) refuse("a number of a type that has none");
        return module_.number(type, floating_bits(token.text, type->bits));
      case TokenKind::word: take(); return constant_word(token.text, type);
      case TokenKind::sign: break;
      default: refuse("a value is missing");
    }
    if (token.is('[') || token.is('<') || token.is('{')) {
      take();
      const bool packed = token.is('<') && accept('{');
      const char close = token.is('[') ? ']' : packed || token.is('{') ? '}' : '>';
      Value* result = constant(ValueKind::aggregate, type);
      if (!accept(close)) {
        do {
          const Type* element = this->type();
          const size_t at = result->operands.size();
          const bool fits = type->is(TypeKind::structure)
                                ? at < type->fields.size() && type->fields[at] == element
                                : type->element == element;
          if (!fits) refuse("a constant with an element of another type");
          result->operands.push_back(value(element));
        } while (accept(','));
        expect(close);
      }
      if (packed) expect('>');
      const size_t wanted = type->is(TypeKind::structure) ? type->fields.size() : type->count;
      if (result->operands.size() != wanted) refuse("a constant with another number of elements");
      return result;
    }
    refuse("a value is missing");
  }
  Value* constant_word(std::string_view word, const Type* type) {
    if (word == "null" || word == "zeroinitializer" || word == "none") {
      return constant(ValueKind::zero, type);
    }
    if (word == "undef" || word == "poison") return constant(ValueKind::undefined, type);
    if (word == "true" || word == "false") return module_.number(type, word == "true" ? 1 : 0);
    if (word.starts_with("u0x") || word.starts_with("s0x")) {
      return module_.number(type, integer_bits(word, type->bits));
    }
    if (word.starts_with("f0x") && type->is(TypeKind::floating)) {
      return module_.number(type, floating_bits(word, type->bits));
    }
    if (word == "c") return characters(type);
    if (word == "splat") {
      if (!type->is(TypeKind::vector)) refuse("a splat that is no vector");
      expect('(');
      Value* element = typed_value();
      expect(')');
      if (element->type != type->element) refuse("a splat of another type");
      Value* result = constant(ValueKind::aggregate, type);
      result->operands.assign(type->count, element);
      return result;
    }
    return expression(word, type);
  }
  Value* characters(const Type* type) {
    const Token token = take();
    if (!token.is(TokenKind::string) || !type->is(TypeKind::array)) refuse("a text is missing");
    Value* result = constant(ValueKind::aggregate, type);
    for (size_t i = 0; i < token.text.size(); ++i) {
      auto c = static_cast<uint8_t>(token.text[i]);
      if (c == '\\' && i + 1 < token.text.size() && token.text[i + 1] == '\\') {
        ++i;
      } else if (c == '\\' && i + 2 < token.text.size()) {
        (void)std::from_chars(token.text.data() + i + 1, token.text.data() + i + 3, c, 16);
        i += 2;
      }
      result->operands.push_back(module_.number(type->element, c));
    }
    if (result->operands.size() != type->count) refuse("a text of another length");
    return result;
  }
  Value* expression(std::string_view word, const Type* type) {
    Value* result = constant(ValueKind::expression, type);
    skip_flags(*result);
    if (word == "getelementptr") {
      result->op = Opcode::gep;
      expect('(');
      result->inner = this->type();
      while (accept(',')) {
        skip_flags(*result);
        result->operands.push_back(typed_value());
      }
      expect(')');
      check_gep(*result);
      return result;
    }
    if (const Opcode* cast = find(kCasts, word)) {
      result->op = *cast;
      expect('(');
      result->operands = {typed_value()};
      expect("to");
      result->type = this->type();
      expect(')');
      return result;
    }
    if (const Opcode* binary = find(kBinary, word)) {
      result->op = *binary;
      expect('(');
      result->operands = {typed_value()};
      expect(',');
      result->operands.push_back(typed_value());
      expect(')');
      return result;
    }
    if (word == "blockaddress") refuse("it takes the address of a label; use switch");
    refuse(fmt::format("the constant '{}' is unknown", word));
  }
  Value* typed_value() {
    const Type* t = type();
    skip_attributes();
    return value(t);
  }

  Value* local(std::string_view name, const Type* type) {
    Value*& known = locals_[std::string(name)];
    if (known == nullptr) {
      known = module_.add({.kind = ValueKind::instruction, .type = type});
      ++undefined_;
    }
    return known;
  }
  Value* define(std::string_view name, Value value) {
    Value*& known = locals_[std::string(name)];
    if (known == nullptr) return known = module_.add(std::move(value));
    if (known->parent != nullptr || known->kind == ValueKind::argument) {
      refuse(fmt::format("%{} is there twice", name));
    }
    if (known->type != value.type) refuse(fmt::format("%{} has two types", name));
    --undefined_;
    *known = std::move(value);
    return known;
  }
  Value* global(std::string_view name) {
    Value*& known = globals_[std::string(name)];
    if (known == nullptr) {
      known = module_.add({.kind = ValueKind::global, .type = module_.pointer()});
    }
    return known;
  }
  Block* block(std::string_view name) {
    Block*& known = blocks_[std::string(name)];
    if (known == nullptr) known = &function_->body.emplace_back();
    return known;
  }
  Block* target() {
    expect("label");
    const Token token = take();
    if (!token.is(TokenKind::local)) refuse("the name of a block is missing");
    return block(token.text);
  }

  // ---- attributes ----

  void skip_flags(Value& into) {
    while (peek().is(TokenKind::word) && std::ranges::find(kFlags, peek().text) != kFlags.end()) {
      const Token flag = take();
      if (flag.text == "volatile") into.is_volatile = true;
      if (peek().is('(') && (flag.text == "inrange" || flag.text == "syncscope")) skip_balanced();
    }
  }
  bool begins_constant() const {
    const Token& t = peek();
    return std::ranges::find(kConstants, t.text) != kConstants.end() ||
           find(kCasts, t.text) != nullptr || find(kBinary, t.text) != nullptr ||
           t.text.starts_with("f0x") || t.text.starts_with("u0x") || t.text.starts_with("s0x");
  }
  // Of a parameter, an argument or a result: words before a value or a type. The alignment that
  // they promise.
  uint32_t skip_attributes() {
    uint32_t promised = 1;
    for (;;) {
      const Token& token = peek();
      if (token.is(TokenKind::string)) {
        take();
        if (accept('=')) take();
        continue;
      }
      if (!token.is(TokenKind::word) || begins_constant() || begins_type()) return promised;
      const bool align = token.text == "align";
      take();
      if (peek().is('(')) {
        skip_balanced();
      } else if (align && peek().is(TokenKind::number)) {
        promised = static_cast<uint32_t>(std::min<uint64_t>(unsigned_number(), 16));
      }
    }
  }
  void skip_rest_of_line() {
    while (!peek().first && !peek().is(TokenKind::end) && !peek().is(',')) {
      if (peek().is('[')) {
        skip_balanced();
      } else {
        take();
      }
    }
  }

  // ---- the module ----

  void top_level() {
    const Token& token = peek();
    if (token.is(TokenKind::global)) {
      global_definition();
    } else if (token.is("define")) {
      take();
      function_definition();
    } else if (token.is(TokenKind::metadata)) {
      locations_.read_line(lexer_.rest_of_line());
      lexer_.skip_line();
    } else {
      lexer_.skip_line();
    }
  }
  void global_definition() {
    const Token name = take();
    expect('=');
    Global& made = module_.globals.emplace_back();
    made.name = name.text;
    // Linkage, visibility and address space stand before what it is.
    while (!peek().is("global") && !peek().is("constant")) {
      if (peek().first || peek().is(TokenKind::end)) {  // an alias, an ifunc
        module_.globals.pop_back();
        return;
      }
      if (peek().is('('))
        skip_balanced();
      else
        take();
      if (peek().is("alias") || peek().is("ifunc")) {
        lexer_.skip_line();
        module_.globals.pop_back();
        return;
      }
    }
    made.is_constant = take().text == "constant";
    made.type = type();
    made.address = global(made.name);
    made.address->global = &made;
    if (!peek().first && !peek().is(',') && !peek().is(TokenKind::end)) {
      made.initial = value(made.type);
    }
    while (accept(',')) {
      if (accept("section"))
        made.section = take().text;
      else if (peek().is(TokenKind::metadata) || peek().is(TokenKind::word)) {
        take();
        if (!peek().is(',') && !peek().first && !peek().is(TokenKind::end)) {
          if (peek().is('('))
            skip_balanced();
          else
            take();
        }
      }
    }
    while (!peek().first && !peek().is(TokenKind::end)) take();
  }

  void function_definition() {
    // Linkage and attributes of the result, then its type.
    skip_attributes();
    Function made;
    made.result = result_type();
    const Token name = take();
    if (!name.is(TokenKind::global)) refuse("the name of a function is missing");
    made.name = name.text;
    auto [place, fresh] = module_.functions.emplace(made.name, std::move(made));
    if (!fresh) refuse(fmt::format("@{} is there twice", name.text));
    function_ = &place->second;
    locals_.clear();
    blocks_.clear();
    undefined_ = 0;
    unnamed_ = 0;
    expect('(');
    if (!accept(')')) {
      do parameter();
      while (accept(','));
      expect(')');
    }
    while (!peek().is('{')) {
      if (peek().is(TokenKind::end)) refuse("a function has no body");
      take();
    }
    take();
    body();
    if (undefined_ != 0) refuse(fmt::format("@{} uses a value that is not there", name.text));
    for (const auto& [label, block] : blocks_) {
      if (block->instructions.empty()) refuse(fmt::format("the block %{} is not there", label));
    }
    for (const Block* block : function_->blocks) check_phis(*block);
  }
  void parameter() {
    if (accept('.')) {
      refuse("a function with any number of arguments");
    }
    const Type* t = type();
    skip_attributes();
    const std::string name =
        peek().is(TokenKind::local) ? std::string(take().text) : std::to_string(unnamed_);
    if (name == std::to_string(unnamed_)) ++unnamed_;
    function_->arguments.push_back(define(
        name, {.kind = ValueKind::argument, .type = t, .bits = function_->arguments.size()}));
  }

  void body() {
    block_ = nullptr;
    while (!peek().is('}')) {
      if (peek().is(TokenKind::end)) refuse("a function does not end");
      if (peek().is(TokenKind::group)) {  // #dbg_value(...)
        lexer_.skip_line();
        continue;
      }
      if (peek().is(TokenKind::label)) {
        begin_block(take().text);
        continue;
      }
      if (block_ == nullptr) begin_block(std::to_string(unnamed_));
      instruction();
    }
    take();
    if (block_ != nullptr) refuse("a block does not end");
    if (function_->blocks.empty()) refuse("a function without blocks");
  }
  void begin_block(std::string_view name) {
    if (block_ != nullptr) refuse("a block does not end");
    block_ = block(name);
    if (!block_->instructions.empty()) refuse(fmt::format("the block %{} is there twice", name));
    function_->blocks.push_back(block_);
  }

  // ---- instructions ----

  void instruction() {
    Value made{.kind = ValueKind::instruction};
    std::string_view name;
    bool named = false;
    if (peek().is(TokenKind::local)) {
      name = take().text;
      named = true;
      expect('=');
    }
    const Token opcode = take();
    if (!opcode.is(TokenKind::word)) refuse("an instruction is missing");
    parse(opcode.text, made);
    // ", !dbg !12"
    while (accept(',')) {
      if (!peek().is(TokenKind::metadata)) refuse("an instruction is not understood");
      const Token kind = take();
      if (peek().is(TokenKind::metadata)) {
        const Token number = take();
        if (kind.text == "dbg") {
          (void)std::from_chars(number.text.data(), number.text.data() + number.text.size(),
                                made.location);
        }
        if (peek().is('{') || peek().is('(')) skip_balanced();
      } else if (peek().is('{')) {
        skip_balanced();
      }
    }
    if (!peek().first && !peek().is('}')) refuse("an instruction is not understood");
    made.parent = block_;
    if (made.type == nullptr) made.type = module_.nothing();
    Value* placed = nullptr;
    if (named) {
      if (made.type->is(TypeKind::nothing)) refuse("an instruction without a result has a name");
      placed = define(name, std::move(made));
    } else {
      placed = module_.add(std::move(made));
    }
    if (placed->is(Opcode::phi) && !block_->instructions.empty() &&
        !block_->instructions.back()->is(Opcode::phi)) {
      refuse("a phi behind another instruction");
    }
    block_->instructions.push_back(placed);
    if (ends_block(placed->op)) block_ = nullptr;
  }

  void parse(std::string_view op, Value& made) {
    skip_flags(made);
    if (op == "tail" || op == "musttail" || op == "notail") op = take().text;
    if (const Opcode* binary = find(kBinary, op)) return parse_binary(*binary, made);
    if (const Opcode* cast = find(kCasts, op)) {
      made.op = *cast;
      made.operands = {typed_value()};
      expect("to");
      made.type = type();
      return;
    }
    if (op == "icmp" || op == "fcmp") return parse_compare(op == "icmp", made);
    if (op == "fneg" || op == "freeze") {
      made.op = op == "fneg" ? Opcode::fneg : Opcode::freeze;
      made.operands = {typed_value()};
      made.type = made.operands[0]->type;
      return;
    }
    if (op == "select") {
      made.op = Opcode::select;
      made.operands = {typed_value()};
      for (int i = 0; i < 2; ++i) {
        expect(',');
        made.operands.push_back(typed_value());
      }
      made.type = made.operands[1]->type;
      if (made.operands[2]->type != made.type) refuse("a select of two types");
      return;
    }
    if (op == "phi") return parse_phi(made);
    if (op == "alloca") return parse_alloca(made);
    if (op == "load" || op == "store") return parse_access(op == "load", made);
    if (op == "getelementptr") return parse_gep(made);
    if (op == "call") return parse_call(made);
    if (op == "br" || op == "switch" || op == "ret" || op == "unreachable") {
      return parse_end(op, made);
    }
    if (op == "extractelement" || op == "insertelement" || op == "shufflevector") {
      return parse_vector(op, made);
    }
    if (op == "extractvalue" || op == "insertvalue") return parse_part(op == "extractvalue", made);
    if (op == "indirectbr") refuse("it jumps to a label by its address; use switch");
    if (op == "invoke" || op == "resume") refuse("it has exceptions; return a value instead");
    if (op == "va_arg") refuse("it has a function with any number of arguments; use a template");
    refuse(fmt::format("it needs LLVM's instruction '{}', which is not known here", op));
  }
  void parse_binary(Opcode op, Value& made) {
    made.op = op;
    made.operands = {typed_value()};
    made.type = made.operands[0]->type;
    expect(',');
    made.operands.push_back(value(made.type));
  }
  void parse_compare(bool integers, Value& made) {
    made.op = integers ? Opcode::icmp : Opcode::fcmp;
    const Predicate* predicate = find(kPredicates, take().text);
    if (predicate == nullptr) refuse("a comparison is not understood");
    made.predicate = *predicate;
    made.operands = {typed_value()};
    const Type* t = made.operands[0]->type;
    expect(',');
    made.operands.push_back(value(t));
    made.type =
        t->is(TypeKind::vector)
            ? module_.type(
                  {.kind = TypeKind::vector, .count = t->count, .element = module_.boolean()})
            : module_.boolean();
  }
  void parse_phi(Value& made) {
    made.op = Opcode::phi;
    made.type = type();
    do {
      expect('[');
      made.operands.push_back(value(made.type));
      expect(',');
      const Token from = take();
      if (!from.is(TokenKind::local)) refuse("the name of a block is missing");
      made.blocks.push_back(block(from.text));
      expect(']');
    } while (peek().is(',') && next_is_bracket());
  }
  // After the comma of a phi: another value, or metadata.
  bool next_is_bracket() {
    Lexer ahead = lexer_;
    ahead.take();
    if (!ahead.peek().is('[')) return false;
    take();
    return true;
  }
  void parse_alloca(Value& made) {
    made.op = Opcode::alloca;
    accept("inalloca");
    made.inner = type();
    made.type = module_.pointer();
    while (peek().is(',') && !metadata_follows()) {
      take();
      if (accept("align")) {
        (void)unsigned_number();
      } else if (accept("addrspace")) {
        skip_balanced();
      } else {
        const Value* count = typed_value();
        if (count->kind != ValueKind::number) {
          refuse("it has an array whose length is not constant; give it the largest length");
        }
        made.inner =
            checked({.kind = TypeKind::array, .count = count->bits, .element = made.inner});
      }
    }
  }
  bool metadata_follows() const {
    Lexer ahead = lexer_;
    ahead.take();
    return ahead.peek().is(TokenKind::metadata);
  }
  void parse_access(bool load, Value& made) {
    made.op = load ? Opcode::load : Opcode::store;
    if (load) {
      made.type = type();
    } else {
      made.operands.push_back(typed_value());
      made.type = module_.nothing();
    }
    expect(',');
    made.operands.push_back(typed_value());
    if (!made.operands.back()->type->is(TypeKind::pointer)) refuse("an access without a pointer");
    while (peek().is(',') && !metadata_follows()) {
      take();
      expect("align");
      const uint64_t align = unsigned_number();
      if (!std::has_single_bit(align)) refuse("an alignment is not understood");
      made.align = static_cast<uint32_t>(std::min<uint64_t>(align, 16));
    }
  }
  void check_gep(const Value& made) {
    if (made.operands.empty() || !made.operands[0]->type->is(TypeKind::pointer)) {
      refuse("an address without a pointer");
    }
    const Type* t = made.inner;
    for (size_t i = 1; i < made.operands.size(); ++i) {
      const Value* index = made.operands[i];
      if (!index->type->is(TypeKind::integer)) refuse("an address of several pointers");
      if (i == 1) continue;
      if (t->is(TypeKind::structure)) {
        const uint64_t field = index->kind == ValueKind::zero ? 0 : index->bits;
        const bool known = index->kind == ValueKind::number || index->kind == ValueKind::zero;
        if (!known || field >= t->fields.size()) refuse("a field that is not there");
        t = t->fields[field];
      } else if (t->element != nullptr) {
        t = t->element;
      } else {
        refuse("an element of what has none");
      }
    }
  }
  void parse_gep(Value& made) {
    made.op = Opcode::gep;
    made.inner = type();
    made.type = module_.pointer();
    while (peek().is(',') && !metadata_follows()) {
      take();
      made.operands.push_back(typed_value());
    }
    check_gep(made);
  }
  void parse_call(Value& made) {
    made.op = Opcode::call;
    skip_flags(made);
    skip_attributes();
    made.type = result_type();
    const Token name = take();
    if (!name.is(TokenKind::global)) {
      if (name.is("asm")) refuse("it has inline assembly; write that in C++");
      refuse(
          "it calls a function through a pointer, or a virtual one; choose with if or switch, or "
          "make the function a template's argument");
    }
    made.callee = name.text;
    expect('(');
    if (!accept(')')) {
      do argument(made);
      while (accept(','));
      expect(')');
    }
    const bool moves = made.callee.starts_with("llvm.memcpy") ||
                       made.callee.starts_with("llvm.memmove") ||
                       made.callee.starts_with("llvm.memset");
    if (moves && made.operands.size() < 3) refuse("memory is moved without saying how much");
    skip_rest_of_line();
  }
  void argument(Value& made) {
    if (accept("metadata")) {
      // Of what debuggers want: to the comma or the end.
      while (!peek().is(',') && !peek().is(')')) {
        if (peek().is(TokenKind::end)) refuse("a call does not end");
        if (peek().is('('))
          skip_balanced();
        else
          take();
      }
      return;
    }
    const Type* t = type();
    made.indices.push_back(skip_attributes());
    made.operands.push_back(value(t));
  }
  void parse_end(std::string_view op, Value& made) {
    made.type = module_.nothing();
    if (op == "unreachable") {
      made.op = Opcode::unreachable;
    } else if (op == "ret") {
      made.op = Opcode::ret;
      const Type* t = type();
      if (t != function_->result) refuse("a function returns another type than its own");
      if (!t->is(TypeKind::nothing)) made.operands = {value(t)};
    } else if (op == "br") {
      if (peek().is("label")) {
        made.op = Opcode::jump;
        made.blocks = {target()};
        return;
      }
      made.op = Opcode::branch;
      made.operands = {typed_value()};
      if (!made.operands[0]->type->is_integer(1)) refuse("a branch on what is no truth");
      for (int i = 0; i < 2; ++i) {
        expect(',');
        made.blocks.push_back(target());
      }
    } else {
      made.op = Opcode::choose;
      made.operands = {typed_value()};
      const Type* t = made.operands[0]->type;
      if (!t->is(TypeKind::integer)) refuse("a switch over what is no integer");
      expect(',');
      made.blocks = {target()};
      expect('[');
      while (!accept(']')) {
        const Type* of_case = type();
        if (of_case != t) refuse("a case of another type");
        made.operands.push_back(value(t));
        if (made.operands.back()->kind != ValueKind::number) refuse("a case that is no number");
        expect(',');
        made.blocks.push_back(target());
      }
    }
  }
  void parse_vector(std::string_view op, Value& made) {
    made.operands = {typed_value()};
    const Type* vector = made.operands[0]->type;
    if (!vector->is(TypeKind::vector)) refuse("an element of what is no vector");
    expect(',');
    made.operands.push_back(typed_value());
    if (op == "extractelement") {
      made.op = Opcode::extractelement;
      made.type = vector->element;
      return;
    }
    expect(',');
    if (op == "insertelement") {
      made.op = Opcode::insertelement;
      made.type = vector;
      made.operands.push_back(typed_value());
      return;
    }
    made.op = Opcode::shufflevector;
    if (made.operands[1]->type != vector) refuse("a shuffle of two types");
    const Value* mask = typed_value();
    if (!mask->type->is(TypeKind::vector)) refuse("a shuffle without a mask");
    for (uint64_t i = 0; i < mask->type->count; ++i) {
      const Value* one = mask->kind == ValueKind::aggregate ? mask->operands[i] : mask;
      uint32_t index = kAnyElement;
      if (one->kind == ValueKind::zero) index = 0;
      if (one->kind == ValueKind::number) index = static_cast<uint32_t>(one->bits);
      if (index != kAnyElement && index >= 2 * vector->count) refuse("a mask beyond its vectors");
      made.indices.push_back(index);
    }
    made.type = module_.type(
        {.kind = TypeKind::vector, .count = mask->type->count, .element = vector->element});
  }
  void parse_part(bool extract, Value& made) {
    made.op = extract ? Opcode::extractvalue : Opcode::insertvalue;
    made.operands = {typed_value()};
    const Type* whole = made.operands[0]->type;
    if (!extract) {
      expect(',');
      made.operands.push_back(typed_value());
    }
    const Type* part = whole;
    while (peek().is(',') && !metadata_follows()) {
      take();
      const uint64_t index = unsigned_number();
      const uint64_t count = part->is(TypeKind::structure) ? part->fields.size()
                             : part->is(TypeKind::array)   ? part->count
                                                           : 0;
      if (index >= count) refuse("a part that is not there");
      part = part->is(TypeKind::structure) ? part->fields[index] : part->element;
      made.indices.push_back(static_cast<uint32_t>(index));
    }
    made.type = extract ? part : whole;
    if (!extract && made.operands[1]->type != part) refuse("a part of another type");
  }

  // A phi has a value for each edge into its block, by the block that it comes from.
  void check_phis(const Block& block) {
    for (const Value* phi : block.instructions) {
      if (!phi->is(Opcode::phi)) break;
      for (const Block* from : phi->blocks) {
        if (std::ranges::find(function_->blocks, from) == function_->blocks.end() ||
            std::ranges::find(from->end()->blocks, &block) == from->end()->blocks.end()) {
          refuse("a phi of a block that does not come before it");
        }
      }
    }
    for (const Block* next : block.end()->blocks) {
      for (const Value* phi : next->instructions) {
        if (!phi->is(Opcode::phi)) break;
        if (std::ranges::find(phi->blocks, &block) == phi->blocks.end()) {
          refuse("a phi without a value for a block that comes before it");
        }
      }
    }
  }

  Module& module_;
  LocationReader locations_;
  Lexer lexer_;
  std::string_view text_;
  int depth_ = 0;
  std::unordered_map<std::string_view, std::string_view> type_texts_;
  std::unordered_map<std::string_view, const Type*> named_;
  std::unordered_map<std::string, Value*> globals_;
  // Of the function that is being read.
  Function* function_ = nullptr;
  Block* block_ = nullptr;
  std::unordered_map<std::string, Value*> locals_;
  std::unordered_map<std::string, Block*> blocks_;
  size_t undefined_ = 0;
  size_t unnamed_ = 0;
};

}  // namespace

Result<std::unique_ptr<Module>> read(std::string_view text, std::vector<Location>* place) {
  auto module = std::make_unique<Module>();
  Reader reader(text, *module);
  try {
    reader.run();
  } catch (const NotUnderstood& error) {
    std::vector<Location> places = reader.place();
    const bool placed = place != nullptr && !places.empty();
    if (placed) *place = std::move(places);
    // What an author can change needs no word of LLVM's.
    const bool of_author = error.what.starts_with("it ");
    return Failure(ErrorCode::unsupported, placed || of_author
                                               ? error.what
                                               : fmt::format("{}, before or at: {}", error.what,
                                                             reader.here().substr(0, 160)));
  }
  return module;
}

}  // namespace holdfast::kernel::ir
