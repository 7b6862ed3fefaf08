#include "holdfast/array/compile/shapeless.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "holdfast/array/apply.h"
#include "holdfast/base/shown.h"

namespace holdfast::array {
namespace {

// Where the elements of an array lie in its memory, all of them.
Layout whole(const Array& array) { return array.layout(); }

class Relength {
 public:
  Relength(const Trace& trace, std::span<const Array> placeholders) : trace_(trace) {
    for (size_t i = 0; i < placeholders.size(); ++i) {
      become(*trace.placeholders[i].value(), whole(trace.placeholders[i]), placeholders[i]);
    }
    for (const Array& constant : trace.constants) {
      const Array all(constant.value());
      become(*constant.value(), whole(all), all);
    }
  }

  std::vector<Array> run() {
    for (const Trace::Step& step : trace_.steps) make(*step.node);
    std::vector<Array> results;
    for (size_t i = 0; i < trace_.results.size(); ++i) {
      results.push_back(now(trace_.results[i], [&] { return fmt::format("result {}", i); }));
    }
    return results;
  }

 private:
  struct Became {
    Layout before;  // of all elements
    Array array;    // which shows all elements
  };

  void become(const Value& value, const Layout& before, const Array& array) {
    became_.insert_or_assign(&value, Became{before, array});
  }

  void make(Node& node) {
    NodeInputs inputs;
    std::vector<Shape> lengths;
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      inputs.push_back(
          now(node.inputs()[i], [&] { return fmt::format("input {} of {}", i, node.describe()); }));
      lengths.push_back(inputs.back().shape());
    }
    std::vector<Shape> before;
    for (size_t o = 0; o < node.outputs(); ++o) before.push_back(node.output(o).shape());
    const std::vector<Shape> shapes = node.operation().output_shapes(lengths, before);
    if (shapes.size() != node.outputs()) {
      throw UsageError(
          fmt::format("{} does not say which shapes its results have for arguments of other "
                      "lengths: compile the function without shapeless",
                      node.describe()));
    }
    std::vector<OutputType> types;
    for (size_t o = 0; o < shapes.size(); ++o) {
      types.push_back({shapes[o], node.output(o).dtype()});
    }
    std::vector<Array> made = apply(Ref<const Operation>(&node.operation()), std::move(inputs),
                                    types, node.stream(), std::string(node.label()));
    for (size_t o = 0; o < made.size(); ++o) {
      if (!node.output(o).name().empty()) made[o].set_name(node.output(o).name());
      become(node.output(o), Layout::row_contiguous(before[o]), made[o]);
    }
  }

  // The same view of what came of the array's value.
  template <typename What>
  Array now(const Array& array, const What& what) const {
    const Became& became = became_.at(array.value().get());
    const Layout& seen = array.layout();
    const Layout& before = became.before;
    const Layout& all = whole(became.array);
    if (seen == before) return became.array;
    if (became.array.value() == array.value()) return array;  // a constant
    const auto refuse = [&](std::string_view why) {
      throw UsageError(fmt::format(
          "{} is a view {}, so it cannot be had for arguments of other lengths: compile the "
          "function without shapeless",
          what(), why));
    };
    Layout view{{}, {}, all.offset};
    std::vector<bool> shown(before.shape.size(), false);
    for (size_t i = 0; i < seen.shape.size(); ++i) {
      if (seen.shape[i] == 1) {  // inserted
        view.shape.push_back(1);
        view.strides.push_back(1);
        continue;
      }
      size_t from = 0;
      while (from < shown.size() && (shown[from] || before.shape[from] != seen.shape[i] ||
                                     before.strides[from] != seen.strides[i])) {
        ++from;
      }
      if (from == shown.size()) refuse("with lengths of its own");
      shown[from] = true;
      view.shape.push_back(all.shape[from]);
      view.strides.push_back(all.strides[from]);
    }
    if (seen.offset != before.offset) refuse("of some elements alone");
    for (size_t i = 0; i < shown.size(); ++i) {
      if (shown[i]) continue;
      if (before.shape[i] != 1) refuse("of some elements alone");
      // It was left out, or stands at another place: nobody can tell which.
      if (all.shape[i] != 1) refuse("that was found while an axis had length 1");
    }
    return became.array.with_layout(view);
  }

  const Trace& trace_;
  std::unordered_map<const Value*, Became> became_;
};

}  // namespace

std::vector<Array> results_for_lengths(const Trace& trace, std::span<const Array> placeholders) {
  return Relength(trace, placeholders).run();
}

}  // namespace holdfast::array
