#include "holdfast/kernel/native.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast::kernel {
namespace {

using hal::Access;
using ::testing::ElementsAre;
using ::testing::Pair;

Definition three_groups() {
  return {.name = "k", .inputs = {"a", "b"}, .outputs = {"y", "z"}, .in_place = {"s"}};
}

TEST(Native, without_an_order_of_its_own_it_binds_inputs_in_place_arguments_and_outputs) {
  const Interface interface = native_interface(three_groups(), {}, {.text = "x"}).interface;
  EXPECT_THAT(interface.bindings,
              ElementsAre(BindingUse{ArgumentGroup::input, 0, Access::read},
                          BindingUse{ArgumentGroup::input, 1, Access::read},
                          BindingUse{ArgumentGroup::in_place, 0, Access::read_write},
                          BindingUse{ArgumentGroup::output, 0, Access::write},
                          BindingUse{ArgumentGroup::output, 1, Access::write}));
  EXPECT_FALSE(interface.has_launch_block);
  EXPECT_EQ(interface.parameter_bytes, 0_B);
}

TEST(Native, binds_in_its_own_order_and_atomic_outputs_are_read_too) {
  Definition definition = three_groups();
  definition.atomic_outputs = true;
  const Native native{.text = "x", .bindings = {"z", "s", "b", "y", "a"}};
  EXPECT_THAT(native_interface(definition, {}, native).interface.bindings,
              ElementsAre(BindingUse{ArgumentGroup::output, 1, Access::read_write},
                          BindingUse{ArgumentGroup::in_place, 0, Access::read_write},
                          BindingUse{ArgumentGroup::input, 1, Access::read},
                          BindingUse{ArgumentGroup::output, 0, Access::read_write},
                          BindingUse{ArgumentGroup::input, 0, Access::read}));
}

TEST(Native, params_follow_each_other_each_aligned_to_its_size) {
  const CallSignature signature{.params = {{"a", Dtype::bool_},
                                           {"b", Dtype::float64},
                                           {"c", Dtype::int16},
                                           {"d", Dtype::int32},
                                           {"e", Dtype::uint8}}};
  const Interface interface = native_interface(three_groups(), signature, {}).interface;
  std::vector<uint64_t> offsets;
  for (const ParameterField& field : interface.fields) offsets.push_back(field.offset.value);
  EXPECT_THAT(offsets, ElementsAre(0, 8, 16, 20, 24));
  EXPECT_EQ(interface.parameter_bytes, 25_B);
}

TEST(Native, params_of_cuda_are_a_struct_and_the_calls_threadgroup_follows_it) {
  const CallSignature signature{.params = {{"a", Dtype::float64}, {"b", Dtype::uint8}}};
  for (const NativeKind kind : {NativeKind::cuda, NativeKind::ptx, NativeKind::cubin}) {
    Native native{.kind = kind, .cluster = {2, 1, 1}};
    const Interface open = native_interface(three_groups(), signature, native).interface;
    ASSERT_EQ(open.fields.size(), 3U);
    EXPECT_EQ(open.fields[2], (ParameterField{FieldKind::threadgroup, 0, 3, 16_B, 12_B}));
    EXPECT_EQ(open.parameter_bytes, 32_B);
    EXPECT_EQ(open.cluster, (hal::Groups{2, 1, 1}));
    native.threadgroup = Size3{32, 1, 1};
    const Interface fixed = native_interface(three_groups(), signature, native).interface;
    EXPECT_EQ(fixed.fields.size(), 2U);
    EXPECT_EQ(fixed.parameter_bytes, 16_B);
  }
}

TEST(Native, its_pragmas_decide_how_it_is_compiled) {
  Definition definition = three_groups();
  definition.math = MathMode::fast;
  const auto compiled = [&](const char* text) {
    const GeneratedKernel code = native_interface(definition, {}, {.text = text});
    return std::pair(code.math, code.contracts);
  };
  EXPECT_EQ(compiled("int i;"), std::pair(MathMode::fast, true));
  EXPECT_EQ(compiled("#pragma STDC FP_CONTRACT OFF"), std::pair(MathMode::fast, false));
  EXPECT_EQ(compiled("#pragma METAL fp math_mode(safe)"), std::pair(MathMode::safe, false));
}

TEST(Native, constants_are_macros_of_its_text) {
  const std::vector<Constant> constants{
      {"YES", true}, {"NO", false}, {"MINUS", -3}, {"T", Dtype::uint16}};
  DtypeNames types{};
  types[static_cast<size_t>(Dtype::uint16)] = "ushort";
  EXPECT_THAT(
      native_macros(constants, types),
      ElementsAre(Pair("YES", "1"), Pair("NO", "0"), Pair("MINUS", "(-3)"), Pair("T", "ushort")));
}

}  // namespace
}  // namespace holdfast::kernel
