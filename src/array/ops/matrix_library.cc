#include "holdfast/array/ops/matrix_library.h"

#include <algorithm>

#include "holdfast/array/node_recorder.h"
#include "holdfast/array/stream_state.h"
#include "holdfast/hal/device.h"
#include "holdfast/runtime/context.h"

namespace holdfast::array {
namespace {

// Multiplications that make up for a command which is no kernel of ours, of one call of the
// library; and the fewest rows and columns. Below, products are bound by memory or by launches, and
// our kernels stay with their neighbours in one graph. (bench rows cuda_matmul_*)
constexpr double kWorthACall = 1 << 25;
constexpr int64_t kFewestRows = 8;

std::optional<hal::MatrixElement> element_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16: return hal::MatrixElement::float16;
    case Dtype::bfloat16: return hal::MatrixElement::bfloat16;
    case Dtype::float32: return hal::MatrixElement::float32;
    case Dtype::float64: return hal::MatrixElement::float64;
    default: return std::nullopt;
  }
}

struct Axes {
  int64_t rows;
  int64_t columns;
  int64_t down;   // elements from one row to the next
  int64_t right;  // and from one column to the next
};
Axes last_axes(const Operand& operand) {
  const Layout& layout = operand.layout();
  const size_t rank = layout.shape.size();
  return {layout.shape[rank - 2], layout.shape[rank - 1], layout.strides[rank - 2],
          layout.strides[rank - 1]};
}

bool is_worth_it(double products, int64_t rows, int64_t columns) {
  return products >= kWorthACall && std::min(rows, columns) >= kFewestRows;
}

// Of the operand's first byte, in memory that is aligned as all of a device's is.
uint64_t alignment_of(const Operand& operand) {
  constexpr uint64_t kMemory = 256;
  const uint64_t bits =
      kMemory | (size_of(operand.dtype()) * static_cast<uint64_t>(operand.layout().offset)).value;
  return bits & (~bits + 1);
}

}  // namespace

MatrixLibrary::MatrixLibrary(Encoder& encoder, const Operand& a, const Operand& b,
                             const Operand& out)
    : encoder_(encoder) {
  const DeviceState& device = *encoder.recorder_.device_;
  if (device.matmul == MatmulBy::own) return;
  forced_ = device.matmul == MatmulBy::library;
  if (!element_of(out.dtype()) || a.dtype() != out.dtype() || b.dtype() != out.dtype()) return;
  const auto [rows, depth, down, right] = last_axes(a);
  const double products = static_cast<double>(out.size()) * static_cast<double>(depth);
  // Before the library is asked for, since it is loaded then.
  if (!forced_ && !is_worth_it(products, rows, last_axes(b).columns)) return;
  products_ = device.context->device()->matrix_products();
}

std::optional<hal::MatrixLayout> MatrixLibrary::layout_of(const Operand& operand) {
  const auto [rows, columns, down, right] = last_axes(operand);
  const auto lies = [](int64_t length, int64_t next, int64_t others, int64_t apart) {
    return (length == 1 || next == 1) && (others == 1 || apart >= length);
  };
  const uint64_t alignment = alignment_of(operand);
  if (lies(columns, right, rows, down)) {
    return hal::MatrixLayout{false, rows == 1 ? columns : down, alignment};
  }
  if (lies(rows, down, columns, right)) {
    return hal::MatrixLayout{true, columns == 1 ? rows : right, alignment};
  }
  return std::nullopt;
}

bool MatrixLibrary::record(const Operand& a, const Operand& b, const Operand& out) {
  if (products_ == nullptr) return false;
  const auto a_layout = layout_of(a);
  const auto b_layout = layout_of(b);
  if (!a_layout || !b_layout) return false;
  hal::MatrixProduct product{.element = *element_of(out.dtype()),
                             .rows = last_axes(a).rows,
                             .columns = last_axes(b).columns,
                             .depth = last_axes(a).columns,
                             .a = *a_layout,
                             .b = *b_layout};
  int64_t apart = product.rows * product.columns;
  int64_t longest = 1;
  for (size_t i = a.layout().shape.size() - 2; i-- > 0;) {
    const int64_t count = a.layout().shape[i];
    if (count == 1) continue;
    product.batch.push_back({count, a.layout().strides[i], b.layout().strides[i], apart});
    apart *= count;
    longest = std::max(longest, count);
  }
  const double each = static_cast<double>(product.rows) * static_cast<double>(product.columns) *
                      static_cast<double>(product.depth) * static_cast<double>(longest);
  if (!forced_ && !is_worth_it(each, product.rows, product.columns)) return false;
  std::optional<hal::MatrixProducts::Way> way = products_->find(product);
  if (!way) return false;

  NodeRecorder& recorder = encoder_.recorder_;
  std::optional<Operand> workspace;
  if (way->workspace > 0_B) workspace = encoder_.scratch(way->workspace);
  if (recorder.looks_only_) return true;
  std::vector<hal::Binding> bindings{recorder.bind_reached(a, hal::Access::read),
                                     recorder.bind_reached(b, hal::Access::read),
                                     recorder.bind_reached(out, hal::Access::write)};
  if (workspace) bindings.push_back(recorder.bind_reached(*workspace, hal::Access::write));
  recorder.transaction().native(std::move(way->callback), bindings, recorder.label());
  ++recorder.commands_;
  recorder.count(out);
  return true;
}

}  // namespace holdfast::array
