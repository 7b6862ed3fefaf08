#include "holdfast/hal/cuda/cuda_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "holdfast/base/ablation.h"

namespace holdfast::hal {
namespace {

// Shorter lists cost the host less as launches, longer ones would keep too much (bench rows
// cuda_list_*).
constexpr size_t kFewestNodes = 4;
constexpr size_t kMostNodes = 1024;
// Of one queue, in all.
constexpr size_t kMostGraphs = 64;
constexpr size_t kMostNodesInAll = 16384;
// As many lists of one shape in flight are launched as graphs; further ones command by command.
constexpr size_t kMostOfOneShape = 16;
// Shapes of which one list was seen.
constexpr size_t kRemembered = 256;

// The lanes of the waves: after which nodes the next one comes.
class Lanes {
 public:
  // What the next command of the wave waits for.
  std::span<const cu::CUgraphNode> before_next() const {
    if (here_.size() < CudaGraph::kLanes) return before_;
    return {&here_[next_], 1};
  }
  void add(cu::CUgraphNode node) {
    if (here_.size() < CudaGraph::kLanes) {
      here_.push_back(node);
    } else {
      here_[next_] = node;
      next_ = (next_ + 1) % here_.size();
    }
  }
  void end_wave() {
    if (here_.empty()) return;
    before_ = std::exchange(here_, {});
    next_ = 0;
  }

 private:
  std::vector<cu::CUgraphNode> before_;  // the last ones of the wave before
  std::vector<cu::CUgraphNode> here_;    // the last ones of this wave
  size_t next_ = 0;                      // of these, which the next command follows
};

// Whether it is a node of the graph.
bool is_node(const Command& command) {
  return !command.is_mark() && command.kind != CommandKind::barrier && !command.is_idle();
}

// How many of a node's words come before a dispatch's arguments.
constexpr size_t kGridWords = 3;
// A copy's or fill's words: where to, what from, how many bytes.
constexpr size_t kOperandWords = 3;

size_t words_of(const Command& command) {
  return command.kind == CommandKind::dispatch ? kGridWords + CudaWork::argument_words(command)
                                               : kOperandWords;
}

// Two numbers of a grid as one word, in which they lie one after the other.
constexpr uint64_t joined(uint32_t first, uint32_t second) {
  static_assert(std::endian::native == std::endian::little);
  return uint64_t{second} << 32 | first;
}

// Commands that a graph can have, and enough of them.
bool can_be_graph(const CudaWork& work) {
  size_t nodes = 0;
  for (const Command& command : work.commands()) {
    if (command.kind == CommandKind::native) return false;
    if (command.kind == CommandKind::dispatch &&
        static_cast<const CudaPipeline&>(*command.pipeline).has_attributes()) {
      return false;
    }
    if (is_node(command)) ++nodes;
  }
  return nodes >= kFewestNodes;
}

}  // namespace

Result<std::unique_ptr<CudaGraph>> CudaGraph::create(const std::shared_ptr<CudaCore>& core,
                                                     const CudaWork& work) {
  std::unique_ptr<CudaGraph> made(new CudaGraph(core));
  made->generation_ = core->memory_generation();
  if (Failure failure = made->build(work)) return failure;
  return made;
}

Failure CudaGraph::build(const CudaWork& work) {
  const cu::Calls& cu = core()->cu;
  const std::string what = fmt::format("no graph for {}", work.describe());
  if (Failure failure = core()->check(cu.cuGraphCreate(&graph_, 0), what)) return failure;
  Lanes lanes;
  bool after_barrier = false;
  for (const Command& command : work.commands()) {
    if (command.kind == CommandKind::barrier) {
      lanes.end_wave();
      after_barrier = true;
    }
    if (!is_node(command)) continue;
    const bool begins_wave = std::exchange(after_barrier, false) && !nodes_.empty();
    if (Failure failure = add_node(work, command, begins_wave, lanes.before_next())) {
      return failure;
    }
    lanes.add(nodes_.back().handle);
  }
  return core()->check(cu.cuGraphInstantiateWithFlags(&exec_, graph_, 0), what);
}

cu::CudaKernelNodeParams CudaGraph::kernel_params(const Node& node, const CudaPipeline& pipeline,
                                                  CudaArguments& arguments) const {
  std::array<uint32_t, 2 * kGridWords> grid;
  std::memcpy(grid.data(), &words_[node.first], sizeof grid);
  cu::CudaKernelNodeParams params;
  params.func = pipeline.function();
  params.gridDimX = grid[0];
  params.gridDimY = grid[1];
  params.gridDimZ = grid[2];
  params.blockDimX = grid[3];
  params.blockDimY = grid[4];
  params.blockDimZ = grid[5];
  params.sharedMemBytes = pipeline.shared_memory();
  params.extra = arguments.extra;
  return params;
}

cu::CudaMemcpy3D CudaGraph::copy_params(const Node& node) const {
  cu::CudaMemcpy3D params;
  params.dstDevice = words_[node.first];
  params.srcDevice = words_[node.first + 1];
  params.WidthInBytes = words_[node.first + 2];
  return params;
}

cu::CudaMemsetNodeParams CudaGraph::fill_params(const Node& node) const {
  cu::CudaMemsetNodeParams params;
  params.dst = words_[node.first];
  params.value = static_cast<uint32_t>(words_[node.first + 1]);
  params.width = words_[node.first + 2];
  return params;
}

Failure CudaGraph::add_node(const CudaWork& work, const Command& command, bool begins_wave,
                            std::span<const cu::CUgraphNode> after) {
  const cu::Calls& cu = core()->cu;
  Node& node = nodes_.emplace_back();
  node.kind = command.kind;
  has_transfers_ = has_transfers_ || command.kind != CommandKind::dispatch;
  node.begins_wave = begins_wave;
  node.first = static_cast<uint32_t>(words_.size());
  node.count = static_cast<uint32_t>(words_of(command));
  words_.resize(node.first + node.count);
  (void)rewrite(node, work, command);
  cu::CUresult result = cu::CUDA_SUCCESS;
  switch (command.kind) {
    case CommandKind::dispatch: {
      node.kernel = command.pipeline_id;
      kernels_.emplace_back(*command.pipeline);
      result = add_kernel(node, static_cast<const CudaPipeline&>(*command.pipeline), after);
      break;
    }
    case CommandKind::copy: {
      node.from_host = work.place(command.bindings()[0]).on_host;
      node.to_host = work.place(command.bindings()[1]).on_host;
      const cu::CudaMemcpy3D params = copy_params(node);
      result = cu.cuGraphAddMemcpyNode(&node.handle, graph_, after.data(), after.size(), &params,
                                       core()->context);
      break;
    }
    default: {
      node.to_host = work.place(command.bindings()[0]).on_host;
      const cu::CudaMemsetNodeParams params = fill_params(node);
      result = cu.cuGraphAddMemsetNode(&node.handle, graph_, after.data(), after.size(), &params,
                                       core()->context);
      break;
    }
  }
  if (result == cu::CUDA_SUCCESS) return {};
  return core()->check(result, fmt::format("no node for {}", work.describe(command)));
}

bool CudaGraph::may_overlap(const CudaPipeline& pipeline,
                            std::span<const cu::CUgraphNode> after) const {
  // Several before it are a wave, which is wide enough to hide a launch.
  if (!pipeline.waits_for_grids() || after.size() != 1) return false;
  const auto before = std::find_if(nodes_.rbegin(), nodes_.rend(),
                                   [&](const Node& node) { return node.handle == after.front(); });
  return before->kind == CommandKind::dispatch;
}

cu::CUresult CudaGraph::add_kernel(Node& node, const CudaPipeline& pipeline,
                                   std::span<const cu::CUgraphNode> after) {
  const cu::Calls& cu = core()->cu;
  const bool overlaps = may_overlap(pipeline, after);
  CudaArguments arguments(words_.data() + node.first + kGridWords, pipeline.argument_bytes());
  const cu::CudaKernelNodeParams params = kernel_params(node, pipeline, arguments);
  const cu::CUresult result = cu.cuGraphAddKernelNode(&node.handle, graph_, after.data(),
                                                      overlaps ? 0 : after.size(), &params);
  if (result != cu::CUDA_SUCCESS || !overlaps) return result;
  cu::CUgraphEdgeData edge;
  edge.type = cu::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  edge.from_port = cu::CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  return cu.cuGraphAddDependencies(graph_, after.data(), &node.handle, &edge, 1);
}

[[gnu::always_inline]] inline bool CudaGraph::fits(const Node& node, const CudaWork& work,
                                                   const Command& command) {
  if (node.kind != command.kind) return false;
  switch (command.kind) {
    case CommandKind::dispatch:
      return node.kernel == command.pipeline_id ||
             (ablated(Ablation::graph_key_without_kernels) && node.count == words_of(command));
    case CommandKind::copy:
      return node.from_host == work.place(command.bindings()[0]).on_host &&
             node.to_host == work.place(command.bindings()[1]).on_host;
    default: return node.to_host == work.place(command.bindings()[0]).on_host;
  }
}

// Inline, as what is done for every node of every list: calls would be a third of it.
[[gnu::always_inline]] inline bool CudaGraph::rewrite(const Node& node, const CudaWork& work,
                                                      const Command& command) {
  uint64_t* at = &words_[node.first];
  uint64_t difference = 0;
  const auto put = [&](uint64_t word) {
    difference |= *at ^ word;
    *at++ = word;
  };
  switch (command.kind) {
    case CommandKind::dispatch: {
      const CudaWork::Dispatch d = work.dispatch(command);
      put(joined(d.groups.x, d.groups.y));
      put(joined(d.groups.z, d.threads.x));
      put(joined(d.threads.y, d.threads.z));
      work.put_arguments(command, d, put);
      break;
    }
    case CommandKind::copy:
      put(work.address(command.bindings()[1]));
      put(work.address(command.bindings()[0]));
      put(command.bindings()[0].range.length.value);
      break;
    default:
      put(work.address(command.bindings()[0]));
      put(std::to_integer<uint64_t>(command.fill_value));
      put(command.bindings()[0].range.length.value);
      break;
  }
  return difference != 0;
}

[[gnu::always_inline]] inline cu::CUresult CudaGraph::set(const Node& node,
                                                          const CudaPipeline* pipeline) {
  const cu::Calls& cu = core()->cu;
  switch (node.kind) {
    case CommandKind::dispatch: {
      CudaArguments arguments(words_.data() + node.first + kGridWords, pipeline->argument_bytes());
      const cu::CudaKernelNodeParams params = kernel_params(node, *pipeline, arguments);
      return cu.cuGraphExecKernelNodeSetParams(exec_, node.handle, &params);
    }
    case CommandKind::copy: {
      const cu::CudaMemcpy3D params = copy_params(node);
      return cu.cuGraphExecMemcpyNodeSetParams(exec_, node.handle, &params, core()->context);
    }
    default: {
      const cu::CudaMemsetNodeParams params = fill_params(node);
      return cu.cuGraphExecMemsetNodeSetParams(exec_, node.handle, &params, core()->context);
    }
  }
}

CudaGraph::Outcome CudaGraph::set(const CudaWork& work) {
  if (refused_) return Outcome::refused;
  auto node = nodes_.begin();
  bool after_barrier = false;
  for (const Command& command : work.commands()) {
    if (command.kind == CommandKind::barrier) after_barrier = true;
    if (!is_node(command)) continue;
    const bool begins_wave = std::exchange(after_barrier, false) && node != nodes_.begin();
    if (node == nodes_.end() || node->begins_wave != begins_wave || !fits(*node, work, command)) {
      return Outcome::other_shape;
    }
    const Node& at = *node++;
    if (ablated(Ablation::graph_keeps_stale_parameters) && node == nodes_.end()) continue;
    if (!rewrite(at, work, command)) continue;
    const cu::CUresult result = set(at, static_cast<const CudaPipeline*>(command.pipeline));
    if (result != cu::CUDA_SUCCESS) {
      refused_ = true;  // before words are made, for which there may be no memory
      (void)core()->check(result, fmt::format("no node for {}", work.describe(command)));
      return Outcome::refused;
    }
  }
  return node == nodes_.end() ? Outcome::set : Outcome::other_shape;
}

Failure CudaGraph::launch(cu::CUstream stream, const CudaWork& work) {
  const cu::CUresult result = core()->cu.cuGraphLaunch(exec_, stream);
  if (result == cu::CUDA_SUCCESS) return {};
  return core()->check(result, fmt::format("{} was refused as a graph", work.describe()));
}

bool CudaGraph::is_wanted() const noexcept {
  return std::all_of(kernels_.begin(), kernels_.end(),
                     [](const KeptResource& kernel) { return (*kernel).users() > 0; });
}

CudaGraph::~CudaGraph() { give_back(); }

void CudaGraph::destroy_native() noexcept {
  const CudaCore::Current current(*core());
  if (exec_ != nullptr) (void)core()->cu.cuGraphExecDestroy(exec_);
  if (graph_ != nullptr) (void)core()->cu.cuGraphDestroy(graph_);
}

bool CudaGraphs::was_seen_before(uint64_t hash) {
  if (std::find(seen_once_.begin(), seen_once_.end(), hash) != seen_once_.end()) return true;
  if (seen_once_.size() < kRemembered) {
    seen_once_.push_back(hash);
  } else {
    seen_once_[seen_next_] = hash;
    seen_next_ = (seen_next_ + 1) % kRemembered;
  }
  return false;
}

void CudaGraphs::make_room(const GpuTimeline& timeline, size_t nodes) {
  const auto is_idle = [&](const Entry& entry) { return timeline.was_seen(entry.value); };
  std::erase_if(entries_, [&](const Entry& entry) {
    if (!is_idle(entry) || entry.graph->is_wanted()) return false;
    nodes_ -= entry.graph->nodes();
    return true;
  });
  while (entries_.size() >= kMostGraphs || nodes_ + nodes > kMostNodesInAll) {
    auto oldest = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (!is_idle(*entry)) continue;
      if (oldest == entries_.end() || entry->last_used < oldest->last_used) oldest = entry;
    }
    if (oldest == entries_.end()) return;
    nodes_ -= oldest->graph->nodes();
    entries_.erase(oldest);
  }
}

CudaGraphs::Entries::iterator CudaGraphs::take(const CudaWork& work, const GpuTimeline& timeline) {
  const uint64_t shape_hash = work.commands().shape_hash();
  // Where memory comes and goes with every list, a new executable for each would cost more than
  // launches.
  if (drop_outdated(shape_hash, timeline)) return entries_.end();
  size_t in_flight = 0;  // that are or may be of this shape
  for (const bool asked : {false, true}) {
    in_flight = 0;
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->shape_hash != shape_hash) continue;
      if (!timeline.was_seen(entry->value) && !ablated(Ablation::graph_reused_in_flight)) {
        ++in_flight;
        continue;
      }
      switch (entry->graph->set(work)) {
        case CudaGraph::Outcome::set: return entry;
        case CudaGraph::Outcome::other_shape: break;
        case CudaGraph::Outcome::refused: discard(entry); return entries_.end();
      }
    }
    if (in_flight == 0 || asked) break;
    (void)timeline.query(timeline.started());  // what has finished since is seen now
  }
  if (in_flight >= kMostOfOneShape || !can_be_graph(work)) return entries_.end();
  if (in_flight == 0 && !was_seen_before(shape_hash)) return entries_.end();
  return make(work, timeline);
}

CudaGraphs::Entries::iterator CudaGraphs::make(const CudaWork& work, const GpuTimeline& timeline) {
  const size_t nodes = work.commands().command_count();
  make_room(timeline, nodes);
  if (entries_.size() >= kMostGraphs || nodes_ + nodes > kMostNodesInAll) return entries_.end();
  Result<std::unique_ptr<CudaGraph>> made = CudaGraph::create(core_, work);
  if (!made) return entries_.end();
  entries_.push_back({work.commands().shape_hash(), std::move(made).value(), {}, 0});
  nodes_ += entries_.back().graph->nodes();
  ++counts_.made;
  return entries_.end() - 1;
}

bool CudaGraphs::launch(const CudaWork& work, cu::CUstream stream, const GpuTimeline& timeline) {
  const size_t commands = work.commands().command_count();
  if (commands < kFewestNodes || commands > kMostNodes) return false;
  const auto entry = take(work, timeline);
  if (entry == entries_.end()) return false;
  if (entry->graph->launch(stream, work)) {
    discard(entry);
    return false;
  }
  entry->value = work.work().point.value;
  entry->last_used = ++uses_;
  ++counts_.launched;
  return true;
}

bool CudaGraphs::drop_outdated(uint64_t shape_hash, const GpuTimeline& timeline) {
  const size_t dropped = std::erase_if(entries_, [&](const Entry& entry) {
    if (entry.shape_hash != shape_hash || !entry.graph->is_outdated() ||
        !timeline.was_seen(entry.value)) {
      return false;
    }
    nodes_ -= entry.graph->nodes();
    return true;
  });
  return dropped > 0;
}

void CudaGraphs::discard(Entries::iterator entry) {
  nodes_ -= entry->graph->nodes();
  entries_.erase(entry);
}

}  // namespace holdfast::hal
