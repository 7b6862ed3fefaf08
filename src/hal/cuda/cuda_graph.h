#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "holdfast/hal/cuda/cuda_work.h"
#include "holdfast/hal/gpu/gpu_timeline.h"

namespace holdfast::hal {

// A list as one launch: an executable graph whose nodes get the bindings, parameters and grids of
// the list before each launch. It belongs to one list at a time, from the first of these until its
// Point is seen. It holds the kernels of its shape.
class CudaGraph final : private CudaObject {
 public:
  // Nodes of a wave run beside each other, in up to kLanes lanes; those of the next wave after all
  // of them. A kernel that waits for grids and comes after one other kernel is launched while that
  // one ends. With the context current.
  static Result<std::unique_ptr<CudaGraph>> create(const std::shared_ptr<CudaCore>& core,
                                                   const CudaWork& work);
  ~CudaGraph() override;

  // More lanes only cost the launch (docs/devices.md).
  static constexpr size_t kLanes = 8;

  size_t nodes() const noexcept { return nodes_.size(); }
  // Whether somebody could still ask for each of its kernels.
  bool is_wanted() const noexcept;
  // Whether memory that its copies or fills had may be gone: CudaCore::memory_generation.
  bool is_outdated() const noexcept {
    return has_transfers_ && generation_ != core()->memory_generation();
  }

  enum class Outcome : uint8_t {
    set,
    other_shape,  // the work has other commands, kernels or waves
    refused       // by the driver: the graph is unusable
  };
  // Gives the nodes what the work binds; only nodes for which something has changed. Not of an
  // outdated graph.
  Outcome set(const CudaWork& work);
  Failure launch(cu::CUstream stream, const CudaWork& work);

 private:
  struct Node {
    cu::CUgraphNode handle = nullptr;
    CommandKind kind = CommandKind::dispatch;
    bool begins_wave = false;  // a later one than the first
    bool from_host = false;    // a copy's operands: the driver changes their addresses, but not in
    bool to_host = false;      // what kind of memory they are
    ResourceId kernel{};       // of a dispatch
    uint32_t first = 0;        // of its words
    uint32_t count = 0;
  };

  explicit CudaGraph(const std::shared_ptr<CudaCore>& core) : CudaObject(core) {}
  Failure build(const CudaWork& work);
  Failure add_node(const CudaWork& work, const Command& command, bool begins_wave,
                   std::span<const cu::CUgraphNode> after);
  // The kernel may begin before the node that it comes after has ended.
  bool may_overlap(const CudaPipeline& pipeline, std::span<const cu::CUgraphNode> after) const;
  cu::CUresult add_kernel(Node& node, const CudaPipeline& pipeline,
                          std::span<const cu::CUgraphNode> after);
  static bool fits(const Node& node, const CudaWork& work, const Command& command);
  // Writes what the command says in the driver's terms over the node's words: for a dispatch its
  // grid and arguments, for a copy or fill its operands. Whether any of them has changed.
  bool rewrite(const Node& node, const CudaWork& work, const Command& command);
  cu::CUresult set(const Node& node, const CudaPipeline* pipeline);
  // Of a node, by its words.
  cu::CudaKernelNodeParams kernel_params(const Node& node, const CudaPipeline& pipeline,
                                         CudaArguments& arguments) const;
  cu::CudaMemcpy3D copy_params(const Node& node) const;
  cu::CudaMemsetNodeParams fill_params(const Node& node) const;
  void destroy_native() noexcept override;

  cu::CUgraph graph_ = nullptr;
  cu::CUgraphExec exec_ = nullptr;
  std::vector<Node> nodes_;
  std::vector<uint64_t> words_;  // what the executable has, node by node
  bool refused_ = false;         // what it has is not known
  bool has_transfers_ = false;
  uint64_t generation_ = 0;  // of memory, when it was made
  std::vector<KeptResource> kernels_;
};

// The executables of one queue, a bounded number; the least recently used go first. Used by whoever
// translates for the queue.
class CudaGraphs {
 public:
  explicit CudaGraphs(std::shared_ptr<CudaCore> core) noexcept : core_(std::move(core)) {}

  // Whether the work was launched as one: on an idle executable of its shape (the same commands,
  // kernels and waves), or on a new one. Otherwise its commands are to be launched one by one: it
  // has a native callback or a kernel with launch attributes, is too short or too long to gain from
  // it, its shape is seen for the first time, or all executables that there may be are in flight.
  // The device may be lost by it.
  bool launch(const CudaWork& work, cu::CUstream stream, const GpuTimeline& timeline);

  // Any thread. `launched` less `made` is how many lists found an executable.
  struct Counts {
    uint64_t launched = 0;  // lists that were one launch
    uint64_t made = 0;      // executables
  };
  Counts counts() const noexcept { return {counts_.launched, counts_.made}; }

 private:
  struct Entry {
    uint64_t shape_hash = 0;
    std::unique_ptr<CudaGraph> graph;
    TimelineValue value;  // of the last list that it ran
    uint64_t last_used = 0;
  };
  using Entries = std::vector<Entry>;
  // With the work's bindings set; the end where there is none.
  Entries::iterator take(const CudaWork& work, const GpuTimeline& timeline);
  Entries::iterator make(const CudaWork& work, const GpuTimeline& timeline);
  void discard(Entries::iterator entry);
  // Of the shape, idle ones. Whether there were any.
  bool drop_outdated(uint64_t shape_hash, const GpuTimeline& timeline);
  bool was_seen_before(uint64_t hash);
  void make_room(const GpuTimeline& timeline, size_t nodes);

  std::shared_ptr<CudaCore> core_;
  Entries entries_;
  std::vector<uint64_t> seen_once_;  // hashes, as a ring
  size_t seen_next_ = 0;
  uint64_t uses_ = 0;
  size_t nodes_ = 0;
  struct {
    std::atomic<uint64_t> launched{0};
    std::atomic<uint64_t> made{0};
  } counts_;
};

}  // namespace holdfast::hal
