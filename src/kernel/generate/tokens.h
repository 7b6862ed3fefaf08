#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::kernel {

enum class TokenKind : uint8_t { identifier, number, literal, punctuation };

// A piece of C++-like text; comments and blanks are between tokens. Borrows the text.
struct Token {
  TokenKind kind = TokenKind::punctuation;
  std::string_view text{};
  size_t offset = 0;          // in the text
  bool member = false;        // an identifier after `.` or `->`
  bool in_directive = false;  // on a preprocessor line, its continuations included
};

// Never fails: an unterminated comment or raw string ends with the text, another literal with its
// line. Knows // and block comments, string, character and raw string literals, numbers with digit
// separators, and line continuations between tokens.
std::vector<Token> tokenize(std::string_view text);

// What a text names.
struct Names {
  std::set<std::string, std::less<>> identifiers{};    // not members
  std::set<std::string, std::less<>> members{};        // after `.` or `->`
  std::set<std::string, std::less<>> in_directives{};  // those of `identifiers` that are
};
Names names_in(std::string_view text);

}  // namespace holdfast::kernel
