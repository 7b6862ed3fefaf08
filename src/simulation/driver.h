#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace holdfast::simulation {

// Who can act: a task, an event of a source, or time itself (which passes until the next deadline).
// The same actor has the same value in every run of one program.
struct Actor {
  enum class Kind : uint8_t { task, event, time };
  Kind kind = Kind::task;
  uint64_t key = 0;
  friend auto operator<=>(const Actor&, const Actor&) = default;
};

// What a step read and wrote, in so far as steps of other actors may too.
struct Touch {
  uint64_t object = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool write = false;
  friend bool operator==(const Touch&, const Touch&) = default;
};
using Footprint = std::vector<Touch>;
// Whether the order of two steps can matter.
bool conflict(const Footprint& a, const Footprint& b);

// Decides what happens. Not thread-safe; one run at a time.
class Driver {
 public:
  virtual ~Driver() = default;
  // Which of the actors makes the next step. The first one is the default: the present task goes
  // on, else the oldest one that can, else the first event, else time. `last` is what the step
  // before touched.
  virtual size_t choose_actor(std::span<const Actor> actors, const Footprint& last) = 0;
  // A value below n, n > 1; 0 by default.
  virtual uint64_t choose_value(uint64_t n) = 0;
  // The run is over; `last` is what its last step touched.
  virtual void run_ended(const Footprint& last) { (void)last; }
};

// Small, fast, and the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  uint64_t below(uint64_t n) { return next() % n; }
  bool one_in(uint64_t n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

// By a seed. What kind of hostility a run shows is decided by the seed as well: even chances; long
// stretches of one task; strict priorities that change now and then; a device that does nothing
// until it must, or everything at once; one queue that is forgotten.
class SeededDriver final : public Driver {
 public:
  explicit SeededDriver(uint64_t seed);
  size_t choose_actor(std::span<const Actor> actors, const Footprint& last) override;
  uint64_t choose_value(uint64_t n) override { return random_.below(n); }

 private:
  enum class Style : uint8_t { even, sticky, priorities, lazy_device, eager_device, one_forgotten };
  uint64_t priority_of(const Actor& actor);
  size_t among(std::span<const Actor> actors);

  Random random_;
  Style style_;
  uint64_t forgotten_;
  std::map<Actor, uint64_t> priorities_;
};

// The default everywhere, except at some decisions: how a schedule is written down, replayed and
// made shorter. Decisions are numbered from zero; only those with more than one option count.
class Deviations final : public Driver {
 public:
  using Choices = std::map<uint64_t, uint64_t>;  // decision -> what was chosen

  explicit Deviations(Choices choices = {}) : choices_(std::move(choices)) {}
  size_t choose_actor(std::span<const Actor> actors, const Footprint& last) override;
  uint64_t choose_value(uint64_t n) override { return next(n); }

 private:
  uint64_t next(uint64_t n);
  Choices choices_;
  uint64_t decision_ = 0;
};
// "12.1+40.2", safe in a shell; and back. UsageError says what cannot be read.
std::string to_string(const Deviations::Choices& choices);
Deviations::Choices parse_choices(std::string_view text);

// Every schedule that differs from the others in more than the order of steps that do not conflict:
// one of each class, by sleep sets. Use: do { run } while (driver.next()). Kernels are taken to
// touch what is bound to them and nothing else.
class Exhaustive final : public Driver {
 public:
  size_t choose_actor(std::span<const Actor> actors, const Footprint& last) override;
  uint64_t choose_value(uint64_t n) override;
  void run_ended(const Footprint& last) override;

  // Prepares the next run; false when there is none. UsageError where a run met other choices than
  // the one before it had at the same place: the program does not repeat itself.
  bool next();
  // Runs that were of a class of their own. The others were cut short as equal to one of these.
  uint64_t classes() const noexcept { return classes_; }
  uint64_t runs() const noexcept { return runs_; }

 private:
  struct Done {
    Actor actor;
    Footprint footprint;
  };
  struct Node {
    std::vector<Actor> actors;  // empty: a choice of a value
    uint64_t values = 0;
    size_t chosen = 0;
    Footprint footprint;  // of the chosen step, known once the next decision is asked
    std::vector<Done> asleep;
    std::vector<Done> explored;
  };
  static bool sleeps(const Node& node, const Actor& actor);
  // The newest choice of an actor among those made in this run; null before the first.
  Node* last_step();
  void enter(Node node);

  std::vector<Node> nodes_;
  size_t depth_ = 0;
  bool redundant_ = false;
  bool diverged_ = false;
  uint64_t classes_ = 0;
  uint64_t runs_ = 0;
};

}  // namespace holdfast::simulation
