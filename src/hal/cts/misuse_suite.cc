#include "holdfast/hal/cts/cts.h"

// What bad input gets: an error that names the object and the limit, and a list, queue and device
// that still work.

namespace holdfast::hal::cts {

namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr size_t kMisuseElements = 64;

}  // namespace

TEST_P(Cts, a_null_binding_is_refused_by_label_and_the_list_stays_usable) {
  const auto data = uploaded(Words(kMisuseElements, 1), "data");
  Ref<Allocation> moved_from = data;
  Ref<Allocation> moved_to;
  moved_to.swap(moved_from);
  auto work = list("my list");
  EXPECT_THAT(message_of_refusal([&] {
                dispatch(work, "increment", {Binding::of(moved_from, Access::read_write)}, {},
                         {1, 1, 1}, "my label");
              }),
              AnyOf(HasSubstr("my label"), HasSubstr("my list")));
  EXPECT_THROW(dispatch(work, "increment", {Binding{}}, {}, {1, 1, 1}), UsageError);
  EXPECT_THROW(work.copy(Ref<Allocation>(), range(0, 4), data, range(0, 4)), UsageError);
  EXPECT_THROW(work.copy(data, range(0, 4), Ref<Allocation>(), range(0, 4)), UsageError);
  EXPECT_THROW(work.fill(Ref<Allocation>(), range(0, 4), std::byte{}), UsageError);
  EXPECT_TRUE(work.empty());
  EXPECT_EQ(work.holds().size(), 0U);
  increment(work, data);
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(data), Words(kMisuseElements, 2));
}

TEST_P(Cts, a_null_pipeline_and_a_null_callback_are_refused) {
  const auto data = uploaded(Words(kMisuseElements, 1), "data");
  const std::vector bindings{Binding::of(data, Access::read_write)};
  auto work = list();
  EXPECT_THROW(work.dispatch(Ref<Pipeline>(), bindings, {}, {1, 1, 1}), UsageError);
  EXPECT_THROW(work.native(NativeCallback(), bindings), UsageError);
  EXPECT_TRUE(work.empty());
  EXPECT_EQ(work.holds().size(), 0U);
}

TEST_P(Cts, a_range_out_of_bounds_is_refused_by_name) {
  const auto data = uploaded(Words(kMisuseElements, 1), "narrow");
  const auto other = uploaded(Words(kMisuseElements, 1), "other");
  const uint64_t size = kMisuseElements * 4;
  auto work = list();
  for (const ByteRange bad :
       {range(0, size + 1), range(size, 4), range(size + 1, 0), range(4, size),
        range(kMaxBytes.value, 4), range(kMaxBytes.value - 3, 8), range(8, kMaxBytes.value - 4),
        range(kMaxBytes.value, kMaxBytes.value)}) {
    SCOPED_TRACE(std::to_string(bad.offset.value) + " + " + std::to_string(bad.length.value));
    EXPECT_THAT(
        message_of_refusal([&] {
          dispatch(work, "increment", {Binding::of(data, bad, Access::read_write)}, {}, {1, 1, 1});
        }),
        HasSubstr("narrow"));
    EXPECT_THAT(message_of_refusal([&] { work.fill(data, bad, std::byte{0xff}); }),
                HasSubstr("narrow"));
    EXPECT_THROW(work.copy(data, bad, other, {{}, bad.length}), UsageError);
    EXPECT_THROW(work.copy(other, {{}, bad.length}, data, bad), UsageError);
  }
  EXPECT_TRUE(work.empty());
  EXPECT_EQ(work.holds().size(), 0U);
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(data), Words(kMisuseElements, 1));
}

TEST_P(Cts, a_copy_between_unequal_lengths_is_refused) {
  const auto from = uploaded(Words(kMisuseElements, 1), "from");
  const auto to = uploaded(Words(kMisuseElements, 2), "to");
  auto work = list();
  EXPECT_THROW(work.copy(from, range(0, 8), to, range(0, 9)), UsageError);
  EXPECT_THROW(work.copy(from, range(0, 8), to, range(0, 0)), UsageError);
  EXPECT_TRUE(work.empty());
}

TEST_P(Cts, the_check_functions_refuse_what_recording_refuses_and_record_nothing) {
  const auto data = uploaded(Words(kMisuseElements, 1), "data");
  const std::vector good{Binding::of(data, Access::read_write)};
  const std::vector bad{Binding::of(data, range(4, kMisuseElements * 4), Access::read_write)};
  const auto work = list();
  EXPECT_NO_THROW(work.check_dispatch(pipeline("increment"), good, {}, {1, 1, 1}, "label"));
  EXPECT_THROW(work.check_dispatch(pipeline("increment"), bad, {}, {1, 1, 1}, "label"), UsageError);
  EXPECT_THROW(work.check_dispatch(pipeline("affine"), good, {}, {1, 1, 1}, "label"), UsageError);
  EXPECT_NO_THROW(work.check_bindings(good, "label"));
  EXPECT_THROW(work.check_bindings(bad, "label"), UsageError);
  EXPECT_THROW(work.check_copy(Binding::of(data, range(0, 8), Access::read),
                               Binding::of(data, range(4, 8), Access::write), "label"),
               UsageError);
  EXPECT_TRUE(work.empty());
  EXPECT_EQ(work.holds().size(), 0U);
}

TEST_P(Cts, memory_and_pipelines_of_another_device_are_refused_by_name) {
  const Ref<Device> other = open_another();
  const auto foreign = Allocation::whole(
      other->create_buffer({{kMisuseElements * 4}, MemoryKind::device, "foreign memory"})
          .or_raise());
  const auto foreign_kernel =
      other->create_pipeline({"foreign kernel", GetParam().module("increment", {}), 1, {}})
          .or_raise();
  const auto data = uploaded(Words(kMisuseElements, 1), "data");
  auto work = list();
  EXPECT_THAT(message_of_refusal([&] { increment(work, foreign); }), HasSubstr("foreign memory"));
  EXPECT_THAT(message_of_refusal([&] { work.fill(foreign, range(0, 4), std::byte{}); }),
              HasSubstr("foreign memory"));
  EXPECT_THROW(work.copy(foreign, range(0, 4), data, range(0, 4)), UsageError);
  EXPECT_THROW(work.copy(data, range(0, 4), foreign, range(0, 4)), UsageError);
  const std::vector bindings{Binding::of(data, Access::read_write)};
  EXPECT_THAT(message_of_refusal([&] {
                work.dispatch(foreign_kernel, bindings, {}, {1, 1, 1});
              }),
              HasSubstr("foreign kernel"));
  EXPECT_TRUE(work.empty());
  EXPECT_EQ(work.holds().size(), 0U);
  increment(work, data);
  EXPECT_TRUE(reached(submit(queue(), work)));
}

TEST_P(Cts, a_list_of_another_device_is_refused_and_stays_the_callers) {
  const Ref<Device> other = open_another();
  CommandList foreign(other->info(), "foreign list");
  const auto refused = queue()->submit(foreign);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code(), ErrorCode::usage);
  EXPECT_THAT(refused.failure().message(), HasSubstr("foreign list"));
  EXPECT_EQ(foreign.ticket()->state(), TicketState::open);
  EXPECT_TRUE(reached(submit(other->queues()[0], foreign)));
}

TEST_P(Cts, a_wait_on_a_point_of_another_device_is_refused_and_the_list_stays_usable) {
  const Ref<Device> other = open_another();
  CommandList foreign(other->info(), "foreign");
  const Point point = submit(other->queues()[0], foreign);
  ASSERT_TRUE(reached(point));
  const auto data = uploaded(Words(kMisuseElements, 1), "data");
  auto work = list("patient list");
  increment(work, data);
  const auto refused = queue()->submit(work, {{point, WaitKind::order}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code(), ErrorCode::usage);
  EXPECT_THAT(refused.failure().message(),
              AnyOf(HasSubstr("patient list"), HasSubstr(to_string(point))));
  EXPECT_EQ(work.ticket()->state(), TicketState::open);
  EXPECT_EQ(work.command_count(), 1U);
  EXPECT_EQ(work.holds().size(), 2U);
  EXPECT_EQ(queue()->in_flight(), 0U);
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(data), Words(kMisuseElements, 2));
}

TEST_P(Cts, a_refused_submit_uses_up_no_value) {
  const Ref<Device> other = open_another();
  CommandList foreign(other->info(), "foreign");
  auto first = list();
  auto second = list();
  const Point one = submit(queue(), first);
  EXPECT_FALSE(queue()->submit(foreign).ok());
  const Point two = submit(queue(), second);
  EXPECT_EQ(two.value, one.value.next());
  EXPECT_TRUE(reached(two));
}

TEST_P(Cts, a_grid_over_the_limit_is_refused_by_name_and_limit) {
  const Groups limit = device().info().max_groups;
  const auto data = uploaded(Words(kMisuseElements, 1), "data");
  auto work = list();
  const auto expect_refusal = [&](Groups grid, uint32_t named) {
    EXPECT_THAT(
        message_of_refusal([&] {
          dispatch(work, "increment", {Binding::of(data, Access::read_write)}, {}, grid, "huge");
        }),
        AllOf(AnyOf(HasSubstr("huge"), HasSubstr("increment")), HasSubstr(std::to_string(named))));
  };
  if (limit.x < UINT32_MAX) expect_refusal({limit.x + 1, 1, 1}, limit.x);
  if (limit.y < UINT32_MAX) expect_refusal({1, limit.y + 1, 1}, limit.y);
  if (limit.z < UINT32_MAX) expect_refusal({1, 1, limit.z + 1}, limit.z);
  EXPECT_TRUE(work.empty());
  increment(work, data);
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(data), Words(kMisuseElements, 2));
}

TEST_P(Cts, a_list_is_submitted_once) {
  const auto data = uploaded(Words(kMisuseElements, 1), "data");
  auto work = list("once");
  increment(work, data);
  ASSERT_TRUE(reached(submit(queue(), work)));
  EXPECT_FALSE(queue()->submit(work).ok());
  EXPECT_FALSE(device().create_program(work).ok());
  EXPECT_EQ(read(data), Words(kMisuseElements, 2));
}

TEST_P(Cts, recording_into_a_submitted_list_is_refused) {
  const auto data = uploaded(Words(kMisuseElements, 1), "data");
  auto work = list("gone");
  increment(work, data);
  ASSERT_TRUE(reached(submit(queue(), work)));
  EXPECT_THROW(increment(work, data), UsageError);
  EXPECT_THROW(work.fill(data, range(0, 4), std::byte{}), UsageError);
}

TEST_P(Cts, a_moved_from_list_is_refused) {
  auto work = list("moved");
  const CommandList moved_to(std::move(work));
  EXPECT_FALSE(queue()->submit(work).ok());
  EXPECT_THROW(work.fill(words(1, "data"), range(0, 4), std::byte{}), UsageError);
}

TEST_P(Cts, an_abandoned_list_is_refused_and_keeps_its_cause) {
  auto work = list("given up");
  const auto ticket = work.ticket();
  const Failure cause(ErrorCode::execution, "changed my mind");
  work.abandon(cause);
  EXPECT_EQ(ticket->state(), TicketState::abandoned);
  EXPECT_EQ(ticket->failure(), cause);
  EXPECT_FALSE(queue()->submit(work).ok());
  EXPECT_EQ(ticket->failure(), cause);
}

TEST_P(Cts, a_module_that_is_none_is_refused_by_name) {
  const auto refused = device().create_pipeline({"hollow", HostFunction(), 1, {}});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.failure().message(), HasSubstr("hollow"));
  const auto empty = device().create_pipeline({"no words", SpirvModule(), 1, {}});
  ASSERT_FALSE(empty.ok());
  EXPECT_THAT(empty.failure().message(), HasSubstr("no words"));
}

TEST_P(Cts, objects_describe_themselves_by_name) {
  const auto data = words(kMisuseElements, "weights");
  EXPECT_EQ(data->name(), "weights");
  EXPECT_THAT(data->describe(), HasSubstr("weights"));
  EXPECT_THAT(data->describe(), HasSubstr(std::to_string(data->id().value)));
  EXPECT_EQ(data->device(), device().id());
  const auto kernel = make_pipeline("increment", {}, "plus one");
  EXPECT_THAT(kernel->describe(), HasSubstr("plus one"));
  auto work = list("step 3");
  EXPECT_THAT(work.describe(), HasSubstr("step 3"));
  const auto program = device().create_program(work).or_raise();
  EXPECT_THAT(program->describe(), HasSubstr("step 3"));
  auto last = list();
  const Point point = submit(queue(), last);
  EXPECT_THAT(to_string(point), AllOf(HasSubstr(point.timeline->name()),
                                      HasSubstr(std::to_string(point.value.value))));
}

}  // namespace holdfast::hal::cts
