#include <atomic>

#include "holdfast/testing/effort.h"
#include "holdfast/testing/rig.h"

// Memory as the users of a Context see it: limits, running out, imports, faults.
namespace holdfast::runtime {
namespace {

using hal::Access;
using holdfast::testing::Gate;
using holdfast::testing::Rig;
using holdfast::testing::Slow;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace t = holdfast::testing;

const hal::CpuOptions kTwoQueuesAlone{.queues = 2, .helpers = 0};

TEST(Allocator, zero_bytes_can_be_allocated_bound_and_read) {
  Rig rig;
  const auto stream = rig.stream();
  const auto nothing = stream->allocate({}, "nothing");
  EXPECT_EQ(nothing->size(), 0_B);
  t::put(*stream, nothing, 1);
  t::run_add(rig, *stream, nothing, nothing, 1);
  EXPECT_TRUE(t::bytes_of(*stream, nothing).empty());
  stream->synchronize();
  const auto other = stream->allocate({}, "other");
  EXPECT_NE(nothing->id(), other->id());
}

TEST(Allocator, ids_are_never_reused_with_the_range) {
  Rig rig;
  const auto stream = rig.stream();
  auto first = stream->allocate(1_KiB);
  const hal::ResourceId id = first->id();
  const Bytes offset = first->offset();
  first.reset();
  const auto second = stream->allocate(1_KiB);
  EXPECT_EQ(second->offset(), offset);
  EXPECT_NE(second->id(), id);
}

TEST(Allocator, the_limit_in_bytes_is_an_error_that_says_who_holds_what) {
  Rig rig(kTwoQueuesAlone, {.memory_limit = 4_MiB, .reaper = false});
  const auto weights = rig.context->allocate(3_MiB, "weights");
  EXPECT_THAT([&] { rig.context->allocate(3_MiB, "activations"); },
              ThrowsMessage<OutOfMemoryError>(
                  AllOf(HasSubstr("activations"), HasSubstr("weights"), HasSubstr("4.0 MiB"))));
  EXPECT_TRUE(rig.context->allocate(512_KiB)) << "what fits still does";
  EXPECT_LE(rig.stats().memory.reserved, 4_MiB);
}

TEST(Allocator, the_limit_can_be_raised_and_lowered_while_running) {
  Rig rig(kTwoQueuesAlone, {.memory_limit = 2_MiB, .reaper = false});
  auto first = rig.context->allocate(2_MiB);
  EXPECT_THROW(rig.context->allocate(2_MiB), OutOfMemoryError);
  rig.context->set_memory_limit(4_MiB);
  const auto second = rig.context->allocate(2_MiB);
  rig.context->set_memory_limit(1_MiB);
  EXPECT_EQ(rig.stats().memory.live, 4_MiB) << "lowering takes nothing away";
  first.reset();
  EXPECT_THROW(rig.context->allocate(3_MiB), OutOfMemoryError);
}

TEST(Allocator, the_limit_in_device_buffers_is_met_exactly_and_counts_no_imports) {
  Rig rig(kTwoQueuesAlone, {.object_limit = 2, .reaper = false});
  std::vector<std::byte> mine(4096);
  const auto imported = rig.context->import({mine.data(), 4_KiB, {}, "mine"});
  const auto again = rig.context->import({mine.data(), 4_KiB, {}, "mine again"});
  const auto first = rig.context->allocate(8_MiB, "first");
  const auto second = rig.context->allocate(8_MiB, "second");
  EXPECT_EQ(rig.stats().memory.device_buffers, 4U);
  EXPECT_EQ(rig.stats().memory.imports, 2U);
  EXPECT_THAT([&] { rig.context->allocate(8_MiB, "third"); },
              ThrowsMessage<OutOfMemoryError>(AllOf(HasSubstr("'third'"),
                                                    HasSubstr("all 2 device buffers are in use"),
                                                    HasSubstr("raise Options::object_limit"))));
  EXPECT_NO_THROW(rig.context->import({mine.data(), 4_KiB, {}, "a third import"}));
}

TEST(Allocator, a_devices_limit_of_imports_is_met_exactly_named_and_leaves_new_memory_alone) {
  hal::CpuOptions device = kTwoQueuesAlone;
  device.max_imports = 2;
  Rig rig(device);
  std::vector<std::byte> mine(4096);
  const auto first = rig.context->import({mine.data(), 4_KiB, {}, "first"});
  auto second = rig.context->import({mine.data(), 4_KiB, {}, "second"});
  int deleted = 0;
  try {
    rig.context->import({mine.data(), 4_KiB, [&] { ++deleted; }, "third"});
    ADD_FAILURE() << "one more than the limit";
  } catch (const OutOfMemoryError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("'third' cannot be imported"), HasSubstr("2 imports are alive"),
                      HasSubstr(rig.device->info().name)));
  }
  EXPECT_EQ(deleted, 1);
  EXPECT_EQ(rig.stats().memory.imports, 2U);
  EXPECT_EQ(rig.stats().memory.device_buffers, 2U);
  EXPECT_NO_THROW(rig.context->allocate(8_MiB, "new memory"));
  second.reset();
  EXPECT_NO_THROW(rig.context->import({mine.data(), 4_KiB, {}, "third"}));
}

TEST(Allocator, an_import_at_the_limit_waits_for_one_that_is_dead_and_in_flight) {
  hal::CpuOptions device = kTwoQueuesAlone;
  device.max_imports = 1;
  Rig rig(device);
  const auto stream = rig.stream();
  std::vector<std::byte> mine(4096);
  auto first = rig.context->import({mine.data(), 4_KiB, {}, "first"});
  t::put(*stream, first, 3);
  first.reset();
  EXPECT_NO_THROW(rig.context->import({mine.data(), 4_KiB, {}, "second"}));
  EXPECT_EQ(mine[4095], std::byte{3});
}

TEST(Allocator, there_may_be_more_imports_than_device_buffers) {
  hal::CpuOptions device = kTwoQueuesAlone;
  device.max_buffers = 4;
  Rig rig(device);
  std::vector<std::byte> mine(4096);
  std::vector<Ref<hal::Allocation>> imports;
  for (int i = 0; i < 100; ++i) {
    imports.push_back(rig.context->import({mine.data(), 4_KiB, {}, "mine"}));
  }
  EXPECT_NO_THROW(rig.context->allocate(1_MiB, "new memory"));
}

TEST(Allocator, running_out_names_the_setting_that_limits) {
  const auto message_of = [](Rig& rig, std::string name, Bytes size) -> std::string {
    try {
      rig.context->allocate(size, std::move(name));
    } catch (const OutOfMemoryError& error) {
      return error.what();
    }
    return "nothing was raised";
  };
  Rig by_option(kTwoQueuesAlone, {.memory_limit = 4_MiB, .reaper = false});
  EXPECT_THAT(message_of(by_option, "x", 5_MiB),
              AllOf(HasSubstr("the limit is 4.0 MiB (Options::memory_limit)"),
                    HasSubstr("raise Options::memory_limit, or drop"), HasSubstr("for 'x'")));
  Rig by_variable(kTwoQueuesAlone,
                  {.memory_limit = 4_MiB, .memory_limit_from_environment = true, .reaper = false});
  EXPECT_THAT(message_of(by_variable, "", 5_MiB),
              AllOf(HasSubstr("raise HOLDFAST_MEMORY_LIMIT, or drop"),
                    HasSubstr("for an unnamed allocation")));
  by_variable.context->set_memory_limit(2_MiB);
  EXPECT_THAT(message_of(by_variable, "x", 5_MiB),
              AllOf(HasSubstr("set_memory_limit"), ::testing::Not(HasSubstr("HOLDFAST"))));
  Rig by_device({.queues = 1, .helpers = 0, .memory = 4_MiB}, {.reaper = false});
  EXPECT_THAT(message_of(by_device, "x", 4_MiB + 256_B),
              AllOf(HasSubstr("no room for 4194560 B"), HasSubstr("the limit is 4194304 B"),
                    HasSubstr("the memory of device '" + by_device.device->info().name),
                    ::testing::Not(HasSubstr("raise"))));
}

TEST(Allocator, a_wait_for_another_kinds_memory_is_followed_by_a_trim_and_another_attempt) {
  Rig rig(kTwoQueuesAlone, {.memory_limit = 4_MiB, .reaper = false});
  const auto stream = rig.stream();
  auto staging = rig.context->allocate(3_MiB, "staging", hal::MemoryKind::upload);
  { const auto map = stream->map(staging, {{}, 3_MiB}, Access::write); }
  const auto out = stream->allocate(256_KiB, "out");
  stream->copy(hal::Binding::of(staging, {{}, 1_KiB}, Access::read),
               hal::Binding::of(out, {{}, 1_KiB}, Access::write));
  staging.reset();
  EXPECT_EQ(rig.stats().memory.deferred, 3_MiB);
  EXPECT_NO_THROW(rig.context->allocate(3_MiB, "x"));
}

TEST(Allocator, running_out_first_retires_without_waiting) {
  Rig rig(kTwoQueuesAlone, {.memory_limit = 4_MiB, .reaper = false});
  const auto stream = rig.stream();
  auto x = stream->allocate(3_MiB, "x");
  Gate gate(*rig.context);
  stream->wait_for(gate.point());
  t::put(*stream, x, 1);
  const hal::Point point = stream->flush();
  x.reset();
  gate.open();
  ASSERT_TRUE(t::until_done(point));
  const uint64_t retired = rig.stats().retired;
  const auto y = rig.context->allocate(3_MiB, "y", hal::MemoryKind::upload);
  EXPECT_EQ(rig.stats().retired, retired + 1);
  EXPECT_EQ(rig.stats().wait_count(), 0U);
}

TEST(Allocator, running_out_then_trims_other_kinds_of_memory) {
  Rig rig(kTwoQueuesAlone, {.memory_limit = 4_MiB, .reaper = false});
  { const auto pooled = rig.context->allocate(3_MiB, "pooled", hal::MemoryKind::upload); }
  EXPECT_EQ(rig.stats().memory.pooled, 3_MiB);
  EXPECT_TRUE(rig.context->allocate(3_MiB, "x"));
  EXPECT_EQ(rig.stats().memory.reserved, 3_MiB);
  EXPECT_EQ(rig.stats().wait_count(), 0U);
}

TEST(Allocator, running_out_then_waits_for_the_oldest_and_counts_it) {
  Rig rig(kTwoQueuesAlone, {.memory_limit = 4_MiB, .reaper = false});
  const auto stream = rig.stream();
  Slow slow(*rig.context);
  auto x = stream->allocate(3_MiB, "x");
  t::run_slow(slow, *stream, x);
  stream->flush();
  x.reset();
  const auto ask = [&] { rig.context->allocate(3_MiB, "y", hal::MemoryKind::upload); };
  EXPECT_TRUE(t::blocks(ask));
  EXPECT_EQ(rig.stats().waits_for(WaitReason::out_of_memory).count, 1U);
  slow.release();
  EXPECT_NO_THROW(ask());
  EXPECT_LE(rig.stats().memory.reserved_peak, 4_MiB);
}

TEST(Allocator, running_out_takes_a_submitted_range_of_another_stream_without_waiting) {
  Rig rig(kTwoQueuesAlone, {.memory_limit = 4_MiB, .reaper = false});
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  Slow slow(*rig.context, std::byte{1});
  auto x = a->allocate(3_MiB, "x");
  t::run_slow(slow, *a, x);
  a->flush();
  x.reset();
  const auto y = b->allocate(3_MiB, "y");
  t::put(*b, y, 2);
  const hal::Point later = b->flush();
  EXPECT_EQ(rig.stats().wait_count(), 0U);
  EXPECT_TRUE(later.pending()) << "the new life must be ordered after the old one";
  slow.release();
  EXPECT_EQ(t::value_of(*b, y), 2);
}

TEST(Allocator, running_out_submits_an_open_list_that_keeps_the_memory) {
  Rig rig(kTwoQueuesAlone, {.memory_limit = 4_MiB, .reaper = false});
  const auto a = rig.stream("a", 0);
  auto x = a->allocate(3_MiB, "x");
  t::put(*a, x, 1);
  x.reset();
  EXPECT_NO_THROW(rig.context->allocate(3_MiB, "y"));
}

TEST(Allocator, running_out_submits_every_open_list_that_keeps_the_memory) {
  Rig rig(kTwoQueuesAlone, {.memory_limit = 4_MiB, .reaper = false});
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  auto x = a->allocate(3_MiB, "x");
  const auto y = b->allocate(1_KiB, "y");
  t::put(*a, x, 1);
  // Submits a's list; b's stays open and needs x too.
  b->copy(t::part(x, 0, 1024, Access::read), t::write_of(y));
  x.reset();
  EXPECT_NO_THROW(rig.context->allocate(3_MiB, "z"));
}

TEST(Allocator, memory_that_others_free_at_the_last_moment_is_not_overlooked) {
  // The device refuses every further block; during its k-th refusal another task retires. (Between
  // the second one and the third the pool is trimmed, which may give just that memory back.)
  for (const int k : {1, 3, 4}) {
    std::function<void()> at_refusal;
    hal::CpuOptions device{.queues = 1, .helpers = 0};
    device.fail_allocation = [&](const hal::BufferDesc&) {
      if (!at_refusal) return Failure();
      at_refusal();
      return Failure(ErrorCode::out_of_memory, "no more blocks");
    };
    Rig rig(device);
    const auto stream = rig.stream();
    Slow slow(*rig.context);
    const auto out = stream->allocate(1_KiB);
    auto staging = stream->allocate(1_MiB, "staging", hal::MemoryKind::upload);
    { const Map filled = stream->map(staging, {{}, 1_KiB}, Access::write); }
    t::run_slow(slow, *stream, out);
    stream->copy(t::part(staging, 0, 1024, Access::read), t::write_of(out));
    const hal::Point point = stream->flush();
    staging.reset();
    int refusals = 0;
    at_refusal = [&] {
      if (++refusals != k) return;
      slow.release();
      EXPECT_TRUE(t::until_done(point));
      rig.context->retire();
    };
    EXPECT_NO_THROW(stream->allocate(1_MiB, "next", hal::MemoryKind::upload)) << "k = " << k;
    at_refusal = {};
  }
}

TEST(Allocator, what_a_wait_has_freed_is_used_without_asking_the_device_again) {
  std::atomic<bool> refuse{false};
  std::atomic<int> refusals{0};
  hal::CpuOptions device{.queues = 1, .helpers = 0};
  device.fail_allocation = [&](const hal::BufferDesc&) {
    if (!refuse) return Failure();
    ++refusals;
    return Failure(ErrorCode::out_of_memory, "no more blocks");
  };
  Rig rig(device);
  const auto stream = rig.stream();
  Slow slow(*rig.context);
  const auto out = stream->allocate(1_KiB);
  auto staging = stream->allocate(1_MiB, "staging", hal::MemoryKind::upload);
  { const Map filled = stream->map(staging, {{}, 1_KiB}, Access::write); }
  t::run_slow(slow, *stream, out);
  stream->copy(t::part(staging, 0, 1024, Access::read), t::write_of(out));
  stream->flush();
  staging.reset();
  refuse = true;
  const auto ask = [&] { stream->allocate(1_MiB, "next", hal::MemoryKind::upload); };
  EXPECT_TRUE(t::blocks(ask));
  const int before_the_wait = refusals;
  refusals = 0;
  sync::Thread releaser("releaser", [&] {
    EXPECT_TRUE(t::until([&] { return refusals >= before_the_wait; }));
    slow.release();
  });
  EXPECT_NO_THROW(ask());
  refusals = before_the_wait;
}

TEST(Allocator, running_out_does_not_wait_for_what_only_the_host_can_let_go) {
  Rig rig(kTwoQueuesAlone, {.memory_limit = 4_MiB, .reaper = false});
  const auto stream = rig.stream();
  Gate gate(*rig.context);
  auto x = stream->allocate(3_MiB, "gated thing");
  stream->wait_for(gate.point());
  t::put(*stream, x, 1);
  stream->flush();
  x.reset();
  EXPECT_THAT([&] { rig.stream()->allocate(3_MiB, "y"); },
              ThrowsMessage<OutOfMemoryError>(HasSubstr("gated thing")));
  gate.open();
  EXPECT_NO_THROW(rig.stream()->allocate(3_MiB, "y"));
}

TEST(Allocator, a_device_that_refuses_the_nth_buffer_leaves_everything_consistent) {
  const int most = holdfast::testing::is_shortened() ? 2 : 6;  // all bytes of each are written
  for (int n = 1; n <= most; ++n) {
    std::atomic<int> calls{0};
    std::atomic<bool> armed{true};
    hal::CpuOptions device{.queues = 1, .helpers = 0};
    device.fail_allocation = [&, n](const hal::BufferDesc&) {
      if (armed && ++calls >= n) return Failure(ErrorCode::out_of_memory, "injected");
      return Failure();
    };
    Rig rig(device);
    const auto stream = rig.stream();
    std::vector<Ref<hal::Allocation>> got;
    std::string message;
    for (int i = 0; i < 6 && message.empty(); ++i) {
      try {
        got.push_back(stream->allocate(4_MiB, "x"));
        t::put(*stream, got.back(), static_cast<uint8_t>(i));
      } catch (const OutOfMemoryError& error) {
        message = error.what();
      }
    }
    EXPECT_THAT(message, HasSubstr("injected"));
    EXPECT_EQ(got.size(), static_cast<size_t>(n - 1));
    const MemoryStats now = rig.stats().memory;
    EXPECT_EQ(now.live + now.deferred + now.pooled, now.reserved);
    EXPECT_EQ(now.device_buffers, static_cast<uint64_t>(n - 1));
    armed = false;
    got.push_back(stream->allocate(4_MiB, "again"));
    t::put(*stream, got.back(), static_cast<uint8_t>(n - 1));
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(t::value_of(*stream, got[i]), static_cast<int>(i));
    }
  }
}

TEST(Allocator, an_import_is_deleted_once_and_only_after_its_last_list) {
  Rig rig;
  const auto stream = rig.stream();
  std::vector<uint8_t> mine(4096, 5);
  std::atomic<int> deleted{0};
  Gate gate(*rig.context);
  auto imported = rig.context->import({mine.data(), 4_KiB, [&] { ++deleted; }, "mine"});
  const auto out = stream->allocate(4_KiB);
  stream->wait_for(gate.point());
  t::run_add(rig, *stream, imported, out, 1);
  imported.reset();
  EXPECT_EQ(deleted, 0) << "an open list needs it";
  const hal::Point point = stream->flush();
  rig.context->retire();
  EXPECT_EQ(deleted, 0) << "a list in flight needs it";
  gate.open();
  ASSERT_TRUE(t::until_done(point));
  EXPECT_EQ(deleted, 0) << "nobody has seen the list end yet";
  rig.context->retire();
  EXPECT_EQ(deleted, 1);
  EXPECT_EQ(t::value_of(*stream, out), 6);
  rig.context->close();
  EXPECT_EQ(deleted, 1);
}

TEST(Allocator, an_unused_import_is_deleted_at_once_and_a_refused_one_too) {
  Rig rig;
  std::vector<std::byte> mine(64);
  int deleted = 0;
  {
    const auto imported = rig.context->import({mine.data(), 64_B, [&] { ++deleted; }, "mine"});
  }
  EXPECT_EQ(deleted, 1);
  EXPECT_THROW(rig.context->import({nullptr, 64_B, [&] { ++deleted; }, "null"}), UsageError);
  EXPECT_EQ(deleted, 2);
  EXPECT_EQ(rig.stats().memory.device_buffers, 0U);
  rig.context->close();
  EXPECT_THROW(rig.context->import({mine.data(), 64_B, [&] { ++deleted; }, "late"}), ClosedError);
  EXPECT_EQ(deleted, 3);
}

TEST(Allocator, an_imports_memory_is_never_given_to_somebody_else) {
  Rig rig;
  const auto stream = rig.stream();
  std::vector<std::byte> mine(4096);
  auto imported = rig.context->import({mine.data(), 4_KiB, {}, "mine"});
  t::put(*stream, imported, 1);
  imported.reset();
  const auto next = stream->allocate(4_KiB);
  EXPECT_TRUE(next->host_pointer() < mine.data() || next->host_pointer() >= mine.data() + 4096);
  stream->synchronize();
}

TEST(Allocator, trim_gives_unused_memory_back_to_the_device) {
  Rig rig;
  const auto stream = rig.stream();
  auto x = stream->allocate(8_MiB);
  t::put(*stream, x, 1);
  ASSERT_TRUE(t::until_done(stream->flush()));
  x.reset();
  rig.context->trim();
  EXPECT_EQ(rig.stats().memory.reserved, 0_B);
  EXPECT_EQ(rig.stats().memory.device_buffers, 0U);
}

TEST(Allocator, a_cache_limit_bounds_what_is_pooled_from_then_on) {
  Rig rig;
  const auto stream = rig.stream();
  const auto fill_and_drop = [&] {
    std::vector<Ref<hal::Allocation>> all;
    for (int i = 0; i < 4; ++i) {
      all.push_back(stream->allocate(8_MiB));
      t::put(*stream, all.back(), 1);
    }
    stream->synchronize();
  };
  fill_and_drop();
  EXPECT_GT(rig.stats().memory.pooled, 16_MiB);
  rig.context->set_cache_limit(16_MiB);
  EXPECT_LE(rig.stats().memory.pooled, 16_MiB) << "it takes effect at once";
  fill_and_drop();
  EXPECT_LE(rig.stats().memory.pooled, 16_MiB) << "and whenever memory becomes free";
  rig.context->set_cache_limit(kMaxBytes);
  fill_and_drop();
  EXPECT_GT(rig.stats().memory.pooled, 16_MiB);
}

}  // namespace
}  // namespace holdfast::runtime
