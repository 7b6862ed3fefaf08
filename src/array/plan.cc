#include "holdfast/array/plan.h"

#include <algorithm>
#include <array>

namespace holdfast::array {
namespace {

constexpr uint32_t kNoStep = UINT32_MAX;

// Walks under way in this process: a node whose mark is one of these belongs to that walk. The low
// bits of a mark are its place here.
constexpr uint64_t kPlaces = 64;
constinit std::array<std::atomic<uint64_t>, kPlaces> live_walks{};
constinit std::atomic<uint64_t> walks_made{0};

bool is_live(uint64_t mark) noexcept {
  return live_walks[mark % kPlaces].load(std::memory_order_acquire) == mark;
}

}  // namespace

// Which nodes a walk has seen, and which step became of each. It stands in the nodes themselves,
// except for those that another walk is using.
class Plan::Marks {
 public:
  Marks() noexcept {
    const uint64_t serial = walks_made.fetch_add(1, std::memory_order_relaxed) + 1;
    for (uint64_t i = 0; i < kPlaces; ++i) {
      const uint64_t place = (serial + i) % kPlaces;
      const uint64_t mark = serial * kPlaces + place;
      uint64_t none = 0;
      if (live_walks[place].compare_exchange_strong(none, mark, std::memory_order_acq_rel)) {
        mark_ = mark;
        return;
      }
    }
  }
  ~Marks() {
    if (mark_ != 0) live_walks[mark_ % kPlaces].store(0, std::memory_order_release);
  }
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

  // Whether the walk sees it for the first time.
  bool add(Node& node) {
    if (!others_.empty() && others_.contains(&node)) return false;
    uint64_t seen = node.plan_mark.load(std::memory_order_acquire);
    while (mark_ != 0) {
      if (seen == mark_) return false;
      if (seen != 0 && is_live(seen)) break;
      if (node.plan_mark.compare_exchange_weak(seen, mark_, std::memory_order_acq_rel)) {
        node.plan_index = kNoStep;
        return true;
      }
    }
    return others_.emplace(&node, kNoStep).second;
  }
  void set_step(Node& node, uint32_t step) {
    if (is_mine(node)) {
      node.plan_index = step;
    } else {
      others_[&node] = step;
    }
  }
  // kNoStep where it became none.
  uint32_t step_of(Node& node) const {
    if (is_mine(node)) return node.plan_index;
    const auto found = others_.find(&node);
    return found == others_.end() ? kNoStep : found->second;
  }

 private:
  bool is_mine(const Node& node) const noexcept {
    return mark_ != 0 && node.plan_mark.load(std::memory_order_relaxed) == mark_;
  }

  uint64_t mark_ = 0;
  std::unordered_map<Node*, uint32_t> others_;
};

Plan::Plan(std::span<const Array> roots) {
  Marks marks;
  for (const Array& root : roots) {
    if (root.has_value()) visit(root.value()->node(), marks);
  }
  sort_windows();
}

void Plan::visit(Node& root, Marks& marks) {
  struct Frame {
    Ref<Node> node;
    Node::Pin pin;
    size_t next = 0;
  };
  std::vector<Frame> stack;
  const auto enter = [&](Node& node) {
    if (node.is_over() || !marks.add(node)) return;
    if (Node::Pin pin(node); pin) stack.push_back({Ref<Node>(&node), std::move(pin)});
  };
  enter(root);
  while (!stack.empty()) {
    Frame& frame = stack.back();
    const NodeInputs& inputs = frame.node->inputs();
    if (frame.next < inputs.size()) {
      enter(inputs[frame.next++].value()->node());
      continue;
    }
    const auto step = static_cast<uint32_t>(steps_.size());
    const auto window = step - step % static_cast<uint32_t>(kWindow);
    uint32_t wave = 0;
    for (const Array& input : inputs) {
      const uint32_t before = marks.step_of(input.value()->node());
      if (before != kNoStep && before >= window) wave = std::max(wave, steps_[before].wave + 1);
    }
    marks.set_step(*frame.node, step);
    const bool takes = frame.node->operation().takes_inputs();
    steps_.push_back({std::move(frame.node), wave, static_cast<uint16_t>(step - window), takes});
    stack.pop_back();
  }
}

void Plan::sort_depth_first(std::span<Step> steps) { std::ranges::sort(steps, {}, &Step::place); }

void Plan::sort_windows() {
  uint32_t waves_before = 0;
  for (size_t begin = 0; begin < steps_.size(); begin += kWindow) {
    const auto first = steps_.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last =
        steps_.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kWindow, steps_.size()));
    const auto by_wave = [](const Step& a, const Step& b) {
      return a.wave != b.wave ? a.wave < b.wave : a.takes < b.takes;
    };
    if (!std::is_sorted(first, last, by_wave)) std::stable_sort(first, last, by_wave);
    for (auto step = first; step != last; ++step) step->wave += waves_before;
    waves_before = std::prev(last)->wave + 1;
  }
}

}  // namespace holdfast::array
