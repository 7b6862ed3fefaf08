#include "holdfast/runtime/transaction.h"

#include <atomic>

#include "holdfast/testing/rig.h"

namespace holdfast::runtime {
namespace {

using hal::Access;
using holdfast::testing::Rig;
using holdfast::testing::Slow;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace t = holdfast::testing;

TEST(Transaction, commits_all_its_commands_in_order) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  const auto y = stream->allocate(64_B);
  const uint8_t three = 3;
  Transaction transaction = stream->begin();
  EXPECT_TRUE(transaction.empty());
  transaction.fill(t::write_of(x), std::byte{4});
  transaction.dispatch(rig.affine(), std::array{t::in_place(x)}, hal::Parameters::of(three),
                       {1, 1, 1});
  transaction.copy(t::read_of(x), t::write_of(y));
  transaction.native([](const hal::NativeCall& c) { c.host_bindings[0][0] = std::byte{0}; },
                     std::array{t::part(y, 0, 1, Access::write)});
  EXPECT_EQ(rig.stats().commands, 0U);
  transaction.commit();
  EXPECT_TRUE(transaction.empty());
  EXPECT_EQ(rig.stats().commands, 4U);
  EXPECT_EQ(t::value_of(*stream, x), 11);
  EXPECT_EQ(t::bytes_of(*stream, y)[0], 0);
  EXPECT_EQ(t::bytes_of(*stream, y)[1], 11);
}

TEST(Transaction, is_a_user_of_what_it_names_unless_its_caller_is) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  Transaction of_its_own = stream->begin();
  of_its_own.fill(t::write_of(x), std::byte{4});
  EXPECT_EQ(x->users(), 2U);
  of_its_own.roll_back();
  Transaction of_the_caller = stream->begin(Transaction::MemoryUser::caller);
  of_the_caller.fill(t::write_of(x), std::byte{5});
  EXPECT_EQ(x->users(), 1U);
  of_the_caller.commit();
  EXPECT_EQ(t::value_of(*stream, x), 5);
}

TEST(Transaction, dropping_it_records_nothing) {
  Rig rig;
  const auto stream = rig.stream();
  auto x = stream->allocate(4_KiB);
  {
    Transaction transaction = stream->begin();
    transaction.fill(t::write_of(x), std::byte{4});
  }
  EXPECT_EQ(rig.stats().commands, 0U);
  EXPECT_FALSE(stream->flush().timeline);
  x.reset();
  EXPECT_EQ(rig.stats().memory.deferred, 0_B) << "nothing was held";
}

TEST(Transaction, rolled_back_it_records_nothing_and_can_be_used_again) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  const auto y = stream->allocate(64_B);
  Transaction transaction = stream->begin();
  transaction.fill(t::write_of(x), std::byte{4}, "never");
  transaction.roll_back();
  EXPECT_TRUE(transaction.empty());
  transaction.commit();
  EXPECT_EQ(rig.stats().commands, 0U);
  const uint8_t one = 1;
  transaction.fill(t::write_of(y), std::byte{5}, "first");
  transaction.dispatch(rig.affine(), std::array{t::in_place(y)}, hal::Parameters::of(one),
                       {1, 1, 1}, "second");
  transaction.commit();
  EXPECT_EQ(rig.stats().commands, 2U);
  EXPECT_EQ(t::value_of(*stream, y), 11);
}

TEST(Transaction, a_refused_command_leaves_the_others_to_be_committed) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  Transaction transaction = stream->begin();
  transaction.fill(t::write_of(x), std::byte{1});
  EXPECT_THROW(transaction.fill(t::part(x, 60, 8, Access::write), std::byte{2}), UsageError);
  transaction.commit();
  EXPECT_EQ(rig.stats().commands, 1U);
  EXPECT_EQ(t::value_of(*stream, x), 1);
}

TEST(Transaction, a_commit_refused_at_its_third_command_records_nothing_at_all) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  const auto y = stream->allocate(64_B);
  const auto poisoned = stream->allocate(64_B, "poisoned");
  t::put(*stream, x, 1);
  t::put(*stream, y, 2);
  stream->synchronize();
  t::run_explode(rig, *stream, poisoned);
  EXPECT_THROW(stream->synchronize(), ExecutionError);
  const RuntimeStats before = rig.stats();

  Transaction transaction = stream->begin();
  transaction.fill(t::write_of(x), std::byte{7});
  transaction.fill(t::write_of(y), std::byte{7});
  transaction.copy(t::read_of(poisoned), t::write_of(x));
  EXPECT_THROW(transaction.commit(), ExecutionError);
  EXPECT_EQ(rig.stats().commands, before.commands);
  EXPECT_EQ(rig.stats().barriers, before.barriers);
  EXPECT_EQ(rig.stats().holds, before.holds);
  stream->flush();
  EXPECT_EQ(rig.stats().submissions, before.submissions);
  EXPECT_EQ(t::value_of(*stream, x), 1);
  EXPECT_EQ(t::value_of(*stream, y), 2);
}

TEST(Transaction, a_commit_refused_by_a_map_can_be_repeated_once_the_map_has_ended) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  const auto y = stream->allocate(64_B);
  Transaction transaction = stream->begin();
  transaction.fill(t::write_of(x), std::byte{7});
  transaction.fill(t::write_of(y), std::byte{8});
  {
    const Map map = stream->map(y, {{}, 64_B}, Access::write, {}, "my map");
    EXPECT_THAT([&] { transaction.commit(); }, ThrowsMessage<UsageError>(HasSubstr("my map")));
    EXPECT_EQ(rig.stats().commands, 0U);
  }
  transaction.commit();
  EXPECT_EQ(rig.stats().commands, 2U);
  EXPECT_EQ(t::value_of(*stream, x), 7);
}

TEST(Transaction, it_is_a_user_of_all_that_it_names_until_commit) {
  Rig rig;
  const auto stream = rig.stream();
  const auto out = stream->allocate(4_KiB);
  auto x = stream->allocate(4_KiB);
  const Bytes offset = x->offset();
  t::put(*stream, x, 6);
  Transaction transaction = stream->begin();
  transaction.copy(t::read_of(x), t::write_of(out));
  x.reset();
  EXPECT_EQ(rig.stats().memory.deferred, 0_B) << "not dead";
  EXPECT_NE(stream->allocate(4_KiB)->offset(), offset);
  transaction.commit();
  EXPECT_EQ(rig.stats().memory.deferred_objects, 1U) << "dead now";
  EXPECT_EQ(t::value_of(*stream, out), 6);
}

TEST(Transaction, scratch_dies_at_commit_and_serves_the_next_transaction) {
  Rig rig;
  const auto stream = rig.stream();
  const auto out = stream->allocate(256_B);
  const auto run = [&](uint8_t value) {
    Transaction transaction = stream->begin();
    auto scratch = transaction.scratch(64_KiB);
    const Bytes offset = scratch->offset();
    transaction.fill(t::write_of(scratch), std::byte{value});
    transaction.copy(t::part(scratch, value, 64, Access::read),
                     t::part(out, uint64_t{value} * 64, 64, Access::write));
    scratch.reset();
    transaction.commit();
    return offset;
  };
  const Bytes first = run(0);
  for (uint8_t i = 1; i < 4; ++i) EXPECT_EQ(run(i), first);
  EXPECT_EQ(rig.stats().memory.reused_in_order, 3U);
  const auto bytes = t::bytes_of(*stream, out);
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(bytes[i], i / 64);
}

TEST(Transaction, scratch_lives_longer_where_the_ref_is_kept) {
  Rig rig;
  const auto stream = rig.stream();
  Transaction transaction = stream->begin();
  const auto scratch = transaction.scratch(64_B, "kept");
  transaction.fill(t::write_of(scratch), std::byte{3});
  transaction.commit();
  EXPECT_EQ(t::value_of(*stream, scratch), 3);
}

TEST(Transaction, scratch_may_have_more_than_two_gibibytes) {
  Rig rig;
  const auto stream = rig.stream();
  if (rig.device->info().memory < 4_GiB) GTEST_SKIP() << "this machine has too little memory";
  Transaction node = stream->begin();
  const auto large = node.scratch(2_GiB + 512_B);
  EXPECT_EQ(large->size(), 2_GiB + 512_B);
  node.fill(t::part(large, (2_GiB).value, 512, hal::Access::write), std::byte{9});
  node.commit();
  std::vector<std::byte> end(512);
  stream->readback(large, 2_GiB, end);
  EXPECT_EQ(end, std::vector<std::byte>(512, std::byte{9}));
}

TEST(Transaction, use_after_move_is_an_error) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  Transaction first = stream->begin();
  first.fill(t::write_of(x), std::byte{1}, "a label long enough to be on the heap, surely");
  Transaction second = std::move(first);
  EXPECT_THROW(first.fill(t::write_of(x), std::byte{2}), UsageError);  // NOLINT
  EXPECT_THROW(first.scratch(64_B), UsageError);
  EXPECT_THROW(first.commit(), UsageError);
  second.commit();
  EXPECT_EQ(t::value_of(*stream, x), 1);
}

TEST(Transaction, it_can_be_used_again_after_commit_and_keeps_its_stream_alive) {
  Rig rig;
  auto stream = rig.stream("s");
  const auto x = stream->allocate(64_B);
  Transaction transaction = stream->begin();
  stream.reset();
  for (uint8_t i = 1; i <= 3; ++i) {
    transaction.fill(t::write_of(x), std::byte{i});
    transaction.commit();
  }
  EXPECT_EQ(t::value_of(*rig.stream("other"), x), 3);
}

TEST(Transaction, an_empty_commit_records_nothing) {
  Rig rig;
  const auto stream = rig.stream();
  Transaction transaction = stream->begin();
  { const auto unused = transaction.scratch(64_B); }
  transaction.commit();
  EXPECT_EQ(rig.stats().commands, 0U);
  EXPECT_FALSE(stream->flush().timeline);
}

TEST(Transaction, a_list_is_never_submitted_in_the_middle_of_one) {
  Rig rig({.queues = 2, .helpers = 0}, {});
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  const auto x = a->allocate(64_B);
  const auto y = a->allocate(64_B);
  t::put(*a, x, 0);
  t::put(*a, y, 0);
  rig.context->synchronize();
  t::Event done;
  sync::Thread submitter("submitter", [&] {
    while (!done.is_set()) a->flush();
  });
  // Both halves of a transaction land in one list: the one that takes along the wait for a Point
  // that failed, so that nothing of it runs.
  for (uint8_t i = 1; i < 200; ++i) {
    t::Gate gate(*rig.context);
    gate.fail(Failure(ErrorCode::execution, "fail the list"));
    a->wait_for(gate.point());
    const uint64_t commands = rig.stats().commands;
    Transaction transaction = a->begin();
    transaction.fill(t::write_of(x), std::byte{i});
    transaction.fill(t::write_of(y), std::byte{i});
    transaction.commit();
    EXPECT_EQ(rig.stats().commands, commands + 2);
    EXPECT_THROW(t::bytes_of(*b, x), ExecutionError);
    EXPECT_THROW(t::bytes_of(*b, y), ExecutionError) << "y must share the fate of x";
    t::put(*b, x, 0);
    t::put(*b, y, 0);
  }
  done.set();
  submitter.join();
}

TEST(Transaction, an_interrupted_wait_for_the_budget_leaves_no_doubt_whether_it_was_recorded) {
  Rig rig({.queues = 2, .helpers = 0}, {.deferred_limit = 1_KiB, .reaper = false});
  const auto stream = rig.stream("s", 0);
  const auto y = stream->allocate(64_B);
  Slow slow(*rig.context);
  auto x = stream->allocate(4_KiB);
  t::run_slow(slow, *stream, x);
  stream->flush();
  x.reset();
  const uint64_t before = rig.stats().commands;
  std::atomic<bool> threw{false};
  (void)t::blocks([&] {
    sync::Thread helper("release", [&] {
      // Should the wait not be interruptible, it ends here.
      if (!t::until([&] { return threw || rig.stats().wait_count() > 0; })) slow.release();
    });
    Transaction transaction = stream->begin();
    transaction.fill(t::write_of(y), std::byte{1});
    try {
      transaction.commit();
    } catch (const InterruptedError&) {
      threw = true;
    }
  });
  // commit(): "When it throws, nothing was recorded."
  EXPECT_EQ(rig.stats().commands - before, threw ? 0U : 1U);
}

}  // namespace
}  // namespace holdfast::runtime
