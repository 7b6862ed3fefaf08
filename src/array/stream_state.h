#pragma once

#include <atomic>
#include <string>

#include "holdfast/base/sync/condition.h"
#include "holdfast/device.h"
#include "holdfast/kernel/launch.h"
#include "holdfast/runtime/stream.h"

namespace holdfast::array {

class Node;

// What all streams of a device share.
class DeviceState final : public RefCounted {
 public:
  DeviceState(Ref<hal::Device> device, DeviceOptions options);

  const Ref<runtime::Context> context;
  kernel::KernelRuntime kernels;
  std::string name;
  const hal::DeviceInfo info;  // the device's, with the thread style that the options force
  const std::optional<MatmulBy> matmul;

  // Counted by evaluations.
  std::atomic<uint64_t> nodes_recorded{0};
  std::atomic<uint64_t> nodes_failed{0};
  std::atomic<uint64_t> donated{0};
  std::atomic<uint64_t> hidden_copies{0};
  std::atomic<uint64_t> early_submits{0};
  // And by compiled functions.
  std::atomic<uint64_t> functions_traced{0};
  std::atomic<uint64_t> replays{0};
  std::atomic<uint64_t> calls_not_compiled{0};

  SubmitLimits submit_limits() const noexcept;
  void set_submit_limits(const SubmitLimits& limits) noexcept;

  // Until the node is claimed by nobody. Accounted; the caller holds no claim.
  void wait_for_claim(const Node& node, const WaitLimit& limit);
  // Whoever ends a claim calls it.
  void claim_ended() noexcept;

 private:
  std::atomic<uint32_t> max_commands_;
  std::atomic<uint64_t> max_bytes_;
  std::atomic<int64_t> max_ns_;
  std::atomic<uint32_t> waiters_{0};
  sync::Mutex mutex_;  // with changed_: for those who wait for a claim
  sync::Condition changed_;
};

// A stream as nodes know it. All other streams of a device keep its default one, through which a
// Device is found.
class StreamState final : public RefCounted {
 public:
  // `home` null: this is the default stream.
  StreamState(Ref<DeviceState> device, Ref<StreamState> home, std::string name);

  DeviceState& device() const noexcept { return *device_; }
  const Ref<runtime::Stream>& stream() const noexcept { return stream_; }
  Ref<StreamState> home() noexcept { return home_ ? home_ : Ref<StreamState>(this); }

  // A node was recorded that writes this much; says whether it is time to submit. What it says for
  // the sake of commands and bytes depends on nothing else, so a graph that is evaluated again is
  // cut at the same nodes; a cut for the sake of time comes on top of those and moves none.
  bool count_recorded(uint32_t commands, Bytes bytes) noexcept;
  // Submits what was recorded. Raises what the device refused.
  void submit();
  // The same at the end of an evaluation: the next one is counted from here.
  void flush();

 private:
  void start_count() noexcept;

  Ref<DeviceState> device_;
  Ref<StreamState> home_;
  Ref<runtime::Stream> stream_;
  // Since the last cut for their sake; approximate where several tasks record.
  std::atomic<uint32_t> commands_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<int64_t> first_ns_{0};  // when the first command after the last cut was recorded
};

}  // namespace holdfast::array
