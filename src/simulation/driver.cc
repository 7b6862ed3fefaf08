#include "holdfast/simulation/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "holdfast/base/error.h"

namespace holdfast::simulation {
namespace {

// How often time passes although something else could happen.
constexpr uint64_t kTimePasses = 64;

// A step may be taken again with other values chosen inside it: its footprint is the union.
void merge(Footprint& into, const Footprint& from) {
  for (const Touch& touch : from) {
    if (std::find(into.begin(), into.end(), touch) == into.end()) into.push_back(touch);
  }
}

}  // namespace

bool conflict(const Footprint& a, const Footprint& b) {
  for (const Touch& x : a) {
    for (const Touch& y : b) {
      if (x.object == y.object && (x.write || y.write) && x.begin < y.end && y.begin < x.end) {
        return true;
      }
    }
  }
  return false;
}

uint64_t Random::next() {
  // SplitMix64.
  state_ += 0x9E3779B97F4A7C15ULL;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

SeededDriver::SeededDriver(uint64_t seed)
    : random_(seed), style_(static_cast<Style>(random_.below(6))), forgotten_(random_.below(4)) {}

uint64_t SeededDriver::priority_of(const Actor& actor) {
  // All events of a source's queue (the upper part of a key) share one priority.
  const Actor owner = actor.kind == Actor::Kind::event ? Actor{actor.kind, actor.key >> 40} : actor;
  const auto [found, fresh] = priorities_.try_emplace(owner, 0);
  if (fresh || random_.one_in(64)) found->second = random_.next();
  return found->second;
}

size_t SeededDriver::among(std::span<const Actor> actors) {
  const auto events = static_cast<size_t>(std::count_if(
      actors.begin(), actors.end(), [](const Actor& a) { return a.kind == Actor::Kind::event; }));
  const size_t tasks = actors.size() - events;  // tasks come first
  switch (style_) {
    case Style::even: return random_.below(actors.size());
    case Style::sticky: return random_.one_in(8) ? random_.below(actors.size()) : 0;
    case Style::priorities: {
      size_t best = 0;
      uint64_t highest = 0;
      for (size_t i = 0; i < actors.size(); ++i) {
        const uint64_t priority = priority_of(actors[i]);
        if (i > 0 && priority <= highest) continue;
        best = i;
        highest = priority;
      }
      return best;
    }
    case Style::lazy_device:
      if (tasks > 0 && !random_.one_in(64)) return random_.below(tasks);
      return random_.below(actors.size());
    case Style::eager_device:
      if (events > 0 && !random_.one_in(8)) return tasks + random_.below(events);
      return random_.below(actors.size());
    case Style::one_forgotten: {
      const size_t i = random_.below(actors.size());
      const bool forgotten =
          actors[i].kind == Actor::Kind::event && ((actors[i].key >> 40) & 3U) == forgotten_;
      return forgotten && !random_.one_in(64) ? 0 : i;
    }
  }
  return 0;
}

size_t SeededDriver::choose_actor(std::span<const Actor> actors, const Footprint&) {
  if (actors.size() == 1) return 0;
  if (actors.back().kind == Actor::Kind::time) {
    if (random_.one_in(kTimePasses)) return actors.size() - 1;
    actors = actors.first(actors.size() - 1);
    if (actors.size() == 1) return 0;
  }
  return among(actors);
}

size_t Deviations::choose_actor(std::span<const Actor> actors, const Footprint&) {
  return actors.size() == 1 ? 0 : static_cast<size_t>(next(actors.size()));
}

uint64_t Deviations::next(uint64_t n) {
  const auto found = choices_.find(decision_++);
  return found == choices_.end() ? 0 : std::min(found->second, n - 1);
}

std::string to_string(const Deviations::Choices& choices) {
  if (choices.empty()) return "default";
  std::string text;
  for (const auto& [decision, choice] : choices) {
    text += fmt::format("{}{}.{}", text.empty() ? "" : "+", decision, choice);
  }
  return text;
}

Deviations::Choices parse_choices(std::string_view text) {
  Deviations::Choices choices;
  if (text == "default") return choices;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    uint64_t decision = 0;
    uint64_t choice = 0;
    auto [dot, first] = std::from_chars(at, end, decision);
    if (first != std::errc() || dot == end || *dot != '.') break;
    auto [rest, second] = std::from_chars(dot + 1, end, choice);
    if (second != std::errc()) break;
    choices[decision] = choice;
    if (rest == end) return choices;
    if (*rest != '+') break;
    at = rest + 1;
  }
  throw UsageError(fmt::format(
      "'{}' is no schedule: it must look like 12.1+40.2 (decision.choice), or be 'default'", text));
}

bool Exhaustive::sleeps(const Node& node, const Actor& actor) {
  const auto is = [&](const Done& done) { return done.actor == actor; };
  return std::any_of(node.asleep.begin(), node.asleep.end(), is) ||
         std::any_of(node.explored.begin(), node.explored.end(), is);
}

Exhaustive::Node* Exhaustive::last_step() {
  for (size_t i = depth_; i > 0; --i) {
    if (!nodes_[i - 1].actors.empty()) return &nodes_[i - 1];
  }
  return nullptr;
}

void Exhaustive::run_ended(const Footprint& last) {
  if (redundant_) return;
  if (Node* step = last_step()) merge(step->footprint, last);
}

void Exhaustive::enter(Node node) {
  nodes_.push_back(std::move(node));
  ++depth_;
}

size_t Exhaustive::choose_actor(std::span<const Actor> actors, const Footprint& last) {
  // Time passes only where nothing else can happen.
  if (actors.size() > 1 && actors.back().kind == Actor::Kind::time) {
    actors = actors.first(actors.size() - 1);
  }
  if (redundant_) return 0;
  const Node* const parent = last_step();
  run_ended(last);
  if (depth_ < nodes_.size()) {
    const Node& known = nodes_[depth_++];
    diverged_ = diverged_ ||
                !std::equal(known.actors.begin(), known.actors.end(), actors.begin(), actors.end());
    return known.chosen;
  }

  Node node;
  node.actors.assign(actors.begin(), actors.end());
  if (parent != nullptr) {
    const auto inherit = [&](const std::vector<Done>& from) {
      for (const Done& done : from) {
        if (done.actor != parent->actors[parent->chosen] && !conflict(done.footprint, last)) {
          node.asleep.push_back(done);
        }
      }
    };
    inherit(parent->asleep);
    inherit(parent->explored);
  }
  while (node.chosen < actors.size() && sleeps(node, actors[node.chosen])) ++node.chosen;
  if (node.chosen == actors.size()) {
    redundant_ = true;
    return 0;
  }
  const size_t chosen = node.chosen;
  enter(std::move(node));
  return chosen;
}

uint64_t Exhaustive::choose_value(uint64_t n) {
  if (redundant_) return 0;
  if (depth_ < nodes_.size()) {
    const Node& known = nodes_[depth_++];
    diverged_ = diverged_ || known.values != n;
    return known.chosen;
  }
  Node node;
  node.values = n;
  enter(std::move(node));
  return 0;
}

bool Exhaustive::next() {
  if (diverged_) {
    throw UsageError("the program does not repeat itself, so its schedules cannot be explored");
  }
  ++runs_;
  if (!redundant_) ++classes_;
  redundant_ = false;
  depth_ = 0;
  for (; !nodes_.empty(); nodes_.pop_back()) {
    Node& node = nodes_.back();
    if (node.actors.empty()) {
      if (++node.chosen < node.values) return true;
      continue;
    }
    node.explored.push_back({node.actors[node.chosen], std::move(node.footprint)});
    node.footprint.clear();
    size_t candidate = 0;
    while (candidate < node.actors.size() && sleeps(node, node.actors[candidate])) ++candidate;
    if (candidate == node.actors.size()) continue;
    node.chosen = candidate;
    return true;
  }
  return false;
}

}  // namespace holdfast::simulation
