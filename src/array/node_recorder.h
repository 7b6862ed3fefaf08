#pragma once

#include <boost/container/small_vector.hpp>
#include <optional>
#include <vector>

#include "holdfast/array/node.h"
#include "holdfast/kernel/resolve.h"
#include "holdfast/runtime/transaction.h"

namespace holdfast::array {

class Capture;
class CompiledCall;

// Whether the calling task is inside Operation::record, where nothing may be evaluated.
bool is_recording() noexcept;

// Turns nodes into recorded commands, one node at a time, each all or nothing. Reused from node to
// node, so that a small node costs few allocations. Belongs to one task.
class NodeRecorder {
 public:
  // `spent`: inputs of nodes recorded before that the caller is about to drop, and so nobody's.
  NodeRecorder(const std::vector<Node::Spent>& spent, kernel::Resolver& resolver) noexcept
      : spent_(spent), resolver_(resolver) {}
  NodeRecorder(const NodeRecorder&) = delete;
  NodeRecorder& operator=(const NodeRecorder&) = delete;

  enum class Outcome : uint8_t {
    recorded,  // its results have memory; it can be finished
    lacking    // nothing was recorded: the resolver has noted kernels that are not compiled
  };
  // A node that the caller has claimed and whose inputs are recorded. Raises what the operation or
  // the runtime raises; nothing was recorded then.
  Outcome record(Node& node);
  // Has the resolver note the kernels that a pinned node would need and that are not compiled. What
  // the operation raises is kept for record().
  void look(Node& node);
  // Whether the last node that was looked at would record native commands of its author's, which
  // are for one run alone.
  bool calls_native() const noexcept { return calls_native_; }
  // The same as record() for a pinned node of a compiled function: memory and commands are those of
  // `capture`.
  Outcome record_into(Capture& capture, Node& node);

  // Memory of scratch and hidden copies. Kept until the caller drops it: given out again in the
  // same wave, it would put a barrier there.
  void drop_scratch() noexcept {
    scratch_.clear();
    own_scratch_ = 0;
  }
  // Commands and written bytes of the last node.
  uint32_t commands() const noexcept { return commands_; }
  Bytes written() const noexcept { return written_; }

 private:
  friend class holdfast::Encoder;
  friend class CompiledCall;
  friend class MatrixLibrary;
  friend class Transfer;
  class Cleanup;

  void start(Node& node, bool looks_only);
  // Operands are kept from node to node, without their memory.
  static void resize(std::vector<Operand>& operands, size_t size);
  runtime::Transaction& transaction();
  const Operand& result(size_t i);
  // UsageError where there is no such one.
  void check_input(size_t i) const;
  void check_output(size_t i) const;
  [[noreturn]] void refuse_argument(const char* kind, size_t i, size_t count) const;
  // UsageError where it is memory of others: an input above all, since arrays never change.
  void check_writable(const Operand& operand) const;
  Ref<hal::Allocation> allocate(Bytes bytes, std::string&& name);
  Operand temporary(const Shape& shape, Dtype dtype, const char* name);
  // Whether the output has the input's shape, or is a reshaped view of what is in its memory.
  enum class Taking : uint8_t { as_it_is, reshaped };
  bool can_take(size_t in, size_t out, Taking how = Taking::as_it_is) const;
  const Operand& take(size_t in, size_t out, Taking how = Taking::as_it_is);
  // `alone`: the operation records nothing else, so that the launch needs no transaction.
  void launch(const Kernel& kernel, const Encoder::Launch& launch, bool alone);
  // Input 0, which is row-contiguous and lies on another device, into output 0. Submitted when it
  // returns, not committed with the transaction.
  void transfer();
  // Submits what the transaction has, then a run of the program, instead of committing that.
  void replay(const Ref<hal::Program>& program, std::span<const hal::Binding> slots);
  hal::Binding bind(const Operand& operand, hal::Access access) const;
  // All bytes from the first to the last that the operand reaches; it has elements.
  hal::Binding bind_reached(const Operand& operand, hal::Access access) const;
  void count(const Operand& written);
  // Whether a command of this node has written to one of them before.
  bool has_written(std::span<const Operand> operands) const noexcept;
  std::string_view label() const noexcept;

  const std::vector<Node::Spent>& spent_;
  kernel::Resolver& resolver_;
  Node* node_ = nullptr;
  DeviceState* device_ = nullptr;
  runtime::Transaction* transaction_ = nullptr;  // the present node's, once it has one
  Capture* capture_ = nullptr;                   // where a compiled function is recorded
  bool looks_only_ = false;
  bool calls_native_ = false;
  std::vector<Operand> inputs_;  // their memory is borrowed from the node's inputs
  std::vector<Operand> results_;
  std::vector<bool> made_;  // which results have their memory
  boost::container::small_vector<size_t, 4> taken_;
  uint32_t commands_ = 0;
  uint32_t donated_ = 0;
  uint32_t copies_ = 0;
  Bytes written_;
  boost::container::small_vector<const hal::Allocation*, 4> written_memory_;  // by this node
  std::vector<Ref<hal::Allocation>> scratch_;
  size_t own_scratch_ = 0;  // what is there from here on is the present node's
  // One for each stream that was recorded on.
  std::vector<std::pair<StreamState*, runtime::Transaction>> transactions_;
};

}  // namespace holdfast::array
