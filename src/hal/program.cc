#include "holdfast/hal/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "holdfast/base/error.h"
#include "holdfast/base/range_set.h"

namespace holdfast::hal {

namespace {

// The uses of one memory object by the commands of a list, in order.
struct UsesOfAllocation {
  ByteRange hull;
  bool reads_old = false;  // something is read that was not written before
  RangeSet written;
  size_t writes = 0;

  void add_read(const BoundRange& bound) {
    hull = hull.hull(bound.range);
    if (!bound.range.empty() && !written.contains(bound.range)) reads_old = true;
  }
  void add_write(const BoundRange& bound) {
    hull = hull.hull(bound.range);
    written.add(bound.range);
    ++writes;
  }
  // Whether what was in `range` before does not matter. A set that has joined ranges may claim too
  // much.
  bool overwrites(ByteRange range) const {
    return !reads_old && writes <= RangeSet::kMaxRanges && !range.empty() &&
           written.contains(range);
  }
};

}  // namespace

Program::Program(CommandList&& list)
    : Resource(list.device(), std::string(list.name())), list_(std::move(list)) {
  list_.abandon({});
  std::vector<UsesOfAllocation> of_slots;
  std::map<ResourceId, std::pair<Allocation*, UsesOfAllocation>> of_fixed;
  for (const Command& command : list_) {
    const auto uses_of = [&](const BoundRange& bound) -> UsesOfAllocation& {
      if (bound.slot < 0) {
        auto& [allocation, uses] = of_fixed[bound.id];
        allocation = bound.allocation;
        return uses;
      }
      const auto slot = static_cast<size_t>(bound.slot);
      if (slots_.size() <= slot) slots_.resize(slot + 1);
      if (of_slots.size() <= slot) of_slots.resize(slot + 1);
      return of_slots[slot];
    };
    for (const BoundRange& bound : command.bindings()) {
      UsesOfAllocation& uses = uses_of(bound);
      if (reads(bound.access)) uses.add_read(bound);
      if (bound.slot < 0) {
        fixed_.push_back(bound);
        continue;
      }
      SlotNeed& need = slots_[static_cast<size_t>(bound.slot)];
      need.bytes = std::max(need.bytes, bound.range.end());
      need.access = need.used ? static_cast<Access>(static_cast<unsigned>(need.access) |
                                                    static_cast<unsigned>(bound.access))
                              : bound.access;
      need.used = true;
      if (command.kind == CommandKind::dispatch) {
        need.alignment = std::max(need.alignment, command.pipeline->binding_limits().alignment);
      }
    }
    for (const BoundRange& bound : command.bindings()) {
      if (writes(bound.access)) uses_of(bound).add_write(bound);
    }
    if (command.parameters_from_replay) {
      parameter_bytes_ = std::max(parameter_bytes_, command.replay_parameters().end());
    }
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].overwrites = of_slots[i].overwrites({{}, slots_[i].bytes});
  }
  // Sorted by what they bind, each once: make_replay looks them up.
  const auto order = [](const BoundRange& b) {
    return std::tuple(b.id, b.range.offset, b.range.length, b.access);
  };
  std::ranges::sort(fixed_, {}, order);
  const auto repeated = std::ranges::unique(fixed_, {}, order);
  fixed_.erase(repeated.begin(), repeated.end());
  for (const auto& [id, fixed] : of_fixed) {
    const auto& [allocation, uses] = fixed;
    if (uses.overwrites(uses.hull)) overwritten_.push_back({allocation, uses.hull});
  }
}

std::string Program::describe() const {
  return fmt::format("program '{}' (id {})", name(), id().value);
}

Failure check_sealable(const CommandList& list, DeviceId device) {
  if (list.device() == device && list.ticket() && list.ticket()->state() == TicketState::open &&
      list.program() == nullptr) {
    return {};
  }
  return Failure(ErrorCode::usage,
                 fmt::format("{} cannot be sealed: it belongs to another device, was submitted "
                             "before, or is itself a replay",
                             list.describe()));
}

namespace {

bool collide(const BoundRange& a, const BoundRange& b) {
  return a.allocation != nullptr && a.allocation == b.allocation && a.range.overlaps(b.range) &&
         (writes(a.access) || writes(b.access));
}

// UsageError where two slots overlap and one of them is written. Sorts them, since programs may
// have hundreds.
void check_slots_apart(const Program& program, std::span<const BoundRange> slots) {
  std::vector<size_t> order;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].allocation != nullptr && !slots[i].range.empty()) order.push_back(i);
  }
  std::ranges::sort(order, {},
                    [&](size_t i) { return std::tuple(slots[i].id, slots[i].range.offset, i); });
  // Of those before in the same memory, the one that reaches farthest, and of those that are
  // written.
  std::optional<size_t> any;
  std::optional<size_t> written;
  for (const size_t i : order) {
    const auto reaches = [&](const std::optional<size_t>& other) {
      return other && slots[*other].id == slots[i].id;
    };
    const bool writes_it = writes(slots[i].access);
    for (const std::optional<size_t>& other : {any, written}) {
      if (!reaches(other) || !collide(slots[i], slots[*other])) continue;
      throw UsageError(
          fmt::format("{}: slots {} and {} overlap in {} and one is written; record a "
                      "program that knows them to be the same memory",
                      program.describe(), std::min(i, *other), std::max(i, *other),
                      slots[i].allocation->describe()));
    }
    const auto extend = [&](std::optional<size_t>& farthest) {
      if (!reaches(farthest) || slots[*farthest].range.end() < slots[i].range.end()) farthest = i;
    };
    extend(any);
    if (writes_it) extend(written);
  }
}

}  // namespace

CommandList make_replay(const DeviceInfo& device, const Ref<Program>& program,
                        std::span<const Binding> slots, std::span<const std::byte> parameters,
                        std::string name, LaneId lane) {
  if (!program) throw UsageError("a replay was given no program (was its Ref moved from?)");
  if (program->device() != device.id) {
    throw UsageError(fmt::format("{} belongs to another device", program->describe()));
  }
  const auto needs = program->slots();
  if (slots.size() != needs.size()) {
    throw UsageError(fmt::format("{} has {} slots, and {} were bound", program->describe(),
                                 needs.size(), slots.size()));
  }
  if (parameters.size() < program->parameter_bytes().value) {
    throw UsageError(fmt::format("{} takes {} bytes of parameters, and {} were given",
                                 program->describe(), program->parameter_bytes().value,
                                 parameters.size()));
  }
  CommandList list(device, std::move(name), lane);
  std::vector<BoundRange> bound(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!needs[i].used) continue;
    const Binding& b = slots[i];
    if (b.allocation == nullptr) {
      throw UsageError(
          fmt::format("{}: slot {} is bound to no allocation (was its Ref moved from?)",
                      program->describe(), i));
    }
    list.check_bindings({&b, 1}, fmt::format("slot {} of {}", i, program->describe()));
    if (b.range.length < needs[i].bytes) {
      throw UsageError(fmt::format("{}: slot {} needs {} bytes and was bound to {} of {}",
                                   program->describe(), i, needs[i].bytes.value,
                                   b.range.length.value, b.allocation->describe()));
    }
    const Bytes offset = b.allocation->offset() + b.range.offset;
    if (offset.value % needs[i].alignment.value != 0) {
      throw UsageError(
          fmt::format("{}: slot {} was bound from byte {} of {}'s buffer on, and its "
                      "kernels need a multiple of {}",
                      program->describe(), i, offset.value, b.allocation->describe(),
                      needs[i].alignment.value));
    }
    const auto given = static_cast<unsigned>(b.access);
    if ((given & static_cast<unsigned>(needs[i].access)) !=
        static_cast<unsigned>(needs[i].access)) {
      throw UsageError(fmt::format("{}: slot {} is used for {} and was bound for {}",
                                   program->describe(), i, to_string(needs[i].access),
                                   to_string(b.access)));
    }
    bound[i] = {b.allocation, b.allocation->id(), b.range, -1, needs[i].access};
    for (const BoundRange& fixed :
         std::ranges::equal_range(program->fixed_bindings(), bound[i].id, {}, &BoundRange::id)) {
      if (collide(bound[i], fixed)) {
        throw UsageError(
            fmt::format("{}: slot {} overlaps with what the program itself binds of {}, "
                        "and one is written",
                        program->describe(), i, b.allocation->describe()));
      }
    }
  }
  check_slots_apart(*program, bound);
  list.set_replay(program, std::move(bound), {parameters.begin(), parameters.end()});
  return list;
}

}  // namespace holdfast::hal
