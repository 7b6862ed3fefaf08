#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <ostream>

#include "holdfast/array.h"
#include "holdfast/array/host_bytes.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

constexpr int64_t kMostElements = 1000;  // larger arrays are abbreviated
constexpr int64_t kEdge = 3;             // to so many at either end of an axis
constexpr size_t kLineWidth = 80;        // what fits is printed on one line

template <typename T>
T element(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Without a sign for NaN, which has no meaning.
std::string number(auto value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

// The fewest digits that give the same bits again.
template <typename T>
std::string two_byte_number(T value) {
  const auto exact = static_cast<float>(value);
  if (!std::isfinite(exact)) return number(exact);
  constexpr int kEnough = 5;  // for 11 bits
  for (int digits = 1; digits < kEnough; ++digits) {
    const std::string text = fmt::format("{:.{}e}", exact, digits - 1);
    double shorter = 0;
    std::from_chars(text.data(), text.data() + text.size(), shorter);
    if (T(static_cast<float>(shorter)) == value) return number(shorter);
  }
  return number(exact);
}

std::string element_text(Dtype dtype, const std::byte* at) {
  switch (dtype) {
    case Dtype::bool_: return element<uint8_t>(at) != 0 ? "True" : "False";
    case Dtype::int8: return fmt::format("{}", int{element<int8_t>(at)});
    case Dtype::uint8: return fmt::format("{}", unsigned{element<uint8_t>(at)});
    case Dtype::int16: return fmt::format("{}", element<int16_t>(at));
    case Dtype::uint16: return fmt::format("{}", element<uint16_t>(at));
    case Dtype::int32: return fmt::format("{}", element<int32_t>(at));
    case Dtype::uint32: return fmt::format("{}", element<uint32_t>(at));
    case Dtype::int64: return fmt::format("{}", element<int64_t>(at));
    case Dtype::uint64: return fmt::format("{}", element<uint64_t>(at));
    case Dtype::float16: return two_byte_number(element<Float16>(at));
    case Dtype::bfloat16: return two_byte_number(element<BFloat16>(at));
    case Dtype::float32: return number(element<float>(at));
    case Dtype::float64: return number(element<double>(at));
  }
  return {};
}

// What is printed of an array, on the host: all of it, or its corners.
struct Excerpt {
  Shape shape;
  std::array<bool, Dims::kMaxDims> cut{};  // axes of which only the ends are there
  std::vector<std::byte> bytes;
};

// The bytes of one corner, to their places in the excerpt.
void put(Excerpt& excerpt, const Shape& first, const Shape& lengths, size_t word,
         const std::vector<std::byte>& bytes) {
  const size_t rank = lengths.size();
  const Layout all = Layout::row_contiguous(excerpt.shape);
  for (size_t i = 0; i * word < bytes.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t to = 0;
    for (size_t d = rank; d-- > 0;) {
      to += (first[d] + rest % lengths[d]) * all.strides[d];
      rest /= lengths[d];
    }
    std::memcpy(excerpt.bytes.data() + static_cast<size_t>(to) * word, bytes.data() + i * word,
                word);
  }
}

Excerpt excerpt_of(const Array& array) {
  Excerpt excerpt{.shape = array.shape(), .bytes = {}};
  if (array.size() <= kMostElements) {
    excerpt.bytes = array::host_bytes(array);
    return excerpt;
  }
  const size_t rank = array.ndim();
  const size_t word = size_of(array.dtype()).value;
  unsigned corners = 1;
  for (size_t d = 0; d < rank; ++d) {
    if (array.shape()[d] <= 2 * kEdge) continue;
    excerpt.cut.at(d) = true;
    excerpt.shape[d] = 2 * kEdge;
    corners *= 2;
  }
  excerpt.bytes.resize(static_cast<size_t>(elements(excerpt.shape)) * word);
  for (unsigned corner = 0; corner < corners; ++corner) {
    std::array<Slice, Dims::kMaxDims> slices{};
    Shape first = Shape::filled(rank, 0);
    unsigned ends = corner;
    for (size_t d = 0; d < rank; ++d) {
      if (!excerpt.cut.at(d)) continue;
      const bool at_end = (ends & 1U) != 0;
      ends >>= 1U;
      if (at_end) {
        slices.at(d).start = -kEdge;
        first[d] = kEdge;
      } else {
        slices.at(d).stop = kEdge;
      }
    }
    const Array part = slice(array, std::span(slices).first(rank));
    put(excerpt, first, part.shape(), word, array::host_bytes(part));
  }
  return excerpt;
}

// On one line, or on a line for each row: the elements along the last axis.
class Printer {
 public:
  Printer(const Excerpt& excerpt, Dtype dtype, bool lines)
      : excerpt_(excerpt), dtype_(dtype), lines_(lines) {}

  std::string print() {
    next_ = excerpt_.bytes.data();
    text_ = kOpening;
    axis(0);
    return text_ + fmt::format(", dtype={})", kernel::to_string(dtype_));
  }

 private:
  static constexpr const char* kOpening = "array(";

  void axis(size_t d) {
    const size_t rank = excerpt_.shape.size();
    if (d == rank) {
      text_ += element_text(dtype_, next_);
      next_ += size_of(dtype_).value;
      return;
    }
    text_ += '[';
    for (int64_t i = 0; i < excerpt_.shape[d]; ++i) {
      if (i > 0) separate(d);
      if (i == kEdge && excerpt_.cut.at(d)) {
        text_ += "...";
        separate(d);
      }
      axis(d + 1);
    }
    text_ += ']';
  }

  void separate(size_t d) {
    const size_t rows_within = excerpt_.shape.size() - 1 - d;
    if (!lines_ || rows_within == 0) {
      text_ += ", ";
    } else {
      text_ +=
          ',' + std::string(rows_within, '\n') + std::string(std::strlen(kOpening) + d + 1, ' ');
    }
  }

  const Excerpt& excerpt_;
  Dtype dtype_;
  bool lines_;
  const std::byte* next_ = nullptr;
  std::string text_;
};

}  // namespace

std::string to_string(const Array& array) {
  const Excerpt excerpt = excerpt_of(array);
  if (excerpt.bytes.empty()) {
    return fmt::format("array([], shape={}, dtype={})", to_string(excerpt.shape),
                       kernel::to_string(array.dtype()));
  }
  std::string line = Printer(excerpt, array.dtype(), false).print();
  if (line.size() <= kLineWidth || array.ndim() < 2) return line;
  return Printer(excerpt, array.dtype(), true).print();
}

std::ostream& operator<<(std::ostream& out, const Array& array) { return out << to_string(array); }

}  // namespace holdfast
