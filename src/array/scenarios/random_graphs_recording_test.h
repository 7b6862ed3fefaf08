#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "holdfast/array/scenarios/random_graphs_test.h"
#include "holdfast/simulation/driver.h"

namespace holdfast::random_graphs {

using simulation::Random;

// Beyond it a result is wrapped at once; below 2^24 all that is computed on the way is exact.
constexpr double kLargest = 1000;
constexpr double kExact = 16777216;

// What a program has come to so far: the arrays that its tasks have, and the steps. Model says what
// an Op means.
class Recording {
 public:
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 protected:
  explicit Recording(const Program& program) : program_(program) {
    plan_.streams = std::max(program.streams, 1U);
  }
  virtual ~Recording() = default;

  // Steps that make an array for c out of nothing.
  virtual void make_up(const Op& op) = 0;
  // Steps that replace c by its remainder.
  virtual void wrap(const Op& op) = 0;

  static unsigned slot_of(const Op& op, unsigned choice) {
    const unsigned task = op.task % kTasks;
    choice %= kChoices;
    if (choice < kOwnSlots) return task * kOwnSlots + choice;
    if (choice < kOwnSlots + kSharedSlots) return kTasks * kOwnSlots + choice - kOwnSlots;
    return (task + 1) % kTasks * kOwnSlots;
  }
  bool chance(uint64_t in) { return random_.one_in(in); }
  int64_t below(int64_t n) { return static_cast<int64_t>(random_.below(static_cast<uint64_t>(n))); }
  Shape any_shape() {
    static const std::array<Shape, 8> kShapes{Shape{4},    Shape{3, 4},    Shape{2, 3, 4},
                                              Shape{3, 1}, Shape{2, 1, 4}, Shape{24},
                                              Shape{1},    Shape{4, 4}};
    return kShapes[random_.below(kShapes.size())];
  }
  std::vector<Slice> any_slices(const Shape& shape) {
    std::vector<Slice> slices;
    if (chance(4)) return std::vector<Slice>(shape.size(), Slice{.step = -1});
    for (const int64_t length : shape) {
      Slice slice;
      if (chance(2)) slice.start = below(2 * length + 2) - length - 1;
      if (chance(2)) slice.stop = below(2 * length + 2) - length - 1;
      slice.step = std::array<int64_t, 6>{1, 1, 2, -1, -2, 3}[random_.below(6)];
      // Arrays without elements are a case, not the rule.
      if (positions_of(slice, length).empty() && !chance(6)) slice = {.step = slice.step};
      slices.push_back(slice);
    }
    return slices;
  }

  int32_t small_number() { return static_cast<int32_t>(below(19)) - 9; }

  Step step_of(const Op& op, Verb verb) const {
    Step step;
    step.verb = verb;
    step.task = op.task % kTasks;
    step.stream = op.stream % plan_.streams;
    step.other_stream = static_cast<unsigned>(op.detail % plan_.streams);
    step.uses.push_back({Use::Of::stream, step.stream, verb == Verb::new_stream});
    if (verb == Verb::wait_for) step.uses.push_back({Use::Of::stream, step.other_stream});
    return step;
  }
  const Eager& add_slot(Step& step, unsigned slot) {
    step.in.push_back({*slots_[slot]});
    return arrays_[*slots_[slot]];
  }
  // The array that the task means, made up if there is none.
  Eager add_in(Step& step, const Op& op, unsigned choice) {
    const unsigned slot = slot_of(op, choice);
    if (!slots_[slot]) {
      Op missing = op;
      missing.c = choice;
      make_up(missing);
    }
    return add_slot(step, slot);
  }
  // Results go to c and the slots after it.
  void finish(const Op& op, Step step, std::vector<Eager> results) {
    if (op.gives_up) give_up(step);
    unsigned choice = op.c;
    for (Eager& result : results) {
      const unsigned slot = slot_of(op, choice++);
      if (slots_[slot]) step.drops.push_back(*slots_[slot]);
      step.out.push_back(static_cast<unsigned>(arrays_.size()));
      slots_[slot] = step.out.back();
      step.shows.push_back(result);
      arrays_.push_back(std::move(result));
    }
    const unsigned made = step.out.front();
    emit(std::move(step));
    if (arrays_[made].largest() > kLargest) wrap(op);
  }
  // A handle that the step has once is moved into it; one that it has twice is dropped after it.
  void give_up(Step& step) {
    for (Step::In& in : step.in) {
      const auto slot = std::ranges::find(slots_, std::optional(in.handle));
      if (slot == slots_.end()) continue;
      const auto same = [&](const Step::In& other) { return other.handle == in.handle; };
      if (std::ranges::count_if(step.in, same) == 1) {
        in.moved = true;
      } else {
        step.drops.push_back(in.handle);
      }
      slot->reset();
    }
  }
  void look(Step step) {
    for (const Step::In& in : step.in) step.shows.push_back(arrays_[in.handle]);
    emit(std::move(step));
  }
  void emit(Step step) {
    for (const Step::In& in : step.in) {
      step.uses.push_back({Use::Of::handle, in.handle, in.moved});
    }
    for (const unsigned handle : step.out) step.uses.push_back({Use::Of::handle, handle, true});
    for (const unsigned handle : step.drops) step.uses.push_back({Use::Of::handle, handle, true});
    plan_.steps.push_back(std::move(step));
  }
  // What makes no node and no view.
  void handles_and_others(const Op& op) {
    Step step = step_of(op, op.verb);
    step.value = static_cast<int32_t>(below(4));
    const unsigned a = slot_of(op, op.a);
    switch (op.verb) {
      case Verb::share: {
        const Eager shown = add_in(step, op, op.a);
        if (slot_of(op, op.c) == a) return;
        return finish({.task = op.task, .c = op.c}, std::move(step), {shown});
      }
      case Verb::drop:
      case Verb::drop_elsewhere:
        if (!slots_[a]) return;
        step.in.push_back({*slots_[a], true});
        slots_[a].reset();
        return emit(std::move(step));
      case Verb::eval:
      case Verb::async_eval:
        (void)add_in(step, op, op.a);
        (void)add_in(step, op, op.b);
        return look(std::move(step));
      case Verb::async_all:
        for (unsigned choice = 0; choice < kOwnSlots; ++choice) {
          if (const unsigned slot = slot_of(op, choice); slots_[slot]) (void)add_slot(step, slot);
        }
        return look(std::move(step));
      case Verb::map:
      case Verb::hold_map:
        if (!program_.host_visible) step.verb = Verb::read;
        [[fallthrough]];
      case Verb::read: (void)add_in(step, op, op.a); return look(std::move(step));
      default: return emit(std::move(step));
    }
  }

  // Which steps of other tasks each must wait for.
  void order() {
    std::array<size_t, kTasks> over{};
    std::vector<size_t> number(plan_.steps.size());  // of the step in its task, from one
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      Step& step = plan_.steps[i];
      number[i] = ++over[step.task];
      for (size_t j = 0; j < i; ++j) {
        const Step& before = plan_.steps[j];
        if (before.task == step.task || !conflict(before, step)) continue;
        step.after[before.task] = std::max(step.after[before.task], number[j]);
      }
    }
  }
  static bool conflict(const Step& x, const Step& y) {
    return std::ranges::any_of(x.uses, [&](const Use& a) {
      return std::ranges::any_of(y.uses, [&](const Use& b) {
        return a.of == b.of && a.index == b.index && (a.writes || b.writes);
      });
    });
  }

  const Program& program_;
  Random random_{0};
  Plan plan_;
  std::vector<Eager> arrays_;  // by handle
  std::array<std::optional<unsigned>, kSlots> slots_;
};

}  // namespace holdfast::random_graphs
