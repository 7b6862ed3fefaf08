#include "holdfast/testing/stub_cuda/graph.h"

#include <algorithm>

#include "holdfast/testing/stub_cuda/calls.h"
#include "holdfast/testing/stub_cuda/memory.h"
#include "holdfast/testing/stub_cuda/stream.h"

// Graphs. The nodes of a launch run one after another, in an order that its edges allow and that
// differs from launch to launch, so that a missing edge shows.

// NOLINTBEGIN(readability-identifier-naming): the driver's names.

namespace holdfast::stub_cuda {

namespace {

CUresult operand(unsigned type, const void* host, CUdeviceptr device, size_t offset,
                 uint64_t& address) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      address = reinterpret_cast<uintptr_t>(host) + offset;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED: address = device + offset; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;  // arrays
  }
}

CUresult work_of(const CudaMemcpy3D* p, Copy& copy) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  copy.width = p->WidthInBytes;
  copy.height = p->Height;
  copy.depth = p->Depth;
  copy.to_pitch = p->dstPitch;
  copy.from_pitch = p->srcPitch;
  copy.to_slice = p->dstPitch * p->dstHeight;
  copy.from_slice = p->srcPitch * p->srcHeight;
  const size_t to_offset = p->dstXInBytes + p->dstY * copy.to_pitch + p->dstZ * copy.to_slice;
  const size_t from_offset = p->srcXInBytes + p->srcY * copy.from_pitch + p->srcZ * copy.from_slice;
  if (const CUresult result =
          operand(p->dstMemoryType, p->dstHost, p->dstDevice, to_offset, copy.to)) {
    return result;
  }
  if (const CUresult result =
          operand(p->srcMemoryType, p->srcHost, p->srcDevice, from_offset, copy.from)) {
    return result;
  }
  return check(copy);
}

CUresult work_of(const CudaMemsetNodeParams* p, Fill& fill) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  fill = {p->dst, p->value, p->elementSize, p->width, p->height, p->pitch};
  return check(fill);
}

CUresult work_of(State& state, const Context& context, const char* call,
                 const CudaKernelNodeParams* p, Launch& launch) {
  if (p == nullptr || p->kern != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = find(state, state.functions, p->func, call, launch.function)) {
    return result;
  }
  launch.grid = {p->gridDimX, p->gridDimY, p->gridDimZ};
  launch.block = {p->blockDimX, p->blockDimY, p->blockDimZ};
  launch.shared_bytes = p->sharedMemBytes;
  return make_launch(state, context, call, launch, p->kernelParams, p->extra);
}

// The memory of a copy or fill that the driver knows.
std::vector<std::shared_ptr<Allocation>> memory_of(const State& state, const NodeWork& work) {
  std::vector<std::shared_ptr<Allocation>> memory;
  const auto add = [&](uint64_t address) {
    if (auto found = find_memory(state, address)) memory.push_back(std::move(found));
  };
  if (const auto* const copy = std::get_if<Copy>(&work)) {
    add(copy->to);
    add(copy->from);
  } else if (const auto* const fill = std::get_if<Fill>(&work)) {
    add(fill->to);
  }
  return memory;
}

// The context that a node is said to run in.
CUresult check_context(State& state, CUcontext handle, const char* call) {
  std::shared_ptr<Context> found;
  return find(state, state.contexts, handle, call, found) ? CUDA_ERROR_INVALID_CONTEXT
                                                          : CUDA_SUCCESS;
}

CUresult add_node(State& state, const std::shared_ptr<Context>& context, const char* call,
                  CUgraphNode* handle, CUgraph graph, const CUgraphNode* after, size_t count,
                  NodeWork work) {
  std::shared_ptr<Graph> found;
  if (const CUresult result = find(state, state.graphs, graph, call, found)) return result;
  if (handle == nullptr || (after == nullptr && count > 0)) return CUDA_ERROR_INVALID_VALUE;
  std::set<GraphNode*> before;
  for (size_t i = 0; i < count; ++i) {
    std::shared_ptr<GraphNode> node;
    if (const CUresult result = find(state, state.nodes, after[i], call, node)) return result;
    if (node->graph != found.get() || !before.insert(node.get()).second) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  auto made = std::make_shared<GraphNode>();
  made->context = context;
  made->graph = found.get();
  made->work = std::move(work);
  found->nodes.push_back(made);
  for (GraphNode* const node : before) found->edges[{node, made.get()}] = false;
  *handle = state.nodes.add(std::move(made));
  found->handles.push_back(*handle);
  return CUDA_SUCCESS;
}

// The order in which a launch runs its nodes. The first launch takes the node that was added last
// wherever the edges leave a choice; the others choose by their number.
std::vector<size_t> order_of(const GraphExec& exec) {
  std::vector<size_t> waits;
  std::vector<size_t> ready;
  for (const GraphExec::Node& node : exec.nodes) {
    waits.push_back(node.waits);
    if (node.waits == 0) ready.push_back(waits.size() - 1);
  }
  uint64_t random = exec.launches * 0x9e3779b97f4a7c15;
  std::vector<size_t> order;
  while (!ready.empty()) {
    size_t chosen = ready.size() - 1;
    if (exec.launches == 0) {
      chosen = static_cast<size_t>(std::ranges::max_element(ready) - ready.begin());
    } else {
      random = random * 6364136223846793005 + 1442695040888963407;
      chosen = (random >> 33) % ready.size();
    }
    const size_t node = ready[chosen];
    ready.erase(ready.begin() + static_cast<ptrdiff_t>(chosen));
    order.push_back(node);
    for (const size_t next : exec.nodes[node].next) {
      if (--waits[next] == 0) ready.push_back(next);
    }
  }
  return order;
}

CUresult run_work(const NodeWork& work) {
  if (const auto* const launch = std::get_if<Launch>(&work)) return run(*launch);
  if (const auto* const copy = std::get_if<Copy>(&work)) {
    run(*copy);
  } else {
    run(std::get<Fill>(work));
  }
  return CUDA_SUCCESS;
}

CUresult use_by(State& state, Operation& operation, const NodeWork& work) {
  bool pageable = false;
  if (const auto* const launch = std::get_if<Launch>(&work)) {
    return use_by(state, operation, *launch);
  }
  if (const auto* const copy = std::get_if<Copy>(&work)) {
    return use_by(state, operation, *copy, &pageable);
  }
  return use_by(state, operation, std::get<Fill>(work));
}

// The node of an executable graph that was made from this one.
CUresult find_exec_node(State& state, CUgraphExec exec, CUgraphNode node, const char* call,
                        GraphExec::Node*& found) {
  std::shared_ptr<GraphExec> in;
  if (const CUresult result = find(state, state.execs, exec, call, in)) return result;
  std::shared_ptr<GraphNode> origin;
  if (const CUresult result = find(state, state.nodes, node, call, origin)) return result;
  const auto at = std::ranges::find(in->nodes, origin, &GraphExec::Node::origin);
  if (at == in->nodes.end()) return CUDA_ERROR_INVALID_VALUE;
  found = &*at;
  return CUDA_SUCCESS;
}

bool is_kernel(const GraphNode& node) { return std::holds_alternative<Launch>(node.work); }

CUresult check_edge(const GraphNode& from, const GraphNode& to, const CUgraphEdgeData& edge) {
  if (edge.type == 0) {
    return edge.from_port == 0 && edge.to_port == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  const bool programmatic = edge.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
                            edge.from_port >= CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC &&
                            edge.from_port <= 2 && edge.to_port == 0;
  return programmatic && is_kernel(from) && is_kernel(to) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_shared<Graph>();
  made->context = context;
  *graph = held->graphs.add(std::move(made));
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Graph> found;
  if (const CUresult result = find(*held, held->graphs, graph, __func__, found)) return result;
  for (const CUgraphNode node : found->handles) held->nodes.remove(node);
  held->graphs.remove(graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                              size_t count, const CudaKernelNodeParams* parameters) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  Launch launch;
  if (const CUresult result = work_of(*held, *context, __func__, parameters, launch)) {
    return result;
  }
  return add_node(*held, context, __func__, node, graph, after, count, std::move(launch));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                              size_t count, const CudaMemcpy3D* parameters, CUcontext runs_in) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  if (const CUresult result = check_context(*held, runs_in, __func__)) return result;
  Copy copy;
  if (const CUresult result = work_of(parameters, copy)) return result;
  return add_node(*held, context, __func__, node, graph, after, count, copy);
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                              size_t count, const CudaMemsetNodeParams* parameters,
                              CUcontext runs_in) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  if (const CUresult result = check_context(*held, runs_in, __func__)) return result;
  Fill fill;
  if (const CUresult result = work_of(parameters, fill)) return result;
  return add_node(*held, context, __func__, node, graph, after, count, fill);
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                const CUgraphEdgeData* edges, size_t count) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Graph> found;
  if (const CUresult result = find(*held, held->graphs, graph, __func__, found)) return result;
  auto changed = found->edges;
  for (size_t i = 0; i < count; ++i) {
    std::shared_ptr<GraphNode> first;
    if (const CUresult result = find(*held, held->nodes, from[i], __func__, first)) return result;
    std::shared_ptr<GraphNode> second;
    if (const CUresult result = find(*held, held->nodes, to[i], __func__, second)) return result;
    const CUgraphEdgeData edge = edges != nullptr ? edges[i] : CUgraphEdgeData{};
    if (first->graph != found.get() || second->graph != found.get() || first == second ||
        check_edge(*first, *second, edge) != CUDA_SUCCESS ||
        !changed.try_emplace({first.get(), second.get()}, edge.type != 0).second) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  found->edges = std::move(changed);
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                     unsigned long long /*flags*/) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<Graph> found;
  if (const CUresult result = find(*held, held->graphs, graph, __func__, found)) return result;
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_shared<GraphExec>();
  made->context = context;
  std::map<const GraphNode*, size_t> index;
  for (const auto& node : found->nodes) {
    index[node.get()] = made->nodes.size();
    GraphExec::Node copied{node, node->work};
    if (const auto* const copy = std::get_if<Copy>(&node->work)) {
      copied.to_device = is_device_memory(*held, copy->to);
      copied.from_device = is_device_memory(*held, copy->from);
    } else if (const auto* const fill = std::get_if<Fill>(&node->work)) {
      copied.to_device = is_device_memory(*held, fill->to);
    }
    copied.memory = memory_of(*held, node->work);
    made->nodes.push_back(std::move(copied));
  }
  size_t programmatic = 0;
  for (const auto& [ends, is_programmatic] : found->edges) {
    programmatic += is_programmatic ? 1 : 0;
    const auto& [from, to] = ends;
    // Nothing keeps a kernel from running before those that it does not wait for.
    if (is_programmatic && !std::get<Launch>(to->work).function->waits_for_grids) continue;
    made->nodes[index.at(from)].next.push_back(index.at(to));
    ++made->nodes[index.at(to)].waits;
  }
  if (order_of(*made).size() < made->nodes.size()) return CUDA_ERROR_INVALID_VALUE;  // a cycle
  const auto is_root = [](const GraphExec::Node& node) { return node.waits == 0; };
  held->latest_graph = {made->nodes.size(), found->edges.size(),
                        static_cast<size_t>(std::ranges::count_if(made->nodes, is_root)),
                        programmatic};
  *exec = held->execs.add(std::move(made));
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<GraphExec> found;
  if (const CUresult result = find(*held, held->execs, exec, __func__, found)) return result;
  if (found->last_done && !*found->last_done) {
    // The driver lets the work finish, and so does the stub; Holdfast destroys nothing in use.
    violation(*held, "cuGraphExecDestroy of {:#x} while a launch of it is in flight",
              reinterpret_cast<uintptr_t>(exec));
  }
  held->execs.remove(exec);  // launches in flight have copies of their own
  return CUDA_SUCCESS;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CudaKernelNodeParams* parameters) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  GraphExec::Node* found = nullptr;
  if (const CUresult result = find_exec_node(*held, exec, node, __func__, found)) return result;
  Launch launch;
  if (const CUresult result = work_of(*held, *context, __func__, parameters, launch)) {
    return result;
  }
  const auto* const before = std::get_if<Launch>(&found->work);
  if (before == nullptr || before->function->module->context != launch.function->module->context) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  found->work = std::move(launch);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CudaMemcpy3D* parameters, CUcontext runs_in) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  if (const CUresult result = check_context(*held, runs_in, __func__)) return result;
  GraphExec::Node* found = nullptr;
  if (const CUresult result = find_exec_node(*held, exec, node, __func__, found)) return result;
  Copy copy;
  if (const CUresult result = work_of(parameters, copy)) return result;
  const auto* const before = std::get_if<Copy>(&found->work);
  if (before == nullptr || !before->is_flat() || !copy.is_flat() ||
      is_device_memory(*held, copy.to) != found->to_device ||
      is_device_memory(*held, copy.from) != found->from_device) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  found->work = copy;
  found->memory = memory_of(*held, copy);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CudaMemsetNodeParams* parameters, CUcontext runs_in) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  if (const CUresult result = check_context(*held, runs_in, __func__)) return result;
  GraphExec::Node* found = nullptr;
  if (const CUresult result = find_exec_node(*held, exec, node, __func__, found)) return result;
  Fill fill;
  if (const CUresult result = work_of(parameters, fill)) return result;
  const auto* const before = std::get_if<Fill>(&found->work);
  // The driver may take another width, and takes neither another height nor, for all one can rely
  // on, another element.
  if (before == nullptr || before->height != fill.height || before->element != fill.element ||
      (fill.height > 1 && (before->width != fill.width || before->pitch != fill.pitch)) ||
      is_device_memory(*held, fill.to) != found->to_device) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  found->work = fill;
  found->memory = memory_of(*held, fill);
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  const Held held;
  std::shared_ptr<Context> context;
  if (const CUresult result = enter(*held, context)) return result;
  std::shared_ptr<GraphExec> found;
  if (const CUresult result = find(*held, held->execs, exec, __func__, found)) return result;
  std::shared_ptr<Stream> on;
  if (const CUresult result = find_stream(*held, stream, __func__, on)) return result;
  auto operation = std::make_shared<Operation>();
  operation->what = __func__;
  std::vector<NodeWork> works;
  for (const size_t node : order_of(*found)) {
    const NodeWork& work = found->nodes[node].work;
    for (const auto& memory : found->nodes[node].memory) {
      if (!memory->freed && !memory->free_asked) continue;
      violation(*held, "cuGraphLaunch of a node whose memory was freed since it was set: {:#x}",
                memory->begin);
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (const CUresult result = use_by(*held, *operation, work)) return result;
    works.push_back(work);
  }
  ++found->launches;
  // An executable graph never runs beside itself.
  if (found->last_done) operation->ready = [before = found->last_done] { return *before; };
  found->last_done = std::make_shared<bool>(false);
  operation->run = [works = std::move(works)] {
    for (const NodeWork& work : works) {
      if (const CUresult result = run_work(work)) return result;
    }
    return CUDA_SUCCESS;
  };
  operation->done = [done = found->last_done] { *done = true; };
  enqueue(*held, on, std::move(operation));
  return CUDA_SUCCESS;
}

}  // namespace holdfast::stub_cuda

// NOLINTEND(readability-identifier-naming)
