#include "holdfast/kernel/targets/vulkan/check_report.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <spirv/unified1/spirv.hpp11>
#include <utility>

#include "holdfast/kernel/targets/check_sentences.h"

namespace holdfast::kernel {
namespace {

constexpr std::string_view kNameMark = "holdfast.name ";
constexpr size_t kWordsBeforeCode = 5;

using CheckNames = std::map<uint32_t, std::string>;

CheckNames check_names_in(std::span<const uint32_t> module) {
  CheckNames names;
  for (size_t at = kWordsBeforeCode; at < module.size();) {
    const size_t words = module[at] >> 16;
    if (words == 0 || words > module.size() - at) break;
    const auto op = static_cast<spv::Op>(module[at] & 0xffff);
    if (op == spv::Op::OpFunction) break;
    if (op == spv::Op::OpString && words > 2) {
      const auto* const begin = reinterpret_cast<const char*>(module.data() + at + 2);
      std::string_view text(begin, strnlen(begin, (words - 2) * sizeof(uint32_t)));
      uint32_t number = 0;
      if (text.starts_with(kNameMark)) {
        text.remove_prefix(kNameMark.size());
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        text.remove_prefix(static_cast<size_t>(end - text.data()));
        if (error == std::errc() && text.starts_with(' ')) names[number] = text.substr(1);
      }
    }
    at += words;
  }
  return names;
}

}  // namespace

std::string name_entry(uint32_t number, std::string_view text) {
  return fmt::format("{}{} {}", kNameMark, number, text);
}

hal::SpirvModule::Report check_report_of(std::string kernel, std::span<const uint32_t> module) {
  const auto names = std::make_shared<const CheckNames>(check_names_in(module));
  return {.size = Bytes{sizeof(CheckReport)},
          .read = [kernel = std::move(kernel), names](std::span<const std::byte> memory) {
            CheckReport report{};
            std::memcpy(&report, memory.data(), std::min(sizeof report, memory.size()));
            const auto name = [&](uint32_t number) -> std::string_view {
              const auto found = names->find(number);
              return found == names->end() ? "?" : std::string_view(found->second);
            };
            const CheckPlace at{kernel, name(report.file), report.line};
            return report.kind == 0
                       ? out_of_bounds_sentence(at, report.index, name(report.what), report.size)
                       : assertion_sentence(at, name(report.what));
          }};
}

}  // namespace holdfast::kernel
