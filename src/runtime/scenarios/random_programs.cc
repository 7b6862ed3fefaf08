#include "holdfast/runtime/scenarios/random_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>

#include "holdfast/runtime/program_recorder.h"
#include "holdfast/testing/rig.h"

namespace holdfast::testing::random_programs {
namespace {

using hal::Access;
using hal::Binding;

// Slots of arrays: two of each task's own, then the shared ones.
constexpr unsigned kOwnArrays = 2;
constexpr unsigned kSharedArrays = 2;
constexpr unsigned kSlots = kTasks * kOwnArrays + kSharedArrays;
constexpr uint64_t kEighths = 8;
constexpr uint64_t least_size(Family family) { return family == Family::vulkan ? 128 : 64; }
constexpr uint64_t kReplayed = 32;  // bytes that a recorded program works on

// What kernels do (see test_kernel), in the words of the model.
void do_affine(std::span<uint8_t> x, uint8_t value) {
  for (uint8_t& b : x) b = static_cast<uint8_t>(2 * b + value);
}
void do_add(std::span<const uint8_t> in, std::span<uint8_t> out, uint8_t value) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint8_t>(in[i] + value);
}
void do_mix(std::span<const uint8_t> in, std::span<const uint8_t> more, std::span<uint8_t> out,
            uint8_t value) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<uint8_t>(2 * out[i] + 3 * in[i] + more[i] + value);
  }
}
void do_flip(std::span<uint8_t> x, uint8_t value) {
  for (uint8_t& b : x) b = static_cast<uint8_t>(b ^ (value | 1));
}
std::vector<uint8_t> pattern(uint64_t size, uint8_t value) {
  std::vector<uint8_t> data(size);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(value + 7 * i);
  return data;
}

// Arrays are numbered by their lives: one that takes another's slot has a number of its own.
struct Place {
  unsigned array = 0;
  ByteRange range;
  bool overlaps(const Place& other) const {
    return array == other.array && range.overlaps(other.range);
  }
};

// What a step needs of the things that tasks share.
struct Use {
  enum class Of { bytes, handle, stream, program } of = Of::bytes;
  unsigned index = 0;
  ByteRange range{{}, 1_B};
  Access access = Access::read;
};

bool conflict(const Use& a, const Use& b) {
  return a.of == b.of && a.index == b.index && a.range.overlaps(b.range) &&
         (hal::writes(a.access) || hal::writes(b.access));
}

struct Step {
  Verb verb = Verb::fill;
  unsigned task = 0;
  unsigned stream = 0;
  unsigned other_stream = 0;
  uint8_t value = 0;
  Place a;
  Place b;
  Place c;
  std::vector<Use> uses;
  std::array<size_t, kTasks> after{};  // how many steps of each task must be over
  std::vector<uint8_t> bytes;          // what is uploaded; what must be read
};

struct Plan {
  std::vector<Step> steps;
  unsigned arrays = 0;
  unsigned streams = 1;
  unsigned queues = 1;
  bool reaper = false;
};

// The sequential host. It finds out what an Op means where it stands, what it must read, and which
// steps of other tasks it must wait for so that the order of conflicting steps is decided.
class Model {
 public:
  explicit Model(const Program& program) : program_(program) {
    plan_.queues = std::max(program.queues, 1U);
    plan_.streams = std::max(program.streams, 1U);
    plan_.reaper = program.reaper;
    slots_.resize(kSlots);
  }

  Plan run() {
    for (const Op& op : program_.ops) take(op);
    for (unsigned slot = 0; slot < kSlots; ++slot) {
      if (!slots_[slot]) continue;
      Op last;
      last.stream = slot;
      read(last, Verb::readback, whole(*slots_[slot]));
    }
    order();
    plan_.arrays = static_cast<unsigned>(arrays_.size());
    return std::move(plan_);
  }

 private:
  struct Array {
    std::vector<uint8_t> bytes;
    std::vector<bool> written;
    bool imported = false;
  };

  void take(const Op& op) {
    switch (op.verb) {
      case Verb::fill: return fill(op, range_of(op, op.a));
      case Verb::affine:
      case Verb::native: return in_place(op, op.verb, range_of(op, op.a));
      case Verb::add:
      case Verb::copy:
      case Verb::transaction:
      case Verb::rollback: return from_a_to_b(op);
      case Verb::mix: return mix(op);
      case Verb::replay: return replay(op);
      case Verb::record_fixed: return record_fixed(op);
      case Verb::replay_fixed: return replay_fixed(op);
      case Verb::upload:
      case Verb::map_write: return write(op);
      case Verb::readback:
      case Verb::map_read:
      case Verb::map_update:
      case Verb::map_beside: return look(op);
      case Verb::allocate:
      case Verb::import: return create(op, op.verb, size_of(op));
      case Verb::drop:
      case Verb::drop_elsewhere: return drop(op);
      default: return control(op);
    }
  }

  // Arrays

  static unsigned slot_of(const Op& op, unsigned choice) {
    const unsigned task = op.task % kTasks;
    choice %= kArrayChoices;
    if (choice + 1 == kArrayChoices) return (task + 1) % kTasks * kOwnArrays;
    if (choice + 1 + kSharedArrays < kArrayChoices) return task * kOwnArrays + choice % kOwnArrays;
    return kTasks * kOwnArrays + choice % kSharedArrays;
  }
  uint64_t size_of(const Op& op) const {
    if (program_.family == Family::vulkan && op.verb == Verb::import) return Pages::kPage;
    return least_size(program_.family) * (1 + op.length % kEighths);
  }

  // The array that the task means, made if there is none.
  unsigned array_of(const Op& op, unsigned choice) {
    const unsigned slot = slot_of(op, choice);
    if (!slots_[slot]) create_in(op, Verb::allocate, 2 * least_size(program_.family), slot);
    return *slots_[slot];
  }
  void create(const Op& op, Verb verb, uint64_t size) {
    const unsigned slot = slot_of(op, op.a);
    if (slots_[slot]) drop(op);
    create_in(op, verb, size, slot);
  }
  void create_in(const Op& op, Verb verb, uint64_t size, unsigned slot) {
    const auto array = static_cast<unsigned>(arrays_.size());
    Array made;
    made.bytes.resize(size);
    made.written.resize(size);
    made.imported = verb == Verb::import;
    arrays_.push_back(std::move(made));
    slots_[slot] = array;
    Step step = step_of(op, verb);
    step.a = whole(array);
    step.uses.push_back({Use::Of::handle, array, {{}, 1_B}, Access::write});
    plan_.steps.push_back(std::move(step));
  }
  void drop(const Op& op) {
    const unsigned slot = slot_of(op, op.a);
    if (!slots_[slot]) return;
    const Verb verb = op.verb == Verb::drop_elsewhere ? op.verb : Verb::drop;
    Step step = step_of(op, verb);
    step.a = whole(*slots_[slot]);
    step.uses.push_back({Use::Of::handle, *slots_[slot], {{}, 1_B}, Access::write});
    plan_.steps.push_back(std::move(step));
    slots_[slot].reset();
  }
  bool mappable(const Place& place) const {
    return program_.host_visible || arrays_[place.array].imported;
  }

  // Ranges

  Place whole(unsigned array) const { return {array, {{}, Bytes{arrays_[array].bytes.size()}}}; }
  Place place_at(unsigned array, unsigned at, uint64_t length) const {
    const uint64_t size = arrays_[array].bytes.size();
    const uint64_t offset = at % kEighths * (size / kEighths);
    return {array, {{offset}, {std::min(length, size - offset)}}};
  }
  Place range_of(const Op& op, unsigned choice) {
    const unsigned array = array_of(op, choice);
    const uint64_t eighth = arrays_[array].bytes.size() / kEighths;
    return place_at(array, op.at, eighth * (1 + op.length % kEighths));
  }
  Place replayed_part(unsigned array, unsigned at) const {
    const uint64_t parts = arrays_[array].bytes.size() / kReplayed;
    return {array, {{at % parts * kReplayed}, {kReplayed}}};
  }
  // Not the part that `other` has.
  Place replayed_part_beside(unsigned array, unsigned at, const Place& other) const {
    const Place part = replayed_part(array, at);
    return part.overlaps(other) ? replayed_part(array, at + 1) : part;
  }
  std::span<uint8_t> bytes(const Place& place) {
    return std::span(arrays_[place.array].bytes)
        .subspan(place.range.offset.value, place.range.length.value);
  }
  std::vector<uint8_t> copy_of(const Place& place) {
    const auto now = bytes(place);
    return {now.begin(), now.end()};
  }
  // Memory that nothing was written to says nothing.
  void make_readable(const Op& op, const Place& place) {
    const auto begin = arrays_[place.array].written.begin() +
                       static_cast<std::ptrdiff_t>(place.range.offset.value);
    const auto end = begin + static_cast<std::ptrdiff_t>(place.range.length.value);
    if (std::find(begin, end, false) != end) fill(op, place);
  }

  // Steps

  Step step_of(const Op& op, Verb verb) const {
    Step step;
    step.verb = verb;
    step.task = op.task % kTasks;
    step.stream = op.stream % plan_.streams;
    step.other_stream = op.value % plan_.streams;
    step.value = static_cast<uint8_t>(op.value);
    if (verb == Verb::wait_for) step.uses.push_back({Use::Of::stream, step.other_stream});
    step.uses.push_back({Use::Of::stream, step.stream});
    return step;
  }
  static void uses_bytes(Step& step, const Place& place, Access access) {
    step.uses.push_back({Use::Of::bytes, place.array, place.range, access});
  }
  static void bind(Step& step, const Place& place, Access access) {
    step.uses.push_back({Use::Of::handle, place.array});
    uses_bytes(step, place, access);
  }
  void emit(Step step) {
    for (const Use& use : step.uses) {
      if (use.of != Use::Of::bytes || !hal::writes(use.access)) continue;
      const auto begin =
          arrays_[use.index].written.begin() + static_cast<std::ptrdiff_t>(use.range.offset.value);
      std::fill(begin, begin + static_cast<std::ptrdiff_t>(use.range.length.value), true);
    }
    plan_.steps.push_back(std::move(step));
  }

  void fill(const Op& op, const Place& place) {
    Step step = step_of(op, Verb::fill);
    step.a = place;
    bind(step, place, Access::write);
    std::ranges::fill(bytes(place), step.value);
    emit(std::move(step));
  }

  void in_place(const Op& op, Verb verb, const Place& place) {
    make_readable(op, place);
    Step step = step_of(op, verb);
    step.a = place;
    bind(step, place, Access::read_write);
    if (verb == Verb::native && program_.family != Family::cpu) {
      std::ranges::fill(bytes(place), step.value);
    } else if (verb == Verb::native) {
      do_flip(bytes(place), step.value);
    } else {
      do_affine(bytes(place), step.value);
    }
    emit(std::move(step));
  }

  void from_a_to_b(const Op& op) {
    Place from = range_of(op, op.a);
    const Place to = place_at(array_of(op, op.b), op.to, from.range.length.value);
    from.range.length = to.range.length;
    const bool through_scratch = op.verb == Verb::transaction || op.verb == Verb::rollback;
    if (from.overlaps(to) && !through_scratch) return in_place(op, Verb::affine, from);
    make_readable(op, from);
    Step step = step_of(op, op.verb);
    step.a = from;
    step.b = to;
    bind(step, from, Access::read);
    bind(step, to, op.verb == Verb::rollback ? Access::read : Access::write);
    std::vector<uint8_t> data = copy_of(from);
    if (op.verb == Verb::add) do_add(copy_of(from), data, step.value);
    if (op.verb == Verb::transaction) do_affine(data, step.value);
    if (op.verb == Verb::rollback) step.uses.pop_back();
    if (op.verb != Verb::rollback) std::ranges::copy(data, bytes(to).begin());
    emit(std::move(step));
  }

  void mix(const Op& op) {
    Place a = range_of(op, op.a);
    Place b = place_at(array_of(op, op.b), op.at, a.range.length.value);
    const Place c = place_at(array_of(op, op.c), op.to, b.range.length.value);
    a.range.length = b.range.length = c.range.length;
    if (c.overlaps(a) || c.overlaps(b)) return in_place(op, Verb::affine, c);
    make_readable(op, a);
    make_readable(op, b);
    make_readable(op, c);
    Step step = step_of(op, Verb::mix);
    step.a = a;
    step.b = b;
    step.c = c;
    bind(step, a, Access::read);
    bind(step, b, Access::read);
    bind(step, c, Access::read_write);
    do_mix(bytes(a), bytes(b), bytes(c), step.value);
    emit(std::move(step));
  }

  void replay(const Op& op) {
    const Place from = replayed_part(array_of(op, op.a), op.at);
    const Place to = replayed_part_beside(array_of(op, op.b), op.to, from);
    make_readable(op, from);
    Step step = step_of(op, Verb::replay);
    step.a = from;
    step.b = to;
    bind(step, from, Access::read);
    bind(step, to, Access::write);
    std::ranges::copy(bytes(from), bytes(to).begin());
    do_affine(bytes(to), step.value);
    emit(std::move(step));
  }

  void record_fixed(const Op& op) {
    const Place place = replayed_part(array_of(op, op.a), op.at);
    make_readable(op, place);
    Step step = step_of(op, Verb::record_fixed);
    step.a = place;
    step.uses.push_back({Use::Of::handle, place.array});
    step.uses.push_back({Use::Of::program, 0, {{}, 1_B}, Access::write});
    emit(std::move(step));
    fixed_ = place;
  }

  // What the program binds itself lives on without a handle.
  void replay_fixed(const Op& op) {
    if (!fixed_) record_fixed(op);
    const Place to = replayed_part_beside(array_of(op, op.b), op.to, *fixed_);
    Step step = step_of(op, Verb::replay_fixed);
    step.a = *fixed_;
    step.b = to;
    step.uses.push_back({Use::Of::program, 0});
    uses_bytes(step, *fixed_, Access::read_write);
    bind(step, to, Access::write);
    do_affine(bytes(*fixed_), step.value);
    std::ranges::copy(bytes(*fixed_), bytes(to).begin());
    emit(std::move(step));
  }

  void write(const Op& op) {
    const Place place = range_of(op, op.a);
    Step step = step_of(op, mappable(place) ? op.verb : Verb::upload);
    step.a = place;
    step.bytes = pattern(place.range.length.value, step.value);
    bind(step, place, Access::write);
    std::ranges::copy(step.bytes, bytes(place).begin());
    emit(std::move(step));
  }

  void look(const Op& op) {
    const Place place = range_of(op, op.a);
    if (!mappable(place)) return read(op, Verb::readback, place);
    if (op.verb == Verb::map_update) return update(op, place);
    if (op.verb == Verb::map_beside) return look_beside(op, place);
    read(op, op.verb, place);
  }

  void read(const Op& op, Verb verb, const Place& place) {
    make_readable(op, place);
    Step step = step_of(op, verb);
    step.a = place;
    step.bytes = copy_of(place);
    bind(step, place, Access::read);
    emit(std::move(step));
  }

  void update(const Op& op, const Place& place) {
    make_readable(op, place);
    Step step = step_of(op, Verb::map_update);
    step.a = place;
    step.bytes = copy_of(place);
    bind(step, place, Access::read_write);
    do_flip(bytes(place), step.value);
    emit(std::move(step));
  }

  void look_beside(const Op& op, const Place& place) {
    const Place other = place_at(array_of(op, op.b), op.to, place.range.length.value);
    if (other.overlaps(place)) return read(op, Verb::map_read, place);
    make_readable(op, place);
    make_readable(op, other);
    Step step = step_of(op, Verb::map_beside);
    step.a = place;
    step.b = other;
    step.bytes = copy_of(place);
    bind(step, place, Access::read);
    bind(step, other, Access::read_write);
    do_affine(bytes(other), step.value);
    emit(std::move(step));
  }

  void control(const Op& op) {
    Step step = step_of(op, op.verb);
    if (op.verb == Verb::new_stream) step.uses.back().access = Access::write;
    emit(std::move(step));
  }

  void order() {
    std::array<size_t, kTasks> over{};
    std::vector<size_t> number(plan_.steps.size());  // of the step in its task, from one
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      Step& step = plan_.steps[i];
      number[i] = ++over[step.task];
      for (size_t j = 0; j < i; ++j) {
        const Step& before = plan_.steps[j];
        if (before.task == step.task || !conflict(before, step)) continue;
        step.after[before.task] = std::max(step.after[before.task], number[j]);
      }
    }
  }
  static bool conflict(const Step& x, const Step& y) {
    return std::ranges::any_of(x.uses, [&](const Use& a) {
      return std::ranges::any_of(y.uses,
                                 [&](const Use& b) { return random_programs::conflict(a, b); });
    });
  }

  const Program& program_;
  Plan plan_;
  std::vector<Array> arrays_;
  std::vector<std::optional<unsigned>> slots_;
  std::optional<Place> fixed_;
};

std::string to_string(const Place& place) {
  return fmt::format("#{}[{},{})", place.array, place.range.offset.value, place.range.end().value);
}

std::string to_string(const Step& step) {
  std::string text =
      fmt::format("task {}, stream {}: {}", step.task, step.stream, to_string(step.verb));
  for (const Place* place : {&step.a, &step.b, &step.c}) {
    if (place->range.length > 0_B) text += " " + to_string(*place);
  }
  text += fmt::format(" {}", step.value);
  for (unsigned task = 0; task < kTasks; ++task) {
    if (step.after[task] > 0) text += fmt::format(", after task {}'s {}", task, step.after[task]);
  }
  return text;
}

// A task that only drops.
class Dropper {
 public:
  explicit Dropper(World& world) : task_(world.task("dropper", [this] { run(); })) {}
  ~Dropper() {
    const sync::Lock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  void take(Ref<hal::Allocation> memory) {
    const sync::Lock lock(mutex_);
    pile_.push_back(std::move(memory));
    changed_.notify_all();
  }

 private:
  void run() {
    for (bool last = false; !last;) {
      std::vector<Ref<hal::Allocation>> dropped;
      sync::Lock lock(mutex_);
      changed_.wait(lock, [&] { return closing_ || !pile_.empty(); });
      dropped.swap(pile_);
      last = closing_;
      lock.unlock();
    }
  }

  sync::Mutex mutex_;  // guards pile_ and closing_
  sync::Condition changed_;
  std::vector<Ref<hal::Allocation>> pile_;
  bool closing_ = false;
  sync::Thread task_;  // joined first
};

// Further users of some arrays, for the fault "drop".
class Spares {
 public:
  void add(Ref<hal::Allocation> memory) {
    const sync::Lock lock(mutex_);
    spares_.push_back(std::move(memory));
  }
  void drop() {
    std::vector<Ref<hal::Allocation>> dropped;
    const sync::Lock lock(mutex_);
    dropped.swap(spares_);
  }

 private:
  sync::Mutex mutex_;  // guards spares_
  std::vector<Ref<hal::Allocation>> spares_;
};

class Execution {
 public:
  Execution(World& world, Rig& rig, const Plan& plan, bool may_raise)
      : world_(world), rig_(rig), plan_(plan), may_raise_(may_raise) {
    if (world.mode() != World::Mode::adversary) limit_ = patient();
    memory_.resize(plan.arrays);
    unknown_.resize(plan.arrays);
    for (unsigned i = 0; i < plan.streams; ++i) streams_.push_back(new_stream(i));
    mix_ = rig.context->create_pipeline(test_kernel(rig.family(), "mix3", "mix"));
    record_copy();
    world.offer([spares = spares_] { spares->drop(); });
  }

  void run() {
    {
      Dropper dropper(world_);
      dropper_ = &dropper;
      std::vector<sync::Thread> tasks;
      for (unsigned task = 1; task < kTasks; ++task) {
        const bool idle =
            std::ranges::none_of(plan_.steps, [&](const Step& step) { return step.task == task; });
        if (idle) continue;
        tasks.push_back(world_.task(fmt::format("task {}", task), [this, task] { run(task); }));
      }
      run(0);
    }
    attempt("at the end", [&] { end(); });
  }

 private:
  Ref<runtime::Stream> new_stream(unsigned index) {
    return rig_.stream(fmt::format("stream {}", index), index % plan_.queues);
  }

  void record_copy() {
    const ByteRange range{{}, {kReplayed}};
    runtime::ProgramRecorder recorder(rig_.context, "copy and affine");
    recorder.copy(Binding::of_slot(0, range, Access::read),
                  Binding::of_slot(1, range, Access::write));
    recorder.dispatch(rig_.affine(), std::array{Binding::of_slot(1, range, Access::read_write)},
                      hal::Parameters::of_replay({{}, 1_B}), {1, 1, 1});
    copy_program_ = recorder.seal();
  }

  // Tasks

  void run(unsigned task) {
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      if (step.task != task) continue;
      wait_for_others(step);
      if (lacks_something(step)) {
        settle(step, false);
      } else {
        settle(step, attempt(fmt::format("step {} ({})", i, to_string(step)), [&] { act(step); }));
      }
      const sync::Lock lock(mutex_);
      ++over_[task];
      changed_.notify_all();
    }
  }

  void wait_for_others(const Step& step) {
    sync::Lock lock(mutex_);
    changed_.wait(lock, [&] {
      for (unsigned task = 0; task < kTasks; ++task) {
        if (over_[task] < step.after[task]) return false;
      }
      return true;
    });
  }

  // Whether it went well.
  bool attempt(const std::string& what, const std::function<void()>& body) {
    try {
      body();
      return true;
    } catch (const Error& error) {
      if (!may_raise_ || error.code() == ErrorCode::usage) fail(what, error.what());
    } catch (const std::exception& error) {
      fail(what, error.what());
    }
    return false;
  }
  void fail(const std::string& what, const std::string& why) {
    world_.fail(fmt::format("{}: {}", what, why));
  }

  // What a call that raised should have made is not there, and what it should have written is not
  // known.

  std::span<uint8_t> unknown(const Use& use) {
    return std::span(unknown_[use.index]).subspan(use.range.offset.value, use.range.length.value);
  }
  bool lacks_something(const Step& step) {
    return std::ranges::any_of(step.uses, [&](const Use& use) {
      const bool reads = hal::reads(use.access);
      switch (use.of) {
        case Use::Of::bytes: return reads && std::ranges::count(unknown(use), 0) != size_of(use);
        case Use::Of::handle: return reads && !memory_[use.index];
        case Use::Of::stream: return reads && !streams_[use.index];
        case Use::Of::program: return reads && !fixed_program_;
      }
      return false;
    });
  }
  static std::ptrdiff_t size_of(const Use& use) {
    return static_cast<std::ptrdiff_t>(use.range.length.value);
  }
  void settle(const Step& step, bool done) {
    for (const Use& use : step.uses) {
      if (!hal::writes(use.access)) continue;
      if (use.of == Use::Of::program && !done) fixed_program_.reset();
      if (use.of != Use::Of::bytes) continue;
      if (unknown_[use.index].empty()) continue;
      std::ranges::fill(unknown(use), static_cast<uint8_t>(done ? 0 : 1));
    }
  }

  void expect(const Step& step, std::span<const uint8_t> bytes) {
    const auto [wrong, right] = std::ranges::mismatch(bytes, step.bytes);
    if (wrong == bytes.end()) return;
    fail(to_string(step),
         fmt::format("byte {} is {} and should be {}", wrong - bytes.begin(), *wrong, *right));
  }

  // Steps

  void act(const Step& step) {
    switch (step.verb) {
      case Verb::allocate:
      case Verb::import: return create(step);
      case Verb::drop: return memory_[step.a.array].reset();
      case Verb::drop_elsewhere: return dropper_->take(std::move(memory_[step.a.array]));
      case Verb::record_fixed: return record_fixed(step);
      case Verb::synchronize_all: return rig_.context->synchronize(limit_);
      case Verb::retire: return void(rig_.context->retire());
      case Verb::trim: return rig_.context->trim();
      case Verb::new_stream:
        streams_[step.stream].reset();
        streams_[step.stream] = new_stream(step.stream);
        return;
      default: return act_on(*streams_[step.stream], step);
    }
  }

  void act_on(runtime::Stream& stream, const Step& step) {
    const auto parameter = hal::Parameters::of(step.value);
    const auto byte = std::as_bytes(std::span(&step.value, 1));
    switch (step.verb) {
      case Verb::fill: return stream.fill(bound(step.a, Access::write), std::byte{step.value});
      case Verb::affine:
        return run_affine(rig_, stream, bound(step.a, Access::read_write), step.value);
      case Verb::add:
        return stream.dispatch(
            rig_.add(), std::array{bound(step.a, Access::read), bound(step.b, Access::write)},
            parameter, {1, 1, 1});
      case Verb::mix:
        return stream.dispatch(mix_,
                               std::array{bound(step.a, Access::read), bound(step.b, Access::read),
                                          bound(step.c, Access::read_write)},
                               parameter, {1, 1, 1});
      case Verb::copy:
        return stream.copy(bound(step.a, Access::read), bound(step.b, Access::write));
      case Verb::native: return native(stream, step);
      case Verb::transaction:
      case Verb::rollback: return transaction(stream, step);
      case Verb::replay:
        stream.replay(copy_program_,
                      std::array{bound(step.a, Access::read), bound(step.b, Access::read_write)},
                      byte);
        return;
      case Verb::replay_fixed:
        stream.replay(fixed_program_, std::array{bound(step.b, Access::write)}, byte);
        return;
      case Verb::upload:
        return stream.upload(memory_[step.a.array], step.a.range.offset,
                             std::as_bytes(std::span(step.bytes)));
      case Verb::readback: return readback(stream, step);
      case Verb::map_read:
      case Verb::map_write:
      case Verb::map_update:
      case Verb::map_beside: return map(stream, step);
      case Verb::flush: return void(stream.flush());
      case Verb::wait_for: return stream.wait_for(streams_[step.other_stream]->flush());
      case Verb::synchronize: return stream.synchronize(limit_);
      default: break;
    }
  }

  Binding bound(const Place& place, Access access) const {
    return Binding::of(memory_[place.array], place.range, access);
  }

  void create(const Step& step) {
    const unsigned array = step.a.array;
    const Bytes size = step.a.range.length;
    const std::string name = fmt::format("#{}", array);
    if (step.verb == Verb::import) {
      memory_[array] = import(size, name);
    } else {
      memory_[array] = step.value % 4 == 0 ? rig_.context->allocate(size, name)
                                           : streams_[step.stream]->allocate(size, name);
    }
    unknown_[array].assign(size.value, 0);
    if (world_.has_faults() && step.value % 2 == 1) spares_->add(memory_[array]);
  }

  Ref<hal::Allocation> import(Bytes size, const std::string& name) {
    // On CUDA anywhere in memory, for others whole pages.
    const bool anywhere = rig_.family() == Family::cuda;
    const auto heap = std::make_shared<std::vector<std::byte>>(anywhere ? size.value : 0);
    const auto pages = anywhere ? nullptr : std::make_shared<Pages>(size.value);
    void* const data = anywhere ? heap->data() : pages->data();
    imports_->fetch_add(1);
    return rig_.context->import(
        {data, size, [heap, pages, alive = imports_] { alive->fetch_sub(1); }, name});
  }

  void record_fixed(const Step& step) {
    fixed_program_.reset();
    const ByteRange range{{}, {kReplayed}};
    runtime::ProgramRecorder recorder(rig_.context, fmt::format("fixed to #{}", step.a.array));
    recorder.dispatch(rig_.affine(), std::array{bound(step.a, Access::read_write)},
                      hal::Parameters::of_replay({{}, 1_B}), {1, 1, 1});
    recorder.copy(bound(step.a, Access::read), Binding::of_slot(0, range, Access::write));
    fixed_program_ = recorder.seal();
  }

  void native(runtime::Stream& stream, const Step& step) {
    const Binding binding = bound(step.a, Access::read_write);
    if (rig_.family() != Family::cpu) {
      return stream.native(native_fill(*rig_.device, step.value), {&binding, 1});
    }
    stream.native(
        [value = step.value](const hal::NativeCall& call) {
          const std::span<std::byte> bytes = call.host_bindings[0];
          do_flip({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()}, value);
        },
        {&binding, 1});
  }

  void transaction(runtime::Stream& stream, const Step& step) {
    runtime::Transaction transaction = stream.begin();
    const Ref<hal::Allocation> scratch = transaction.scratch(step.a.range.length);
    transaction.copy(bound(step.a, Access::read), write_of(scratch));
    transaction.dispatch(rig_.affine(), std::array{in_place(scratch)},
                         hal::Parameters::of(step.value), {1, 1, 1});
    transaction.copy(read_of(scratch), bound(step.b, Access::write));
    if (step.verb == Verb::transaction) transaction.commit();
  }

  void readback(runtime::Stream& stream, const Step& step) {
    std::vector<uint8_t> bytes(step.bytes.size());
    stream.readback(memory_[step.a.array], step.a.range.offset,
                    std::as_writable_bytes(std::span(bytes)), limit_);
    expect(step, bytes);
  }

  void map(runtime::Stream& stream, const Step& step) {
    const Access access = step.verb == Verb::map_write    ? Access::write
                          : step.verb == Verb::map_update ? Access::read_write
                                                          : Access::read;
    const runtime::Map map = stream.map(memory_[step.a.array], step.a.range, access, limit_);
    if (hal::reads(access)) expect(step, map.as<uint8_t>());
    if (step.verb == Verb::map_beside) {
      run_affine(rig_, stream, bound(step.b, Access::read_write), step.value);
      stream.flush();
      expect(step, map.as<uint8_t>());
    }
    if (step.verb == Verb::map_write) std::ranges::copy(step.bytes, map.as<uint8_t>().begin());
    if (step.verb == Verb::map_update) do_flip(map.as<uint8_t>(), step.value);
  }

  // Also what streams that are gone have submitted: lists of one queue finish in order.
  void finish_queues() {
    for (uint32_t queue = 0; queue < rig_.device->info().queues; ++queue) {
      const Ref<runtime::Stream> last = rig_.stream("last", queue);
      put(*last, last->allocate(64_B), 0);
      last->synchronize(limit_);
    }
  }

  // With everything dropped and finished nothing is left.
  void end() {
    spares_->drop();
    memory_.clear();
    fixed_program_.reset();
    copy_program_.reset();
    rig_.context->synchronize(limit_);
    finish_queues();
    rig_.context->retire();
    const runtime::RuntimeStats now = rig_.stats();
    // The reaper may be dropping what it has retired.
    if (world_.has_faults() || plan_.reaper || !world_.failure().empty()) return;
    if (now.memory.live > 0_B) fail("at the end", "memory is live that nobody uses");
    if (now.memory.deferred > 0_B) fail("at the end", "memory is deferred with nothing in flight");
    if (imports_->load() != 0) fail("at the end", "imported memory was not given back once");
  }

  World& world_;
  Rig& rig_;
  const Plan& plan_;
  bool may_raise_;
  runtime::WaitLimit limit_;
  Ref<hal::Pipeline> mix_;
  Ref<hal::Program> copy_program_;
  std::shared_ptr<Spares> spares_ = std::make_shared<Spares>();
  std::shared_ptr<std::atomic<int>> imports_ = std::make_shared<std::atomic<int>>(0);
  Dropper* dropper_ = nullptr;

  // Steps that conflict in these wait for each other, so no lock is needed.
  std::vector<Ref<hal::Allocation>> memory_;
  std::vector<std::vector<uint8_t>> unknown_;
  std::vector<Ref<runtime::Stream>> streams_;
  Ref<hal::Program> fixed_program_;

  sync::Mutex mutex_;  // guards over_
  sync::Condition changed_;
  std::array<size_t, kTasks> over_{};
};

runtime::Options options_of(const Program& program) {
  runtime::Options options;
  options.reaper = program.reaper;
  if (program.tight) {
    options.deferred_limit = 1_KiB;
    options.deferred_objects = 4;
    options.max_in_flight = 2;
    options.memory_limit = 4_MiB;  // a block of each kind
  }
  return options;
}

std::string source_of(const Op& op) {
  std::string text = fmt::format("{{.verb = Verb::{}", to_string(op.verb));
  const auto add = [&](const char* name, unsigned value) {
    if (value > 0) text += fmt::format(", .{} = {}", name, value);
  };
  add("task", op.task);
  add("stream", op.stream);
  add("a", op.a);
  add("b", op.b);
  add("c", op.c);
  add("at", op.at);
  add("length", op.length);
  add("to", op.to);
  add("value", op.value);
  return text + "}";
}

}  // namespace

const char* to_string(Verb verb) {
  constexpr std::array<const char*, kVerbs> kNames{
      "fill",           "affine",      "add",       "mix",         "copy",
      "native",         "transaction", "rollback",  "replay",      "record_fixed",
      "replay_fixed",   "upload",      "readback",  "map_read",    "map_write",
      "map_update",     "map_beside",  "allocate",  "import",      "drop",
      "drop_elsewhere", "flush",       "wait_for",  "synchronize", "synchronize_all",
      "retire",         "trim",        "new_stream"};
  return kNames[static_cast<size_t>(verb)];
}

std::ostream& operator<<(std::ostream& out, const Program& program) {
  out << fmt::format(
      "{{{}.queues = {}, .streams = {}, .host_visible = {}, .tight = {}, .reaper = {}, .seed = {}, "
      ".ops = {{\n",
      program.family == Family::cpu
          ? ""
          : fmt::format(".family = Family::{}, ", to_string(program.family)),
      program.queues, program.streams, program.host_visible, program.tight, program.reaper,
      program.seed);
  for (const Op& op : program.ops) out << "    " << source_of(op) << ",\n";
  out << "}}\n";
  const Plan plan = Model(program).run();
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    out << fmt::format("  {:>3}  {}\n", i, to_string(plan.steps[i]));
  }
  return out;
}

size_t step_count(const Program& program) { return Model(program).run().steps.size(); }

void run_program(World& world, const Program& program, bool may_raise) {
  Rig rig(world,
          {.queues = std::max(program.queues, 1U),
           .helpers = 0,
           .device_memory_host_visible = program.host_visible},
          options_of(program));
  Program possible = program;
  possible.host_visible = rig.device->info().device_memory_host_visible;
  const Plan plan = Model(possible).run();
  Execution execution(world, rig, plan, may_raise);
  execution.run();
}

}  // namespace holdfast::testing::random_programs
