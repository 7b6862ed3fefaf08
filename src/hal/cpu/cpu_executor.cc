#include "holdfast/hal/cpu/cpu_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <utility>

#include "holdfast/base/sync/clock.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/hal/cpu/cpu_buffer.h"
#include "holdfast/hal/program.h"

namespace holdfast::hal {
namespace {

// Below this much work in a wave, waking helpers costs more than they save (bench row
// cpu_wave_help).
constexpr uint64_t kWorthHelpingNs = 20'000;
constexpr uint64_t kCopyBytesPerNs = 8;

uint64_t ns_since(sync::TimePoint start) {
  return static_cast<uint64_t>((sync::now() - start).count());
}

// One command, resolved to host memory.
struct Prepared {
  const Command* command = nullptr;
  std::array<std::span<std::byte>, kMaxBindings> bindings;
  std::span<const std::byte> parameters;
  uint64_t units = 0;  // groups, or one
  uint64_t expected_ns = 0;
  uint64_t failed_unit = kNone;  // the lowest that has: none above needs to run; see first_failed()

  static constexpr uint64_t kNone = ~uint64_t{0};
  // Threads that run units of one command share it.
  std::atomic_ref<uint64_t> first_failed() { return std::atomic_ref<uint64_t>(failed_unit); }
};

class ListRun {
 public:
  ListRun(const Work& work, ListDamage& damage, sync::WorkerPool& pool,
          const std::atomic<bool>& stopped)
      : queue_(work.queue),
        only_(work.only),
        replay_(*work.list),
        commands_(replay_.program() != nullptr ? replay_.program()->list() : replay_),
        damage_(damage),
        pool_(pool),
        stopped_(stopped) {}

  void run() {
    if (only_ != nullptr) {
      add_to_wave(*only_);
      run_wave();
      return;
    }
    for (const Command& command : commands_) {
      if (command.is_mark()) continue;
      if (command.kind == CommandKind::barrier) {
        run_wave();
      } else {
        add_to_wave(command);
      }
      if (halted()) return;
    }
    run_wave();
  }

 private:
  bool halted() const { return stopped_.load(std::memory_order_relaxed); }

  std::span<std::byte> host_bytes(const BoundRange& bound) const {
    const BoundRange* target = &bound;
    Bytes offset = bound.range.offset;
    if (bound.slot >= 0) {
      target = &replay_.slots()[static_cast<size_t>(bound.slot)];
      offset += target->range.offset;
    }
    const Allocation& allocation = *target->allocation;
    // The buffer's own memory: host_pointer() is what users may map, which is less.
    std::byte* base = static_cast<const CpuBuffer&>(*allocation.buffer()).data();
    return {base + (allocation.offset() + offset).value, bound.range.length.value};
  }

  void add_to_wave(const Command& command) {
    if (!damage_.enter(command)) return;
    if (wave_size_ == wave_.size()) wave_.emplace_back();
    Prepared& p = wave_[wave_size_];
    p.command = &command;
    p.failed_unit = Prepared::kNone;
    const auto bindings = command.bindings();
    for (size_t i = 0; i < bindings.size(); ++i) p.bindings[i] = host_bytes(bindings[i]);
    p.parameters = replay_.parameters_of(command);
    p.units = 1;
    p.expected_ns = 1000;
    if (command.kind == CommandKind::dispatch) {
      p.units = command.groups.count();
      p.expected_ns =
          p.units * static_cast<CpuPipeline*>(command.pipeline)->expected_ns_per_group();
    } else if (command.kind != CommandKind::native) {
      p.expected_ns = bindings.front().range.length.value / kCopyBytesPerNs;
    }
    if (p.units > 0) ++wave_size_;
  }

  void run_wave() {
    const std::span<Prepared> wave(wave_.data(), wave_size_);
    wave_size_ = 0;
    run_units_of(wave);
    if (!any_failed_.load(std::memory_order_relaxed)) return;
    any_failed_.store(false, std::memory_order_relaxed);
    auto failures = failures_.lock();
    for (const auto& [command, failure] : *failures) damage_.fail(*command, failure);
    failures->clear();
  }

  void run_units_of(std::span<Prepared> wave) {
    uint64_t units = 0;
    uint64_t expected_ns = 0;
    for (const Prepared& p : wave) {
      units += p.units;
      expected_ns += p.expected_ns;
    }
    if (units < 2 || pool_.helpers() == 0 || expected_ns < kWorthHelpingNs) {
      for (Prepared& p : wave) {
        if (halted()) return;
        run_units(p, 0, p.units);
      }
      return;
    }
    // No more helpers than find that much work each, or many cores would be slower than few.
    const uint64_t helpers = std::min<uint64_t>(pool_.helpers(), expected_ns / kWorthHelpingNs);
    // Each thread takes a few chunks, so that an uneven one does not keep the others waiting.
    const uint64_t grain = std::max<uint64_t>(1, units / (4 * (helpers + 1)));
    const auto run_some = [&](uint64_t begin, uint64_t end) {
      for (Prepared& p : wave) {
        if (begin >= end || halted()) return;
        if (begin < p.units) {
          const uint64_t stop = std::min(end, p.units);
          run_units(p, begin, stop);
          begin = stop;
        }
        begin -= p.units;
        end -= std::min(end, p.units);
      }
    };
    pool_.run(units, grain, run_some, helpers);
  }

  // Where a unit fails, `begin` is that unit.
  void run_units(Prepared& p, uint64_t begin, uint64_t end) {
    const Queue::Executing executing(queue_);
    try {
      switch (p.command->kind) {
        case CommandKind::dispatch: run_groups(p, begin, end); break;
        case CommandKind::copy:
          if (!p.bindings[0].empty()) {
            std::memcpy(p.bindings[1].data(), p.bindings[0].data(), p.bindings[0].size());
          }
          break;
        case CommandKind::fill:
          if (!p.bindings[0].empty()) {
            std::memset(p.bindings[0].data(), std::to_integer<int>(p.command->fill_value),
                        p.bindings[0].size());
          }
          break;
        case CommandKind::native:
          commands_.native_callback (*p.command)(
              {nullptr, {p.bindings.data(), p.command->binding_count}, {}});
          break;
        default: break;
      }
    } catch (const std::exception& error) {
      fail(p, begin, error.what());
    } catch (...) {
      fail(p, begin, "an exception that is no std::exception");
    }
  }

  void run_groups(Prepared& p, uint64_t& group, uint64_t end) {
    const uint64_t begin = group;
    auto& pipeline = *static_cast<CpuPipeline*>(p.command->pipeline);
    const Groups groups = p.command->groups;
    HostGroup call{{}, groups, {p.bindings.data(), p.command->binding_count}, p.parameters};
    const bool sample = pipeline.wants_sample();
    const bool profiled = pipeline.profile().enabled();
    const sync::TimePoint start = sample || profiled ? sync::now() : sync::TimePoint();
    for (; group < end; ++group) {
      if (halted() || group > p.first_failed().load(std::memory_order_relaxed)) return;
      call.group = {static_cast<uint32_t>(group % groups.x),
                    static_cast<uint32_t>(group / groups.x % groups.y),
                    static_cast<uint32_t>(group / groups.x / groups.y)};
      pipeline.function()(call);
    }
    if (!sample && !profiled) return;
    const uint64_t ns = ns_since(start);
    if (sample) pipeline.add_sample(ns / (end - begin));
    if (profiled) {
      pipeline.profile().add(pipeline.name(), begin == 0 ? 1 : 0,
                             sync::Duration(static_cast<int64_t>(ns)));
    }
  }

  // Of a command that fails in several groups, the first group's failure counts, whichever thread
  // met one first: what a user reads does not depend on timing.
  void fail(Prepared& p, uint64_t unit, const std::string& why) {
    auto failures = failures_.lock();
    if (unit >= p.first_failed().load(std::memory_order_relaxed)) return;
    p.first_failed().store(unit, std::memory_order_relaxed);
    const Command& c = *p.command;
    std::string what = c.kind == CommandKind::dispatch
                           ? c.pipeline->describe()
                           : fmt::format("a {} command", to_string(c.kind));
    if (!c.label().empty()) what += fmt::format(", labelled '{}',", c.label());
    Failure failure(ErrorCode::execution,
                    fmt::format("{} failed as command {} of {}: {}", what, commands_.index_of(c),
                                replay_.describe(), why));
    const auto known = std::ranges::find(*failures, &c, &std::pair<const Command*, Failure>::first);
    if (known != failures->end()) {
      known->second = std::move(failure);
    } else {
      failures->emplace_back(&c, std::move(failure));
    }
    any_failed_.store(true, std::memory_order_relaxed);
  }

  const Queue* queue_;
  const Command* only_;
  const CommandList& replay_;
  const CommandList& commands_;
  ListDamage& damage_;
  sync::WorkerPool& pool_;
  const std::atomic<bool>& stopped_;
  std::vector<Prepared> wave_;
  size_t wave_size_ = 0;
  std::atomic<bool> any_failed_{false};
  // Of the present wave.
  sync::Guarded<std::vector<std::pair<const Command*, Failure>>> failures_;
};

}  // namespace

CpuPipeline::CpuPipeline(DeviceId device, PipelineDesc desc, std::shared_ptr<KernelProfile> profile)
    : Pipeline(device, std::move(desc.name), desc.bindings, desc.parameter_bytes),
      profile_(std::move(profile)),
      function_(std::get<HostFunction>(std::move(desc.module))) {}

bool CpuPipeline::wants_sample() noexcept {
  const uint32_t n = dispatches_.fetch_add(1, std::memory_order_relaxed);
  return n < 4 || n % 16 == 0;
}

void CpuPipeline::add_sample(uint64_t ns_per_group) noexcept {
  const uint64_t before = ns_per_group_.load(std::memory_order_relaxed);
  ns_per_group_.store((before + 3 * ns_per_group) / 4, std::memory_order_relaxed);
}

void run_commands(const Work& work, ListDamage& damage, sync::WorkerPool& pool,
                  const std::atomic<bool>& stopped) {
  ListRun(work, damage, pool, stopped).run();
}

}  // namespace holdfast::hal
