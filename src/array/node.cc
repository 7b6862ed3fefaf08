#include "holdfast/array/node.h"

#include <fmt/format.h>

#include "holdfast/base/never_destroyed.h"
#include "holdfast/base/sync/recycled_memory.h"
#include "holdfast/base/sync/task_local.h"

namespace holdfast::array {
namespace {

// Nodes that the present task has to delete: deleting one may let go of the next, and a chain of a
// million of them must not need a million frames.
struct DeadNodes {
  const Node* newest = nullptr;
};
constinit const sync::TaskLocalPointer<DeadNodes> deleting;

}  // namespace

struct Value::Name {
  std::string text;
};

Value::Value() = default;
Value::~Value() { delete name_.load(std::memory_order_acquire); }

void Value::abandon() const noexcept {
  // Once the node is over, nobody gives it memory any more.
  if (node_->is_over() ||
      (flags_.fetch_or(kAbandoned, std::memory_order_acq_rel) & kHasMemory) != 0) {
    memory_.reset();
  }
  node_->release();
}

void Value::set_memory(Ref<hal::Allocation> memory, bool donatable) noexcept {
  memory_ = std::move(memory);
  donatable_ = donatable;
  if ((flags_.fetch_or(kHasMemory, std::memory_order_acq_rel) & kAbandoned) != 0) memory_.reset();
}

const std::string& Value::name() const noexcept {
  static const NeverDestroyed<std::string> nameless;
  const Name* const name = name_.load(std::memory_order_acquire);
  return name != nullptr ? name->text : nameless.get();
}

void Value::set_name(std::string name) noexcept {
  auto given = std::make_unique<Name>(Name{std::move(name)});
  Name* none = nullptr;
  if (name_.compare_exchange_strong(none, given.get(), std::memory_order_acq_rel)) {
    (void)given.release();
  }
}

void* Node::operator new(size_t bytes) { return RecycledMemory<Node>::take(bytes); }
void Node::operator delete(void* block) noexcept { RecycledMemory<Node>::give(block); }

Node::Node(Ref<StreamState> stream, std::string&& label) noexcept
    : stream_(std::move(stream)), label_(std::move(label)) {}

Node::~Node() = default;

void Node::add_outputs(std::span<const OutputType> outputs) {
  output_count_ = static_cast<uint32_t>(outputs.size());
  if (outputs.size() > 1) more_.reset(new Value[outputs.size() - 1]);
  for (size_t i = 0; i < outputs.size(); ++i) {
    set_output(output(i), outputs[i], elements(outputs[i].shape));
  }
}

void Node::set_output(Value& value, const OutputType& type, int64_t elements) noexcept {
  value.node_ = this;
  value.dtype_ = type.dtype;
  value.shape_ = type.shape;
  value.bytes_ = size_of(type.dtype) * static_cast<uint64_t>(elements);
}

Ref<Node> Node::make(Ref<const Operation> operation, NodeInputs&& inputs,
                     std::span<const OutputType> outputs, Ref<StreamState> stream,
                     std::string&& label) {
  Ref<Node> node(new Node(std::move(stream), std::move(label)));
  node->add_outputs(outputs);
  node->operation_ = std::move(operation);
  node->inputs_ = std::move(inputs);
  return node;
}

Ref<Value> Node::make_one(Ref<const Operation> operation, NodeInputs&& inputs,
                          const OutputType& output, Ref<StreamState> stream, std::string&& label) {
  const int64_t count = elements(output.shape);  // all that can raise, except for the next line
  auto* const node = new Node(std::move(stream), std::move(label));
  node->output_count_ = 1;
  node->set_output(node->first_, output, count);
  node->operation_ = std::move(operation);
  node->inputs_ = std::move(inputs);
  // Counted before anybody else knows them: the result's users count once together, see first_user.
  node->count_first_ref();
  node->first_.users_.store(1, std::memory_order_relaxed);
  return Ref<Value>::adopt(&node->first_);
}

Ref<Node> Node::make_leaf(Dtype dtype, const Shape& shape, Ref<hal::Allocation> memory,
                          Ref<StreamState> stream, Donation donation) {
  Ref<Node> node(new Node(std::move(stream), {}));
  const OutputType type{shape, dtype};
  node->add_outputs({&type, 1});
  node->first_.set_memory(std::move(memory), donation == Donation::allowed);
  node->word_.store(static_cast<uint32_t>(NodeState::recorded), std::memory_order_release);
  return node;
}

Ref<Value> Node::first_user(size_t i) noexcept {
  Value& value = output(i);
  retain();  // by all users of the value together; see Value::abandon
  return Ref<Value>(&value);
}

std::string Node::describe() const {
  const std::string what = fmt::format("'{}'", operation_ ? operation_->name() : "an array");
  return label_.empty() ? what : fmt::format("{}, labelled '{}'", what, label_);
}

bool Node::try_claim() noexcept {
  uint32_t word = word_.load(std::memory_order_acquire);
  while (state_of(word) == NodeState::built) {
    const uint32_t claimed = word | static_cast<uint32_t>(NodeState::claimed);
    if (word_.compare_exchange_weak(word, claimed, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void Node::give_up_claim() noexcept {
  word_.fetch_sub(static_cast<uint32_t>(NodeState::claimed), std::memory_order_seq_cst);
}

void Node::finish(NodeState state, Spent& spent) noexcept {
  const uint32_t change = static_cast<uint32_t>(state) - static_cast<uint32_t>(NodeState::claimed);
  const uint32_t before = word_.fetch_add(change, std::memory_order_seq_cst);
  if (before >= kPin) return;  // the last pin takes them
  spent.inputs = std::move(inputs_);
  spent.operation = std::move(operation_);
}

void Node::finish_failed(Failure why, Spent& spent) noexcept {
  failure_ = std::move(why);
  finish(NodeState::failed, spent);
}

bool Node::try_pin() noexcept {
  uint32_t word = word_.load(std::memory_order_acquire);
  while (state_of(word) < NodeState::recorded) {
    if (word_.compare_exchange_weak(word, word + kPin, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void Node::unpin() noexcept {
  const uint32_t before = word_.fetch_sub(kPin, std::memory_order_acq_rel);
  if (before / kPin == 1 && state_of(before) >= NodeState::recorded) {
    const Spent spent{std::move(inputs_), std::move(operation_)};
  }
}

void Node::destroy() const noexcept {
  if (DeadNodes* const dead = deleting.get()) {
    next_dead_ = dead->newest;
    dead->newest = this;
    return;
  }
  DeadNodes dead{this};
  const sync::TaskLocalPointer<DeadNodes>::Scope scope(deleting, &dead);
  while (dead.newest != nullptr) {
    const Node* const node = dead.newest;
    dead.newest = node->next_dead_;
    delete node;
  }
}

}  // namespace holdfast::array
