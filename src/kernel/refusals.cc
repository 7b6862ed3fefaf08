#include "holdfast/kernel/refusals.h"

#include <fmt/format.h>

#include "holdfast/base/error.h"
#include "holdfast/base/shown.h"

namespace holdfast::kernel {

void refuse(const Kernel& kernel, std::string_view label, std::string_view why) {
  throw UsageError(label.empty() ? fmt::format("kernel '{}': {}", kernel.name(), why)
                                 : fmt::format("kernel '{}', labelled {}: {}", kernel.name(),
                                               shown(label), why));
}

void refuse_count(const Kernel& kernel, std::string_view label, std::string_view what,
                  const std::vector<std::string>& names, size_t given) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + shown(name);
  refuse(kernel, label,
         fmt::format("{} {}{} given, and it has {}{}{}", given, what, given == 1 ? "" : "s",
                     names.size(), names.empty() ? "" : ": ", list));
}

}  // namespace holdfast::kernel
