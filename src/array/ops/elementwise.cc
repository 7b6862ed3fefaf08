#include "holdfast/array/ops/elementwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <limits>
#include <optional>
#include <span>

#include "holdfast/array/layouts.h"
#include "holdfast/array/ops/elementwise_kernels.h"
#include "holdfast/array/ops/fusible.h"
#include "holdfast/array/ops/work.h"
#include "holdfast/base/error.h"
#include "holdfast/operation.h"

namespace holdfast::array {
namespace {

template <typename T, size_t kMore = 0>
using UpToThree = boost::container::static_vector<T, kMaxOperands + kMore>;

// Threads of a group.
constexpr uint32_t kGroup = 256;
// Elements of a block where no operand is turned. 128 were as fast for operation/exp/float16, as
// far as a busy machine could tell; shorter blocks leave less at the end of a row.
constexpr int64_t kBlock = 64;
// Threads of a launch that counts them by x alone.
constexpr int64_t kMostThreads = int64_t{1} << 30;

Dtype computed_in(Dtype dtype) {
  return dtype == Dtype::float16 || dtype == Dtype::bfloat16 ? Dtype::float32 : dtype;
}

struct Types {
  Dtype computed;
  Dtype result;
};

class Elementwise final : public ElementOperation {
 public:
  Elementwise(const Expression& expression, Types types, const Pattern& operands,
              const std::array<kernel::Scalar, kMaxOperands>& numbers)
      : expression_(expression), types_(types), operands_(operands), numbers_(numbers) {}

  std::string_view name() const noexcept override { return expression_.name; }
  void record(Encoder& encoder) const override;
  ElementStep element_step() const override;
  std::vector<Shape> output_shapes(std::span<const Shape> inputs,
                                   std::span<const Shape> /*before*/) const override {
    Shape shape;
    for (const Shape& input : inputs) shape = broadcast_shapes(shape, input);
    return {shape};
  }

 private:
  struct Call {
    explicit Call(Encoder& encoder_of, const Operand& out_of) : encoder(encoder_of), out(out_of) {}
    Encoder& encoder;
    const Operand& out;
    bool in_place = false;
    UpToThree<Operand> inputs;                  // that the kernel gets
    UpToThree<size_t> numbers;                  // which inputs of the node these are
    std::array<Access, kMaxOperands> access{};  // of each input of the node
  };
  void record_flat(Call& call) const;
  void record_in_rows(Call& call) const;
  // Threads get one element each, or several.
  void launch(Call& call, bool in_rows, const Operand& out, kernel::Size3 elements) const;

  const Expression expression_;
  const Types types_;
  const Pattern operands_;  // access: number, or anything else for an input
  const std::array<kernel::Scalar, kMaxOperands> numbers_;
};

void Elementwise::record(Encoder& encoder) const {
  std::optional<size_t> taken;
  for (size_t i = 0; i < encoder.inputs() && !taken; ++i) {
    if (encoder.can_take(i, 0)) taken = i;
  }
  Call call(encoder, taken ? encoder.take(*taken, 0) : encoder.output(0));
  const int64_t size = call.out.size();
  if (size == 0) return;

  bool flat = true;
  for (size_t i = 0; i < encoder.inputs(); ++i) {
    if (i == taken) {
      call.in_place = true;
      call.access[i] = Access::taken;
      continue;
    }
    const Operand& input = encoder.input(i);
    const bool backwards = input.layout().has_negative_strides() && input.size() != 1;
    call.inputs.push_back(backwards ? encoder.contiguous(input) : input);
    call.numbers.push_back(i);
    const Operand& operand = call.inputs.back();
    if (operand.size() == size && operand.is_row_contiguous()) {
      call.access[i] = Access::flat;
    } else if (operand.size() == 1) {
      call.access[i] = Access::one;
    } else {
      flat = false;
    }
  }
  if (flat) {
    record_flat(call);
  } else {
    record_in_rows(call);
  }
}

ElementStep Elementwise::element_step() const {
  ElementStep step{expression_, types_.computed, types_.result, operands_.chooses, {}};
  for (size_t i = 0; i < operands_.count; ++i) {
    const Pattern::Source& source = operands_.operands[i];
    if (source.access == Access::number) {
      step.operands.push_back({.number = numbers_[i]});
    } else {
      step.operands.push_back({.input = source.input});
    }
  }
  return step;
}

void Elementwise::record_flat(Call& call) const {
  const int64_t size = call.out.size();
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    // An input without axes would be a plain value in the kernel. One element may have any stride.
    const Operand& input = call.inputs[k];
    if (input.size() == 1) {
      call.inputs[k] = input.with_layout({{1}, {1}, input.layout().offset});
    }
  }
  const auto launch_threads = [&](const Operand& out, int64_t threads) {
    launch(call, /*in_rows=*/false, out, {static_cast<uint32_t>(threads), 1, 1});
  };
  if (size <= kMostThreads) return launch_threads(call.out, size);

  const UpToThree<Operand> whole = call.inputs;
  for (int64_t first = 0; first < size; first += kMostThreads) {
    const int64_t threads = std::min(size - first, kMostThreads);
    const auto part = [&](const Operand& operand) {
      return operand.with_layout({{threads}, {1}, operand.layout().offset + first});
    };
    for (size_t k = 0; k < whole.size(); ++k) {
      if (whole[k].size() != 1) call.inputs[k] = part(whole[k]);
    }
    launch_threads(part(call.out), threads);
  }
}

void Elementwise::record_in_rows(Call& call) const {
  UpToThree<Layout, 1> layouts{call.out.layout()};
  for (const Operand& input : call.inputs) {
    layouts.push_back(broadcast_to(input.layout(), call.out.shape()));
  }
  collapse({layouts.data(), layouts.size()});
  // Three axes are the least that a kernel is compiled for: one variant for all up to that.
  for (Layout& layout : layouts) {
    Dims shape;
    Dims strides;
    for (size_t i = layout.shape.size(); i < 3; ++i) {
      shape.push_back(1);
      strides.push_back(0);
    }
    for (const int64_t length : layout.shape) shape.push_back(length);
    for (const int64_t stride : layout.strides) strides.push_back(stride);
    layout.shape = shape;
    layout.strides = strides;
  }
  const Shape& shape = layouts[0].shape;
  const size_t rank = shape.size();
  const int64_t x = shape[rank - 1];
  const int64_t y = shape[rank - 2];
  const int64_t z = call.out.size() / x / y;
  if (z > int64_t{std::numeric_limits<uint32_t>::max()}) {
    throw UsageError(fmt::format(
        "{}: a result of shape {} has more rows than one dispatch, for inputs of such layouts; "
        "make them contiguous, or work on slices",
        expression_.name, to_string(call.out.shape())));
  }
  const bool weak = is_many_weak(call.encoder);
  const bool in_squares =
      (weak || is_cpu(call.encoder)) && x >= kTurnedSide / 2 && y >= kTurnedSide / 2;
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    const Layout& layout = layouts[k + 1];
    const int64_t step = layout.strides.back();
    const int64_t down = layout.strides[rank - 2];
    const bool turned = in_squares && (weak ? down == 1 : 0 < down && down < step);
    call.access[call.numbers[k]] = step == 1   ? Access::row
                                   : step == 0 ? Access::held
                                   : turned    ? Access::turned
                                               : Access::strided;
    call.inputs[k] = call.inputs[k].with_layout(layout);
  }
  launch(call, /*in_rows=*/true, call.out,
         {static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(z)});
}

void Elementwise::launch(Call& call, bool in_rows, const Operand& out,
                         kernel::Size3 elements) const {
  Pattern pattern = operands_;
  pattern.in_rows = in_rows;
  pattern.packed = is_many_weak(call.encoder);
  UpToThree<kernel::Param, 2> params;
  uint64_t widest = size_of(types_.result).value;
  uint64_t narrowest = widest;
  for (size_t i = 0; i < pattern.count; ++i) {
    Pattern::Source& source = pattern.operands[i];
    if (source.access == Access::number) {
      params.push_back({std::string(1, static_cast<char>('a' + i)), numbers_[i]});
    } else {
      source.access = call.access[source.input];
    }
  }
  bool halves = types_.result == Dtype::float16;
  for (const Operand& input : call.inputs) {
    widest = std::max(widest, size_of(input.dtype()).value);
    narrowest = std::min(narrowest, size_of(input.dtype()).value);
    halves |= input.dtype() == Dtype::float16;
  }
  const bool turned = pattern.turned();
  pattern.blocked =
      is_cpu(call.encoder) && (turned || (halves && (!in_rows || elements.x >= kBlock / 2)));
  // Blocks of two-byte floats are converted before anything else.
  boost::container::static_vector<kernel::Constant, 3> constants{
      {"C", pattern.blocked ? computed_in(types_.computed) : types_.computed},
      {"R", types_.result}};
  kernel::Size3 grid = elements;
  uint32_t work = 1;
  const bool squares = pattern.packed && turned;
  if (pattern.blocked) {
    int64_t block = turned ? square_side(Dtype::uint8) : kBlock;
    for (size_t k = 0; turned && k < call.inputs.size(); ++k) {
      if (call.access[call.numbers[k]] != Access::turned) continue;
      block = std::min(block, square_side(call.inputs[k].dtype()));
    }
    const auto side = static_cast<uint32_t>(block);
    constants.push_back({"BLOCK", block});
    params.push_back({"count", elements.x});
    grid.x = ceil_div(elements.x, side);
    work = side;
    if (in_rows) params.push_back({"lines", elements.y});
    if (turned) {
      grid.y = ceil_div(elements.y, side);
      work *= side;
    }
  } else if (squares) {
    const int64_t count = ceil_div(int64_t{elements.x}, kTurnedSide) *
                          ceil_div(int64_t{elements.y}, kTurnedSide) * elements.z;
    const WeakGroups groups =
        weak_groups(count, kWeakTile, 1, std::string(expression_.name).c_str());
    grid = groups.grid;
    params.push_back(groups.count);
  } else if (pattern.packed) {
    // Of the narrowest operand as many bytes as a thread moves at once, of others at most twice as
    // many (bench row operation/astype_float16).
    const int64_t vector = std::min(kPackBytes / static_cast<int64_t>(narrowest),
                                    2 * kPackBytes / static_cast<int64_t>(widest));
    constants.push_back({"VECTOR", vector});
    params.push_back({"count", elements.x});
    grid.x = static_cast<uint32_t>(ceil_div(int64_t{elements.x}, vector));
  }
  const uint32_t wide = std::min(grid.x, kGroup);
  kernel::Size3 group{wide, in_rows ? std::min(grid.y, kGroup / wide) : 1, 1};
  if (turned) group = squares ? kWeakTile : kernel::Size3{1, 1, 1};
  const std::span<const Operand> output(&out, 1);
  const std::span<const Operand> none;
  call.encoder.launch(elementwise_kernel(expression_, pattern),
                      {.inputs = {call.inputs.data(), call.inputs.size()},
                       .outputs = call.in_place ? none : output,
                       .in_place = call.in_place ? output : none,
                       .grid = grid,
                       .threadgroup = group,
                       .constants = {constants.data(), constants.size()},
                       .params = {params.data(), params.size()},
                       .work_per_thread = work});
}

// An operand where a node is built.
struct Argument {
  Argument(const Term& term_of)
      : array(term_of.kind() == Term::Kind::array ? &term_of.array() : nullptr), term(&term_of) {}
  Argument(const Array& array_of) : array(&array_of) {}
  const Array* array;
  const Term* term = nullptr;  // where it is a number
};

// Bool, integers, floats.
int kind_of(Dtype dtype) { return dtype == Dtype::bool_ ? 0 : is_integer(dtype) ? 1 : 2; }

// Whether an integer dtype has the number.
bool holds(Dtype dtype, const Term& number) {
  const uint64_t bits = size_of(dtype).value * 8;
  const int64_t value = number.integer();
  if (number.is_beyond_int64()) return dtype == Dtype::uint64;
  if (is_unsigned_integer(dtype)) return value >= 0 && (bits == 64 || value >> bits == 0);
  return bits == 64 || value >> (bits - 1) == (value < 0 ? -1 : 0);
}

Dtype dtype_of(const Term& number) {
  switch (number.kind()) {
    case Term::Kind::boolean: return Dtype::bool_;
    case Term::Kind::integer:
      for (const Dtype dtype : {Dtype::int32, Dtype::int64}) {
        if (holds(dtype, number)) return dtype;
      }
      return Dtype::uint64;
    default: return Dtype::float32;
  }
}

Dtype promoted(std::span<const Argument> arguments) {
  std::optional<Dtype> dtype;
  for (const Argument& a : arguments) {
    if (a.array != nullptr) dtype = dtype ? promote(*dtype, a.array->dtype()) : a.array->dtype();
  }
  for (const Argument& a : arguments) {
    if (a.array != nullptr) continue;
    const Dtype own = dtype_of(*a.term);
    if (!dtype || kind_of(own) > kind_of(*dtype)) dtype = own;
  }
  return *dtype;
}

// What integers and a number are compared in, so that comparisons see the number as it is.
struct Comparison {
  Dtype dtype;
  // Of a number above or below all that the integers can be: an infinity stands for it.
  std::optional<float> beyond{};
};
Comparison comparison_of(Dtype dtype, std::span<const Argument> arguments) {
  if (!is_integer(dtype)) return {dtype};
  for (const Argument& a : arguments) {
    if (a.array != nullptr || holds(dtype, *a.term)) continue;
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    if (a.term->is_beyond_int64()) return {Dtype::float32, kInfinity};
    if (dtype == Dtype::uint64) return {Dtype::float32, -kInfinity};
    return {Dtype::int64};
  }
  return {dtype};
}

// The number as an element of that dtype, in the type that it is computed in.
kernel::Scalar scalar_of(const Term& number, Dtype dtype) {
  switch (dtype) {
    case Dtype::float64: return kernel::Scalar::of_float64(number.number());
    case Dtype::float32: return static_cast<float>(number.number());
    case Dtype::float16: return static_cast<float>(Float16(static_cast<float>(number.number())));
    case Dtype::bfloat16: return static_cast<float>(BFloat16(static_cast<float>(number.number())));
    case Dtype::bool_: return number.integer() != 0;
    default: break;
  }
  kernel::Scalar scalar;
  scalar.dtype = dtype;
  scalar.bits = static_cast<uint64_t>(number.integer());
  return scalar;
}

bool is_same(const Array& a, const Array& b) {
  return a.value() == b.value() && a.view() == b.view();
}

// `dtype`: what numbers become elements of; `beyond` stands for them where it is given.
Array build(const Expression& expression, std::span<const Argument> arguments, Dtype dtype,
            Types types, bool chooses, const On& on, std::optional<float> beyond = {}) {
  Pattern operands;
  operands.count = static_cast<uint8_t>(arguments.size());
  operands.chooses = chooses;
  std::array<kernel::Scalar, kMaxOperands> numbers;
  UpToThree<Array> inputs;
  OutputType output{.dtype = types.result};
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].array == nullptr) {
      numbers[i] = beyond ? kernel::Scalar(*beyond) : scalar_of(*arguments[i].term, dtype);
      continue;
    }
    const Array& array = *arguments[i].array;
    const Shape& shape = array.shape();
    if (inputs.empty()) {
      output.shape = shape;
    } else if (shape != output.shape) {
      output.shape = broadcast_shapes(output.shape, shape);
    }
    // An array that is given twice is read once, so its memory may be taken all the same.
    const auto found =
        std::ranges::find_if(inputs, [&](const Array& other) { return is_same(array, other); });
    operands.operands[i] = {Access::flat, static_cast<uint8_t>(found - inputs.begin())};
    if (found == inputs.end()) inputs.push_back(array);
  }
  return apply(make_ref<Elementwise>(expression, types, operands, numbers),
               std::span<const Array>(inputs.data(), inputs.size()), output, on);
}

Array build(const Expression& expression, std::span<const Argument> arguments, const On& on) {
  Dtype dtype = promoted(arguments);
  Dtype result = dtype;
  std::optional<float> beyond;
  switch (expression.result) {
    case ResultType::promoted: break;
    case ResultType::floating: result = dtype = floating(dtype); break;
    case ResultType::boolean: {
      const Comparison comparison = comparison_of(dtype, arguments);
      dtype = comparison.dtype;
      beyond = comparison.beyond;
      result = Dtype::bool_;
      break;
    }
  }
  return build(expression, arguments, dtype, {computed_in(dtype), result}, /*chooses=*/false, on,
               beyond);
}

}  // namespace

Array unary(const Expression& expression, const Array& a, const On& on) {
  const Argument arguments[] = {a};
  return build(expression, arguments, on);
}

Array binary(const Expression& expression, const Term& a, const Term& b, const On& on) {
  const Argument arguments[] = {a, b};
  return build(expression, arguments, on);
}

Array ternary(const Expression& expression, const Term& a, const Term& b, const Term& c,
              const On& on) {
  const Argument arguments[] = {a, b, c};
  return build(expression, arguments, on);
}

Array choice(const Expression& expression, const Array& a, const Term& b, const Term& c,
             const On& on) {
  const Argument arguments[] = {a, b, c};
  const Dtype dtype = promoted(std::span(arguments).subspan(1));
  return build(expression, arguments, dtype, {computed_in(dtype), dtype}, /*chooses=*/true, on);
}

Array conversion(const Expression& expression, const Array& a, Dtype result, const On& on) {
  const Argument arguments[] = {a};
  return build(expression, arguments, a.dtype(), {a.dtype(), result}, /*chooses=*/false, on);
}

}  // namespace holdfast::array
