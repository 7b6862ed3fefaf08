#pragma once

#include <memory>
#include <optional>
#include <string>

#include "holdfast/hal/device.h"
#include "holdfast/runtime/options.h"
#include "holdfast/runtime/stats.h"
#include "holdfast/runtime/wait_limit.h"

namespace holdfast::runtime {
class Core;
}

#pragma GCC visibility push(default)

namespace holdfast::runtime {

class Stream;

struct StreamOptions {
  std::string name{};
  // The queue to submit to; by default new streams go to all queues in turn.
  std::optional<uint32_t> queue{};
};

// The runtime of one device: its memory, its streams, what is in flight. Ref-counted; Streams and
// Maps keep it alive, Allocations and work in flight do not. Thread-safe.
//
// Dropping the last Ref, calling close(), or leaving main closes the Context. Closing stops the
// reaper, abandons what was not submitted, lets work in flight finish up to
// Options::shutdown_bound, and reports what it had to leave (log topic shutdown). From then on
// every call except stats, who_holds_what and wait raises ClosedError, and drops call no driver. A
// thread that outlives main and does not catch that error is ended alone (sync::at_exit). In a
// forked child every call raises UsageError and drops do nothing.
class Context final : public RefCounted {
 public:
  // Takes over the device: one device serves one Context, and the Context closes it.
  // EnvironmentError if an environment variable cannot be read.
  static Ref<Context> create(Ref<hal::Device> device,
                             Options options = Options::from_environment());
  ~Context() override;

  const Ref<hal::Device>& device() const noexcept { return device_; }
  // UsageError for a queue that the device does not have.
  Ref<Stream> new_stream(StreamOptions options = {});
  // Raises the device's failure.
  Ref<hal::Pipeline> create_pipeline(hal::PipelineDesc desc);

  // Memory whose first user is not known yet; see Stream::allocate.
  Ref<hal::Allocation> allocate(Bytes size, std::string name = {},
                                hal::MemoryKind kind = hal::MemoryKind::device,
                                const std::source_location& site = std::source_location::current());
  // The device uses the caller's memory in place. The deleter runs once: when nothing can touch the
  // memory any more, or when the import is refused.
  Ref<hal::Allocation> import(hal::ExternalMemory memory);
  // Others use the memory, unseen by the runtime, until the Point is resolved: one of this device,
  // of the host, imported, or of a native stream (hal::Device::point_of_native). Whatever conflicts
  // with their access waits for the Point on the device, the range is not given out again before
  // it, and the deleter of an import runs after it. What they failed to write is bad. Never waits.
  // UsageError for a Point of another device.
  void add_outside_access(const Ref<hal::Allocation>& allocation, hal::Access access,
                          const hal::Point& point);
  // What is put on the native stream from now on runs once the memory's content is there: submits
  // the lists that write it, and makes the stream wait for them on the device. Never waits for the
  // device. Raises the failure that left bytes bad; UsageError if a writer waits for the host;
  // UnsupportedError for a device without native streams.
  void make_native_wait(void* native_stream, const Ref<hal::Allocation>& written);
  // Points that the host signals.
  Ref<hal::HostTimeline> new_host_timeline(std::string name);

  // Waits for one Point, of this device or any other. Returns when it is reached; raises its
  // failure, even if its device is gone.
  void wait(const hal::Point& point, const WaitLimit& limit = {});
  // Submits what every stream has recorded and waits for all of it, including work of streams that
  // are gone. Raises the first failure of a living stream's last list.
  void synchronize(const WaitLimit& limit = {});

  // Drops the holds of every finished list and returns the number of these lists. Never blocks.
  // Users need not call it: the runtime retires on every submit, wait, readback and slow
  // allocation, and the reaper does when nobody calls.
  size_t retire();
  // Gives free memory back to the device.
  void trim();
  // Zero: the device's own limit. A lower limit takes no memory away; it applies to later requests.
  void set_memory_limit(Bytes limit);
  // How much free memory is kept for later requests, as far as whole blocks can be given back; by
  // default the runtime decides. Takes effect at once.
  void set_cache_limit(Bytes limit);
  // Cheap; any thread.
  RuntimeStats stats() const;
  // For reports: walks everything.
  Snapshot who_holds_what() const;

  // Idempotent.
  hal::CloseReport close();
  bool closed() const noexcept;

  // For the other parts of the runtime.
  Core& core() const noexcept { return *core_; }

 private:
  explicit Context(Ref<hal::Device> device, Options options);
  void check_own(const Ref<hal::Allocation>& allocation, const char* what) const;

  Ref<hal::Device> device_;
  std::shared_ptr<Core> core_;
  std::atomic<uint32_t> streams_made_{0};
};

}  // namespace holdfast::runtime

#pragma GCC visibility pop
