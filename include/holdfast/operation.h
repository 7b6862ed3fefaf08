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
class CompiledCall;
class MatrixLibrary;
class NodeRecorder;
class Transfer;
}  // namespace holdfast::array

#pragma GCC visibility push(default)

namespace holdfast {

using hal::NativeCall;
using hal::NativeCallback;

class Encoder;

// What a node does. Derive from it to add an operation of your own, and build its nodes with
// apply(). Immutable, shared by nodes and threads.
class Operation : public RefCounted {
 public:
  // For errors and reports.
  virtual std::string_view name() const noexcept = 0;
  // Records the node's work through the encoder: it reads the inputs and writes every output whole.
  // Called on any thread, with no lock held. It must not evaluate arrays. It must depend only on
  // the Operation and on what the encoder says, since it may be called several times: if a kernel
  // is not compiled yet, what was recorded is dropped, the kernels it launched are compiled, and it
  // is called again. An exception becomes the node's error for good, and nothing of the call is
  // recorded. Some errors leave the node as it was instead: InterruptedError and TimeoutError,
  // which waits raise, end the evaluation; after OutOfMemoryError and std::bad_alloc the evaluation
  // goes on.
  virtual void record(Encoder& encoder) const = 0;
  // Whether record() calls take(). If so, other nodes that read the same memory are recorded first,
  // so that it need not be copied.
  virtual bool takes_inputs() const noexcept { return false; }
  // For CompileOptions::shapeless: the shapes of its results for inputs with these shapes, which
  // have as many axes as those that the node was built with; `before` has the results' shapes then.
  // Empty (the default): only who builds the node knows. UsageError for shapes that do not fit.
  virtual std::vector<Shape> output_shapes(std::span<const Shape> inputs,
                                           std::span<const Shape> before) const;
};

// Typed memory that an operation reads or writes. Only an Encoder makes Operands, and only that
// Encoder can use them. Everything recorded with an Operand holds its memory.
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
  // The same memory through another layout, or as another dtype of the same size. UsageError if the
  // layout reaches outside the memory.
  Operand with_layout(const Layout& layout) const;
  Operand viewed_as(Dtype dtype) const;

 private:
  friend class Encoder;
  friend class array::CompiledCall;
  friend class array::NodeRecorder;
  Operand();
  Ref<hal::Allocation> memory_;  // null while only collecting the kernels to compile
  Dtype dtype_ = Dtype::float32;
  Layout layout_;
};

// How an operation records its work. Everything it binds is held until the device is done with it,
// and only Operands can be bound. Belongs to one call of Operation::record.
class Encoder {
 public:
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // Inputs are read-only, since arrays never change: an operation that writes to one, in any way,
  // is refused with UsageError. So is a write to an Operand of another record() call.
  size_t inputs() const noexcept;
  // UsageError if there is no such input, or if it was taken.
  const Operand& input(size_t i) const;
  std::span<const Operand> all_inputs() const;
  size_t outputs() const noexcept;
  // Row-contiguous; its memory is allocated on first use. UsageError if there is no such output.
  const Operand& output(size_t i);
  std::span<const Operand> all_outputs();

  // Makes output `out` start with the elements of input `in`, which has the same dtype and shape.
  // The output gets the input's own memory if nobody else can see it, and a copy otherwise. Call it
  // before the output's first use; the input cannot be used afterwards.
  const Operand& take(size_t in, size_t out);
  // Whether take(in, out) would need no copy. If so, a kernel may as well work in place when each
  // element is read only by the thread that writes it.
  bool can_take(size_t in, size_t out) const;

  // Uninitialized memory for this node alone.
  Operand scratch(const Shape& shape, Dtype dtype);
  // The same as uint8 along one axis. Above 2^31 - 1 bytes, the most that an axis can have, there
  // are two axes and the size is rounded up to whole rows.
  Operand scratch(Bytes bytes);
  // The operand itself, or a row-contiguous copy of it.
  Operand contiguous(const Operand& operand);

  using Launch = kernel::LaunchOf<Operand>;
  // One dispatch. UsageError for a wrong number of arguments, a shape that does not fit in its
  // memory, a threadgroup that is empty or larger than the device allows, an output that shares
  // bytes with another argument, names that the kernel does not know, and negative strides.
  void launch(const Kernel& kernel, const Launch& launch);
  // The same for an operation that records nothing else; it costs less. Call it once, last: after
  // all_outputs(), take() and whatever else may raise.
  void launch_alone(const Kernel& kernel, const Launch& launch);
  // Both operands must be row-contiguous and of the same size in bytes, and must not overlap.
  void copy(const Operand& from, const Operand& to);
  // Sets every byte of a row-contiguous operand.
  void fill(const Operand& to, std::byte value);
  // Copies elements between operands of the same shape and dtype, in any layout. No two elements of
  // `to` may share memory.
  void copy_elements(const Operand& from, const Operand& to);
  // Sets every element, in any layout.
  void fill_elements(const Operand& to, const Scalar& value);
  // The backend's own commands; see NativeCallback.
  void native(NativeCallback callback, std::span<const Operand> reads,
              std::span<const Operand> writes);

  // The device, with the thread style that DeviceOptions forces, if any.
  const DeviceInfo& device() const noexcept;

 private:
  friend class array::CompiledCall;
  friend class array::MatrixLibrary;
  friend class array::NodeRecorder;
  friend class array::Transfer;
  explicit Encoder(array::NodeRecorder& recorder) noexcept : recorder_(recorder) {}
  array::NodeRecorder& recorder_;
};

struct OutputType {
  Shape shape{};
  Dtype dtype = Dtype::float32;
};

// Builds a node and returns its results, which are not computed yet. The node runs on the inputs'
// device. UsageError if the inputs are on several devices, or on a device other than the one `on`
// names. Without inputs, any device will do.
std::vector<Array> apply(const Ref<const Operation>& operation, std::span<const Array> inputs,
                         std::span<const OutputType> outputs, const On& on = {},
                         std::string label = {});
// The same for one result.
Array apply(const Ref<const Operation>& operation, std::span<const Array> inputs,
            const OutputType& output, const On& on = {});

}  // namespace holdfast

#pragma GCC visibility pop
