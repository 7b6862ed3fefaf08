#include "holdfast/hal/cuda/cuda_graph.h"

#include <fmt/format.h>

#include <algorithm>
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

// Words of a shape.
constexpr uint64_t kBarrier = 1;
constexpr uint64_t kDispatch = 2;
constexpr uint64_t kCopy = 3;
constexpr uint64_t kFill = 4;
constexpr uint64_t kFromHost = 16;
constexpr uint64_t kToHost = 32;

uint64_t mix(uint64_t hash, uint64_t word) {
  hash ^= word;
  hash *= 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 32);
}

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

cu::CudaMemcpy3D copy_params(uint64_t to, uint64_t from, uint64_t bytes) {
  cu::CudaMemcpy3D params;
  params.srcDevice = from;
  params.dstDevice = to;
  params.WidthInBytes = bytes;
  return params;
}

cu::CudaMemsetNodeParams fill_params(uint64_t to, uint64_t value, uint64_t bytes) {
  cu::CudaMemsetNodeParams params;
  params.dst = to;
  params.value = static_cast<unsigned>(value);
  params.width = bytes;
  return params;
}

// Whether it is a node of the graph.
bool is_node(const Command& command) {
  return !command.is_mark() && command.kind != CommandKind::barrier && !CudaWork::is_idle(command);
}

}  // namespace

Result<std::unique_ptr<CudaGraph>> CudaGraph::create(const std::shared_ptr<CudaCore>& core,
                                                     const CudaWork& work, CudaGraphShape shape) {
  std::unique_ptr<CudaGraph> made(new CudaGraph(core, std::move(shape)));
  if (Failure failure = made->build(work)) return failure;
  return made;
}

Failure CudaGraph::build(const CudaWork& work) {
  const cu::Calls& cu = core()->cu;
  const std::string what = fmt::format("no graph for {}", work.describe());
  if (Failure failure = core()->check(cu.cuGraphCreate(&graph_, 0), what)) return failure;
  Lanes lanes;
  for (const Command& command : work.commands()) {
    if (command.kind == CommandKind::barrier) lanes.end_wave();
    if (!is_node(command)) continue;
    if (Failure failure = add_node(work, command, lanes.before_next())) return failure;
    lanes.add(nodes_.back().handle);
  }
  return core()->check(cu.cuGraphInstantiateWithFlags(&exec_, graph_, 0), what);
}

cu::CudaKernelNodeParams CudaGraph::kernel_params(const CudaWork::Dispatch& d,
                                                  CudaArguments& arguments) const {
  cu::CudaKernelNodeParams params;
  params.func = d.pipeline.function();
  params.gridDimX = d.groups.x;
  params.gridDimY = d.groups.y;
  params.gridDimZ = d.groups.z;
  params.blockDimX = d.threads.x;
  params.blockDimY = d.threads.y;
  params.blockDimZ = d.threads.z;
  params.sharedMemBytes = d.pipeline.shared_memory();
  params.extra = arguments.extra;
  return params;
}

Failure CudaGraph::add_node(const CudaWork& work, const Command& command,
                            std::span<const cu::CUgraphNode> after) {
  const cu::Calls& cu = core()->cu;
  Node node;
  node.kind = command.kind;
  cu::CUresult result = cu::CUDA_SUCCESS;
  switch (command.kind) {
    case CommandKind::dispatch: {
      const CudaWork::Dispatch d = work.dispatch(command, block_);
      (void)update(work, command, &d, node.content);
      CudaArguments arguments(block_, d.argument_bytes);
      const cu::CudaKernelNodeParams params = kernel_params(d, arguments);
      result = cu.cuGraphAddKernelNode(&node.handle, graph_, after.data(), after.size(), &params);
      kernels_.emplace_back(*command.pipeline);
      break;
    }
    case CommandKind::copy: {
      (void)update(work, command, nullptr, node.content);
      const auto params = copy_params(node.content[0], node.content[1], node.content[2]);
      result = cu.cuGraphAddMemcpyNode(&node.handle, graph_, after.data(), after.size(), &params,
                                       core()->context);
      break;
    }
    default: {
      (void)update(work, command, nullptr, node.content);
      const auto params = fill_params(node.content[0], node.content[1], node.content[2]);
      result = cu.cuGraphAddMemsetNode(&node.handle, graph_, after.data(), after.size(), &params,
                                       core()->context);
      break;
    }
  }
  nodes_.push_back(std::move(node));
  if (result == cu::CUDA_SUCCESS) return {};
  return core()->check(result, fmt::format("no node for {}", work.describe(command)));
}

bool CudaGraph::update(const CudaWork& work, const Command& command,
                       const CudaWork::Dispatch* dispatch, std::vector<uint64_t>& content) {
  constexpr size_t kWords = 3;
  std::array<uint64_t, kWords> words{};
  std::span<const uint64_t> more;
  if (dispatch != nullptr) {
    const CudaWork::Dispatch& d = *dispatch;
    const size_t whole = (d.argument_bytes + 7) / 8;
    // The last word may be used in part.
    if (const size_t rest = d.argument_bytes % 8; rest != 0) {
      block_[whole - 1] &= (uint64_t{1} << (8 * rest)) - 1;
    }
    more = {block_.data(), whole};
    words = {uint64_t{d.groups.x} << 32 | d.groups.y, uint64_t{d.groups.z} << 32 | d.threads.x,
             uint64_t{d.threads.y} << 32 | d.threads.z};
  } else if (command.kind == CommandKind::copy) {
    const CudaWork::Place from = work.place(command.bindings()[0]);
    words = {work.place(command.bindings()[1]).address, from.address, from.length};
  } else {
    const CudaWork::Place to = work.place(command.bindings()[0]);
    words = {to.address, std::to_integer<uint64_t>(command.fill_value), to.length};
  }
  if (content.size() == kWords + more.size() &&
      std::equal(words.begin(), words.end(), content.begin()) &&
      std::equal(more.begin(), more.end(), content.begin() + kWords)) {
    return false;
  }
  content.resize(kWords + more.size());
  std::copy(words.begin(), words.end(), content.begin());
  std::copy(more.begin(), more.end(), content.begin() + kWords);
  return true;
}

Failure CudaGraph::set(const CudaWork& work) {
  const cu::Calls& cu = core()->cu;
  auto node = nodes_.begin();
  for (const Command& command : work.commands()) {
    if (!is_node(command)) continue;
    Node& at = *node++;
    if (ablated(Ablation::graph_keeps_stale_parameters) && &at == &nodes_.back()) continue;
    cu::CUresult result = cu::CUDA_SUCCESS;
    switch (command.kind) {
      case CommandKind::dispatch: {
        const CudaWork::Dispatch d = work.dispatch(command, block_);
        if (!update(work, command, &d, at.content)) break;
        CudaArguments arguments(block_, d.argument_bytes);
        const cu::CudaKernelNodeParams params = kernel_params(d, arguments);
        result = cu.cuGraphExecKernelNodeSetParams(exec_, at.handle, &params);
        break;
      }
      case CommandKind::copy: {
        if (!update(work, command, nullptr, at.content)) break;
        const auto params = copy_params(at.content[0], at.content[1], at.content[2]);
        result = cu.cuGraphExecMemcpyNodeSetParams(exec_, at.handle, &params, core()->context);
        break;
      }
      default: {
        if (!update(work, command, nullptr, at.content)) break;
        const auto params = fill_params(at.content[0], at.content[1], at.content[2]);
        result = cu.cuGraphExecMemsetNodeSetParams(exec_, at.handle, &params, core()->context);
        break;
      }
    }
    if (result != cu::CUDA_SUCCESS) {
      at.content.clear();  // what the node has is not known
      return core()->check(result, fmt::format("no node for {}", work.describe(command)));
    }
  }
  return {};
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

std::optional<CudaGraphShape> CudaGraphs::shape_of(const CudaWork& work) const {
  const size_t commands = work.commands().command_count();
  if (commands < kFewestNodes || commands > kMostNodes) return std::nullopt;
  CudaGraphShape shape;
  shape.words.reserve(2 * commands + work.commands().barrier_count());
  size_t nodes = 0;
  bool wave_has_nodes = false;
  for (const Command& command : work.commands()) {
    if (command.kind == CommandKind::barrier && wave_has_nodes) {
      shape.words.push_back(kBarrier);
      wave_has_nodes = false;
    }
    if (!is_node(command)) continue;
    wave_has_nodes = true;
    ++nodes;
    switch (command.kind) {
      case CommandKind::dispatch: {
        if (static_cast<const CudaPipeline&>(*command.pipeline).has_attributes()) {
          return std::nullopt;
        }
        shape.words.push_back(kDispatch);
        if (!ablated(Ablation::graph_key_without_kernels)) {
          shape.words.push_back(command.pipeline_id.value);
        }
        break;
      }
      case CommandKind::copy:
        // The driver changes addresses of a copy, but not what kind of memory they are in.
        shape.words.push_back(kCopy | (work.place(command.bindings()[0]).on_host ? kFromHost : 0) |
                              (work.place(command.bindings()[1]).on_host ? kToHost : 0));
        break;
      case CommandKind::fill:
        shape.words.push_back(kFill | (work.place(command.bindings()[0]).on_host ? kToHost : 0));
        break;
      default: return std::nullopt;
    }
  }
  if (nodes < kFewestNodes) return std::nullopt;
  shape.hash = nodes;
  for (const uint64_t word : shape.words) shape.hash = mix(shape.hash, word);
  return shape;
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

CudaGraph* CudaGraphs::take(const CudaWork& work, CudaGraphShape&& shape,
                            const GpuTimeline& timeline) {
  size_t alike = 0;
  for (const bool asked : {false, true}) {
    alike = 0;
    for (const Entry& entry : entries_) {
      if (!(entry.graph->shape() == shape)) continue;
      ++alike;
      if (timeline.was_seen(entry.value) || ablated(Ablation::graph_reused_in_flight)) {
        return entry.graph.get();
      }
    }
    if (alike == 0 || asked) break;
    (void)timeline.query(timeline.started());  // what has finished since is seen now
  }
  if (alike >= kMostOfOneShape || (alike == 0 && !was_seen_before(shape.hash))) return nullptr;
  const size_t nodes = work.commands().command_count();
  make_room(timeline, nodes);
  if (entries_.size() >= kMostGraphs || nodes_ + nodes > kMostNodesInAll) return nullptr;
  Result<std::unique_ptr<CudaGraph>> made = CudaGraph::create(core_, work, std::move(shape));
  if (!made) return nullptr;
  ++counts_.made;
  nodes_ += made.value()->nodes();
  entries_.push_back({std::move(made).value(), {}, 0});
  return entries_.back().graph.get();
}

void CudaGraphs::launched(CudaGraph& graph, TimelineValue value) {
  for (Entry& entry : entries_) {
    if (entry.graph.get() != &graph) continue;
    entry.value = value;
    entry.last_used = ++uses_;
  }
  ++counts_.launched;
}

void CudaGraphs::discard(CudaGraph& graph) {
  nodes_ -= graph.nodes();
  std::erase_if(entries_, [&](const Entry& entry) { return entry.graph.get() == &graph; });
}

}  // namespace holdfast::hal
