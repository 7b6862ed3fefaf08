#include "holdfast/eval.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <unordered_map>

#include "holdfast/array/node_recorder.h"
#include "holdfast/array/plan.h"
#include "holdfast/base/log.h"
#include "holdfast/runtime/core.h"

namespace holdfast {
namespace array {
namespace {

// How many nodes ahead of one that lacks a kernel are asked which ones they lack.
constexpr size_t kLookAhead = 4096;

// The failure of a node, with its name and label where the message does not have them yet.
Failure told_with_names(const Node& node, ErrorCode code, const std::string& message) {
  const std::string name = fmt::format("'{}'", node.operation().name());
  const bool named = message.find(name) != std::string::npos &&
                     (node.label().empty() || message.find(node.label()) != std::string::npos);
  return Failure(code, named ? message : fmt::format("{}: {}", node.describe(), message));
}

// A node that this task has claimed; given up unless it is finished.
class Claim {
 public:
  explicit Claim(Node& node) noexcept : node_(node), held_(node.try_claim()) {}
  ~Claim() { give_up(); }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  explicit operator bool() const noexcept { return held_; }
  void give_up() noexcept {
    if (!std::exchange(held_, false)) return;
    node_.give_up_claim();
    node_.stream()->device().claim_ended();
  }
  void recorded(Node::Spent& spent) noexcept {
    node_.finish_recorded(spent);
    end();
  }
  void failed(Failure why, Node::Spent& spent) noexcept {
    node_.finish_failed(std::move(why), spent);
    end();
  }

 private:
  void end() noexcept {
    held_ = false;
    node_.stream()->device().claim_ended();
  }
  Node& node_;
  bool held_;
};

// Of a window's results to the memory that is left: below it, nobody looks how much is left while
// the window is recorded. Chosen, not measured.
constexpr uint64_t kUnwatchedPart = 4;

// Records what some arrays need. Belongs to one task.
class Evaluation {
 public:
  explicit Evaluation(const WaitLimit& limit) noexcept : limit_(limit) {}

  void run(std::span<const Array> roots) {
    try {
      Plan plan(roots);
      std::vector<Plan::Step> refused = record_all(plan.steps());
      // What was recorded meanwhile may have made room for what was not.
      again_ = true;
      for (size_t before = SIZE_MAX; !refused.empty() && refused.size() < before;) {
        before = refused.size();
        refused = record_all(refused);
      }
      // What another task was recording when its turn came.
      for (const Array& root : roots) (void)finish(root.value()->node());
      end_wave();
    } catch (...) {
      // What was recorded must not wait for somebody else to submit it.
      submit(roots);
      throw;
    }
    submit(roots);
  }

  // Why nodes were refused for want of memory. Roots that are not over are among them.
  using Refusals = std::unordered_map<const Node*, Failure>;
  Refusals& refusals() noexcept { return refusals_; }

 private:
  // Returns the steps whose nodes were refused for want of memory, in depth-first order.
  std::vector<Plan::Step> record_all(std::span<Plan::Step> steps) {
    refusals_.clear();
    std::vector<Plan::Step> refused;
    steps_ = steps;
    looked_ = 0;
    for (at_ = 0; at_ < steps_.size();) {
      if (at_ % Plan::kWindow == 0) enter_window();
      if (watched_ && !depth_first_ && is_short()) go_depth_first();
      if (at_ == 0 || depth_first_ || steps_[at_].wave != steps_[at_ - 1].wave) end_wave();
      Plan::Step step = std::move(steps_[at_]);
      const Bytes bytes = bytes_of(*step.node);
      if (!record(*step.node)) {
        if (!depth_first_) {
          // What comes first in that order may let go of what is missing.
          steps_[at_] = std::move(step);
          refusals_.clear();
          always_depth_first_ = true;
          go_depth_first();
          continue;
        }
        refused.push_back(std::move(step));
      }
      left_in_window_ = left_in_window_ - std::min(left_in_window_, bytes);
      ++at_;
    }
    steps_ = {};
    return refused;
  }

  std::span<Plan::Step> rest_of_window() const {
    const size_t end = std::min(steps_.size(), (at_ / Plan::kWindow + 1) * Plan::kWindow);
    return steps_.subspan(at_, end - at_);
  }
  void go_depth_first() {
    depth_first_ = true;
    Plan::sort_depth_first(rest_of_window());
  }

  static Bytes bytes_of(Node& node) {
    Bytes all;
    for (size_t i = 0; i < node.outputs(); ++i) all += node.output(i).bytes();
    return all;
  }
  // Nodes of other devices count as well: rare, and at worst the order is the other one.
  Bytes room() const {
    return steps_[at_].node->stream()->device().context->core().allocator().room();
  }
  // Whether the results that are left of the window might not fit beside each other.
  bool is_short() const { return left_in_window_ > room(); }
  void enter_window() {
    depth_first_ = again_;  // what was refused is left in that order
    if (depth_first_) return;
    left_in_window_ = {};
    for (const Plan::Step& step : rest_of_window()) left_in_window_ += bytes_of(*step.node);
    watched_ = left_in_window_ * kUnwatchedPart > room();
    if (always_depth_first_) go_depth_first();
  }

  // What is let go while a wave is being recorded would be given out again in the same wave, and
  // put a barrier there.
  void end_wave() noexcept {
    spent_.clear();
    recorder_.drop_scratch();
  }

  // Until the node is over. False: it was refused for want of memory.
  bool finish(Node& node) {
    while (!node.is_over()) {
      if (refusals_.contains(&node) || !record(node)) return node.is_over();
      if (node.state() == NodeState::claimed) node.stream()->device().wait_for_claim(node, limit_);
    }
    return true;
  }

  // Records the node, unless it is over or another task is at it. False: there is no memory for it,
  // or for what it needs; it is as it was, and refusals_ says why.
  bool record(Node& node) {
    const kernel::Resolver::Scope compiled(resolver_);
    bool out_of_memory_before = false;
    for (;;) {
      Claim claim(node);
      if (!claim) return true;
      Failure failure;
      if (const Ref<Node> pending = look_at_inputs(node, failure)) {
        claim.give_up();
        if (finish(*pending)) continue;
        refusals_.insert_or_assign(&node, refusals_.at(pending.get()));
        return false;
      }
      // A finished node must be able to leave what it needed.
      if (spent_.size() == spent_.capacity()) spent_.reserve(2 * spent_.size() + 8);
      switch (failure ? Attempt::failed : attempt(node, failure)) {
        case Attempt::recorded:
          claim.recorded(spent_.emplace_back());
          count(node);
          return true;
        case Attempt::lacks_kernels:
          claim.give_up();
          failure = compile(node);
          if (!failure) continue;
          break;
        case Attempt::failed: break;
      }
      if (failure.code() == ErrorCode::out_of_memory) {
        claim.give_up();
        if (std::exchange(out_of_memory_before, true)) {
          refusals_.insert_or_assign(&node, std::move(failure));
          return false;
        }
        // What this wave keeps may be what is missing.
        end_wave();
        continue;
      }
      if (claim) {
        fail(claim, node, std::move(failure));
        return true;
      }
      // Compiling failed, with no claim held.
      Claim again(node);
      if (again) fail(again, node, std::move(failure));
      return true;
    }
  }

  void fail(Claim& claim, Node& node, Failure failure) {
    node.stream()->device().nodes_failed.fetch_add(1, std::memory_order_relaxed);
    claim.failed(std::move(failure), spent_.emplace_back());
  }

  // Of a claimed node: the first input that is not over, if there is one. `failure` is that of the
  // first input which has one.
  static Ref<Node> look_at_inputs(const Node& node, Failure& failure) {
    for (const Array& input : node.inputs()) {
      Node& maker = input.value()->node();
      const NodeState state = maker.state();
      if (state == NodeState::failed) {
        if (!failure) failure = maker.failure();
      } else if (state != NodeState::recorded) {
        return Ref<Node>(&maker);
      }
    }
    return {};
  }

  enum class Attempt : uint8_t { recorded, lacks_kernels, failed };
  // Of a claimed node. InterruptedError and TimeoutError pass through.
  Attempt attempt(Node& node, Failure& failure) {
    resolver_.forget();
    try {
      return recorder_.record(node) == NodeRecorder::Outcome::lacking ? Attempt::lacks_kernels
                                                                      : Attempt::recorded;
    } catch (const InterruptedError&) {
      throw;
    } catch (const TimeoutError&) {
      throw;
    } catch (const Error& error) {
      failure = told_with_names(node, error.code(), error.what());
    } catch (const std::bad_alloc&) {
      failure = told_with_names(node, ErrorCode::out_of_memory, "no host memory to record it");
    } catch (const std::exception& error) {
      failure = told_with_names(node, ErrorCode::usage, error.what());
    } catch (...) {
      failure = told_with_names(node, ErrorCode::usage, "it threw something that is no exception");
    }
    return Attempt::failed;
  }

  void count(Node& node) {
    StreamState& stream = *node.stream();
    DeviceState& device = stream.device();
    ++touch(node.stream()).nodes;
    if (stream.count_recorded(recorder_.commands(), recorder_.written())) {
      device.early_submits.fetch_add(1, std::memory_order_relaxed);
      submit_stream(stream, &StreamState::submit);
    }
  }

  // Compiles what the node lacks, and with it what the nodes after it lack. No claim is held.
  Failure compile(Node& node) {
    const size_t needed = resolver_.missing();
    for (size_t ahead = std::max(at_ + 1, looked_); ahead < steps_.size(); ++ahead) {
      if (ahead > at_ + kLookAhead || resolver_.has_enough()) break;
      looked_ = ahead + 1;
      Node& next = *steps_[ahead].node;
      const Node::Pin pin(next);
      if (pin) recorder_.look(next);
    }
    const Failure failure = resolver_.resolve(needed);
    return failure ? labelled(node, failure) : failure;
  }

  static Failure labelled(const Node& node, const Failure& failure) {
    if (node.label().empty()) return failure;
    return Failure(failure.code(),
                   fmt::format("labelled '{}': {}", node.label(), failure.message()));
  }

  struct Touched {
    Ref<StreamState> stream;
    uint64_t nodes = 0;  // recorded and not told to the device yet
  };
  Touched& touch(const Ref<StreamState>& stream) {
    const auto found = std::ranges::find(touched_, stream, &Touched::stream);
    return found != touched_.end() ? *found : touched_.emplace_back(Touched{stream});
  }

  static void submit_stream(StreamState& stream, void (StreamState::*how)()) {
    try {
      (stream.*how)();
    } catch (const InterruptedError&) {
      throw;
    } catch (const TimeoutError&) {
      throw;
    } catch (const Error& error) {
      // What the list would have written is poisoned, and says so to whoever depends on it.
      logging::note(logging::Topic::device, "an evaluation could not submit: {}", error.what());
    }
  }

  void submit(std::span<const Array> roots) {
    for (const Array& root : roots) touch(root.value()->node().stream());
    for (Touched& touched : touched_) {
      // Once for all nodes: threads share the counter.
      touched.stream->device().nodes_recorded.fetch_add(std::exchange(touched.nodes, 0),
                                                        std::memory_order_relaxed);
      submit_stream(*touched.stream, &StreamState::flush);
    }
  }

  const WaitLimit& limit_;
  std::span<Plan::Step> steps_;
  size_t at_ = 0;
  size_t looked_ = 0;                // steps before this one were asked what they lack
  bool depth_first_ = false;         // what is left of the present window
  bool always_depth_first_ = false;  // all windows: something was refused
  bool again_ = false;               // the steps are what was refused before
  bool watched_ = false;             // the present window takes much of what is left
  Bytes left_in_window_;             // results of the steps that are left of it
  // Of the present pass; each node is kept by its step, a root or who needs it.
  Refusals refusals_;
  std::vector<Node::Spent> spent_;
  kernel::Resolver resolver_;
  NodeRecorder recorder_{spent_, resolver_};
  std::vector<Touched> touched_;
};

// Raises what keeps the array from being there, in so far as that is known without waiting.
void raise_failure(const Array& array, const Evaluation::Refusals& refusals) {
  const Node& node = array.value()->node();
  const NodeState state = node.state();
  if (state == NodeState::failed) node.failure().raise();
  if (state != NodeState::recorded) refusals.at(&node).raise();
  node.stream()->stream()->raise_failure_of(array.value()->memory());
}

void check_callable(std::span<const Array> arrays) {
  if (is_recording()) {
    throw UsageError("an operation's record() evaluates an array; give it to the node as an input");
  }
  for (const Array& a : arrays) {
    (void)a.dtype();  // raises where there is none
    a.value()->node().stream()->device().context->core().check_usable();
  }
}

Evaluation::Refusals record(std::span<const Array> arrays, const WaitLimit& limit) {
  check_callable(arrays);
  Evaluation evaluation(limit);
  evaluation.run(arrays);
  return std::move(evaluation.refusals());
}

}  // namespace
}  // namespace array

void async_eval(std::span<const Array> arrays) {
  const auto refusals = array::record(arrays, {});
  for (const Array& a : arrays) array::raise_failure(a, refusals);
}

void eval(std::span<const Array> arrays, const WaitLimit& limit) {
  const auto refusals = array::record(arrays, limit);
  for (const Array& a : arrays) {
    array::raise_failure(a, refusals);
    a.value()->node().stream()->stream()->wait_for(a.value()->memory(), limit);
  }
}

}  // namespace holdfast
