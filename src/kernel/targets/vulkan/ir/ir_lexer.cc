#include "holdfast/kernel/targets/vulkan/ir/ir_lexer.h"

namespace holdfast::kernel::ir {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '.' ||
         c == '$' || c == '-';
}

}  // namespace

std::string_view Lexer::rest_of_line() const {
  const std::string_view rest = text_.substr(token_at_);
  return rest.substr(0, rest.find('\n'));
}

void Lexer::skip_line() {
  const size_t end = text_.find('\n', token_at_);
  at_ = end == text_.npos ? text_.size() : end;
  next();
}

std::string_view Lexer::name() {
  if (at_ < text_.size() && text_[at_] == '"') {
    const size_t end = text_.find('"', at_ + 1);
    const size_t stop = end == text_.npos ? text_.size() : end;
    const std::string_view inside = text_.substr(at_ + 1, stop - at_ - 1);
    at_ = stop == text_.size() ? stop : stop + 1;
    return inside;
  }
  const size_t begin = at_;
  while (at_ < text_.size() && is_name(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

void Lexer::next() {
  bool first = at_ == 0;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '\n') {
      first = true;
    } else if (c == ';') {
      const size_t end = text_.find('\n', at_);
      at_ = (end == text_.npos ? text_.size() : end) - 1;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      break;
    }
  }
  token_ = {};
  token_.first = first;
  token_at_ = at_;
  if (at_ >= text_.size()) return;
  const char c = text_[at_];
  const auto marked = [&](TokenKind kind) {
    ++at_;
    token_.kind = kind;
    token_.text = name();
  };
  switch (c) {
    case '%': return marked(TokenKind::local);
    case '@': return marked(TokenKind::global);
    case '!': return marked(TokenKind::metadata);
    case '#': return marked(TokenKind::group);
    default: break;
  }
  if (c == '"' || is_name(c)) {
    const bool number = is_digit(c) || c == '-';
    token_.text = name();
    // 1.0e+00
    if (number && c != '"') {
      while (at_ < text_.size() && text_[at_] == '+') {
        const size_t begin = static_cast<size_t>(token_.text.data() - text_.data());
        ++at_;
        (void)name();
        token_.text = text_.substr(begin, at_ - begin);
      }
    }
    if (at_ < text_.size() && text_[at_] == ':') {
      ++at_;
      token_.kind = TokenKind::label;
    } else {
      token_.kind = c == '"' ? TokenKind::string : number ? TokenKind::number : TokenKind::word;
    }
    return;
  }
  token_.kind = TokenKind::sign;
  token_.text = text_.substr(at_, 1);
  ++at_;
}

}  // namespace holdfast::kernel::ir
