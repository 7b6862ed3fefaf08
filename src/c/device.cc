#include "holdfast/c/device.h"

#include <fmt/format.h>

#include "holdfast/c/arguments.h"
#include "holdfast/hal/device.h"
#include "holdfast/runtime/context.h"

namespace holdfast::c {
namespace {

DeviceOptions options_of(const hf_device_options* given) {
  DeviceOptions options;
  if (given == nullptr) return options;
  const hf_device_options in = read_struct(given, "hf_device_options");
  if (in.shutdown_bound_ns < 0 || in.submit_time_ns < 0) {
    throw ArgumentError("hf_device_options: a negative time");
  }
  const auto set = [](auto& to, auto value) {
    if (value != 0) to = value;
  };
  const auto set_bytes = [](Bytes& to, uint64_t value) {
    if (value != 0) to = Bytes{value};
  };
  const auto set_time = [](sync::Duration& to, int64_t value) {
    if (value != 0) to = sync::Duration(value);
  };
  set_bytes(options.runtime.memory_limit, in.memory_limit);
  if (in.memory_limit != 0) options.runtime.memory_limit_from_environment = false;
  set_bytes(options.runtime.deferred_limit, in.deferred_limit);
  set(options.runtime.max_in_flight, in.max_in_flight);
  set_time(options.runtime.shutdown_bound, in.shutdown_bound_ns);
  set(options.kernels.limits.variants, size_t{in.kernel_variants});
  set_bytes(options.kernels.limits.bytes, in.kernel_bytes);
  set(options.submit.commands, in.submit_commands);
  set_bytes(options.submit.bytes, in.submit_bytes);
  set_time(options.submit.time, in.submit_time_ns);
  return options;
}

uint64_t in_ns(sync::Duration time) { return static_cast<uint64_t>(time.count()); }

hf_stats stats_of(const Stats& from) {
  const RuntimeStats& runtime = from.runtime;
  const MemoryStats& memory = runtime.memory;
  const KernelStats& kernels = from.kernels;
  hf_stats to{};
  to.memory_live = memory.live.value;
  to.memory_live_peak = memory.live_peak.value;
  to.memory_deferred = memory.deferred.value;
  to.memory_deferred_peak = memory.deferred_peak.value;
  to.memory_pooled = memory.pooled.value;
  to.memory_reserved = memory.reserved.value;
  to.memory_reserved_peak = memory.reserved_peak.value;
  to.live_objects = memory.live_objects;
  to.deferred_objects = memory.deferred_objects;
  to.waits = runtime.wait_count();
  to.wait_ns = in_ns(runtime.wait_time());
  to.submissions = runtime.submissions;
  to.submissions_in_flight = runtime.submissions_in_flight;
  to.retired = runtime.retired;
  to.commands = runtime.commands;
  to.barriers = runtime.barriers;
  to.failures = runtime.failures;
  to.kernel_hits = kernels.hits;
  to.kernel_misses = kernels.misses;
  to.kernel_disk_hits = kernels.disk_hits;
  to.kernel_compiles = kernels.compiles;
  to.kernel_failures = kernels.failures;
  to.kernel_evictions = kernels.evictions;
  to.kernel_compile_ns = in_ns(kernels.compile_time);
  to.kernel_variants = kernels.variants;
  to.kernel_bytes = kernels.bytes.value;
  to.nodes_recorded = from.nodes_recorded;
  to.nodes_failed = from.nodes_failed;
  to.donated = from.donated;
  to.hidden_copies = from.hidden_copies;
  to.early_submits = from.early_submits;
  return to;
}

template <typename T>
const T& element(const std::vector<T>& list, size_t index) {
  if (index >= list.size()) {
    throw ArgumentError(fmt::format("there is no entry {} in a list of {}", index, list.size()));
  }
  return list[index];
}

static_assert(HF_WAIT_SYNCHRONIZE == static_cast<int>(WaitReason::synchronize));
static_assert(HF_WAIT_RECORDING == static_cast<int>(WaitReason::recording));
static_assert(HF_WAIT_SHUTDOWN == static_cast<int>(WaitReason::shutdown) &&
              HF_WAIT_SHUTDOWN + 1 == static_cast<int>(runtime::kWaitReasons));

}  // namespace
}  // namespace holdfast::c

using namespace holdfast::c;
using holdfast::Bytes;

hf_status hf_device_get(hf_text name, hf_device** device) {
  return give(__func__, device, [&] { return holdfast::device(text_of(name, "name")); });
}

hf_status hf_device_default(hf_device** device) {
  return give(__func__, device, [] { return holdfast::default_device(); });
}

hf_status hf_device_set_default(hf_device* device) {
  return call(__func__, [&] { holdfast::set_default_device(value_of(device, "device")); });
}

hf_status hf_device_open(hf_text name, const hf_device_options* options, hf_device** device) {
  return give(__func__, device,
              [&] { return holdfast::open_device(text_of(name, "name"), options_of(options)); });
}

hf_status hf_device_close(hf_device* device) {
  return call(__func__, [&] { (void)value_of(device, "device").context()->close(); });
}

hf_device* hf_device_retain(hf_device* device) { return retain(__func__, device); }
void hf_device_release(hf_device* device) { release(__func__, device); }

hf_status hf_device_equal(hf_device* a, hf_device* b, int32_t* equal) {
  return call(__func__,
              [&] { needed(equal, "equal") = value_of(a, "a") == value_of(b, "b") ? 1 : 0; });
}

hf_status hf_device_name(hf_device* device, const char** name) {
  return call(__func__, [&] { needed(name, "name") = value_of(device, "device").name().c_str(); });
}

hf_status hf_device_description(hf_device* device, const char** description) {
  return call(__func__, [&] {
    needed(description, "description") = value_of(device, "device").description().c_str();
  });
}

hf_status hf_device_get_info(hf_device* device, hf_device_info* info) {
  return call(__func__, [&] {
    check_struct(info, "hf_device_info");
    const holdfast::DeviceInfo& from = value_of(device, "device").context()->device()->info();
    hf_device_info to{};
    to.memory = from.memory.value;
    to.max_buffer = from.max_buffer.value;
    to.max_group_threads = from.max_group_threads;
    to.queues = from.queues;
    to.host_visible = from.device_memory_host_visible ? 1 : 0;
    to.many_weak_threads = from.thread_style == holdfast::ThreadStyle::many_weak ? 1 : 0;
    write_struct(info, to);
  });
}

hf_status hf_device_synchronize(hf_device* device, hf_timeout timeout) {
  return call(__func__, [&] { value_of(device, "device").synchronize(limit_of(timeout)); });
}

hf_status hf_device_set_memory_limit(hf_device* device, uint64_t bytes) {
  return call(__func__, [&] { value_of(device, "device").set_memory_limit(Bytes{bytes}); });
}

hf_status hf_device_set_cache_limit(hf_device* device, uint64_t bytes) {
  return call(__func__, [&] { value_of(device, "device").set_cache_limit(Bytes{bytes}); });
}

hf_status hf_device_clear_cache(hf_device* device) {
  return call(__func__, [&] { value_of(device, "device").clear_cache(); });
}

hf_status hf_device_set_kernel_limits(hf_device* device, uint64_t variants, uint64_t bytes) {
  return call(__func__, [&] {
    value_of(device, "device").set_kernel_limits({size_t{variants}, Bytes{bytes}});
  });
}

hf_status hf_device_clear_kernels(hf_device* device) {
  return call(__func__, [&] { value_of(device, "device").clear_kernels(); });
}

hf_status hf_device_get_stats(hf_device* device, hf_stats* stats) {
  return call(__func__, [&] {
    check_struct(stats, "hf_stats");
    write_struct(stats, stats_of(value_of(device, "device").stats()));
  });
}

hf_status hf_device_stats_text(hf_device* device, char** text) {
  return give_text(__func__, text,
                   [&] { return holdfast::to_string(value_of(device, "device").stats()); });
}

hf_status hf_device_waits(hf_device* device, hf_wait_reason reason, uint64_t* count,
                          uint64_t* total_ns, uint64_t* longest_ns) {
  return call(__func__, [&] {
    if (reason < 0 || reason > HF_WAIT_SHUTDOWN) raise_code("reason to wait", reason);
    needed(count, "count");
    needed(total_ns, "total_ns");
    needed(longest_ns, "longest_ns");
    const holdfast::WaitStats waits =
        value_of(device, "device")
            .stats()
            .runtime.waits_for(static_cast<holdfast::WaitReason>(reason));
    *count = waits.count;
    *total_ns = in_ns(waits.total);
    *longest_ns = in_ns(waits.longest);
  });
}

hf_status hf_device_set_profiling(hf_device* device, int32_t on) {
  return call(__func__, [&] { value_of(device, "device").set_profiling(on != 0); });
}

hf_status hf_device_kernel_times(hf_device* device, hf_kernel_times** times) {
  return give(__func__, times, [&] { return value_of(device, "device").kernel_times(); });
}

void hf_kernel_times_release(hf_kernel_times* times) { release(__func__, times); }

hf_status hf_kernel_times_size(hf_kernel_times* times, size_t* size) {
  return call(__func__, [&] { needed(size, "size") = value_of(times, "times").size(); });
}

hf_status hf_kernel_times_get(hf_kernel_times* times, size_t index, const char** kernel,
                              uint64_t* launches, uint64_t* total_ns) {
  return call(__func__, [&] {
    const holdfast::KernelTime& time = element(value_of(times, "times"), index);
    needed(kernel, "kernel");
    needed(launches, "launches");
    needed(total_ns, "total_ns");
    *kernel = time.kernel.c_str();
    *launches = time.dispatches;
    *total_ns = in_ns(time.total);
  });
}

hf_status hf_device_list_create(hf_device_list** list) {
  return give(__func__, list, [] { return holdfast::devices(); });
}

void hf_device_list_release(hf_device_list* list) { release(__func__, list); }

hf_status hf_device_list_size(hf_device_list* list, size_t* size) {
  return call(__func__, [&] { needed(size, "size") = value_of(list, "list").size(); });
}

hf_status hf_device_list_get(hf_device_list* list, size_t index, const char** name,
                             const char** description, const char** missing) {
  return call(__func__, [&] {
    const holdfast::DeviceListing& listing = element(value_of(list, "list"), index);
    needed(name, "name");
    needed(description, "description");
    needed(missing, "missing");
    *name = listing.name.c_str();
    *description = listing.description.c_str();
    *missing = listing.missing.c_str();
  });
}
