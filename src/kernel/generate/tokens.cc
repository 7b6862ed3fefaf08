#include "holdfast/kernel/generate/tokens.h"

namespace holdfast::kernel {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Bytes of UTF-8 and `$`, which compilers take too, belong to identifiers.
bool begins_identifier(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool continues_identifier(char c) { return begins_identifier(c) || is_digit(c); }

bool is_encoding_prefix(std::string_view text) {
  return text == "L" || text == "u" || text == "U" || text == "u8";
}
bool is_raw_prefix(std::string_view text) {
  return text.ends_with('R') &&
         (text.size() == 1 || is_encoding_prefix(text.substr(0, text.size() - 1)));
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    while (skip_gap()) {
      const size_t begin = at_;
      const bool directive_mark = text_[at_] == '#' && line_is_blank_;
      if (directive_mark) in_directive_ = true;
      line_is_blank_ = false;
      const TokenKind kind = take();
      const bool member = kind == TokenKind::identifier && !tokens_.empty() &&
                          (tokens_.back().text == "." || tokens_.back().text == "->");
      tokens_.push_back({kind, text_.substr(begin, at_ - begin), begin, member, in_directive_});
    }
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool ended() const { return at_ >= text_.size(); }
  bool starts(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  // The length of a backslash with its line end; 0 for others.
  size_t continuation() const {
    if (peek() != '\\') return 0;
    if (peek(1) == '\n') return 2;
    return peek(1) == '\r' && peek(2) == '\n' ? 3 : 0;
  }

  // To the next token; false at the end of the text.
  bool skip_gap() {
    while (!ended()) {
      const char c = peek();
      if (const size_t length = continuation()) {
        at_ += length;
      } else if (c == '\n') {
        ++at_;
        line_is_blank_ = true;
        in_directive_ = false;
      } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
        ++at_;
      } else if (starts("//")) {
        while (!ended() && peek() != '\n') {
          const size_t joined = continuation();
          at_ += joined ? joined : 1;
        }
      } else if (starts("/*")) {
        const size_t end = text_.find("*/", at_ + 2);
        at_ = end == text_.npos ? text_.size() : end + 2;
      } else {
        return true;
      }
    }
    return false;
  }

  TokenKind take() {
    const char c = peek();
    if (begins_identifier(c)) return take_word();
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      take_number();
      return TokenKind::number;
    }
    if (c == '"' || c == '\'') {
      take_quoted(c);
      return TokenKind::literal;
    }
    for (const std::string_view mark : {"...", "->", "::"}) {
      if (starts(mark)) {
        at_ += mark.size();
        return TokenKind::punctuation;
      }
    }
    ++at_;
    return TokenKind::punctuation;
  }

  // An identifier, or the literal whose prefix it is.
  TokenKind take_word() {
    const size_t begin = at_;
    while (!ended() && continues_identifier(peek())) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (peek() == '"' && is_raw_prefix(word)) {
      take_raw();
      return TokenKind::literal;
    }
    if ((peek() == '"' || peek() == '\'') && is_encoding_prefix(word)) {
      take_quoted(peek());
      return TokenKind::literal;
    }
    return TokenKind::identifier;
  }

  void take_number() {
    char before = '\0';
    while (!ended()) {
      const char c = peek();
      const bool sign_of_exponent = (c == '+' || c == '-') && (before == 'e' || before == 'E' ||
                                                               before == 'p' || before == 'P');
      const bool separator = c == '\'' && continues_identifier(peek(1));
      if (!continues_identifier(c) && c != '.' && !separator && !sign_of_exponent) break;
      before = c;
      ++at_;
    }
  }

  void take_quoted(char quote) {
    ++at_;
    while (!ended() && peek() != '\n') {
      if (peek() == quote) {
        ++at_;
        return;
      }
      const size_t length = continuation();
      at_ += length ? length : peek() == '\\' && peek(1) != '\n' ? 2 : 1;
    }
    if (at_ > text_.size()) at_ = text_.size();
  }

  void take_raw() {
    const size_t open = text_.find('(', at_);
    if (open == text_.npos) {
      at_ = text_.size();
      return;
    }
    const std::string end = ")" + std::string(text_.substr(at_ + 1, open - at_ - 1)) + "\"";
    const size_t close = text_.find(end, open);
    at_ = close == text_.npos ? text_.size() : close + end.size();
  }

  std::string_view text_;
  size_t at_ = 0;
  bool line_is_blank_ = true;
  bool in_directive_ = false;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view text) { return Lexer(text).run(); }

Names names_in(std::string_view text) {
  Names names;
  for (const Token& token : tokenize(text)) {
    if (token.kind != TokenKind::identifier) continue;
    if (token.member) {
      names.members.emplace(token.text);
      continue;
    }
    names.identifiers.emplace(token.text);
    if (token.in_directive) names.in_directives.emplace(token.text);
  }
  return names;
}

}  // namespace holdfast::kernel
