#include "holdfast/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "holdfast/array/stream_state.h"
#include "holdfast/base/env.h"
#include "holdfast/base/leave_alive.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/base/sync/process.h"
#include "holdfast/hal/devices.h"
#include "holdfast/kernel/targets/target.h"
#include "holdfast/stream.h"

namespace holdfast {
namespace {

struct Registry {
  std::map<std::string, Device, std::less<>> open;
  std::optional<Device> chosen;  // by set_default_device
  std::string best;              // what default_device() names; empty until it is asked for
};
using Guard = sync::Guarded<Registry>;

// Of this process: a forked child starts with none of its parent's devices, which are of no use to
// it, and whose lock another thread may have had. Never destroyed, since statics of others may use
// it at exit; contexts close themselves then.
Guard& registry() {
  struct Current {
    uint32_t generation;
    std::shared_ptr<Guard> guard;
  };
  static constinit std::atomic<const Current*> current{nullptr};
  const Current* found = current.load(std::memory_order_acquire);
  while (found == nullptr || found->generation != sync::fork_generation()) {
    auto made =
        std::make_shared<Current>(Current{sync::fork_generation(), std::make_shared<Guard>()});
    if (current.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) {
      found = made.get();
      leave_alive(std::move(made));
    }
  }
  return *found->guard;
}

struct GpuKind {
  std::string_view name;
  hal::ModuleForm form;
};
// The best first.
constexpr std::array kGpus{GpuKind{"cuda", hal::ModuleForm::cuda},
                           GpuKind{"vulkan", hal::ModuleForm::spirv}};

// Whether the system has a GPU that Vulkan may drive: its loader brings all drivers in, software
// ones too, which takes longer than most programs that need none.
bool may_have_gpu() {
  std::error_code none;
  if (std::filesystem::exists("/dev/nvidiactl", none)) return true;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/dri", none)) {
    if (entry.path().filename().string().starts_with("renderD")) return true;
  }
  return false;
}

// The first GPU whose kernels can be compiled here, else the CPU.
std::string find_best() {
  for (const GpuKind& kind : kGpus) {
    if (kind.form == hal::ModuleForm::spirv && !may_have_gpu()) continue;
    for (const DeviceListing& listing : hal::list_devices(kind.name)) {
      if (!listing.missing.empty() || !listing.is_gpu) continue;
      if (!kernel::why_no_bodies(kind.form)) return listing.name;
    }
  }
  return "cpu";
}

// Opens with no lock held; whoever comes first stays. A device that was opened by another of its
// names ("cuda", "cuda:0") is that one.
Device find_or_open(std::string_view name) {
  {
    const auto open = registry().lock();
    const auto found = open->open.find(name);
    if (found != open->open.end()) return found->second;
  }
  const Device made = open_device(name);  // goes with no lock held
  const auto open = registry().lock();
  const auto same = std::ranges::find_if(
      open->open, [&](const auto& opened) { return opened.second.name() == made.name(); });
  const Device& kept = same != open->open.end() ? same->second : made;
  return open->open.try_emplace(std::string(name), kept).first->second;
}

}  // namespace

Device::Device(Ref<hal::Device> device, DeviceOptions options)
    : home_(make_ref<array::StreamState>(
          make_ref<array::DeviceState>(std::move(device), std::move(options)),
          Ref<array::StreamState>(), "default")) {}

const std::string& Device::name() const noexcept { return home_->device().name; }
const std::string& Device::description() const noexcept {
  return context()->device()->info().description;
}

Stream Device::default_stream() const { return Stream(home_); }
Stream Device::new_stream(std::string name) const {
  return Stream(make_ref<array::StreamState>(Ref<array::DeviceState>(&home_->device()), home_.ref(),
                                             std::move(name)));
}

void Device::synchronize(const WaitLimit& limit) const { context()->synchronize(limit); }
void Device::set_memory_limit(Bytes limit) const { context()->set_memory_limit(limit); }
void Device::set_cache_limit(Bytes limit) const { context()->set_cache_limit(limit); }
void Device::clear_cache() const { context()->trim(); }
void Device::set_submit_limits(const SubmitLimits& limits) const {
  home_->device().set_submit_limits(limits);
}

Stats Device::stats() const {
  const array::DeviceState& state = home_->device();
  Stats stats;
  stats.runtime = state.context->stats();
  stats.kernels = kernels().stats();
  stats.nodes_recorded = state.nodes_recorded.load(std::memory_order_relaxed);
  stats.nodes_failed = state.nodes_failed.load(std::memory_order_relaxed);
  stats.donated = state.donated.load(std::memory_order_relaxed);
  stats.hidden_copies = state.hidden_copies.load(std::memory_order_relaxed);
  stats.early_submits = state.early_submits.load(std::memory_order_relaxed);
  stats.functions_traced = state.functions_traced.load(std::memory_order_relaxed);
  stats.replays = state.replays.load(std::memory_order_relaxed);
  stats.calls_not_compiled = state.calls_not_compiled.load(std::memory_order_relaxed);
  return stats;
}

void Device::set_profiling(bool on) const {
  hal::KernelProfile* const profile = context()->device()->profile();
  if (profile == nullptr) {
    throw UnsupportedError(fmt::format("device '{}' cannot tell how long kernels run", name()));
  }
  profile->enable(on);
}

std::vector<KernelTime> Device::kernel_times() const {
  const hal::KernelProfile* const profile = context()->device()->profile();
  return profile != nullptr ? profile->times() : std::vector<KernelTime>();
}

void Device::clear_kernels() const { kernels().clear(); }
void Device::set_kernel_limits(KernelLimits limits) const { kernels().set_limits(limits); }

const Ref<runtime::Context>& Device::context() const noexcept { return home_->device().context; }
kernel::KernelRuntime& Device::kernels() const noexcept { return home_->device().kernels; }

bool operator==(const Device& a, const Device& b) noexcept {
  return &a.home_->device() == &b.home_->device();
}

Device device(std::string_view name) { return find_or_open(name); }

Device open_device(std::string_view name, DeviceOptions options) {
  return Device(hal::open_device(name).or_raise(), std::move(options));
}

Device default_device() {
  const auto named = env::text("HOLDFAST_DEVICE");
  std::string name;
  {
    const auto open = registry().lock();
    if (open->chosen) return *open->chosen;
    name = named.value_or(open->best);
  }
  if (name.empty()) {
    name = find_best();  // with no lock held
    registry().lock()->best = name;
  }
  return find_or_open(name);
}

void set_default_device(const Device& device) {
  std::vector<Device> before;  // dropped with no lock held
  const auto open = registry().lock();
  if (open->chosen) before.push_back(*open->chosen);
  open->chosen = device;
}

std::vector<DeviceListing> devices() {
  std::vector<DeviceListing> all = hal::list_devices();
  for (const GpuKind& kind : kGpus) {
    Failure no_bodies;
    for (DeviceListing& listing : all) {
      if (!listing.name.starts_with(kind.name) || !listing.missing.empty()) continue;
      if (!no_bodies) no_bodies = kernel::why_no_bodies(kind.form);
      if (!no_bodies) break;
      listing.description +=
          fmt::format("; no kernel can be compiled for it: {}", no_bodies.message());
    }
  }
  return all;
}

void set_memory_limit(Bytes limit) { default_device().set_memory_limit(limit); }
void set_cache_limit(Bytes limit) { default_device().set_cache_limit(limit); }
void clear_cache() { default_device().clear_cache(); }
Bytes active_memory() { return default_device().stats().active_memory(); }
Bytes peak_memory() { return default_device().stats().peak_memory(); }
Bytes cache_memory() { return default_device().stats().cache_memory(); }
Stats stats() { return default_device().stats(); }

}  // namespace holdfast
