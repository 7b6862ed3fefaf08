#include <random>

#include "holdfast/hal/cts/cts.h"

// Copies, fills and what the host sees of them.

namespace holdfast::hal::cts {

namespace {

constexpr uint64_t kSize = 4099;

ByteVector noise(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  ByteVector result(size);
  for (std::byte& b : result) b = static_cast<std::byte>(random());
  return result;
}

// Any range of a buffer of `size` bytes; short ones and empty ones are common.
ByteRange random_range(std::mt19937& random, uint64_t size) {
  const uint64_t offset = random() % (size + 1);
  const uint64_t room = size - offset;
  const uint64_t limit = random() % 2 == 0 ? std::min<uint64_t>(room, 17) : room;
  return range(offset, random() % (limit + 1));
}

}  // namespace

TEST_P(Cts, copies_are_byte_exact_at_any_offset_and_length) {
  for (const uint32_t seed : {1U, 2U, 3U}) {
    std::mt19937 random(seed);
    const ByteVector source = noise(kSize, seed);
    ByteVector expected = noise(kSize, seed + 100);
    const auto from = uploaded(source, "from");
    const auto to = uploaded(expected, "to");
    auto work = list();
    for (int i = 0; i < 300; ++i) {
      const ByteRange in = random_range(random, kSize);
      const ByteRange out{{random() % (kSize - in.length.value + 1)}, in.length};
      work.copy(from, in, to, out);
      work.barrier();
      std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(in.offset.value), in.length.value,
                  expected.begin() + static_cast<std::ptrdiff_t>(out.offset.value));
    }
    ASSERT_TRUE(reached(submit(queue(), work)));
    EXPECT_EQ(read_bytes(to), expected) << "seed " << seed;
    EXPECT_EQ(read_bytes(from), source) << "seed " << seed;
  }
}

TEST_P(Cts, fills_are_byte_exact_at_any_offset_and_length) {
  for (const uint32_t seed : {4U, 5U, 6U}) {
    std::mt19937 random(seed);
    ByteVector expected = noise(kSize, seed);
    const auto data = uploaded(expected, "data");
    auto work = list();
    for (int i = 0; i < 300; ++i) {
      const ByteRange where = random_range(random, kSize);
      const auto value = static_cast<std::byte>(random());
      work.fill(data, where, value);
      work.barrier();
      std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(where.offset.value),
                  where.length.value, value);
    }
    ASSERT_TRUE(reached(submit(queue(), work)));
    EXPECT_EQ(read_bytes(data), expected) << "seed " << seed;
  }
}

TEST_P(Cts, neighbouring_copies_and_fills_of_one_wave_do_not_touch_each_other) {
  std::mt19937 random(7);
  const ByteVector source = noise(kSize, 8);
  ByteVector expected(kSize);
  const auto from = uploaded(source, "from");
  const auto to = uploaded(expected, "to");
  auto work = list();
  // Cuts at odd places, so that neighbours share words and cache lines.
  for (uint64_t at = 0; at < kSize;) {
    const uint64_t length = std::min<uint64_t>(1 + random() % 13, kSize - at);
    const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(at);
    if (random() % 2 == 0) {
      const auto value = static_cast<std::byte>(random());
      work.fill(to, range(at, length), value);
      std::fill_n(begin, length, value);
    } else {
      const uint64_t in = random() % (kSize - length + 1);
      work.copy(from, range(in, length), to, range(at, length));
      std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(in), length, begin);
    }
    at += length;
  }
  ASSERT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read_bytes(to), expected);
}

TEST_P(Cts, copies_and_fills_of_nothing_do_nothing_and_resolve) {
  const ByteVector content = noise(64, 9);
  const auto from = uploaded(noise(64, 10), "from");
  const auto to = uploaded(content, "to");
  auto work = list();
  for (const uint64_t offset : {0U, 1U, 63U, 64U}) {
    work.copy(from, range(offset, 0), to, range(64 - offset, 0));
    work.fill(to, range(offset, 0), std::byte{0xee});
    work.copy(to, range(offset, 0), to, range(offset, 0));
  }
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read_bytes(to), content);
}

TEST_P(Cts, a_copy_within_one_allocation_may_touch_but_not_overlap_itself) {
  ByteVector content = noise(100, 11);
  const auto data = uploaded(content, "data");
  auto work = list();
  work.copy(data, range(0, 33), data, range(33, 33));
  EXPECT_THROW(work.copy(data, range(0, 33), data, range(32, 33)), UsageError);
  EXPECT_THROW(work.copy(data, range(40, 1), data, range(40, 1)), UsageError);
  EXPECT_THROW(work.copy(data, range(10, 50), data, range(0, 50)), UsageError);
  EXPECT_EQ(work.command_count(), 1U);
  EXPECT_TRUE(reached(submit(queue(), work)));
  std::copy_n(content.begin(), 33, content.begin() + 33);
  EXPECT_EQ(read_bytes(data), content);
}

TEST_P(Cts, a_large_copy_of_odd_length_is_complete) {
  constexpr uint64_t kLarge = (uint64_t{3} << 20) + 5;
  const ByteVector content = noise(kLarge, 12);
  const auto from = uploaded(content, "from");
  const auto to = buffer({kLarge + 2}, "to");
  auto work = list();
  work.fill(to, range(0, kLarge + 2), std::byte{0x5a});
  work.barrier();
  work.copy(from, range(0, kLarge), to, range(1, kLarge));
  EXPECT_TRUE(reached(submit(queue(), work)));
  ByteVector expected(kLarge + 2, std::byte{0x5a});
  std::ranges::copy(content, expected.begin() + 1);
  EXPECT_TRUE(read_bytes(to) == expected);
}

TEST_P(Cts, commands_on_an_allocation_stay_inside_its_range_of_the_buffer) {
  const Bytes part{std::max<uint64_t>(device().info().buffer_alignment.value, 256)};
  const auto block = device().create_buffer({part * 3, MemoryKind::device, "block"}).or_raise();
  const auto middle = make_ref<Allocation>(block, ByteRange{part, part}, "middle", nullptr);
  const auto all = Allocation::whole(block);
  EXPECT_EQ(middle->offset(), part);
  EXPECT_EQ(middle->size(), part);
  const uint64_t n = part.value / 4;

  auto work = list();
  work.fill(all, {{}, all->size()}, std::byte{0});
  work.barrier();
  work.fill(middle, {{}, part}, std::byte{0x01});
  work.barrier();
  increment(work, middle);
  work.barrier();
  work.fill(middle, range(part.value - 4, 4), std::byte{0x03});
  EXPECT_THROW(work.fill(middle, range(1, part.value), std::byte{}), UsageError);
  EXPECT_TRUE(reached(submit(queue(), work)));

  Words expected(3 * n);
  std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(n), n, 0x01010102U);
  expected[2 * n - 1] = 0x03030303U;
  EXPECT_EQ(read(all), expected);
}

TEST_P(Cts, upload_and_readback_memory_is_always_mapped_and_device_memory_as_announced) {
  EXPECT_NE(buffer({64}, "u", MemoryKind::upload)->host_pointer(), nullptr);
  EXPECT_NE(buffer({64}, "r", MemoryKind::readback)->host_pointer(), nullptr);
  const auto own = buffer({64}, "d", MemoryKind::device);
  EXPECT_EQ(own->host_pointer() != nullptr, device().info().device_memory_host_visible);
  EXPECT_EQ(own->buffer()->host_pointer(), own->host_pointer());
  EXPECT_EQ(own->buffer()->kind(), MemoryKind::device);
  EXPECT_EQ(own->buffer()->size(), Bytes{64});
  EXPECT_EQ(own->buffer()->name(), "d");
  EXPECT_EQ(own->buffer()->device(), device().id());
}

TEST_P(Cts, what_the_host_wrote_is_seen_by_lists_submitted_afterwards) {
  const auto staging = words(256, "staging", MemoryKind::upload);
  const auto data = words(256, "data");
  const ByteRange all{{}, data->size()};
  for (uint32_t round = 0; round < 20; ++round) {
    const Words content = counting(256, round * 1000);
    auto work = list();
    work.copy(staging, all, data, all);
    // Recorded before it is written: what counts is the submit.
    std::memcpy(staging->host_pointer(), content.data(), content.size() * 4);
    ASSERT_TRUE(reached(submit(queue(), work)));
    ASSERT_EQ(read(data), content);
  }
}

TEST_P(Cts, a_reached_point_makes_writes_visible_to_maps) {
  const auto out = words(4096, "out", MemoryKind::readback);
  const auto* mapped = reinterpret_cast<const uint32_t*>(out->host_pointer());
  for (uint32_t round = 1; round <= 20; ++round) {
    auto work = list();
    store(work, out, round);
    const Point point = submit(queue(round % device().queues().size()), work);
    // By query alone: it, not a wait, gives the visibility.
    const sync::Deadline limit = patience();
    for (unsigned i = 0; point.pending() && !limit.passed(); ++i) sync::relax(i);
    ASSERT_EQ(point.query(), PointState::reached);
    ASSERT_EQ(Words(mapped, mapped + 4096), Words(4096, round));
  }
}

TEST_P(Cts, memory_that_cannot_be_given_is_refused_by_a_value) {
  const auto nothing = device().create_buffer({{}, MemoryKind::device, "nothing"});
  ASSERT_FALSE(nothing.ok());
  EXPECT_THAT(nothing.failure().message(), ::testing::HasSubstr("nothing"));
  for (const Bytes size : {device().info().max_buffer + 1_B, kMaxBytes}) {
    if (size <= device().info().max_buffer) continue;
    const auto large = device().create_buffer({size, MemoryKind::device, "too large"});
    ASSERT_FALSE(large.ok());
    EXPECT_THAT(large.failure().message(), ::testing::HasSubstr("too large"));
  }
  EXPECT_FALSE(device().lost());
  EXPECT_NO_THROW(uploaded(Words(4), "still works"));
}

}  // namespace holdfast::hal::cts
