#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/hal/command.h"
#include "holdfast/hal/timeline.h"

// What the validation model remembers of lists, commands and lives, and how it words them. Text is
// put together for a violation only.

namespace holdfast::hal {

// For each queue of a device, the newest value known to be over.
class QueueClock {
 public:
  explicit QueueClock(size_t queues = 0) : over_(queues, 0) {}
  bool covers(uint32_t queue, uint64_t value) const noexcept { return over_[queue] >= value; }
  bool is_covered_by(const QueueClock& other) const noexcept {
    return std::equal(over_.begin(), over_.end(), other.over_.begin(), std::less_equal<>());
  }
  uint64_t at(uint32_t queue) const noexcept { return over_[queue]; }
  void raise(uint32_t queue, uint64_t value) noexcept {
    over_[queue] = std::max(over_[queue], value);
  }
  void join(const QueueClock& other) noexcept {
    for (size_t i = 0; i < over_.size(); ++i) over_[i] = std::max(over_[i], other.over_[i]);
  }

 private:
  boost::container::small_vector<uint64_t, 4> over_;
};

// One command of a list that the model has entered.
struct CommandRecord {
  CommandKind kind = CommandKind::barrier;
  uint16_t label_bytes = 0;
  uint32_t index = 0;  // among the list's commands, without marks and barriers
  uint32_t wave = 0;
  uint32_t label_at = 0;                      // in the list's text
  std::shared_ptr<const std::string> kernel;  // of a dispatch
};

struct ListName {
  ListId id;
  std::string name;
  // "list 'decode' (id 7)".
  std::string describe() const;
};

// A list as it was submitted, shared by all that remembers one of its commands.
struct ListRecord {
  std::shared_ptr<const ListName> title;
  // The Program that it replays; none for others.
  ResourceId program;
  std::shared_ptr<const std::string> program_name;
  uint32_t queue = 0;
  std::shared_ptr<const std::string> queue_name;
  uint64_t value = 0;
  QueueClock clock;  // what is over before it begins, itself included
  std::vector<CommandRecord> commands;
  std::string labels;

  // "list 'decode' (id 7)", and what it replays.
  std::string describe() const;
  // "cpu queue 0 @ 3".
  std::string point() const;
};

// A command of a list; empty: none.
struct AccessRecord {
  std::shared_ptr<const ListRecord> list;
  uint32_t command = 0;

  explicit operator bool() const noexcept { return list != nullptr; }
  const CommandRecord& record() const noexcept { return list->commands[command]; }
  // Whether this one is over before `later` begins.
  bool is_before(const AccessRecord& later) const noexcept {
    if (list == later.list) return record().wave < later.record().wave;
    return later.list->clock.covers(list->queue, list->value);
  }
  bool is_known_to(const QueueClock& host) const noexcept {
    return host.covers(list->queue, list->value);
  }
  // "kernel 'rms' (command 2 of list 'decode' (id 7) on cpu queue 1 @ 4)".
  std::string describe() const;
  // What would order a command after this one: "wait for cpu queue 1 @ 4".
  std::string advice(const AccessRecord* later) const;
};

// The newest command of each queue that needs a thing.
class Uses {
 public:
  // Whether that changes anything; `before` is then what it replaces, or empty.
  bool note(const AccessRecord& use, AccessRecord& before);
  // Undoes that.
  void restore(const AccessRecord& use, AccessRecord before);
  // One that the host has not seen over; null: none.
  const AccessRecord* in_flight(const QueueClock& host) const noexcept;
  void clear() noexcept { newest_.clear(); }
  auto begin() const noexcept { return newest_.begin(); }
  auto end() const noexcept { return newest_.end(); }

 private:
  boost::container::small_vector<AccessRecord, 1> newest_;
};

struct Shadow;
struct Thing;

// The Allocation whose life it is: itself, but for a view of another.
const std::shared_ptr<Thing>& life_of(const std::shared_ptr<Thing>& allocation);

// Anything with a ResourceId that a list may need, as the model knows it. Outlives the object.
struct Thing {
  enum class Kind : uint8_t { allocation, pipeline, program };
  Kind kind = Kind::allocation;
  ResourceId id;
  std::shared_ptr<const std::string> name;
  Uses uses;
  bool is_gone = false;       // destroyed, or kept by the model alone
  bool was_reported = false;  // as destroyed too early
  // Allocations: where it lies, and the story of its life.
  ByteRange range;
  // The Allocation whose life this one shares; null: it has its own. Allocations of a Buffer that
  // nobody gives ranges of are views of one life where they overlap and live at the same time.
  std::shared_ptr<Thing> shares;
  uint32_t views = 1;  // those that are not destroyed, of a life
  std::shared_ptr<Shadow> shadow;
  std::source_location site;
  bool judges_initialization = false;
  bool noted_partly = false;
  bool is_dead = false;
  std::shared_ptr<const ListName> died_after;  // null: before anything was submitted
  // Of a Program: of each command's parameters, marks and barriers left out. Of a Pipeline whose
  // dispatches share theirs: of those of the last one.
  std::vector<uint64_t> parameter_hashes;

  // "allocation 'scratch' (id 12, 4.0 KiB)".
  std::string describe() const;
  // ", created at src/x.cc:12"; empty where that is not known.
  std::string origin() const;
  // "it lost its last user after list 'x' (id 5) was submitted"; empty while it has users.
  std::string end() const;
};

}  // namespace holdfast::hal
