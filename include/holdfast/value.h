#pragma once

#include <atomic>
#include <string>

#include "holdfast/base/ref.h"
#include "holdfast/dtypes.h"
#include "holdfast/layout.h"

namespace holdfast::array {
class Node;
}

#pragma GCC visibility push(default)

namespace holdfast::hal {
class Allocation;
}

namespace holdfast::array {

// A layout of a result, other than the result's own. Immutable.
class View final : public RefCounted {
 public:
  explicit View(const Layout& of) : layout(of) {}
  const Layout layout;
};

// One result of a node: its type and, once the node is recorded, its memory. Stored inside its
// Node. Its users are the Arrays that show it, including the inputs of other nodes; together they
// keep the Node alive. When the last user goes, the memory is released at once, whether or not the
// Node lives on.
class Value {
 public:
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
  ~Value();

  Dtype dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  Bytes bytes() const noexcept { return bytes_; }
  Node& node() const noexcept { return *node_; }

  // Users; called by Ref.
  void retain() const noexcept { users_.fetch_add(1, std::memory_order_relaxed); }
  void release() const noexcept {
    if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) abandon();
  }
  // Stable only for a caller that owns all of them.
  uint32_t users() const noexcept { return users_.load(std::memory_order_acquire); }

  // Only for users, and only once the node is recorded; it no longer changes then.
  const Ref<hal::Allocation>& memory() const noexcept { return memory_; }
  // Whether another result may take over the memory; false for the caller's own memory.
  bool donatable() const noexcept { return donatable_; }

  // Called by whoever records the node, before it counts as recorded. A result without users keeps
  // nothing.
  void set_memory(Ref<hal::Allocation> memory, bool donatable = true) noexcept;

  const std::string& name() const noexcept;
  void set_name(std::string name) noexcept;

 private:
  friend class Node;
  Value();
  struct Name;
  // The last user is gone.
  void abandon() const noexcept;

  Node* node_ = nullptr;
  mutable std::atomic<uint32_t> users_{0};
  static constexpr uint8_t kHasMemory = 1;
  static constexpr uint8_t kAbandoned = 2;
  mutable std::atomic<uint8_t> flags_{0};
  bool donatable_ = true;
  Dtype dtype_ = Dtype::float32;
  Bytes bytes_{};
  mutable Ref<hal::Allocation> memory_;
  mutable std::atomic<Name*> name_{nullptr};
  Shape shape_;
};

}  // namespace holdfast::array

#pragma GCC visibility pop
