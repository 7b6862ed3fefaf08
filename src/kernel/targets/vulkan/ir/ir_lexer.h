#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::kernel::ir {

enum class TokenKind : uint8_t {
  end,
  word,      // add, i32, nuw
  label,     // entry:
  local,     // %x
  global,    // @x
  metadata,  // !dbg, !12
  group,     // #3
  number,    // -12, 0x3FF0000000000000, 1.0e+00
  string,    // "hf_threadgroup"
  sign,      // one of ,=()[]{}<>*| and others
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text{};  // without the mark in front of it; of a quoted name what is inside
  bool first = false;       // of its line
  bool is(TokenKind k) const noexcept { return kind == k; }
  bool is(char sign) const noexcept {
    return kind == TokenKind::sign && text.size() == 1 && text[0] == sign;
  }
  bool is(std::string_view word) const noexcept { return kind == TokenKind::word && text == word; }
};

// The tokens of LLVM's text, one after another; comments are left out. Any bytes have tokens.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { next(); }

  const Token& peek() const noexcept { return token_; }
  Token take() {
    const Token taken = token_;
    next();
    return taken;
  }
  // What the text has from the token on, for messages.
  std::string_view rest_of_line() const;
  void skip_line();

 private:
  void next();
  std::string_view name();  // quoted or not

  std::string_view text_;
  size_t at_ = 0;  // behind the token
  size_t token_at_ = 0;
  Token token_{};
};

}  // namespace holdfast::kernel::ir
