#pragma once

#include <boost/container/small_vector.hpp>
#include <memory>
#include <optional>
#include <span>

#include "holdfast/array.h"
#include "holdfast/array/stream_state.h"
#include "holdfast/base/error.h"
#include "holdfast/operation.h"

namespace holdfast::array {

enum class NodeState : uint32_t {
  built,     // nobody has recorded it yet
  claimed,   // one task is recording it
  recorded,  // its commands are in a list, and its results have memory
  failed     // it never will be; failure() says why
};

// Whether a result's memory may become another one's.
enum class Donation : bool { forbidden, allowed };

using NodeInputs = boost::container::small_vector<Array, 2>;

// An operation with its inputs, its stream and its results. Kept alive by the users of its results
// and by plans. Once it is over (recorded or failed) it lets go of operation and inputs, so a chain
// of evaluated arrays keeps nothing of its past.
//
// Thread-safe. States change as: built -> claimed -> recorded | failed | built. Inputs are read by
// the task that has claimed it, and by whoever has it pinned.
class Node final : public RefCounted {
 public:
  static void* operator new(size_t bytes);
  static void operator delete(void* block) noexcept;

  // A node to be recorded. Raises nothing.
  static Ref<Node> make(Ref<const Operation> operation, NodeInputs&& inputs,
                        std::span<const OutputType> outputs, Ref<StreamState> stream,
                        std::string&& label);
  // The same for one result: its first user.
  static Ref<Value> make_one(Ref<const Operation> operation, NodeInputs&& inputs,
                             const OutputType& output, Ref<StreamState> stream,
                             std::string&& label);
  // A result that is there already.
  static Ref<Node> make_leaf(Dtype dtype, const Shape& shape, Ref<hal::Allocation> memory,
                             Ref<StreamState> stream, Donation donation);

  NodeState state(std::memory_order order = std::memory_order_acquire) const noexcept {
    return state_of(word_.load(order));
  }
  bool is_over() const noexcept { return state() >= NodeState::recorded; }
  // Only once failed.
  const Failure& failure() const noexcept { return failure_; }
  const Ref<StreamState>& stream() const noexcept { return stream_; }
  size_t outputs() const noexcept { return output_count_; }
  Value& output(size_t i) noexcept { return i == 0 ? first_ : more_[i - 1]; }
  // The one from which all other users of the result come: to be asked for once for each.
  Ref<Value> first_user(size_t i) noexcept;
  // "kernel 'rms_norm', labelled 'layer 3'"; only while claimed or pinned.
  std::string describe() const;
  const std::string& label() const noexcept { return label_; }

  // Whether the caller has it now and must call one of the three below.
  bool try_claim() noexcept;
  // What the node needed, to be dropped by the caller where it suits; left as it is where the node
  // is pinned, whose last pin drops it.
  struct Spent {
    NodeInputs inputs{};
    Ref<const Operation> operation{};
  };
  void finish_recorded(Spent& spent) noexcept { finish(NodeState::recorded, spent); }
  void finish_failed(Failure why, Spent& spent) noexcept;
  void give_up_claim() noexcept;

  // While claimed by the caller, or pinned.
  const NodeInputs& inputs() const noexcept { return inputs_; }
  const Operation& operation() const noexcept { return *operation_; }

  // Keeps inputs and operation for a scope; empty where the node is over.
  class Pin {
   public:
    explicit Pin(Node& node) noexcept : node_(node.try_pin() ? &node : nullptr) {}
    Pin(Pin&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
    Pin& operator=(Pin&& other) noexcept {
      std::swap(node_, other.node_);
      return *this;
    }
    ~Pin() {
      if (node_ != nullptr) node_->unpin();
    }
    explicit operator bool() const noexcept { return node_ != nullptr; }

   private:
    Node* node_;
  };

  // Of the one plan that has marked it; see Plan.
  std::atomic<uint64_t> plan_mark{0};
  uint32_t plan_index = 0;

 private:
  friend class Value;
  Node(Ref<StreamState> stream, std::string&& label) noexcept;
  ~Node() override;
  // Iterative, however long the chain that goes with it.
  void destroy() const noexcept override;

  static constexpr uint32_t kPin = 4;
  static NodeState state_of(uint32_t word) noexcept { return static_cast<NodeState>(word & 3U); }
  bool try_pin() noexcept;
  void unpin() noexcept;
  void finish(NodeState state, Spent& spent) noexcept;
  void add_outputs(std::span<const OutputType> outputs);
  void set_output(Value& value, const OutputType& type, int64_t elements) noexcept;

  std::atomic<uint32_t> word_{0};  // the state, and kPin for each pin
  uint32_t output_count_ = 0;
  Ref<const Operation> operation_;
  NodeInputs inputs_;
  Ref<StreamState> stream_;
  std::string label_;
  Failure failure_;
  Value first_;
  std::unique_ptr<Value[]> more_;
  mutable const Node* next_dead_ = nullptr;
};

}  // namespace holdfast::array
