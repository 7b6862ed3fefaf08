#include "holdfast/hal/command_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <new>

#include "holdfast/base/ablation.h"
#include "holdfast/base/error.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/base/rounding.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/hal/command_fault.h"
#include "holdfast/hal/program.h"
#include "holdfast/hal/unheld.h"

namespace holdfast::hal {
namespace {

constexpr size_t kRecordAlignment = alignof(Command);
constexpr size_t kFirstCapacity = 4096;

constexpr size_t aligned(size_t bytes) { return round_up(bytes, kRecordAlignment); }

static_assert(alignof(Command) >= alignof(BoundRange) &&
              sizeof(Command) % alignof(BoundRange) == 0);
static_assert(std::is_trivially_copyable_v<Command> && std::is_trivially_copyable_v<BoundRange>);

// A word of a list's shape: the command, and what else decides how it can be run again.
constexpr uint64_t shape_word(CommandKind kind, uint64_t more = 0) {
  return more << 8 | static_cast<uint64_t>(kind);
}
// Of a copy or fill: which kind of memory; a slot's is not known yet.
uint64_t memory_of(const Binding& b) {
  return b.allocation == nullptr ? 0xff : static_cast<uint64_t>(b.allocation->buffer()->kind());
}

// Most are a few words, for which a call takes longer than the copy: two words that may overlap.
void copy_parameters(std::byte* to, std::span<const std::byte> from) {
  const auto copy_ends = [&]<typename Word>(Word) {
    Word first;
    Word last;
    std::memcpy(&first, from.data(), sizeof first);
    std::memcpy(&last, from.data() + from.size() - sizeof last, sizeof last);
    std::memcpy(to, &first, sizeof first);
    std::memcpy(to + from.size() - sizeof last, &last, sizeof last);
  };
  const size_t size = from.size();
  if (size >= sizeof(uint32_t) && size <= 2 * sizeof(uint32_t)) {
    copy_ends(uint32_t{});
  } else if (size > sizeof(uint64_t) && size <= 2 * sizeof(uint64_t)) {
    copy_ends(uint64_t{});
  } else if (size > 0) {
    std::memcpy(to, from.data(), size);
  }
}

#ifdef HOLDFAST_ABLATIONS
// One place for the parameters of all dispatches of a pipeline; see
// Ablation::shared_parameter_slot.
const std::byte* share_parameters(const Pipeline& pipeline, std::span<const std::byte> bytes) {
  struct Places {
    sync::LeafMutex mutex;
    std::map<ResourceId, std::vector<std::byte>> all;
  };
  static NeverDestroyed<Places> places;
  Places& p = places.get();
  const sync::LeafLock lock(p.mutex);
  std::vector<std::byte>& place = p.all[pipeline.id()];
  place.resize(pipeline.parameter_bytes().value);
  std::copy(bytes.begin(), bytes.end(), place.begin());
  return place.data();
}
#endif

}  // namespace

const char* to_string(CommandKind kind) {
  switch (kind) {
    case CommandKind::dispatch: return "dispatch";
    case CommandKind::copy: return "copy";
    case CommandKind::fill: return "fill";
    case CommandKind::barrier: return "barrier";
    case CommandKind::native: return "native";
    case CommandKind::birth: return "birth";
    case CommandKind::death: return "death";
  }
  return "unknown";
}

CommandList::CommandList(const DeviceInfo& device, std::string name, LaneId lane, Storage storage)
    : id_(ListId::next()),
      device_(device.id),
      max_groups_(device.max_groups),
      name_(std::move(name)),
      ticket_(make_ref<Ticket>(id_, lane)),
      storage_(std::move(storage)) {}

CommandList::CommandList(CommandList&& other) noexcept
    : id_(other.id_),
      device_(other.device_),
      max_groups_(other.max_groups_),
      name_(std::move(other.name_)),
      ticket_(std::move(other.ticket_)),
      storage_(std::move(other.storage_)),
      used_(std::exchange(other.used_, 0)),
      command_count_(std::exchange(other.command_count_, 0)),
      barrier_count_(std::exchange(other.barrier_count_, 0)),
      shape_hash_(std::exchange(other.shape_hash_, 0)),
      needs_replay_(other.needs_replay_),
      natives_(std::move(other.natives_)),
      keeps_users_(other.keeps_users_),
      users_(std::move(other.users_)),
      held_pipelines_(std::exchange(other.held_pipelines_, {})),
      next_held_pipeline_(other.next_held_pipeline_),
      program_(std::exchange(other.program_, nullptr)),
      slots_(std::move(other.slots_)),
      replay_parameters_(std::move(other.replay_parameters_)) {}

CommandList& CommandList::operator=(CommandList&& other) noexcept {
  if (this != &other) {
    this->~CommandList();
    new (this) CommandList(std::move(other));
  }
  return *this;
}

CommandList::~CommandList() {
  if (ticket_ && ticket_->state() == TicketState::open) {
    abandon(Failure(ErrorCode::closed,
                    fmt::format("{} was dropped before it was submitted", describe())));
  }
}

std::string CommandList::describe() const { return checks().place(); }

void CommandList::refuse_to_record() const {
  throw UsageError(fmt::format(
      "{} was submitted, moved from or abandoned, and records nothing any more", describe()));
}

CommandChecks CommandList::checks() const noexcept {
  return {device_, max_groups_, CommandChecks::Place{"list", name_, id_}};
}

void CommandList::check_bindings(std::span<const Binding> bindings, std::string_view label) const {
  checks().bindings(bindings, label);
}

void CommandList::check_dispatch(const Ref<Pipeline>& pipeline, std::span<const Binding> bindings,
                                 const Parameters& parameters, const Groups& groups,
                                 std::string_view label) const {
  const CommandFault fault =
      fault_of_dispatch(pipeline.get(), bindings, parameters, groups, device_, max_groups_);
  if (fault) [[unlikely]] {
    checks().refuse(fault, pipeline, bindings, parameters, groups, label);
  }
}

void CommandList::check_copy(const Binding& from, const Binding& to, std::string_view label) const {
  checks().copy(from, to, label);
}

size_t CommandList::index_of(const Command& command) const noexcept {
  size_t index = 0;
  for (const Command& c : *this) {
    if (&c == &command) break;
    if (!c.is_mark() && c.kind != CommandKind::barrier) ++index;
  }
  return index;
}

inline void CommandList::add_to_shape(uint64_t word) noexcept {
  shape_hash_ = (shape_hash_ ^ word) * 0x9e3779b97f4a7c15U;
  shape_hash_ ^= shape_hash_ >> 32;
}

void CommandList::make_room(size_t bytes) {
  if (used_ + bytes <= storage_.capacity) return;
  const size_t capacity = std::max({kFirstCapacity, storage_.capacity * 2, used_ + bytes});
  std::unique_ptr<std::byte[]> larger(new std::byte[capacity]);
  if (used_ > 0) std::memcpy(larger.get(), storage_.bytes.get(), used_);
  storage_.bytes = std::move(larger);
  storage_.capacity = capacity;
}

void CommandList::reserve(size_t commands, size_t bindings, size_t parameter_and_label_bytes) {
  // Each command may bring a barrier of its own.
  make_room(commands * 2 * (sizeof(Command) + kRecordAlignment) + bindings * sizeof(BoundRange) +
            parameter_and_label_bytes);
  storage_.holds.reserve(commands + bindings);
}

inline Command& CommandList::begin_record(CommandKind kind, size_t bytes) {
  if (used_ + bytes > storage_.capacity) [[unlikely]] {
    make_room(bytes);
  }
  Command& command = *new (storage_.bytes.get() + used_) Command;
  used_ += bytes;
  command.kind = kind;
  command.record_bytes = static_cast<uint32_t>(bytes);
  return command;
}

// Inline in what records a dispatch, so that the command is written once.
[[gnu::always_inline]] inline Command& CommandList::append_here(
    CommandKind kind, std::span<const Binding> bindings, std::span<const std::byte> parameters,
    std::string_view label) {
  check_open();
  storage_.holds.reserve(bindings.size() + 1);
  const size_t label_bytes = std::min<size_t>(label.size(), 1024);
  Command& command =
      begin_record(kind, aligned(sizeof(Command) + bindings.size() * sizeof(BoundRange) +
                                 parameters.size() + label_bytes));
  command.binding_count = static_cast<uint16_t>(bindings.size());
  command.label_bytes = static_cast<uint16_t>(label_bytes);
  command.parameter_bytes = static_cast<uint32_t>(parameters.size());
  auto* at = reinterpret_cast<std::byte*>(&command + 1);
  const bool holds_all = !any_ablated();
  int32_t slots = -1;  // negative unless one is bound
  for (const Binding& b : bindings) {
    const ResourceId id = b.allocation != nullptr ? b.allocation->id() : ResourceId{};
    new (at) BoundRange{b.allocation, id, b.range, b.slot, b.access};
    if (b.allocation != nullptr && (holds_all || !is_left_unheld(b))) hold(*b.allocation);
    slots &= b.slot;
    at += sizeof(BoundRange);
  }
  if (slots >= 0) needs_replay_ = true;
  if (keeps_users_) [[unlikely]] {
    for (const Binding& b : bindings) {
      if (b.allocation != nullptr) users_.emplace_back(b.allocation);
    }
  }
  copy_parameters(at, parameters);
  if (label_bytes > 0) std::memcpy(at + parameters.size(), label.data(), label_bytes);
  return command;
}

Command& CommandList::append(CommandKind kind, std::span<const Binding> bindings,
                             std::span<const std::byte> parameters, std::string_view label) {
  Command& command = append_here(kind, bindings, parameters, label);
  if (!command.is_mark()) ++command_count_;
  return command;
}

[[gnu::always_inline]] inline void CommandList::record_dispatch(const Ref<Pipeline>& pipeline,
                                                                std::span<const Binding> bindings,
                                                                const Parameters& parameters,
                                                                const Groups& groups,
                                                                std::string_view label) {
  std::span<const std::byte> recorded = parameters.bytes;
  if (parameters.from_replay) recorded = std::as_bytes(std::span(&parameters.replay_range, 1));
  Command& command = append_here(CommandKind::dispatch, bindings, recorded, label);
  ++command_count_;
  command.pipeline = pipeline.get();
  command.pipeline_id = pipeline->id();
  command.groups = groups;
  if (parameters.from_replay) {
    command.parameters_from_replay = true;
    needs_replay_ = true;
  }
  const bool any = any_ablated();
  if (groups.x != 0 && groups.y != 0 && groups.z != 0) {
    const bool nameless = any && ablated(Ablation::graph_key_without_kernels);
    add_to_shape(shape_word(CommandKind::dispatch, nameless ? 0 : pipeline->id().value));
  }
  const bool left_unheld =
      any && (ablated(Ablation::pipelines_not_held) || ablated(Ablation::evicted_in_flight) ||
              ablated(Ablation::kernel_key_clear_on_mismatch));
  if (!left_unheld) hold_pipeline(*pipeline);
#ifdef HOLDFAST_ABLATIONS
  if (any && ablated(Ablation::shared_parameter_slot) && !parameters.from_replay) {
    command.shared_parameters = share_parameters(*pipeline, parameters.bytes);
  }
#endif
}

void CommandList::dispatch(const Ref<Pipeline>& pipeline, std::span<const Binding> bindings,
                           const Parameters& parameters, const Groups& groups,
                           std::string_view label) {
  const CommandFault fault =
      fault_of_dispatch(pipeline.get(), bindings, parameters, groups, device_, max_groups_);
  if (fault) [[unlikely]] {
    checks().refuse(fault, pipeline, bindings, parameters, groups, label);
  }
  record_dispatch(pipeline, bindings, parameters, groups, label);
}

void CommandList::dispatch_checked(const Ref<Pipeline>& pipeline, std::span<const Binding> bindings,
                                   const Parameters& parameters, const Groups& groups,
                                   const std::string_view& label) {
  record_dispatch(pipeline, bindings, parameters, groups, label);
}

void CommandList::hold_pipeline(const Pipeline& pipeline) {
  for (const Pipeline* held : held_pipelines_) {
    if (held == &pipeline) return;
  }
  hold(pipeline);
  held_pipelines_[next_held_pipeline_++ % held_pipelines_.size()] = &pipeline;
}

void CommandList::copy(const Ref<Allocation>& from, ByteRange from_range, const Ref<Allocation>& to,
                       ByteRange to_range, std::string_view label) {
  copy(Binding::of(from, from_range, Access::read), Binding::of(to, to_range, Access::write),
       label);
}

void CommandList::copy(const Binding& from, const Binding& to, std::string_view label) {
  check_copy(from, to, label);
  std::array ends{from, to};
  ends[0].access = Access::read;
  ends[1].access = Access::write;
  if (!append(CommandKind::copy, ends, {}, label).is_idle()) {
    add_to_shape(shape_word(CommandKind::copy, memory_of(from) << 8 | memory_of(to)));
  }
}

void CommandList::fill(const Ref<Allocation>& to, ByteRange range, std::byte value,
                       std::string_view label) {
  fill(Binding::of(to, range, Access::write), value, label);
}

void CommandList::fill(const Binding& to, std::byte value, std::string_view label) {
  check_bindings({&to, 1}, label);
  Binding target = to;
  target.access = Access::write;
  Command& command = append(CommandKind::fill, {&target, 1}, {}, label);
  command.fill_value = value;
  if (!command.is_idle()) add_to_shape(shape_word(CommandKind::fill, memory_of(to)));
}

void CommandList::native(NativeCallback callback, std::span<const Binding> bindings,
                         std::string_view label) {
  native(std::make_shared<const NativeCallback>(std::move(callback)), bindings, label);
}

void CommandList::native(std::shared_ptr<const NativeCallback> callback,
                         std::span<const Binding> bindings, std::string_view label) {
  if (!callback || !*callback) {
    throw UsageError(
        fmt::format("{}: the callback is empty", checks().where("a native command", label)));
  }
  check_open();
  check_bindings(bindings, label);
  natives_.push_back(std::move(callback));
  append(CommandKind::native, bindings, {}, label).native_index =
      static_cast<uint32_t>(natives_.size() - 1);
  add_to_shape(shape_word(CommandKind::native));
}

void CommandList::barrier() {
  check_open();
  begin_record(CommandKind::barrier, sizeof(Command));
  ++barrier_count_;
  add_to_shape(shape_word(CommandKind::barrier));
}

void CommandList::mark(CommandKind kind, const Mark& mark, std::string_view label) {
  append(kind, {}, std::as_bytes(std::span(&mark, 1)), label);
}

void CommandList::mark_birth(const Allocation& allocation) {
  mark(CommandKind::birth,
       {allocation.id(), allocation.buffer()->id(), {allocation.offset(), allocation.size()}},
       allocation.name());
}

void CommandList::mark_death(ResourceId id, BufferId buffer, ByteRange range) {
  mark(CommandKind::death, {id, buffer, range}, {});
}

void CommandList::set_replay(const Ref<Program>& program, std::vector<BoundRange> slots,
                             std::vector<std::byte> parameters) {
  hold(*program);
  for (const BoundRange& slot : slots) {
    if (slot.allocation != nullptr) hold(*slot.allocation);
  }
  program_ = program.get();
  slots_ = std::move(slots);
  replay_parameters_ = std::move(parameters);
}

void CommandList::abandon(Failure why) {
  check_open();
  ticket_->mark_abandoned(std::move(why));
}

CommandList::Storage CommandList::take_storage() {
  if (ticket_ && ticket_->state() == TicketState::open) abandon({});
  used_ = 0;
  command_count_ = barrier_count_ = 0;
  shape_hash_ = 0;
  program_ = nullptr;
  held_pipelines_ = {};
  storage_.holds.clear();
  return std::exchange(storage_, {});
}

}  // namespace holdfast::hal
