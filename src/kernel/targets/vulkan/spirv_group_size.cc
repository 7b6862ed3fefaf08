#include "holdfast/kernel/targets/vulkan/spirv_group_size.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <unordered_map>

namespace holdfast::kernel {
namespace {

// Of the SPIR-V specification, as far as a group's size goes.
constexpr uint32_t kMagic = 0x07230203;
constexpr size_t kHeaderWords = 5;
constexpr uint32_t kOpEntryPoint = 15;
constexpr uint32_t kOpExecutionMode = 16;
constexpr uint32_t kOpConstant = 43;
constexpr uint32_t kOpConstantComposite = 44;
constexpr uint32_t kOpSpecConstant = 50;
constexpr uint32_t kOpSpecConstantComposite = 51;
constexpr uint32_t kOpFunction = 54;
constexpr uint32_t kOpDecorate = 71;
constexpr uint32_t kOpExecutionModeId = 331;
constexpr uint32_t kGlCompute = 5;
constexpr uint32_t kLocalSize = 17;
constexpr uint32_t kLocalSizeId = 38;
constexpr uint32_t kDecorationSpecId = 1;
constexpr uint32_t kDecorationBuiltIn = 11;
constexpr uint32_t kWorkgroupSize = 25;

// A literal string: four characters in each word, the first in the lowest byte, up to a zero.
std::string text_in(std::span<const uint32_t> words) {
  std::string text;
  for (const uint32_t word : words) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      const char c = static_cast<char>(word >> shift);
      if (c == '\0') return text;
      text += c;
    }
  }
  return text;
}

class Module {
 public:
  Module(std::span<const uint32_t> words, std::string_view entry_point)
      : entry_point_(entry_point) {
    if (words.size() < kHeaderWords || words[0] != kMagic) return;
    words = words.subspan(kHeaderWords);
    while (!words.empty()) {
      const size_t length = words[0] >> 16U;
      const uint32_t operation = words[0] & 0xffffU;
      // What matters stands before the first function.
      if (length == 0 || length > words.size() || operation == kOpFunction) return;
      read(operation, words.subspan(1, length - 1));
      words = words.subspan(length);
    }
  }

  std::optional<Size3> group_size(std::span<const hal::SpirvModule::Constant> constants) const {
    if (!entry_) return std::nullopt;
    const auto number = [&](uint32_t id) { return number_of(id, constants); };
    std::array<std::optional<uint32_t>, 3> axes;
    if (workgroup_size_) {
      const auto found = composites_.find(*workgroup_size_);
      if (found == composites_.end()) return std::nullopt;
      std::ranges::transform(found->second, axes.begin(), number);
    } else if (const auto by_id = local_size_ids_.find(*entry_); by_id != local_size_ids_.end()) {
      std::ranges::transform(by_id->second, axes.begin(), number);
    } else if (const auto literal = local_sizes_.find(*entry_); literal != local_sizes_.end()) {
      std::ranges::copy(literal->second, axes.begin());
    }
    if (!axes[0] || !axes[1] || !axes[2]) return std::nullopt;
    return Size3{*axes[0], *axes[1], *axes[2]};
  }

 private:
  using Three = std::array<uint32_t, 3>;

  static Three three(std::span<const uint32_t> words) { return {words[0], words[1], words[2]}; }

  void read(uint32_t operation, std::span<const uint32_t> words) {
    const auto has = [&](size_t count) { return words.size() >= count; };
    switch (operation) {
      case kOpEntryPoint:
        if (has(3) && words[0] == kGlCompute && text_in(words.subspan(2)) == entry_point_) {
          entry_ = words[1];
        }
        break;
      case kOpExecutionMode:
        if (has(5) && words[1] == kLocalSize) local_sizes_[words[0]] = three(words.subspan(2));
        break;
      case kOpExecutionModeId:
        if (has(5) && words[1] == kLocalSizeId) local_size_ids_[words[0]] = three(words.subspan(2));
        break;
      case kOpDecorate:
        if (!has(3)) break;
        if (words[1] == kDecorationSpecId) spec_ids_[words[0]] = words[2];
        if (words[1] == kDecorationBuiltIn && words[2] == kWorkgroupSize) {
          workgroup_size_ = words[0];
        }
        break;
      case kOpConstant:
      case kOpSpecConstant:
        if (words.size() == 3) numbers_[words[1]] = words[2];
        break;
      case kOpConstantComposite:
      case kOpSpecConstantComposite:
        if (words.size() == 5) composites_[words[1]] = three(words.subspan(2));
        break;
      default: break;
    }
  }

  std::optional<uint32_t> number_of(uint32_t id,
                                    std::span<const hal::SpirvModule::Constant> constants) const {
    const auto number = numbers_.find(id);
    if (number == numbers_.end()) return std::nullopt;  // computed from others, perhaps
    if (const auto spec = spec_ids_.find(id); spec != spec_ids_.end()) {
      const auto given =
          std::ranges::find(constants, spec->second, &hal::SpirvModule::Constant::id);
      if (given != constants.end()) return static_cast<uint32_t>(given->bits);
    }
    return number->second;
  }

  std::string_view entry_point_;
  std::optional<uint32_t> entry_;
  std::optional<uint32_t> workgroup_size_;
  std::unordered_map<uint32_t, Three> local_sizes_;     // by entry point
  std::unordered_map<uint32_t, Three> local_size_ids_;  // by entry point
  std::unordered_map<uint32_t, Three> composites_;
  std::unordered_map<uint32_t, uint32_t> numbers_;
  std::unordered_map<uint32_t, uint32_t> spec_ids_;  // by the constant's own id
};

}  // namespace

std::optional<Size3> spirv_group_size(std::span<const uint32_t> words, std::string_view entry_point,
                                      std::span<const hal::SpirvModule::Constant> constants) {
  return Module(words, entry_point).group_size(constants);
}

}  // namespace holdfast::kernel
