#include "holdfast/native.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "holdfast/array/apply.h"
#include "holdfast/array/node.h"
#include "holdfast/array/stream_state.h"
#include "holdfast/base/leave_alive.h"
#include "holdfast/base/log.h"
#include "holdfast/base/shown.h"
#include "holdfast/eval.h"
#include "holdfast/hal/deleter.h"
#include "holdfast/runtime/context.h"
#include "holdfast/runtime/core.h"

namespace holdfast {
namespace {

const Ref<runtime::Context>& context_of(const Array& array) {
  return array.value()->node().stream()->device().context;
}

}  // namespace

NativeView::NativeView(Array array) : array_(std::move(array)) {
  async_eval(array_);
  if (array_.size() == 0) return;
  const Ref<hal::Allocation>& memory = array_.value()->memory();
  address_ = memory->device_address();
  if (address_ == 0) {
    throw UnsupportedError(
        fmt::format("device '{}' has no native streams, and its memory no "
                    "address for others",
                    array_.device().name()));
  }
  address_ += static_cast<uint64_t>(array_.layout().offset) * size_of(array_.dtype()).value;
}

NativeView::NativeView(Array array, void* reader) : NativeView(std::move(array)) {
  if (address_ != 0) context_of(array_)->make_native_wait(reader, array_.value()->memory());
  last_reader_ = reader;
}

NativeView NativeView::unordered(Array array) { return NativeView(std::move(array)); }

NativeView::NativeView(NativeView&& other) noexcept
    : array_(std::move(other.array_)),
      address_(std::exchange(other.address_, 0)),
      last_reader_(std::exchange(other.last_reader_, nullptr)) {}

NativeView& NativeView::operator=(NativeView&& other) noexcept {
  if (this == &other) return *this;
  end();
  array_ = std::move(other.array_);
  address_ = std::exchange(other.address_, 0);
  last_reader_ = std::exchange(other.last_reader_, nullptr);
  return *this;
}

NativeView::~NativeView() { end(); }

void NativeView::end() noexcept {
  if (address_ == 0 || last_reader_ == nullptr) return;
  try {
    const Ref<runtime::Context> context = context_of(array_);
    // A closed device has no memory to reuse, and a forked child none of its parent's.
    if (context->closed() || context->core().forked()) return;
    const Ref<hal::Allocation>& memory = array_.value()->memory();
    Result<hal::Point> done =
        context->device()->point_of_native(last_reader_, "readers of an exported array");
    if (!done) {
      if (context->device()->lost()) return;
      logging::warn(logging::Topic::memory,
                    "{} was exported, and the stream that read it cannot be asked any more: {}; "
                    "its memory is never used again. Drop what was exported before its stream",
                    memory->describe(), done.failure().message());
      leave_alive(std::make_shared<Array>(std::move(array_)));
      return;
    }
    context->add_outside_access(memory, hal::Access::read, done.value());
  } catch (const std::exception& error) {
    // Closed meanwhile, or no memory for the note: what may still be read stays.
    logging::warn(logging::Topic::memory, "an exported array is never used again: {}",
                  error.what());
    leave_alive(std::make_shared<Array>(std::move(array_)));
  }
}

Array from_native(uint64_t address, Dtype dtype, const Shape& shape, void* writer,
                  std::function<void()> deleter, std::string name, const On& on) {
  // From here on the memory's owner is told in any case.
  hal::ExternalMemory memory{reinterpret_cast<void*>(address),  // NOLINT(performance-no-int-to-ptr)
                             {},
                             std::move(deleter),
                             name,
                             true};
  Ref<array::StreamState> stream;
  hal::Point written;
  try {
    memory.size = size_of(dtype) * static_cast<uint64_t>(elements(shape));
    stream = array::stream_for({}, on);
    if (address % size_of(dtype).value != 0) {
      throw UsageError(
          fmt::format("memory of the device {} begins at address {:#x}, which is not "
                      "aligned to {} bytes, as elements of {} must be; copy it",
                      shown(name), address, size_of(dtype).value, kernel::to_string(dtype)));
    }
    if (memory.size.value == 0) throw UsageError("memory of no bytes; use zeros instead");
    const Ref<hal::Device>& device = stream->device().context->device();
    if (writer != nullptr) {
      written = device->point_of_native(writer, "writer of imported memory").or_raise();
    } else if (device->info().driver_ordinal < 0) {
      throw UnsupportedError(
          fmt::format("device '{}' has no memory that others could address", device->info().name));
    }
  } catch (...) {
    hal::run_deleter(memory.deleter, memory.name);
    throw;
  }
  const Ref<runtime::Context>& context = stream->device().context;
  Ref<hal::Allocation> imported = context->import(std::move(memory));
  context->add_outside_access(imported, hal::Access::write, written);
  const Ref<array::Node> node =
      array::Node::make_leaf(dtype, shape, std::move(imported), stream, array::Donation::forbidden);
  Array made(node->first_user(0));
  if (!name.empty()) made.set_name(std::move(name));
  return made;
}

void* native_stream(const Device& device) {
  return device.context()->device()->native_stream().or_raise();
}

int32_t driver_ordinal(const Device& device) {
  return device.context()->device()->info().driver_ordinal;
}

}  // namespace holdfast
