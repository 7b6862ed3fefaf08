#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/hal/module.h"

namespace holdfast::kernel {

// What vulkan_host.h writes where a check fails.
struct CheckReport {
  uint32_t failed;
  uint32_t kind;  // 0: an index is out of bounds; 1: an assertion does not hold
  uint32_t line;
  uint32_t file;  // a name of the module's
  uint32_t what;  // the buffer's, or the expression
  uint32_t none;
  int64_t index;
  uint64_t size;
};
static_assert(sizeof(CheckReport) == 40);

// A module keeps its names as strings of its own (OpString): the number and the text.
std::string name_entry(uint32_t number, std::string_view text);
// How reports of the module's kernel are read.
hal::SpirvModule::Report check_report_of(std::string kernel, std::span<const uint32_t> module);

}  // namespace holdfast::kernel
