#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "holdfast/array/node.h"

namespace holdfast::array {

// The graph between the placeholders of a function's arguments and what it returned. Immutable. It
// keeps the nodes with their inputs, whatever becomes of the arrays that f may have kept.
struct Trace {
  struct Step {
    Ref<Node> node;
    Node::Pin pin;  // goes before the node
    uint32_t wave = 0;
  };

  // Evaluates what depends on no placeholder: these are the constants. Raises their failures, and
  // those of nodes that f has evaluated in vain.
  Trace(std::vector<Array> placeholders, std::vector<Array> results);

  std::vector<Array> placeholders;
  std::vector<Array> results;
  std::vector<Array> constants;  // recorded results that steps use, each once
  std::vector<Step> steps;       // in an order to record them; waves ascend

  // Its number among the placeholders; as many as there are for anything else.
  size_t place_of(const Value& value) const;
  // Why it cannot become a program of this device; empty: it can.
  std::string obstacle(const DeviceState& device) const;
  std::string met_obstacle;  // while it was traced

 private:
  void evaluate_constants();

  std::unordered_map<const Value*, size_t> places_;
};

// What differs between two traces of one function, in a sentence; empty: nothing. Compares
// operations by name, and constants by their elements; waits for these.
std::string difference(const Trace& a, const Trace& b);

// While it lives, the calling task is inside a function that is being traced.
class Tracing {
 public:
  // `shapeless`: whoever compiles it, if views must not name lengths; else empty.
  explicit Tracing(std::string shapeless = {}) noexcept;
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;
  // The task's innermost one; null where there is none.
  static Tracing* current() noexcept;

  // A placeholder whose memory is only part of the argument's: the rest cannot be shown.
  void add_partial(const Array& placeholder) { partial_.insert(placeholder.value().get()); }
  bool is_partial(const Array& array) const { return partial_.contains(array.value().get()); }
  // Why the function cannot become a program; the first one counts.
  void add_obstacle(std::string why) {
    if (obstacle_.empty()) obstacle_ = std::move(why);
  }
  const std::string& obstacle() const noexcept { return obstacle_; }
  // UsageError if what is traced is to do for all lengths, and the array is an argument or made
  // inside.
  void refuse_lengths(const Array& array, const char* what) const;
  // An argument, or a result of a node that is built while something is traced for all lengths.
  void add_made(const Value& value) {
    if (!shapeless_.empty()) made_.insert(&value);
  }
  const std::unordered_set<const Value*>& made() const noexcept { return made_; }

 private:
  Tracing* before_;
  std::string shapeless_;
  std::unordered_set<const Value*> partial_;
  std::unordered_set<const Value*> made_;
  std::string obstacle_;
};

// To be called by whatever makes of lengths or positions what it gives: see Tracing.
inline void refuse_lengths(const Array& array, const char* what) {
  if (const Tracing* const tracing = Tracing::current()) tracing->refuse_lengths(array, what);
}

}  // namespace holdfast::array
