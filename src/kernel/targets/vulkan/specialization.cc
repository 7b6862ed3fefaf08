#include "holdfast/kernel/targets/vulkan/specialization.h"

#include <fmt/format.h>

#include <algorithm>

#include "holdfast/base/shown.h"

namespace holdfast::kernel {

Result<std::vector<hal::SpirvModule::Constant>> specialization_of(
    std::string_view kernel, const Native& native, std::span<const Constant> constants) {
  std::vector<hal::SpirvModule::Constant> result;
  for (const Constant& constant : constants) {
    const auto named = std::ranges::find(native.constants, constant.name);
    const bool is_named = named != native.constants.end();
    if (!is_named && native.kind == NativeKind::glsl) continue;
    if (!is_named || std::holds_alternative<Dtype>(constant.value)) {
      return Failure(ErrorCode::usage,
                     fmt::format("kernel '{}': its native {} takes no constant {}; name it in "
                                 "Native::constants, where it is a number or a truth value",
                                 kernel, to_string(native.kind), shown(constant.name)));
    }
    const bool* const truth = std::get_if<bool>(&constant.value);
    const int64_t number = truth != nullptr ? int64_t{*truth} : std::get<int64_t>(constant.value);
    const bool narrow = number >= INT32_MIN && number <= int64_t{UINT32_MAX};
    const auto id = static_cast<uint32_t>(named - native.constants.begin());
    result.push_back({id, static_cast<uint64_t>(number), narrow ? 4U : 8U});
  }
  return result;
}

}  // namespace holdfast::kernel
