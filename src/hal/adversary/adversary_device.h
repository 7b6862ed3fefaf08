#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "holdfast/hal/adversary/fault_plan.h"
#include "holdfast/hal/wrapping_device.h"

namespace holdfast::hal {

class AdversaryCore;

struct AdversaryOptions {
  uint64_t seed = 1;
  FaultPlan faults{};
  // How long dropping the device lets lists in flight finish.
  sync::Duration close_bound = std::chrono::seconds(10);
  // "seed=7,faults=alloc@3+submit@7", in any order, each at most once. UsageError says what cannot
  // be read.
  static AdversaryOptions parse(std::string_view text);
};

// A device that owns time. Submitted lists run command by command, when and in whichever order the
// contract allows and the adversary likes: commands of one wave in any order, queues against each
// other, completion visible as late as it wants. Dead memory is scribbled over as soon as it may
// be, at the latest before the first command of its next life. Memory that is given back too early
// is scribbled at once, but stays readable, so that a bug shows as a wrong result and not as a
// crash.
//
// Inside a simulation (holdfast/simulation) the simulation's driver decides and each run can be
// repeated. Elsewhere a thread of its own decides by the seed; how that falls together with the
// host's threads is then up to the system. Thread-safe.
class AdversaryDevice final : public WrappingDevice {
 public:
  // The inner device should run what it is given at once (CpuOptions::immediate); it is given one
  // command at a time, and may be no wrapper itself (UsageError).
  static Ref<AdversaryDevice> wrap(const Ref<Device>& inner, AdversaryOptions options = {});
  ~AdversaryDevice() override;

  Result<Ref<Buffer>> create_buffer(const BufferDesc& desc) override;
  Result<Ref<Buffer>> import_buffer(ExternalMemory memory) override;
  Result<Ref<Pipeline>> create_pipeline(PipelineDesc desc) override;
  Result<Ref<Program>> create_program(CommandList& list) override;
  Failure lost() const override;
  CloseReport close(sync::Deadline deadline) override;

  // As if the hardware fell off the bus: nothing runs any more and everything pending fails.
  void lose(Failure cause);

  // A script: only inside a simulation. What is held back happens only by step() and run_until(),
  // or where nothing else can happen at all because everybody waits (the schedule says "forced").
  void hold_back(uint32_t queue);
  void hold_back_all();
  void let_go(uint32_t queue);
  // The next thing on that queue, held back or not: a command runs, or a Point becomes visible.
  // Whether there was one.
  bool step(uint32_t queue);
  // Of all queues, the first one that has something.
  bool step();
  // Whatever it takes for the Point to be resolved. Pending where that cannot be.
  PointState run_until(const Point& point);

 private:
  AdversaryDevice(const Ref<Device>& inner, AdversaryOptions options);
  void check_simulated() const;
  sync::Duration close_bound_;
  std::shared_ptr<AdversaryCore> core_;
};

}  // namespace holdfast::hal
