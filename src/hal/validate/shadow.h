#pragma once

#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "holdfast/hal/validate/history.h"

namespace holdfast::hal {

// Bytes of a Buffer with one story.
struct Interval {
  uint64_t end = 0;
  std::shared_ptr<Thing> life;  // whose bytes these are; null: nobody's yet
  bool is_written = false;      // by that life
  // Who touched them last. Accesses are those of one life, `user`, which a mark may have ended
  // before the next one touched anything.
  std::shared_ptr<Thing> user;
  AccessRecord write;
  // Since that write: the newest of each queue, which stands for those before it.
  boost::container::small_vector<AccessRecord, 1> reads;

  // Calls visit(access, writes) for each until it answers true.
  template <typename Visit>
  bool any_access(Visit visit) const {
    if (write && visit(write, true)) return true;
    for (const AccessRecord& read : reads) {
      if (visit(read, false)) return true;
    }
    return false;
  }
};

// What the model knows of each byte of one Buffer. Memory: in proportion to the ranges that lists
// in flight touch and that lives have; see sweep().
struct Shadow {
  using Intervals = std::map<uint64_t, Interval>;

  BufferId id;
  std::string name;
  Bytes size;
  Intervals intervals;  // by their first byte; disjoint
  Uses uses;
  // Of a Buffer without an owner: the Allocations that are not destroyed.
  std::vector<std::shared_ptr<Thing>> views;

  std::string describe() const;
  // The intervals that make up exactly [begin, end), which must not be empty; made where missing.
  // The second iterator is the one after.
  std::pair<Intervals::iterator, Intervals::iterator> cover(uint64_t begin, uint64_t end);
  // Forgets accesses that the host knows to be over and lives that are gone, and joins what tells
  // the same. Amortised: works only once as much was added as the last time was left.
  void sweep_if_due(const QueueClock& host);
  void sweep(const QueueClock& host);

 private:
  void split(uint64_t at);
  size_t sweep_at_ = 64;
};

// What one list changed, so that it can be taken back.
class Journal {
 public:
  void begin(std::shared_ptr<const ListRecord> list) {
    entries_.clear();
    list_ = std::move(list);
  }
  const std::shared_ptr<const ListRecord>& list() const noexcept { return list_; }

  struct Piece {  // was like this
    std::shared_ptr<Shadow> shadow;
    uint64_t begin;
    Interval before;
  };
  struct Read {  // in [begin, end) the list's read took the place of `before`
    std::shared_ptr<Shadow> shadow;
    uint64_t begin;
    uint64_t end;
    AccessRecord before;
  };
  struct Use {
    std::shared_ptr<Thing> thing;
    std::shared_ptr<Shadow> shadow;  // one of the two
    AccessRecord use;
    AccessRecord before;
  };
  template <typename T>
  void add(T entry) {
    entries_.emplace_back(std::move(entry));
  }
  // Newest first. Others may have read, split or swept the same bytes since; none can have written
  // them.
  void undo();

 private:
  std::shared_ptr<const ListRecord> list_;
  std::vector<std::variant<Piece, Read, Use>> entries_;
};

}  // namespace holdfast::hal
