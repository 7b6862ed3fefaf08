#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "holdfast/array/node.h"

namespace holdfast::array {

// The nodes that some arrays need and that are not over, in an order to record them: each after its
// inputs, independent ones beside each other. Keeps the nodes, not their inputs. Made without
// recursion, in time linear in the graph. Belongs to one task; several tasks may plan overlapping
// graphs at once.
//
// The order is depth-first, so that memory is let go early, cut into windows of kWindow nodes; in a
// window nodes are sorted by their distance from its start: a wave each. Where memory is short, the
// steps that are left of a window can be brought back into depth-first order.
class Plan {
 public:
  // Wide enough for independent nodes to meet, narrow enough that what a window keeps alive is
  // little beside what a graph needs. Chosen, not measured.
  static constexpr size_t kWindow = 256;
  static_assert(kWindow <= (size_t{1} << 16), "Step::place counts in it");

  explicit Plan(std::span<const Array> roots);

  struct Step {
    Ref<Node> node;
    uint32_t wave = 0;  // counts on over all windows; nodes of one wave do not depend on each other
    uint16_t place = 0;  // in its window, in depth-first order
    bool takes = false;  // its operation takes_inputs(): last in its wave
  };
  std::span<Step> steps() noexcept { return steps_; }

  // Brings steps of one window into depth-first order: each node right before the first that needs
  // it, so that as little as possible is kept at a time.
  static void sort_depth_first(std::span<Step> steps);

 private:
  class Marks;
  void visit(Node& root, Marks& marks);
  void sort_windows();

  std::vector<Step> steps_;
};

}  // namespace holdfast::array
