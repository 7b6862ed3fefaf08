#include "holdfast/kernel/targets/vulkan/ir/translate.h"

#include <algorithm>

#include "holdfast/kernel/targets/vulkan/ir/inline_calls.h"
#include "holdfast/kernel/targets/vulkan/ir/ir_reader.h"
#include "holdfast/kernel/targets/vulkan/ir/masks.h"
#include "holdfast/kernel/targets/vulkan/ir/memory.h"
#include "holdfast/kernel/targets/vulkan/ir/structure.h"
#include "holdfast/kernel/targets/vulkan/ir/translator.h"
#include "holdfast/kernel/targets/vulkan/ir/wide_products.h"

namespace holdfast::kernel {
namespace {

// The innermost place that is the author's.
Refusal refusal_at(std::string message, const std::vector<ir::Location>& places) {
  for (const ir::Location& at : places) {
    if (at.file != "preamble" && at.file != "holdfast" && at.line != 0) {
      return {std::move(message), at.file, at.line, at.column};
    }
  }
  return {std::move(message)};
}

Refusal refusal_in(const ir::Module& module, const ir::Refused& refused) {
  std::vector<ir::Location> places;
  for (ir::LocationId id = refused.location; id != 0; id = module.locations[id].caller) {
    places.push_back(module.locations[id]);
  }
  return refusal_at(refused.message, places);
}

}  // namespace

Translated translate_to_spirv(std::string_view llvm_text, const TranslateOptions& options) {
  std::vector<ir::Location> place;
  Result<std::unique_ptr<ir::Module>> read = ir::read(llvm_text, &place);
  if (!read) return {.refusal = refusal_at(read.failure().message(), place)};
  ir::Module& module = *read.value();
  const auto entry = module.functions.find(options.entry_point);
  if (entry == module.functions.end()) return {.refusal = {"its entry point is not there"}};
  ir::Function& function = entry->second;
  const size_t before = size_t{options.bindings} * (options.binding_lengths ? 2 : 1);
  if (function.arguments.size() != before + 1) {
    return {.refusal = {"its entry point takes other arguments"}};
  }
  try {
    ir::inline_calls(module, function);
    ir::split_wide_products(module, function);
    Result<ir::Structure> structure = ir::structure(module, function);
    if (!structure) return {.refusal = {structure.failure().message()}};
    const std::unique_ptr<ir::Memory> memory = ir::Memory::of(module, function);
    ir::add_masks(function, *memory, structure.value());
    return {.words = ir::Translator(module, function, *memory, structure.value(), options).run()};
  } catch (const ir::Refused& refused) {
    return {.refusal = refusal_in(module, refused)};
  } catch (const std::out_of_range&) {
    return {.refusal = {"it calls a function with too few arguments"}};
  }
}

}  // namespace holdfast::kernel
