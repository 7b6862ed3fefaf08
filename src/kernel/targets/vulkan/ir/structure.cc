#include "holdfast/kernel/targets/vulkan/ir/structure.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>

namespace holdfast::kernel::ir {
namespace {

// SPIR-V allows 1023.
constexpr int kMostNested = 500;
// Of our own calls: a unit that follows another is one deeper.
constexpr int kLongest = 3000;

struct Edge {
  uint32_t node = 0;  // where it goes
  Block* from = nullptr;
  Block* to = nullptr;  // null: no block of the function begins there
  std::optional<std::pair<uint32_t, uint32_t>> select{};  // selector, number
};

struct Node {
  Block* block = nullptr;
  Question question{};
  std::vector<Edge> edges{};  // of a question the one for yes first
  bool returns = false;
};

struct TooDeep {};

class Structurer {
 public:
  Structurer(Module& module, Function& function) : module_(module), function_(function) {}

  Structure run() {
    add_nodes();
    std::vector<uint32_t> all(nodes_.size());
    for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
    result_.steps = region(0, std::move(all), false).steps;
    result_.selectors = selectors_;
    return std::move(result_);
  }

 private:
  // ---- the graph ----

  void add_nodes() {
    std::unordered_map<const Block*, uint32_t> node_of;
    for (Block* block : function_.blocks) {
      node_of[block] = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({.block = block});
    }
    const auto edge = [&](Block* from, Block* to) {
      return Edge{.node = node_of.at(to), .from = from, .to = to};
    };
    for (Block* block : function_.blocks) {
      const uint32_t node = node_of.at(block);
      const Value& end = *block->end();
      switch (end.op) {
        // Who comes to what cannot be reached, a trap before it, must do nothing more.
        case Opcode::unreachable:
        case Opcode::ret: nodes_[node].returns = true; break;
        case Opcode::jump: nodes_[node].edges = {edge(block, end.blocks[0])}; break;
        case Opcode::branch:
          if (end.blocks[0] == end.blocks[1]) {
            nodes_[node].edges = {edge(block, end.blocks[0])};
          } else {
            nodes_[node].question.value = end.operands[0];
            nodes_[node].edges = {edge(block, end.blocks[0]), edge(block, end.blocks[1])};
          }
          break;
        case Opcode::choose: add_switch(node, *block, edge); break;
        default: break;
      }
    }
  }

  // One question for each target that a switch has besides its default.
  template <typename MakeEdge>
  void add_switch(uint32_t node, Block& block, const MakeEdge& edge) {
    const Value end = *block.end();
    std::vector<std::pair<Block*, Value*>> ways;
    const auto add = [&](Value value) {
      value.kind = ValueKind::instruction;
      value.type = module_.boolean();
      value.parent = &block;
      value.location = end.location;
      Value* made = module_.add(std::move(value));
      block.instructions.insert(block.instructions.end() - 1, made);
      return made;
    };
    for (size_t i = 1; i < end.operands.size(); ++i) {
      if (end.blocks[i] == end.blocks[0]) continue;
      Value* equal = add({.op = Opcode::icmp, .operands = {end.operands[0], end.operands[i]}});
      const auto same = [&](const auto& way) { return way.first == end.blocks[i]; };
      const auto known = std::ranges::find_if(ways, same);
      if (known == ways.end()) {
        ways.emplace_back(end.blocks[i], equal);
      } else {
        known->second = add({.op = Opcode::bit_or, .operands = {known->second, equal}});
      }
    }
    for (const auto& [to, asked] : ways) {
      const auto next = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      nodes_[node].question.value = asked;
      nodes_[node].edges = {edge(&block, to), Edge{.node = next, .from = &block}};
      node = next;
    }
    nodes_[node].edges = {edge(&block, end.blocks[0])};
  }

  // ---- regions: the function, and each loop ----

  // A node, or a loop with all that is in it.
  struct Unit {
    uint32_t node = 0;  // the first
    bool loop = false;
    std::vector<uint32_t> nodes{};
    // Filled in by region():
    std::vector<uint32_t> next{};  // units, in this region
    uint32_t edges_in = 0;         // from nodes that are units themselves
    uint32_t ways_in = 0;          // all
    int order = 0;
    int above = -1;  // its immediate dominator
    std::vector<uint32_t> joins{};
  };
  struct Done {
    Steps steps{};
    std::set<Target> pending{};  // where paths want to go at the end
  };

  // Nodes of a region that reach each other, in an order in which those that are reached by others
  // come first.
  std::vector<std::vector<uint32_t>> components(const std::vector<uint32_t>& nodes, uint32_t begin,
                                                bool loop) {
    struct Visit {
      uint32_t node;
      size_t edge;
    };
    std::unordered_map<uint32_t, uint32_t> number, low;
    std::vector<uint32_t> stack;
    std::set<uint32_t> on_stack;
    const std::set<uint32_t> within(nodes.begin(), nodes.end());
    std::vector<std::vector<uint32_t>> result;
    std::vector<Visit> open;
    const auto enter = [&](uint32_t node) {
      number[node] = low[node] = static_cast<uint32_t>(number.size());
      stack.push_back(node);
      on_stack.insert(node);
      open.push_back({node, 0});
    };
    enter(begin);
    while (!open.empty()) {
      Visit& visit = open.back();
      const uint32_t node = visit.node;
      if (visit.edge < nodes_[node].edges.size()) {
        const uint32_t to = nodes_[node].edges[visit.edge++].node;
        if (!within.contains(to) || (loop && to == begin)) continue;
        if (!number.contains(to)) {
          enter(to);
        } else if (on_stack.contains(to)) {
          low[node] = std::min(low[node], number[to]);
        }
        continue;
      }
      open.pop_back();
      if (!open.empty()) low[open.back().node] = std::min(low[open.back().node], low[node]);
      if (low[node] != number[node]) continue;
      std::vector<uint32_t>& one = result.emplace_back();
      for (uint32_t last = ~node; last != node;) {
        last = stack.back();
        stack.pop_back();
        on_stack.erase(last);
        one.push_back(last);
      }
    }
    return result;
  }

  // Where paths come into the component. Several ways in become one, which asks which it was.
  uint32_t begin_of(std::vector<uint32_t>& component, uint32_t region_begin) {
    const std::set<uint32_t> within(component.begin(), component.end());
    std::set<uint32_t> ways;
    if (within.contains(region_begin)) ways.insert(region_begin);
    for (uint32_t node = 0; node < nodes_.size(); ++node) {
      if (within.contains(node)) continue;
      for (const Edge& edge : nodes_[node].edges) {
        if (within.contains(edge.node)) ways.insert(edge.node);
      }
    }
    if (ways.size() == 1) return *ways.begin();
    const uint32_t selector = selectors_++;
    const auto first = static_cast<uint32_t>(nodes_.size());
    const size_t before = nodes_.size();
    uint32_t number = 0;
    for (const uint32_t way : ways) {
      for (size_t node = 0; node < before; ++node) {
        for (Edge& edge : nodes_[node].edges) {
          if (edge.node != way) continue;
          edge.select = {selector, number};
          edge.node = first;
        }
      }
      ++number;
    }
    number = 0;
    for (const uint32_t way : ways) {
      const auto here = static_cast<uint32_t>(nodes_.size());
      Node& made = nodes_.emplace_back();
      component.push_back(here);
      for (const LoopId loop : around_) result_.loops[loop].inside.insert(here);
      made.edges = {Edge{.node = way}};
      if (++number == ways.size()) break;
      made.question = {.selector = selector, .number = number - 1};
      made.edges.push_back(Edge{.node = here + 1});
    }
    return first;
  }

  class Region {
   public:
    Region(Structurer& owner, uint32_t begin, std::vector<uint32_t> nodes, bool loop)
        : owner_(owner), begin_(begin), loop_(loop) {
      find_units(std::move(nodes));
      find_dominators();
    }
    Done emit_all() { return emit(unit_of_.at(begin_), 0); }

   private:
    void find_units(std::vector<uint32_t> nodes) {
      std::vector<std::vector<uint32_t>> parts = owner_.components(nodes, begin_, loop_);
      std::ranges::reverse(parts);
      for (std::vector<uint32_t>& part : parts) {
        Unit unit{.node = part[0]};
        const auto& edges = owner_.nodes_[part[0]].edges;
        const bool cycle = part.size() > 1 || std::ranges::any_of(edges, [&](const Edge& edge) {
                             return edge.node == part[0] && !(loop_ && edge.node == begin_);
                           });
        if (cycle) {
          unit.loop = true;
          unit.node = owner_.begin_of(part, begin_);
          if (std::ranges::find(part, begin_) != part.end()) begin_ = unit.node;
        }
        unit.nodes = std::move(part);
        unit.order = static_cast<int>(units_.size());
        units_.push_back(std::move(unit));
      }
      for (uint32_t u = 0; u < units_.size(); ++u) {
        for (const uint32_t node : units_[u].nodes) unit_of_[node] = u;
      }
      for (uint32_t u = 0; u < units_.size(); ++u) {
        for (const uint32_t node : units_[u].nodes) {
          for (const Edge& edge : owner_.nodes_[node].edges) {
            const std::optional<uint32_t> v = inner(edge.node);
            if (!v || *v == u) continue;
            units_[u].next.push_back(*v);
            ++units_[*v].ways_in;
            if (!units_[u].loop) ++units_[*v].edges_in;
          }
        }
      }
    }
    // The unit of this region that an edge goes to; none: it leaves the region, or begins it anew.
    std::optional<uint32_t> inner(uint32_t node) const {
      if (loop_ && node == begin_) return std::nullopt;
      const auto it = unit_of_.find(node);
      if (it == unit_of_.end()) return std::nullopt;
      return it->second;
    }

    void find_dominators() {
      // Units stand in topological order.
      for (uint32_t u = 0; u < units_.size(); ++u) {
        for (const uint32_t v : units_[u].next) {
          int a = units_[v].above;
          int b = static_cast<int>(u);
          while (a >= 0 && a != b) {
            if (a > b)
              a = units_[static_cast<size_t>(a)].above;
            else
              b = units_[static_cast<size_t>(b)].above;
          }
          units_[v].above = b;
        }
      }
      for (uint32_t v = 0; v < units_.size(); ++v) {
        if (units_[v].above >= 0 && !is_nested(v)) {
          units_[static_cast<size_t>(units_[v].above)].joins.push_back(v);
        }
      }
    }
    // Whether it stands where the one edge to it is.
    bool is_nested(uint32_t v) const { return units_[v].ways_in == 1 && units_[v].edges_in == 1; }

    Done emit(uint32_t u, int length) {
      if (length > kLongest) throw TooDeep{};
      Unit& unit = units_[u];
      Done done;
      if (unit.loop) {
        emit_loop(unit, done);
      } else {
        emit_node(owner_.nodes_[unit.node], done, length);
      }
      for (const uint32_t v : unit.joins) {
        const Target target = units_[v].node;
        Done then = emit(v, length + 1);
        const bool alone = done.pending.size() == 1 && done.pending.contains(target);
        done.pending.erase(target);
        done.pending.insert(then.pending.begin(), then.pending.end());
        if (alone) {
          std::ranges::move(then.steps, std::back_inserter(done.steps));
        } else {
          owner_.result_.has_guards = true;
          done.steps.push_back(
              {.kind = Step::Kind::guarded, .target = target, .inside = std::move(then.steps)});
        }
      }
      return done;
    }
    void emit_loop(Unit& unit, Done& done) {
      const auto id = static_cast<LoopId>(owner_.result_.loops.size());
      owner_.result_.loops.push_back(
          {unit.node, std::set<Target>(unit.nodes.begin(), unit.nodes.end())});
      owner_.around_.push_back(id);
      Done body = owner_.region(unit.node, unit.nodes, true);
      owner_.around_.pop_back();
      body.pending.erase(unit.node);
      done.pending = std::move(body.pending);
      done.steps.push_back({.kind = Step::Kind::loop, .loop = id, .inside = std::move(body.steps)});
    }
    void emit_node(const Node& node, Done& done, int length) {
      if (node.block != nullptr) {
        done.steps.push_back({.kind = Step::Kind::block, .block = node.block});
      }
      if (node.edges.empty()) {
        if (node.returns) {
          done.pending = {kReturn};
          done.steps.push_back({.kind = Step::Kind::leave, .target = kReturn});
        }
      } else if (node.edges.size() == 1) {
        follow(node.edges[0], done, length);
      } else {
        Done yes, no;
        if (++owner_.depth_ > kMostNested) throw TooDeep{};
        follow(node.edges[0], yes, length);
        follow(node.edges[1], no, length);
        --owner_.depth_;
        done.pending = std::move(yes.pending);
        done.pending.insert(no.pending.begin(), no.pending.end());
        done.steps.push_back({.kind = Step::Kind::choice,
                              .question = node.question,
                              .inside = std::move(yes.steps),
                              .otherwise = std::move(no.steps)});
      }
    }
    void follow(const Edge& edge, Done& done, int length) {
      if (edge.from != nullptr && edge.to != nullptr) {
        done.steps.push_back({.kind = Step::Kind::pass, .block = edge.from, .to = edge.to});
      }
      if (edge.select) {
        done.steps.push_back(
            {.kind = Step::Kind::select,
             .question = {.selector = edge.select->first, .number = edge.select->second}});
      }
      const std::optional<uint32_t> v = inner(edge.node);
      if (v && is_nested(*v)) {
        Done then = emit(*v, length + 1);
        std::ranges::move(then.steps, std::back_inserter(done.steps));
        done.pending.insert(then.pending.begin(), then.pending.end());
        return;
      }
      done.pending.insert(edge.node);
      done.steps.push_back({.kind = Step::Kind::leave, .target = edge.node});
    }

    Structurer& owner_;
    uint32_t begin_;
    bool loop_;
    std::vector<Unit> units_;
    std::unordered_map<uint32_t, uint32_t> unit_of_;
  };

  Done region(uint32_t begin, std::vector<uint32_t> nodes, bool loop) {
    if (++depth_ > kMostNested) throw TooDeep{};
    Done done = Region(*this, begin, std::move(nodes), loop).emit_all();
    --depth_;
    return done;
  }

  Module& module_;
  Function& function_;
  std::deque<Node> nodes_;      // regions keep references while others add to it
  std::vector<LoopId> around_;  // the loops in which region() is
  uint32_t selectors_ = 0;
  int depth_ = 0;
  Structure result_;
};

}  // namespace

Result<Structure> structure(Module& module, Function& function) {
  remove_unreachable(function);
  try {
    return Structurer(module, function).run();
  } catch (const TooDeep&) {
    return Failure(ErrorCode::unsupported,
                   "its statements are nested more deeply than Vulkan allows; split the body");
  }
}

}  // namespace holdfast::kernel::ir
