#pragma once

#include <cstring>
#include <span>
#include <string>

#include "holdfast/base/rounding.h"
#include "holdfast/hal/cuda/cuda_resources.h"
#include "holdfast/hal/program.h"
#include "holdfast/hal/queue.h"

namespace holdfast::hal {

// A work in the driver's terms: what each command binds, with slots and replayed parameters in
// their places. Borrows the work.
class CudaWork {
 public:
  explicit CudaWork(const Work& work) noexcept
      : work_(work),
        replay_(*work.list),
        list_(replay_.program() != nullptr ? replay_.program()->list() : replay_) {}

  const Work& work() const noexcept { return work_; }
  // The recorded commands: the list's own, or its Program's.
  const CommandList& commands() const noexcept { return list_; }

  struct Place {
    cu::CUdeviceptr address = 0;
    uint64_t length = 0;
    bool on_host = false;  // memory of the host, that the device reaches
  };
  Place place(const BoundRange& bound) const {
    const CudaBuffer& in = buffer(target(bound));
    return {address(bound), bound.range.length.value, in.host_pointer() != nullptr};
  }
  cu::CUdeviceptr address(const BoundRange& bound) const {
    const BoundRange& to = target(bound);
    Bytes offset = bound.range.offset + to.allocation->offset();
    if (bound.slot >= 0) offset += to.range.offset;
    return buffer(to).address() + offset.value;
  }

  struct Dispatch {
    const CudaPipeline& pipeline;
    std::span<const std::byte> parameters;
    const Groups& groups;
    Groups threads;
  };
  Dispatch dispatch(const Command& command) const {
    const auto& pipeline = static_cast<const CudaPipeline&>(*command.pipeline);
    const std::span<const std::byte> parameters = replay_.parameters_of(command);
    return {pipeline, parameters, command.groups, pipeline.threads(parameters)};
  }

  // What a dispatch may have of arguments, as words; the last is filled up with zeros.
  static constexpr size_t kMaxArgumentWords = 2 * kMaxBindings + kMaxParameterBytes.value / 8;
  static size_t argument_words(const Command& command) {
    const auto& pipeline = static_cast<const CudaPipeline&>(*command.pipeline);
    return command.binding_count * (pipeline.takes_lengths() ? 2U : 1U) +
           ceil_div<size_t>(pipeline.parameter_bytes().value, 8);
  }
  // Calls `put` with each of them. The kernel takes the first argument_bytes() of its pipeline.
  // Inline, so that what `put` writes stays in registers.
  template <typename Put>
  [[gnu::always_inline]] void put_arguments(const Command& command, const Dispatch& dispatch,
                                            Put&& put) const {
    // By number: how many words that were is then known without a division.
    const std::span<const BoundRange> bindings = command.bindings();
    for (size_t i = 0; i < bindings.size(); ++i) put(address(bindings[i]));
    if (dispatch.pipeline.takes_lengths()) {
      for (size_t i = 0; i < bindings.size(); ++i) put(bindings[i].range.length.value);
    }
    const std::span<const std::byte> bytes = dispatch.parameters;
    size_t at = 0;
    for (; at + 8 <= bytes.size(); at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, &bytes[at], 8);
      put(word);
    }
    const size_t rest = bytes.size() - at;
    if (rest == 0) return;
    uint64_t word = 0;
    if (rest == sizeof(uint32_t)) {  // the usual number
      uint32_t half = 0;
      std::memcpy(&half, &bytes[at], sizeof half);
      word = half;
    } else {
      std::memcpy(&word, &bytes[at], rest);
    }
    put(word);
  }

  // The list, and the command of it, for messages.
  std::string describe() const { return replay_.describe(); }
  std::string describe(const Command& command) const;

 private:
  // What a range is bound to: itself, or what its slot is.
  const BoundRange& target(const BoundRange& bound) const {
    return bound.slot < 0 ? bound : replay_.slots()[static_cast<size_t>(bound.slot)];
  }
  static const CudaBuffer& buffer(const BoundRange& target) {
    return static_cast<const CudaBuffer&>(*target.allocation->buffer());
  }

  const Work& work_;
  const CommandList& replay_;
  const CommandList& list_;
};

// The `extra` of a launch whose arguments are these words. Valid as long as it is not moved.
struct CudaArguments {
  // NOLINTBEGIN(performance-no-int-to-ptr): tags, which the driver has as pointers
  CudaArguments(uint64_t* words, size_t bytes) noexcept
      : size(bytes),
        extra{reinterpret_cast<void*>(cu::CU_LAUNCH_PARAM_BUFFER_POINTER), words,
              reinterpret_cast<void*>(cu::CU_LAUNCH_PARAM_BUFFER_SIZE), &size,
              reinterpret_cast<void*>(cu::CU_LAUNCH_PARAM_END)} {}
  // NOLINTEND(performance-no-int-to-ptr)
  CudaArguments(const CudaArguments&) = delete;
  CudaArguments& operator=(const CudaArguments&) = delete;

  size_t size;
  void* extra[5];
};

}  // namespace holdfast::hal
