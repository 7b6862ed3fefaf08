#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/kernel/definition.h"

namespace holdfast::kernel {

// Words about names, for check().

// What is wrong with a name in kernel text: "is no identifier...", "is reserved...". Nothing where
// it is fine.
std::optional<std::string> why_not_a_name(std::string_view name);

// "; did you mean 'eps'?" where one of them is near, else nothing.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> known);

}  // namespace holdfast::kernel
