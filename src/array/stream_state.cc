#include "holdfast/array/stream_state.h"

#include <array>

#include "holdfast/array/node.h"
#include "holdfast/base/env.h"
#include "holdfast/runtime/core.h"

namespace holdfast {

std::optional<hal::ThreadStyle> thread_style_from_environment() {
  constexpr std::array<std::string_view, 2> kWords{"strong", "weak"};
  const std::optional<size_t> chosen = env::choice("HOLDFAST_THREADS", kWords);
  if (!chosen) return std::nullopt;
  return *chosen == 0 ? hal::ThreadStyle::few_strong : hal::ThreadStyle::many_weak;
}

std::optional<MatmulBy> matmul_from_environment() {
  constexpr std::array<std::string_view, 2> kWords{"own", "library"};
  const std::optional<size_t> chosen = env::choice("HOLDFAST_MATMUL", kWords);
  if (!chosen) return std::nullopt;
  return *chosen == 0 ? MatmulBy::own : MatmulBy::library;
}

}  // namespace holdfast

namespace holdfast::array {
namespace {

hal::DeviceInfo with_style(hal::DeviceInfo info, std::optional<hal::ThreadStyle> forced) {
  info.thread_style = forced.value_or(info.thread_style);
  return info;
}

}  // namespace

DeviceState::DeviceState(Ref<hal::Device> device, DeviceOptions options)
    : context(runtime::Context::create(std::move(device), options.runtime)),
      kernels(context, std::move(options.kernels)),
      name(context->device()->info().name),
      info(with_style(context->device()->info(), options.thread_style)),
      matmul(options.matmul) {
  set_submit_limits(options.submit);
}

SubmitLimits DeviceState::submit_limits() const noexcept {
  return {max_commands_.load(std::memory_order_relaxed),
          Bytes{max_bytes_.load(std::memory_order_relaxed)},
          sync::Duration(max_ns_.load(std::memory_order_relaxed))};
}

void DeviceState::set_submit_limits(const SubmitLimits& limits) noexcept {
  max_commands_.store(limits.commands, std::memory_order_relaxed);
  max_bytes_.store(limits.bytes.value, std::memory_order_relaxed);
  max_ns_.store(limits.time.count(), std::memory_order_relaxed);
}

void DeviceState::wait_for_claim(const Node& node, const WaitLimit& limit) {
  // Either whoever ends the claim sees this waiter, or this sees the claim ended: one order of all
  // four accesses.
  const auto ended = [&] { return node.state(std::memory_order_seq_cst) != NodeState::claimed; };
  if (ended()) return;
  waiters_.fetch_add(1);
  try {
    context->core().waits().wait_until(
        [&](sync::Deadline deadline) {
          sync::Lock lock(mutex_);
          return changed_.wait_until(lock, deadline, ended);
        },
        runtime::WaitReason::recording, limit, "another task that records a node");
  } catch (...) {
    waiters_.fetch_sub(1);
    throw;
  }
  waiters_.fetch_sub(1);
}

void DeviceState::claim_ended() noexcept {
  if (waiters_.load(std::memory_order_seq_cst) == 0) return;
  const sync::Lock lock(mutex_);
  changed_.notify_all();
}

StreamState::StreamState(Ref<DeviceState> device, Ref<StreamState> home, std::string name)
    : device_(std::move(device)),
      home_(std::move(home)),
      stream_(device_->context->new_stream({.name = std::move(name)})) {}

bool StreamState::count_recorded(uint32_t commands, Bytes bytes) noexcept {
  // How many commands are recorded between two looks at the clock.
  constexpr uint32_t kClockEvery = 16;
  const SubmitLimits limits = device_->submit_limits();
  // Not increments, which are slow: where several tasks record, a count may be lost.
  const uint32_t before = commands_.load(std::memory_order_relaxed);
  const uint32_t now = before + commands;
  commands_.store(now, std::memory_order_relaxed);
  const uint64_t all = bytes_.load(std::memory_order_relaxed) + bytes.value;
  bytes_.store(all, std::memory_order_relaxed);
  if (now >= limits.commands || all >= limits.bytes.value) {
    start_count();
    return true;
  }
  if (before != 0 && before / kClockEvery == now / kClockEvery) return false;
  const int64_t time = sync::now().time_since_epoch().count();
  if (before != 0 && time - first_ns_.load(std::memory_order_relaxed) < limits.time.count()) {
    return false;
  }
  first_ns_.store(time, std::memory_order_relaxed);
  return before != 0;
}

void StreamState::start_count() noexcept {
  commands_.store(0, std::memory_order_relaxed);
  bytes_.store(0, std::memory_order_relaxed);
}

void StreamState::submit() { stream_->flush(); }

void StreamState::flush() {
  start_count();
  submit();
}

}  // namespace holdfast::array
