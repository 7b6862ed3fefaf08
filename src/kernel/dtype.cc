#include "holdfast/kernel/dtype.h"

#include <array>

namespace holdfast::kernel {
namespace {

struct Row {
  const char* name;
  const char* kernel_type;
  Bytes size;
};

constexpr std::array<Row, kDtypes> kRows{{
    {"bool", "bool", 1_B},
    {"int8", "int8_t", 1_B},
    {"uint8", "uint8_t", 1_B},
    {"int16", "short", 2_B},
    {"uint16", "ushort", 2_B},
    {"int32", "int", 4_B},
    {"uint32", "uint", 4_B},
    {"int64", "long", 8_B},
    {"uint64", "ulong", 8_B},
    {"float16", "half", 2_B},
    {"bfloat16", "bfloat", 2_B},
    {"float32", "float", 4_B},
    {"float64", "double", 8_B},
}};

const Row& row_of(Dtype dtype) { return kRows.at(static_cast<size_t>(dtype)); }

}  // namespace

Bytes size_of(Dtype dtype) { return row_of(dtype).size; }

const char* to_string(Dtype dtype) { return row_of(dtype).name; }

std::optional<Dtype> parse_dtype(std::string_view text) {
  for (unsigned i = 0; i < kDtypes; ++i) {
    if (text == kRows[i].name) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

const char* kernel_type(Dtype dtype) { return row_of(dtype).kernel_type; }

}  // namespace holdfast::kernel
