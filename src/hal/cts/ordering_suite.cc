#include "holdfast/hal/cts/cts.h"
#include "holdfast/testing/effort.h"

// Order inside a list and between the lists of one queue.

namespace holdfast::hal::cts {

namespace {

// Enough groups and work for a later command to overtake an earlier one where nothing keeps it.
constexpr size_t kOrderingElements = 16384;
constexpr uint32_t kSlow = 400;
constexpr uint32_t kQuick = 1;

}  // namespace

TEST_P(Cts, a_read_behind_a_barrier_sees_what_was_written_before_it) {
  const Words input = counting(kOrderingElements);
  const auto a = uploaded(input, "a");
  const auto b = uploaded(Words(kOrderingElements), "b");
  const auto c = words(kOrderingElements, "c");
  auto work = list();
  mix(work, a, b, kSlow);
  work.barrier();
  mix(work, b, c, kQuick);
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(c), mixed(mixed(input, kSlow), kQuick));
}

TEST_P(Cts, a_write_behind_a_barrier_leaves_earlier_reads_alone) {
  const Words input = counting(kOrderingElements, 5);
  const auto data = uploaded(input, "data");
  const auto out = words(kOrderingElements, "out");
  auto work = list();
  mix(work, data, out, kSlow);
  work.barrier();
  store(work, data, 99);
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(out), mixed(input, kSlow));
  EXPECT_EQ(read(data), Words(kOrderingElements, 99));
}

TEST_P(Cts, of_two_writes_the_one_behind_the_barrier_stays) {
  const auto input = uploaded(counting(kOrderingElements), "input");
  const auto data = words(kOrderingElements, "data");
  auto work = list();
  mix(work, input, data, kSlow);
  work.barrier();
  store(work, data, 7);
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(data), Words(kOrderingElements, 7));
}

TEST_P(Cts, a_chain_of_dispatches_with_barriers_runs_in_order) {
  Words expected = counting(1000);
  const auto data = uploaded(expected, "data");
  auto work = list();
  for (uint32_t step = 0; step < 100; ++step) {
    affine(work, data, step + 2, step);
    work.barrier();
    for (uint32_t& x : expected) x = x * (step + 2) + step;
  }
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(data), expected);
}

TEST_P(Cts, several_barriers_in_a_row_and_at_the_ends_change_nothing) {
  const auto data = uploaded(Words(100, 1), "data");
  auto work = list();
  work.barrier();
  work.barrier();
  affine(work, data, 2, 0);
  work.barrier();
  work.barrier();
  affine(work, data, 1, 1);
  work.barrier();
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(data), Words(100, 3));
}

TEST_P(Cts, copies_fills_and_dispatches_are_ordered_by_barriers_alike) {
  const auto a = words(kOrderingElements, "a");
  const auto b = words(kOrderingElements, "b");
  const auto c = words(kOrderingElements, "c");
  const ByteRange all{{}, a->size()};
  auto work = list();
  work.fill(a, all, std::byte{0x01});
  work.barrier();
  mix(work, a, b, kSlow);
  work.barrier();
  work.copy(b, all, c, all);
  work.fill(a, all, std::byte{0xff});
  work.barrier();
  work.fill(b, all, std::byte{0});
  work.barrier();
  increment(work, b);
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(a), Words(kOrderingElements, 0xffffffffU));
  EXPECT_EQ(read(b), Words(kOrderingElements, 1));
  EXPECT_EQ(read(c), mixed(Words(kOrderingElements, 0x01010101U), kSlow));
}

TEST_P(Cts, unordered_commands_on_disjoint_ranges_all_take_effect) {
  constexpr uint64_t kSlices = 96;
  const uint64_t slice = std::max<uint64_t>(device().info().buffer_alignment.value, 256);
  const auto source = uploaded(Words(slice / 4, 0x02020202U), "source");
  const auto data = buffer({kSlices * slice}, "data");
  auto work = list();
  for (uint64_t i = 0; i < kSlices; ++i) {
    const ByteRange own = range(i * slice, slice);
    if (i % 3 == 0) {
      const auto value = static_cast<uint32_t>(i);
      dispatch(work, "store", {Binding::of(data, own, Access::write)}, Parameters::of(value),
               groups_for(slice / 4));
    } else if (i % 3 == 1) {
      work.fill(data, own, std::byte{0x01});
    } else {
      work.copy(source, range(0, slice), data, own);
    }
  }
  EXPECT_EQ(work.command_count(), kSlices);
  EXPECT_EQ(work.barrier_count(), 0U);
  EXPECT_TRUE(reached(submit(queue(), work)));
  const Words result = read(data);
  for (uint64_t i = 0; i < kSlices; ++i) {
    const uint32_t expected =
        i % 3 == 0 ? static_cast<uint32_t>(i) : (i % 3 == 1 ? 0x01010101U : 0x02020202U);
    const auto begin = result.begin() + static_cast<std::ptrdiff_t>(i * slice / 4);
    EXPECT_EQ(Words(begin, begin + static_cast<std::ptrdiff_t>(slice / 4)),
              Words(slice / 4, expected))
        << "slice " << i;
  }
}

TEST_P(Cts, ten_thousand_ordered_commands_fit_into_one_list) {
  const uint32_t count = testing::shortened(10000U);
  uint32_t expected = 1;
  const auto data = uploaded(Words(16, expected), "data");
  auto work = list();
  for (uint32_t i = 0; i < count; ++i) {
    affine(work, data, 2 * i + 3, i);
    work.barrier();
    expected = expected * (2 * i + 3) + i;
  }
  EXPECT_EQ(work.command_count(), count);
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(data), Words(16, expected));
}

TEST_P(Cts, ten_thousand_unordered_commands_fit_into_one_list) {
  const uint32_t count = testing::shortened(10000U);
  const uint64_t stride = std::max<uint64_t>(device().info().buffer_alignment.value, 4);
  const auto data = buffer({count * stride}, "data");
  auto work = list();
  work.fill(data, {{}, data->size()}, std::byte{0});
  work.barrier();
  for (uint32_t i = 0; i < count; ++i) {
    dispatch(work, "store", {Binding::of(data, range(i * stride, 4), Access::write)},
             Parameters::of(i), groups_for(1));
  }
  EXPECT_TRUE(reached(submit(queue(), work)));
  const Words result = read(data);
  for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(result[i * stride / 4], i);
}

TEST_P(Cts, lists_of_one_queue_run_in_order) {
  Words expected = counting(256);
  const auto data = uploaded(expected, "data");
  Point last;
  for (uint32_t step = 0; step < 200; ++step) {
    auto work = list("step " + std::to_string(step));
    affine(work, data, 2 * step + 3, step);
    last = submit(queue(), work);
    for (uint32_t& x : expected) x = x * (2 * step + 3) + step;
  }
  EXPECT_TRUE(reached(last));
  EXPECT_EQ(read(data), expected);
}

TEST_P(Cts, between_lists_of_one_queue_stands_a_barrier) {
  const Words input = counting(kOrderingElements);
  const auto a = uploaded(input, "a");
  const auto b = uploaded(Words(kOrderingElements), "b");
  const auto c = words(kOrderingElements, "c");
  auto write = list("write b");
  mix(write, a, b, kSlow);
  auto read_it = list("read b");
  mix(read_it, b, c, kSlow);
  auto overwrite = list("overwrite b");
  store(overwrite, b, 3);
  submit(queue(), write);
  submit(queue(), read_it);
  EXPECT_TRUE(reached(submit(queue(), overwrite)));
  EXPECT_EQ(read(c), mixed(mixed(input, kSlow), kSlow));
  EXPECT_EQ(read(b), Words(kOrderingElements, 3));
}

TEST_P(Cts, an_empty_list_resolves_in_its_turn) {
  auto nothing = list("nothing");
  EXPECT_TRUE(nothing.empty());
  EXPECT_TRUE(reached(submit(queue(), nothing)));

  const Gate closed = gate();
  auto gated = list("gated");
  auto behind = list("behind");
  behind.barrier();
  const Point first = submit(queue(), gated, {closed.order()});
  const Point second = submit(queue(), behind);
  EXPECT_TRUE(pending(first));
  EXPECT_TRUE(pending(second));
  closed.open();
  EXPECT_TRUE(reached(second));
  EXPECT_EQ(first.query(), PointState::reached);
}

TEST_P(Cts, points_of_a_queue_resolve_in_order) {
  constexpr size_t kLists = 50;
  const auto data = uploaded(Words(kOrderingElements), "data");
  std::vector<Point> points;
  for (size_t i = 0; i < kLists; ++i) {
    auto work = list();
    increment(work, data);
    points.push_back(submit(queue(), work));
    ASSERT_EQ(points.back().timeline, queue()->timeline());
    if (i > 0) {
      ASSERT_GT(points[i].value, points[i - 1].value);
    }
  }
  // The latest first: whatever is resolved, all before it must be.
  for (const sync::Deadline limit = patience(); !limit.passed();) {
    size_t done = kLists;
    while (done > 0 && points[done - 1].pending()) --done;
    for (size_t i = 0; i < done; ++i) ASSERT_EQ(points[i].query(), PointState::reached) << i;
    if (done == kLists) break;
  }
  EXPECT_TRUE(reached(points.back()));
  EXPECT_EQ(read(data), Words(kOrderingElements, kLists));
}

}  // namespace holdfast::hal::cts
