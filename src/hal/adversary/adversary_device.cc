#include "holdfast/hal/adversary/adversary_device.h"

#include <fmt/format.h>

#include <charconv>

#include "holdfast/base/error.h"
#include "holdfast/hal/adversary/adversary_core.h"
#include "holdfast/hal/deleter.h"

namespace holdfast::hal {
namespace {

class AdversaryQueue final : public Queue {
 public:
  AdversaryQueue(const Device& device, uint32_t index, std::shared_ptr<AdversaryCore> core,
                 std::shared_ptr<std::atomic<uint64_t>> counter)
      : Queue(device.id(), index, core->timeline(index)->name(), core->timeline(index),
              std::move(counter)),
        core_(std::move(core)) {}

 protected:
  Failure execute(const Work& work) override {
    sync::switch_point("submit");
    Failure refused = core_->accept(index(), work);
    sync::switch_point("submitted");
    return refused;
  }

 private:
  std::shared_ptr<AdversaryCore> core_;
};

class AdversaryProbe final : public Probe {
 public:
  AdversaryProbe(std::shared_ptr<AdversaryCore> core, Ref<Probe> next)
      : Probe(std::move(next)), core_(std::move(core)) {}

  void born(const Allocation& allocation) noexcept override {
    core_->born(allocation);
    Probe::born(allocation);
  }
  bool keeps(const Resource& resource) noexcept override {
    return core_->keeps(resource) || Probe::keeps(resource);
  }
  bool keeps(Buffer& buffer) noexcept override {
    return core_->keeps(buffer) || Probe::keeps(buffer);
  }
  void host_access_begins(const Allocation& allocation, ByteRange range, Access access,
                          std::string_view name) noexcept override {
    core_->host_access(allocation, range, access);
    Probe::host_access_begins(allocation, range, access, name);
  }
  size_t choose_range(size_t n) noexcept override { return core_->choose_range(n); }
  Failure before_compile(std::string_view kernel) noexcept override {
    if (Failure fault = core_->compile_fault(kernel)) return fault;
    return Probe::before_compile(kernel);
  }

 private:
  std::shared_ptr<AdversaryCore> core_;
};

// After its work is done or refused, the thread needs only to notice.
constexpr sync::Duration kAdversaryStopGrace = std::chrono::milliseconds(200);

uint64_t parse_seed(std::string_view text) {
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    throw UsageError(fmt::format("'{}' is no seed: it must be a whole number", text));
  }
  return seed;
}

std::string name_of(const Device& inner, const AdversaryOptions& options) {
  std::string name = fmt::format("adversary({},seed={}", inner.info().name, options.seed);
  if (!options.faults.empty()) name += fmt::format(",faults={}", to_string(options.faults));
  return name + ")";
}

}  // namespace

AdversaryOptions AdversaryOptions::parse(std::string_view text) {
  AdversaryOptions options;
  bool seed = false;
  bool faults = false;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view word = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (word.starts_with("seed=") && !std::exchange(seed, true)) {
      options.seed = parse_seed(word.substr(5));
    } else if (word.starts_with("faults=") && !std::exchange(faults, true)) {
      options.faults = FaultPlan::parse(word.substr(7));
    } else if (word.starts_with("schedule=")) {
      throw UsageError(
          "a schedule can be followed only inside a simulation; give HOLDFAST_ADVERSARY to the "
          "test "
          "that printed it");
    } else {
      throw UsageError(fmt::format(
          "the adversary does not know '{}': it takes seed=N and faults=alloc@N+submit@N+..., each "
          "once",
          word));
    }
  }
  return options;
}

Ref<AdversaryDevice> AdversaryDevice::wrap(const Ref<Device>& inner, AdversaryOptions options) {
  if (!inner) throw UsageError("the adversary needs a device to wrap (was its Ref moved from?)");
  if (inner->probe()) {
    throw UsageError(fmt::format(
        "the adversary cannot wrap '{}': it stands right before the device itself, and validate "
        "stands outermost",
        inner->info().name));
  }
  return Ref<AdversaryDevice>(new AdversaryDevice(inner, std::move(options)));
}

AdversaryDevice::AdversaryDevice(const Ref<Device>& wrapped, AdversaryOptions options)
    : WrappingDevice(wrapped, name_of(*wrapped, options)),
      close_bound_(options.close_bound),
      core_(std::make_shared<AdversaryCore>(wrapped, std::move(options))) {
  set_probe(make_ref<AdversaryProbe>(core_, inner()->probe()));
  auto counter = std::make_shared<std::atomic<uint64_t>>(0);
  std::vector<Ref<Queue>> queues;
  for (uint32_t i = 0; i < core_->queue_count(); ++i) {
    queues.emplace_back(make_ref<AdversaryQueue>(*this, i, core_, counter));
  }
  set_queues(std::move(queues));
  core_->start();
}

AdversaryDevice::~AdversaryDevice() { close(sync::Deadline::after(close_bound_)); }

Result<Ref<Buffer>> AdversaryDevice::create_buffer(const BufferDesc& desc) {
  sync::switch_point("create a buffer");
  if (Failure gone = lost()) return gone;
  if (Failure fault = core_->allocation_fault(desc.name)) return fault;
  Result<Ref<Buffer>> created = WrappingDevice::create_buffer(desc);
  if (created) core_->made(*created.value());
  return created;
}

Result<Ref<Buffer>> AdversaryDevice::import_buffer(ExternalMemory memory) {
  sync::switch_point("import a buffer");
  Failure refused = lost();
  if (!refused) refused = core_->allocation_fault(memory.name);
  if (refused) {
    run_deleter(memory.deleter, memory.name);
    return refused;
  }
  Result<Ref<Buffer>> imported = WrappingDevice::import_buffer(std::move(memory));
  if (imported) core_->made(*imported.value());
  return imported;
}

Result<Ref<Pipeline>> AdversaryDevice::create_pipeline(PipelineDesc desc) {
  sync::switch_point("create a pipeline");
  if (Failure gone = lost()) return gone;
  return WrappingDevice::create_pipeline(std::move(desc));
}

Result<Ref<Program>> AdversaryDevice::create_program(CommandList& list) {
  sync::switch_point("create a program");
  if (Failure gone = lost()) return gone;
  return WrappingDevice::create_program(list);
}

Failure AdversaryDevice::lost() const {
  if (Failure lost = core_->lost()) return lost;
  return WrappingDevice::lost();
}

void AdversaryDevice::lose(Failure cause) {
  if (!cause) throw UsageError("a device cannot be lost without a cause");
  core_->lose(std::move(cause));
}

CloseReport AdversaryDevice::close(sync::Deadline deadline) {
  const std::shared_ptr<AdversaryCore> core = core_;
  const Ref<Device> wrapped = inner();
  const std::vector<Ref<Queue>> own(queues().begin(), queues().end());
  core->refuse_new_work();
  // Code that runs on the device cannot wait for the list that runs it.
  if (Queue::executing() == nullptr) {
    for (uint32_t i = 0; i < core->queue_count(); ++i) {
      core->timeline(i)->wait(core->newest(i), deadline);
    }
  }
  core->lose(Failure(ErrorCode::closed,
                     fmt::format("device '{}' was closed before the list could run", info().name)));
  core->stop(sync::Deadline::after(kAdversaryStopGrace));
  core->memory_goes();
  return close_with(wrapped, own, deadline);
}

void AdversaryDevice::check_simulated() const {
  if (!core_->is_simulated()) {
    throw UsageError("an adversary follows a script only inside a simulation");
  }
}

void AdversaryDevice::hold_back(uint32_t queue) {
  check_simulated();
  if (queue >= core_->queue_count()) {
    throw UsageError(fmt::format("device '{}' has no queue {}", info().name, queue));
  }
  core_->set_held_back(queue, true);
}

void AdversaryDevice::hold_back_all() {
  for (uint32_t i = 0; i < core_->queue_count(); ++i) hold_back(i);
}

void AdversaryDevice::let_go(uint32_t queue) {
  if (queue < core_->queue_count()) core_->set_held_back(queue, false);
}

bool AdversaryDevice::step(uint32_t queue) {
  check_simulated();
  return queue < core_->queue_count() && core_->step(queue);
}

bool AdversaryDevice::step() {
  check_simulated();
  for (uint32_t i = 0; i < core_->queue_count(); ++i) {
    if (core_->step(i)) return true;
  }
  return false;
}

PointState AdversaryDevice::run_until(const Point& point) {
  check_simulated();
  // Its own queue first: the others only where that one waits for them.
  uint32_t own = 0;
  while (own < core_->queue_count() && point.timeline &&
         core_->timeline(own)->name() != point.timeline->name()) {
    ++own;
  }
  while (point.pending()) {
    if (own < core_->queue_count() && step(own)) continue;
    if (!step()) break;
  }
  return point.query();
}

}  // namespace holdfast::hal
