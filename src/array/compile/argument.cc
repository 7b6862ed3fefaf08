#include "holdfast/array/compile/argument.h"

#include <fmt/format.h>

#include <algorithm>

#include "holdfast/array/apply.h"
#include "holdfast/array/layouts.h"
#include "holdfast/base/error.h"
#include "holdfast/base/rounding.h"

namespace holdfast::array {
namespace {

class Placeholder final : public Operation {
 public:
  explicit Placeholder(std::string place) : place_(std::move(place)) {}
  std::string_view name() const noexcept override { return "traced argument"; }
  void record(Encoder& /*encoder*/) const override {
    throw UsageError(
        fmt::format("{} was evaluated while the function is traced, and a 'traced argument' has no "
                    "elements: return what you want to read, or choose on the device with where()",
                    place_));
  }

 private:
  const std::string place_;
};

// At least so many elements.
Shape shape_of(int64_t elements) {
  constexpr int64_t kRow = int64_t{1} << 20;
  return elements <= kMaxLength ? Shape{elements} : Shape{ceil_div(elements, kRow), kRow};
}

}  // namespace

int64_t elements_before(const Layout& layout, Dtype dtype) {
  const Reach reached = reach(layout);
  const auto aligned = static_cast<int64_t>(ArgumentType::kAlignment / size_of(dtype).value);
  return reached.first / aligned * aligned;
}

ArgumentType::ArgumentType(const Array& array) : dtype(array.dtype()), layout(array.layout()) {
  const Reach reached = reach(layout);
  const int64_t before = elements_before(layout, dtype);
  elements = reached.last - before + 1;
  whole = elements == holdfast::elements(array.value()->shape());
  layout.offset -= before;
}

Array make_placeholder(const ArgumentType& type, const std::string& place, const On& on) {
  const Ref<const Operation> operation = make_ref<const Placeholder>(place);
  // What shows nothing of some memory is still a view of it.
  const bool empty_view = type.elements == 0 && !type.whole;
  const bool whole = type.layout == Layout::row_contiguous(type.layout.shape) && !empty_view;
  const OutputType memory{whole ? type.layout.shape : shape_of(std::max<int64_t>(type.elements, 1)),
                          type.dtype};
  const Array all = holdfast::apply(operation, {}, memory, on);
  return whole ? all : all.with_layout(type.layout);
}

}  // namespace holdfast::array
