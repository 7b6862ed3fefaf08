#include "holdfast/testing/world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest-spi.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "holdfast/base/error.h"
#include "holdfast/base/leave_alive.h"
#include "holdfast/base/log.h"
#include "holdfast/runtime/core.h"
#include "holdfast/simulation/driver.h"
#include "holdfast/testing/cuda.h"
#include "holdfast/testing/vulkan.h"

namespace holdfast::testing {

namespace {

// What the runtime warns of under faults is expected; a thousand runs would say it a thousand
// times.
class Quiet {
 public:
  Quiet() : before_(logging::set_sink([](const logging::Message&) {})) {}
  ~Quiet() { logging::set_sink(std::move(before_)); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  logging::Sink before_;
};

Ref<hal::Device> open_vulkan_like(const hal::CpuOptions& options, bool simulated) {
  hal::VulkanOptions vulkan;
  vulkan.queues = options.queues;
  vulkan.memory = options.memory;
  vulkan.immediate = simulated;
  vulkan.close_bound = options.close_bound;
  vulkan.device_memory_host_visible = options.device_memory_host_visible;
  // Where the runtime stages, it does so beside the kernels.
  if (!options.device_memory_host_visible) vulkan.copy_queues = 1;
  auto opened = open_vulkan(vulkan);
  if (!opened && options.device_memory_host_visible) {
    vulkan.device_memory_host_visible.reset();
    opened = open_vulkan(vulkan);
  }
  return std::move(opened).or_raise();
}

// The host never reaches its memory, so the runtime always stages: with a queue for copies, or
// without.
Ref<hal::Device> open_cuda_like(const hal::CpuOptions& options, bool simulated) {
  hal::CudaOptions cuda;
  cuda.queues = options.queues;
  cuda.memory = options.memory;
  cuda.immediate = simulated;
  cuda.close_bound = options.close_bound;
  cuda.copy_queues = options.device_memory_host_visible ? 0 : 1;
  return open_cuda(cuda).or_raise();
}

}  // namespace

World::World(Mode mode, hal::FaultPlan faults, Family family)
    : mode_(mode), faults_(std::move(faults)), family_(family) {}

Ref<hal::Device> World::open_innermost(hal::CpuOptions options) const {
  const bool simulated = mode_ == Mode::adversary;
  if (family_ == Family::vulkan) return open_vulkan_like(options, simulated);
  if (family_ == Family::cuda) return open_cuda_like(options, simulated);
  options.immediate = options.immediate || simulated;
  options.recycles_memory = options.recycles_memory || simulated;
  return hal::CpuDevice::open(std::move(options));
}

Ref<hal::Device> World::open(hal::CpuOptions options) {
  Ref<hal::Device> device = open_innermost(std::move(options));
  if (mode_ == Mode::plain) return device;
  if (mode_ == Mode::adversary) {
    auto adversary = hal::AdversaryDevice::wrap(device, {.faults = faults_});
    adversary_ = adversary.get();
    device = std::move(adversary);
  }
  return hal::ValidateDevice::wrap(std::move(device), {[this](const hal::Violation& violation) {
                                     if (!violation.is_note()) fail(violation.message);
                                   }});
}

void World::skip(std::string why) {
  const sync::LeafLock lock(mutex_);
  skipped_ = std::move(why);
}

bool World::is_left_to_the_cpu(const char* why) {
  if (family_ == Family::cpu) return false;
  skip(why);
  return true;
}

bool World::is_left_to_checked_kernels() {
  if (family_ != Family::cuda) return false;
  skip(kKernelsFailAlone);
  return true;
}

std::string World::skipped() const {
  const sync::LeafLock lock(mutex_);
  return skipped_;
}

// Whether one of the faults can make a call raise this.
bool World::explains(ErrorCode code) const {
  const auto raises = [&](const hal::Fault& fault) {
    switch (fault.kind) {
      case hal::FaultKind::alloc:
      case hal::FaultKind::submit:
      case hal::FaultKind::limit: return code == ErrorCode::out_of_memory;
      case hal::FaultKind::command: return code == ErrorCode::execution;
      case hal::FaultKind::lost: return code == ErrorCode::device_lost;
      case hal::FaultKind::compile: return code == ErrorCode::environment;
      case hal::FaultKind::trim:
      case hal::FaultKind::clear:
      case hal::FaultKind::drop: return false;
    }
    return false;
  };
  return std::any_of(faults_.faults().begin(), faults_.faults().end(), raises);
}

void World::run(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    if (!explains(error.code())) fail(fmt::format("it raised: {}", error.what()));
  } catch (const std::exception& error) {
    fail(fmt::format("it raised: {}", error.what()));
  }
}

sync::Thread World::task(std::string name, std::function<void()> body) {
  return {std::move(name), [this, b = std::move(body)] { run(b); }};
}

void World::offer(std::function<void()> drop) {
  const sync::LeafLock lock(mutex_);
  offers_.push_back(std::move(drop));
}

void World::attach(runtime::Context* context) {
  const sync::LeafLock lock(mutex_);
  contexts_.push_back(context);
}

void World::detach(runtime::Context* context) {
  const sync::LeafLock lock(mutex_);
  std::erase(contexts_, context);
}

void World::strike(hal::FaultKind kind) {
  std::vector<std::function<void()>> drops;
  Ref<runtime::Context> context;
  {
    const sync::LeafLock lock(mutex_);
    if (kind == hal::FaultKind::drop) drops.swap(offers_);
    if (!contexts_.empty()) context = Ref<runtime::Context>(contexts_.back());
  }
  run([&] {
    for (const auto& drop : drops) drop();
    drops.clear();
    if (!context || context->closed()) return;
    switch (kind) {
      case hal::FaultKind::trim: context->trim(); break;
      case hal::FaultKind::clear:
        context->retire();
        context->trim();
        break;
      case hal::FaultKind::limit:
        context->set_memory_limit(std::max(context->stats().memory.reserved, Bytes{1}));
        sync::switch_point("with a lower limit");
        context->set_memory_limit(context->core().options().memory_limit);
        break;
      default: break;
    }
  });
}

std::vector<simulation::Injection> World::injections() {
  std::vector<simulation::Injection> all;
  for (const hal::Fault& fault : faults_.faults()) {
    if (fault.kind < hal::FaultKind::trim) continue;
    all.push_back({fault.at, hal::to_string(fault.kind), [this, fault] { strike(fault.kind); }});
  }
  return all;
}

void World::fail(const std::string& message) {
  const sync::LeafLock lock(mutex_);
  if (failure_.empty()) failure_ = message;
}

std::string World::failure() const {
  const sync::LeafLock lock(mutex_);
  return failure_;
}

simulation::Program as_program(ScenarioBody body, Family family,
                               std::shared_ptr<std::string> skipped) {
  return [body = std::move(body), family, skipped = std::move(skipped)](
             simulation::Driver& driver, const std::vector<std::string>& faults, bool trace) {
    // Where it cannot be loaded, opening the device says so.
    (void)load(family);
    const auto world = std::make_shared<World>(
        World::Mode::adversary, hal::FaultPlan::parse(fmt::format("{}", fmt::join(faults, "+"))),
        family);
    ::testing::TestPartResultArray results;
    simulation::Result result;
    std::optional<Quiet> quiet;
    if (!trace) quiet.emplace();
    {
      // Expectations of the scenario are part of the verdict, not failures of the test around it.
      const ::testing::ScopedFakeTestPartResultReporter reporter(
          ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
      result.outcome = simulation::simulate(driver, [&] { world->run([&] { body(*world); }); },
                                            world->injections(), {.trace = trace});
    }
    if (skipped) *skipped = world->skipped();
    result.failure = world->failure();
    for (int i = 0; i < results.size() && result.failure.empty(); ++i) {
      const ::testing::TestPartResult& part = results.GetTestPartResult(i);
      if (part.failed()) result.failure = part.message();
    }
    if (result.failure.empty()) result.failure = result.outcome.report;
    // Tasks that are stuck may still refer to it.
    if (result.outcome.ending != simulation::Ending::finished) leave_alive(world);
    return result;
  };
}

std::vector<std::string> faults_for(uint64_t seed) {
  if (seed % 4 != 0) return {};
  // Not the numbers that the driver draws from the same seed: every fault meets every style.
  simulation::Random random(seed ^ 0x6661756C74ULL);
  const auto kind = static_cast<hal::FaultKind>(random.below(hal::kFaultKinds));
  uint64_t opportunities = 200;  // steps
  switch (kind) {
    case hal::FaultKind::alloc: opportunities = 4; break;
    case hal::FaultKind::submit: opportunities = 12; break;
    case hal::FaultKind::command: opportunities = 24; break;
    case hal::FaultKind::lost: opportunities = 40; break;
    case hal::FaultKind::compile: opportunities = 4; break;
    default: break;
  }
  return {fmt::format("{}@{}", hal::to_string(kind), 1 + random.below(opportunities))};
}

}  // namespace holdfast::testing
