#include "holdfast/kernel/targets/vulkan/specialization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast::kernel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Specialization, constants_of_a_module_are_specialized_by_their_place_in_its_list) {
  const Native native{.kind = NativeKind::spirv, .constants = {"A", "B", "C", "D", "E", "F"}};
  const std::vector<Constant> constants{{"F", true},
                                        {"A", int64_t{INT32_MIN}},
                                        {"B", int64_t{INT32_MIN} - 1},
                                        {"C", int64_t{UINT32_MAX}},
                                        {"D", int64_t{UINT32_MAX} + 1}};
  using Given = hal::SpirvModule::Constant;
  EXPECT_THAT(specialization_of("k", native, constants).or_raise(),
              ElementsAre(Given{5, 1, 4}, Given{0, static_cast<uint64_t>(int64_t{INT32_MIN}), 4},
                          Given{1, static_cast<uint64_t>(int64_t{INT32_MIN} - 1), 8},
                          Given{2, UINT32_MAX, 4}, Given{3, uint64_t{UINT32_MAX} + 1, 8}));
  for (const Constant& wrong : {Constant{"UNKNOWN", 1}, Constant{"A", Dtype::int8}}) {
    const auto refused = specialization_of("k", native, {&wrong, 1});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.failure().message(),
                AllOf(HasSubstr("'k'"), HasSubstr("'" + wrong.name + "'")));
  }
}

TEST(Specialization, a_text_specializes_what_it_names_and_has_the_rest_as_macros) {
  const Native native{.kind = NativeKind::glsl, .constants = {"WIDTH"}};
  const std::vector<Constant> constants{{"N", 3}, {"WIDTH", 64}, {"T", Dtype::float32}};
  using Given = hal::SpirvModule::Constant;
  EXPECT_THAT(specialization_of("k", native, constants).or_raise(), ElementsAre(Given{0, 64, 4}));
}

}  // namespace
}  // namespace holdfast::kernel
