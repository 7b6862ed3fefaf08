#include <embedded/cts_spirv.h>

#include <numeric>
#include <stdexcept>

#include "holdfast/hal/cts/vulkan_cts.h"

// Native callbacks of Vulkan: they record commands, which take their place in the list.

namespace holdfast::hal::cts {
namespace {

constexpr size_t kVulkanNativeElements = 4096;

VkCommandBuffer stream_of(const NativeCall& call) {
  return static_cast<VkCommandBuffer>(call.native_stream);
}

VkBuffer buffer_of(const NativeBinding& binding) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a handle, which Vulkan has as a pointer
  return reinterpret_cast<VkBuffer>(binding.buffer);
}

void record_copy(PFN_vkCmdCopyBuffer copy, const NativeCall& call) {
  const NativeBinding& from = call.native_bindings[0];
  const NativeBinding& to = call.native_bindings[1];
  const VkBufferCopy region{from.offset, to.offset, from.length};
  copy(stream_of(call), buffer_of(from), buffer_of(to), 1, &region);
}

void record_fill(PFN_vkCmdFillBuffer fill, const NativeCall& call, uint32_t word) {
  const NativeBinding& to = call.native_bindings[0];
  fill(stream_of(call), buffer_of(to), to.offset, to.length, word);
}

// A pipeline that the device knows nothing of: increment_addresses.comp, as its author would use
// it. Goes before its device, and after the last list that uses it.
class RawIncrement {
 public:
  explicit RawIncrement(const VulkanDevice& device)
      : device_(static_cast<VkDevice>(device.handles().device)),
        destroy_pipeline_(
            testing::vulkan_function<PFN_vkDestroyPipeline>(device, "vkDestroyPipeline")),
        destroy_layout_(testing::vulkan_function<PFN_vkDestroyPipelineLayout>(
            device, "vkDestroyPipelineLayout")),
        bind_(testing::vulkan_function<PFN_vkCmdBindPipeline>(device, "vkCmdBindPipeline")),
        push_(testing::vulkan_function<PFN_vkCmdPushConstants>(device, "vkCmdPushConstants")),
        dispatch_(testing::vulkan_function<PFN_vkCmdDispatch>(device, "vkCmdDispatch")) {
    const std::span<const uint32_t> words = embedded::cts_spirv("increment_addresses");
    VkShaderModuleCreateInfo module_info{};
    module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    module_info.codeSize = words.size_bytes();
    module_info.pCode = words.data();
    VkShaderModule module = VK_NULL_HANDLE;
    check(testing::vulkan_function<PFN_vkCreateShaderModule>(device, "vkCreateShaderModule")(
        device_, &module_info, nullptr, &module));
    const VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Block)};
    VkPipelineLayoutCreateInfo layout_info{};
    layout_info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layout_info.pushConstantRangeCount = 1;
    layout_info.pPushConstantRanges = &push;
    check(testing::vulkan_function<PFN_vkCreatePipelineLayout>(device, "vkCreatePipelineLayout")(
        device_, &layout_info, nullptr, &layout_));
    VkComputePipelineCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    info.layout = layout_;
    check(
        testing::vulkan_function<PFN_vkCreateComputePipelines>(device, "vkCreateComputePipelines")(
            device_, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline_));
    testing::vulkan_function<PFN_vkDestroyShaderModule>(device, "vkDestroyShaderModule")(
        device_, module, nullptr);
  }
  ~RawIncrement() {
    destroy_pipeline_(device_, pipeline_, nullptr);
    destroy_layout_(device_, layout_, nullptr);
  }
  RawIncrement(const RawIncrement&) = delete;
  RawIncrement& operator=(const RawIncrement&) = delete;

  void record(const NativeCall& call) const {
    const NativeBinding& data = call.native_bindings[0];
    const Block block{data.address, static_cast<uint32_t>(data.length / 4)};
    bind_(stream_of(call), VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_);
    push_(stream_of(call), layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof block, &block);
    dispatch_(stream_of(call), groups_for(block.n).x, 1, 1);
  }

 private:
  struct Block {
    uint64_t data = 0;
    uint32_t n = 0;
    uint32_t padding = 0;
  };
  static void check(VkResult result) { EXPECT_EQ(result, VK_SUCCESS); }

  VkDevice device_;
  PFN_vkDestroyPipeline destroy_pipeline_;
  PFN_vkDestroyPipelineLayout destroy_layout_;
  PFN_vkCmdBindPipeline bind_;
  PFN_vkCmdPushConstants push_;
  PFN_vkCmdDispatch dispatch_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
};

// The same with descriptors: increment.comp, over a set of its own that it leaves bound. For one
// list.
class RawDescriptors {
 public:
  explicit RawDescriptors(const VulkanDevice& device)
      : device_(static_cast<VkDevice>(device.handles().device)),
        destroy_pipeline_(load<PFN_vkDestroyPipeline>(device, "vkDestroyPipeline")),
        destroy_layout_(load<PFN_vkDestroyPipelineLayout>(device, "vkDestroyPipelineLayout")),
        destroy_set_layout_(
            load<PFN_vkDestroyDescriptorSetLayout>(device, "vkDestroyDescriptorSetLayout")),
        destroy_pool_(load<PFN_vkDestroyDescriptorPool>(device, "vkDestroyDescriptorPool")),
        update_(load<PFN_vkUpdateDescriptorSets>(device, "vkUpdateDescriptorSets")),
        bind_(load<PFN_vkCmdBindPipeline>(device, "vkCmdBindPipeline")),
        bind_sets_(load<PFN_vkCmdBindDescriptorSets>(device, "vkCmdBindDescriptorSets")),
        dispatch_(load<PFN_vkCmdDispatch>(device, "vkCmdDispatch")) {
    const VkDescriptorSetLayoutBinding binding{0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                                               VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    VkDescriptorSetLayoutCreateInfo set_info{};
    set_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    set_info.bindingCount = 1;
    set_info.pBindings = &binding;
    check(load<PFN_vkCreateDescriptorSetLayout>(device, "vkCreateDescriptorSetLayout")(
        device_, &set_info, nullptr, &set_layout_));
    VkPipelineLayoutCreateInfo layout_info{};
    layout_info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layout_info.setLayoutCount = 1;
    layout_info.pSetLayouts = &set_layout_;
    check(load<PFN_vkCreatePipelineLayout>(device, "vkCreatePipelineLayout")(device_, &layout_info,
                                                                             nullptr, &layout_));
    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
    VkDescriptorPoolCreateInfo pool_info{};
    pool_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    pool_info.maxSets = 1;
    pool_info.poolSizeCount = 1;
    pool_info.pPoolSizes = &size;
    check(load<PFN_vkCreateDescriptorPool>(device, "vkCreateDescriptorPool")(device_, &pool_info,
                                                                             nullptr, &pool_));
    VkDescriptorSetAllocateInfo set_of{};
    set_of.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
    set_of.descriptorPool = pool_;
    set_of.descriptorSetCount = 1;
    set_of.pSetLayouts = &set_layout_;
    check(load<PFN_vkAllocateDescriptorSets>(device, "vkAllocateDescriptorSets")(device_, &set_of,
                                                                                 &set_));
    const std::span<const uint32_t> words = embedded::cts_spirv("increment");
    VkShaderModuleCreateInfo module_info{};
    module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    module_info.codeSize = words.size_bytes();
    module_info.pCode = words.data();
    VkShaderModule module = VK_NULL_HANDLE;
    check(load<PFN_vkCreateShaderModule>(device, "vkCreateShaderModule")(device_, &module_info,
                                                                         nullptr, &module));
    VkComputePipelineCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    info.layout = layout_;
    check(load<PFN_vkCreateComputePipelines>(device, "vkCreateComputePipelines")(
        device_, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline_));
    load<PFN_vkDestroyShaderModule>(device, "vkDestroyShaderModule")(device_, module, nullptr);
  }
  ~RawDescriptors() {
    destroy_pipeline_(device_, pipeline_, nullptr);
    destroy_pool_(device_, pool_, nullptr);
    destroy_layout_(device_, layout_, nullptr);
    destroy_set_layout_(device_, set_layout_, nullptr);
  }
  RawDescriptors(const RawDescriptors&) = delete;
  RawDescriptors& operator=(const RawDescriptors&) = delete;

  void record(const NativeCall& call) const {
    const NativeBinding& data = call.native_bindings[0];
    const VkDescriptorBufferInfo place{buffer_of(data), data.offset, data.length};
    VkWriteDescriptorSet write{};
    write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    write.dstSet = set_;
    write.descriptorCount = 1;
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = &place;
    update_(device_, 1, &write, 0, nullptr);
    bind_(stream_of(call), VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_);
    bind_sets_(stream_of(call), VK_PIPELINE_BIND_POINT_COMPUTE, layout_, 0, 1, &set_, 0, nullptr);
    dispatch_(stream_of(call), groups_for(data.length / 4).x, 1, 1);
  }

 private:
  template <typename Function>
  static Function load(const VulkanDevice& device, const char* name) {
    return testing::vulkan_function<Function>(device, name);
  }
  static void check(VkResult result) { EXPECT_EQ(result, VK_SUCCESS); }

  VkDevice device_;
  PFN_vkDestroyPipeline destroy_pipeline_;
  PFN_vkDestroyPipelineLayout destroy_layout_;
  PFN_vkDestroyDescriptorSetLayout destroy_set_layout_;
  PFN_vkDestroyDescriptorPool destroy_pool_;
  PFN_vkUpdateDescriptorSets update_;
  PFN_vkCmdBindPipeline bind_;
  PFN_vkCmdBindDescriptorSets bind_sets_;
  PFN_vkCmdDispatch dispatch_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkDescriptorPool pool_ = VK_NULL_HANDLE;
  VkDescriptorSet set_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
};

}  // namespace

TEST_P(CtsVulkan, a_native_callback_gets_the_buffers_that_it_declared) {
  const auto data = uploaded(counting(256), "data");
  const auto out = uploaded(Words(16), "out");
  const auto copy = function<PFN_vkCmdCopyBuffer>("vkCmdCopyBuffer");
  auto work = list();
  size_t bindings = 0;
  bool has_stream = false;
  bool has_host_memory = true;
  const std::vector declared{Binding::of(data, range(256, 16), Access::read),
                             Binding::of(out, range(4, 16), Access::write)};
  work.native(
      [&](const NativeCall& call) {
        has_stream = call.native_stream != nullptr;
        has_host_memory = !call.host_bindings.empty();
        bindings = call.native_bindings.size();
        if (bindings == 2) record_copy(copy, call);
      },
      declared, "callback");
  EXPECT_EQ(work.command_count(), 1U);
  EXPECT_EQ(work.holds().size(), 2U);
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_TRUE(has_stream);
  EXPECT_FALSE(has_host_memory);
  EXPECT_EQ(bindings, 2U);
  Words expected(16);
  std::iota(expected.begin() + 1, expected.begin() + 5, 64U);
  EXPECT_EQ(read(out), expected);
}

TEST_P(CtsVulkan, commands_of_callbacks_and_kernels_run_in_the_order_of_their_barriers) {
  const auto a = uploaded(Words(kVulkanNativeElements, 1), "a");
  const auto b = uploaded(Words(kVulkanNativeElements, 0), "b");
  const auto copy = function<PFN_vkCmdCopyBuffer>("vkCmdCopyBuffer");
  const auto record = [copy](const NativeCall& call) { record_copy(copy, call); };
  const std::vector there{Binding::of(a, Access::read), Binding::of(b, Access::write)};
  const std::vector back{Binding::of(b, Access::read), Binding::of(a, Access::write)};
  auto work = list();
  uint32_t expected = 1;
  for (uint32_t step = 0; step < 20; ++step) {
    affine(work, a, 3, step);
    work.barrier();
    work.native(record, there);
    work.barrier();
    affine(work, b, 5, step);
    work.barrier();
    work.native(record, back);
    work.barrier();
    expected = (expected * 3 + step) * 5 + step;
  }
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(a), Words(kVulkanNativeElements, expected));
}

TEST_P(CtsVulkan, a_callback_may_dispatch_a_pipeline_of_its_own_and_leave_it_bound) {
  if (!has_addresses()) GTEST_SKIP() << "no buffer addresses";
  const RawIncrement raw(vulkan());
  const auto data = uploaded(Words(kVulkanNativeElements, 1), "data");
  const std::vector in_place{Binding::of(data, Access::read_write)};
  auto work = list();
  uint32_t expected = 1;
  for (uint32_t step = 0; step < 10; ++step) {
    affine(work, data, 3, step);
    work.barrier();
    work.native([&raw](const NativeCall& call) { raw.record(call); }, in_place);
    work.barrier();
    expected = expected * 3 + step + 1;
  }
  EXPECT_TRUE(reached(submit(queue(), work)));
  queue()->retire();
  EXPECT_EQ(read(data), Words(kVulkanNativeElements, expected));
}

TEST_P(CtsVulkan, what_callbacks_record_is_ordered_across_lists_and_queues) {
  const auto data = uploaded(Words(kVulkanNativeElements, 0), "data");
  const auto out = words(kVulkanNativeElements, "out");
  const auto fill = function<PFN_vkCmdFillBuffer>("vkCmdFillBuffer");
  const std::vector bound{Binding::of(data, Access::write)};
  Point last;
  for (uint32_t step = 0; step < 20; ++step) {
    auto work = list();
    work.native([fill, step](const NativeCall& call) { record_fill(fill, call, step); }, bound);
    last = submit(queue(step % device().queues().size()), work, {{last, WaitKind::data}});
    auto more = list();
    increment(more, data);
    last = submit(queue((step + 1) % device().queues().size()), more, {{last, WaitKind::data}});
  }
  auto end = list();
  end.copy(data, {{}, data->size()}, out, {{}, out->size()});
  ASSERT_TRUE(reached(submit(queue(), end, {{last, WaitKind::data}})));
  EXPECT_EQ(read(out), Words(kVulkanNativeElements, 20));
}

TEST_P(CtsVulkan, a_program_calls_its_callbacks_for_every_replay_with_its_slots) {
  const auto calls = std::make_shared<Counter>();
  const auto fill = function<PFN_vkCmdFillBuffer>("vkCmdFillBuffer");
  auto steps = list("steps");
  const std::vector slot{Binding::of_slot(0, range(16, 16), Access::write)};
  steps.native(
      [calls, fill](const NativeCall& call) {
        record_fill(fill, call, 6);
        calls->add();
      },
      slot);
  const auto program = device().create_program(steps).or_raise();
  const auto a = uploaded(Words(16), "a");
  const auto b = uploaded(Words(16), "b");
  Words expected(16);
  std::fill_n(expected.begin() + 4, 4, 6);
  for (const auto& data : {a, b, a}) {
    auto one = replay(program, {Binding::of(data, Access::write)});
    ASSERT_TRUE(reached(submit(queue(), one)));
    EXPECT_EQ(read(data), expected);
  }
  EXPECT_EQ(calls->value(), 3);
}

TEST_P(CtsVulkan, nothing_runs_of_a_list_whose_callback_throws) {
  if (GetParam().name.find("adversary") != std::string::npos) {
    GTEST_SKIP() << "the adversary hands commands over one by one";
  }
  const auto data = uploaded(Words(64, 1), "data");
  const auto fill = function<PFN_vkCmdFillBuffer>("vkCmdFillBuffer");
  auto work = list("doomed");
  store(work, data, 9);
  work.barrier();
  const std::vector bound{Binding::of(data, Access::write)};
  work.native(
      [fill](const NativeCall& call) {
        record_fill(fill, call, 8);
        throw std::runtime_error("out of luck");
      },
      bound, "thrower");
  const Point point = submit(queue(), work);
  ASSERT_TRUE(failed(point));
  EXPECT_THAT(point.failure().message(), ::testing::HasSubstr("out of luck"));
  EXPECT_EQ(point.damage(), nullptr) << "all that the list writes is bad";
  EXPECT_EQ(read(data), Words(64, 1));
}

TEST_P(CtsVulkan, a_replay_whose_callback_throws_fails_alone) {
  const auto calls = std::make_shared<Counter>();
  auto steps = list("moody");
  steps.native(
      [calls](const NativeCall&) {
        calls->add();
        if (calls->value() % 2 == 1) throw std::runtime_error("not today");
      },
      {});
  const auto program = device().create_program(steps).or_raise();
  for (int i = 0; i < 4; ++i) {
    auto one = replay(program, {});
    const Point point = submit(queue(), one);
    if (i % 2 == 0) {
      EXPECT_TRUE(failed(point));
    } else {
      EXPECT_TRUE(reached(point));
    }
  }
}

TEST_P(CtsVulkan, the_handles_of_a_device_are_the_ones_in_use) {
  const VulkanHandles handles = vulkan().handles();
  EXPECT_NE(handles.instance, nullptr);
  EXPECT_NE(handles.physical_device, nullptr);
  EXPECT_NE(handles.device, nullptr);
  ASSERT_NE(handles.get_instance_proc_addr, nullptr);
  const auto get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(handles.get_instance_proc_addr);
  const auto properties = reinterpret_cast<PFN_vkGetPhysicalDeviceProperties>(
      get(static_cast<VkInstance>(handles.instance), "vkGetPhysicalDeviceProperties"));
  VkPhysicalDeviceProperties found{};
  properties(static_cast<VkPhysicalDevice>(handles.physical_device), &found);
  EXPECT_THAT(device().info().description, ::testing::HasSubstr(std::string(&found.deviceName[0])));
}

TEST_P(CtsVulkan, buffers_have_addresses_wherever_the_driver_has_them) {
  const VulkanHandles handles = vulkan().handles();
  const auto get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(handles.get_instance_proc_addr);
  const auto features = reinterpret_cast<PFN_vkGetPhysicalDeviceFeatures2>(
      get(static_cast<VkInstance>(handles.instance), "vkGetPhysicalDeviceFeatures2"));
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceFeatures2 found{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &v12};
  features(static_cast<VkPhysicalDevice>(handles.physical_device), &found);
  EXPECT_EQ(has_addresses(), v12.bufferDeviceAddress != 0);
}

TEST_P(CtsVulkan, the_same_dispatch_before_and_after_a_callback_is_bound_anew) {
  if (!has_addresses()) GTEST_SKIP() << "no buffer addresses";
  const RawIncrement raw(vulkan());
  const RawDescriptors descriptors(vulkan());
  const auto data = uploaded(Words(kVulkanNativeElements, 1), "data");
  const auto other = uploaded(Words(kVulkanNativeElements, 1), "other");
  const std::vector bound{Binding::of(other, Access::read_write)};
  auto work = list();
  affine(work, data, 3, 1);
  work.barrier();
  work.native([&](const NativeCall& call) { raw.record(call); }, bound, "push constants");
  work.barrier();
  affine(work, data, 3, 1);
  work.barrier();
  work.native([&](const NativeCall& call) { descriptors.record(call); }, bound, "descriptors");
  work.barrier();
  affine(work, data, 3, 1);
  EXPECT_TRUE(reached(submit(queue(), work)));
  queue()->retire();
  EXPECT_EQ(read(data), Words(kVulkanNativeElements, 40));
  EXPECT_EQ(read(other), Words(kVulkanNativeElements, 3));
}

}  // namespace holdfast::hal::cts
