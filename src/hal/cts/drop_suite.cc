#include <algorithm>
#include <array>
#include <optional>

#include "holdfast/hal/cts/cts.h"

// Device, queue, memory and lists go in every order, with work in flight.

namespace holdfast::hal::cts {

namespace {

constexpr size_t kDropElements = 256;

enum class Piece { device, queue, memory, list };

// When the work in flight may run: before anything is dropped, half way, or after everything is
// gone.
constexpr std::array<size_t, 3> kOpenings{0, 2, 4};

std::string to_text(const std::array<Piece, 4>& order, size_t opened_at) {
  constexpr std::array kNames{"device", "queue", "memory", "list"};
  std::string text = "dropped:";
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == opened_at) text += " (opened)";
    text += std::string(" ") + kNames[static_cast<size_t>(order[i])];
  }
  return text + (opened_at == order.size() ? " (opened)" : "");
}

// A device with a gated list in flight and one that is still being recorded, both using the same
// memory.
struct Rig {
  Ref<Device> device;
  Ref<Queue> queue;
  Gate gate;
  Imported memory;
  Ref<Pipeline> pipeline;
  Ref<Program> program;
  std::optional<CommandList> recorded;
  Ref<Ticket> in_flight;
  Ref<Ticket> open;
  Point point;

  Rig(const DeviceUnderTest& under_test, bool as_program) {
    device = under_test.open().or_raise();
    queue = device->queues()[0];
    gate.timeline = device->create_host_timeline("gate").or_raise();
    memory.allocation = Allocation::whole(
        device->import_buffer(external(Words(kDropElements, 1), "memory", memory)).or_raise());
    pipeline = device->create_pipeline({"increment", under_test.module("increment", {}), 1, {}})
                   .or_raise();
    CommandList submitted(device->info(), "in flight");
    record(submitted);
    if (as_program) {
      program = device->create_program(submitted).or_raise();
      submitted = make_replay(device->info(), program, {}, {}, "replay in flight");
    }
    in_flight = submitted.ticket();
    recorded.emplace(device->info(), "recorded");
    record(*recorded);
    open = recorded->ticket();
    point = queue->submit(submitted, {gate.data()}).or_raise();
  }

  void record(CommandList& list) const {
    const std::vector bindings{Binding::of(memory.allocation, Access::read_write)};
    list.dispatch(pipeline, bindings, {}, groups_for(kDropElements));
  }

  void drop(Piece piece) {
    switch (piece) {
      case Piece::device: device.reset(); break;
      case Piece::queue: queue.reset(); break;
      case Piece::memory: memory.allocation.reset(); break;
      case Piece::list:
        recorded.reset();
        pipeline.reset();
        program.reset();
        break;
    }
  }
};

void drop_in_every_order(const DeviceUnderTest& under_test, bool as_program) {
  std::array order{Piece::device, Piece::queue, Piece::memory, Piece::list};
  do {
    for (const size_t opened_at : kOpenings) {
      SCOPED_TRACE(to_text(order, opened_at));
      Rig rig(under_test, as_program);
      EXPECT_TRUE(pending(rig.point));
      for (size_t i = 0; i < order.size(); ++i) {
        if (i == opened_at) rig.gate.open();
        rig.drop(order[i]);
        if (rig.device && opened_at > i) {
          EXPECT_TRUE(pending(rig.point));
          EXPECT_EQ(rig.memory.deletions->value(), 0) << "freed under work in flight";
        }
      }
      // Before the last opening: nobody may need it to get an answer.
      EXPECT_TRUE(resolved(rig.point));
      if (opened_at == order.size()) rig.gate.open();
      EXPECT_TRUE(rig.memory.deletions->reaches(1));
      EXPECT_EQ(rig.memory.deletions->value(), 1);
      EXPECT_EQ(rig.open->state(), TicketState::abandoned);
      EXPECT_EQ(rig.point.query() == PointState::failed, static_cast<bool>(rig.point.failure()));
      if (::testing::Test::HasFailure()) return;
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace

TEST_P(Cts, device_queue_memory_and_list_may_be_dropped_in_any_order_with_work_in_flight) {
  drop_in_every_order(GetParam(), false);
}

TEST_P(Cts, device_queue_memory_and_program_may_be_dropped_in_any_order_with_a_replay_in_flight) {
  drop_in_every_order(GetParam(), true);
}

TEST_P(Cts, work_on_several_queues_that_waits_for_each_other_may_be_dropped_with_its_device) {
  const Gate closed = gate();
  Imported data = imported(Words(kDropElements));
  std::vector<Point> points;
  Wait wait = closed.data();
  for (size_t i = 0; i < 2 * device().queues().size(); ++i) {
    auto work = list();
    increment(work, data.allocation);
    points.push_back(submit(queue(i % device().queues().size()), work, {wait}));
    wait = {points.back(), i % 2 == 0 ? WaitKind::order : WaitKind::data};
  }
  data.allocation.reset();
  const Ref<Device> last = open_another();
  auto elsewhere = CommandList(last->info(), "elsewhere");
  const Point other = submit(last->queues()[0], elsewhere, {closed.data()});
  drop_device();
  for (const Point& point : points) EXPECT_TRUE(failed(point));
  EXPECT_TRUE(data.deletions->reaches(1));
  EXPECT_TRUE(pending(other)) << "another device is not concerned";
  closed.open();
  EXPECT_TRUE(reached(other));
}

TEST_P(Cts, objects_that_outlive_their_device_answer_and_can_be_dropped) {
  const Ref<Queue> kept_queue = queue();
  const auto memory = uploaded(Words(kDropElements, 3), "memory");
  const auto kernel = make_pipeline("increment");
  auto steps = list("steps");
  increment(steps, memory);
  auto program = device().create_program(steps).or_raise();
  auto recorded = list("recorded");
  increment(recorded, memory);
  auto finished = list("finished");
  const Point point = submit(kept_queue, finished);
  ASSERT_TRUE(reached(point));
  const DeviceInfo info = device().info();

  drop_device();

  EXPECT_EQ(point.query(), PointState::reached);
  EXPECT_EQ(memory->size(), Bytes{kDropElements * 4});
  EXPECT_EQ(kernel->name(), "increment");
  const auto refused = kept_queue->submit(recorded);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code(), ErrorCode::closed);
  EXPECT_EQ(recorded.ticket()->state(), TicketState::open);
  auto replayed = make_replay(info, program, {}, {}, "late replay");
  EXPECT_FALSE(kept_queue->submit(replayed).ok());
  kept_queue->retire();
  EXPECT_EQ(kept_queue->in_flight(), 0U);
  EXPECT_FALSE(kept_queue->oldest().has_value());
  program.reset();
}

TEST_P(Cts, a_retired_list_may_be_dropped_after_device_and_queue) {
  Imported data = imported(Words(kDropElements, 1));
  Retired retired;
  {
    auto work = list();
    increment(work, data.allocation);
    ASSERT_TRUE(reached(submit(queue(), work)));
    retired = queue()->retire();
  }
  ASSERT_EQ(retired.size(), 1U);
  data.allocation.reset();
  drop_device();
  EXPECT_EQ(data.deletions->value(), 0);
  retired.clear();
  EXPECT_TRUE(data.deletions->reaches(1));
}

TEST_P(Cts, a_turn_may_outlive_device_and_queue) {
  auto turn = queue()->take_turn(patience());
  ASSERT_TRUE(turn.has_value());
  auto late = list("late");
  Ref<Queue> kept = queue();
  drop_device();
  EXPECT_FALSE(kept->submit(*turn, late).ok());
  kept.reset();
  turn.reset();
}

TEST_P(Cts, a_device_dropped_by_its_own_native_callback_closes) {
  const auto holder = std::make_shared<Ref<Device>>(open_another());
  const Ref<Queue> kept = (*holder)->queues()[0];
  CommandList work((*holder)->info(), "last one out");
  work.native([holder](const NativeCall&) { holder->reset(); }, {});
  const auto point = kept->submit(work).or_raise();
  EXPECT_TRUE(resolved(point));
}

}  // namespace holdfast::hal::cts
