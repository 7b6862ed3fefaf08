#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#pragma GCC visibility push(default)

namespace holdfast::hal {

// A binding in the backend's own terms.
struct NativeBinding {
  uint64_t buffer = 0;  // VkBuffer
  uint64_t offset = 0;  // of the range in it
  uint64_t length = 0;
  uint64_t address = 0;  // of the range on the device; zero where that has no addresses
};

// What a `native` callback gets: the backend's own stream or command buffer, and its bindings.
// - CPU: the stream is null, the callback runs in its turn on the queue, and the bindings are host
//   memory.
// - Vulkan: the stream is a VkCommandBuffer in the recording state. The callback runs while the
//   list is translated and may only record; its commands take the callback's place in the list. It
//   leaves state (pipelines, descriptors, push constants) as it likes.
// - CUDA: the stream is a CUstream of the GPU's primary context, which is current. The callback
// runs
//   while the list is submitted and may only put work on that stream; it must not wait for it.
struct NativeCall {
  void* native_stream = nullptr;
  std::span<const std::span<std::byte>> host_bindings;
  std::span<const NativeBinding> native_bindings;
};
// Must not submit to the queue it runs on: that is refused with an error. May throw: the list then
// fails. On the CPU, the callback's writes and what depends on them are then bad. On Vulkan and
// CUDA, everything the list writes is bad, since what the callback has recorded or launched cannot
// be taken back.
using NativeCallback = std::function<void(const NativeCall&)>;

}  // namespace holdfast::hal

#pragma GCC visibility pop
