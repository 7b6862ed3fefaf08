#include "holdfast/testing/rig.h"

// Accesses of others, on the CPU: a Point that the test opens stands for their work.

namespace holdfast::runtime {
namespace {

using holdfast::testing::Gate;
using holdfast::testing::Pages;
using holdfast::testing::Rig;
using holdfast::testing::Slow;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace t = holdfast::testing;

TEST(OutsideAccess, a_range_is_not_given_out_again_before_its_readers_are_done) {
  const Rig rig;
  const auto stream = rig.context->new_stream({.name = "stream"});
  Gate readers(*rig.context);
  Ref<hal::Allocation> dropped = stream->allocate(64_KiB, "dropped");
  t::put(*stream, dropped, 1);
  stream->synchronize();
  rig.context->add_outside_access(dropped, hal::Access::read, readers.point());
  const Ref<hal::Buffer> block = dropped->buffer();
  const ByteRange range{dropped->offset(), dropped->size()};
  dropped.reset();
  stream->synchronize();
  EXPECT_EQ(rig.stats().memory.deferred, 64_KiB);
  std::vector<Ref<hal::Allocation>> others;
  for (int i = 0; i < 32; ++i) {
    others.push_back(stream->allocate(64_KiB, "other"));
    const ByteRange other{others.back()->offset(), others.back()->size()};
    EXPECT_FALSE(others.back()->buffer() == block && other.overlaps(range));
  }
  readers.open();
  rig.context->retire();
  EXPECT_EQ(rig.stats().memory.deferred, 0_B);
}

TEST(OutsideAccess, whoever_overwrites_what_others_read_waits_for_them_on_the_device) {
  Rig rig;
  const auto stream = rig.stream("stream");
  Gate readers(*rig.context);
  const auto x = stream->allocate(64_KiB, "x");
  t::put(*stream, x, 1);
  rig.context->add_outside_access(x, hal::Access::read, readers.point());
  EXPECT_EQ(t::value_of(*stream, x), 1) << "reading beside them waits for nothing";
  t::run_affine(rig, *stream, t::in_place(x), 3);
  const hal::Point written = stream->flush();
  EXPECT_TRUE(written.pending());
  readers.open();
  EXPECT_EQ(t::value_of(*stream, x), 5);
}

TEST(OutsideAccess, whoever_reads_what_others_write_waits_for_them) {
  Rig rig;
  const auto stream = rig.stream("stream");
  const auto other = rig.stream("other");
  Gate writers(*rig.context);
  const auto x = stream->allocate(64_KiB, "x");
  const auto y = stream->allocate(64_KiB, "y");
  t::put(*stream, x, 1);
  stream->synchronize();
  rig.context->add_outside_access(x, hal::Access::write, writers.point());
  t::run_add(rig, *other, x, y, 4);
  EXPECT_TRUE(other->flush().pending());
  EXPECT_TRUE(t::blocks([&] { (void)t::value_of(*stream, x); })) << "and so does the host";
  writers.open();
  EXPECT_EQ(t::value_of(*stream, y), 5);
  EXPECT_EQ(t::value_of(*stream, x), 1);
}

TEST(OutsideAccess, what_others_failed_to_write_is_bad_until_it_is_overwritten) {
  Rig rig;
  const auto stream = rig.stream("stream");
  Gate writers(*rig.context);
  const auto x = stream->allocate(64_KiB, "x");
  rig.context->add_outside_access(x, hal::Access::write, writers.point());
  writers.fail(Failure(ErrorCode::execution, "they spilled it"));
  EXPECT_THAT([&] { (void)t::value_of(*stream, x); },
              ThrowsMessage<Error>(HasSubstr("they spilled it")));
  t::put(*stream, x, 7);
  EXPECT_EQ(t::value_of(*stream, x), 7);
}

TEST(OutsideAccess, the_deleter_of_an_import_runs_after_it) {
  const Rig rig;
  Gate readers(*rig.context);
  const Pages pages(4096);
  bool deleted = false;
  Ref<hal::Allocation> x =
      rig.context->import({pages.data(), pages.size(), [&] { deleted = true; }, "theirs"});
  rig.context->add_outside_access(x, hal::Access::read, readers.point());
  x.reset();
  rig.context->retire();
  EXPECT_FALSE(deleted);
  readers.open();
  rig.context->retire();
  EXPECT_TRUE(deleted);
}

TEST(OutsideAccess, the_reaper_sees_its_end_where_nobody_calls) {
  const Rig rig({.queues = 1, .helpers = 0}, {.reaper = true});
  Gate readers(*rig.context);
  const Pages pages(4096);
  t::Event deleted;
  Ref<hal::Allocation> x =
      rig.context->import({pages.data(), pages.size(), [&] { deleted.set(); }, "theirs"});
  rig.context->add_outside_access(x, hal::Access::read, readers.point());
  x.reset();
  readers.open();
  EXPECT_TRUE(deleted.wait());
}

TEST(OutsideAccess, many_at_once_are_all_waited_for) {
  Rig rig;
  const auto stream = rig.stream("stream");
  std::vector<std::unique_ptr<Gate>> gates;
  const auto x = stream->allocate(64_KiB, "x");
  t::put(*stream, x, 1);
  stream->synchronize();
  for (int i = 0; i < 40; ++i) {
    gates.push_back(std::make_unique<Gate>(*rig.context));
    rig.context->add_outside_access(x, hal::Access::read, gates.back()->point());
  }
  t::run_affine(rig, *stream, t::in_place(x), 3);
  const hal::Point written = stream->flush();
  for (const auto& gate : gates) {
    EXPECT_TRUE(written.pending());
    gate->open();
  }
  EXPECT_EQ(t::value_of(*stream, x), 5);
}

TEST(OutsideAccess, closing_waits_for_it_up_to_its_limit) {
  Ref<hal::Allocation> x;
  Rig rig({.queues = 1, .helpers = 0},
          {.shutdown_bound = std::chrono::milliseconds(1), .reaper = false});
  const auto stream = rig.stream("stream");
  const Gate never(*rig.context);
  x = stream->allocate(64_KiB, "x");
  rig.context->add_outside_access(x, hal::Access::read, never.point());
  EXPECT_TRUE(rig.context->close().clean());
}

TEST(OutsideAccess, is_refused_for_what_is_not_of_the_device) {
  const Rig rig;
  const Rig elsewhere;
  const auto stream = elsewhere.context->new_stream();
  const auto theirs = stream->allocate(64_B, "theirs");
  const Gate gate(*rig.context);
  EXPECT_THAT([&] { rig.context->add_outside_access(theirs, hal::Access::read, gate.point()); },
              ThrowsMessage<UsageError>(HasSubstr("belongs to another device")));
  EXPECT_THAT([&] { rig.context->add_outside_access({}, hal::Access::read, gate.point()); },
              ThrowsMessage<UsageError>(HasSubstr("names no allocation")));
  const Slow slow(*elsewhere.context);
  t::run_slow(slow, *stream, theirs);
  const hal::Point foreign = stream->flush();
  const auto own = rig.context->allocate(64_B, "own");
  EXPECT_THAT([&] { rig.context->add_outside_access(own, hal::Access::read, foreign); },
              ThrowsMessage<UsageError>(HasSubstr("export that Point")));
  rig.context->make_native_wait(nullptr, own);  // nothing to wait for
  const auto here = rig.context->new_stream();
  const Slow busy(*rig.context);
  t::run_slow(busy, *here, own);
  EXPECT_THROW(rig.context->make_native_wait(nullptr, own), UnsupportedError);
}

}  // namespace
}  // namespace holdfast::runtime
