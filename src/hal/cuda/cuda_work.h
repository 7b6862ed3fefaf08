#pragma once

#include <array>
#include <cstring>
#include <span>
#include <string>

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
    const BoundRange* target = &bound;
    Bytes offset = bound.range.offset;
    if (bound.slot >= 0) {
      target = &replay_.slots()[static_cast<size_t>(bound.slot)];
      offset += target->range.offset;
    }
    const Allocation& allocation = *target->allocation;
    const auto& buffer = static_cast<const CudaBuffer&>(*allocation.buffer());
    return {buffer.address() + (allocation.offset() + offset).value, bound.range.length.value,
            buffer.host_pointer() != nullptr};
  }

  // Whether a command has nothing to do: no groups, no bytes.
  static bool is_idle(const Command& command) noexcept {
    switch (command.kind) {
      case CommandKind::dispatch: return command.groups.count() == 0;
      case CommandKind::copy:
      case CommandKind::fill: return !command.bindings()[0].range.length;
      default: return false;
    }
  }

  // A dispatch, with its arguments in one block of bytes; the block is not cleared between uses.
  using ArgumentBlock = std::array<uint64_t, 2 * kMaxBindings + kMaxParameterBytes.value / 8>;
  struct Dispatch {
    const CudaPipeline& pipeline;
    Groups groups;
    Groups threads;
    size_t argument_bytes = 0;
  };
  Dispatch dispatch(const Command& command, ArgumentBlock& block) const {
    const auto& pipeline = static_cast<const CudaPipeline&>(*command.pipeline);
    const std::span<const std::byte> parameters =
        command.parameters_from_replay
            ? replay_.replay_parameters().subspan(command.replay_parameters.offset.value,
                                                  command.replay_parameters.length.value)
            : command.parameters();
    size_t words = 0;
    for (const BoundRange& bound : command.bindings()) block[words++] = place(bound).address;
    if (pipeline.takes_lengths()) {
      for (const BoundRange& bound : command.bindings()) {
        block[words++] = bound.range.length.value;
      }
    }
    if (!parameters.empty()) std::memcpy(&block[words], parameters.data(), parameters.size());
    return {pipeline, command.groups, pipeline.threads(parameters), pipeline.argument_bytes()};
  }

  // The list, and the command of it, for messages.
  std::string describe() const { return replay_.describe(); }
  std::string describe(const Command& command) const;

 private:
  const Work& work_;
  const CommandList& replay_;
  const CommandList& list_;
};

// The `extra` of a launch whose arguments are this block. Valid as long as it is not moved.
struct CudaArguments {
  // NOLINTBEGIN(performance-no-int-to-ptr): tags, which the driver has as pointers
  CudaArguments(CudaWork::ArgumentBlock& block, size_t bytes) noexcept
      : size(bytes),
        extra{reinterpret_cast<void*>(cu::CU_LAUNCH_PARAM_BUFFER_POINTER), block.data(),
              reinterpret_cast<void*>(cu::CU_LAUNCH_PARAM_BUFFER_SIZE), &size,
              reinterpret_cast<void*>(cu::CU_LAUNCH_PARAM_END)} {}
  // NOLINTEND(performance-no-int-to-ptr)
  CudaArguments(const CudaArguments&) = delete;
  CudaArguments& operator=(const CudaArguments&) = delete;

  size_t size;
  void* extra[5];
};

}  // namespace holdfast::hal
