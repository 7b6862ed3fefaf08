#pragma once

#include <span>
#include <string>
#include <vector>

#include "holdfast/hal/command_list.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

// What a Program asks of one slot: the union of its commands' uses.
struct SlotNeed {
  Bytes bytes;                   // at least this long
  Access access = Access::read;  // the union
  Bytes alignment{1};            // of its offset in its Buffer
  bool used = false;
  // Whether all `bytes` are written before any is read, so that what was there before does not
  // matter.
  bool overwrites = false;
};

// A sealed list, submitted many times with different bindings and parameters. Immutable and
// thread-safe. It holds what its list holds, and is a user of it if the list was
// (CommandList::keep_users); each replay holds the Program.
class Program : public Resource {
 public:
  const CommandList& list() const noexcept { return list_; }
  std::span<const SlotNeed> slots() const noexcept { return slots_; }
  // What its commands bind without a slot.
  std::span<const BoundRange> fixed_bindings() const noexcept { return fixed_; }
  // The fixed bindings that every replay writes before it reads them: the program's own scratch.
  struct Overwritten {
    Allocation* allocation = nullptr;
    ByteRange range;
  };
  std::span<const Overwritten> overwritten() const noexcept { return overwritten_; }
  Bytes parameter_bytes() const noexcept { return parameter_bytes_; }
  std::string describe() const override;

 protected:
  // The list must not have been submitted; its Ticket is left abandoned without a failure, since
  // only replays run.
  explicit Program(CommandList&& list);

 private:
  CommandList list_;
  std::vector<SlotNeed> slots_;
  std::vector<BoundRange> fixed_;
  std::vector<Overwritten> overwritten_;
  Bytes parameter_bytes_;
};

// Whether a device may make a Program of the list.
Failure check_sealable(const CommandList& list, DeviceId device);

// A list that runs `program` once, for Queue::submit. UsageError where a slot lacks a binding, is
// too short, is given less access than the Program needs, or where two slots, or a slot and a fixed
// binding, overlap and one of them is written, since the Program's barriers do not account for
// that.
CommandList make_replay(const DeviceInfo& device, const Ref<Program>& program,
                        std::span<const Binding> slots, std::span<const std::byte> parameters,
                        std::string name, LaneId lane = LaneId::next());

}  // namespace holdfast::hal

#pragma GCC visibility pop
