#include "holdfast/kernel/targets/vulkan/spirv_group_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/kernel/targets/vulkan/glsl_compiler.h"

namespace holdfast::kernel {
namespace {

using Constants = std::vector<hal::SpirvModule::Constant>;

std::vector<uint32_t> compiled(const std::string& text) {
  return compile_glsl({.name = "k", .text = text}).or_raise().words;
}
std::optional<Size3> size_of(const std::string& text, const Constants& constants = {}) {
  return spirv_group_size(compiled(text), "main", constants);
}

constexpr const char* kMain = "void main() {}";

TEST(SpirvGroupSize, a_literal_size_is_read) {
  EXPECT_EQ(
      size_of(std::string("layout(local_size_x = 7, local_size_y = 5, local_size_z = 3) in;") +
              kMain),
      (Size3{7, 5, 3}));
  EXPECT_EQ(size_of(kMain), (Size3{1, 1, 1}));
}

TEST(SpirvGroupSize, specialization_constants_decide_over_their_defaults) {
  const std::string text = std::string(
                               "layout(local_size_x_id = 4, local_size_y = 2, local_size_z_id = 0) "
                               "in;") +
                           kMain;
  EXPECT_EQ(size_of(text), (Size3{1, 2, 1}));
  EXPECT_EQ(size_of(text, {{4, 64}}), (Size3{64, 2, 1}));
  EXPECT_EQ(size_of(text, {{0, 3}, {4, 64}}), (Size3{64, 2, 3}));
  EXPECT_EQ(size_of(text, {{1, 9}}), (Size3{1, 2, 1})) << "another constant";
}

// A module of these instructions: each an operation and its operands.
std::vector<uint32_t> module_of(const std::vector<std::vector<uint32_t>>& instructions) {
  std::vector<uint32_t> words{0x07230203, 0x00010500, 0, 100, 0};
  for (const std::vector<uint32_t>& instruction : instructions) {
    words.push_back(static_cast<uint32_t>(instruction.size()) << 16U | instruction[0]);
    words.insert(words.end(), instruction.begin() + 1, instruction.end());
  }
  return words;
}
constexpr uint32_t kMainWord = 'm' | 'a' << 8 | 'i' << 16 | 'n' << 24;

TEST(SpirvGroupSize, ids_of_constants_are_followed) {
  const auto words = module_of({{15, 5, 1, kMainWord, 0},
                                {331, 1, 38, 10, 11, 12},
                                {71, 11, 1, 6},
                                {43, 2, 10, 8},
                                {50, 2, 11, 4},
                                {43, 2, 12, 2}});
  EXPECT_EQ(spirv_group_size(words, "main", {}), (Size3{8, 4, 2}));
  EXPECT_EQ(spirv_group_size(words, "main", Constants{{6, 16}}), (Size3{8, 16, 2}));
}

TEST(SpirvGroupSize, each_entry_point_has_its_own) {
  const auto words = module_of({{15, 5, 1, kMainWord, 0},
                                {15, 5, 2, 'b'},
                                {15, 4, 3, 'c'},
                                {16, 2, 17, 9, 1, 1},
                                {16, 1, 17, 4, 1, 1},
                                {16, 3, 17, 5, 1, 1}});
  EXPECT_EQ(spirv_group_size(words, "main", {}), (Size3{4, 1, 1}));
  EXPECT_EQ(spirv_group_size(words, "b", {}), (Size3{9, 1, 1}));
  EXPECT_EQ(spirv_group_size(words, "c", {}), std::nullopt) << "not a compute shader";
  EXPECT_EQ(spirv_group_size(words, "mai", {}), std::nullopt);
}

TEST(SpirvGroupSize, what_is_not_said_plainly_is_not_known) {
  // The size is computed: a composite of the result of an operation.
  const auto computed = module_of({{15, 5, 1, kMainWord, 0},
                                   {16, 1, 17, 4, 1, 1},
                                   {71, 20, 11, 25},
                                   {43, 2, 10, 8},
                                   {52, 2, 11, 132, 10, 10},
                                   {51, 3, 20, 11, 10, 10}});
  EXPECT_EQ(spirv_group_size(computed, "main", {}), std::nullopt);
  EXPECT_EQ(spirv_group_size(module_of({{15, 5, 1, kMainWord, 0}}), "main", {}), std::nullopt);
}

TEST(SpirvGroupSize, damaged_words_are_harmless) {
  const auto whole = compiled(std::string("layout(local_size_x_id = 0) in;") + kMain);
  for (size_t length = 0; length < whole.size(); ++length) {
    (void)spirv_group_size(std::span(whole).first(length), "main", {});
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const uint32_t word : {0U, ~0U, 0x0001000fU, 0x00010010U, 0x00010047U, 0x0001002bU}) {
      auto damaged = whole;
      damaged[at] = word;
      (void)spirv_group_size(damaged, "main", {});
    }
  }
  EXPECT_EQ(spirv_group_size({}, "main", {}), std::nullopt);
  auto foreign = whole;
  foreign[0] = 0x03022307;
  EXPECT_EQ(spirv_group_size(foreign, "main", {}), std::nullopt);
}

}  // namespace
}  // namespace holdfast::kernel
