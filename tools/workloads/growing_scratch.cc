#include "workloads/growing_scratch.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "holdfast/base/error.h"
#include "holdfast/base/rounding.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/hal/cuda/cuda_device.h"
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
  // The kernel stores whole words at both ends.
  const Bytes needed = largest * step / kLaunchesPerProblem;
  return std::max(4_KiB, Bytes{round_up<uint64_t>(needed.value, 8)});
}

uint64_t expected_result(uint64_t launch, Bytes scratch) { return launch * 3 + scratch.value; }

// --- The kernels
// ----------------------------------------------------------------------------------

// `launch` has metadata, scratch and a result of its own, and takes this long. Both ends of the
// heap are written before the work and read after it: a heap that somebody else got meanwhile
// shows. `next_stage` adds the result of a launch to a total.

void busy_for(sync::Duration duration) {
  if (duration <= sync::Duration::zero()) return;
  const sync::TimePoint end = sync::now() + duration;
  while (sync::now() < end) {
  }
}

void launch_on_host(const hal::HostGroup& g) {
  const Metadata metadata = g.binding<const Metadata>(0)[0];
  const auto scratch = g.bindings[1].first(metadata.scratch_bytes);
  const uint64_t low = metadata.launch;
  const uint64_t high = metadata.launch * 2;
  std::memcpy(scratch.data(), &low, sizeof low);
  std::memcpy(scratch.data() + scratch.size() - sizeof high, &high, sizeof high);
  busy_for(std::chrono::nanoseconds(g.parameter<uint64_t>()));
  uint64_t low_after = 0;
  uint64_t high_after = 0;
  std::memcpy(&low_after, scratch.data(), sizeof low_after);
  std::memcpy(&high_after, scratch.data() + scratch.size() - sizeof high_after, sizeof high_after);
  g.binding<uint64_t>(2)[0] = low_after + high_after + metadata.scratch_bytes;
}

void next_stage_on_host(const hal::HostGroup& g) {
  g.binding<uint64_t>(1)[0] += g.binding<uint64_t>(0)[0];
}

constexpr std::string_view kPtx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry growing_scratch_launch(.param .u64 metadata, .param .u64 scratch, .param .u64 out,
                                       .param .u64 nanoseconds)
{
	.reg .pred %p<2>;
	.reg .b64 %rd<20>;
	ld.param.u64 %rd1, [metadata];
	ld.param.u64 %rd2, [scratch];
	ld.param.u64 %rd3, [out];
	ld.param.u64 %rd4, [nanoseconds];
	cvta.to.global.u64 %rd1, %rd1;
	cvta.to.global.u64 %rd2, %rd2;
	cvta.to.global.u64 %rd3, %rd3;
	ld.volatile.global.u64 %rd5, [%rd1];
	ld.volatile.global.u64 %rd6, [%rd1+8];
	add.s64 %rd7, %rd2, %rd6;
	shl.b64 %rd8, %rd5, 1;
	st.volatile.global.u64 [%rd2], %rd5;
	st.volatile.global.u64 [%rd7+-8], %rd8;
	mov.u64 %rd9, %globaltimer;
BUSY:
	mov.u64 %rd10, %globaltimer;
	sub.s64 %rd11, %rd10, %rd9;
	setp.lt.u64 %p1, %rd11, %rd4;
	@%p1 bra BUSY;
	ld.volatile.global.u64 %rd12, [%rd2];
	ld.volatile.global.u64 %rd13, [%rd7+-8];
	add.s64 %rd14, %rd12, %rd13;
	add.s64 %rd15, %rd14, %rd6;
	st.global.u64 [%rd3], %rd15;
	ret;
}
.visible .entry growing_scratch_next_stage(.param .u64 result, .param .u64 total)
{
	.reg .b64 %rd<6>;
	ld.param.u64 %rd1, [result];
	ld.param.u64 %rd2, [total];
	cvta.to.global.u64 %rd1, %rd1;
	cvta.to.global.u64 %rd2, %rd2;
	ld.global.u64 %rd3, [%rd1];
	ld.global.u64 %rd4, [%rd2];
	add.s64 %rd5, %rd3, %rd4;
	st.global.u64 [%rd2], %rd5;
	ret;
}
)";

hal::CudaModule cuda_module(std::string entry_point) {
  hal::CudaModule module;
  const auto text = std::as_bytes(std::span(kPtx));
  module.code.assign(text.begin(), text.end());
  module.entry_point = std::move(entry_point);
  module.threads = {1, 1, 1};
  return module;
}

struct Kernels {
  Ref<hal::Pipeline> launch;
  Ref<hal::Pipeline> next_stage;
};

Kernels make_kernels(runtime::Context& context) {
  const bool cuda = context.device()->info().module_form == hal::ModuleForm::cuda;
  const auto make = [&](const char* name, hal::HostFunction on_host, uint32_t bindings,
                        Bytes parameters) {
    if (!cuda) return context.create_pipeline({name, std::move(on_host), bindings, parameters});
    return context.create_pipeline(
        {name, cuda_module(std::string("growing_scratch_") + name), bindings, parameters});
  };
  return {make("launch", launch_on_host, 3, 8_B), make("next_stage", next_stage_on_host, 2, {})};
}

Ref<hal::Device> open(const std::string& device) {
  if (device == "cpu") return hal::CpuDevice::open({.queues = 2});
  if (device == "cuda") return hal::CudaDevice::open({.queues = 2}).or_raise();
  throw UsageError("workload 4 runs on cpu and cuda, and not on '" + device + "'");
}

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
  const auto context = runtime::Context::create(open(options.device));
  const auto launches = context->new_stream({"launches", 0});
  const auto stages = context->new_stream({"next stage", 1});
  const Kernels kernels = make_kernels(*context);
  const auto nanoseconds = static_cast<uint64_t>(options.kernel_time.count());
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
        kernels.launch,
        std::array{Binding::of(metadata, Access::read), Binding::of(scratch, Access::read_write),
                   Binding::of(out, Access::write)},
        hal::Parameters::of(nanoseconds), {1, 1, 1});
    launches->flush();
    // Binding the result makes the next stage wait for the launch, on the device.
    stages->dispatch(
        kernels.next_stage,
        std::array{Binding::of(out, Access::read), Binding::of(total, Access::read_write)}, {},
        {1, 1, 1});
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

sync::Duration host_cost_of_a_launch(const std::string& device) {
  GrowingScratch idle;
  idle.device = device;
  idle.launches = 20'000;
  run(idle);  // warm caches, clocks and the allocator of the process
  return sync::Duration(static_cast<int64_t>(run(idle).host_ns_per_launch()));
}

}  // namespace holdfast::workloads
