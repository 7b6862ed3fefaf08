#include "workloads/growing_scratch.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "holdfast/base/error.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/runtime/stream.h"

namespace holdfast::workloads {
namespace {

using hal::Access;
using hal::Binding;

// Written by the host for each launch, read by the device when it executes.
struct Metadata {
  uint64_t launch = 0;
  uint64_t scratch_bytes = 0;
};

// A prime, so that no policy that counts flushes happens to drain just before the heap grows.
constexpr uint64_t kLaunchesPerProblem = 509;

Bytes scratch_needed(uint64_t launch, Bytes largest) {
  const uint64_t step = launch % kLaunchesPerProblem + 1;
  return std::max(4_KiB, largest * step / kLaunchesPerProblem);
}

uint64_t expected_result(uint64_t launch, Bytes scratch) { return launch * 3 + scratch.value; }

void busy_for(sync::Duration duration) {
  if (duration <= sync::Duration::zero()) return;
  const sync::TimePoint end = sync::now() + duration;
  while (sync::now() < end) {
  }
}

hal::HostFunction launch_kernel(sync::Duration kernel_time) {
  return [kernel_time](const hal::HostGroup& g) {
    const Metadata metadata = g.binding<const Metadata>(0)[0];
    const auto scratch = g.bindings[1].first(metadata.scratch_bytes);
    // Both ends of the heap are written before the work and read after it: a heap that somebody
    // else got meanwhile shows.
    const uint64_t low = metadata.launch;
    const uint64_t high = metadata.launch * 2;
    std::memcpy(scratch.data(), &low, sizeof low);
    std::memcpy(scratch.data() + scratch.size() - sizeof high, &high, sizeof high);
    busy_for(kernel_time);
    uint64_t low_after = 0;
    uint64_t high_after = 0;
    std::memcpy(&low_after, scratch.data(), sizeof low_after);
    std::memcpy(&high_after, scratch.data() + scratch.size() - sizeof high_after,
                sizeof high_after);
    g.binding<uint64_t>(2)[0] = low_after + high_after + metadata.scratch_bytes;
  };
}

void next_stage(const hal::HostGroup& g) { g.binding<uint64_t>(1)[0] += g.binding<uint64_t>(0)[0]; }

class Heap {
 public:
  explicit Heap(runtime::Stream& stream) : stream_(stream) {}

  const Ref<hal::Allocation>& at_least(Bytes required) {
    if (memory_ && memory_->size() >= required) return memory_;
    const Bytes doubled = memory_ ? std::max(required, memory_->size() * 2) : required;
    // The old memory is displaced while submitted launches may use it.
    try {
      memory_ = stream_.allocate(doubled, "scratch heap");
    } catch (const OutOfMemoryError&) {
      memory_ = stream_.allocate(required, "scratch heap");
    }
    return memory_;
  }
  void reset() { memory_.reset(); }

 private:
  runtime::Stream& stream_;
  Ref<hal::Allocation> memory_;
};

}  // namespace

double GrowingScratchResult::host_ns_per_launch() const {
  const double waited = static_cast<double>(stats.wait_time().count());
  return (seconds * 1e9 - waited) / static_cast<double>(launches);
}

uint64_t GrowingScratchResult::unasked_waits() const {
  return stats.wait_count() - stats.waits_for(runtime::WaitReason::readback).count -
         stats.waits_for(runtime::WaitReason::synchronize).count;
}

GrowingScratchResult run(const GrowingScratch& options) {
  const auto context = runtime::Context::create(hal::CpuDevice::open({.queues = 2}));
  const auto launches = context->new_stream({"launches", 0});
  const auto stages = context->new_stream({"next stage", 1});
  const auto kernel =
      context->create_pipeline({"launch", launch_kernel(options.kernel_time), 3, {}});
  const auto stage = context->create_pipeline({"next stage", hal::HostFunction(next_stage), 2, {}});
  const auto total = stages->allocate(8_B, "total");
  stages->fill(Binding::of(total, Access::write), std::byte{});

  Heap heap(*launches);
  GrowingScratchResult result;
  result.launches = options.launches;
  uint64_t expected_total = 0;
  const sync::TimePoint start = sync::now();
  for (uint64_t i = 0; i < options.launches; ++i) {
    if (i % kLaunchesPerProblem == 0) heap.reset();
    const Bytes needed = scratch_needed(i, options.largest_scratch);
    const auto& scratch = heap.at_least(needed);
    const Metadata values{i, needed.value};
    const auto metadata =
        launches->allocate(Bytes{sizeof values}, "metadata", hal::MemoryKind::upload);
    launches->upload(metadata, {}, std::as_bytes(std::span(&values, 1)));
    const auto out = launches->allocate(8_B, "result");
    launches->dispatch(
        kernel,
        std::array{Binding::of(metadata, Access::read), Binding::of(scratch, Access::read_write),
                   Binding::of(out, Access::write)},
        {}, {1, 1, 1});
    launches->flush();
    // Binding the result makes the next stage wait for the launch, on the device.
    stages->dispatch(
        stage, std::array{Binding::of(out, Access::read), Binding::of(total, Access::read_write)},
        {}, {1, 1, 1});
    stages->flush();
    expected_total += expected_result(i, needed);
    if (options.readback_every > 0 && (i + 1) % options.readback_every == 0) {
      uint64_t value = 0;
      launches->readback(out, {}, std::as_writable_bytes(std::span(&value, 1)));
      ++result.checked;
      if (value != expected_result(i, needed)) ++result.wrong;
    }
    if (options.progress && i % 1024 == 0) options.progress(i, context->stats());
  }
  uint64_t value = 0;
  stages->readback(total, {}, std::as_writable_bytes(std::span(&value, 1)));
  result.seconds = static_cast<double>((sync::now() - start).count()) / 1e9;
  ++result.checked;
  if (value != expected_total) ++result.wrong;
  result.stats = context->stats();
  return result;
}

sync::Duration host_cost_of_a_launch() {
  GrowingScratch idle;
  idle.launches = 20'000;
  run(idle);  // warm caches, clocks and the allocator of the process
  return sync::Duration(static_cast<int64_t>(run(idle).host_ns_per_launch()));
}

}  // namespace holdfast::workloads
