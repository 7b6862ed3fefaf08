// What the backend costs above Vulkan itself: each reference is a loop that a careful programmer
// would write by hand for this one purpose, doing the same work on the same VkDevice type in the
// same run. Times are the host's; run pinned to one core, and lavapipe with LP_NUM_THREADS=0.
#include <benchmark/benchmark.h>

#include <embedded/vulkan_bench_spirv.h>
#include <array>
#include <cstring>

#include "holdfast/base/sync/cpu_clock.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/gpu/gpu_timeline.h"
#include "holdfast/hal/vulkan/vulkan_device.h"
#include "holdfast/hal/vulkan/vulkan_resources.h"
#include "holdfast/runtime/context.h"
#include "holdfast/runtime/stream.h"

namespace holdfast::hal {
namespace {

// Dispatches a list. Enough that the submit is a small part, few enough to be a list of a real
// program.
constexpr int kBatch = 100;
constexpr Bytes kArray{1024};  // 256 floats
// Memory that a batch goes round in: every dispatch binds others.
constexpr int kArrays = 64;
constexpr int kReplayed = 16;
// Lists in flight where submitting is measured.
constexpr int kSubmits = 16;

enum class Way { descriptors, addresses };

SpirvModule add_module(Way way) {
  const auto words = embedded::vulkan_bench_spirv(way == Way::addresses ? "add_addresses" : "add");
  SpirvModule module;
  module.words.assign(words.begin(), words.end());
  module.bindings = way == Way::addresses ? SpirvBindings::addresses : SpirvBindings::descriptors;
  return module;
}

// What the calling thread itself has used: a software device runs beside it, on the same cores.
class HostTime {
 public:
  double seconds() const {
    return std::chrono::duration<double>(sync::thread_cpu_time() - start_).count();
  }

 private:
  sync::Duration start_ = sync::thread_cpu_time();
};

// The device of all rows (opening one takes as long as thousands of measurements); null, with the
// reason said, where there is none.
Ref<VulkanDevice> open_device(benchmark::State& state) {
  // Destroyed, and so closed, before what the driver registered for the exit when it was loaded.
  static Result<Ref<VulkanDevice>> device = VulkanDevice::open({.queues = 1});
  if (!device) {
    state.SkipWithError(("skipped: " + device.failure().message()).c_str());
    return nullptr;
  }
  state.SetLabel(device.value()->info().description);
  return device.value();
}

// --- Ours: the device contract -----------------------------------------------------------------

struct Ours {
  explicit Ours(Ref<VulkanDevice> opened, Way way) : device(std::move(opened)) {
    kernel = device->create_pipeline({"add", add_module(way), 3, 4_B}).or_raise();
    const auto block =
        device->create_buffer({kArray * kArrays, MemoryKind::device, "block"}).or_raise();
    for (uint64_t i = 0; i < kArrays; ++i) {
      arrays.push_back(Ref<Allocation>(
          new Allocation(block, {Bytes{i * kArray.value}, kArray}, "array", nullptr)));
    }
  }
  Queue& queue() const { return *device->queues()[0]; }

  // Independent: outputs that nobody else touches. Dependent: each reads what the one before wrote.
  void dispatch(CommandList& list, int i, bool dependent) const {
    const float bias = static_cast<float>(i);
    const size_t n = arrays.size();
    const auto k = static_cast<size_t>(i);
    const Ref<Allocation>& a = arrays[dependent ? k % n : 0];
    const Ref<Allocation>& b = arrays[dependent ? 0 : 1];
    const Ref<Allocation>& out = arrays[dependent ? (k + 1) % n : 2 + k % (n - 2)];
    list.dispatch(kernel,
                  std::array{Binding::of(a, Access::read), Binding::of(b, Access::read),
                             Binding::of(out, Access::write)},
                  Parameters::of(bias), {1, 1, 1});
  }
  void wait(const Point& point) const {
    point.timeline->wait(point.value, sync::Deadline::never());
    queue().retire();
  }

  Ref<VulkanDevice> device;
  Ref<Pipeline> kernel;
  std::vector<Ref<Allocation>> arrays;
};

// --- The reference: Vulkan by hand ---------------------------------------------------------------

// Its own command buffers, semaphore and submits, on handles that the device above has opened.
struct Raw {
  explicit Raw(Ref<VulkanDevice> opened, Way bound_by, size_t buffer_count = 1)
      : ours(opened, bound_by), way(bound_by), device(std::move(opened)) {
    const VulkanHandles handles = device->handles();
    vk_device = static_cast<VkDevice>(handles.device);
    volkLoadDeviceTable(&vk, vk_device);
    const auto physical = static_cast<VkPhysicalDevice>(handles.physical_device);
    uint32_t count = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
    // That of the device's first queue: compute and nothing else, where there is such a one.
    uint32_t family = count;
    for (const bool graphics : {false, true}) {
      for (uint32_t i = 0; i < count && family == count; ++i) {
        const VkQueueFlags flags = families[i].queueFlags;
        if ((flags & VK_QUEUE_COMPUTE_BIT) != 0 &&
            ((flags & VK_QUEUE_GRAPHICS_BIT) != 0) == graphics) {
          family = i;
        }
      }
    }
    vk.vkGetDeviceQueue(vk_device, family, 0, &queue);
    pipeline = static_cast<VulkanPipeline*>(ours.kernel.get());
    handle = pipeline->handle_for({}).or_raise();
    const auto& buffer = static_cast<const VulkanBuffer&>(*ours.arrays[0]->buffer());
    block = buffer.handle();
    address = buffer.address();
    VkCommandPoolCreateInfo pool_info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    pool_info.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
    pool_info.queueFamilyIndex = family;
    pools.resize(buffer_count);
    buffers.resize(buffer_count);
    for (size_t i = 0; i < buffer_count; ++i) {
      vk.vkCreateCommandPool(vk_device, &pool_info, nullptr, &pools[i]);
      VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
      info.commandPool = pools[i];
      info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
      info.commandBufferCount = 1;
      vk.vkAllocateCommandBuffers(vk_device, &info, &buffers[i]);
    }
    VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    VkSemaphoreCreateInfo semaphore_info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    semaphore_info.pNext = &type;
    vk.vkCreateSemaphore(vk_device, &semaphore_info, nullptr, &semaphore);
  }
  ~Raw() {
    wait();
    vk.vkDestroySemaphore(vk_device, semaphore, nullptr);
    for (VkCommandPool pool : pools) vk.vkDestroyCommandPool(vk_device, pool, nullptr);
  }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  void begin(bool once = true, size_t buffer = 0) {
    commands = buffers[buffer];
    vk.vkResetCommandPool(vk_device, pools[buffer], 0);
    VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    if (once) info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    vk.vkBeginCommandBuffer(commands, &info);
    barrier(VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, VK_ACCESS_2_MEMORY_READ_BIT);
    vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, handle);
  }
  void barrier(VkPipelineStageFlags2 to, VkAccessFlags2 access) const {
    VkMemoryBarrier2 memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER_2};
    memory.srcStageMask = VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT;
    memory.srcAccessMask = VK_ACCESS_2_MEMORY_WRITE_BIT;
    memory.dstStageMask = to;
    memory.dstAccessMask = access;
    VkDependencyInfo info{VK_STRUCTURE_TYPE_DEPENDENCY_INFO};
    info.memoryBarrierCount = 1;
    info.pMemoryBarriers = &memory;
    vk.vkCmdPipelineBarrier2(commands, &info);
  }
  void dispatch(int i, bool dependent) const {
    const float bias = static_cast<float>(i);
    const uint64_t n = kArrays;
    const auto k = static_cast<uint64_t>(i);
    const std::array<uint64_t, 3> offsets{
        (dependent ? k % n : 0) * kArray.value, (dependent ? 0U : 1U) * kArray.value,
        (dependent ? (k + 1) % n : 2 + k % (n - 2)) * kArray.value};
    if (way == Way::addresses) {
      struct {
        uint64_t at[3];
        float bias;
      } block_of{{address + offsets[0], address + offsets[1], address + offsets[2]}, bias};
      vk.vkCmdPushConstants(commands, pipeline->layout().pipeline, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                            28, &block_of);
    } else {
      const std::array<VkDescriptorBufferInfo, 3> infos{{{block, offsets[0], kArray.value},
                                                         {block, offsets[1], kArray.value},
                                                         {block, offsets[2], kArray.value}}};
      VkWriteDescriptorSet write{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
      write.descriptorCount = 3;
      write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
      write.pBufferInfo = infos.data();
      vk.vkCmdPushDescriptorSetKHR(commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                                   pipeline->layout().pipeline, 0, 1, &write);
      vk.vkCmdPushConstants(commands, pipeline->layout().pipeline, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                            4, &bias);
    }
    vk.vkCmdDispatch(commands, 1, 1, 1);
  }
  void end() const {
    // What the host may map is shown to it, as the contract has it.
    if (ours.arrays[0]->host_pointer() != nullptr) {
      barrier(VK_PIPELINE_STAGE_2_HOST_BIT, VK_ACCESS_2_HOST_READ_BIT);
    }
    vk.vkEndCommandBuffer(commands);
  }
  void submit() {
    VkCommandBufferSubmitInfo command_info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO};
    command_info.commandBuffer = commands;
    VkSemaphoreSubmitInfo signal{VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO};
    signal.semaphore = semaphore;
    signal.value = ++value;
    signal.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT;
    VkSubmitInfo2 info{VK_STRUCTURE_TYPE_SUBMIT_INFO_2};
    info.commandBufferInfoCount = 1;
    info.pCommandBufferInfos = &command_info;
    info.signalSemaphoreInfoCount = 1;
    info.pSignalSemaphoreInfos = &signal;
    vk.vkQueueSubmit2(queue, 1, &info, VK_NULL_HANDLE);
  }
  // Looks for a while before it sleeps, as ours does.
  void wait() const {
    const auto there = [&] {
      uint64_t now = 0;
      vk.vkGetSemaphoreCounterValue(vk_device, semaphore, &now);
      return now >= value;
    };
    const sync::Deadline spin = sync::Deadline::after(std::chrono::microseconds(50));
    for (unsigned attempt = 0; !there(); ++attempt) {
      if (spin.passed()) break;
      sync::relax(attempt);
    }
    VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
    info.semaphoreCount = 1;
    info.pSemaphores = &semaphore;
    info.pValues = &value;
    vk.vkWaitSemaphores(vk_device, &info, ~uint64_t{0});
  }

  Ours ours;  // its memory and its pipeline
  Way way;
  Ref<VulkanDevice> device;
  VkDevice vk_device = VK_NULL_HANDLE;
  VolkDeviceTable vk{};
  VkQueue queue = VK_NULL_HANDLE;
  const VulkanPipeline* pipeline = nullptr;
  VkPipeline handle = VK_NULL_HANDLE;
  VkBuffer block = VK_NULL_HANDLE;
  VkDeviceAddress address = 0;
  std::vector<VkCommandPool> pools;
  std::vector<VkCommandBuffer> buffers;
  VkCommandBuffer commands = VK_NULL_HANDLE;  // the one being recorded
  VkSemaphore semaphore = VK_NULL_HANDLE;
  uint64_t value = 0;
};

// --- Rows ----------------------------------------------------------------------------------------

// Recording and submitting a batch, per dispatch.
void dispatch_ours(benchmark::State& state, Way way, bool dependent) {
  const Ref<VulkanDevice> device = open_device(state);
  if (!device) return;
  const Ours f(device, way);
  CommandList::Storage storage;
  for (auto _ : state) {
    const HostTime host;
    CommandList list(device->info(), "batch", LaneId::next(), std::move(storage));
    for (int i = 0; i < kBatch; ++i) {
      f.dispatch(list, i, dependent);
      if (dependent) list.barrier();
    }
    const Point point = f.queue().submit(list).or_raise();
    state.SetIterationTime(host.seconds());
    point.timeline->wait(point.value, sync::Deadline::never());
    Retired retired = f.queue().retire();
    storage = retired.back()->list.take_storage();
  }
  state.counters["per"] = kBatch;
}

// The same through a stream, which finds out itself what depends on what.
void dispatch_stream(benchmark::State& state, Way way, bool dependent) {
  if (!open_device(state)) return;
  // A context closes its device when it goes: this one has its own.
  const auto context = runtime::Context::create(VulkanDevice::open({.queues = 1}).or_raise());
  const auto stream = context->new_stream();
  const auto kernel = context->create_pipeline({"add", add_module(way), 3, 4_B});
  std::vector<Ref<Allocation>> arrays;
  for (int i = 0; i < kArrays; ++i) arrays.push_back(stream->allocate(kArray));
  for (const auto& array : arrays) stream->fill(Binding::of(array, Access::write), std::byte{});
  stream->synchronize();
  const size_t n = arrays.size();
  for (auto _ : state) {
    const HostTime host;
    for (size_t k = 0; k < kBatch; ++k) {
      const float bias = static_cast<float>(k);
      const Ref<Allocation>& a = arrays[dependent ? 1 + k % (n - 1) : 0];
      const Ref<Allocation>& b = arrays[dependent ? 0 : 1];
      const Ref<Allocation>& out = arrays[dependent ? 1 + (k + 1) % (n - 1) : 2 + k % (n - 2)];
      stream->dispatch(kernel,
                       std::array{Binding::of(a, Access::read), Binding::of(b, Access::read),
                                  Binding::of(out, Access::write)},
                       Parameters::of(bias), {1, 1, 1});
    }
    stream->flush();
    state.SetIterationTime(host.seconds());
    stream->synchronize();
  }
  state.counters["per"] = kBatch;
}

void dispatch_raw(benchmark::State& state, Way way, bool dependent) {
  const Ref<VulkanDevice> device = open_device(state);
  if (!device) return;
  Raw f(device, way);
  for (auto _ : state) {
    const HostTime host;
    f.begin();
    for (int i = 0; i < kBatch; ++i) {
      f.dispatch(i, dependent);
      if (dependent) {
        f.barrier(VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT,
                  VK_ACCESS_2_MEMORY_READ_BIT | VK_ACCESS_2_MEMORY_WRITE_BIT);
      }
    }
    f.end();
    f.submit();
    state.SetIterationTime(host.seconds());
    f.wait();
  }
  state.counters["per"] = kBatch;
}

// The submit alone, of lists with one dispatch: what it takes until the driver has one. Encoding is
// part of our submit, so it is part of theirs.
void submit_ours(benchmark::State& state) {
  const Ref<VulkanDevice> device = open_device(state);
  if (!device) return;
  const Ours f(device, Way::descriptors);
  for (auto _ : state) {
    std::vector<CommandList> lists;
    for (int i = 0; i < kSubmits; ++i) {
      lists.emplace_back(device->info(), "one");
      f.dispatch(lists.back(), i, false);
    }
    Point last;
    const HostTime host;
    for (CommandList& list : lists) last = f.queue().submit(list).or_raise();
    state.SetIterationTime(host.seconds());
    f.wait(last);
  }
  state.counters["per"] = kSubmits;
}
void submit_raw(benchmark::State& state) {
  const Ref<VulkanDevice> device = open_device(state);
  if (!device) return;
  Raw f(device, Way::descriptors, kSubmits);
  for (auto _ : state) {
    const HostTime host;
    for (size_t i = 0; i < kSubmits; ++i) {
      f.begin(true, i);
      f.dispatch(static_cast<int>(i), false);
      f.end();
      f.submit();
    }
    state.SetIterationTime(host.seconds());
    f.wait();
  }
  state.counters["per"] = kSubmits;
}

// From the first call to a number on the host: dispatch, submit, wait, read.
void readback_ours(benchmark::State& state) {
  const Ref<VulkanDevice> device = open_device(state);
  if (!device) return;
  const Ours f(device, Way::descriptors);
  const auto result =
      Allocation::whole(device->create_buffer({kArray, MemoryKind::readback, "result"}).or_raise());
  float sum = 0;
  for (auto _ : state) {
    CommandList list(device->info(), "one");
    f.dispatch(list, 0, false);
    list.barrier();
    list.copy(f.arrays[2], {{}, kArray}, result, {{}, kArray});
    f.wait(f.queue().submit(list).or_raise());
    float value = 0;
    std::memcpy(&value, result->host_pointer(), sizeof value);
    sum += value;
  }
  benchmark::DoNotOptimize(sum);
}
void readback_raw(benchmark::State& state) {
  const Ref<VulkanDevice> device = open_device(state);
  if (!device) return;
  Raw f(device, Way::descriptors);
  const auto result =
      Allocation::whole(device->create_buffer({kArray, MemoryKind::readback, "result"}).or_raise());
  const VkBuffer to = static_cast<const VulkanBuffer&>(*result->buffer()).handle();
  float sum = 0;
  for (auto _ : state) {
    f.begin();
    f.dispatch(0, false);
    f.barrier(VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT, VK_ACCESS_2_MEMORY_READ_BIT);
    const VkBufferCopy region{2 * kArray.value, 0, kArray.value};
    f.vk.vkCmdCopyBuffer(f.commands, f.block, to, 1, &region);
    VkMemoryBarrier2 memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER_2};
    memory.srcStageMask = VK_PIPELINE_STAGE_2_ALL_TRANSFER_BIT;
    memory.srcAccessMask = VK_ACCESS_2_MEMORY_WRITE_BIT;
    memory.dstStageMask = VK_PIPELINE_STAGE_2_HOST_BIT;
    memory.dstAccessMask = VK_ACCESS_2_HOST_READ_BIT;
    VkDependencyInfo info{VK_STRUCTURE_TYPE_DEPENDENCY_INFO};
    info.memoryBarrierCount = 1;
    info.pMemoryBarriers = &memory;
    f.vk.vkCmdPipelineBarrier2(f.commands, &info);
    f.vk.vkEndCommandBuffer(f.commands);
    f.submit();
    f.wait();
    float value = 0;
    std::memcpy(&value, result->host_pointer(), sizeof value);
    sum += value;
  }
  benchmark::DoNotOptimize(sum);
}

// Submitting a recorded program of sixteen dispatches, against a command buffer recorded once.
void replay_ours(benchmark::State& state) {
  const Ref<VulkanDevice> device = open_device(state);
  if (!device) return;
  const Ours f(device, Way::descriptors);
  CommandList steps(device->info(), "steps");
  for (int i = 0; i < kReplayed; ++i) f.dispatch(steps, i, false);
  const Ref<Program> program = device->create_program(steps).or_raise();
  for (auto _ : state) {
    Point last;
    const HostTime host;
    for (int i = 0; i < kSubmits; ++i) {
      CommandList replay = make_replay(device->info(), program, {}, {}, "replay");
      last = f.queue().submit(replay).or_raise();
    }
    state.SetIterationTime(host.seconds());
    f.wait(last);
  }
  state.counters["per"] = kSubmits;
}
void replay_raw(benchmark::State& state) {
  const Ref<VulkanDevice> device = open_device(state);
  if (!device) return;
  Raw f(device, Way::descriptors, kSubmits);
  for (size_t i = 0; i < kSubmits; ++i) {
    f.begin(false, i);
    for (int k = 0; k < kReplayed; ++k) f.dispatch(k, false);
    f.end();
  }
  for (auto _ : state) {
    const HostTime host;
    for (size_t i = 0; i < kSubmits; ++i) {
      f.commands = f.buffers[i];
      f.submit();
    }
    state.SetIterationTime(host.seconds());
    f.wait();
  }
  state.counters["per"] = kSubmits;
}

void register_pair(const std::string& name, void (*ours)(benchmark::State&),
                   void (*raw)(benchmark::State&), bool manual) {
  for (const auto& [side, run] : {std::pair{"/ours", ours}, std::pair{"/reference", raw}}) {
    auto* made = benchmark::RegisterBenchmark((name + side).c_str(), run);
    if (manual) {
      made->UseManualTime();
    } else {
      made->UseRealTime();
    }
  }
}

const bool kRegistered = [] {
  for (const Way way : {Way::descriptors, Way::addresses}) {
    for (const bool dependent : {false, true}) {
      const std::string name = std::string(dependent ? "dependent_" : "independent_") +
                               (way == Way::addresses ? "addresses" : "descriptors");
      const auto raw = [=](benchmark::State& s) { dispatch_raw(s, way, dependent); };
      benchmark::RegisterBenchmark(("vulkan_list_" + name + "/ours").c_str(),
                                   [=](benchmark::State& s) { dispatch_ours(s, way, dependent); })
          ->UseManualTime();
      benchmark::RegisterBenchmark(("vulkan_list_" + name + "/reference").c_str(), raw)
          ->UseManualTime();
      benchmark::RegisterBenchmark(("vulkan_stream_" + name + "/ours").c_str(),
                                   [=](benchmark::State& s) { dispatch_stream(s, way, dependent); })
          ->UseManualTime();
      benchmark::RegisterBenchmark(("vulkan_stream_" + name + "/reference").c_str(), raw)
          ->UseManualTime();
    }
  }
  register_pair("vulkan_submit", submit_ours, submit_raw, true);
  register_pair("vulkan_readback", readback_ours, readback_raw, false);
  register_pair("vulkan_replay", replay_ours, replay_raw, true);
  return true;
}();

}  // namespace
}  // namespace holdfast::hal
