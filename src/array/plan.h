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
// window nodes are sorted by their distance from its start: a wave each.
class Plan {
 public:
  // Wide enough for independent nodes to meet, narrow enough that what a window keeps alive is
  // little beside what a graph needs. Chosen, not measured.
  static constexpr size_t kWindow = 256;

  explicit Plan(std::span<const Array> roots);

  struct Step {
    Ref<Node> node;
    uint32_t wave = 0;  // counts on over all windows; nodes of one wave do not depend on each other
    bool takes = false;  // its operation takes_inputs(): last in its wave
  };
  std::span<Step> steps() noexcept { return steps_; }

 private:
  class Marks;
  void visit(Node& root, Marks& marks);
  void sort_windows();

  std::vector<Step> steps_;
};

}  // namespace holdfast::array
