#include "holdfast/array/npy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "holdfast/base/error.h"

namespace holdfast::array {
namespace {

struct Name {
  Dtype dtype;
  std::string_view text;  // without the byte order
};
constexpr Name kNames[] = {
    {Dtype::bool_, "b1"},  {Dtype::int8, "i1"},    {Dtype::uint8, "u1"},   {Dtype::int16, "i2"},
    {Dtype::uint16, "u2"}, {Dtype::int32, "i4"},   {Dtype::uint32, "u4"},  {Dtype::int64, "i8"},
    {Dtype::uint64, "u8"}, {Dtype::float16, "f2"}, {Dtype::float32, "f4"}, {Dtype::float64, "f8"},
};

// Of what stands in the file, for messages: short, and without what would disturb a terminal.
std::string shown(std::string_view text) {
  constexpr size_t kMost = 40;
  std::string result;
  for (const char c : text.substr(0, kMost)) result += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > kMost ? result + "..." : result;
}

Dtype dtype_of(std::string_view descr) {
  std::string_view rest = descr;
  char order = '=';
  if (!rest.empty() && std::string_view("<>=|").find(rest[0]) != std::string_view::npos) {
    order = rest[0];
    rest.remove_prefix(1);
  }
  if (rest.starts_with('O')) {
    throw UsageError("holds Python objects, which are never loaded; save an array of numbers");
  }
  const auto* const name = std::ranges::find(kNames, rest, &Name::text);
  if (name == std::end(kNames)) {
    throw UsageError(fmt::format(
        "is of dtype '{}', which arrays do not have; convert it with NumPy's astype first",
        shown(descr)));
  }
  if (order == '>' && size_of(name->dtype).value > 1) {
    throw UsageError(fmt::format(
        "is of the big-endian dtype '{}'; save it little-endian, with NumPy's astype('<{}')", descr,
        rest));
  }
  return name->dtype;
}

// The little of Python's literals that such a header is made of.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr" && !dtype_) {
        if (peek() == '[') {
          throw UsageError("is of a structured dtype; save each field as an array of its own");
        }
        dtype_ = dtype_of(string());
      } else if (key == "fortran_order" && !column_major_) {
        column_major_ = boolean();
      } else if (key == "shape" && !shape_) {
        shape_ = shape();
      } else {
        fail("has an unexpected or repeated entry");
      }
      if (!accept(',') && peek() != '}') fail("lacks a comma");
    }
    if (peek() != kEnd || at_ < text_.size()) fail("goes on after its end");
    if (!dtype_ || !column_major_ || !shape_) fail("lacks descr, fortran_order or shape");
    return {*dtype_, *column_major_, *shape_};
  }

 private:
  static constexpr char kEnd = '\0';

  [[noreturn]] void fail(const char* what) const {
    throw UsageError(
        fmt::format("is damaged: its header {}, at byte {} of \"{}\"", what, at_, shown(text_)));
  }

  // The next character that is no space, or kEnd.
  char peek() {
    constexpr std::string_view kSpaces = " \t\r\n";
    while (at_ < text_.size() && kSpaces.find(text_[at_]) != std::string_view::npos) ++at_;
    return at_ < text_.size() ? text_[at_] : kEnd;
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail("is no dictionary as NumPy writes it");
  }
  bool accept_word(std::string_view word) {
    peek();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  // Without escapes, which nothing here needs.
  std::string_view string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("has something else where a string belongs");
    const size_t first = ++at_;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\\' || text_[at_] == '\n')
        fail("has a string with an escape or a newline");
      ++at_;
    }
    if (at_ == text_.size()) fail("has a string without an end");
    return text_.substr(first, at_++ - first);
  }

  bool boolean() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    fail("has something else where True or False belongs");
  }

  int64_t length() {
    const char first = peek();
    int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (first < '0' || first > '9' || error != std::errc() || (first == '0' && end != begin + 1)) {
      fail("has something else where a length belongs");
    }
    at_ += static_cast<size_t>(end - begin);
    // As Python 2 wrote them.
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;
    return value;
  }

  Shape shape() {
    if (!accept('(')) fail("has something else where a tuple of lengths belongs");
    std::vector<int64_t> lengths;
    bool comma = true;
    while (!accept(')')) {
      if (!comma) fail("lacks a comma between lengths");
      lengths.push_back(length());
      comma = accept(',');
    }
    if (lengths.size() == 1 && !comma) fail("has a number where a tuple of lengths belongs");
    if (lengths.size() > Dims::kMaxDims) {
      throw UsageError(
          fmt::format("has an array of {} dimensions, and {} are the most there can "
                      "be; reshape it first",
                      lengths.size(), Dims::kMaxDims));
    }
    return Shape(lengths);
  }

  std::string_view text_;
  size_t at_ = 0;
  std::optional<Dtype> dtype_;
  std::optional<bool> column_major_;
  std::optional<Shape> shape_;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text) { return Parser(text).parse(); }

std::string npy_beginning(const NpyHeader& header) {
  const auto* const name = std::ranges::find(kNames, header.dtype, &Name::dtype);
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': {}, 'shape': {}, }}",
                                 size_of(header.dtype).value == 1 ? '|' : '<', name->text,
                                 header.column_major ? "True" : "False", to_string(header.shape));
  // Magic, version 1.0 and a length of two bytes; then elements begin at a multiple of 64, which
  // the format asks for.
  constexpr size_t kBefore = 10;
  constexpr size_t kAlignment = 64;
  const size_t padding = (kAlignment - (kBefore + text.size() + 1) % kAlignment) % kAlignment;
  text += std::string(padding, ' ') + '\n';
  std::string result("\x93NUMPY\x01\x00", 8);
  result += static_cast<char>(text.size() & 0xff);
  result += static_cast<char>(text.size() >> 8);
  return result + text;
}

}  // namespace holdfast::array
