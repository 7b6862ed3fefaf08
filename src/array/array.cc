#include "holdfast/array.h"

#include <fmt/format.h>

#include "holdfast/array/apply.h"
#include "holdfast/array/host_bytes.h"
#include "holdfast/array/layouts.h"
#include "holdfast/array/node_recorder.h"
#include "holdfast/base/shown.h"
#include "holdfast/eval.h"
#include "holdfast/hal/deleter.h"
#include "holdfast/views.h"

namespace holdfast {

Array::Array(Dtype dtype, const Shape& shape, std::span<const std::byte> bytes, std::string name,
             const On& on) {
  const Bytes size = size_of(dtype) * static_cast<uint64_t>(elements(shape));
  if (size.value != bytes.size()) {
    const uint64_t given = bytes.size() / size_of(dtype).value;
    throw UsageError(fmt::format("an array of shape {} has {} elements of {}, and {} were given",
                                 to_string(shape), elements(shape), kernel::to_string(dtype),
                                 given));
  }
  const Ref<array::StreamState> stream = array::stream_for({}, on);
  Ref<hal::Allocation> memory = stream->stream()->allocate(size, name);
  stream->stream()->upload(memory, {}, bytes);
  const Ref<array::Node> node =
      array::Node::make_leaf(dtype, shape, std::move(memory), stream, array::Donation::allowed);
  value_ = node->first_user(0);
  if (!name.empty()) value_->set_name(std::move(name));
}

void Array::raise_empty() {
  throw UsageError("an Array that shows nothing was used (default-constructed, or moved from)");
}

int64_t Array::shape(int64_t axis) const {
  return shape()[array::normal_axis(axis, ndim(), "shape")];
}

Layout Array::layout() const {
  return view_ ? view_->layout : Layout::row_contiguous(checked().shape());
}

Stream Array::stream() const { return Stream(checked().node().stream()); }
Device Array::device() const { return stream().device(); }

std::string Array::name() const { return checked().name(); }
const Array& Array::set_name(std::string name) const {
  (void)checked();
  value_->set_name(std::move(name));
  return *this;
}

bool Array::is_recorded() const { return checked().node().is_over(); }

const Array& Array::eval(const WaitLimit& limit) const {
  holdfast::eval(std::span(this, 1), limit);
  return *this;
}

Array Array::with_layout(const Layout& layout) const {
  const array::Reach reached = array::reach(layout);
  const int64_t size = elements(checked().shape());
  if (reached.last < reached.first) {
    // No elements lie anywhere, however far the offset is.
    const Layout nowhere = Layout::row_contiguous(layout.shape);
    if (nowhere.shape == value_->shape()) return Array(value_);
    return {value_, make_ref<const array::View>(nowhere)};
  }
  if (reached.first < 0 || reached.last >= size) {
    throw UsageError(fmt::format("a view reaches elements {} to {} of an array that has {}",
                                 reached.first, reached.last, size));
  }
  if (layout == Layout::row_contiguous(value_->shape())) return Array(value_);
  return {value_, make_ref<const array::View>(layout)};
}

void Array::read(Dtype dtype, const char* what, int64_t count, std::span<std::byte> to,
                 const WaitLimit& limit) const {
  if (dtype != this->dtype()) {
    throw UsageError(fmt::format("{}<{}> of an array of {}; use astype first", what,
                                 kernel::to_string(dtype), kernel::to_string(this->dtype())));
  }
  if (count >= 0 && size() != count) {
    throw UsageError(fmt::format("{} of an array of shape {}, which has {} elements", what,
                                 to_string(shape()), size()));
  }
  array::read_bytes(*this, to, limit);
}

void Array::copy_to(std::span<std::byte> to, const WaitLimit& limit) const {
  if (to.size() != nbytes().value) {
    throw UsageError(fmt::format("copy_to: an array of {} has {} bytes, and there is room for {}",
                                 to_string(shape()), nbytes().value, to.size()));
  }
  array::read_bytes(*this, to, limit);
}

ArrayMap Array::map(const WaitLimit& limit) const {
  Array rows = contiguous(*this);
  async_eval(rows);
  if (rows.size() == 0) return {std::move(rows), nullptr};
  const array::Value& value = *rows.value();
  const ByteRange range{size_of(dtype()) * static_cast<uint64_t>(rows.layout().offset),
                        rows.nbytes()};
  runtime::Map map = value.node().stream()->stream()->map(
      value.memory(), range, hal::Access::read, limit,
      name().empty() ? "map of an array" : fmt::format("map of '{}'", name()));
  return {std::move(rows), std::make_unique<runtime::Map>(std::move(map))};
}

ArrayMap::ArrayMap(Array array, std::unique_ptr<runtime::Map> map) noexcept
    : array_(std::move(array)), map_(std::move(map)) {}
ArrayMap::ArrayMap(ArrayMap&&) noexcept = default;
ArrayMap& ArrayMap::operator=(ArrayMap&&) noexcept = default;
ArrayMap::~ArrayMap() = default;

std::span<const std::byte> ArrayMap::bytes() const& noexcept {
  return map_ ? map_->bytes() : std::span<std::byte>();
}

void ArrayMap::check(Dtype dtype) const {
  if (dtype != array_.dtype()) {
    throw UsageError(fmt::format("values of {} in the map of an array of {}",
                                 kernel::to_string(dtype), kernel::to_string(array_.dtype())));
  }
}

Array from_external(void* data, Dtype dtype, const Shape& shape, std::function<void()> deleter,
                    std::string name, const On& on) {
  // From here on the memory's owner is told in any case.
  hal::ExternalMemory memory{data, {}, std::move(deleter), name};
  Ref<array::StreamState> stream;
  try {
    memory.size = size_of(dtype) * static_cast<uint64_t>(elements(shape));
    stream = array::stream_for({}, on);
    const uint64_t alignment = size_of(dtype).value;
    if (reinterpret_cast<uintptr_t>(data) % alignment != 0) {
      throw UsageError(
          fmt::format("external memory {} begins at address {}, which is not aligned to {} "
                      "bytes, as elements "
                      "of {} must be; align it, or copy it into an array",
                      shown(name), fmt::ptr(data), alignment, kernel::to_string(dtype)));
    }
    if (memory.size.value == 0) throw UsageError("external memory of no bytes; use zeros instead");
  } catch (...) {
    hal::run_deleter(memory.deleter, memory.name);
    throw;
  }
  Ref<hal::Allocation> imported = stream->device().context->import(std::move(memory));
  const Ref<array::Node> node =
      array::Node::make_leaf(dtype, shape, std::move(imported), stream, array::Donation::forbidden);
  Array made(node->first_user(0));
  if (!name.empty()) made.set_name(std::move(name));
  return made;
}

Array to_device(const Array& array, const Device& device) { return array.to(device); }

}  // namespace holdfast
