#include "holdfast/hal/vulkan/spirv_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <spirv-tools/libspirv.hpp>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::hal {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<uint32_t> assembled(const std::string& text) {
  spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_2);
  std::string complaints;
  tools.SetMessageConsumer(
      [&](spv_message_level_t, const char*, const spv_position_t& at, const char* message) {
        complaints += fmt::format("{}: {}\n", at.line + 1, message);
      });
  std::vector<uint32_t> words;
  EXPECT_TRUE(tools.Assemble(text, &words)) << complaints << text;
  return words;
}

// One compute kernel, in parts; what is left out is a kernel that does nothing.
struct Source {
  std::string capabilities{};
  std::string memory = "Logical GLSL450";
  std::string entry = "GLCompute %main \"main\"";
  std::string interface {};
  std::string mode = "OpExecutionMode %main LocalSize 8 4 1";
  std::string decorations{};
  std::string globals{};
  std::string body{};
  std::string functions{};

  std::string text() const {
    return fmt::format(
        "OpCapability Shader\n{}\nOpMemoryModel {}\nOpEntryPoint {} {}\n{}\n{}\n"
        "%void = OpTypeVoid\n%function = OpTypeFunction %void\n%bool = OpTypeBool\n"
        "%uint = OpTypeInt 32 0\n%float = OpTypeFloat 32\n%v3uint = OpTypeVector %uint 3\n"
        "%v4float = OpTypeVector %float 4\n%zero = OpConstant %uint 0\n%two = OpConstant %uint 2\n"
        "%three = OpConstant %uint 3\n{}\n"
        "%main = OpFunction %void None %function\n%start = OpLabel\n{}\nOpReturn\nOpFunctionEnd\n"
        "{}",
        capabilities, memory, entry, interface, mode, decorations, globals, body, functions);
  }
};

// A kernel that names one buffer, at this set and binding.
Source with_buffer(unsigned set, unsigned binding) {
  return {.interface = "%buffer",
          .decorations = fmt::format("OpDecorate %buffer DescriptorSet {}\n"
                                     "OpDecorate %buffer Binding {}\n"
                                     "OpDecorate %floats ArrayStride 4\nOpDecorate %block Block\n"
                                     "OpMemberDecorate %block 0 Offset 0",
                                     set, binding),
          .globals =
              "%floats = OpTypeRuntimeArray %float\n%block = OpTypeStruct %floats\n"
              "%pointer = OpTypePointer StorageBuffer %block\n"
              "%buffer = OpVariable %pointer StorageBuffer"};
}

// A kernel whose push constants are a block of these members.
Source with_push_constants(const std::string& decorations, const std::string& types,
                           const std::string& members) {
  return {.interface = "%push",
          .decorations = "OpDecorate %block Block\n" + decorations,
          .globals = types + "\n%block = OpTypeStruct " + members +
                     "\n%pointer = OpTypePointer PushConstant %block\n"
                     "%push = OpVariable %pointer PushConstant"};
}

// A kernel with three spec constants as its group size, ids 10, 11 and 12.
Source with_group_constants() {
  return {.decorations =
              "OpDecorate %x SpecId 10\nOpDecorate %y SpecId 11\n"
              "OpDecorate %z SpecId 12\nOpDecorate %size BuiltIn WorkgroupSize",
          .globals =
              "%x = OpSpecConstant %uint 64\n%y = OpSpecConstant %uint 1\n"
              "%z = OpSpecConstant %uint 1\n"
              "%size = OpSpecConstantComposite %v3uint %x %y %z"};
}

VulkanFeatures everything() {
  VulkanFeatures features;
  features.storage_8bit = features.storage_16bit = true;
  features.uniform_and_storage_8bit = features.uniform_and_storage_16bit = true;
  features.push_constant_8bit = features.push_constant_16bit = true;
  features.variable_pointers_storage = features.variable_pointers = true;
  features.float16 = features.float64 = true;
  features.int8 = features.int16 = features.int64 = true;
  features.int64_atomics = features.float_atomic_add = true;
  features.buffer_addresses = features.scalar_layout = features.vulkan_memory_model = true;
  features.memory_model_device_scope = true;
  features.subgroup = ~VkSubgroupFeatureFlags{0};
  features.max_group_size = {1024, 1024, 64};
  features.max_group_threads = 1024;
  features.max_shared_bytes = 32768;
  return features;
}

struct Promise {
  uint32_t bindings = 0;
  uint64_t parameter_bytes = 0;
  SpirvBindings how = SpirvBindings::descriptors;
  std::vector<SpirvModule::Constant> constants{};
};

Failure check_words(std::vector<uint32_t> words, Promise promise = {},
                    const VulkanFeatures& features = everything()) {
  SpirvModule module;
  module.words = std::move(words);
  module.bindings = promise.how;
  module.constants = std::move(promise.constants);
  return check_spirv({"scale", std::move(module), promise.bindings, {promise.parameter_bytes}},
                     features);
}
Failure check(const Source& source, Promise promise = {},
              const VulkanFeatures& features = everything()) {
  return check_words(assembled(source.text()), std::move(promise), features);
}

std::string text_of(const Failure& failure) { return failure ? failure.message() : "(none)"; }

void expect_accepted(const Failure& failure) { EXPECT_EQ(text_of(failure), "(none)"); }
void expect_refused(const Failure& failure, ErrorCode code,
                    const ::testing::Matcher<std::string>& matcher) {
  ASSERT_TRUE(failure) << "was accepted";
  EXPECT_EQ(failure.code(), code) << failure.message();
  EXPECT_THAT(failure.message(), AllOf(HasSubstr("kernel 'scale'"), matcher));
}

TEST(SpirvCheck, the_smallest_kernel_is_accepted) { expect_accepted(check({})); }

TEST(SpirvCheck, a_host_function_is_no_spirv) {
  const Failure failure = check_spirv({"scale", HostFunction(), 0, {}}, everything());
  expect_refused(failure, ErrorCode::unsupported, HasSubstr("no SPIR-V"));
}

TEST(SpirvCheck, words_that_are_no_module_are_refused) {
  std::vector<uint32_t> swapped = assembled(Source().text());
  for (uint32_t& word : swapped) word = __builtin_bswap32(word);
  for (const auto& words :
       {std::vector<uint32_t>{}, std::vector<uint32_t>{1, 2, 3}, std::vector<uint32_t>(1000, ~0U),
        std::vector<uint32_t>{0x07230203}, swapped}) {
    expect_refused(check_words(words), ErrorCode::usage, HasSubstr("SPIR-V"));
  }
}

TEST(SpirvCheck, an_invalid_module_is_refused_with_the_validators_reason) {
  expect_refused(check({.body = "%sum = OpIAdd %uint %two %float"}), ErrorCode::usage,
                 AllOf(HasSubstr("Vulkan 1.2"), Not(HasSubstr("\n"))));
}

// Vulkan 1.2 itself does not have it; maintenance4 would.
TEST(SpirvCheck, a_group_size_by_id_is_refused_as_vulkan_1_2_has_none) {
  expect_refused(check({.mode = "OpExecutionModeId %main LocalSizeId %two %two %two"}),
                 ErrorCode::usage, HasSubstr("LocalSizeId"));
}

TEST(SpirvCheck, a_missing_entry_point_is_named_with_those_there_are) {
  expect_refused(check({.entry = "GLCompute %main \"other\""}), ErrorCode::usage,
                 AllOf(HasSubstr("'main'"), HasSubstr("'other'")));
}

TEST(SpirvCheck, an_entry_point_of_another_stage_is_none) {
  expect_refused(check({.entry = "Vertex %main \"main\"", .mode = ""}), ErrorCode::usage,
                 AllOf(HasSubstr("'main'"), HasSubstr("none")));
}

TEST(SpirvCheck, each_missing_capability_has_its_sentence) {
  VulkanFeatures features = everything();
  const Source source{.capabilities = "OpCapability Float16\nOpCapability Int64"};
  expect_accepted(check(source, {}, features));
  features.float16 = false;
  expect_refused(check(source, {}, features), ErrorCode::unsupported,
                 AllOf(HasSubstr("kernel 'scale' needs 16-bit floats (capability Float16), which "
                                 "this device does not have"),
                       Not(HasSubstr("Int64"))));
  features.int64 = false;
  expect_refused(check(source, {}, features), ErrorCode::unsupported,
                 AllOf(HasSubstr("(capability Float16)"),
                       HasSubstr("it needs 64-bit integers (capability Int64)")));
}

TEST(SpirvCheck, a_feature_that_a_device_lacks_refuses_its_capability_alone) {
  struct Row {
    std::string capability;
    std::string what;
    void (*take_away)(VulkanFeatures&);
  };
  const std::string memory_model = "VulkanMemoryModel";
  const std::string device_scope = "VulkanMemoryModelDeviceScope";
  const Row rows[] = {
      {"Float16", "16-bit floats", [](VulkanFeatures& f) { f.float16 = false; }},
      {"Float64", "64-bit floats", [](VulkanFeatures& f) { f.float64 = false; }},
      {"Int8", "8-bit integers", [](VulkanFeatures& f) { f.int8 = false; }},
      {"Int16", "16-bit integers", [](VulkanFeatures& f) { f.int16 = false; }},
      {"Int64", "64-bit integers", [](VulkanFeatures& f) { f.int64 = false; }},
      {"Int64Atomics", "atomics on 64-bit integers",
       [](VulkanFeatures& f) { f.int64_atomics = false; }},
      {"AtomicFloat32AddEXT", "atomic addition of floats",
       [](VulkanFeatures& f) { f.float_atomic_add = false; }},
      {"StorageBuffer8BitAccess", "8-bit values in buffers",
       [](VulkanFeatures& f) { f.storage_8bit = false; }},
      {"StorageBuffer16BitAccess", "16-bit values in buffers",
       [](VulkanFeatures& f) { f.storage_16bit = false; }},
      {"UniformAndStorageBuffer8BitAccess", "8-bit values in uniform and storage buffers",
       [](VulkanFeatures& f) { f.uniform_and_storage_8bit = false; }},
      {"UniformAndStorageBuffer16BitAccess", "16-bit values in uniform and storage buffers",
       [](VulkanFeatures& f) { f.uniform_and_storage_16bit = false; }},
      {"StoragePushConstant8", "8-bit values in push constants",
       [](VulkanFeatures& f) { f.push_constant_8bit = false; }},
      {"StoragePushConstant16", "16-bit values in push constants",
       [](VulkanFeatures& f) { f.push_constant_16bit = false; }},
      {"VariablePointersStorageBuffer", "variable pointers into buffers",
       [](VulkanFeatures& f) { f.variable_pointers_storage = false; }},
      {"VariablePointers", "variable pointers into buffers and shared memory",
       [](VulkanFeatures& f) { f.variable_pointers = false; }},
      {device_scope, "device scope in Vulkan's memory model",
       [](VulkanFeatures& f) { f.memory_model_device_scope = false; }},
      {"PhysicalStorageBufferAddresses", "buffer addresses",
       [](VulkanFeatures& f) { f.buffer_addresses = false; }},
      {memory_model, "Vulkan's memory model",
       [](VulkanFeatures& f) { f.vulkan_memory_model = false; }},
      {"GroupNonUniform", "subgroups",
       [](VulkanFeatures& f) { f.subgroup &= ~VkFlags{VK_SUBGROUP_FEATURE_BASIC_BIT}; }},
      {"GroupNonUniformVote", "votes in subgroups",
       [](VulkanFeatures& f) { f.subgroup &= ~VkFlags{VK_SUBGROUP_FEATURE_VOTE_BIT}; }},
      {"GroupNonUniformArithmetic", "arithmetic in subgroups",
       [](VulkanFeatures& f) { f.subgroup &= ~VkFlags{VK_SUBGROUP_FEATURE_ARITHMETIC_BIT}; }},
      {"GroupNonUniformBallot", "ballots in subgroups",
       [](VulkanFeatures& f) { f.subgroup &= ~VkFlags{VK_SUBGROUP_FEATURE_BALLOT_BIT}; }},
      {"GroupNonUniformShuffle", "shuffles in subgroups",
       [](VulkanFeatures& f) { f.subgroup &= ~VkFlags{VK_SUBGROUP_FEATURE_SHUFFLE_BIT}; }},
      {"GroupNonUniformShuffleRelative", "relative shuffles in subgroups",
       [](VulkanFeatures& f) { f.subgroup &= ~VkFlags{VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT}; }},
      {"GroupNonUniformClustered", "clusters in subgroups",
       [](VulkanFeatures& f) { f.subgroup &= ~VkFlags{VK_SUBGROUP_FEATURE_CLUSTERED_BIT}; }},
      {"GroupNonUniformQuad", "quads in subgroups",
       [](VulkanFeatures& f) { f.subgroup &= ~VkFlags{VK_SUBGROUP_FEATURE_QUAD_BIT}; }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.capability);
    Source source{.capabilities = "OpCapability " + row.capability};
    if (row.capability == "AtomicFloat32AddEXT") {
      source.capabilities += "\nOpExtension \"SPV_EXT_shader_atomic_float_add\"";
    }
    // It must come with this memory model.
    if (row.capability == memory_model) source.memory = "Logical Vulkan";
    if (row.capability == device_scope) {
      source.capabilities += "\nOpCapability VulkanMemoryModel";
      source.memory = "Logical Vulkan";
    }
    if (row.capability == "Int64Atomics") source.capabilities += "\nOpCapability Int64";
    expect_accepted(check(source));
    VulkanFeatures features = everything();
    row.take_away(features);
    expect_refused(
        check(source, {}, features), ErrorCode::unsupported,
        EndsWith(fmt::format("kernel 'scale' needs {} (capability {}), which this device "
                             "does not have",
                             row.what, row.capability)));
  }
}

TEST(SpirvCheck, the_lesser_of_two_capabilities_needs_the_lesser_feature_alone) {
  VulkanFeatures features = everything();
  features.uniform_and_storage_8bit = features.uniform_and_storage_16bit = false;
  features.variable_pointers = features.memory_model_device_scope = false;
  expect_accepted(check({.capabilities = "OpCapability StorageBuffer8BitAccess\n"
                                         "OpCapability StorageBuffer16BitAccess\n"
                                         "OpCapability VariablePointersStorageBuffer\n"
                                         "OpCapability VulkanMemoryModel",
                         .memory = "Logical Vulkan"},
                        {}, features));
}

TEST(SpirvCheck, a_capability_that_nobody_offers_is_refused_by_name) {
  expect_refused(check({.capabilities = "OpCapability ImageBuffer"}), ErrorCode::unsupported,
                 HasSubstr("capability ImageBuffer,"));
}

TEST(SpirvCheck, group_sizes_are_held_against_the_device) {
  const auto of = [](const char* size) {
    return check({.mode = fmt::format("OpExecutionMode %main LocalSize {}", size)});
  };
  expect_accepted(of("1024 1 1"));
  expect_accepted(of("16 1 64"));
  expect_refused(of("1025 1 1"), ErrorCode::unsupported, HasSubstr("1025 x 1 x 1"));
  expect_refused(of("1 1 65"), ErrorCode::unsupported, HasSubstr("1024 x 1024 x 64"));
  expect_refused(of("64 64 1"), ErrorCode::unsupported, HasSubstr("1024 in all"));
  expect_refused(of("4294967295 4294967295 4294967295"), ErrorCode::unsupported,
                 HasSubstr("4294967295"));
  expect_refused(of("8 0 1"), ErrorCode::usage, HasSubstr("8 x 0 x 1"));
}

TEST(SpirvCheck, group_sizes_follow_the_specialization_constants) {
  const Source source = with_group_constants();
  expect_accepted(check(source));
  expect_accepted(check(source, {.constants = {{10, 512, 4}, {11, 2, 4}}}));
  expect_refused(check(source, {.constants = {{10, 512, 4}, {11, 4, 4}}}), ErrorCode::unsupported,
                 HasSubstr("512 x 4 x 1"));
  expect_refused(check(source, {.constants = {{12, 0, 4}}}), ErrorCode::usage,
                 HasSubstr("64 x 1 x 0"));
}

TEST(SpirvCheck, specialization_constants_are_refused_by_id_where_the_module_has_none) {
  const Source source = with_group_constants();
  expect_refused(check(source, {.constants = {{10, 1, 4}, {77, 1, 4}}}), ErrorCode::usage,
                 HasSubstr("constant 77"));
  expect_refused(check(source, {.constants = {{10, 1, 8}}}), ErrorCode::usage,
                 AllOf(HasSubstr("constant 10"), HasSubstr("4 bytes"), HasSubstr("8 are")));
  expect_refused(check(source, {.constants = {{10, 1, 4}, {10, 2, 4}}}), ErrorCode::usage,
                 HasSubstr("constant 10 twice"));
}

TEST(SpirvCheck, booleans_take_four_bytes_and_long_constants_eight) {
  const Source source{.capabilities = "OpCapability Int64",
                      .decorations = "OpDecorate %flag SpecId 1\nOpDecorate %long SpecId 2",
                      .globals =
                          "%flag = OpSpecConstantTrue %bool\n%ulong = OpTypeInt 64 0\n"
                          "%long = OpSpecConstant %ulong 5"};
  expect_accepted(check(source, {.constants = {{1, 0, 4}, {2, uint64_t{1} << 40, 8}}}));
  expect_refused(check(source, {.constants = {{2, 5, 4}}}), ErrorCode::usage,
                 HasSubstr("constant 2"));
}

TEST(SpirvCheck, shared_memory_is_held_against_the_device) {
  // floats[x * 2], where x is the group's size.
  Source source = with_group_constants();
  source.interface = "%shared";
  source.globals +=
      "\n%gx = OpSpecConstantOp %uint CompositeExtract %size 0\n"
      "%length = OpSpecConstantOp %uint IMul %gx %two\n"
      "%array = OpTypeArray %v4float %length\n"
      "%pointer = OpTypePointer Workgroup %array\n"
      "%shared = OpVariable %pointer Workgroup";
  expect_accepted(check(source, {.constants = {{10, 1024, 4}}}));
  VulkanFeatures features = everything();
  features.max_shared_bytes = 2047;
  expect_refused(check(source, {}, features), ErrorCode::unsupported,
                 AllOf(HasSubstr("2048 bytes"), HasSubstr("2047")));
}

TEST(SpirvCheck, a_length_may_be_computed_from_constants_bit_by_bit) {
  // 4 | 3 vectors of 16 bytes.
  Source source;
  source.interface = "%shared";
  source.globals =
      "%four = OpConstant %uint 4\n"
      "%length = OpSpecConstantOp %uint BitwiseOr %four %three\n"
      "%array = OpTypeArray %v4float %length\n"
      "%pointer = OpTypePointer Workgroup %array\n"
      "%shared = OpVariable %pointer Workgroup";
  VulkanFeatures features = everything();
  features.max_shared_bytes = 112;
  expect_accepted(check(source, {}, features));
  features.max_shared_bytes = 111;
  expect_refused(check(source, {}, features), ErrorCode::unsupported, HasSubstr("112 bytes"));
}

TEST(SpirvCheck, bindings_lie_in_set_0_within_what_a_dispatch_gives) {
  expect_accepted(check(with_buffer(0, 2), {.bindings = 3}));
  expect_refused(check(with_buffer(0, 3), {.bindings = 3}), ErrorCode::usage,
                 AllOf(HasSubstr("set 0, binding 3"), HasSubstr("gives 3 bindings")));
  expect_refused(check(with_buffer(1, 0), {.bindings = 3}), ErrorCode::usage,
                 AllOf(HasSubstr("set 1, binding 0"), HasSubstr("only set 0")));
  expect_refused(check(with_buffer(0, 4294967295U), {.bindings = 3}), ErrorCode::usage,
                 HasSubstr("binding 4294967295"));
}

TEST(SpirvCheck, parameters_past_the_push_constants_are_one_more_buffer) {
  expect_refused(check(with_buffer(0, 3), {.bindings = 3, .parameter_bytes = 128}),
                 ErrorCode::usage, HasSubstr("binding 3"));
  expect_accepted(check(with_buffer(0, 3), {.bindings = 3, .parameter_bytes = 129}));
  expect_refused(check(with_buffer(0, 4), {.bindings = 3, .parameter_bytes = 129}),
                 ErrorCode::usage, HasSubstr("binding 4"));
}

TEST(SpirvCheck, a_buffer_that_the_entry_point_does_not_use_is_free) {
  Source source = with_buffer(7, 7);
  source.interface = "";
  expect_accepted(check(source));
}

// Before SPIR-V 1.4 the entry point does not list its buffers.
TEST(SpirvCheck, a_buffer_used_by_a_function_that_is_called_counts) {
  Source source = with_buffer(0, 5);
  source.interface = "";
  source.globals += "\n%element = OpTypePointer StorageBuffer %float";
  source.body = "%called = OpFunctionCall %void %helper";
  source.functions =
      "%helper = OpFunction %void None %function\n%begin = OpLabel\n"
      "%at = OpAccessChain %element %buffer %zero %two\n"
      "%loaded = OpLoad %float %at\nOpReturn\nOpFunctionEnd\n";
  std::vector<uint32_t> words = assembled(source.text());
  words.at(1) = 0x00010300;
  expect_accepted(check_words(words, {.bindings = 6}));
  expect_refused(check_words(words, {.bindings = 5}), ErrorCode::usage, HasSubstr("binding 5"));
}

TEST(SpirvCheck, only_storage_buffers_can_be_bound) {
  Source uniform = with_buffer(0, 0);
  uniform.decorations =
      "OpDecorate %buffer DescriptorSet 0\nOpDecorate %buffer Binding 0\n"
      "OpDecorate %block Block\nOpMemberDecorate %block 0 Offset 0";
  uniform.globals =
      "%block = OpTypeStruct %v4float\n%pointer = OpTypePointer Uniform %block\n"
      "%buffer = OpVariable %pointer Uniform";
  expect_refused(check(uniform, {.bindings = 1}), ErrorCode::unsupported,
                 AllOf(HasSubstr("binding 0"), HasSubstr("uniform buffer")));

  Source image{.interface = "%image",
               .decorations = "OpDecorate %image DescriptorSet 0\nOpDecorate %image Binding 0",
               .globals =
                   "%kind = OpTypeImage %float 2D 0 0 0 2 R32f\n"
                   "%pointer = OpTypePointer UniformConstant %kind\n"
                   "%image = OpVariable %pointer UniformConstant"};
  expect_refused(check(image, {.bindings = 1}), ErrorCode::unsupported,
                 AllOf(HasSubstr("binding 0"), HasSubstr("image")));

  Source array = with_buffer(0, 0);
  array.globals =
      "%floats = OpTypeRuntimeArray %float\n%block = OpTypeStruct %floats\n"
      "%blocks = OpTypeArray %block %two\n"
      "%pointer = OpTypePointer StorageBuffer %blocks\n"
      "%buffer = OpVariable %pointer StorageBuffer";
  expect_refused(check(array, {.bindings = 2}), ErrorCode::unsupported,
                 HasSubstr("array of buffers"));
}

TEST(SpirvCheck, the_storage_buffers_of_old_spirv_are_known) {
  Source source = with_buffer(0, 1);
  source.interface = "";
  source.decorations =
      "OpDecorate %buffer DescriptorSet 0\nOpDecorate %buffer Binding 1\n"
      "OpDecorate %floats ArrayStride 4\nOpDecorate %block BufferBlock\n"
      "OpMemberDecorate %block 0 Offset 0";
  source.globals =
      "%floats = OpTypeRuntimeArray %float\n%block = OpTypeStruct %floats\n"
      "%pointer = OpTypePointer Uniform %block\n%element = OpTypePointer Uniform "
      "%float\n%buffer = OpVariable %pointer Uniform";
  source.body = "%at = OpAccessChain %element %buffer %zero %two\n%loaded = OpLoad %float %at";
  std::vector<uint32_t> words = assembled(source.text());
  words.at(1) = 0x00010000;
  expect_accepted(check_words(words, {.bindings = 2}));
  expect_refused(check_words(words, {.bindings = 1}), ErrorCode::usage, HasSubstr("binding 1"));
}

TEST(SpirvCheck, decorations_by_group_count_like_others) {
  Source source = with_buffer(0, 0);
  source.decorations =
      "OpDecorate %group DescriptorSet 0\nOpDecorate %group Binding 4\n"
      "%group = OpDecorationGroup\nOpGroupDecorate %group %buffer\n"
      "OpDecorate %floats ArrayStride 4\nOpDecorate %block Block\n"
      "OpDecorate %start_of Offset 0\n%start_of = OpDecorationGroup\n"
      "OpGroupMemberDecorate %start_of %block 0";
  expect_accepted(check(source, {.bindings = 5}));
  expect_refused(check(source, {.bindings = 4}), ErrorCode::usage, HasSubstr("binding 4"));
}

TEST(SpirvCheck, kernels_by_address_declare_no_bindings) {
  const Promise promise{.bindings = 1, .how = SpirvBindings::addresses};
  expect_refused(check(with_buffer(0, 0), promise), ErrorCode::usage, HasSubstr("by address"));
  expect_accepted(check({}, promise));
}

TEST(SpirvCheck, kernels_by_address_need_a_device_that_has_addresses) {
  VulkanFeatures features = everything();
  features.buffer_addresses = false;
  expect_refused(check({}, {.bindings = 1, .how = SpirvBindings::addresses}, features),
                 ErrorCode::unsupported, HasSubstr("SpirvBindings::descriptors"));
}

TEST(SpirvCheck, push_constants_are_no_larger_than_the_parameters) {
  const Source twelve = with_push_constants(
      "OpMemberDecorate %block 0 Offset 0\nOpMemberDecorate %block 1 Offset 8", "", "%uint %float");
  expect_accepted(check(twelve, {.parameter_bytes = 12}));
  expect_accepted(check(twelve, {.parameter_bytes = 9}));
  expect_refused(check(twelve, {.parameter_bytes = 8}), ErrorCode::usage,
                 AllOf(HasSubstr("12 bytes"), HasSubstr("gets 8")));
  expect_accepted(check(twelve, {.parameter_bytes = 128}));
  expect_refused(check(twelve, {.parameter_bytes = 129}), ErrorCode::usage, HasSubstr("gets 0"));
}

TEST(SpirvCheck, push_constants_by_address_hold_the_block_or_its_address) {
  Source sixteen = with_push_constants(
      "OpMemberDecorate %block 0 Offset 0\nOpMemberDecorate %block 1 Offset 8\n"
      "OpDecorate %floats ArrayStride 4\nOpDecorate %data Block\nOpMemberDecorate %data 0 Offset 0",
      "%floats = OpTypeRuntimeArray %float\n%data = OpTypeStruct %floats\n"
      "%address = OpTypePointer PhysicalStorageBuffer %data",
      "%address %address");
  sixteen.capabilities = "OpCapability PhysicalStorageBufferAddresses";
  sixteen.memory = "PhysicalStorageBuffer64 GLSL450";
  const auto with = [&](uint32_t bindings, uint64_t parameters) {
    return check(sixteen, {bindings, parameters, SpirvBindings::addresses});
  };
  expect_accepted(with(2, 0));
  expect_accepted(with(1, 5));
  expect_refused(with(1, 4), ErrorCode::usage, AllOf(HasSubstr("16 bytes"), HasSubstr("gets 12")));
  expect_accepted(with(2, 112));
  expect_refused(with(2, 113), ErrorCode::usage, HasSubstr("gets 8"));
  expect_refused(with(17, 0), ErrorCode::usage, HasSubstr("gets 8"));
}

// As compilers write buffer references.
TEST(SpirvCheck, an_address_that_is_declared_ahead_of_its_type_is_measured) {
  Source source = with_push_constants(
      "OpMemberDecorate %block 0 Offset 0\nOpDecorate %data Block\n"
      "OpMemberDecorate %data 0 Offset 0\nOpTypeForwardPointer %address PhysicalStorageBuffer",
      "", "%address");
  source.globals +=
      "\n%data = OpTypeStruct %uint\n"
      "%address = OpTypePointer PhysicalStorageBuffer %data";
  source.capabilities = "OpCapability PhysicalStorageBufferAddresses";
  source.memory = "PhysicalStorageBuffer64 GLSL450";
  expect_accepted(check(source, {.bindings = 1, .how = SpirvBindings::addresses}));
  expect_refused(check(source, {.how = SpirvBindings::addresses}), ErrorCode::usage,
                 HasSubstr("of 8 bytes"));
}

TEST(SpirvCheck, push_constants_of_every_shape_are_measured) {
  struct Row {
    const char* what;
    std::string decorations, types, members;
    uint64_t bytes;
  };
  const Row rows[] = {
      {"members in another order",
       "OpMemberDecorate %block 0 Offset 20\nOpMemberDecorate %block 1 Offset 0", "",
       "%uint %v4float", 24},
      {"array", "OpMemberDecorate %block 0 Offset 4\nOpDecorate %array ArrayStride 16",
       "%array = OpTypeArray %uint %three", "%array", 40},
      {"column-major matrix",
       "OpMemberDecorate %block 0 Offset 0\nOpMemberDecorate %block 0 ColMajor\n"
       "OpMemberDecorate %block 0 MatrixStride 16",
       "%v3float = OpTypeVector %float 3\n%matrix = OpTypeMatrix %v3float 2", "%matrix", 28},
      {"row-major matrix",
       "OpMemberDecorate %block 0 Offset 0\nOpMemberDecorate %block 0 RowMajor\n"
       "OpMemberDecorate %block 0 MatrixStride 16",
       "%v3float = OpTypeVector %float 3\n%matrix = OpTypeMatrix %v3float 2", "%matrix", 40},
      {"array of matrices",
       "OpMemberDecorate %block 0 Offset 0\nOpMemberDecorate %block 0 ColMajor\n"
       "OpMemberDecorate %block 0 MatrixStride 16\nOpDecorate %array ArrayStride 32",
       "%v3float = OpTypeVector %float 3\n%matrix = OpTypeMatrix %v3float 2\n"
       "%array = OpTypeArray %matrix %three",
       "%array", 92},
      {"structure",
       "OpMemberDecorate %block 0 Offset 16\nOpMemberDecorate %inner 0 Offset 0\n"
       "OpMemberDecorate %inner 1 Offset 16",
       "%inner = OpTypeStruct %uint %v4float", "%inner", 48},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const Source source = with_push_constants(row.decorations, row.types, row.members);
    expect_accepted(check(source, {.parameter_bytes = row.bytes}));
    expect_refused(check(source, {.parameter_bytes = row.bytes - 4}), ErrorCode::usage,
                   HasSubstr(fmt::format("of {} bytes", row.bytes)));
  }
}

TEST(SpirvCheck, push_constants_of_small_values_are_measured) {
  Source source = with_push_constants(
      "OpMemberDecorate %block 0 Offset 0\nOpMemberDecorate %block 1 Offset 4\n"
      "OpMemberDecorate %block 2 Offset 6",
      "%half = OpTypeFloat 16\n%byte = OpTypeInt 8 0", "%float %half %byte");
  source.capabilities = "OpCapability StoragePushConstant8\nOpCapability StoragePushConstant16";
  expect_accepted(check(source, {.parameter_bytes = 7}));
  expect_refused(check(source, {.parameter_bytes = 4}), ErrorCode::usage,
                 AllOf(HasSubstr("of 7 bytes"), HasSubstr("gets 4")));
}

TEST(SpirvCheck, types_nested_beyond_reason_are_refused_before_they_harm) {
  // Arrays around a number, which is a type as well.
  const auto nested = [](int arrays) {
    Source source;
    source.globals = "%t0 = OpTypeArray %uint %two\n";
    for (int i = 1; i < arrays; ++i) {
      source.globals += fmt::format("%t{} = OpTypeArray %t{} %two\n", i, i - 1);
    }
    return source;
  };
  for (const int arrays : {500, 100'000}) {
    expect_refused(check(nested(arrays)), ErrorCode::usage,
                   HasSubstr(fmt::format("nests types {} deep; 500 is the limit", arrays + 1)));
  }
  const Failure at_the_limit = check(nested(499));
  EXPECT_THAT(at_the_limit ? at_the_limit.message() : "", Not(HasSubstr("nests types")));
}

TEST(SpirvCheck, a_module_cut_anywhere_is_refused) {
  const auto words = assembled(with_group_constants().text());
  for (size_t length = 0; length < words.size(); ++length) {
    const std::vector<uint32_t> cut(words.begin(), words.begin() + static_cast<long>(length));
    EXPECT_TRUE(check_words(cut)) << "cut at " << length;
  }
}

// The claim is that each of these returns; most are refused.
TEST(SpirvCheck, no_module_however_broken_does_worse_than_fail) {
  std::vector<std::vector<uint32_t>> modules;
  for (const Source& source :
       {with_group_constants(), with_buffer(0, 0),
        with_push_constants("OpMemberDecorate %block 0 Offset 0\n"
                            "OpMemberDecorate %block 0 RowMajor\n"
                            "OpMemberDecorate %block 0 MatrixStride 16",
                            "%matrix = OpTypeMatrix %v4float 2", "%matrix")}) {
    modules.push_back(assembled(source.text()));
  }
  std::mt19937 random(7);
  const uint32_t odd[] = {0, 1, 2, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x003FFFFF};
  size_t refused = 0;
  for (int round = 0; round < 6'000; ++round) {
    std::vector<uint32_t> words = modules[static_cast<size_t>(round) % modules.size()];
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      uint32_t& word = words[1 + random() % (words.size() - 1)];
      switch (random() % 4) {
        case 0: word ^= 1U << random() % 32; break;
        case 1: word = odd[random() % std::size(odd)]; break;
        case 2: word = words[random() % words.size()]; break;
        default: word = static_cast<uint32_t>(random()); break;
      }
    }
    if (check_words(words, {.bindings = 1, .constants = {{10, 3, 4}}})) ++refused;
  }
  EXPECT_GT(refused, 3'000U);
}

}  // namespace
}  // namespace holdfast::hal
