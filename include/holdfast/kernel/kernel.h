#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/id.h"
#include "holdfast/kernel/signature.h"

#pragma GCC visibility push(default)

namespace holdfast {

class Array;
struct KernelCall;

namespace kernel {

struct KernelTag {};
using KernelId = Id<KernelTag>;  // of a Kernel object; never reused

// One launch of a kernel, with arguments of the caller's own type. Everything is borrowed for the
// call.
template <typename Argument>
struct LaunchOf {
  std::span<const Argument> inputs{};
  std::span<const Argument> outputs{};
  std::span<const Argument> in_place{};
  Size3 grid{};  // threads, as in Metal's dispatchThreads: no surplus thread exists
  // Threads per group; groups at an edge of the grid are smaller. For a native: its own size.
  Size3 threadgroup{};
  std::span<const Constant> constants{};
  std::span<const Param> params{};
  // Roughly how much work a thread does, as a multiple of a short thread's. Devices that run
  // several threads as one piece then take fewer per piece. Changes no result.
  uint32_t work_per_thread = 1;
  // The kernel may leave elements of its outputs unchanged: outputs then count as read, too.
  bool keeps_outputs = false;
  std::string_view label{};
};

}  // namespace kernel

// A kernel written as text: a checked definition with an identity of its own. Two kernels with one
// name are different kernels. Cheap to copy, immutable, thread-safe.
class Kernel {
 public:
  // UsageError says what is wrong with the definition; EnvironmentError if its file cannot be read.
  // Nothing is compiled.
  explicit Kernel(kernel::Definition definition);

  // Calls it with arrays: builds one node. Needs the array library; see KernelCall.
  std::vector<Array> operator()(std::vector<Array> inputs, KernelCall call) const;

  kernel::KernelId id() const noexcept { return content_->id; }
  const kernel::Definition& definition() const noexcept { return content_->definition; }
  const std::string& name() const noexcept { return content_->definition.name; }

  // Whether the code depends on the argument's rank, beyond whether it is zero.
  bool uses_rank(kernel::ArgumentGroup group, size_t index) const;

 private:
  struct Content {
    kernel::KernelId id = kernel::KernelId::next();
    kernel::Definition definition;
    std::vector<bool> uses_rank;  // inputs, in_place, outputs
    // A hash of the names in the last good call. An accidental match only delays an error.
    mutable std::atomic<uint64_t> checked_names{0};
  };
  std::shared_ptr<const Content> content_;
};

}  // namespace holdfast

#pragma GCC visibility pop
