#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/bytes.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/hal/buffer.h"
#include "holdfast/hal/cuda/cuda_api.h"
#include "holdfast/hal/cuda/cuda_device.h"
#include "holdfast/hal/cuda/cuda_profiler.h"
#include "holdfast/hal/gpu/gpu_core.h"
#include "holdfast/hal/queue.h"

namespace holdfast::hal {

class CudaCore;

// Something that owns handles of the driver.
class CudaObject : public GpuObject {
 protected:
  explicit CudaObject(const std::shared_ptr<CudaCore>& core);
  ~CudaObject() override;
  const std::shared_ptr<CudaCore>& core() const noexcept { return core_; }

 private:
  std::shared_ptr<CudaCore> core_;
};

// A queue's stream, and the counter that it writes when a list is done.
struct CudaProgress : GpuProgress {
  cu::CUstream stream = nullptr;
  std::atomic<uint64_t>* counter = nullptr;  // in host memory that the device reaches
  cu::CUdeviceptr counter_address = 0;
  cu::CUevent event = nullptr;  // recorded where others are to wait; null: wait for the stream
  bool is_native = false;       // the stream is others', and may be gone
  // Writes the counter where the stream has more to do, which would else wait for the write; made
  // when it is first used.
  cu::CUstream writer = nullptr;
  cu::CUevent written_after = nullptr;  // recorded on `stream`, for `writer` to wait for
  uint64_t last_by_writer = 0;
  // How often the counter was found behind since the driver was last asked how the stream is.
  mutable std::atomic<uint32_t> disappointments{0};

  // What the driver has and is not known to be done with: to name it, should the device be lost.
  // A Work is there until its value is resolved; entries of resolved values are not looked at.
  struct Given {
    uint64_t value = 0;
    const Work* work = nullptr;
  };
  mutable sync::LeafMutex mutex;  // guards given
  std::deque<Given> given HOLDFAST_GUARDED_BY(mutex);
};

// A GPU's primary context and what its queues, buffers and pipelines share. Thread-safe.
class CudaCore final : public GpuCore {
 public:
  static Result<std::shared_ptr<CudaCore>> open(const CudaOptions& options);
  ~CudaCore() override;

  // Makes the context current for a scope, and whatever was so before afterwards. Every call of the
  // driver needs it: where it fails, only what must be tried all the same may be called.
  class Current {
   public:
    explicit Current(const CudaCore& core) noexcept
        : core_(core), result_(core_.cu.cuCtxPushCurrent(core_.context)) {}
    ~Current() {
      cu::CUcontext popped = nullptr;
      if (result_ == cu::CUDA_SUCCESS) core_.cu.cuCtxPopCurrent(&popped);
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    Failure failure() const { return core_.check(result_, "its context cannot be used"); }

   private:
    const CudaCore& core_;
    cu::CUresult result_;
  };

  // Constant after open().
  std::shared_ptr<const CudaApi> api;
  const cu::Calls& cu;
  cu::CUdevice device = 0;
  cu::CUcontext context = nullptr;
  std::string architecture;  // "sm_90"
  bool has_memory_operations = false;
  bool uses_graphs = false;
  Bytes memory_limit;
  Groups max_groups;
  uint32_t max_group_threads = 0;
  uint32_t max_shared_memory = 0;
  uint32_t copy_engines = 0;

  // Of buffers given out; imports are not counted.
  mutable std::atomic<uint64_t> used_bytes{0};

  // Changes whenever memory that the driver knew is about to be freed, or to become unknown to it.
  // An executable graph whose copies or fills were set before must not be launched any more: the
  // driver has looked up their memory, and an address that is given out again is other memory.
  uint64_t memory_generation() const noexcept { return memory_generation_.load(); }

  mutable CudaProfiler profiler;

  // Passes a driver's answer on. None for success. After an answer that says that the device or its
  // context can do nothing any more, and a second one that confirms it, the device is lost.
  Failure check(cu::CUresult result, std::string_view what) const;

  // A new stream with its counter; lives as long as the core. Before the first list is started.
  Result<CudaProgress*> make_progress();
  // A counter that others' stream writes once what it has by now is done, and the value that it
  // then has.
  struct Marked {
    std::shared_ptr<CudaProgress> progress;
    uint64_t value = 0;
  };
  void note_shared_counter() const noexcept { counters_shared_.store(true); }
  static Result<Marked> mark(const std::shared_ptr<CudaCore>& core, cu::CUstream stream,
                             std::string_view what);
  // For others to make wait, with nothing of ours on it; made on first use. With the context
  // current.
  Result<cu::CUstream> shared_stream();
  // Makes a stream, one of ours or a native one, wait for the counter to have this value.
  // Waits between streams are for counters that work already given to the driver will write, so
  // that no order of hardware queues can make them wait for each other.
  Failure make_wait(cu::CUstream stream, const CudaProgress& progress, uint64_t value,
                    std::string_view what) const;
  // The stream writes the counter, after what it has by now.
  Failure write_counter(cu::CUstream stream, const CudaProgress& progress, uint64_t value) const;
  // The same for one of ours, whose next list need not wait for the write: another stream writes.
  // Until the counter has this value, later ones must be written in the same way.
  Failure write_counter_aside(CudaProgress& progress, uint64_t value) const;
  // Until the driver has done all that it has of a stream of ours and its counter.
  cu::CUresult synchronize(const CudaProgress& progress) const;

  // Memory, with the context current. Device memory is neither allocated nor freed by waiting for
  // work of a queue. Pinned memory that is freed while lists are in flight is kept for later
  // buffers of its size, or until nothing is, since the driver waits for all work to free it; there
  // is a bound to what is kept.
  struct Memory {
    cu::CUdeviceptr address = 0;
    std::byte* host = nullptr;  // null where the host cannot reach it
    Bytes size{};
    bool registered = false;  // an import that is known to the driver because of us
  };
  Result<Memory> allocate(Bytes size, MemoryKind kind, std::string_view what);
  void free(const Memory& memory) noexcept;
  // Of an import that ends: what it was made from may go.
  void forget_import() noexcept { memory_generation_.fetch_add(1); }
  // Memory of this GPU, for the device to use where it is; there is nothing to end.
  Result<Memory> import_address(cu::CUdeviceptr address, Bytes size, std::string_view what) const;

  bool sleep(const GpuProgress& progress, uint64_t value, sync::Duration timeout) const override;

 protected:
  std::optional<uint64_t> read(const GpuProgress& progress) const noexcept override;
  bool others_are_done() const noexcept override;
  void begin_closing() noexcept override;
  void finish_closing() noexcept override;

 private:
  explicit CudaCore(std::shared_ptr<const CudaApi> driver);
  Failure choose(const CudaOptions& options);
  Failure prepare(const CudaOptions& options);
  // Asks the driver whether the stream still works.
  void examine(const CudaProgress& progress) const noexcept;
  std::string suspects() const;
  Failure lose_by(cu::CUresult result) const;
  Result<Memory> allocate_device(Bytes size, std::string_view what);
  Result<Memory> allocate_pinned(Bytes size, std::string_view what);
  // Frees it if nothing is in flight, and what is beyond `most` in any case.
  void free_kept_pinned(Bytes most) noexcept;
  void forget_mark(const CudaProgress& progress) noexcept;

  std::atomic<uint64_t> memory_generation_{0};
  bool retained_ = false;
  cu::CUstream memory_stream_ = nullptr;
  std::atomic<cu::CUstream> shared_stream_{nullptr};
  cu::CUmemoryPool pool_ = nullptr;
  std::vector<std::unique_ptr<CudaProgress>> streams_;
  // A counter that streams write, in a cache line of its own. The next user goes on counting where
  // the last one stopped.
  struct Counter {
    std::atomic<uint64_t>* host = nullptr;
    cu::CUdeviceptr address = 0;
    uint64_t last = 0;  // what was or will be written
  };
  Result<Counter> take_counter();
  void give_counter(const Counter& counter) noexcept;

  // An event to record and to wait for. It may be given back as soon as a stream was told to wait
  // for it: recording it again changes nothing for that stream.
  Result<cu::CUevent> take_event(std::string_view what) const;
  void give_event(cu::CUevent event) const noexcept;

  // Native streams' marks that are not known to be reached, each with the value it will have.
  mutable sync::LeafMutex marks_mutex_;  // guards marks_
  std::vector<const CudaProgress*> marks_ HOLDFAST_GUARDED_BY(marks_mutex_);
  // Whether a native stream was ever told of a counter: it may then be used whatever we know.
  mutable std::atomic<bool> counters_shared_{false};

  mutable sync::Mutex events_mutex_;  // guards spare_events_
  mutable std::vector<cu::CUevent> spare_events_ HOLDFAST_GUARDED_BY(events_mutex_);
  sync::Mutex counters_mutex_;  // guards the three below
  std::vector<Memory> counter_blocks_ HOLDFAST_GUARDED_BY(counters_mutex_);
  size_t counters_cut_ HOLDFAST_GUARDED_BY(counters_mutex_) = 0;  // of the last block
  std::deque<Counter> spare_counters_ HOLDFAST_GUARDED_BY(counters_mutex_);

  // Held while what ended the device is put into words.
  mutable sync::Mutex loss_mutex_{sync::LockOrder::loss};
  sync::LeafMutex pinned_mutex_;  // guards kept_pinned_
  std::vector<Memory> kept_pinned_ HOLDFAST_GUARDED_BY(pinned_mutex_);
};

// A GPU as the driver lists it.
struct CudaCandidate {
  cu::CUdevice device = 0;
  std::string name;         // "NVIDIA H200"
  std::string description;  // for people
  std::string skipped;      // why it cannot be used; empty: it can
};
Result<std::vector<CudaCandidate>> cuda_candidates(const CudaApi& api);

}  // namespace holdfast::hal
