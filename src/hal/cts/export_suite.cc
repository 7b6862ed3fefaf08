#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "holdfast/hal/cts/cts.h"

// Points as file descriptors, out and in.

namespace holdfast::hal::cts {

namespace {

bool is_readable(const UniqueFd& descriptor, int timeout_ms) {
  pollfd request{descriptor.get(), POLLIN, 0};
  return ::poll(&request, 1, timeout_ms) == 1 && (request.revents & POLLIN) != 0;
}

constexpr int kPatienceMs = 30000;

// A descriptor that the test makes readable, and a duplicate of it to import.
struct HostEvent {
  UniqueFd own{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  UniqueFd duplicate() const { return UniqueFd(::dup(own.get())); }
  void set() const {
    const uint64_t one = 1;
    ASSERT_EQ(::write(own.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
};

}  // namespace

TEST_P(Cts, an_exported_point_is_readable_once_it_is_reached) {
  const Gate closed = gate();
  auto work = list();
  const Point point = submit(queue(), work, {closed.data()});
  const UniqueFd descriptor = device().export_point(point).or_raise();
  ASSERT_TRUE(descriptor);
  const UniqueFd second = device().export_point(point).or_raise();
  EXPECT_NE(descriptor.get(), second.get());
  EXPECT_FALSE(is_readable(descriptor, 0));
  closed.open();
  EXPECT_TRUE(is_readable(descriptor, kPatienceMs));
  EXPECT_EQ(point.query(), PointState::reached) << "readable, so resolved";
  EXPECT_TRUE(is_readable(descriptor, 0)) << "and stays so";
  EXPECT_TRUE(is_readable(second, kPatienceMs));
}

TEST_P(Cts, an_exported_point_is_readable_once_it_fails) {
  const Gate closed = gate();
  auto work = list();
  const Point point = submit(queue(), work, {closed.data()});
  const UniqueFd descriptor = device().export_point(point).or_raise();
  closed.fail(Failure(ErrorCode::execution, "exported failure"));
  EXPECT_TRUE(is_readable(descriptor, kPatienceMs));
  EXPECT_EQ(point.query(), PointState::failed);
}

TEST_P(Cts, a_point_exported_after_it_was_resolved_is_readable_at_once) {
  auto work = list();
  const Point point = submit(queue(), work);
  ASSERT_TRUE(reached(point));
  EXPECT_TRUE(is_readable(device().export_point(point).or_raise(), 0));
  const Point bad = failed_point(queue(), Failure(ErrorCode::execution, "over"));
  EXPECT_TRUE(is_readable(device().export_point(bad).or_raise(), 0));
}

TEST_P(Cts, an_export_waits_for_its_own_value_only) {
  const Gate first = gate("first");
  const Gate second = gate("second");
  auto one = list("one");
  auto two = list("two");
  const Point early = submit(queue(), one, {first.data()});
  const Point late = submit(queue(), two, {second.data()});
  const UniqueFd on_late = device().export_point(late).or_raise();
  const UniqueFd on_early = device().export_point(early).or_raise();
  first.open();
  EXPECT_TRUE(is_readable(on_early, kPatienceMs));
  EXPECT_FALSE(is_readable(on_late, 0));
  second.open();
  EXPECT_TRUE(is_readable(on_late, kPatienceMs));
}

TEST_P(Cts, a_host_signalled_point_can_be_exported) {
  const Gate closed = gate();
  const UniqueFd descriptor = device().export_point(closed.point()).or_raise();
  EXPECT_FALSE(is_readable(descriptor, 0));
  closed.open();
  EXPECT_TRUE(is_readable(descriptor, kPatienceMs));
}

TEST_P(Cts, an_exported_point_is_readable_once_its_device_is_gone) {
  const Gate closed = gate();
  auto work = list();
  const Point point = submit(queue(), work, {closed.data()});
  const UniqueFd descriptor = device().export_point(point).or_raise();
  EXPECT_FALSE(is_readable(descriptor, 0));
  drop_device();
  EXPECT_TRUE(is_readable(descriptor, kPatienceMs));
}

TEST_P(Cts, an_imported_point_is_reached_once_its_descriptor_is_readable) {
  const HostEvent event;
  const Point point = device().import_point(event.duplicate(), "doorbell").or_raise();
  ASSERT_TRUE(point.timeline);
  EXPECT_EQ(point.timeline->name(), "doorbell");
  EXPECT_FALSE(point.timeline->device());
  EXPECT_TRUE(pending(point));
  EXPECT_EQ(point.timeline->wait(point.value, sync::Deadline::after({})), PointState::pending);
  event.set();
  EXPECT_TRUE(reached(point));
  EXPECT_FALSE(point.failure());
  // A resolved value stays so, whatever becomes of the descriptor.
  uint64_t taken = 0;
  ASSERT_EQ(::read(event.own.get(), &taken, sizeof taken), static_cast<ssize_t>(sizeof taken));
  EXPECT_EQ(point.query(), PointState::reached);
}

TEST_P(Cts, lists_wait_for_imported_points) {
  for (const WaitKind kind : {WaitKind::data, WaitKind::order}) {
    const HostEvent event;
    const Point doorbell = device().import_point(event.duplicate(), "doorbell").or_raise();
    const auto data = uploaded(Words(64, 1), "data");
    auto work = list();
    increment(work, data);
    auto behind = list("behind");
    increment(behind, data);
    const Point point = submit(queue(), work, {{doorbell, kind}});
    const Point last = submit(queue(), behind);
    EXPECT_TRUE(pending(point));
    EXPECT_TRUE(pending(last));
    event.set();
    EXPECT_TRUE(reached(point));
    EXPECT_TRUE(reached(last));
    EXPECT_EQ(read(data), Words(64, 3));
  }
}

TEST_P(Cts, one_device_waits_for_another_through_an_exported_point) {
  const Ref<Device> other = open_another();
  const Gate closed = gate();
  auto work = list();
  const Point there = submit(queue(), work, {closed.data()});
  const Point here =
      other->import_point(device().export_point(there).or_raise(), "there").or_raise();
  CommandList waiting(other->info(), "waiting");
  const Point point = submit(other->queues()[0], waiting, {{here, WaitKind::data}});
  EXPECT_TRUE(pending(point));
  closed.open();
  EXPECT_TRUE(reached(point));
  EXPECT_EQ(there.query(), PointState::reached);
}

TEST_P(Cts, a_descriptor_that_is_none_is_refused_by_name) {
  const auto refused = device().import_point(UniqueFd(), "no descriptor");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.failure().message(), ::testing::HasSubstr("no descriptor"));
}

TEST_P(Cts, a_list_that_waits_for_an_imported_point_goes_with_its_device) {
  const HostEvent event;
  const Point doorbell = device().import_point(event.duplicate(), "doorbell").or_raise();
  Imported data = imported(Words(64));
  auto work = list();
  increment(work, data.allocation);
  data.allocation.reset();
  const Point point = submit(queue(), work, {{doorbell, WaitKind::data}});
  drop_device();
  EXPECT_TRUE(failed(point));
  EXPECT_TRUE(data.deletions->reaches(1));
  event.set();
  EXPECT_TRUE(reached(doorbell));
}

TEST_P(Cts, a_default_point_exports_as_readable) {
  const auto exported = device().export_point(Point());
  ASSERT_TRUE(exported.ok()) << exported.failure().message();
  EXPECT_TRUE(is_readable(exported.value(), 0));
}

TEST_P(Cts, an_imported_point_can_be_exported_again) {
  const HostEvent event;
  const Point doorbell = device().import_point(event.duplicate(), "doorbell").or_raise();
  const auto exported = device().export_point(doorbell);
  ASSERT_TRUE(exported.ok()) << exported.failure().message();
  EXPECT_FALSE(is_readable(exported.value(), 0));
  event.set();
  EXPECT_TRUE(is_readable(exported.value(), kPatienceMs));
}

TEST_P(Cts, a_descriptor_whose_other_end_is_closed_hangs_nobody) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  const Point doorbell = device().import_point(UniqueFd(ends[0]), "pipe").or_raise();
  auto work = list();
  const Point point = submit(queue(), work, {{doorbell, WaitKind::data}});
  EXPECT_TRUE(pending(point));
  ::close(ends[1]);
  ASSERT_TRUE(resolved(point));
  ASSERT_TRUE(resolved(doorbell));
  EXPECT_EQ(point.query(), doorbell.query());
  EXPECT_EQ(point.failure(), doorbell.failure()) << "one cause, however often it is asked";
}

}  // namespace holdfast::hal::cts
