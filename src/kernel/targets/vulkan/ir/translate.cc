#include "holdfast/kernel/targets/vulkan/ir/translate.h"

#include <algorithm>

#include "holdfast/kernel/targets/vulkan/ir/inline_calls.h"
#include "holdfast/kernel/targets/vulkan/ir/ir_reader.h"
#include "holdfast/kernel/targets/vulkan/ir/masks.h"
#include "holdfast/kernel/targets/vulkan/ir/memory.h"
#include "holdfast/kernel/targets/vulkan/ir/structure.h"
#include "holdfast/kernel/targets/vulkan/ir/translator.h"

namespace holdfast::kernel {
namespace {

// The innermost place that is the author's.
Refusal refusal_at(const ir::Module& module, std::string message, ir::LocationId location) {
  while (location != 0) {
    const ir::Location& at = module.locations[location];
    if (at.file != "preamble" && at.file != "holdfast" && at.line != 0) {
      return {std::move(message), at.file, at.line, at.column};
    }
    location = at.caller;
  }
  return {std::move(message)};
}

}  // namespace

Translated translate_to_spirv(std::string_view llvm_text, const TranslateOptions& options) {
  Result<std::unique_ptr<ir::Module>> read = ir::read(llvm_text);
  if (!read) return {.refusal = {read.failure().message()}};
  ir::Module& module = *read.value();
  const auto entry = module.functions.find(options.entry_point);
  if (entry == module.functions.end()) return {.refusal = {"its entry point is not there"}};
  ir::Function& function = entry->second;
  if (function.arguments.size() != options.bindings + 1) {
    return {.refusal = {"its entry point takes other arguments"}};
  }
  if (Failure failure = ir::inline_calls(module, function)) return {.refusal = {failure.message()}};
  Result<ir::Structure> structure = ir::structure(module, function);
  if (!structure) return {.refusal = {structure.failure().message()}};
  const Result<std::unique_ptr<ir::Memory>> memory = ir::Memory::of(module, function);
  if (!memory) return {.refusal = {memory.failure().message()}};
  ir::add_masks(function, *memory.value(), structure.value());
  try {
    return {
        .words =
            ir::Translator(module, function, *memory.value(), structure.value(), options).run()};
  } catch (const ir::Refused& refused) {
    return {.refusal = refusal_at(module, refused.message, refused.location)};
  } catch (const std::out_of_range&) {
    return {.refusal = {"it calls a function with too few arguments"}};
  }
}

}  // namespace holdfast::kernel
