#include "holdfast/hal/cuda/cuda_encoder.h"

#include <fmt/format.h>

#include <array>

namespace holdfast::hal {

std::string CudaWork::describe(const Command& command) const {
  return fmt::format(
      "command {} of {}{}", list_.index_of(command), replay_.describe(),
      command.label().empty() ? std::string() : fmt::format(", labelled '{}',", command.label()));
}

namespace {

class Launching {
 public:
  Launching(const CudaCore& core, const CudaWork& work, cu::CUstream stream,
            std::span<const Command* const> skipped)
      : core_(core), cu_(core.cu), work_(work), stream_(stream), skipped_(skipped) {}

  CudaLaunched run() {
    const Command* const only = work_.work().only;
    Failure failure = only != nullptr ? add(*only) : add_all();
    return {std::move(failure), launched_, std::move(timed_)};
  }

 private:
  Failure add_all() {
    for (const Command& command : work_.commands()) {
      if (command.is_mark() || command.kind == CommandKind::barrier) continue;
      if (!skipped_.empty() && skipped_.front() == &command) {
        skipped_ = skipped_.subspan(1);
      } else if (Failure failure = add(command)) {
        return failure;
      }
    }
    return {};
  }

  Failure add(const Command& command) {
    if (command.is_idle()) return {};
    switch (command.kind) {
      case CommandKind::dispatch: return dispatch(command);
      case CommandKind::copy: return copy(command);
      case CommandKind::fill: return fill(command);
      case CommandKind::native: return native(command);
      default: return {};
    }
  }

  Failure refused(cu::CUresult result, const Command& command, std::string_view what) const {
    Failure failure =
        core_.check(result, fmt::format("{}, {}, was refused", what, work_.describe(command)));
    if (failure.code() == ErrorCode::device_lost || !launched_) return failure;
    return Failure(ErrorCode::execution, failure.message());
  }

  Failure dispatch(const Command& command) {
    const CudaWork::Dispatch d = work_.dispatch(command);
    uint64_t* end = words_.data();
    work_.put_arguments(command, d, [&](uint64_t word) { *end++ = word; });
    CudaArguments arguments(words_.data(), d.pipeline.argument_bytes());
    const bool timing = core_.profiler.enabled();
    const cu::CUevent before = timing ? core_.profiler.record(core_, stream_) : nullptr;
    const cu::CUresult result =
        d.pipeline.has_attributes() || d.pipeline.waits_for_grids()
            ? launch_with_attributes(d, arguments)
            : cu_.cuLaunchKernel(d.pipeline.function(), d.groups.x, d.groups.y, d.groups.z,
                                 d.threads.x, d.threads.y, d.threads.z, d.pipeline.shared_memory(),
                                 stream_, nullptr, arguments.extra);
    if (result != cu::CUDA_SUCCESS) {
      if (before != nullptr) core_.profiler.give(before);
      return refused(result, command,
                     fmt::format("kernel '{}' with {} x {} x {} groups of {} x {} x {} threads",
                                 d.pipeline.name(), d.groups.x, d.groups.y, d.groups.z, d.threads.x,
                                 d.threads.y, d.threads.z));
    }
    launched_ = true;
    if (timing) {
      timed_.push_back({d.pipeline.name(), before, core_.profiler.record(core_, stream_)});
    }
    return {};
  }

  cu::CUresult launch_with_attributes(const CudaWork::Dispatch& d, CudaArguments& arguments) const {
    std::array<cu::CUlaunchAttribute, 3> attributes{};
    unsigned count = 0;
    if (d.pipeline.is_cooperative()) {
      attributes[count].id = cu::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
      attributes[count++].value.cooperative = 1;
    }
    if (const Groups cluster = d.pipeline.cluster(); cluster.count() > 1) {
      attributes[count].id = cu::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      attributes[count++].value.clusterDim = {cluster.x, cluster.y, cluster.z};
    }
    // It waits for what the stream has before it, first of all, and may be launched while that
    // ends.
    if (d.pipeline.waits_for_grids()) {
      attributes[count].id = cu::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      attributes[count++].value.programmaticStreamSerializationAllowed = 1;
    }
    cu::CUlaunchConfig config;
    config.gridDimX = d.groups.x;
    config.gridDimY = d.groups.y;
    config.gridDimZ = d.groups.z;
    config.blockDimX = d.threads.x;
    config.blockDimY = d.threads.y;
    config.blockDimZ = d.threads.z;
    config.sharedMemBytes = d.pipeline.shared_memory();
    config.hStream = stream_;
    config.attrs = attributes.data();
    config.numAttrs = count;
    return cu_.cuLaunchKernelEx(&config, d.pipeline.function(), nullptr, arguments.extra);
  }

  Failure copy(const Command& command) {
    const CudaWork::Place from = work_.place(command.bindings()[0]);
    const CudaWork::Place to = work_.place(command.bindings()[1]);
    const cu::CUresult result = cu_.cuMemcpyAsync(to.address, from.address, from.length, stream_);
    if (result != cu::CUDA_SUCCESS) return refused(result, command, "a copy");
    launched_ = true;
    return {};
  }

  Failure fill(const Command& command) {
    const CudaWork::Place to = work_.place(command.bindings()[0]);
    const auto value = std::to_integer<unsigned char>(command.fill_value);
    const cu::CUresult result = cu_.cuMemsetD8Async(to.address, value, to.length, stream_);
    if (result != cu::CUDA_SUCCESS) return refused(result, command, "a fill");
    launched_ = true;
    return {};
  }

  Failure native(const Command& command) {
    std::array<NativeBinding, kMaxBindings> bindings;
    size_t count = 0;
    for (const BoundRange& bound : command.bindings()) {
      const CudaWork::Place at = work_.place(bound);
      bindings[count++] = {0, 0, at.length, at.address};
    }
    launched_ = true;  // whatever it does before it throws
    std::string why;
    try {
      const Queue::Executing executing(work_.work().queue);
      work_.commands().native_callback(command)({stream_, {}, {bindings.data(), count}});
      return {};
    } catch (const std::exception& error) {
      why = error.what();
    } catch (...) {
      why = "an exception that is no std::exception";
    }
    return Failure(ErrorCode::execution,
                   fmt::format("a native command failed, {}: {}", work_.describe(command), why));
  }

  const CudaCore& core_;
  const cu::Calls& cu_;
  const CudaWork& work_;
  cu::CUstream stream_;
  std::span<const Command* const> skipped_;  // those yet to come
  bool launched_ = false;
  std::vector<CudaProfiler::Timed> timed_;
  std::array<uint64_t, CudaWork::kMaxArgumentWords> words_;
};

}  // namespace

CudaLaunched launch(const CudaCore& core, const CudaWork& work, cu::CUstream stream,
                    std::span<const Command* const> skipped) {
  return Launching(core, work, stream, skipped).run();
}

}  // namespace holdfast::hal
