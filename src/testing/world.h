#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/adversary/adversary_device.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/hal/validate/validate_device.h"
#include "holdfast/runtime/context.h"
#include "holdfast/simulation/explore.h"
#include "holdfast/testing/kernels.h"

namespace holdfast::testing {

// Why a scenario is left to the CPU.
inline constexpr const char* kMakesHostCode = "its compiler makes code for the CPU";
inline constexpr const char* kNoRoomForStaging = "its counts and limits leave no room for staging";
inline constexpr const char* kKernelsFailAlone = "kernels do not fail there without the device";
inline constexpr const char* kMapsMemory = "the host does not reach a GPU's memory";

// What a scenario runs on. The same scenario runs on the plain device of a family, on validate of
// it, both with threads, and on validate(adversary) of it inside a simulation. Thread-safe.
class World {
 public:
  enum class Mode { plain, validate, adversary };

  explicit World(Mode mode, hal::FaultPlan faults = {}, Family family = family_of_bodies());
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Mode mode() const noexcept { return mode_; }
  Family family() const noexcept { return family_; }
  // Whether a fault may make any call raise. Then what a scenario reads must still be right, but it
  // need not get there, and how often something waited proves nothing.
  bool has_faults() const noexcept { return !faults_.empty(); }

  // A device of the family with these queues, this memory and this host visibility, as far as the
  // hardware has them; the other options are the CPU's.
  Ref<hal::Device> open(hal::CpuOptions options);
  // The newest device of open(), for scripts; null unless in a simulation.
  hal::AdversaryDevice* adversary() const noexcept { return adversary_; }

  // The scenario cannot be had on what open() gives, and is over without having shown anything.
  void skip(std::string why);
  // Why it was skipped; empty: it was not.
  std::string skipped() const;

  // The same for whatever is not the CPU's; whether it was skipped.
  bool is_left_to_the_cpu(const char* why);
  // The same for devices whose kernels cannot fail a check alone: NVIDIA's.
  bool is_left_to_checked_kernels();

  // Runs the body; an Error that a fault explains ends it quietly, any other is a failure.
  void run(const std::function<void()>& body);
  // The same on a task of its own, which is joined when the object goes.
  [[nodiscard]] sync::Thread task(std::string name, std::function<void()> body);

  // What the fault "drop" drops, once.
  void offer(std::function<void()> drop);
  // Whom the faults "trim", "clear" and "limit" strike: the newest one, while it lives.
  void attach(runtime::Context* context);
  void detach(runtime::Context* context);
  std::vector<simulation::Injection> injections();

  void fail(const std::string& message);
  // The first one; empty: none. Violations of the validator count.
  std::string failure() const;

 private:
  Ref<hal::Device> open_innermost(hal::CpuOptions options) const;
  void strike(hal::FaultKind kind);
  bool explains(ErrorCode code) const;

  Mode mode_;
  hal::FaultPlan faults_;
  Family family_;
  hal::AdversaryDevice* adversary_ = nullptr;
  mutable sync::LeafMutex mutex_;  // guards all below
  std::string failure_;
  std::string skipped_;
  std::vector<runtime::Context*> contexts_;
  std::vector<std::function<void()>> offers_;
};

using ScenarioBody = std::function<void(World&)>;

// The body as a program that can be simulated again and again. Where it was skipped, `skipped` then
// says why.
simulation::Program as_program(ScenarioBody body, Family family = family_of_bodies(),
                               std::shared_ptr<std::string> skipped = nullptr);
// What goes wrong under a seed: for one in four something does.
std::vector<std::string> faults_for(uint64_t seed);

}  // namespace holdfast::testing
