#pragma once

#include <boost/container/small_vector.hpp>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/bytes.h"
#include "holdfast/base/error.h"
#include "holdfast/base/range_set.h"
#include "holdfast/hal/access.h"
#include "holdfast/hal/ticket.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

// Remembers who touched an Allocation, as long as somebody may still have to wait for them. It
// knows lists only; the recorder handles hazards inside one list. Not thread-safe: see
// Allocation::history.
class AccessHistory {
 public:
  // `of` is the Allocation whose history it is: Damage names it.
  explicit AccessHistory(ResourceId of = {}) noexcept : of_(of) {}

  // A host access under way, which no list may conflict with.
  struct HostAccess {
    ByteRange range;
    Access access = Access::read;
    std::string name;
    // An access that conflicts with a map is refused. A readback is a copy under way, and others
    // wait for it.
    bool is_map = false;
    uint64_t serial = 0;  // tells accesses apart
  };
  using Tickets = boost::container::small_vector<Ref<Ticket>, 4>;

  // What stands in the way of an access. find_obstacles appends to it, so that one Obstacles serves
  // all bindings of a transaction.
  struct Obstacles {
    // Lists of other lanes that must be submitted first.
    Tickets open;
    // The first cause found: a failed writer's, or a UsageError that names a conflicting map.
    Failure refusal;
    bool readback_under_way = false;

    bool none() const noexcept { return open.empty() && !refusal && !readback_under_way; }
  };

  // Changes only `obstacles`. `what` describes the Allocation for the message, and is called only
  // if there is one.
  template <typename Describe>
  void find_obstacles(ByteRange range, Access access, LaneId lane, const Ticket* own,
                      Obstacles& obstacles, const Describe& what) const {
    // A first access, after earlier lives of the same lane at most.
    if (writers_.empty() && readers_.empty() && host_accesses_.empty() && others_.is_of(lane)) {
      return;
    }
    Conflict conflict = first_conflict(range, access, lane, own, obstacles);
    if (conflict.found && !obstacles.refusal)
      obstacles.refusal = conflict_failure(conflict, what());
  }

  // How exactly a range says what an access touches.
  enum class Extent : bool {
    exact,  // one command binds just this range
    hull    // commands bind some of it, and may leave the rest alone: a slot of a replay
  };
  // Records the access of list `own` and appends the waits that the list needs for it, each data
  // wait with the bytes that it is about. Call it only if there are no obstacles, in the same
  // critical section. Each Point is waited for once.
  void add_access(ByteRange range, Access access, const Ref<Ticket>& own, ListWaits& waits,
                  Extent extent = Extent::exact);

  // The Tickets that a host access to the range must wait for: its writers, or (to write) all
  // users. Earlier lives count as users.
  void collect(ByteRange range, Access access, Tickets& out) const;
  // The cause, if a failed writer left bytes of the range bad and nobody has overwritten them
  // since. Everything else that a failed list wrote is good.
  Failure poison(ByteRange range) const;

  // Adds all Tickets that are not over.
  void add_to(Frontier& frontier) const;
  // The same to an empty one, once the Allocation is dead: afterwards the history may know nobody.
  void leave_to(Frontier& frontier);
  Frontier frontier() const {
    Frontier all;
    add_to(all);
    return all;
  }
  // The range had an earlier life that these Tickets may still touch.
  void set_earlier_life(Frontier frontier) noexcept { others_ = std::move(frontier); }

  void begin_host_access(HostAccess access) { host_accesses_.push_back(std::move(access)); }
  void end_host_access(const HostAccess& access);
  // Null if there is none.
  const HostAccess* host_conflict(ByteRange range, Access access) const;
  // The host has overwritten the range: a failed writer's bytes there are good again.
  void host_wrote(ByteRange range) { forget_written(range, nullptr); }

 private:
  struct Entry {
    Entry(const Ref<Ticket>& of, ByteRange range) : ticket(of), bytes(range) {}
    Ref<Ticket> ticket;
    RangeSet bytes;
  };
  struct Conflict {
    bool found = false;
    Failure poison;  // else a map:
    const HostAccess* map = nullptr;
  };
  // Most memory is used by one list: the size of an Allocation counts where there are many.
  using Entries = boost::container::small_vector<Entry, 1>;

  Conflict first_conflict(ByteRange range, Access access, LaneId lane, const Ticket* own,
                          Obstacles& obstacles) const;
  static Failure conflict_failure(const Conflict& conflict, const std::string& what);
  void forget_written(ByteRange range, const Ticket* except);
  void keep_in_order(const Ref<Ticket>& writer, const RangeSet& written, ByteRange range);
  void join_oldest_writer(const Ref<Ticket>& own, ListWaits& waits);
  // The list waits for the data that the writer leaves in the range.
  void await_data(const Entry& writer, ByteRange range, bool answers, ListWaits& waits) const;
  // Why bytes that this writer left in the range are bad; none until the writer is over.
  Failure failure_of(const Entry& writer, ByteRange range) const;

  ResourceId of_;
  // Writers whose bytes may still be read, oldest first; one entry a list. A writer that left bytes
  // bad stays until somebody has overwritten them.
  Entries writers_;
  // Those who only read, and writers of bytes that others have overwritten since; one entry a list.
  Entries readers_;
  // Everybody else who may still touch the bytes: earlier lives, overwritten writers and readers.
  Frontier others_;
  std::vector<HostAccess> host_accesses_;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
