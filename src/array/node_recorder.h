#pragma once

#include <boost/container/small_vector.hpp>
#include <optional>
#include <vector>

#include "holdfast/array/node.h"
#include "holdfast/runtime/transaction.h"

namespace holdfast::array {

// Whether the calling task is inside Operation::record, where nothing may be evaluated.
bool is_recording() noexcept;

// Turns nodes into recorded commands, one node at a time, each all or nothing. Reused from node to
// node, so that a small node costs few allocations. Belongs to one task.
class NodeRecorder {
 public:
  // `spent`: inputs of nodes recorded before that the caller is about to drop, and so nobody's.
  explicit NodeRecorder(const std::vector<Node::Spent>& spent) noexcept : spent_(spent) {}
  NodeRecorder(const NodeRecorder&) = delete;
  NodeRecorder& operator=(const NodeRecorder&) = delete;

  enum class Outcome : uint8_t {
    recorded,  // its results have memory; it can be finished
    lacking    // nothing was recorded: kernels of lacking() are not compiled
  };
  // A node that the caller has claimed and whose inputs are recorded. Raises what the operation or
  // the runtime raises; nothing was recorded then. `held`: variants that need no looking up.
  using Held = std::vector<std::pair<kernel::VariantCache::Wanted, Ref<const kernel::Variant>>>;
  Outcome record(Node& node, const Held& held = {});
  // Adds to lacking() the kernels that a pinned node would need and that are not compiled. What
  // the operation raises is kept for record().
  void look(Node& node);

  std::vector<kernel::VariantCache::Wanted>& lacking() noexcept { return lacking_; }
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
  class Cleanup;

  void start(Node& node, bool looks_only);
  runtime::Transaction& transaction();
  const Operand& result(size_t i);
  // UsageError where there is no such one.
  void check_input(size_t i) const;
  void check_output(size_t i) const;
  [[noreturn]] void refuse_argument(const char* kind, size_t i, size_t count) const;
  // UsageError where it is memory of others: an input above all, since arrays never change.
  void check_writable(const Operand& operand) const;
  Ref<hal::Allocation> allocate(Bytes bytes, std::string name);
  Operand temporary(const Shape& shape, Dtype dtype, const char* name);
  bool can_take(size_t in, size_t out) const;
  const Operand& take(size_t in, size_t out);
  void launch(const kernel::Kernel& kernel, const Encoder::Launch& launch);
  const kernel::Variant* find(const kernel::Kernel& kernel, const kernel::Launch& launch);
  hal::Binding bind(const Operand& operand, hal::Access access) const;
  void count(const Operand& written);
  // Whether a command of this node has written to one of them before.
  bool has_written(std::span<const Operand> operands) const noexcept;
  std::string_view label() const noexcept;

  const std::vector<Node::Spent>& spent_;
  Node* node_ = nullptr;
  DeviceState* device_ = nullptr;
  const Held* held_ = nullptr;
  bool looks_only_ = false;
  std::vector<Operand> inputs_;
  std::vector<Operand> results_;
  std::vector<bool> made_;  // which results have their memory
  boost::container::small_vector<size_t, 4> taken_;
  uint32_t commands_ = 0;
  uint32_t donated_ = 0;
  uint32_t copies_ = 0;
  Bytes written_;
  boost::container::small_vector<const hal::Allocation*, 4> written_memory_;  // by this node
  std::vector<kernel::VariantCache::Wanted> lacking_;
  // The variants found last, newest first: a graph is often made of few kernels.
  struct Found {
    const DeviceState* device;
    kernel::KernelId kernel;
    kernel::SignatureKey signature;
    Ref<const kernel::Variant> variant;
  };
  std::vector<Found> found_;
  std::vector<Ref<hal::Allocation>> scratch_;
  size_t own_scratch_ = 0;  // what is there from here on is the present node's
  // One for each stream that was recorded on.
  std::vector<std::pair<StreamState*, runtime::Transaction>> transactions_;
};

}  // namespace holdfast::array
