#pragma once

#include <algorithm>
#include <utility>

#include "holdfast/array/scenarios/random_graphs_recording_test.h"

namespace holdfast::random_graphs {

constexpr int64_t kMostElements = 96;
constexpr size_t kMostAxes = 4;
// Runs the program on a host that does one thing after another and computes everything at once. So
// it finds out what an Op means where it stands, what must be read, and which steps of other tasks
// it must wait for: those that touch the same handle or stream.
class Model final : public Recording {
 public:
  explicit Model(const Program& program) : Recording(program) {}

  Plan run() {
    for (const Op& op : program_.ops) {
      random_ = Random(op.detail);
      take(op);
    }
    for (unsigned slot = 0; slot < kSlots; ++slot) {
      if (!slots_[slot]) continue;
      Op last;
      last.task = slot < kTasks * kOwnSlots ? slot / kOwnSlots : 0;
      last.stream = slot;
      Step step = step_of(last, Verb::read);
      add_slot(step, slot);
      look(std::move(step));
    }
    order();
    plan_.handles = static_cast<unsigned>(arrays_.size());
    return std::move(plan_);
  }

 private:
  void take(const Op& op) {
    switch (op.verb) {
      case Verb::upload:
      case Verb::full:
      case Verb::arange:
      case Verb::external: return source(op);
      case Verb::binary:
      case Verb::number:
      case Verb::wrap:
      case Verb::compare:
      case Verb::choose: return elementwise(op);
      case Verb::reduce: return reduce(op);
      case Verb::matmul: return matmul(op);
      case Verb::concatenate: return concatenate(op);
      case Verb::take: return take_elements(op);
      case Verb::copy:
        return one(op, Verb::copy, [](const Eager& a) {
          return Eager{a.dtype, a.shape, a.values()};
        });
      case Verb::slice:
      case Verb::transpose:
      case Verb::reshape:
      case Verb::broadcast:
      case Verb::squeeze:
      case Verb::expand:
      case Verb::strided: return view(op);
      case Verb::update: return update(op);
      case Verb::affine:
      case Verb::affine_as_it_lies:
      case Verb::mix:
      case Verb::pair:
      case Verb::split:
      case Verb::sparse:
      case Verb::scratched:
      case Verb::taken:
      case Verb::native: return kernel(op);
      default: return handles_and_others(op);
    }
  }

  // Every other time it is not computed yet.
  void make_up(const Op& op) override {
    Op missing = op;
    missing.verb = Verb::upload;
    source(missing);
    if (!chance(2)) return;
    missing.verb = Verb::affine;
    missing.a = op.c;
    kernel(missing);
  }
  void wrap(const Op& op) override {
    Op remainder = op;
    remainder.verb = Verb::wrap;
    remainder.a = op.c;
    remainder.gives_up = false;
    elementwise(remainder);
  }

  template <typename F>
  void one(const Op& op, Verb verb, const F& result) {
    Step step = step_of(op, verb);
    const Eager a = add_in(step, op, op.a);
    finish(op, std::move(step), {result(a)});
  }

  // Arrays out of nothing

  void source(const Op& op) {
    Step step = step_of(op, op.verb);
    step.dtype = chance(3) ? int32 : float32;
    step.shape = any_shape();
    if (op.verb == Verb::arange) step.shape = {1 + below(24)};
    step.value = small_number();
    Values values;
    for (int64_t i = 0; i < count_of(step.shape); ++i) {
      values.push_back(op.verb == Verb::full     ? step.value
                       : op.verb == Verb::arange ? static_cast<double>(step.value + i)
                                                 : small_number());
    }
    finish(op, step, {Eager(step.dtype, step.shape, std::move(values))});
  }

  // Operations. One that does not fit its operands is done with a alone.

  void elementwise(const Op& op) {
    Step step = step_of(op, op.verb);
    const Eager a = add_in(step, op, op.a);
    step.value = small_number();
    const double v = step.value;
    switch (op.verb) {
      case Verb::binary: {
        Eager b = add_in(step, op, op.b);
        const auto shape = broadcast_shape(a.shape, b.shape);
        if (a.dtype != b.dtype || !shape || count_of(*shape) > kMostElements) {
          step.in.back() = step.in.front();
          b = a;
        }
        const bool adds = a.dtype == float32;
        return finish(op, step,
                      {joined(a, b, [&](double x, double y) { return adds ? x + y : x * y; })});
      }
      case Verb::number:
        return finish(op, step, {mapped(a, a.dtype, [&](double x) { return x * v; })});
      case Verb::compare:
        return finish(op, step, {mapped(a, a.dtype, [&](double x) { return x < v ? 1.0 : 0.0; })});
      case Verb::choose:
        return finish(op, step, {mapped(a, a.dtype, [&](double x) { return x < v ? x : v + 1; })});
      default:
        return finish(op, step, {mapped(a, a.dtype, [](double x) {
                        return floor_remainder(x, static_cast<double>(kWrap));
                      })});
    }
  }

  void reduce(const Op& op) {
    Step step = step_of(op, Verb::reduce);
    const Eager a = add_in(step, op, op.a);
    for (size_t d = 0; d < a.rank(); ++d) {
      if (chance(2)) step.axes.push_back(static_cast<int64_t>(d));
    }
    if (step.axes.empty()) {
      for (size_t d = 0; d < a.rank(); ++d) step.axes.push_back(static_cast<int64_t>(d));
    }
    step.flag = chance(2);                               // keeps the axes
    step.value = a.size() == 0 ? 0 : chance(3) ? 1 : 0;  // max, not sum
    finish(op, step, {reduced(a, step.axes, step.flag, step.value == 0)});
  }

  void matmul(const Op& op) {
    Step step = step_of(op, Verb::matmul);
    const Eager a = add_in(step, op, op.a);
    Eager b = add_in(step, op, op.b);
    step.flag = a.rank() == 2 && b.rank() == 2 && b.dtype == float32 && a.shape[1] == b.shape[0];
    if (!step.flag) {
      step.in.pop_back();
      b = with_last_axes_swapped(a);
    }
    const bool exact = a.largest() * b.largest() * static_cast<double>(kMostElements) < kExact;
    if (a.dtype != float32 || a.rank() == 0 || !exact) return reduce(op);
    Eager product = multiplied(a, b);
    if (product.size() > kMostElements) return reduce(op);
    finish(op, step, {std::move(product)});
  }

  void concatenate(const Op& op) {
    Step step = step_of(op, Verb::concatenate);
    const Eager a = add_in(step, op, op.a);
    Eager b = add_in(step, op, op.b);
    if (a.rank() == 0) return number_instead(op);
    step.value = static_cast<int32_t>(below(static_cast<int64_t>(a.rank())));
    const auto axis = static_cast<size_t>(step.value);
    Shape others = b.shape;
    if (b.rank() == a.rank()) others[axis] = a.shape[axis];
    if (b.dtype != a.dtype || others != a.shape) {
      step.in.back() = step.in.front();
      b = a;
    }
    if (static_cast<int64_t>(a.size() + b.size()) > kMostElements) return number_instead(op);
    finish(op, step, {concatenated(a, b, axis)});
  }

  // By b's elements where they are integers (flag), else by a few numbers (axes).
  void take_elements(const Op& op) {
    Step step = step_of(op, Verb::take);
    const Eager a = add_in(step, op, op.a);
    const Eager b = add_in(step, op, op.b);
    if (a.size() == 0 || a.rank() == 0) return number_instead(op);
    const auto axis = static_cast<size_t>(below(static_cast<int64_t>(a.rank())));
    const int64_t length = a.shape[axis];
    step.value = static_cast<int32_t>(axis);
    step.offset = chance(2) ? length : 0;
    step.flag = b.dtype == int32 && a.rank() + b.rank() - 1 <= kMostAxes &&
                static_cast<int64_t>(a.size() * b.size()) <= kMostElements * length;
    if (step.flag) {
      const Eager indices = mapped(b, int32, [&](double x) {
        return floor_remainder(x, static_cast<double>(length)) - static_cast<double>(step.offset);
      });
      return finish(op, step, {taken_from(a, indices, axis)});
    }
    step.in.pop_back();
    Values indices;
    for (int64_t i = 1 + below(4); i > 0; --i) {
      step.axes.push_back(below(2 * length) - length);
      indices.push_back(static_cast<double>(step.axes.back()));
    }
    const Eager made(int32, {static_cast<int64_t>(indices.size())}, indices);
    Eager result = taken_from(a, made, axis);
    if (result.size() > kMostElements) return number_instead(op);
    finish(op, step, {std::move(result)});
  }
  void number_instead(const Op& op) {
    Op other = op;
    other.verb = Verb::number;
    elementwise(other);
  }

  // Views

  void view(const Op& op) {
    Step step = step_of(op, op.verb);
    const Eager a = add_in(step, op, op.a);
    const size_t rank = a.rank();
    switch (op.verb) {
      case Verb::transpose: {
        for (size_t d = 0; d < rank; ++d) step.axes.push_back(static_cast<int64_t>(d));
        for (size_t d = rank; d > 1; --d) std::swap(step.axes[d - 1], step.axes[random_.below(d)]);
        return finish(op, step, {transposed(a, step.axes)});
      }
      case Verb::reshape: return reshape(op, std::move(step), a);
      case Verb::broadcast: {
        for (const int64_t length : a.shape) {
          step.shape.push_back(length == 1 && chance(2) ? 2 + below(2) : length);
        }
        if (rank < kMostAxes && chance(2)) {
          Shape more{1 + below(3)};
          for (const int64_t length : step.shape) more.push_back(length);
          step.shape = more;
        }
        if (count_of(step.shape) > kMostElements) step.shape = a.shape;
        return finish(op, step, {broadcasted(a, step.shape)});
      }
      case Verb::squeeze: {
        for (const int64_t length : a.shape) {
          if (length != 1) step.shape.push_back(length);
        }
        Eager squeezed = a;
        squeezed.shape = step.shape;
        return finish(op, step, {std::move(squeezed)});
      }
      case Verb::expand: {
        if (rank == kMostAxes) break;
        step.value = static_cast<int32_t>(below(static_cast<int64_t>(rank) + 1));
        for (size_t d = 0; d <= rank; ++d) {
          if (static_cast<int32_t>(d) == step.value) step.shape.push_back(1);
          if (d < rank) step.shape.push_back(a.shape[d]);
        }
        Eager expanded = a;
        expanded.shape = step.shape;
        return finish(op, step, {std::move(expanded)});
      }
      case Verb::strided:
        if (!a.memory_is_known || a.memory->empty()) break;
        return strided(op, std::move(step), a);
      default: break;
    }
    step.verb = Verb::slice;
    step.slices = any_slices(a.shape);
    finish(op, step, {sliced(a, step.slices)});
  }

  void reshape(const Op& op, Step step, const Eager& a) {
    const auto size = static_cast<int64_t>(a.size());
    Shape shape{size};
    if (size > 0) {
      for (int64_t tries = below(3); tries > 0; --tries) {
        const int64_t by = 1 + below(4);
        if (shape.back() % by != 0) continue;
        shape[shape.size() - 1] /= by;
        shape.push_back(by);
      }
    }
    step.shape = shape;
    if (size > 0 && chance(3)) step.shape[random_.below(shape.size())] = -1;
    finish(op, step, {reshaped(a, shape)});
  }

  void strided(const Op& op, Step step, const Eager& a) {
    const auto size = static_cast<int64_t>(a.memory->size());
    int64_t low = 0;
    int64_t high = 0;
    for (int64_t axes = 1 + below(3); axes > 0; --axes) {
      const int64_t length = 1 + below(4);
      const int64_t stride = below(7) - 3;
      const int64_t reach = (length - 1) * stride;
      if (high - low + std::abs(reach) >= size) continue;
      (reach < 0 ? low : high) += reach;
      step.shape.push_back(length);
      step.strides.push_back(stride);
    }
    step.offset = below(size - (high - low)) - low;
    finish(op, step, {strided_view(a, step.shape, step.strides, step.offset)});
  }

  // By b where it fits; by a itself, backwards (axes is not empty), or by a number.
  void update(const Op& op) {
    Step step = step_of(op, Verb::update);
    const Eager a = add_in(step, op, op.a);
    const Eager b = add_in(step, op, op.b);
    step.slices = any_slices(a.shape);
    step.value = small_number();
    if (chance(4)) step.slices.clear();
    const Shape part = sliced(a, step.slices).shape;
    step.flag = b.dtype == a.dtype && broadcast_shape(part, b.shape) == part;
    if (step.flag && step.in[0].handle != step.in[1].handle) {
      return finish(op, step, {updated(a, b, step.slices)});
    }
    step.flag = false;
    step.in.pop_back();
    if (step.slices.empty() && a.rank() > 0) {
      for (size_t d = 0; d < a.rank(); ++d) step.axes.push_back(-1);
      const std::vector<Slice> backwards(a.rank(), Slice{.step = -1});
      return finish(op, step, {updated(a, sliced(a, backwards), {})});
    }
    const Eager scalar(a.dtype, {}, {static_cast<double>(step.value)});
    finish(op, step, {updated(a, scalar, step.slices)});
  }

  // Kernels and operations of the user's own

  void kernel(const Op& op) {
    Step step = step_of(op, op.verb);
    const Eager a = add_in(step, op, op.a);
    step.value = static_cast<int32_t>(below(kWrap));
    const int64_t v = step.value;
    const auto size = static_cast<int64_t>(a.size());
    if (a.rank() == 0) return number_instead(op);  // in kernels such inputs are plain values
    const auto backwards = [&](const Eager& of) {
      return result_of(of.dtype, of.shape, [&](const Dims& to) {
        return of[static_cast<size_t>(size - 1 - number_of(to, of.shape))];
      });
    };
    const auto affine = [&](int64_t by) {
      return mapped(a, a.dtype, [&](double x) { return wrapped(by * whole(x) + v); });
    };
    switch (op.verb) {
      case Verb::affine:
      case Verb::taken: {
        std::vector<Eager> results{affine(2)};
        if (op.verb == Verb::taken) results.emplace_back(int32, Shape{3}, Values{0, 0, 0});
        return finish(op, step, std::move(results));
      }
      case Verb::affine_as_it_lies: return finish(op, step, {affine(3)});
      case Verb::scratched: return finish(op, step, {backwards(affine(2))});
      case Verb::native: return finish(op, step, {backwards(a)});
      case Verb::split: {
        Values halves;
        for (size_t i = 0; i < a.size(); i += 2) halves.push_back(a[i]);
        const Shape half{static_cast<int64_t>(halves.size())};
        const Dtype other = a.dtype == int32 ? float32 : int32;
        return finish(op, step, {affine(1), Eager(other, half, std::move(halves))});
      }
      case Verb::sparse: {
        if (2 * size > kMostElements) return number_instead(op);
        const Eager some = affine(1);
        return finish(op, step, {result_of(a.dtype, {2 * size}, [&](const Dims& to) {
                        return to[0] % 2 == 0 ? some[static_cast<size_t>(to[0] / 2)] : 7;
                      })});
      }
      default: break;
    }
    Eager b = add_in(step, op, op.b);
    if (op.verb == Verb::mix) {
      if (b.rank() == 0 || b.size() == 0) {
        step.in.back() = step.in.front();
        b = a;
      }
      Values values;
      for (size_t i = 0; i < a.size(); ++i) {
        values.push_back(wrapped(2 * whole(a[i]) + whole(b[i % b.size()]) + v));
      }
      return finish(op, step, {Eager(a.dtype, a.shape, std::move(values))});
    }
    if (b.rank() == 0 || b.size() != a.size() || b.dtype != a.dtype) {
      step.in.back() = step.in.front();
      b = a;
    }
    Values first;
    Values second;
    for (size_t i = 0; i < a.size(); ++i) {
      first.push_back(wrapped(whole(a[i]) + 2 * whole(b[i]) + v));
      second.push_back(wrapped(whole(a[i]) + 3 * whole(b[i])));
    }
    finish(op, step, {Eager(a.dtype, a.shape, first), Eager(b.dtype, b.shape, second)});
  }
};

}  // namespace holdfast::random_graphs
