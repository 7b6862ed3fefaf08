#include "holdfast/hal/validate/access_checker.h"

#include <algorithm>
#include <utility>

#include "holdfast/base/hash.h"
#include "holdfast/hal/program.h"

namespace holdfast::hal {

uint64_t parameter_hash(const Command& command) { return digest_of(command.parameters()).words[0]; }

bool AccessChecker::enter_list(uint32_t q, const Work& work) {
  ModelState::QueueState& queue = state_.queues[q];
  const CommandList& list = *work.list;
  record_ = std::make_shared<ListRecord>();
  record_->title = std::make_shared<const ListName>(ListName{list.id(), list.name()});
  record_->queue = q;
  record_->queue_name = queue.name;
  record_->value = work.point.value.value;
  record_->clock = queue.last;
  record_->clock.join(state_.host);
  for (const Wait& wait : work.waits) state_.join_point_locked(record_->clock, wait.point);
  record_->clock.raise(q, record_->value);
  journal_ = &queue.journal;
  journal_->begin(record_);

  if (!find_program(list)) return false;
  const CommandList& commands = replay_ != nullptr ? list.program()->list() : list;
  record_->commands.reserve(commands.command_count());
  uint32_t index = 0;
  uint32_t wave = 0;
  for (const Command& command : commands) {
    if (command.kind == CommandKind::barrier) {
      ++wave;
    } else if (command.kind == CommandKind::birth) {
      begin_life(command);
    } else if (!command.is_mark()) {
      const bool is_meant = work.only == nullptr || work.only == &command;
      if (is_meant && !enter_command(command, index, wave)) return false;
      ++index;
    }
  }
  return true;
}

void AccessChecker::enter_host_access(const std::shared_ptr<Thing>& allocation, uint64_t begin,
                                      uint64_t end, Access access, std::string_view name) {
  const Observer host{nullptr, &state_.host, name};
  const Bound b{allocation, begin, end, access};
  const std::shared_ptr<Thing>& life = life_of(allocation);
  allocation->shadow->sweep_if_due(state_.host);
  const auto [first, last] = allocation->shadow->cover(begin, end);
  uint64_t written = 0;
  if (auto violation = check(host, b, first, last, written)) {
    found_.push_back(std::move(*violation));
    return;
  }
  judge_initialization(host, b, written);
  for (auto at = first; at != last; ++at) {
    Interval& i = at->second;
    if (i.life == life && (i.user == life || !i.user)) continue;
    // All before it is known to be over.
    i = {i.end, life, i.life == life && i.is_written, life, {}, {}};
  }
}

bool AccessChecker::condemn(Violation violation) {
  found_.push_back(std::move(violation));
  return false;
}

bool AccessChecker::find_program(const CommandList& list) {
  if (list.program() == nullptr) return true;
  replay_ = &list;
  const auto found = state_.programs.find(list.program());
  if (found == state_.programs.end()) {
    record_->program = list.program()->id();
    record_->program_name = std::make_shared<const std::string>(list.program()->name());
    return true;
  }
  program_ = found->second;
  record_->program = program_->id;
  record_->program_name = program_->name;
  return !program_->is_gone || condemn(destroyed_before(record_->title->describe(), *program_));
}

bool AccessChecker::find(const AccessRecord& who, ResourceId id, const char* kind,
                         std::shared_ptr<Thing>& thing) {
  if (const auto found = state_.things.find(id); found != state_.things.end()) {
    thing = found->second;
    return !thing->is_gone || condemn(destroyed_before(who.describe(), *thing));
  }
  if (!state_.is_gone_locked(id)) return true;
  const auto gone = state_.gone.find(id);
  return condemn(gone != state_.gone.end() ? destroyed_before(who.describe(), *gone->second)
                                           : destroyed_long_before(who.describe(), kind, id));
}

void AccessChecker::use(const AccessRecord& who, const std::shared_ptr<Thing>& thing) {
  AccessRecord before;
  if (thing->uses.note(who, before)) {
    journal_->add(Journal::Use{thing, nullptr, who, std::exchange(before, {})});
  }
  if (thing->shadow && thing->shadow->uses.note(who, before)) {
    journal_->add(Journal::Use{nullptr, thing->shadow, who, std::move(before)});
  }
}

void AccessChecker::begin_life(const Command& command) {
  const Mark mark = command.mark();
  const auto found = state_.things.find(mark.allocation);
  if (found == state_.things.end() || found->second->is_gone || mark.range.empty()) return;
  const std::shared_ptr<Thing>& life = life_of(found->second);
  const std::shared_ptr<Shadow>& shadow = found->second->shadow;
  const auto [first, last] = shadow->cover(mark.range.offset.value, mark.range.end().value);
  for (auto at = first; at != last; ++at) {
    Interval& i = at->second;
    // Lists may be submitted in another order than their marks were recorded in. Only a Program
    // goes through the same lives again and again.
    if (i.life == life || (i.life && life->id < i.life->id && replay_ == nullptr)) continue;
    journal_->add(Journal::Piece{shadow, at->first, i});
    i.life = life;
    i.is_written = false;
  }
}

bool AccessChecker::enter_command(const Command& command, uint32_t index, uint32_t wave) {
  record_->commands.push_back({command.kind, command.label_bytes, index, wave,
                               static_cast<uint32_t>(record_->labels.size()), nullptr});
  record_->labels.append(command.label());
  const AccessRecord who{record_, static_cast<uint32_t>(record_->commands.size() - 1)};
  if (command.kind == CommandKind::dispatch && !enter_pipeline(command, who)) return false;
  if (program_) {
    use(who, program_);
    if (program_->parameter_hashes[index] != parameter_hash(command)) {
      return condemn(changed_parameters(who));
    }
  }
  return enter_bindings(command, who);
}

bool AccessChecker::enter_pipeline(const Command& command, const AccessRecord& who) {
  static const auto unknown = std::make_shared<const std::string>("unknown");
  auto& kernel = record_->commands.back().kernel;
  const auto known = state_.things.find(command.pipeline_id);
  if (known != state_.things.end() && !known->second->is_gone) {
    kernel = known->second->name;
#ifdef HOLDFAST_ABLATIONS
    if (!check_shared_parameters(command, who, *known->second)) return false;
#endif
    use(who, known->second);
    return true;
  }
  const auto gone = state_.gone.find(command.pipeline_id);
  kernel = known != state_.things.end() ? known->second->name
           : gone != state_.gone.end()  ? gone->second->name
                                        : unknown;
  std::shared_ptr<Thing> none;
  if (!find(who, command.pipeline_id, "a kernel", none)) return false;
  kernel = std::make_shared<const std::string>(command.pipeline->name());
  return true;
}

#ifdef HOLDFAST_ABLATIONS
// Where commands share the place of their parameters, a later one may have overwritten what this
// one, or one in flight, was recorded with.
bool AccessChecker::check_shared_parameters(const Command& command, const AccessRecord& who,
                                            Thing& pipeline) {
  if (command.shared_parameters == nullptr) return true;
  const auto bindings = command.bindings();
  const auto* recorded = reinterpret_cast<const std::byte*>(bindings.data() + bindings.size());
  const auto now = command.parameters();
  if (!std::equal(now.begin(), now.end(), recorded)) return condemn(changed_parameters(who));
  const uint64_t hash = parameter_hash(command);
  const AccessRecord* earlier = pipeline.uses.in_flight(state_.host);
  if (earlier != nullptr && !pipeline.parameter_hashes.empty() &&
      pipeline.parameter_hashes.front() != hash) {
    return condemn(changed_parameters(*earlier));
  }
  pipeline.parameter_hashes.assign(1, hash);
  return true;
}
#endif

bool AccessChecker::enter_bindings(const Command& command, const AccessRecord& who) {
  bound_.clear();
  for (const BoundRange& binding : command.bindings()) {
    const BoundRange* target = &binding;
    uint64_t begin = binding.range.offset.value;
    if (binding.slot >= 0) {
      if (replay_ == nullptr) continue;
      target = &replay_->slots()[static_cast<size_t>(binding.slot)];
      begin += target->range.offset.value;
    }
    std::shared_ptr<Thing> thing;
    if (!find(who, target->id, "an allocation", thing)) return false;
    if (!thing) continue;
    use(who, thing);
    if (binding.range.empty()) continue;
    begin += thing->range.offset.value;
    bound_.push_back({std::move(thing), begin, begin + binding.range.length.value, binding.access});
  }
  // A grid with a zero touches nothing.
  if (command.kind == CommandKind::dispatch && command.groups.count() == 0) return true;
  // What a command reads is there before what it writes.
  for (const Bound& b : bound_) {
    if (!writes(b.access) && !enter_access(who, b)) return false;
  }
  for (const Bound& b : bound_) {
    if (writes(b.access) && !enter_access(who, b)) return false;
  }
  return true;
}

std::optional<Violation> AccessChecker::check(const Observer& who, const Bound& b, At first,
                                              At last, uint64_t& written) {
  const std::shared_ptr<Thing>& life = life_of(b.allocation);
  for (auto at = first; at != last; ++at) {
    const Interval& i = at->second;
    if (auto violation = check(who, b, at->first, i)) return violation;
    if (i.life == life && i.is_written) written += i.end - at->first;
  }
  return std::nullopt;
}

std::optional<Violation> AccessChecker::check(const Observer& who, const Bound& b, uint64_t begin,
                                              const Interval& i) {
  const std::shared_ptr<Thing>& life = life_of(b.allocation);
  if (i.life && i.life != life && life->id < i.life->id) {
    return use_after_reuse(who, b.part(begin, i.end), *i.life);
  }
  const bool is_reuse = i.user && i.user != life;
  std::optional<Violation> violation;
  i.any_access([&](const AccessRecord& earlier, bool earlier_writes) {
    if (who.is_after(earlier)) return false;
    if (is_reuse) {
      violation = unordered_reuse(who, b.part(begin, i.end), *i.user, earlier, earlier_writes);
      return true;
    }
    if (!earlier_writes && !writes(b.access)) return false;
    if (who.is_same_command(earlier)) return false;
    violation = unordered(who, b.part(begin, i.end), earlier, earlier_writes);
    return true;
  });
  return violation;
}

std::optional<Violation> AccessChecker::check_host_accesses(const Observer& who,
                                                            const Bound& b) const {
  for (const ModelState::HostAccess& open : state_.host_accesses) {
    if (open.allocation->shadow != b.allocation->shadow) continue;
    const uint64_t begin = std::max(open.begin, b.begin);
    const uint64_t end = std::min(open.end, b.end);
    if (begin >= end || (!writes(open.access) && !writes(b.access))) continue;
    return while_host_touches(who, b.part(begin, end), open.name, *open.allocation, open.access,
                              life_of(open.allocation) == life_of(b.allocation));
  }
  return std::nullopt;
}

bool AccessChecker::judge_initialization(const Observer& who, const Bound& b, uint64_t written) {
  Thing& allocation = *b.allocation;
  // An update in place may be one that leaves bytes as they were.
  if (b.access != Access::read || !allocation.judges_initialization || written == b.end - b.begin) {
    return true;
  }
  if (written == 0) return condemn(uninitialized(who, b.touch()));
  if (!std::exchange(allocation.noted_partly, true)) {
    found_.push_back(partly_initialized(who, b.touch(), written));
  }
  return true;
}

bool AccessChecker::enter_access(const AccessRecord& who, const Bound& b) {
  const Observer observer{&who, &state_.host, {}};
  if (!state_.host_accesses.empty()) {
    if (auto violation = check_host_accesses(observer, b)) return condemn(std::move(*violation));
  }
  Shadow& shadow = *b.allocation->shadow;
  shadow.sweep_if_due(state_.host);
  const auto [first, last] = shadow.cover(b.begin, b.end);
  uint64_t written = 0;
  if (auto violation = check(observer, b, first, last, written)) {
    return condemn(std::move(*violation));
  }
  if (!judge_initialization(observer, b, written)) return false;
  if (writes(b.access)) {
    enter_write(who, b, first, last);
  } else {
    enter_read(who, b, first, last);
  }
  return true;
}

void AccessChecker::enter_write(const AccessRecord& who, const Bound& b, At first, At last) {
  const std::shared_ptr<Thing>& life = life_of(b.allocation);
  for (auto at = first; at != last; ++at) {
    journal_->add(Journal::Piece{b.allocation->shadow, at->first, std::move(at->second)});
  }
  first->second = {b.end, life, true, life, who, {}};
  if (std::next(first) != last) b.allocation->shadow->intervals.erase(std::next(first), last);
}

void AccessChecker::enter_read(const AccessRecord& who, const Bound& b, At first, At last) {
  const std::shared_ptr<Thing>& life = life_of(b.allocation);
  for (auto at = first; at != last; ++at) {
    Interval& i = at->second;
    if (i.user != life || i.life != life) {
      const uint64_t end = i.end;
      const bool is_written = i.life == life && i.is_written;
      journal_->add(Journal::Piece{b.allocation->shadow, at->first, std::move(i)});
      i = {end, life, is_written, life, {}, {who}};
      continue;
    }
    AccessRecord before;
    const auto same_queue =
        std::find_if(i.reads.begin(), i.reads.end(),
                     [&](const AccessRecord& read) { return read.list->queue == who.list->queue; });
    if (same_queue == i.reads.end()) {
      i.reads.push_back(who);
    } else if (same_queue->list == who.list && !same_queue->is_before(who)) {
      // Nothing orders the two, and a write of this very command must still see the other one.
      continue;
    } else {
      before = std::exchange(*same_queue, who);
    }
    journal_->add(Journal::Read{b.allocation->shadow, at->first, i.end, std::move(before)});
  }
}

}  // namespace holdfast::hal
