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

// Most are a few words, for which a call takes longer than the copy.
void copy_parameters(std::byte* to, std::span<const std::byte> from) {
  constexpr size_t kWord = 4;
  constexpr size_t kFew = 32;
  size_t at = 0;
  if (from.size() <= kFew) {
    for (; at + kWord <= from.size(); at += kWord) std::memcpy(to + at, &from[at], kWord);
  }
  if (at < from.size()) std::memcpy(to + at, &from[at], from.size() - at);
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

std::string CommandList::describe() const {
  return fmt::format("list '{}' (id {})", name_, id_.value);
}

void CommandList::refuse_to_record() const {
  throw UsageError(fmt::format(
      "{} was submitted, moved from or abandoned, and records nothing any more", describe()));
}

std::string CommandList::where(const char* verb, std::string_view label) const {
  return label.empty() ? fmt::format("{} in {}", verb, describe())
                       : fmt::format("{} '{}' in {}", verb, label, describe());
}

void CommandList::check_bindings(std::span<const Binding> bindings, std::string_view label) const {
  if (bindings.size() > kMaxBindings) {
    throw UsageError(fmt::format("{}: {} bindings were given, and a command has at most {}",
                                 where("a command", label), bindings.size(), kMaxBindings));
  }
  for (size_t i = 0; i < bindings.size(); ++i) {
    const Binding& b = bindings[i];
    if (b.allocation != nullptr && b.slot >= 0) {
      throw UsageError(fmt::format("{}: binding {} names both {} and slot {}",
                                   where("a command", label), i, b.allocation->describe(), b.slot));
    }
    if (b.allocation == nullptr) {
      if (b.slot >= 0 && b.slot < kMaxSlots && b.range.fits_in(kMaxBytes)) continue;
      if (b.slot >= 0) {
        throw UsageError(
            fmt::format("{}: binding {} asks for {} bytes from byte {} of slot {}; slots are "
                        "numbered below {}, and a range must end within 64 bits",
                        where("a command", label), i, b.range.length.value, b.range.offset.value,
                        b.slot, kMaxSlots));
      }
      throw UsageError(fmt::format("{}: binding {} names no allocation (was its Ref moved from?)",
                                   where("a command", label), i));
    }
    if (b.allocation->device() != device_) {
      throw UsageError(fmt::format("{}: binding {}, {}, belongs to another device",
                                   where("a command", label), i, b.allocation->describe()));
    }
    if (!b.range.fits_in(b.allocation->size())) {
      throw UsageError(
          fmt::format("{}: binding {} asks for {} bytes from byte {} of {}, which has {} "
                      "bytes",
                      where("a command", label), i, b.range.length.value, b.range.offset.value,
                      b.allocation->describe(), b.allocation->size().value));
    }
  }
}

void CommandList::check_dispatch(const Ref<Pipeline>& pipeline, std::span<const Binding> bindings,
                                 const Parameters& parameters, const Groups& groups,
                                 std::string_view label) const {
  if (!pipeline) {
    throw UsageError(fmt::format("{}: no kernel was given (was its Ref moved from?)",
                                 where("a dispatch", label)));
  }
  if (pipeline->device() != device_) {
    throw UsageError(fmt::format("{}: {} belongs to another device", where("a dispatch", label),
                                 pipeline->describe()));
  }
  const uint64_t bytes =
      parameters.from_replay ? parameters.replay_range.length.value : parameters.bytes.size();
  if (parameters.from_replay && !parameters.replay_range.fits_in(kMaxBytes)) {
    throw UsageError(
        fmt::format("{}: {} is to take {} bytes from byte {} of a replay's parameters, which "
                    "ends beyond 64 bits",
                    where("a dispatch", label), pipeline->describe(), bytes,
                    parameters.replay_range.offset.value));
  }
  if (bytes > kMaxParameterBytes.value) {
    throw UsageError(fmt::format("{}: {} bytes of parameters were given to {}, and the limit is {}",
                                 where("a dispatch", label), bytes, pipeline->describe(),
                                 kMaxParameterBytes.value));
  }
  if (bytes != pipeline->parameter_bytes().value || bindings.size() != pipeline->bindings()) {
    throw UsageError(
        fmt::format("{}: {} takes {} bindings and {} bytes of parameters; it was given "
                    "{} and {}",
                    where("a dispatch", label), pipeline->describe(), pipeline->bindings(),
                    pipeline->parameter_bytes().value, bindings.size(), bytes));
  }
  if (groups.x > max_groups_.x || groups.y > max_groups_.y || groups.z > max_groups_.z) {
    throw UsageError(
        fmt::format("{}: a grid of {}x{}x{} groups was given to {}, and the device's "
                    "limit is {}x{}x{}",
                    where("a dispatch", label), groups.x, groups.y, groups.z, pipeline->describe(),
                    max_groups_.x, max_groups_.y, max_groups_.z));
  }
  check_bindings(bindings, label);
  const BindingLimits& limits = pipeline->binding_limits();
  for (size_t i = 0; i < bindings.size(); ++i) {
    const Binding& b = bindings[i];
    // A slot's own offset is known, and checked, when it is bound.
    const Bytes offset = b.range.offset + (b.allocation ? b.allocation->offset() : Bytes{});
    const bool aligned = (offset.value & (limits.alignment.value - 1)) == 0;
    if (aligned && b.range.length <= limits.length) continue;
    throw UsageError(
        b.range.length > limits.length
            ? fmt::format(
                  "{}: binding {} of {} is {} long, and this device's kernels reach at most "
                  "{} through one binding; bind parts of it",
                  where("a dispatch", label), i, pipeline->describe(), to_string(b.range.length),
                  to_string(limits.length))
            : fmt::format(
                  "{}: binding {} of {} begins at byte {} of its buffer, and on this device "
                  "that must be a multiple of {}",
                  where("a dispatch", label), i, pipeline->describe(), offset.value,
                  limits.alignment.value));
  }
}

void CommandList::check_copy(const Binding& from, const Binding& to, std::string_view label) const {
  check_bindings(std::array{from, to}, label);
  if (from.range.length != to.range.length) {
    throw UsageError(fmt::format("{}: {} bytes cannot be copied to a range of {}",
                                 where("a copy", label), from.range.length.value,
                                 to.range.length.value));
  }
  const bool same = from.allocation == to.allocation && from.slot == to.slot;
  if (same && from.range.overlaps(to.range)) {
    throw UsageError(
        fmt::format("{}: source and destination overlap in {}; copy through a third range",
                    where("a copy", label),
                    from.allocation != nullptr ? from.allocation->describe()
                                               : fmt::format("slot {}", from.slot)));
  }
}

size_t CommandList::index_of(const Command& command) const noexcept {
  size_t index = 0;
  for (const Command& c : *this) {
    if (&c == &command) break;
    if (!c.is_mark() && c.kind != CommandKind::barrier) ++index;
  }
  return index;
}

void CommandList::add_to_shape(uint64_t word) noexcept {
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

std::byte* CommandList::grow(size_t bytes) {
  make_room(bytes);
  std::byte* at = storage_.bytes.get() + used_;
  used_ += bytes;
  return at;
}

Command& CommandList::begin_record(CommandKind kind, size_t bytes) {
  Command& command = *new (grow(bytes)) Command;
  command.kind = kind;
  command.record_bytes = static_cast<uint32_t>(bytes);
  return command;
}

Command& CommandList::append(CommandKind kind, std::span<const Binding> bindings,
                             std::span<const std::byte> parameters, const std::string_view& label) {
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
  for (const Binding& b : bindings) {
    auto& bound = *new (at) BoundRange{b.allocation, {}, b.range, b.slot, b.access};
    needs_replay_ = needs_replay_ || b.slot >= 0;
    if (b.allocation != nullptr) {
      bound.id = b.allocation->id();
      if (!is_left_unheld(b)) hold(*b.allocation);
      if (keeps_users_) users_.emplace_back(b.allocation);
    }
    at += sizeof(BoundRange);
  }
  copy_parameters(at, parameters);
  if (label_bytes > 0) std::memcpy(at + parameters.size(), label.data(), label_bytes);
  if (!command.is_mark()) ++command_count_;
  return command;
}

void CommandList::dispatch_checked(const Ref<Pipeline>& pipeline, std::span<const Binding> bindings,
                                   const Parameters& parameters, const Groups& groups,
                                   const std::string_view& label) {
  Command& command = append(CommandKind::dispatch, bindings, parameters.bytes, label);
  command.pipeline = pipeline.get();
  command.pipeline_id = pipeline->id();
  command.groups = groups;
  command.parameters_from_replay = parameters.from_replay;
  command.replay_parameters = parameters.replay_range;
  needs_replay_ = needs_replay_ || parameters.from_replay;
  if (!command.is_idle()) {
    const bool nameless = ablated(Ablation::graph_key_without_kernels);
    add_to_shape(shape_word(CommandKind::dispatch, nameless ? 0 : command.pipeline_id.value));
  }
  const bool trusts_cache =
      ablated(Ablation::evicted_in_flight) || ablated(Ablation::kernel_key_clear_on_mismatch);
  if (!ablated(Ablation::pipelines_not_held) && !trusts_cache) hold(*pipeline);
#ifdef HOLDFAST_ABLATIONS
  if (ablated(Ablation::shared_parameter_slot)) {
    command.shared_parameters = share_parameters(*pipeline, parameters.bytes);
  }
#endif
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
    throw UsageError(fmt::format("{}: the callback is empty", where("a native command", label)));
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

void CommandList::mark_birth(const Allocation& allocation) {
  Command& mark = append(CommandKind::birth, {}, {}, allocation.name());
  mark.marked = allocation.id();
  mark.marked_buffer = allocation.buffer()->id();
  mark.marked_range = {allocation.offset(), allocation.size()};
}

void CommandList::mark_death(ResourceId id, BufferId buffer, ByteRange range) {
  Command& mark = append(CommandKind::death, {}, {}, {});
  mark.marked = id;
  mark.marked_buffer = buffer;
  mark.marked_range = range;
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
  storage_.holds.clear();
  return std::exchange(storage_, {});
}

}  // namespace holdfast::hal
