#include "holdfast/runtime/map.h"

#include <algorithm>
#include <optional>

#include "holdfast/testing/rig.h"

namespace holdfast::runtime {
namespace {

using hal::Access;
using holdfast::testing::Gate;
using holdfast::testing::Rig;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace t = holdfast::testing;

struct Mapped {
  Rig rig;
  Ref<Stream> a = rig.stream("a", 0);
  Ref<Stream> b = rig.stream("b", 1);
  Ref<hal::Allocation> x = a->allocate(64_B, "x");
  static constexpr ByteRange whole{{}, 64_B};
};

TEST(Map, shows_exactly_the_range_and_writes_reach_later_work) {
  Mapped s;
  t::put(*s.a, s.x, 1);
  {
    const Map map = s.a->map(s.x, {8_B, 16_B}, Access::read_write);
    ASSERT_EQ(map.bytes().size(), 16U);
    EXPECT_EQ(map.as<uint32_t>().size(), 4U);
    EXPECT_EQ(map.bytes()[0], std::byte{1});
    std::ranges::fill(map.bytes(), std::byte{2});
  }
  const auto y = s.b->allocate(64_B);
  t::run_add(s.rig, *s.b, s.x, y, 1);
  const auto bytes = t::bytes_of(*s.b, y);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(bytes[i], i >= 8 && i < 24 ? 3 : 2);
}

TEST(Map, of_a_range_inside_a_block_is_relative_to_the_allocation_in_bytes_conflicts_and_waits) {
  Mapped s;
  const auto y = s.a->allocate(64_B, "y");
  ASSERT_EQ(y->buffer(), s.x->buffer()) << "so it does not begin where the block begins";
  ASSERT_GT(y->offset(), 0_B);
  t::put(*s.a, s.x, 1);
  t::put(*s.a, y, 2);
  s.a->synchronize();
  Gate gate(*s.rig.context);
  s.b->wait_for(gate.point());
  s.b->fill(t::part(y, 0, 16, Access::write), std::byte{3});
  s.b->fill(t::part(y, 32, 32, Access::write), std::byte{3});
  {
    Map map = s.a->map(y, {16_B, 16_B}, Access::write, WaitLimit::after({}));
    EXPECT_EQ(map.bytes().data(), y->host_pointer() + 16) << "beside its neighbours' writers";
    EXPECT_EQ(map.bytes().front(), std::byte{2});
    std::ranges::fill(map.bytes(), std::byte{4});
    EXPECT_THROW(s.a->fill(t::part(y, 16, 1, Access::write), std::byte{}), UsageError);
    EXPECT_THROW(s.a->fill(t::part(y, 31, 1, Access::write), std::byte{}), UsageError);
    EXPECT_NO_THROW(s.a->fill(t::part(s.x, 16, 16, Access::write), std::byte{5}));
    EXPECT_NO_THROW(s.b->fill(t::part(y, 0, 16, Access::write), std::byte{6}));
    EXPECT_NO_THROW(s.b->fill(t::part(y, 32, 32, Access::write), std::byte{6}));
  }
  EXPECT_THROW(s.a->map(y, {15_B, 2_B}, Access::read, WaitLimit::after({})), TimeoutError);
  EXPECT_THROW(s.a->map(y, {31_B, 2_B}, Access::read, WaitLimit::after({})), TimeoutError);
  EXPECT_NO_THROW(s.a->map(y, {16_B, 16_B}, Access::read, WaitLimit::after({})));
  gate.open();
  const auto bytes = t::bytes_of(*s.b, y);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(bytes[i], i >= 16 && i < 32 ? 4 : 6) << i;
}

TEST(Map, to_write_heals_exactly_its_range) {
  Mapped s;
  const auto y = s.a->allocate(64_B, "y");
  t::run_explode(s.rig, *s.a, y);
  ASSERT_TRUE(t::until_done(s.a->flush()));
  s.rig.context->retire();
  {
    Map map = s.a->map(y, {16_B, 16_B}, Access::write, t::patient());
    std::ranges::fill(map.bytes(), std::byte{4});
  }
  std::vector<std::byte> data(16);
  EXPECT_NO_THROW(s.a->readback(y, 16_B, data));
  EXPECT_EQ(data, std::vector<std::byte>(16, std::byte{4}));
  EXPECT_ANY_THROW(s.a->readback(y, 15_B, data));
  EXPECT_ANY_THROW(s.a->readback(y, 17_B, data));
}

TEST(Map, to_read_waits_for_writers_only_and_to_write_for_all) {
  Mapped s;
  t::put(*s.a, s.x, 1);
  ASSERT_TRUE(t::until_done(s.a->flush()));
  Gate gate(*s.rig.context);
  s.b->wait_for(gate.point());
  const auto y = s.b->allocate(64_B);
  t::run_add(s.rig, *s.b, s.x, y, 1);
  EXPECT_NO_THROW(s.a->map(s.x, s.whole, Access::read, WaitLimit::after({})));
  EXPECT_EQ(s.rig.stats().submissions, 1U) << "to read, the reader need not be submitted";
  EXPECT_THROW(s.a->map(s.x, s.whole, Access::write, WaitLimit::after({})), TimeoutError);
  EXPECT_EQ(s.rig.stats().submissions, 2U) << "to write, it must";
  gate.open();
  EXPECT_NO_THROW(s.a->map(s.x, s.whole, Access::write, t::patient()));
  EXPECT_EQ(t::value_of(*s.b, y), 2);
}

TEST(Map, one_that_timed_out_has_written_nothing_and_forgets_no_writer) {
  Mapped s;
  t::put(*s.a, s.x, 1);
  ASSERT_TRUE(t::until_done(s.a->flush()));
  Gate gate(*s.rig.context);
  s.a->wait_for(gate.point());
  t::put(*s.a, s.x, 2);
  s.a->flush();
  EXPECT_THROW(s.a->map(s.x, s.whole, Access::write, WaitLimit::after({})), TimeoutError);
  std::vector<std::byte> data(64);
  EXPECT_THROW(s.b->readback(s.x, {}, data, WaitLimit::after({})), TimeoutError)
      << "the writer is still in flight";
  gate.open();
  EXPECT_EQ(t::value_of(*s.b, s.x), 2);
}

TEST(Map, one_that_timed_out_still_passes_the_writers_failure_on) {
  Mapped s;
  Gate gate(*s.rig.context);
  s.a->wait_for(gate.point());
  t::run_explode(s.rig, *s.a, s.x);
  const hal::Point point = s.a->flush();
  EXPECT_THROW(s.a->map(s.x, s.whole, Access::write, WaitLimit::after({})), TimeoutError);
  gate.open();
  ASSERT_TRUE(t::until_done(point));
  EXPECT_THROW(t::bytes_of(*s.b, s.x), ExecutionError);
}

TEST(Map, a_conflicting_bind_is_an_error_that_names_the_map) {
  Mapped s;
  const auto names = ThrowsMessage<UsageError>(AllOf(HasSubstr("my map"), HasSubstr("'x'")));
  const auto y = s.b->allocate(64_B);
  t::put(*s.a, s.x, 1);
  {
    const Map map = s.a->map(s.x, {{}, 32_B}, Access::write, {}, "my map");
    for (const auto& stream : {s.a, s.b}) {
      EXPECT_THAT([&] { t::run_add(s.rig, *stream, s.x, y, 1); }, names);
      EXPECT_THAT([&] { t::put(*stream, s.x, 1); }, names);
    }
    EXPECT_THAT([&] { s.a->upload(s.x, {}, std::vector<std::byte>(8)); }, names);
    std::vector<std::byte> data(8);
    EXPECT_THAT([&] { s.a->readback(s.x, {}, data); }, names);
    EXPECT_THAT([&] { s.a->map(s.x, s.whole, Access::read); }, names);
    EXPECT_NO_THROW(s.a->fill(t::part(s.x, 32, 32, Access::write), {})) << "disjoint";
  }
  EXPECT_NO_THROW(t::put(*s.a, s.x, 1));
}

TEST(Map, to_read_goes_together_with_readers) {
  Mapped s;
  t::put(*s.a, s.x, 1);
  const auto y = s.b->allocate(64_B);
  const Map first = s.a->map(s.x, s.whole, Access::read, {}, "reading");
  const Map second = s.b->map(s.x, s.whole, Access::read);
  t::run_add(s.rig, *s.b, s.x, y, 1);
  EXPECT_EQ(t::value_of(*s.b, y), 2);
  EXPECT_EQ(t::value_of(*s.b, s.x), 1);
  EXPECT_THAT([&] { t::put(*s.b, s.x, 1); }, ThrowsMessage<UsageError>(HasSubstr("reading")));
}

TEST(Map, is_a_user_and_keeps_the_context_alive) {
  Rig rig;
  Ref<Context> context = std::move(rig.context);
  auto stream = context->new_stream();
  auto x = stream->allocate(64_B);
  t::put(*stream, x, 1);
  std::optional<Map> map(stream->map(x, {{}, 64_B}, Access::read));
  const hal::Allocation* raw = x.get();
  x.reset();
  EXPECT_EQ(raw->users(), 1U);
  EXPECT_EQ(context->stats().memory.live_objects, 1U);
  stream.reset();
  context.reset();
  EXPECT_EQ(map->bytes()[63], std::byte{1});
  EXPECT_FALSE(rig.device->lost()) << "nobody closed it";
  map.reset();
  EXPECT_TRUE(rig.device->lost()) << "the last user is gone";
}

TEST(Map, a_moved_from_one_has_no_bytes_and_the_other_ends_it) {
  Mapped s;
  std::optional<Map> second;
  {
    Map first = s.a->map(s.x, s.whole, Access::write);
    second.emplace(std::move(first));
    EXPECT_TRUE(first.bytes().empty());  // NOLINT
  }
  EXPECT_THROW(t::put(*s.a, s.x, 1), UsageError);
  second.reset();
  EXPECT_NO_THROW(t::put(*s.a, s.x, 1));
}

TEST(Map, memory_that_the_host_cannot_reach_is_refused_by_name) {
  Rig rig(t::discrete());
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B, "far away");
  EXPECT_THAT(
      [&] {
        stream->map(x, {{}, 64_B}, Access::read);
      },
      ThrowsMessage<UsageError>(HasSubstr("far away")));
  const auto near = stream->allocate(64_B, "near", hal::MemoryKind::readback);
  t::put(*stream, x, 6);
  stream->copy(t::read_of(x), t::write_of(near));
  EXPECT_EQ(stream->map(near, {{}, 64_B}, Access::read).bytes()[5], std::byte{6});
}

}  // namespace
}  // namespace holdfast::runtime
