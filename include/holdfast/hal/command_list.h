#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/hal/command.h"
#include "holdfast/hal/command_checks.h"
#include "holdfast/hal/device_info.h"
#include "holdfast/hal/holds.h"
#include "holdfast/hal/ticket.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

class Program;

// Memory of a finished list, for another list to use.
struct ListStorage {
  ListStorage() = default;
  ListStorage(ListStorage&& other) noexcept
      : bytes(std::move(other.bytes)),
        capacity(std::exchange(other.capacity, 0)),
        holds(std::move(other.holds)) {}
  ListStorage& operator=(ListStorage&& other) noexcept {
    bytes = std::move(other.bytes);
    capacity = std::exchange(other.capacity, 0);
    holds = std::move(other.holds);
    return *this;
  }

  std::unique_ptr<std::byte[]> bytes;
  size_t capacity = 0;
  Holds holds;
};

// Recorded commands as plain data, plus the Holds. Commands are unordered among each other unless a
// barrier stands between them.
//
// Every recording call takes what it uses by binding and holds it in the same step: there is no way
// to record a use without a hold. A call that is refused (UsageError, naming the object and the
// limit) has recorded nothing and held nothing. Not thread-safe. Dropping a list drops its holds
// and, if it was never submitted, abandons its Ticket.
class CommandList {
 public:
  using Storage = ListStorage;

  // A list for one device, with a Ticket of its own in `lane` (default: a lane of its own).
  CommandList(const DeviceInfo& device, std::string name, LaneId lane = LaneId::next(),
              Storage storage = {});
  CommandList(CommandList&&) noexcept;
  CommandList& operator=(CommandList&&) noexcept;
  ~CommandList();

  ListId id() const noexcept { return id_; }
  DeviceId device() const noexcept { return device_; }
  const std::string& name() const noexcept { return name_; }
  // "list 'step 3' (id 12)".
  std::string describe() const;
  const Ref<Ticket>& ticket() const noexcept { return ticket_; }

  // Checks what the calls below check, without recording.
  void check_dispatch(const Ref<Pipeline>& pipeline, std::span<const Binding> bindings,
                      const Parameters& parameters, const Groups& groups,
                      std::string_view label) const;
  void check_bindings(std::span<const Binding> bindings, std::string_view label) const;
  void check_copy(const Binding& from, const Binding& to, std::string_view label) const;

  // Cost: a copy of the bindings and parameters.
  void dispatch(const Ref<Pipeline>& pipeline, std::span<const Binding> bindings,
                const Parameters& parameters, const Groups& groups, std::string_view label = {});
  // For a recorder that has called check_dispatch itself.
  void dispatch_checked(const Ref<Pipeline>& pipeline, std::span<const Binding> bindings,
                        const Parameters& parameters, const Groups& groups,
                        const std::string_view& label);
  // Makes room, so that recording this much more cannot fail.
  void reserve(size_t commands, size_t bindings, size_t parameter_and_label_bytes);
  // Equal lengths; ranges that overlap in one Allocation are refused.
  void copy(const Ref<Allocation>& from, ByteRange from_range, const Ref<Allocation>& to,
            ByteRange to_range, std::string_view label = {});
  void copy(const Binding& from, const Binding& to, std::string_view label = {});
  void fill(const Ref<Allocation>& to, ByteRange range, std::byte value,
            std::string_view label = {});
  void fill(const Binding& to, std::byte value, std::string_view label = {});
  // The bindings declare what the callback reads and writes; they are held like any other.
  void native(NativeCallback callback, std::span<const Binding> bindings,
              std::string_view label = {});
  // For a recorder that must not copy the callback here, since copying may run users' code.
  void native(std::shared_ptr<const NativeCallback> callback, std::span<const Binding> bindings,
              std::string_view label = {});
  void barrier();
  // Marks. They hold nothing.
  void mark_birth(const Allocation& allocation);
  void mark_death(ResourceId id, BufferId buffer, ByteRange range);
  // Holds something that no command names (a Program, a staging buffer).
  void hold(const Resource& resource) { storage_.holds.add(resource, id_); }

  // From now on the list is also a user of what it binds. A Program needs that: between its replays
  // no list in flight vouches for the memory it names.
  void keep_users() noexcept { keeps_users_ = true; }
  bool keeps_users() const noexcept { return keeps_users_; }

  // Makes an empty list a replay of `program`; see make_replay in program.h, which checks.
  void set_replay(const Ref<Program>& program, std::vector<BoundRange> slots,
                  std::vector<std::byte> parameters);
  // Null for an ordinary list. A replay has no commands of its own: the Program's are executed with
  // these slots and parameters.
  const Program* program() const noexcept { return program_; }
  std::span<const BoundRange> slots() const noexcept { return slots_; }
  std::span<const std::byte> replay_parameters() const noexcept { return replay_parameters_; }
  // Of a command of this list or, if it is a replay, of its Program: its own, or from the replay's.
  std::span<const std::byte> parameters_of(const Command& command) const noexcept {
    if (!command.parameters_from_replay) return command.parameters();
    const ByteRange range = command.replay_parameters();
    return replay_parameters().subspan(range.offset.value, range.length.value);
  }

  // Whether the list binds slots or takes replay parameters, and so can run only as a Program.
  bool needs_replay() const noexcept { return needs_replay_; }

  // Does not count marks and barriers.
  size_t command_count() const noexcept { return command_count_; }
  size_t barrier_count() const noexcept { return barrier_count_; }
  bool empty() const noexcept { return command_count_ == 0 && program_ == nullptr; }
  // A hash of the commands, their pipelines and the barriers between them, not of what they bind:
  // backends find by it what they have made of such a list. Idle commands do not count. Different
  // lists may have the same.
  uint64_t shape_hash() const noexcept { return shape_hash_; }
  const Holds& holds() const noexcept { return storage_.holds; }
  const NativeCallback& native_callback(const Command& command) const {
    return *natives_[command.native_index];
  }

  // Forward iteration over the commands, in recorded order, marks and barriers included.
  class Iterator {
   public:
    using value_type = Command;
    using difference_type = std::ptrdiff_t;
    const Command& operator*() const noexcept { return *reinterpret_cast<const Command*>(at_); }
    const Command* operator->() const noexcept { return &**this; }
    Iterator& operator++() noexcept {
      at_ += (**this).record_bytes;
      return *this;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    friend class CommandList;
    explicit Iterator(const std::byte* at) noexcept : at_(at) {}
    const std::byte* at_;
  };
  // The index of one of the list's commands, not counting marks and barriers; for messages. Walks
  // the list.
  size_t index_of(const Command& command) const noexcept;
  Iterator begin() const noexcept { return Iterator(storage_.bytes.get()); }
  Iterator end() const noexcept { return Iterator(storage_.bytes.get() + used_); }

#ifdef HOLDFAST_ABLATIONS
  // Leaves the list without holds; see Ablation::destroyed_at_submit.
  Holds take_holds() noexcept { return std::exchange(storage_.holds, {}); }
#endif

  // Says that the list will never run: dependants get the failure. Only while its Ticket is open.
  void abandon(Failure why);
  // Returns the memory for another list to use. Drops all holds, so no lock may be held. Ends the
  // list: an open list is abandoned without a failure.
  Storage take_storage();

 private:
  void hold_pipeline(const Pipeline& pipeline);
  // With what every command has; the caller adds what only its kind has.
  Command& append(CommandKind kind, std::span<const Binding> bindings,
                  std::span<const std::byte> parameters, std::string_view label);
  // The same, but for the count.
  Command& append_here(CommandKind kind, std::span<const Binding> bindings,
                       std::span<const std::byte> parameters, std::string_view label);
  void record_dispatch(const Ref<Pipeline>& pipeline, std::span<const Binding> bindings,
                       const Parameters& parameters, const Groups& groups, std::string_view label);
  // A record of this many bytes, with the command alone filled in.
  Command& begin_record(CommandKind kind, size_t bytes);
  void mark(CommandKind kind, const Mark& mark, std::string_view label);
  void add_to_shape(uint64_t word) noexcept;
  void make_room(size_t bytes);
  void check_open() const {
    if (!ticket_ || ticket_->state() != TicketState::open) refuse_to_record();
  }
  [[noreturn]] void refuse_to_record() const;
  CommandChecks checks() const noexcept;

  ListId id_;
  DeviceId device_;
  Groups max_groups_;
  std::string name_;
  Ref<Ticket> ticket_;
  Storage storage_;
  size_t used_ = 0;
  size_t command_count_ = 0;
  size_t barrier_count_ = 0;
  uint64_t shape_hash_ = 0;
  bool needs_replay_ = false;
  std::vector<std::shared_ptr<const NativeCallback>> natives_;
  bool keeps_users_ = false;
  std::vector<Ref<Allocation>> users_;
  // Pipelines that the list holds, the latest few. Lists of many threads bind the same ones, so the
  // hint of who held them last is of no use.
  std::array<const Pipeline*, 4> held_pipelines_{};
  size_t next_held_pipeline_ = 0;
  const Program* program_ = nullptr;  // kept alive by the Holds
  std::vector<BoundRange> slots_;
  std::vector<std::byte> replay_parameters_;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
