#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "holdfast/hal/device_info.h"
#include "holdfast/hal/host_timeline.h"
#include "holdfast/hal/kernel_profile.h"
#include "holdfast/hal/program.h"
#include "holdfast/hal/queue.h"

#pragma GCC visibility push(default)

namespace holdfast::hal {

class MatrixProducts;

struct BufferDesc {
  Bytes size{};
  MemoryKind kind = MemoryKind::device;
  std::string name{};
};

// Memory of others for the device to use in place. The deleter runs once: after the last list that
// could touch the memory is over, or when the import is refused. It runs outside every lock, on any
// thread. What it throws is logged as a warning of topic memory and goes no further.
struct ExternalMemory {
  void* data = nullptr;  // of the host or, with `on_device`, an address of the device's own
  Bytes size{};
  std::function<void()> deleter{};
  std::string name{};
  bool on_device = false;  // such as a CUdeviceptr; others may go on using it
};

// What a device had to leave behind when it was closed.
struct CloseReport {
  uint32_t lists_left = 0;
  std::string details;  // empty when nothing was left
  bool clean() const noexcept { return lists_left == 0; }
  // Adds every list of the queue that is not retired.
  void add_left(const Queue& queue);
};

// A GPU, or the host CPU. It takes finished modules and recorded lists; it never decides lifetime.
// Thread-safe. Failures are values.
//
// A device is not kept alive by its own work: dropping the last Ref closes it. Queues, Buffers,
// Pipelines and Points may outlive it as objects; they then answer with a failure, and dropping
// them calls no driver.
class Device : public RefCounted {
 public:
  const DeviceInfo& info() const noexcept { return info_; }
  DeviceId id() const noexcept { return info_.id; }
  // Constant. First the info().queues queues that take everything, then the info().copy_queues.
  std::span<const Ref<Queue>> queues() const noexcept { return queues_; }

  // Slow (a driver call): suballocate. Zero-sized buffers are refused.
  virtual Result<Ref<Buffer>> create_buffer(const BufferDesc& desc) = 0;
  virtual Result<Ref<Buffer>> import_buffer(ExternalMemory memory) = 0;
  virtual Result<Ref<Pipeline>> create_pipeline(PipelineDesc desc) = 0;
  // Consumes the list on success only.
  virtual Result<Ref<Program>> create_program(CommandList& list) = 0;

  // A timeline that the host signals, to make lists wait for something that is not a list.
  virtual Result<Ref<HostTimeline>> create_host_timeline(std::string name);
  // A file descriptor that becomes readable once the Point is resolved: for poll loops and other
  // processes.
  virtual Result<UniqueFd> export_point(const Point& point);
  // A Point that is reached once the descriptor is readable.
  virtual Result<Point> import_point(UniqueFd descriptor, std::string name);

  // Order with others who use the same hardware through the backend's own streams (a CUstream), on
  // the device and never through the host. Unsupported by backends that have no such streams.
  //
  // A Point that is reached once all work which the native stream has by now is done. Any number
  // of lists may wait for it; the stream may be destroyed meanwhile.
  virtual Result<Point> point_of_native(void* native_stream, std::string name);
  // What is put on the native stream from now on runs once the Point, of a list that was submitted
  // to this device and does not wait for the host, is reached. A failure if the Point has failed,
  // or is known to fail.
  virtual Failure make_native_wait(void* native_stream, const Point& point);
  // A native stream of this device that none of its lists run on, the same for every caller: others
  // who must be told for whom to order their work put the wait there, and point_of_native then
  // makes a Point of it. The device's own; valid while it is open.
  virtual Result<void*> native_stream();

  // The probe that is told of lives on this device; null unless the device wraps another.
  virtual Ref<Probe> probe() const { return nullptr; }

  // Measures how long kernels run; null if the device cannot.
  virtual KernelProfile* profile() const { return nullptr; }

  // The device's library of matrix products, loaded by the first call; null where there is none.
  // Lives as long as the device.
  virtual MatrixProducts* matrix_products() { return nullptr; }

  // None while the device works; otherwise why it is lost or closed.
  virtual Failure lost() const = 0;
  // Refuses new work, lets lists in flight finish until the deadline, then fails what is pending
  // and reports what could not be stopped. Drops holds once the device can touch nothing of theirs
  // any more; what it may still touch is left alive for good. Idempotent; the destructor calls it
  // with its own time limit. Dropped objects may close the device again, and may own the last Ref
  // to it: such a call returns at once, with a report that says so.
  virtual CloseReport close(sync::Deadline deadline) = 0;

 protected:
  explicit Device(DeviceInfo info) : info_(std::move(info)) {}
  void set_queues(std::vector<Ref<Queue>> queues) { queues_ = std::move(queues); }

 private:
  DeviceInfo info_;
  std::vector<Ref<Queue>> queues_;
};

}  // namespace holdfast::hal

#pragma GCC visibility pop
