#include <random>
#include <stdexcept>

#include "holdfast/hal/cts/cts.h"
#include "holdfast/hal/damage.h"

// Failures as values on Points, and whom they reach.

namespace holdfast::hal::cts {

namespace {

using ::testing::HasSubstr;

Failure cause_named(const std::string& name) { return {ErrorCode::execution, name}; }

// A command that uses these bytes and fails.
void explode(CommandList& list, const std::vector<Binding>& bindings,
             std::string_view label = "explosion") {
  list.native([](const NativeCall&) { throw std::runtime_error("it exploded"); }, bindings, label);
}

// The damage that a Point's list left in all of an Allocation.
Failure damage_of(const Point& point, const Ref<Allocation>& allocation) {
  const std::shared_ptr<const Damage> damage = point.damage();
  return damage ? damage->find(allocation->id(), {{}, allocation->size()}) : point.failure();
}

}  // namespace

TEST_P(Cts, a_kernel_that_fails_fails_the_point_of_its_list) {
  auto work = list("unlucky list");
  dispatch(work, "fail", {}, {}, {1, 1, 1}, "unlucky kernel");
  const Point point = submit(queue(), work);
  ASSERT_TRUE(failed(point));
  EXPECT_EQ(point.query(), PointState::failed);
  EXPECT_EQ(point.failure().code(), ErrorCode::execution);
  EXPECT_THAT(point.failure().message(), HasSubstr("unlucky kernel"));
  EXPECT_FALSE(device().lost());
}

TEST_P(Cts, a_kernel_that_fails_in_many_groups_fails_its_list_once) {
  auto work = list();
  dispatch(work, "fail", {}, {}, {1000, 1, 1});
  dispatch(work, "fail", {}, {}, {1000, 1, 1});
  const Point point = submit(queue(), work);
  ASSERT_TRUE(failed(point));
  const Failure first = point.failure();
  EXPECT_TRUE(failed_with(point, first));
}

TEST_P(Cts, lists_behind_a_failed_kernel_run) {
  const auto data = uploaded(Words(64, 1), "data");
  for (uint32_t i = 0; i < 10; ++i) {
    auto bad = list("bad");
    dispatch(bad, "fail", {}, {}, {3, 1, 1});
    auto good = list("good");
    increment(good, data);
    const Point failing = submit(queue(), bad);
    const Point after = submit(queue(), good);
    EXPECT_TRUE(reached(after));
    EXPECT_TRUE(failed(failing));
    EXPECT_FALSE(after.failure());
  }
  EXPECT_EQ(read(data), Words(64, 11));
}

TEST_P(Cts, each_failed_list_has_a_cause_of_its_own) {
  auto first = list("first");
  dispatch(first, "fail", {}, {}, {1, 1, 1}, "kernel one");
  auto second = list("second");
  dispatch(second, "fail", {}, {}, {1, 1, 1}, "kernel two");
  const Point one = submit(queue(), first);
  const Point two = submit(queue(), second);
  ASSERT_TRUE(failed(one));
  ASSERT_TRUE(failed(two));
  EXPECT_NE(one.failure(), two.failure());
  EXPECT_THAT(one.failure().message(), HasSubstr("kernel one"));
  EXPECT_THAT(two.failure().message(), HasSubstr("kernel two"));
}

TEST_P(Cts, a_program_that_fails_fails_the_replay_only) {
  auto steps = list("failing program");
  dispatch(steps, "fail", {}, {}, {1, 1, 1});
  const auto program = device().create_program(steps).or_raise();
  for (int i = 0; i < 3; ++i) {
    auto one = replay(program, {});
    EXPECT_TRUE(failed(submit(queue(), one)));
  }
  auto good = list();
  EXPECT_TRUE(reached(submit(queue(), good)));
}

TEST_P(Cts, the_cause_is_stored_before_the_point_answers) {
  for (int round = 0; round < 50; ++round) {
    const Gate closed = gate();
    auto work = list();
    const Point point = submit(queue(), work, {closed.data()});
    bool seen = false;
    bool had_cause = false;
    sync::Thread watcher("watcher", [&] {
      const sync::Deadline limit = patience();
      while (point.query() != PointState::failed && !limit.passed()) {
      }
      had_cause = static_cast<bool>(point.failure());
      seen = point.query() == PointState::failed;
    });
    closed.fail(cause_named("round"));
    watcher.join();
    ASSERT_TRUE(seen);
    ASSERT_TRUE(had_cause);
  }
}

TEST_P(Cts, a_data_wait_passes_failure_on_with_the_same_cause_and_runs_nothing) {
  const Failure cause = cause_named("spilled coffee");
  for (size_t on = 0; on < device().queues().size(); ++on) {
    const auto data = uploaded(Words(64, 1), "data");
    const Point bad = failed_point(queue(0), cause);
    auto work = list("dependant");
    store(work, data, 99);
    const Point point = submit(queue(on), work, {{bad, WaitKind::data}});
    EXPECT_TRUE(failed_with(point, cause)) << "on queue " << on;
    EXPECT_EQ(read(data), Words(64, 1));
  }
}

TEST_P(Cts, a_data_wait_on_a_point_that_fails_later_passes_it_on) {
  const Failure cause = cause_named("late");
  const auto data = uploaded(Words(64, 1), "data");
  const Gate closed = gate();
  auto first = list("first");
  auto second = list("second");
  store(second, data, 2);
  const Point one = submit(queue(0), first, {closed.data()});
  const Point two = submit(queue(device().queues().size() - 1), second, {{one, WaitKind::data}});
  EXPECT_TRUE(pending(two));
  closed.fail(cause);
  EXPECT_TRUE(failed_with(two, cause));
  EXPECT_TRUE(failed_with(one, cause));
  EXPECT_EQ(read(data), Words(64, 1));
}

TEST_P(Cts, an_order_wait_is_met_by_a_failure) {
  const Failure cause = cause_named("not yours");
  for (size_t on = 0; on < device().queues().size(); ++on) {
    const auto data = uploaded(Words(64, 1), "data");
    const Point bad = failed_point(queue(0), cause);
    auto work = list("later");
    store(work, data, 99);
    const Point point = submit(queue(on), work, {{bad, WaitKind::order}});
    EXPECT_TRUE(reached(point)) << "on queue " << on;
    EXPECT_FALSE(point.failure());
    EXPECT_EQ(read(data), Words(64, 99));
  }
}

TEST_P(Cts, of_a_data_and_an_order_wait_on_one_failed_point_the_data_wait_counts) {
  const Failure cause = cause_named("both");
  const Point bad = failed_point(queue(), cause);
  auto one = list();
  EXPECT_TRUE(
      failed_with(submit(queue(), one, {{bad, WaitKind::order}, {bad, WaitKind::data}}), cause));
  auto two = list();
  EXPECT_TRUE(
      failed_with(submit(queue(), two, {{bad, WaitKind::data}, {bad, WaitKind::order}}), cause));
}

TEST_P(Cts, failure_travels_along_data_waits_from_queue_to_queue) {
  const Failure cause = cause_named("root");
  const Gate closed = gate();
  Wait wait = closed.data();
  std::vector<Point> points;
  for (size_t i = 0; i < 3 * device().queues().size(); ++i) {
    auto work = list();
    points.push_back(submit(queue(i % device().queues().size()), work, {wait}));
    wait = {points.back(), WaitKind::data};
  }
  auto bystander = list("bystander");
  const Point unharmed = submit(queue(), bystander, {{points.back(), WaitKind::order}});
  closed.fail(cause);
  for (const Point& point : points) EXPECT_TRUE(failed_with(point, cause));
  EXPECT_TRUE(reached(unharmed));
}

TEST_P(Cts, a_failed_kernel_passes_its_cause_along_data_waits) {
  const auto data = uploaded(Words(64, 1), "data");
  const auto out = uploaded(Words(64, 1), "out");
  auto bad = list("bad");
  explode(bad, {Binding::of(data, Access::write)});
  auto dependant = list("dependant");
  mix(dependant, data, out, 1);
  const Point root = submit(queue(), bad);
  const Point same = submit(queue(), dependant, {{root, WaitKind::data}});
  ASSERT_TRUE(failed(root));
  EXPECT_TRUE(failed_with(same, root.failure()));
  EXPECT_EQ(damage_of(same, out), root.failure());
  EXPECT_EQ(read(out), Words(64, 1));
}

TEST_P(Cts, other_commands_of_a_list_with_a_failed_command_run_and_are_good) {
  const auto bad = uploaded(Words(64, 1), "bad");
  const auto before = uploaded(Words(64, 1), "before");
  const auto beside = uploaded(Words(64, 1), "beside");
  const auto after = uploaded(Words(64, 1), "after");
  auto work = list("unlucky");
  store(work, before, 2);
  work.barrier();
  store(work, beside, 3);
  explode(work, {Binding::of(bad, Access::write)}, "fifth");
  work.barrier();
  store(work, after, 4);
  const Point point = submit(queue(), work);
  ASSERT_TRUE(failed(point)) << "the Point fails all the same";
  EXPECT_THAT(point.failure().message(), HasSubstr("fifth"));
  ASSERT_NE(point.damage(), nullptr);
  EXPECT_EQ(damage_of(point, bad), point.failure());
  for (const auto& good : {before, beside, after}) EXPECT_FALSE(damage_of(point, good));
  EXPECT_EQ(read(before), Words(64, 2));
  EXPECT_EQ(read(beside), Words(64, 3));
  EXPECT_EQ(read(after), Words(64, 4));
}

TEST_P(Cts, readers_of_what_a_failed_command_writes_do_not_run_nor_do_their_readers) {
  const auto bad = uploaded(Words(64, 1), "bad");
  const auto reader = uploaded(Words(64, 1), "reader");
  const auto second = uploaded(Words(64, 1), "second");
  const auto good = uploaded(Words(64, 1), "good");
  auto work = list();
  explode(work, {Binding::of(bad, range(0, 128), Access::write)});
  work.barrier();
  mix(work, bad, reader, 1);
  work.copy(bad, range(128, 128), good, range(0, 128));
  work.barrier();
  increment(work, reader);
  work.barrier();
  mix(work, reader, second, 1);
  const Point point = submit(queue(), work);
  ASSERT_TRUE(failed(point));
  for (const auto& each : {bad, reader, second}) {
    EXPECT_EQ(damage_of(point, each), point.failure());
  }
  EXPECT_FALSE(point.damage()->find(bad->id(), range(128, 128))) << "the failed half alone";
  EXPECT_FALSE(damage_of(point, good)) << "it read the other half";
  EXPECT_EQ(read(reader), Words(64, 1));
  EXPECT_EQ(read(second), Words(64, 1));
}

TEST_P(Cts, bytes_that_a_list_overwrites_after_a_failure_are_good) {
  const auto data = uploaded(Words(64, 1), "data");
  const auto out = uploaded(Words(64, 1), "out");
  auto work = list();
  explode(work, {Binding::of(data, Access::read_write)});
  work.barrier();
  store(work, data, 5);
  work.barrier();
  work.copy(data, range(0, 256), out, range(0, 256));
  const Point point = submit(queue(), work);
  ASSERT_TRUE(failed(point));
  EXPECT_FALSE(damage_of(point, data));
  EXPECT_FALSE(damage_of(point, out));
  EXPECT_EQ(read(out), Words(64, 5));
}

TEST_P(Cts, a_data_wait_keeps_only_the_commands_from_running_that_read_bad_bytes) {
  for (size_t on = 0; on < device().queues().size(); ++on) {
    const auto bad = uploaded(Words(64, 1), "bad");
    const auto good = uploaded(Words(64, 1), "good");
    const auto of_bad = uploaded(Words(64, 1), "of bad");
    const auto of_good = uploaded(Words(64, 1), "of good");
    auto first = list("first");
    explode(first, {Binding::of(bad, Access::write)});
    store(first, good, 7);
    auto mixed = list("mixed");
    mixed.copy(bad, range(0, 256), of_bad, range(0, 256));
    mixed.copy(good, range(0, 256), of_good, range(0, 256));
    auto fine = list("fine");
    increment(fine, good);
    const Point root = submit(queue(0), first);
    const Point both = submit(queue(on), mixed, {{root, WaitKind::data}});
    const Point other = submit(queue(on), fine, {{root, WaitKind::data}, {both, WaitKind::data}});
    EXPECT_TRUE(failed(root));
    EXPECT_TRUE(failed_with(both, root.failure())) << "on queue " << on;
    EXPECT_TRUE(reached(other)) << "it reads no bad byte; on queue " << on;
    EXPECT_EQ(damage_of(both, of_bad), root.failure());
    EXPECT_FALSE(damage_of(both, of_good));
    EXPECT_FALSE(damage_of(both, bad)) << "that is the first list's";
    EXPECT_EQ(read(of_bad), Words(64, 1));
    EXPECT_EQ(read(of_good), Words(64, 7));
    EXPECT_EQ(read(good), Words(64, 8));
  }
}

// Also where the device cannot tell what is bad of the first list, and all that it writes is.
TEST_P(Cts, of_a_data_wait_that_names_bytes_only_these_count) {
  const auto healed = uploaded(Words(64, 1), "healed");
  const auto bad = uploaded(Words(64, 1), "bad");
  const auto of_healed = uploaded(Words(64, 1), "of healed");
  const auto of_bad = uploaded(Words(64, 1), "of bad");
  auto first = list("first");
  explode(first, {Binding::of(healed, Access::write), Binding::of(bad, Access::write)});
  auto heals = list("heals");
  store(heals, healed, 6);
  auto reader = list("reader");
  reader.copy(healed, range(0, 256), of_healed, range(0, 256));
  reader.copy(bad, range(0, 256), of_bad, range(0, 256));
  const Point root = submit(queue(), first);
  const Point over = submit(queue(), heals);
  Point last;
  {
    const auto turn = queue()->take_turn();
    last = queue()
               ->submit(
                   *turn, reader, {{root, WaitKind::data}, {over, WaitKind::data}},
                   {{0, false, bad->id(), range(0, 256)}, {1, false, healed->id(), range(0, 256)}})
               .or_raise();
  }
  ASSERT_TRUE(failed(root));
  EXPECT_TRUE(reached(over));
  EXPECT_TRUE(failed_with(last, root.failure()));
  EXPECT_EQ(damage_of(last, of_bad), root.failure());
  EXPECT_FALSE(damage_of(last, of_healed));
  EXPECT_EQ(read(of_bad), Words(64, 1));
  EXPECT_EQ(read(of_healed), Words(64, 6));
}

TEST_P(Cts, a_replay_whose_command_fails_damages_what_its_slots_are_bound_to) {
  auto steps = list("steps");
  explode(steps, {Binding::of_slot(0, range(0, 256), Access::write)});
  steps.fill(Binding::of_slot(1, range(0, 256), Access::write), std::byte{1});
  const auto program = device().create_program(steps).or_raise();
  for (int i = 0; i < 2; ++i) {
    const auto bad = uploaded(Words(128, 1), "bad");
    const auto good = uploaded(Words(64, 2), "good");
    auto one = replay(program, {Binding::of(bad, range(256, 256), Access::write),
                                Binding::of(good, Access::write)});
    const Point point = submit(queue(), one);
    ASSERT_TRUE(failed(point));
    EXPECT_EQ(point.damage()->find(bad->id(), range(256, 256)), point.failure());
    EXPECT_FALSE(point.damage()->find(bad->id(), range(0, 256)));
    EXPECT_FALSE(damage_of(point, good));
    EXPECT_EQ(read(good), Words(64, 0x01010101));
  }
}

TEST_P(Cts, a_failed_list_tells_its_ticket_which_bytes_are_bad) {
  const auto bad = uploaded(Words(64, 1), "bad");
  const auto good = uploaded(Words(64, 1), "good");
  auto work = list();
  explode(work, {Binding::of(bad, Access::write)});
  store(work, good, 2);
  const auto ticket = work.ticket();
  const Point point = submit(queue(), work);
  ASSERT_TRUE(failed(point));
  queue()->retire();
  EXPECT_EQ(ticket->failure_of(bad->id(), range(0, 256)), point.failure());
  EXPECT_FALSE(ticket->failure_of(good->id(), range(0, 256)));
}

// Random lists of tiles that are filled, copied and written by commands that fail, each with a
// second list that reads what the first one left; against a computation tile by tile.
TEST_P(Cts, random_failures_leave_bad_exactly_what_depends_on_them) {
  constexpr uint64_t kTile = 64;
  constexpr uint64_t kTiles = 12;
  constexpr int kBad = -1;
  std::mt19937 random(11);
  for (int round = 0; round < 25; ++round) {
    SCOPED_TRACE(round);
    const auto data = uploaded(Words(kTiles * kTile / 4, 0), "data");
    const auto tile = [&](uint64_t t) { return range(t * kTile, kTile); };
    std::vector<int> expected(kTiles, 0);
    std::vector<Point> points;
    for (int part = 0; part < 2; ++part) {
      auto work = list("random " + std::to_string(part));
      std::vector<bool> bad(kTiles, false);
      bool any = false;
      for (uint64_t n = 3 + random() % 8; n > 0; --n) {
        const uint64_t to = random() % kTiles;
        const uint64_t from = (to + 1 + random() % (kTiles - 1)) % kTiles;
        const auto value = static_cast<uint8_t>(1 + random() % 100);
        bool is_bad = false;
        switch (random() % 4) {
          case 0:
            work.fill(data, tile(to), std::byte{value});
            expected[to] = value;
            break;
          case 1:
          case 2:
            work.copy(data, tile(from), data, tile(to));
            is_bad = expected[from] == kBad;
            expected[to] = expected[from];
            break;
          default:
            explode(work, {Binding::of(data, tile(from), Access::read),
                           Binding::of(data, tile(to), Access::write)});
            is_bad = true;
            expected[to] = kBad;
        }
        bad[to] = is_bad;
        any = any || is_bad;
        work.barrier();
      }
      std::vector<Wait> waits;
      if (part == 1) waits.push_back({points[0], WaitKind::data});
      points.push_back(submit(queue(static_cast<size_t>(part) % device().queues().size()), work,
                              std::move(waits)));
      EXPECT_TRUE(any ? failed(points.back()) : reached(points.back()));
      for (uint64_t t = 0; t < kTiles; ++t) {
        const auto damage = points.back().damage();
        const bool found = damage && damage->find(data->id(), tile(t));
        EXPECT_EQ(found, bad[t]) << "tile " << t << " of list " << part;
      }
    }
    const ByteVector content = read_bytes(data);
    for (uint64_t t = 0; t < kTiles; ++t) {
      if (expected[t] == kBad) continue;
      EXPECT_EQ(std::to_integer<int>(content[t * kTile]), expected[t]) << "tile " << t;
      EXPECT_EQ(content[t * kTile], content[(t + 1) * kTile - 1]) << "tile " << t;
    }
  }
}

TEST_P(Cts, a_list_that_fails_early_resolves_only_after_all_it_waits_for) {
  const Failure cause = cause_named("early");
  const Point bad = failed_point(queue(), cause);
  for (const bool bad_first : {true, false}) {
    for (const WaitKind kind : {WaitKind::data, WaitKind::order}) {
      const Gate closed = gate();
      const Wait early{bad, WaitKind::data};
      const Wait late{closed.point(), kind};
      auto work = list();
      const Point point =
          submit(queue(), work, bad_first ? std::vector{early, late} : std::vector{late, early});
      // A list behind it gives the queue time to err.
      if (has_two_queues()) {
        auto elsewhere = list();
        EXPECT_TRUE(reached(submit(queue(1), elsewhere)));
      }
      EXPECT_TRUE(pending(point));
      EXPECT_FALSE(point.failure());
      closed.open();
      EXPECT_TRUE(failed_with(point, cause));
    }
  }
}

TEST_P(Cts, a_list_that_fails_early_resolves_only_after_the_lists_before_it) {
  const Failure cause = cause_named("early");
  const Point bad = failed_point(queue(), cause);
  const Gate closed = gate();
  auto before = list("before");
  auto doomed = list("doomed");
  const Point first = submit(queue(), before, {closed.data()});
  const Point second = submit(queue(), doomed, {{bad, WaitKind::data}});
  EXPECT_TRUE(pending(first));
  EXPECT_TRUE(pending(second));
  closed.open();
  EXPECT_TRUE(failed_with(second, cause));
  EXPECT_EQ(first.query(), PointState::reached);
  EXPECT_FALSE(first.failure());
}

TEST_P(Cts, failed_and_reached_points_of_one_timeline_keep_their_answers) {
  const Failure cause = cause_named("odd ones");
  const Gate failing = gate();
  failing.fail(cause);
  std::vector<Point> points;
  for (size_t i = 0; i < 40; ++i) {
    auto work = list();
    points.push_back(submit(
        queue(), work, i % 2 == 1 ? std::vector{failing.data()} : std::vector{failing.order()}));
  }
  ASSERT_TRUE(resolved(points.back()));
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < 40; ++i) {
      EXPECT_EQ(points[i].query(), i % 2 == 1 ? PointState::failed : PointState::reached) << i;
      EXPECT_EQ(points[i].failure(), i % 2 == 1 ? cause : Failure()) << i;
    }
    queue()->retire();
  }
}

TEST_P(Cts, a_failed_list_is_retired_and_tells_its_ticket_the_cause) {
  const Failure cause = cause_named("for the ticket");
  const Gate closed = gate();
  auto work = list();
  const auto ticket = work.ticket();
  Imported data = imported(Words(64));
  increment(work, data.allocation);
  data.allocation.reset();
  const Point point = submit(queue(), work, {closed.data()});
  closed.fail(cause);
  ASSERT_TRUE(failed_with(point, cause));
  EXPECT_FALSE(ticket->is_over());
  EXPECT_FALSE(ticket->failure()) << "none before it is over";
  EXPECT_EQ(data.deletions->value(), 0);
  EXPECT_EQ(queue()->retire().size(), 1U);
  EXPECT_EQ(ticket->state(), TicketState::seen);
  EXPECT_EQ(ticket->failure(), cause);
  EXPECT_TRUE(data.deletions->reaches(1));
}

}  // namespace holdfast::hal::cts
