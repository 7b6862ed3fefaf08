#include <algorithm>

#include "holdfast/kernel/targets/vulkan/check_report.h"
#include "holdfast/kernel/targets/vulkan/ir/translator.h"

// What a check that fails needs (vulkan_host.h): the report's address, and numbers for texts.

namespace holdfast::kernel::ir {

// Every text that the pointer may point to gets a number: where it lies in its region, counted from
// the region's own first number. The module has the texts by number; nothing on the device does.
Translator::Id Translator::number_of_text(const Value* pointer) {
  const Region* region = memory_.region_of(pointer);
  if (is_wide(region)) return spirv_.u32(0);
  const auto [known, is_new] = first_numbers_.try_emplace(region, next_number_);
  if (is_new) {
    for (const Region::Object& object : region->objects) {
      if (object.initial == nullptr) continue;
      std::vector<uint8_t> bytes(size_of(*object.type));
      flatten(*object.initial, bytes, 0);
      const std::string text(bytes.begin(), std::find(bytes.begin(), bytes.end(), 0));
      spirv_.text(name_entry(known->second + static_cast<uint32_t>(object.offset), text));
    }
    next_number_ += static_cast<uint32_t>(region->size);
  }
  const Id word = spirv_.integer(32);
  const Id at =
      make(spv::Op::OpIMul, word,
           {use_pointer(pointer, region), spirv_.u32(static_cast<uint32_t>(region->unit))});
  return make(spv::Op::OpIAdd, word, {at, spirv_.u32(known->second)});
}

bool Translator::call_of_check(const Value& value) {
  if (value.callee == "hf_spirv_stop") return true;  // the path ends behind it
  if (value.callee == "hf_spirv_report") {
    if (report_ == 0) refuse("it reports a failure, and its launch has no room for one");
    define(value, report_);
    return true;
  }
  if (value.callee == "hf_spirv_name") {
    define(value, number_of_text(value.operands.at(0)));
    return true;
  }
  return false;
}

}  // namespace holdfast::kernel::ir
