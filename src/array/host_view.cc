#include "holdfast/host_view.h"

#include "holdfast/array/stream_state.h"

namespace holdfast {

HostView::HostView(const Array& array, const WaitLimit& limit)
    : dtype_(array.dtype()), shape_(array.shape()), strides_(array.strides()) {
  static constexpr std::byte kNothing{};
  if (array.size() == 0) {
    array.eval(limit);
    data_ = &kNothing;
  } else if (!array.stream().state()->device().info.device_memory_host_visible) {
    copy_.resize(array.nbytes().value);
    array.copy_to(copy_, limit);
    strides_ = Layout::row_contiguous(shape_).strides;
    data_ = copy_.data();
    copied_ = true;
  } else if (array.is_row_contiguous()) {
    data_ = map_.emplace(array.map(limit)).bytes().data();
  } else {
    // The whole result, seen through the view's strides: nothing is copied.
    map_.emplace(Array(array.value()).map(limit));
    data_ =
        map_->bytes().data() + array.layout().offset * static_cast<int64_t>(size_of(dtype_).value);
  }
}

}  // namespace holdfast
