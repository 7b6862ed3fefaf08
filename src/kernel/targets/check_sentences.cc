#include "holdfast/kernel/targets/check_sentences.h"

#include <fmt/format.h>

namespace holdfast::kernel {

std::string out_of_bounds_sentence(const CheckPlace& at, int64_t index, std::string_view buffer,
                                   uint64_t size) {
  return fmt::format("kernel '{}', {}:{}: index {} is outside '{}', which has {} element{}",
                     at.kernel, at.file, at.line, index, buffer, size, size == 1 ? "" : "s");
}

std::string assertion_sentence(const CheckPlace& at, std::string_view expression) {
  return fmt::format("kernel '{}', {}:{}: the assertion '{}' does not hold", at.kernel, at.file,
                     at.line, expression);
}

}  // namespace holdfast::kernel
