#include <array>

#include "holdfast/testing/rig.h"

namespace holdfast::runtime {
namespace {

using holdfast::testing::Gate;
using holdfast::testing::Rig;
using holdfast::testing::Slow;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace t = holdfast::testing;

// Two devices, the memory of the first out of the host's reach where `discrete`.
struct Transfers {
  explicit Transfers(bool discrete = false, Options options = {.reaper = false})
      : source(discrete ? t::discrete() : hal::CpuOptions{.queues = 2, .helpers = 0}, options),
        target({.queues = 2, .helpers = 0}, options) {}
  ~Transfers() { target.context->close(); }

  void move(const Ref<hal::Allocation>& to) const {
    here->copy_from(*there, t::read_of(x), t::write_of(to), Stream::Source::may_change, "move");
  }

  Rig source;
  Rig target;
  Ref<Stream> there = source.stream("there", 0);
  Ref<Stream> here = target.stream("here", 0);
  Ref<hal::Allocation> x = there->allocate(64_KiB, "x");
  Ref<hal::Allocation> y = here->allocate(64_KiB, "y");
};

TEST(CopyFrom, moves_bytes_in_order_after_what_both_streams_recorded) {
  for (const bool discrete : {false, true}) {
    const Transfers two(discrete);
    t::put(*two.there, two.x, 5);
    t::put(*two.here, two.y, 1);
    two.move(two.y);
    // Both may be written again at once.
    t::put(*two.there, two.x, 9);
    EXPECT_EQ(t::value_of(*two.here, two.y), 5);
    EXPECT_EQ(t::value_of(*two.there, two.x), 9);
  }
}

TEST(CopyFrom, of_one_device_is_a_copy) {
  const Transfers two;
  const auto z = two.there->allocate(64_KiB, "z");
  t::put(*two.there, two.x, 5);
  two.there->copy_from(*two.there, t::read_of(two.x), t::write_of(z));
  EXPECT_EQ(t::value_of(*two.there, z), 5);
}

TEST(CopyFrom, refuses_ends_that_do_not_fit) {
  const Transfers two;
  t::put(*two.there, two.x, 5);
  const auto shorter = two.here->allocate(64_B, "shorter");
  EXPECT_THAT([&] { two.move(shorter); },
              ThrowsMessage<UsageError>(HasSubstr("65536 bytes at one end")));
  EXPECT_THAT([&] { two.here->copy_from(*two.there, t::read_of(two.y), t::write_of(two.y)); },
              ThrowsMessage<UsageError>(HasSubstr("belongs to another device")));
  EXPECT_THAT([&] { two.move(two.there->allocate(64_KiB, "not here")); },
              ThrowsMessage<UsageError>(HasSubstr("belongs to another device")));
  two.move(two.y);
  EXPECT_EQ(t::value_of(*two.here, two.y), 5) << "and goes on";
}

// Nothing else waits for the source, or fails with it, although it shares the stream.
TEST(CopyFrom, fails_alone) {
  Transfers two;
  const auto before = two.here->allocate(64_B, "before");
  const auto after = two.here->allocate(64_B, "after");
  t::run_explode(two.source, *two.there, two.x, "source");
  t::put(*two.here, before, 1);
  two.move(two.y);
  t::put(*two.here, after, 2);
  EXPECT_THAT([&] { (void)t::value_of(*two.here, two.y); },
              ThrowsMessage<ExecutionError>(HasSubstr("it exploded")));
  EXPECT_EQ(t::value_of(*two.here, before), 1);
  EXPECT_EQ(t::value_of(*two.here, after), 2);
  t::put(*two.here, two.y, 3);
  EXPECT_EQ(t::value_of(*two.here, two.y), 3) << "overwriting heals";
}

// What the budget sees behind a transfer: a source that merely takes long is waited for, and one
// that waits for the host is not, since the caller may be the one who signals.
TEST(CopyFrom, lets_the_budget_wait_for_a_source_that_runs) {
  const Transfers two(false, {.deferred_limit = 4_KiB, .reaper = false});
  Slow slow(*two.source.context, std::byte{7});
  t::run_slow(slow, *two.there, two.x);
  two.move(two.here->allocate(64_KiB, "dropped"));
  EXPECT_TRUE(t::blocks([&] { two.here->fill(t::write_of(two.y), {}); }));
  slow.release();
  two.here->fill(t::write_of(two.y), std::byte{2});
  EXPECT_EQ(t::value_of(*two.here, two.y), 2);
}

TEST(CopyFrom, lets_the_budget_not_wait_for_a_source_that_waits_for_the_host) {
  const Transfers two(false, {.deferred_limit = 4_KiB, .reaper = false});
  Gate gate(*two.source.context);
  two.there->wait_for(gate.point());
  two.there->fill(t::write_of(two.x), std::byte{7});
  two.move(two.here->allocate(64_KiB, "dropped"));
  const auto kept = two.here->allocate(64_KiB, "kept");
  two.move(kept);
  two.here->fill(t::write_of(two.y), std::byte{2});
  EXPECT_EQ(two.source.stats().wait_count() + two.target.stats().wait_count(), 0U);
  gate.open();
  EXPECT_EQ(t::value_of(*two.here, kept), 7);
}

// Memory of the source that only a transfer under way still holds is waited for before an
// allocation is refused.
TEST(CopyFrom, gives_the_source_its_memory_back_where_that_is_short) {
  const Transfers two(true);
  t::put(*two.there, two.x, 5);
  two.source.context->synchronize();
  Slow slow(*two.target.context);
  t::run_slow(slow, *two.here, two.y);
  two.move(two.y);
  two.source.context->trim();
  two.source.context->set_memory_limit(two.source.stats().memory.reserved);
  std::vector<Ref<hal::Allocation>> all;
  const auto take_all = [&] {
    for (int i = 0; i < 4096; ++i) all.push_back(two.there->allocate(64_KiB));
  };
  EXPECT_TRUE(t::blocks(take_all)) << "for the transfer";
  slow.release();
  EXPECT_EQ(t::value_of(*two.here, two.y), 5);
}

}  // namespace
}  // namespace holdfast::runtime
