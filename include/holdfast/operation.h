#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/array.h"
#include "holdfast/hal/device_info.h"
#include "holdfast/hal/native_call.h"
#include "holdfast/kernel.h"

namespace holdfast::array {
class NodeRecorder;
class Transfer;
}  // namespace holdfast::array

#pragma GCC visibility push(default)

namespace holdfast {

using hal::NativeCall;
using hal::NativeCallback;

class Encoder;

// What a node does. Derive from it to add an operation of your own, and build nodes of it with
// apply(). Immutable, shared by nodes and threads.
class Operation : public RefCounted {
 public:
  // For errors and reports.
  virtual std::string_view name() const noexcept = 0;
  // Records the node's work through the encoder: it reads the inputs and writes every output whole.
  // Called on any thread, with no lock held. It must depend on nothing but the Operation and what
  // the encoder says, since it may be called several times: where a kernel is not compiled yet,
  // what it recorded is dropped, the kernels it launched are compiled, and it is called again.
  // Whatever it throws becomes the error of the node, for good; nothing of it was recorded then.
  // (InterruptedError and TimeoutError, which waits raise, end the evaluation instead and leave the
  // node as it was; so do OutOfMemoryError and std::bad_alloc, and the evaluation goes on.) It must
  // not evaluate arrays.
  virtual void record(Encoder& encoder) const = 0;
  // Whether record() calls take(): others that read the same memory are recorded first then, so
  // that it need not be copied.
  virtual bool takes_inputs() const noexcept { return false; }
};

// Typed memory that an operation reads or writes. Only an Encoder makes one, it is of use only to
// that Encoder, and everything that is recorded with it holds the memory.
class Operand {
 public:
  Operand(const Operand& other);
  Operand(Operand&& other) noexcept;
  Operand& operator=(const Operand& other);
  Operand& operator=(Operand&& other) noexcept;
  ~Operand();

  Dtype dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return layout_.shape; }
  const Layout& layout() const noexcept { return layout_; }
  int64_t size() const noexcept;
  bool is_row_contiguous() const noexcept { return layout_.is_row_contiguous(); }
  // The same memory through another layout, or as another dtype of the same size. UsageError where
  // the layout reaches outside the memory.
  Operand with_layout(const Layout& layout) const;
  Operand viewed_as(Dtype dtype) const;

 private:
  friend class Encoder;
  friend class array::NodeRecorder;
  Operand();
  Ref<hal::Allocation> memory_;  // null while kernels are only looked for
  Dtype dtype_ = Dtype::float32;
  Layout layout_;
};

// How an operation records: what it binds is held until the device is done with it; there is no way
// to bind anything else. Belongs to one call of Operation::record.
class Encoder {
 public:
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // Inputs are read: an operation that writes to one, in whichever way, is refused with UsageError,
  // since arrays never change. So is a write to an operand of another call of record().
  size_t inputs() const noexcept;
  // UsageError where there is no such input, or where it was taken.
  const Operand& input(size_t i) const;
  std::span<const Operand> all_inputs() const;
  size_t outputs() const noexcept;
  // Row-contiguous; its memory is made on first use. UsageError where there is no such output.
  const Operand& output(size_t i);
  std::span<const Operand> all_outputs();

  // Output `out` begins with the elements of input `in`, of the same dtype and shape: the very
  // memory, where nobody else can see it, and a copy otherwise. Before the output's first use; the
  // input is of no use afterwards.
  const Operand& take(size_t in, size_t out);
  // Whether take(in, out) would need no copy: then an element that is read only by the thread that
  // writes it may as well be replaced.
  bool can_take(size_t in, size_t out) const;

  // Memory for this node alone, in any state.
  Operand scratch(const Shape& shape, Dtype dtype);
  // As uint8, of one axis; above 2^31 - 1 bytes, the most that an axis has, of two, and rounded up
  // to whole rows.
  Operand scratch(Bytes bytes);
  // The operand itself, or a row-contiguous copy of it.
  Operand contiguous(const Operand& operand);

  using Launch = kernel::LaunchOf<Operand>;
  // One dispatch. UsageError for arguments of another count, a shape that does not fit in its
  // memory, a threadgroup that is empty or larger than the device allows, an output that shares
  // bytes with another argument, names that the kernel does not know, and negative strides.
  void launch(const Kernel& kernel, const Launch& launch);
  // Row-contiguous operands of one size in bytes, apart from each other.
  void copy(const Operand& from, const Operand& to);
  // Every byte of a row-contiguous operand.
  void fill(const Operand& to, std::byte value);
  // The elements of one into the other, of the same shape and dtype, whatever their layouts; `to`
  // shows each of its elements once.
  void copy_elements(const Operand& from, const Operand& to);
  // Every element, in any layout.
  void fill_elements(const Operand& to, const Scalar& value);
  // The backend's own commands; see NativeCallback.
  void native(NativeCallback callback, std::span<const Operand> reads,
              std::span<const Operand> writes);

  // The device, with the thread style that DeviceOptions force.
  const DeviceInfo& device() const noexcept;

 private:
  friend class array::NodeRecorder;
  friend class array::Transfer;
  explicit Encoder(array::NodeRecorder& recorder) noexcept : recorder_(recorder) {}
  array::NodeRecorder& recorder_;
};

struct OutputType {
  Shape shape{};
  Dtype dtype = Dtype::float32;
};

// Builds a node: its results, not computed yet. The inputs' device is the node's. UsageError where
// inputs are of several devices, or of another than `on` names. Without inputs any device will do.
std::vector<Array> apply(const Ref<const Operation>& operation, std::span<const Array> inputs,
                         std::span<const OutputType> outputs, const On& on = {},
                         std::string label = {});
// The same for one result.
Array apply(const Ref<const Operation>& operation, std::span<const Array> inputs,
            const OutputType& output, const On& on = {});

}  // namespace holdfast

#pragma GCC visibility pop
