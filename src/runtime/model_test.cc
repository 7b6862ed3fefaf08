#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>

#include "holdfast/runtime/program_recorder.h"
#include "holdfast/testing/effort.h"
#include "holdfast/testing/rig.h"

// Random programs against a host that does one thing after another.
namespace holdfast::runtime {
namespace {

using hal::Access;
using hal::Binding;
using holdfast::testing::Gate;
using holdfast::testing::Rig;
namespace t = holdfast::testing;

class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed)
      : random_(seed),
        rig_({.queues = static_cast<uint32_t>(1 + pick(4)),
              .helpers = static_cast<unsigned>(pick(2)),
              .device_memory_host_visible = pick(2) == 0},
             options()) {
    for (uint64_t n = 1 + pick(3); n > 0; --n) streams_.push_back(rig_.stream());
    ProgramRecorder recorder(rig_.context, "sum");
    recorder.copy(Binding::of_slot(0, {{}, 64_B}, Access::read),
                  Binding::of_slot(1, {{}, 64_B}, Access::write));
    recorder.dispatch(rig_.affine(),
                      std::array{Binding::of_slot(1, {{}, 64_B}, Access::read_write)},
                      hal::Parameters::of_replay({{}, 1_B}), {1, 1, 1});
    program_ = recorder.seal();
  }

  void step() {
    if (arrays_.size() < 3) return create();
    switch (pick(16)) {
      case 0:
      case 1: create(); break;
      case 2:
      case 3: add(); break;
      case 4:
      case 5: affine(); break;
      case 6: copy(); break;
      case 7: fill(); break;
      case 8: upload(); break;
      case 9: readback(any()); break;
      case 10: map(); break;
      case 11: drop(); break;
      case 12: stream().flush(); break;
      case 13: transaction(); break;
      case 14: replay(); break;
      default: chain(); break;
    }
  }

  void check_all() {
    gate_.reset();
    for (Array& array : arrays_) ASSERT_NO_FATAL_FAILURE(readback(array));
    rig_.context->synchronize(t::patient());
    arrays_.clear();
    program_.reset();
    rig_.context->retire();
    const RuntimeStats now = rig_.stats();
    EXPECT_EQ(now.memory.deferred, 0_B);
    EXPECT_EQ(now.memory.live, 0_B);
    EXPECT_EQ(now.memory.pooled, now.memory.reserved);
    EXPECT_EQ(now.failures, 0U);
  }

 private:
  struct Array {
    Ref<hal::Allocation> memory;
    std::vector<uint8_t> expected;
  };

  uint64_t pick(uint64_t below) { return random_() % below; }
  Options options() {
    Options options;
    options.reaper = pick(2) == 0;
    if (pick(2) == 0) options.deferred_limit = 4_KiB;
    if (pick(2) == 0) options.max_in_flight = static_cast<uint32_t>(1 + pick(8));
    if (pick(3) == 0) options.memory_limit = 2_MiB;
    return options;
  }
  Stream& stream() { return *streams_[pick(streams_.size())]; }
  Array& any() { return arrays_[pick(arrays_.size())]; }
  uint8_t byte() { return static_cast<uint8_t>(random_()); }
  ByteRange range_in(const Array& array) {
    const uint64_t size = array.expected.size();
    const uint64_t offset = pick(size);
    return {{offset}, {1 + pick(size - offset)}};
  }
  std::span<uint8_t> bytes(Array& array, ByteRange range) {
    return std::span(array.expected).subspan(range.offset.value, range.length.value);
  }

  void create() {
    Array array;
    const uint64_t size = 64 + pick(8) * 200;
    array.memory = pick(4) == 0 ? rig_.context->allocate(Bytes{size}, "c")
                                : stream().allocate(Bytes{size}, "s");
    array.expected.assign(size, byte());
    if (pick(2) == 0) {
      t::put(stream(), array.memory, array.expected[0]);
    } else {
      stream().upload(array.memory, {}, std::as_bytes(std::span(array.expected)));
    }
    arrays_.push_back(std::move(array));
  }

  void add() {
    Array& in = any();
    Array& out = any();
    if (&in == &out) return;
    const uint64_t length = std::min(in.expected.size(), out.expected.size());
    const uint8_t value = byte();
    stream().dispatch(rig_.add(),
                      std::array{t::part(in.memory, 0, length, Access::read),
                                 t::part(out.memory, 0, length, Access::write)},
                      hal::Parameters::of(value), {1, 1, 1});
    for (uint64_t i = 0; i < length; ++i) {
      out.expected[i] = static_cast<uint8_t>(in.expected[i] + value);
    }
  }

  void affine() {
    Array& array = any();
    const ByteRange range = range_in(array);
    const uint8_t value = byte();
    t::run_affine(rig_, stream(), Binding::of(array.memory, range, Access::read_write), value);
    for (uint8_t& b : bytes(array, range)) b = static_cast<uint8_t>(2 * b + value);
  }

  void copy() {
    Array& from = any();
    Array& to = any();
    const ByteRange source = range_in(from);
    if (source.length.value > to.expected.size()) return;
    const ByteRange target{{pick(to.expected.size() - source.length.value + 1)}, source.length};
    if (&from == &to && source.overlaps(target)) return;
    stream().copy(Binding::of(from.memory, source, Access::read),
                  Binding::of(to.memory, target, Access::write));
    std::ranges::copy(bytes(from, source), bytes(to, target).begin());
  }

  void fill() {
    Array& array = any();
    const ByteRange range = range_in(array);
    const uint8_t value = byte();
    stream().fill(Binding::of(array.memory, range, Access::write), std::byte{value});
    std::ranges::fill(bytes(array, range), value);
  }

  void upload() {
    Array& array = any();
    const ByteRange range = range_in(array);
    std::vector<uint8_t> data(range.length.value);
    for (uint8_t& b : data) b = byte();
    stream().upload(array.memory, range.offset, std::as_bytes(std::span(data)));
    std::ranges::copy(data, bytes(array, range).begin());
    std::ranges::fill(data, uint8_t{0xee});
  }

  void readback(Array& array) {
    gate_.reset();
    const ByteRange range = range_in(array);
    std::vector<uint8_t> data(range.length.value);
    stream().readback(array.memory, range.offset, std::as_writable_bytes(std::span(data)),
                      t::patient());
    const auto expected = bytes(array, range);
    ASSERT_TRUE(std::ranges::equal(data, expected));
    ASSERT_EQ(t::bytes_of(stream(), array.memory), array.expected);
  }

  void map() {
    Array& array = any();
    if (array.memory->host_pointer() == nullptr) return;
    gate_.reset();
    const ByteRange range = range_in(array);
    const Map map = stream().map(array.memory, range, Access::read_write, t::patient());
    const auto seen = map.as<uint8_t>();
    ASSERT_TRUE(std::ranges::equal(seen, bytes(array, range)));
    for (uint8_t& b : seen) b = static_cast<uint8_t>(b ^ 0x5a);
    for (uint8_t& b : bytes(array, range)) b = static_cast<uint8_t>(b ^ 0x5a);
  }

  void drop() {
    std::swap(any(), arrays_.back());
    arrays_.pop_back();
  }

  // out = affine(copy of in), through scratch.
  void transaction() {
    Array& in = any();
    Array& out = any();
    const uint64_t length = std::min(in.expected.size(), out.expected.size());
    const uint8_t value = byte();
    Transaction transaction = stream().begin();
    const auto scratch = transaction.scratch(Bytes{length});
    transaction.copy(t::part(in.memory, 0, length, Access::read), t::write_of(scratch));
    transaction.dispatch(rig_.affine(), std::array{t::in_place(scratch)},
                         hal::Parameters::of(value), {1, 1, 1});
    transaction.copy(t::read_of(scratch), t::part(out.memory, 0, length, Access::write));
    if (pick(4) == 0) return;  // rolled back
    transaction.commit();
    for (uint64_t i = 0; i < length; ++i) {
      out.expected[i] = static_cast<uint8_t>(2 * in.expected[i] + value);
    }
  }

  void replay() {
    Array& in = any();
    Array& out = any();
    if (&in == &out) return;
    const uint8_t value = byte();
    stream().replay(program_,
                    std::array{t::part(in.memory, 0, 64, Access::read),
                               t::part(out.memory, 0, 64, Access::read_write)},
                    std::as_bytes(std::span(&value, 1)));
    for (size_t i = 0; i < 64; ++i) {
      out.expected[i] = static_cast<uint8_t>(2 * in.expected[i] + value);
    }
  }

  // Waits for another stream, or for a gate that is opened before the next host access.
  void chain() {
    if (pick(2) == 0) {
      stream().wait_for(stream().flush());
    } else {
      if (!gate_) gate_.emplace(*rig_.context);
      stream().wait_for(gate_->point());
    }
  }

  std::mt19937_64 random_;
  Rig rig_;
  std::optional<Gate> gate_;
  std::vector<Ref<Stream>> streams_;
  Ref<hal::Program> program_;
  std::vector<Array> arrays_;
};

// HOLDFAST_TEST_SEED=n runs that one.
TEST(Stream, random_programs_compute_what_a_sequential_host_computes) {
  uint64_t first = 1;
  uint64_t last = holdfast::testing::shortened(300);
  if (const char* only = std::getenv("HOLDFAST_TEST_SEED")) {
    first = last = std::strtoull(only, nullptr, 10);
  }
  for (uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(::testing::Message() << "replay with HOLDFAST_TEST_SEED=" << seed);
    RandomProgram program(seed);
    for (int i = 0; i < 120; ++i) {
      try {
        ASSERT_NO_FATAL_FAILURE(program.step()) << "step " << i;
      } catch (const std::exception& error) {
        FAIL() << "step " << i << " raised " << error.what();
      }
    }
    ASSERT_NO_FATAL_FAILURE(program.check_all());
  }
}

}  // namespace
}  // namespace holdfast::runtime
