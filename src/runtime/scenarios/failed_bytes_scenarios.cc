#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/runtime/program_recorder.h"
#include "holdfast/testing/rig.h"
#include "holdfast/testing/scenario.h"

// Commands fail while they execute, and exactly the bytes that depend on them are bad.
namespace holdfast::testing {
namespace {

using hal::Access;
using hal::Binding;

// A random program on two queues, of whose commands some fail, beside a model that knows for each
// byte what it holds or that it is bad. Wherever something raises, the model must have bad bytes;
// wherever it has, reading them must raise.
class FailingProgram {
 public:
  FailingProgram(World& world, uint32_t seed, bool host_visible)
      : world_(world),
        random_(seed),
        rig_(world, {.queues = 2, .helpers = 0, .device_memory_host_visible = host_visible}) {
    streams_ = {rig_.stream("a", 0), rig_.stream("b", 1), rig_.stream("c", 0)};
    runtime::ProgramRecorder recorder(rig_.context, "program");
    recorder.copy(Binding::of_slot(0, kPart, Access::read),
                  Binding::of_slot(1, kPart, Access::write));
    recorder.fill(Binding::of_slot(1, kLast, Access::write), std::byte{kFill});
    program_ = recorder.seal();
    for (size_t i = 0; i < memory_.size(); ++i) make(i);
    if (seed % 2 == 0) hold_back();
  }

  void run(int steps) {
    for (int i = 0; i < steps && world_.failure().empty(); ++i) step();
    if (gate_) gate_->open();
    for (size_t i = 0; i < memory_.size(); ++i) {
      for (uint64_t at = 0; at < kSize; at += kWord) check(i, {{at}, {kWord}});
    }
  }

 private:
  static constexpr uint64_t kSize = 96;
  static constexpr uint64_t kWord = 4;  // devices copy and fill multiples of it
  static constexpr uint8_t kFill = 9;
  static constexpr int kBad = -1;
  static constexpr ByteRange kPart{{0}, {16}};
  static constexpr ByteRange kLast{{32}, {16}};
  static constexpr ByteRange kHull{{0}, {48}};
  struct Memory {
    Ref<hal::Allocation> allocation;
    std::vector<int> bytes;
  };

  void hold_back() {
    gate_.emplace(*rig_.context);
    for (const auto& stream : streams_) stream->wait_for(gate_->point(), hal::WaitKind::order);
  }
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  runtime::Stream& stream() { return *streams_[below(3)]; }
  ByteRange some(uint64_t most = 32) {
    const uint64_t words = 1 + below(static_cast<uint32_t>(most / kWord));
    const uint64_t places = kSize / kWord - words + 1;
    return {{kWord * below(static_cast<uint32_t>(places))}, {kWord * words}};
  }
  // A new life, filled at once.
  void make(size_t i) {
    runtime::Stream& on = stream();
    memory_[i].allocation.reset();
    memory_[i].allocation = on.allocate({kSize}, "m" + std::to_string(i));
    on.fill(write_of(memory_[i].allocation), std::byte{1});
    memory_[i].bytes.assign(kSize, 1);
  }
  bool is_bad(size_t i, ByteRange range) const {
    const auto& bytes = memory_[i].bytes;
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(range.offset.value);
    return std::find(begin, begin + static_cast<std::ptrdiff_t>(range.length.value), kBad) !=
           begin + static_cast<std::ptrdiff_t>(range.length.value);
  }
  void set(size_t i, ByteRange range, int value) {
    std::fill_n(memory_[i].bytes.begin() + static_cast<std::ptrdiff_t>(range.offset.value),
                range.length.value, value);
  }
  Binding bound(size_t i, ByteRange range, Access access) const {
    return Binding::of(memory_[i].allocation, range, access);
  }
  // Whether the call was taken. Where it was not, bytes that it reads must be bad.
  bool taken(bool reads_bad, const std::function<void()>& call) {
    try {
      call();
      return true;
    } catch (const ExecutionError& error) {
      if (reads_bad) return false;
      if (world_.has_faults()) throw;
      world_.fail(std::string("what reads good bytes raised: ") + error.what());
      return false;
    }
  }

  void copy() {
    const size_t to = below(3);
    const size_t from = (to + 1 + below(2)) % 3;
    const ByteRange target = some();
    const ByteRange source{
        {kWord * below(static_cast<uint32_t>((kSize - target.length.value) / kWord + 1))},
        target.length};
    const bool bad = is_bad(from, source);
    runtime::Stream& on = stream();
    if (!taken(bad, [&] {
          on.copy(bound(from, source, Access::read), bound(to, target, Access::write));
        })) {
      return;
    }
    for (uint64_t i = 0; i < target.length.value; ++i) {
      memory_[to].bytes[target.offset.value + i] =
          bad ? kBad : memory_[from].bytes[source.offset.value + i];
    }
  }

  void explode() {
    const size_t to = below(3);
    const size_t from = (to + 1 + below(2)) % 3;
    const ByteRange target = some();
    const ByteRange source = some();
    const Access access = below(2) == 0 ? Access::write : Access::read_write;
    const bool bad = is_bad(from, source) || (access == Access::read_write && is_bad(to, target));
    const std::array bindings{bound(from, source, Access::read), bound(to, target, access)};
    runtime::Stream& on = stream();
    const bool recorded = taken(bad, [&] {
      if (rig_.family() == Family::vulkan) {
        on.dispatch(rig_.explode_reading(), bindings, {}, {1, 1, 1}, "explosion");
        return;
      }
      on.native([](const hal::NativeCall&) { throw std::runtime_error("it exploded"); }, bindings,
                "explosion");
    });
    if (recorded) set(to, target, kBad);
  }

  void update() {
    // Kernels there take ranges that begin at multiples of 16 bytes.
    if (rig_.family() == Family::vulkan) return;
    const size_t i = below(3);
    const ByteRange range = some();
    const bool bad = is_bad(i, range);
    runtime::Stream& on = stream();
    if (!taken(bad, [&] { run_affine(rig_, on, bound(i, range, Access::read_write), 1); })) return;
    for (uint64_t at = range.offset.value; at < range.end().value; ++at) {
      int& byte = memory_[i].bytes[at];
      byte = bad ? kBad : (2 * byte + 1) % 256;
    }
  }

  void replay() {
    const size_t to = below(3);
    const size_t from = (to + 1 + below(2)) % 3;
    const uint64_t source = kWord * below((kSize - 16) / kWord + 1);
    const uint64_t target = kWord * below((kSize - 48) / kWord + 1);
    const ByteRange part{{source}, kPart.length};
    const ByteRange hull{{target}, kHull.length};
    const bool source_bad = is_bad(from, part);
    runtime::Stream& on = stream();
    // What the slot's hull leaves as it was must be good before, as far as that is known.
    const bool recorded = taken(source_bad || is_bad(to, hull), [&] {
      on.replay(program_,
                std::array{bound(from, part, Access::read), bound(to, hull, Access::read_write)});
    });
    if (!recorded) return;
    for (uint64_t i = 0; i < kPart.length.value; ++i) {
      memory_[to].bytes[target + i] = source_bad ? kBad : memory_[from].bytes[source + i];
    }
    set(to, {{target + kLast.offset.value}, kLast.length}, kFill);
  }

  void upload() {
    const size_t i = below(3);
    const ByteRange range = some();
    const auto value = static_cast<uint8_t>(below(200));
    const std::vector<std::byte> data(range.length.value, std::byte{value});
    stream().upload(memory_[i].allocation, range.offset, data);
    set(i, range, value);
  }

  void check(size_t i, ByteRange range) {
    std::vector<std::byte> found(range.length.value);
    const bool bad = is_bad(i, range);
    runtime::Stream& on = stream();
    const bool read =
        taken(bad, [&] { on.readback(memory_[i].allocation, range.offset, found, patient()); });
    if (!read) return;
    if (bad) return world_.fail("bad bytes were read and nothing was raised");
    for (uint64_t at = 0; at < found.size(); ++at) {
      const int expected = memory_[i].bytes[range.offset.value + at];
      if (std::to_integer<int>(found[at]) == expected) continue;
      return world_.fail("byte " + std::to_string(range.offset.value + at) + " of m" +
                         std::to_string(i) + " is " +
                         std::to_string(std::to_integer<int>(found[at])) + " and should be " +
                         std::to_string(expected));
    }
  }

  void step() {
    switch (below(14)) {
      case 0:
      case 1:
      case 2:
      case 3: return copy();
      case 4: return explode();
      case 5: return update();
      case 6:
      case 7: return replay();
      case 8: {
        const size_t i = below(3);
        const ByteRange range = some();
        const auto value = static_cast<uint8_t>(below(200));
        stream().fill(bound(i, range, Access::write), std::byte{value});
        return set(i, range, value);
      }
      case 9:
        if (gate_) return;
        return upload();
      case 10: return make(below(3));
      case 11:
        if (gate_ && below(4) == 0) {
          gate_->open();
          gate_.reset();
        }
        if (gate_) return;
        return check(below(3), some(16));
      default: stream().flush();
    }
  }

  World& world_;
  std::mt19937 random_;
  Rig rig_;
  std::array<Ref<runtime::Stream>, 3> streams_;
  Ref<hal::Program> program_;
  std::array<Memory, 3> memory_;
  std::optional<Gate> gate_;
};

void run_programs(World& world, bool host_visible) {
  const bool simulated = world.mode() == World::Mode::adversary;
  if (world.family() == Family::cuda && !simulated) {
    return world.skip("a callback that throws fails its whole list there");
  }
  const uint32_t programs = simulated ? 2 : 60;
  for (uint32_t seed = 1; seed <= programs && world.failure().empty(); ++seed) {
    FailingProgram(world, seed, host_visible).run(simulated ? 25 : 60);
  }
}

RUNTIME_SCENARIO(mlx_4174_only_the_bytes_that_depend_on_a_failure_are_bad) {
  run_programs(world, true);
}

RUNTIME_SCENARIO(mlx_4174_only_the_bytes_that_depend_on_a_failure_are_bad_on_a_discrete_device) {
  run_programs(world, false);
}

}  // namespace
}  // namespace holdfast::testing
