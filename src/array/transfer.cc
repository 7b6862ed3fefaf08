#include "holdfast/array/current_stream.h"
#include "holdfast/array/node_recorder.h"
#include "holdfast/runtime/core.h"
#include "holdfast/views.h"

namespace holdfast {
namespace array {

// Moves its input, which lies on another device than the node.
class Transfer final : public Operation {
 public:
  std::string_view name() const noexcept override { return "to_device"; }
  void record(Encoder& encoder) const override { encoder.recorder_.transfer(); }
};

}  // namespace array

Array Array::to(const Device& device) const {
  array::DeviceState& from = checked().node().stream()->device();
  array::DeviceState& to = device.home()->device();
  if (&from == &to) return *this;
  // A view that shows all of a result, or parts of it more than once, is made again over there.
  const Array whole(value_);
  if (!is_row_contiguous() && whole.nbytes() <= nbytes()) {
    return whole.to(device).with_layout(layout());
  }
  from.context->core().check_usable();
  to.context->core().check_usable();
  const Stream* const current = array::current_stream();
  const bool goes_there = current != nullptr && &current->state()->device() == &to;
  const OutputType type{shape(), dtype()};
  Array moved(array::Node::make(make_ref<const array::Transfer>(),
                                array::NodeInputs{contiguous(*this)}, {&type, 1},
                                goes_there ? current->state().ref() : device.home().ref(), {})
                  ->first_user(0));
  if (const std::string own = name(); !own.empty()) moved.set_name(own);
  return moved;
}

}  // namespace holdfast
