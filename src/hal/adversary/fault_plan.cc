#include "holdfast/hal/adversary/fault_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "holdfast/base/error.h"

namespace holdfast::hal {

const char* to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::alloc: return "alloc";
    case FaultKind::submit: return "submit";
    case FaultKind::command: return "command";
    case FaultKind::lost: return "lost";
    case FaultKind::compile: return "compile";
    case FaultKind::trim: return "trim";
    case FaultKind::clear: return "clear";
    case FaultKind::limit: return "limit";
    case FaultKind::drop: return "drop";
  }
  return "unknown";
}

FaultPlan FaultPlan::parse(std::string_view text) {
  std::vector<Fault> faults;
  while (!text.empty()) {
    const size_t plus = std::min(text.find('+'), text.size());
    const std::string_view word = text.substr(0, plus);
    text.remove_prefix(std::min(plus + 1, text.size()));
    const size_t sign = word.find('@');
    Fault fault;
    bool known = false;
    for (unsigned i = 0; i < kFaultKinds; ++i) {
      if (word.substr(0, sign) != to_string(static_cast<FaultKind>(i))) continue;
      fault.kind = static_cast<FaultKind>(i);
      known = true;
    }
    const std::string_view number = sign == std::string_view::npos ? "" : word.substr(sign + 1);
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), fault.at);
    if (!known || error != std::errc() || end != number.data() + number.size() || fault.at == 0) {
      throw UsageError(fmt::format(
          "'{}' is no fault: it must look like alloc@3, with one of alloc, submit, command, lost, "
          "compile, trim, clear, limit, drop and a number from 1",
          word));
    }
    faults.push_back(fault);
  }
  return FaultPlan(std::move(faults));
}

bool FaultPlan::hits(FaultKind kind, uint64_t opportunity) const noexcept {
  return std::find(faults_.begin(), faults_.end(), Fault{kind, opportunity}) != faults_.end();
}

std::string to_string(const FaultPlan& plan) {
  std::string text;
  for (const Fault& fault : plan.faults()) {
    text += fmt::format("{}{}@{}", text.empty() ? "" : "+", to_string(fault.kind), fault.at);
  }
  return text;
}

}  // namespace holdfast::hal
