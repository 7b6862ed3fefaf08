#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/range_test.h"
#include "holdfast/base/sync/condition.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/cts/kernels.h"
#include "holdfast/hal/cts/registry.h"
#include "holdfast/hal/validate/validate_device.h"

// What GoogleTest prints of values that do not compare equal.
namespace holdfast {
// NOLINTBEGIN(readability-identifier-naming): GoogleTest calls them by name.
inline void PrintTo(const Failure& failure, std::ostream* out) {
  *out << (failure ? "'" + failure.message() + "'" : "no failure");
}
namespace hal {
inline void PrintTo(PointState state, std::ostream* out) { *out << to_string(state); }
inline void PrintTo(TicketState state, std::ostream* out) { *out << to_string(state); }
}  // namespace hal
// NOLINTEND(readability-identifier-naming)
}  // namespace holdfast

namespace holdfast::hal::cts {

using Words = std::vector<uint32_t>;
using ByteVector = std::vector<std::byte>;

// Far beyond what any step takes: a test that gets there has failed.
sync::Deadline patience();

// Counts events of other threads.
class Counter {
 public:
  void add();
  int value() const;
  // Whether the count gets there in time.
  bool reaches(int count, sync::Deadline deadline = patience()) const;

 private:
  mutable sync::Mutex mutex_;  // guards count_
  mutable sync::Condition changed_;
  int count_ = 0;
};

// A host-signalled Point that keeps lists from running until it is opened.
struct Gate {
  Ref<HostTimeline> timeline;

  Point point() const { return {timeline, {1}}; }
  Wait data() const { return {point(), WaitKind::data}; }
  Wait order() const { return {point(), WaitKind::order}; }
  void open() const { timeline->signal({1}); }
  void fail(const Failure& cause) const { timeline->fail({1}, cause); }
};

// Memory of the host that was imported. Its deleter frees it, so that a sanitizer sees whoever
// comes late.
struct Imported {
  Ref<Allocation> allocation;
  uint32_t* words = nullptr;
  std::shared_ptr<Counter> deletions;
};

// Memory to import; says in `out` where it is and counts its deletions there.
ExternalMemory external(const Words& content, std::string name, Imported& out);

// first, first + 1, ...
Words counting(size_t count, uint32_t first = 0);

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// Bytes that differ from one another, from other seeds and from what a fill leaves.
ByteVector pattern(size_t size, uint32_t seed);

// How a Point turns out, with patience; the text says what it did instead.
::testing::AssertionResult reached(const Point& point);
::testing::AssertionResult failed(const Point& point);
::testing::AssertionResult failed_with(const Point& point, const Failure& cause);
::testing::AssertionResult resolved(const Point& point);
// Now, without waiting.
::testing::AssertionResult pending(const Point& point);

// A device that validates must pass the suite, and the suite must pass validation.
void fail_the_test(const Violation& violation);

// The message of the Error that the call raises; a failed expectation where it raises none.
std::string message_of_refusal(const std::function<void()>& call);

// A device and what tests do with it again and again. Every helper raises where the device refuses.
class Cts : public ::testing::TestWithParam<DeviceUnderTest> {
 protected:
  void SetUp() override;
  void TearDown() override;

  Device& device() { return *device_; }
  const Ref<Queue>& queue(size_t index = 0) { return device_->queues()[index]; }
  bool has_two_queues() { return device_->queues().size() >= 2; }
  Ref<Device> open_another() { return GetParam().open().or_raise(); }
  // Drops the fixture's share of the device: the last, unless the test has one. Gates stay as they
  // are.
  void drop_device();

  Gate gate(std::string name = "gate");
  CommandList list(std::string name = "list") { return {device_->info(), std::move(name)}; }
  CommandList replay(const Ref<Program>& program, const std::vector<Binding>& slots,
                     std::span<const std::byte> parameters = {}) {
    return make_replay(device_->info(), program, slots, parameters, "replay");
  }

  Ref<Allocation> buffer(Bytes size, std::string name, MemoryKind kind = MemoryKind::device);
  Ref<Allocation> words(size_t count, std::string name, MemoryKind kind = MemoryKind::device) {
    return buffer({count * sizeof(uint32_t)}, std::move(name), kind);
  }
  // Device memory with this content. Waits for queue 0 and retires it.
  Ref<Allocation> uploaded(std::span<const std::byte> content, std::string name);
  Ref<Allocation> uploaded(const Words& content, std::string name) {
    return uploaded(std::as_bytes(std::span(content)), std::move(name));
  }
  // The content, by way of a copy on queue 0. Waits for it and retires it.
  ByteVector read_bytes(const Ref<Allocation>& from);
  Words read(const Ref<Allocation>& from);
  // Imports `content`, in memory of its own.
  Imported imported(const Words& content, std::string name = "imported");

  // A pipeline of the catalogue; the first makes a new one each time.
  Ref<Pipeline> make_pipeline(std::string_view kernel);
  Ref<Pipeline> make_pipeline(std::string_view kernel, Bytes parameter_bytes,
                              std::string_view name = {});
  const Ref<Pipeline>& pipeline(std::string_view kernel);

  void dispatch(CommandList& to, std::string_view kernel, const std::vector<Binding>& bindings,
                const Parameters& parameters, Groups groups, std::string_view label = {});
  void increment(CommandList& to, const Ref<Allocation>& data);
  void store(CommandList& to, const Ref<Allocation>& data, uint32_t value);
  void affine(CommandList& to, const Ref<Allocation>& data, uint32_t multiplier, uint32_t addend);
  void mix(CommandList& to, const Ref<Allocation>& in, const Ref<Allocation>& out, uint32_t rounds);

  static Point submit(const Ref<Queue>& queue, CommandList& list, std::vector<Wait> waits = {}) {
    return queue->submit(list, std::move(waits)).or_raise();
  }
  // A Point of `queue` that has failed with this cause.
  Point failed_point(const Ref<Queue>& queue, const Failure& cause);

 private:
  Ref<Device> device_;
  std::map<std::string, Ref<Pipeline>, std::less<>> pipelines_;
  std::vector<Ref<HostTimeline>> gates_;
};

}  // namespace holdfast::hal::cts
