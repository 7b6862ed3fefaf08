#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/base/sync/clock.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/base/sync/process.h"
#include "holdfast/hal/gpu/gpu_outcomes.h"

namespace holdfast::hal {

class GpuCore;

// Something that owns handles of a driver. It gives them back when it goes or, where it outlives
// the device, when that is closed; afterwards it calls no driver.
class GpuObject {
 public:
  GpuObject(const GpuObject&) = delete;
  GpuObject& operator=(const GpuObject&) = delete;

 protected:
  // While the device is open (GpuCore::Use).
  explicit GpuObject(std::shared_ptr<GpuCore> core);
  virtual ~GpuObject();
  // To be called first by the destructor of the class that overrides destroy_native().
  void give_back() noexcept;

 private:
  friend class GpuCore;
  // Called once, while the driver can be called and nothing of the device uses the handles.
  virtual void destroy_native() noexcept = 0;

  std::shared_ptr<GpuCore> owner_;
  // Guarded by the core's registry mutex:
  GpuObject* before_ = nullptr;
  GpuObject* after_ = nullptr;
  bool given_back_ = false;
};

// How far a queue has come; backends add what they count with.
struct GpuProgress {
  std::atomic<uint64_t> started{0};  // the newest value that the driver has
  std::atomic<uint64_t> seen{0};     // the newest value seen reached; fixed once the core has ended
  GpuOutcomes outcomes;              // of values that were started and not seen
};

// What every device has whose lists a driver runs: when the driver may be called, how far the
// queues are, and how the device ends. Outlives the Device object as long as something may still
// call it. Thread-safe.
class GpuCore {
 public:
  virtual ~GpuCore() = default;
  GpuCore(const GpuCore&) = delete;
  GpuCore& operator=(const GpuCore&) = delete;

  // Keeps the driver's device from being destroyed for a scope, so not for long. False once it is
  // closed, and in a forked child: then nothing may be called.
  class Use {
   public:
    explicit Use(const GpuCore& core) noexcept : core_(core), open_(core.enter()) {}
    ~Use() {
      if (open_) core_.leave();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    explicit operator bool() const noexcept { return open_; }

   private:
    const GpuCore& core_;
    bool open_;
  };

  std::string name;         // "vulkan:0"; constant once it is open
  std::string description;  // for people

  // How a device ends. First it is stopped, being lost or closed: no list is started any more. Then
  // what the driver has comes to its end. Then the device has ended, for all its queues in one
  // moment: every value that was not seen by then fails with the cause of the stop.

  // The first cause stays.
  void stop(Failure cause) const;
  bool stopped() const noexcept { return stopped_.load(); }
  // None while it is not stopped.
  Failure stop_cause() const;
  // The driver says that the device is lost: nothing runs any more. Returns the cause of the stop.
  Failure lose(const Failure& cause) const;
  bool is_dead() const noexcept { return dead_.load(); }

  // To start a list is a right that is held while a list that was or will be accepted is looked at,
  // translated and submitted: while somebody has it, the device cannot end.
  class Start {
   public:
    explicit Start(const GpuCore& core) noexcept : core_(core) {
      core_.starting_.fetch_add(1);
      allowed_ = !core_.stopped();
    }
    ~Start() { core_.starting_.fetch_sub(1); }
    Start(const Start&) = delete;
    Start& operator=(const Start&) = delete;
    // False: the device is stopped, and nothing may be started.
    explicit operator bool() const noexcept { return allowed_; }

   private:
    const GpuCore& core_;
    bool allowed_ = false;
  };
  // Whether the device has ended, or does so now. One load while it works. In a forked child it
  // has.
  bool try_end() const noexcept;
  // Once it has.
  Failure end_cause() const;
  // The queue's value as far as it can be known; notes it as seen. How lists ended that report it
  // themselves is known before.
  uint64_t look(GpuProgress& progress) const noexcept;
  // See GpuOutcomes.
  void expect(GpuProgress& progress, uint64_t value, GpuOutcomes::Read read) const;
  void withdraw(GpuProgress& progress, uint64_t value) const;
  bool is_open(const GpuProgress& progress, uint64_t value) const;
  // Whether every list that the driver was given has ended, as far as is known without asking it.
  bool seems_idle() const noexcept;

  // Returns once the queue may have got to the value, and after the timeout at the latest. False:
  // it cannot be waited for.
  virtual bool sleep(const GpuProgress& progress, uint64_t value, sync::Duration timeout) const = 0;

  // Destroys every handle and the device, once it has ended; waits for callers that are inside.
  void close() noexcept;
  // Something runs on and may touch memory: no handle is destroyed any more.
  void abandon() noexcept { abandoned_.store(true); }

 protected:
  GpuCore() = default;
  // The value that the device has written; none where the driver cannot tell. Called within Use.
  virtual std::optional<uint64_t> read(const GpuProgress& progress) const noexcept = 0;
  // Whether whatever else counts on the device, besides its queues, is done.
  virtual bool others_are_done() const noexcept { return true; }
  // The two parts of closing: before objects give their handles back, and after; both while
  // nobody else is inside.
  virtual void begin_closing() noexcept {}
  virtual void finish_closing() noexcept = 0;
  // Before the first list is started; it lives as long as the core.
  void add_progress(GpuProgress& progress) { progress_.push_back(&progress); }
  bool forked() const noexcept { return fork_generation_ != sync::fork_generation(); }

 private:
  friend class GpuObject;
  bool enter() const noexcept;
  void leave() const noexcept { inside_.fetch_sub(2, std::memory_order_release); }

  mutable std::atomic<uint64_t> inside_{0};  // callers, times two; plus one once closed
  mutable std::atomic<bool> stopped_{false};
  mutable std::atomic<bool> dead_{false};  // the driver says that it is lost: nothing runs any more
  mutable std::atomic<uint32_t> starting_{0};
  mutable std::atomic<bool> ended_{false};
  std::atomic<bool> abandoned_{false};
  uint32_t fork_generation_ = sync::fork_generation();
  std::vector<GpuProgress*> progress_;

  // Guards stop_cause_, the change of ended_ and of seen, and the outcomes of all queues.
  mutable sync::LeafMutex stop_mutex_;
  mutable Failure stop_cause_ HOLDFAST_GUARDED_BY(stop_mutex_);  // set before stopped_

  sync::LeafMutex
      registry_mutex_;  // guards objects_, the links of each, and that the device exists
  GpuObject* objects_ HOLDFAST_GUARDED_BY(registry_mutex_) = nullptr;
};

}  // namespace holdfast::hal
