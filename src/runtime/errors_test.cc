#include "holdfast/testing/rig.h"

// Invariant 11: errors go to those who depend on them, and to nobody else.
namespace holdfast::runtime {
namespace {

using hal::Access;
using holdfast::testing::Gate;
using holdfast::testing::Rig;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace t = holdfast::testing;

struct Failed {
  explicit Failed(hal::CpuOptions options = {.queues = 2, .helpers = 0})
      : rig(std::move(options)) {}

  Rig rig;
  Ref<Stream> a = rig.stream("decode", 0);
  Ref<Stream> b = rig.stream("other", 1);
  Ref<hal::Allocation> x = a->allocate(64_B, "x");
  Ref<hal::Allocation> y = a->allocate(64_B, "y");
  Ref<hal::Allocation> z = b->allocate(64_B, "z");

  // x is written by a list that fails.
  Failure poison() {
    t::run_explode(rig, *a, x, "layer 3");
    const hal::Point point = a->flush();
    EXPECT_TRUE(t::until_done(point));
    rig.context->retire();
    return point.failure();
  }
};

TEST(Errors, the_waiter_learns_kernel_label_list_and_cause) {
  Failed s;
  t::run_explode(s.rig, *s.a, s.x, "layer 3");
  const hal::Point point = s.a->flush();
  const auto all = AllOf(HasSubstr("explode"), HasSubstr("layer 3"), HasSubstr("decode"),
                         HasSubstr("it exploded"));
  EXPECT_THAT([&] { s.rig.context->wait(point); }, ThrowsMessage<ExecutionError>(all));
  EXPECT_THAT([&] { s.a->synchronize(); }, ThrowsMessage<ExecutionError>(all));
  EXPECT_THAT([&] { t::bytes_of(*s.a, s.x); }, ThrowsMessage<ExecutionError>(all));
  EXPECT_EQ(s.rig.stats().failures, 1U);
}

TEST(Errors, a_native_callback_that_throws_fails_its_list_with_the_text) {
  Failed s;
  s.a->native([](const hal::NativeCall&) { throw std::runtime_error("blas said no"); },
              std::array{t::write_of(s.x)}, "gemm");
  EXPECT_THAT([&] { t::bytes_of(*s.a, s.x); },
              ThrowsMessage<ExecutionError>(AllOf(HasSubstr("blas said no"), HasSubstr("gemm"))));
}

TEST(Errors, dependants_in_flight_get_the_same_cause_and_independent_work_is_good) {
  Failed s;
  Gate gate(*s.rig.context);
  const auto independent = s.b->allocate(64_B);
  s.a->wait_for(gate.point());
  t::run_explode(s.rig, *s.a, s.x);
  const hal::Point first = s.a->flush();
  t::run_add(s.rig, *s.a, s.x, s.y, 1);
  const hal::Point same_stream = s.a->flush();
  t::run_add(s.rig, *s.b, s.y, s.z, 1);
  const hal::Point other_stream = s.b->flush();
  t::put(*s.b, independent, 4);
  const hal::Point good = s.b->flush();
  gate.open();
  for (const auto& point : {first, same_stream, other_stream, good}) {
    ASSERT_TRUE(t::until_done(point));
  }
  ASSERT_TRUE(first.failure());
  EXPECT_EQ(same_stream.failure(), first.failure());
  EXPECT_EQ(other_stream.failure(), first.failure());
  EXPECT_FALSE(good.failure());
  EXPECT_EQ(t::value_of(*s.b, independent), 4);
  EXPECT_THAT([&] { t::bytes_of(*s.b, s.z); },
              ThrowsMessage<ExecutionError>(HasSubstr("it exploded")));
}

TEST(Errors, other_commands_of_a_list_whose_kernel_failed_run_and_what_they_write_is_good) {
  Failed s;
  t::put(*s.a, s.y, 1);
  t::run_add(s.rig, *s.a, s.y, s.z, 2);
  t::run_explode(s.rig, *s.a, s.x, "layer 3");
  const auto after = s.a->allocate(64_B, "after");
  t::put(*s.a, after, 7);
  const hal::Point point = s.a->flush();
  ASSERT_TRUE(t::until_done(point));
  EXPECT_TRUE(point.failure()) << "the Point fails all the same";
  EXPECT_EQ(t::value_of(*s.a, s.y), 1);
  EXPECT_EQ(t::value_of(*s.b, s.z), 3);
  EXPECT_EQ(t::value_of(*s.b, after), 7);
  EXPECT_THROW(t::bytes_of(*s.a, s.x), ExecutionError);
}

TEST(Errors, readers_of_the_failed_bytes_in_the_same_list_are_bad_with_the_same_cause) {
  Failed s;
  const auto w = s.a->allocate(64_B, "w");
  t::put(*s.a, w, 1);
  t::run_explode(s.rig, *s.a, s.x, "layer 3");
  t::run_add(s.rig, *s.a, s.x, s.y, 1);
  t::run_add(s.rig, *s.a, s.y, s.z, 1);
  t::run_add(s.rig, *s.a, w, w, 1);
  s.a->flush();
  for (const auto& bad : {s.x, s.y, s.z}) {
    EXPECT_THAT([&] { t::bytes_of(*s.b, bad); },
                ThrowsMessage<ExecutionError>(AllOf(HasSubstr("layer 3"), HasSubstr("exploded"))));
  }
  EXPECT_EQ(t::value_of(*s.b, w), 2);
}

TEST(Errors, what_the_failed_list_only_read_stays_good) {
  Failed s;
  t::put(*s.a, s.y, 6);
  s.a->synchronize();
  t::run_add(s.rig, *s.a, s.y, s.z, 1);
  s.poison();
  EXPECT_EQ(t::value_of(*s.a, s.y), 6);
  EXPECT_EQ(t::value_of(*s.a, s.z), 7);
}

TEST(Errors, later_lists_of_any_queue_fail_only_where_they_read_bad_bytes) {
  Failed s;
  Gate gate(*s.rig.context);
  s.a->wait_for(gate.point(), hal::WaitKind::order);
  t::run_explode(s.rig, *s.a, s.x, "layer 3");
  t::put(*s.a, s.y, 5);
  const hal::Point root = s.a->flush();
  struct Reader {
    Ref<hal::Allocation> of_bad;
    Ref<hal::Allocation> of_good;
    Ref<hal::Allocation> alone;
    hal::Point mixed;
    hal::Point fine;
  };
  std::vector<Reader> readers;
  for (const auto& stream : {s.a, s.b}) {
    Reader r{stream->allocate(64_B), stream->allocate(64_B), stream->allocate(64_B), {}, {}};
    // One list that reads both, and one that reads good bytes alone.
    t::run_add(s.rig, *stream, s.x, r.of_bad, 1);
    t::run_add(s.rig, *stream, s.y, r.of_good, 1);
    r.mixed = stream->flush();
    t::run_add(s.rig, *stream, s.y, r.alone, 2);
    r.fine = stream->flush();
    readers.push_back(std::move(r));
  }
  gate.open();
  for (const Reader& r : readers) {
    ASSERT_TRUE(t::until_done(r.fine));
    EXPECT_EQ(r.mixed.failure(), root.failure());
    EXPECT_FALSE(r.fine.failure());
    EXPECT_THROW(t::bytes_of(*s.a, r.of_bad), ExecutionError);
    EXPECT_EQ(t::value_of(*s.a, r.of_good), 6);
    EXPECT_EQ(t::value_of(*s.a, r.alone), 7);
  }
}

TEST(Errors, bytes_overwritten_in_flight_are_good_to_a_list_that_waits_for_the_failed_one_too) {
  Failed s;
  Gate gate(*s.rig.context);
  s.a->wait_for(gate.point());
  s.a->dispatch(s.rig.explode(), std::array{t::part(s.x, 0, 32, Access::write)}, {}, {1, 1, 1});
  s.a->fill(t::part(s.x, 32, 32, Access::write), std::byte{2});
  s.a->flush();
  s.b->fill(t::part(s.x, 0, 32, Access::write), std::byte{2});
  s.b->flush();
  // Half of what it reads is the failed list's, and good; the other half was bad and is healed.
  t::run_add(s.rig, *s.b, s.x, s.z, 1);
  const hal::Point reader = s.b->flush();
  gate.open();
  ASSERT_TRUE(t::until_done(reader));
  EXPECT_FALSE(reader.failure());
  EXPECT_EQ(t::value_of(*s.b, s.z), 3);
}

TEST(Errors, a_readback_of_good_bytes_of_a_failed_list_succeeds_on_a_discrete_device) {
  Failed s(t::discrete());
  s.a->dispatch(s.rig.explode(), std::array{t::part(s.x, 0, 32, Access::write)}, {}, {1, 1, 1});
  s.a->fill(t::part(s.x, 32, 32, Access::write), std::byte{4});
  std::vector<std::byte> half(32);
  s.b->readback(s.x, 32_B, half);
  EXPECT_EQ(half[0], std::byte{4});
  EXPECT_THROW(s.b->readback(s.x, {}, half), ExecutionError);
  EXPECT_THROW(s.b->readback(s.x, 31_B, std::span(half).first(2)), ExecutionError);
}

TEST(Errors, more_lists_in_flight_than_a_history_tells_apart_fail_only_the_readers_of_bad_tiles) {
  constexpr uint64_t kTiles = 60;
  Failed s;
  Gate gate(*s.rig.context);
  const auto wide = s.a->allocate(64_B * kTiles, "wide");
  std::vector<Ref<hal::Allocation>> copies;
  s.a->wait_for(gate.point(), hal::WaitKind::order);
  for (uint64_t i = 0; i < kTiles; ++i) {
    const auto tile = t::part(wide, 64 * i, 64, Access::write);
    if (i % 7 == 2) {
      s.a->dispatch(s.rig.explode(), std::array{tile}, {}, {1, 1, 1});
    } else {
      s.a->fill(tile, static_cast<std::byte>(i));
    }
    s.a->flush();
  }
  for (uint64_t i = 0; i < kTiles; ++i) {
    copies.push_back(s.b->allocate(64_B));
    s.b->copy(t::part(wide, 64 * i, 64, Access::read), t::write_of(copies.back()));
  }
  s.b->flush();
  gate.open();
  for (uint64_t i = 0; i < kTiles; ++i) {
    if (i % 7 == 2) {
      EXPECT_THROW(t::bytes_of(*s.b, copies[i]), ExecutionError) << "tile " << i;
      std::vector<std::byte> tile(64);
      EXPECT_THROW(s.a->readback(wide, Bytes{64 * i}, tile), ExecutionError) << "tile " << i;
    } else {
      EXPECT_EQ(t::value_of(*s.b, copies[i]), static_cast<int>(i)) << "tile " << i;
    }
  }
}

TEST(Errors, a_donated_range_that_failed_is_bad_until_it_is_overwritten) {
  Failed s;
  t::put(*s.a, s.x, 1);
  t::put(*s.a, s.y, 1);
  // In place, as an operation does that takes its input's memory.
  s.a->dispatch(s.rig.explode(), std::array{t::in_place(s.x)}, {}, {1, 1, 1});
  t::run_affine(s.rig, *s.a, t::in_place(s.x), 1);
  t::run_affine(s.rig, *s.a, t::in_place(s.y), 1);
  EXPECT_THROW(t::bytes_of(*s.a, s.x), ExecutionError);
  EXPECT_EQ(t::value_of(*s.a, s.y), 3);
  t::put(*s.a, s.x, 2);
  EXPECT_EQ(t::value_of(*s.a, s.x), 2);
}

TEST(Errors, reading_poison_raises_the_cause_and_records_nothing_and_the_stream_works_on) {
  Failed s;
  s.poison();
  const uint64_t commands = s.rig.stats().commands;
  for (const auto& stream : {s.a, s.b}) {
    EXPECT_THAT([&] { t::run_add(s.rig, *stream, s.x, s.y, 1); },
                ThrowsMessage<ExecutionError>(HasSubstr("layer 3")));
    EXPECT_THROW(t::run_affine(s.rig, *stream, t::in_place(s.x), 1), ExecutionError);
    EXPECT_THROW(stream->map(s.x, {{}, 64_B}, Access::read), ExecutionError);
  }
  EXPECT_EQ(s.rig.stats().commands, commands);
  t::put(*s.a, s.y, 9);
  EXPECT_EQ(t::value_of(*s.a, s.y), 9);
}

TEST(Errors, asking_twice_does_not_heal_poison) {
  Failed s;
  s.poison();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(t::bytes_of(*s.a, s.x), ExecutionError);
    EXPECT_THROW(s.a->map(s.x, {{}, 64_B}, Access::read), ExecutionError);
    EXPECT_THROW(s.a->map(s.x, {{}, 64_B}, Access::read_write), ExecutionError) << "time " << i;
  }
}

TEST(Errors, a_full_overwrite_heals) {
  Failed s;
  s.poison();
  t::put(*s.b, s.x, 3);
  EXPECT_EQ(t::value_of(*s.a, s.x), 3);
  t::run_affine(s.rig, *s.a, t::in_place(s.x), 1);
  EXPECT_EQ(t::value_of(*s.a, s.x), 7);
}

TEST(Errors, overwriting_in_tiles_heals_tile_by_tile) {
  Failed s;
  s.poison();
  std::vector<std::byte> part(16);
  for (uint64_t tile = 0; tile < 4; ++tile) {
    EXPECT_THROW(s.a->readback(s.x, Bytes{16 * tile}, part), ExecutionError);
    s.a->fill(t::part(s.x, 16 * tile, 16, Access::write), std::byte{5});
    s.a->readback(s.x, Bytes{16 * tile}, part);
    EXPECT_EQ(part[15], std::byte{5});
  }
  EXPECT_EQ(t::value_of(*s.a, s.x), 5);
}

TEST(Errors, a_transaction_may_read_what_it_has_overwritten_itself) {
  Failed s;
  s.poison();
  Transaction transaction = s.a->begin();
  transaction.fill(t::write_of(s.x), std::byte{5});
  transaction.copy(t::read_of(s.x), t::write_of(s.y));
  EXPECT_NO_THROW(transaction.commit());
  EXPECT_EQ(t::value_of(*s.a, s.y), 5);
}

TEST(Errors, a_transaction_may_read_what_it_has_overwritten_in_tiles) {
  Failed s;
  s.poison();
  Transaction transaction = s.a->begin();
  transaction.fill(t::part(s.x, 0, 32, Access::write), std::byte{5});
  transaction.fill(t::part(s.x, 32, 32, Access::write), std::byte{5});
  transaction.copy(t::read_of(s.x), t::write_of(s.y));
  EXPECT_NO_THROW(transaction.commit());
  EXPECT_EQ(t::value_of(*s.a, s.y), 5);
}

TEST(Errors, writing_in_place_over_poison_is_no_overwrite) {
  Failed s;
  s.poison();
  EXPECT_THROW(t::run_affine(s.rig, *s.b, t::part(s.x, 0, 8, Access::read_write), 1),
               ExecutionError);
  EXPECT_THROW(t::bytes_of(*s.a, s.x), ExecutionError);
}

TEST(Errors, host_writes_heal) {
  const std::vector<std::byte> data(64, std::byte{8});
  for (const bool host_visible : {true, false}) {
    hal::CpuOptions options{.queues = 2, .helpers = 0};
    options.device_memory_host_visible = host_visible;
    Failed uploaded(options);
    uploaded.poison();
    uploaded.b->upload(uploaded.x, {}, data);
    EXPECT_EQ(t::value_of(*uploaded.a, uploaded.x), 8);
  }
  Failed mapped;
  mapped.poison();
  {
    const Map map = mapped.a->map(mapped.x, {{}, 64_B}, Access::write);
    std::ranges::copy(data, map.bytes().begin());
  }
  EXPECT_EQ(t::value_of(*mapped.b, mapped.x), 8);
}

TEST(Errors, a_new_life_of_the_range_is_not_poisoned) {
  Failed s;
  auto dead = s.a->allocate(4_KiB);
  t::run_explode(s.rig, *s.a, dead);
  const hal::Point point = s.a->flush();
  const Bytes offset = dead->offset();
  dead.reset();
  const auto next = s.a->allocate(4_KiB);
  EXPECT_EQ(next->offset(), offset);
  t::put(*s.a, next, 2);
  EXPECT_EQ(t::value_of(*s.a, next), 2);
  EXPECT_TRUE(point.failure());
}

TEST(Errors, order_alone_passes_no_failure_on) {
  Failed s;
  Gate gate(*s.rig.context);
  s.a->wait_for(gate.point());
  t::run_explode(s.rig, *s.a, s.x);
  s.a->flush();
  // Overwrites on the other stream: it must come later, not fail.
  t::put(*s.b, s.x, 4);
  const hal::Point later = s.b->flush();
  EXPECT_TRUE(later.pending());
  gate.open();
  EXPECT_EQ(t::value_of(*s.b, s.x), 4);
}

TEST(Errors, the_stream_works_after_a_failure_in_flight) {
  Failed s;
  for (uint8_t i = 0; i < 20; ++i) {
    t::run_explode(s.rig, *s.a, s.x);
    s.a->flush();
    t::put(*s.a, s.y, i);
    EXPECT_EQ(t::value_of(*s.a, s.y), i);
  }
  EXPECT_THROW(t::bytes_of(*s.a, s.x), ExecutionError);
  EXPECT_EQ(s.rig.stats().failures, 20U);
}

TEST(Errors, many_failed_writers_of_slices_are_all_remembered) {
  Failed s;
  const auto wide = s.a->allocate(64_B * 64);
  t::put(*s.a, wide, 1);
  s.a->synchronize();
  // More lists than a history tells apart, of which every second one fails.
  for (uint64_t i = 0; i < 64; ++i) {
    const auto slice = t::part(wide, 64 * i, 64, Access::write);
    if (i % 2 == 0) {
      s.a->dispatch(s.rig.explode(), std::array{slice}, {}, {1, 1, 1});
    } else {
      s.a->fill(slice, std::byte{2});
    }
    ASSERT_TRUE(t::until_done(s.a->flush()));
    s.rig.context->retire();
  }
  std::vector<std::byte> data(64);
  for (uint64_t i = 0; i < 64; ++i) {
    const auto look = [&] { s.b->readback(wide, Bytes{64 * i}, data); };
    if (i % 2 == 0) {
      EXPECT_THROW(look(), ExecutionError) << "slice " << i;
    } else {
      EXPECT_NO_THROW(look()) << "slice " << i;
    }
  }
}

TEST(Errors, a_lost_device_fails_everything_pending_and_nobody_hangs) {
  Failed s;
  Gate gate(*s.rig.context);
  s.a->wait_for(gate.point());
  t::put(*s.a, s.x, 1);
  const hal::Point gated = s.a->flush();
  t::run_add(s.rig, *s.b, s.x, s.z, 1);
  const hal::Point dependant = s.b->flush();
  t::put(*s.a, s.y, 1);  // recorded, not submitted
  t::Event waiting;
  Failure seen;
  sync::Thread waiter("waiter", [&] {
    WaitLimit limit = t::patient();
    limit.interrupted = [&] { return waiting.set(), false; };
    try {
      s.rig.context->wait(dependant, limit);
    } catch (const Error& error) {
      seen = Failure(error.code(), error.what());
    }
  });
  ASSERT_TRUE(waiting.wait());
  s.rig.cpu->lose(Failure(ErrorCode::device_lost, "it fell off the bus"));
  waiter.join();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen.code(), ErrorCode::device_lost);
  EXPECT_THAT(seen.message(), HasSubstr("fell off the bus"));
  EXPECT_THROW(s.rig.context->wait(gated, t::patient()), DeviceLostError);
  EXPECT_THROW(s.a->flush(), DeviceLostError);
  EXPECT_THROW(t::bytes_of(*s.a, s.y), DeviceLostError);
  EXPECT_THROW(t::bytes_of(*s.b, s.z), DeviceLostError);
  EXPECT_THROW(s.a->allocate(64_MiB), DeviceLostError);
  EXPECT_THROW(s.rig.context->create_pipeline({"k", hal::HostFunction([](const auto&) {}), 0, {}}),
               DeviceLostError);
  EXPECT_THROW(s.rig.context->synchronize(t::patient()), DeviceLostError);
  EXPECT_EQ(s.rig.stats().submissions_in_flight, 0U);
  s.x.reset();
  s.rig.context->retire();
  EXPECT_EQ(s.rig.stats().memory.deferred, 0_B);
  EXPECT_TRUE(s.rig.context->close().clean());
}

}  // namespace
}  // namespace holdfast::runtime
