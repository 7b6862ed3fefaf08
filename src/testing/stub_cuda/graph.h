#pragma once

#include <variant>

#include "holdfast/testing/stub_cuda/kernel.h"
#include "holdfast/testing/stub_cuda/transfer.h"

namespace holdfast::stub_cuda {

using NodeWork = std::variant<Launch, Copy, Fill>;

struct GraphNode {
  std::shared_ptr<Context> context;
  const Graph* graph = nullptr;
  NodeWork work;
};

struct Graph {
  std::shared_ptr<Context> context;
  std::vector<std::shared_ptr<GraphNode>> nodes;
  std::vector<CUgraphNode> handles;  // of the nodes, in their order
  // First before second. True: programmatic, so that the second may begin early unless it waits.
  std::map<std::pair<GraphNode*, GraphNode*>, bool> edges{};
};

struct GraphExec {
  struct Node {
    std::shared_ptr<GraphNode> origin;
    NodeWork work;
    std::vector<size_t> next{};  // those that wait for it
    size_t waits = 0;            // how many it waits for
    // Where a copy's or fill's operands lay when the graph was instantiated: they stay there.
    bool to_device = false;
    bool from_device = false;
    // What these were when its parameters were set; the driver does not look again.
    std::vector<std::shared_ptr<Allocation>> memory{};
  };
  std::shared_ptr<Context> context;
  std::vector<Node> nodes;
  uint64_t launches = 0;
  std::shared_ptr<bool> last_done;  // of its latest launch; null: none
};

}  // namespace holdfast::stub_cuda
