// Calls in an order that would hang, overtake or misplace something if the runtime trusted its
// callers.
#include <atomic>

#include "holdfast/runtime/program_recorder.h"
#include "holdfast/testing/rig.h"

namespace holdfast::runtime {
namespace {

namespace t = holdfast::testing;
using t::Gate;
using t::Rig;

TEST(Readback, one_that_waits_for_a_gated_writer_does_not_block_a_recorder) {
  Rig rig;
  const auto writer = rig.stream("writer", 0);
  const auto x = writer->allocate(64_B, "x");
  Gate gate(*rig.context);
  writer->wait_for(gate.point());
  t::put(*writer, x, 1);
  writer->flush();
  t::Event waiting;
  std::atomic<int> value{0};
  sync::Thread reader("reader", [&] {
    WaitLimit limit = t::patient();
    limit.interrupted = [&] { return waiting.set(), false; };
    std::vector<std::byte> data(64);
    writer->readback(x, {}, data, limit);
    value = std::to_integer<int>(data[0]);
  });
  ASSERT_TRUE(waiting.wait());
  // Only after this call does the caller open the gate.
  const auto other = rig.stream("other", 1);
  other->fill(t::write_of(x), std::byte{2});
  EXPECT_EQ(rig.stats().waits_for(WaitReason::host_access).count, 0U);
  gate.open();
  reader.join();
  EXPECT_TRUE(value == 1 || value == 2) << value;
}

TEST(Readback, of_unreachable_memory_is_not_held_up_by_gated_work_on_any_one_queue) {
  for (uint32_t gated = 0; gated < 3; ++gated) {
    Rig rig(t::discrete(3));
    const auto writer = rig.stream("writer", (gated + 1) % 3);
    const auto x = writer->allocate(64_B, "x");
    t::put(*writer, x, 5);
    ASSERT_TRUE(t::until_done(writer->flush()));
    const auto held_up = rig.stream("held up", gated);
    const auto y = held_up->allocate(64_B, "y");
    Gate gate(*rig.context);
    held_up->wait_for(gate.point());
    t::put(*held_up, y, 1);
    held_up->flush();
    std::vector<std::byte> data(64);
    EXPECT_NO_THROW(writer->readback(x, {}, data, t::patient())) << "queue " << gated;
    EXPECT_EQ(data[63], std::byte{5});
  }
}

TEST(Errors, a_refusal_that_anothers_need_brought_about_is_told_to_the_streams_own_user) {
  std::atomic<bool> refuse{false};
  hal::CpuOptions device{.queues = 2, .helpers = 0};
  device.fail_submit = [&](const hal::Queue&) {
    return refuse.exchange(false) ? Failure(ErrorCode::out_of_memory, "refused") : Failure();
  };
  Rig rig(device);
  const auto s = rig.stream("s", 0);
  const auto other = rig.stream("other", 1);
  const auto x = s->allocate(64_B, "x");
  const auto y = s->allocate(64_B, "y");
  t::put(*s, x, 1);
  s->flush();
  t::run_affine(rig, *s, t::in_place(x), 1);
  refuse = true;
  // Depending on the open list submits it, which the device refuses.
  EXPECT_THROW(t::run_affine(rig, *other, t::in_place(x), 1), OutOfMemoryError);
  s->fill(t::write_of(y), std::byte{7});
  EXPECT_THROW(s->flush(), OutOfMemoryError) << "although the list it submits now is good";
  EXPECT_NO_THROW(s->synchronize()) << "it is told once";
  EXPECT_EQ(t::value_of(*s, y), 7) << "and nothing recorded since is lost";
}

TEST(MisuseOfOrder, waiting_for_a_list_not_yet_submitted_is_refused) {
  Rig rig;
  const auto stream = rig.stream("s");
  const auto x = stream->allocate(64_B);
  t::put(*stream, x, 1);
  stream->fill(t::write_of(x), std::byte{1});
  const hal::Point last = stream->flush();
  EXPECT_THROW(stream->wait_for({last.timeline, last.value.next()}), UsageError);
  stream->fill(t::write_of(x), std::byte{2});
  EXPECT_NO_THROW(stream->synchronize(t::patient()));
}

TEST(MisuseOfOrder, replaying_a_program_that_is_no_user_of_its_memory_is_refused) {
  Rig rig;
  const auto stream = rig.stream("s");
  auto x = stream->allocate(64_B, "x");
  hal::CommandList list(rig.device->info(), "by hand");
  list.fill(t::write_of(x), std::byte{1});
  const auto program = rig.device->create_program(list).or_raise();
  x.reset();
  EXPECT_THROW(stream->replay(program, {}), UsageError);
}

TEST(MisuseOfOrder, a_moved_from_program_recorder_is_refused) {
  Rig rig;
  ProgramRecorder recorder(rig.context, "recorder");
  const ProgramRecorder taken = std::move(recorder);
  EXPECT_THROW(recorder.seal(), UsageError);  // NOLINT(bugprone-use-after-move)
  EXPECT_THROW(ProgramRecorder(nullptr, "of nothing"), UsageError);
}

TEST(Allocator, every_offset_is_aligned_whatever_the_sizes) {
  Rig rig;
  const uint64_t alignment = rig.device->info().buffer_alignment.value;
  std::vector<Ref<hal::Allocation>> all;
  for (uint64_t size = 1; size < 6000; size += 37) {
    all.push_back(rig.context->allocate(Bytes{size}));
    EXPECT_EQ(all.back()->offset().value % alignment, 0U) << size << " bytes";
  }
}

struct CountsCopies {
  explicit CountsCopies(std::atomic<int>& counter) : copies(&counter) {}
  CountsCopies(const CountsCopies& other) : copies(other.copies) { ++*copies; }
  CountsCopies(CountsCopies&&) = default;
  CountsCopies& operator=(const CountsCopies&) = delete;
  CountsCopies& operator=(CountsCopies&&) = delete;
  ~CountsCopies() = default;
  void operator()(const hal::NativeCall&) const {}

  std::atomic<int>* copies;
};

TEST(Transaction, commit_runs_no_copy_of_a_users_callback) {
  std::atomic<int> copies{0};
  Rig rig;
  const auto stream = rig.stream("s");
  auto transaction = stream->begin();
  transaction.native(CountsCopies(copies), {});
  const int before = copies;
  transaction.commit();
  EXPECT_EQ(copies, before);
  stream->synchronize(t::patient());
}

TEST(Shutdown, a_second_close_waits_for_the_first_and_gives_the_same_report) {
  Rig rig({.queues = 1, .helpers = 0}, {.shutdown_bound = std::chrono::seconds(60)});
  const auto stream = rig.stream("s");
  const auto x = stream->allocate(64_B);
  t::Slow slow(*rig.context);
  t::run_slow(slow, *stream, x);
  const hal::Point point = stream->flush();
  ASSERT_TRUE(slow.wait_until_running());
  sync::Thread first("first", [&] { rig.context->close(); });
  ASSERT_TRUE(t::until([&] { return rig.context->closed(); }));
  std::atomic<bool> resolved{false};
  sync::Thread second("second", [&] {
    const bool clean = rig.context->close().clean();
    resolved = clean && !point.pending();
  });
  slow.release();
  first.join();
  second.join();
  EXPECT_TRUE(resolved);
}

}  // namespace
}  // namespace holdfast::runtime
