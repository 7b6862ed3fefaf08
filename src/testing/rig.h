#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/base/sync/condition.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/runtime/context.h"
#include "holdfast/runtime/stream.h"
#include "holdfast/testing/world.h"

namespace holdfast::testing {

// How long a test waits for what must happen before it gives up and fails instead of hanging.
inline constexpr sync::Duration kPatience = std::chrono::seconds(60);

// Something that happens once. Thread-safe.
class Event {
 public:
  void set();
  bool is_set() const;
  // Whether it happened within the patience.
  [[nodiscard]] bool wait() const;

 private:
  mutable sync::Mutex mutex_;  // guards set_
  mutable sync::Condition changed_;
  bool set_ = false;
};

// Spins until the condition holds; false when patience ran out. It is no accounted wait.
[[nodiscard]] bool until(const std::function<bool()>& condition);
// The same for a Point: whether it was resolved.
[[nodiscard]] bool until_done(const hal::Point& point);

// A Point that the test opens; lists that wait for it stay in flight until then. Opens when it goes
// out of scope, so that no test ends with work that can never finish.
class Gate {
 public:
  explicit Gate(runtime::Context& context);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  hal::Point point() const { return {timeline_, {1}}; }
  void open();
  void fail(Failure cause);

 private:
  Ref<hal::HostTimeline> timeline_;
};

// A kernel that runs until it is released: to the runtime it is work that merely takes long.
// Released when it goes out of scope.
class Slow {
 public:
  // Takes one binding, which it fills with `value` once it is released.
  explicit Slow(runtime::Context& context, std::byte value = std::byte{0x51});
  ~Slow() { release(); }
  Slow(const Slow&) = delete;
  Slow& operator=(const Slow&) = delete;

  const Ref<hal::Pipeline>& kernel() const { return kernel_; }
  void release() { released_->set(); }
  [[nodiscard]] bool wait_until_running() const { return running_->wait(); }

 private:
  std::shared_ptr<Event> running_ = std::make_shared<Event>();
  std::shared_ptr<Event> released_ = std::make_shared<Event>();
  Ref<hal::Pipeline> kernel_;
};

// Runs `call` on a thread of its own and interrupts waits until it has ended: whether it ended with
// InterruptedError, which proves that it blocked in an accounted wait.
[[nodiscard]] bool blocks(const std::function<void()>& call);

// A device and a context without a reaper, so that retirements can be counted. The device is
// wrapped in validate unless HOLDFAST_VALIDATE=0 says otherwise.
struct Rig {
  explicit Rig(hal::CpuOptions device_options = {.queues = 2, .helpers = 0},
               runtime::Options options = {.reaper = false});
  // On the device that the world gives.
  explicit Rig(World& world, hal::CpuOptions device_options = {.queues = 2, .helpers = 0},
               runtime::Options options = {.reaper = false});
  ~Rig();
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  Ref<hal::Device> device;
  hal::CpuDevice* cpu = nullptr;  // the innermost, where the rig opened it itself
  Ref<runtime::Context> context;

  runtime::RuntimeStats stats() const { return context->stats(); }
  // For a rig with little memory whose work is recorded: a readback needs memory of its own where
  // the host does not reach the device's.
  void make_room_for_readbacks() {
    if (!device->info().device_memory_host_visible) context->set_memory_limit(1_MiB);
  }
  // Where a GPU has fewer queues than the test wants, streams share them.
  Ref<runtime::Stream> stream(std::string name = {}, std::optional<uint32_t> queue = {});
  bool has_queues(size_t count) const { return device->info().queues >= count; }
  Family family() const { return world_ != nullptr ? world_->family() : Family::cpu; }
  // in (read), out (written): out[i] = in[i] + parameter, in bytes.
  Ref<hal::Pipeline> add();
  // One binding, read and written: every byte becomes 2 * byte + parameter, so order shows.
  Ref<hal::Pipeline> affine();
  // One binding; fails with "it exploded". Only where kernels can: see run_explode().
  Ref<hal::Pipeline> explode();
  // The same with two bindings.
  Ref<hal::Pipeline> explode_reading();

 private:
  Ref<hal::Pipeline> make_explode(std::string_view name, uint32_t bindings);

  World* world_ = nullptr;
  Ref<hal::Pipeline> add_;
  Ref<hal::Pipeline> affine_;
  Ref<hal::Pipeline> explode_;
  Ref<hal::Pipeline> explode_reading_;
};

inline hal::CpuOptions discrete(uint32_t queues = 2) {
  return {.queues = queues, .helpers = 0, .device_memory_host_visible = false};
}

// Memory that every device can import: whole pages, zeroed.
class Pages {
 public:
  static constexpr size_t kPage = 4096;
  explicit Pages(size_t at_least);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void* data() const { return data_; }
  Bytes size() const { return size_; }

 private:
  void* data_;
  Bytes size_;
};

hal::Binding read_of(const Ref<hal::Allocation>& a);
hal::Binding write_of(const Ref<hal::Allocation>& a);
hal::Binding in_place(const Ref<hal::Allocation>& a);
hal::Binding part(const Ref<hal::Allocation>& a, uint64_t offset, uint64_t length,
                  hal::Access access);

void run_add(Rig& rig, runtime::Stream& stream, const Ref<hal::Allocation>& in,
             const Ref<hal::Allocation>& out, uint8_t value, std::string_view label = {});
void run_affine(Rig& rig, runtime::Stream& stream, const hal::Binding& at, uint8_t value);
// A command that writes `out` and fails with "it exploded": where kernels cannot fail, a callback
// that throws.
void run_explode(Rig& rig, runtime::Stream& stream, const Ref<hal::Allocation>& out,
                 std::string_view label = {});
void run_slow(const Slow& slow, runtime::Stream& stream, const Ref<hal::Allocation>& out);

std::vector<uint8_t> bytes_of(runtime::Stream& stream, const Ref<hal::Allocation>& from);
// The one value that all bytes have; -1 where they differ.
int value_of(runtime::Stream& stream, const Ref<hal::Allocation>& from);
void put(runtime::Stream& stream, const Ref<hal::Allocation>& to, uint8_t value);
inline bool same_range(const hal::Allocation& a, const hal::Allocation& b) {
  return a.buffer() == b.buffer() &&
         ByteRange{a.offset(), a.size()}.overlaps({b.offset(), b.size()});
}

// A patient limit: a test that would hang fails instead.
inline runtime::WaitLimit patient() { return runtime::WaitLimit::after(kPatience); }

}  // namespace holdfast::testing
