#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "holdfast/hal/cuda/cuda_work.h"
#include "holdfast/hal/gpu/gpu_timeline.h"

namespace holdfast::hal {

// The shape of a list: which commands, which kernels, which waves. Two lists of one shape differ in
// their bindings, parameters and grids alone.
struct CudaGraphShape {
  std::vector<uint64_t> words;
  uint64_t hash = 0;
  friend bool operator==(const CudaGraphShape& a, const CudaGraphShape& b) {
    return a.hash == b.hash && a.words == b.words;
  }
};

// A list as one launch: an executable graph whose nodes get the bindings, parameters and grids of
// the list before each launch. It belongs to one list at a time, from the first of these until its
// Point is seen. It holds the kernels of its shape.
class CudaGraph final : private CudaObject {
 public:
  // Nodes of a wave run beside each other, in up to kLanes lanes; those of the next wave after all
  // of them. With the context current.
  static Result<std::unique_ptr<CudaGraph>> create(const std::shared_ptr<CudaCore>& core,
                                                   const CudaWork& work, CudaGraphShape shape);
  ~CudaGraph() override;

  // More lanes only cost the launch (docs/devices.md).
  static constexpr size_t kLanes = 8;

  const CudaGraphShape& shape() const noexcept { return shape_; }
  size_t nodes() const noexcept { return nodes_.size(); }
  // Whether somebody could still ask for each of its kernels.
  bool is_wanted() const noexcept;
  // Gives the nodes what the work binds; only nodes for which something has changed. A failure
  // leaves the graph unusable.
  Failure set(const CudaWork& work);
  Failure launch(cu::CUstream stream, const CudaWork& work);

 private:
  struct Node {
    cu::CUgraphNode handle = nullptr;
    CommandKind kind = CommandKind::dispatch;
    // What the executable has, to compare with.
    std::vector<uint64_t> content;
  };

  CudaGraph(const std::shared_ptr<CudaCore>& core, CudaGraphShape shape)
      : CudaObject(core), shape_(std::move(shape)) {}
  Failure build(const CudaWork& work);
  Failure add_node(const CudaWork& work, const Command& command,
                   std::span<const cu::CUgraphNode> after);
  // Whether `content` differs from what the command says in the driver's terms; makes it so. A
  // dispatch's arguments are in block_ afterwards.
  bool update(const CudaWork& work, const Command& command, const CudaWork::Dispatch* dispatch,
              std::vector<uint64_t>& content);
  cu::CudaKernelNodeParams kernel_params(const CudaWork::Dispatch& dispatch,
                                         CudaArguments& arguments) const;
  void destroy_native() noexcept override;

  CudaGraphShape shape_;
  cu::CUgraph graph_ = nullptr;
  cu::CUgraphExec exec_ = nullptr;
  std::vector<Node> nodes_;
  std::vector<KeptResource> kernels_;
  CudaWork::ArgumentBlock block_;
};

// The executables of one queue, a bounded number; the least recently used go first. Used by whoever
// translates for the queue.
class CudaGraphs {
 public:
  explicit CudaGraphs(std::shared_ptr<CudaCore> core) noexcept : core_(std::move(core)) {}

  // The shape of a work that can and should be a graph; none otherwise: it has a native callback or
  // a kernel with launch attributes, or is too short or too long to gain from it.
  std::optional<CudaGraphShape> shape_of(const CudaWork& work) const;
  // An idle executable of the shape, or a new one; null where commands are to be launched one by
  // one: the shape is seen for the first time, or all that there may be are in flight. The caller
  // sets and launches it, and says with which value.
  CudaGraph* take(const CudaWork& work, CudaGraphShape&& shape, const GpuTimeline& timeline);
  void launched(CudaGraph& graph, TimelineValue value);
  // The driver refused it: it goes.
  void discard(CudaGraph& graph);

  struct Counts {
    uint64_t launched = 0;  // lists that were one launch
    uint64_t made = 0;      // executables
  };
  Counts counts() const noexcept { return counts_; }

 private:
  struct Entry {
    std::unique_ptr<CudaGraph> graph;
    TimelineValue value;  // of the last list that it ran
    uint64_t last_used = 0;
  };
  bool was_seen_before(uint64_t hash);
  void make_room(const GpuTimeline& timeline, size_t nodes);

  std::shared_ptr<CudaCore> core_;
  std::vector<Entry> entries_;
  std::vector<uint64_t> seen_once_;  // hashes, as a ring
  size_t seen_next_ = 0;
  uint64_t uses_ = 0;
  size_t nodes_ = 0;
  Counts counts_;
};

}  // namespace holdfast::hal
