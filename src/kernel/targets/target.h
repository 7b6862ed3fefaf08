#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/hal/device.h"
#include "holdfast/kernel/generate/generate.h"

namespace holdfast::kernel {

// One variant to compile.
struct CompileJob {
  std::string kernel{};   // its name
  std::string variant{};  // what tells it from others: describe(definition, signature)
  GeneratedKernel code{};
  // Instead of generated code: the native text or module, whose interface stands in `code`.
  std::shared_ptr<const Native> native{};
  std::vector<Constant> constants{};  // with a native alone: generated code has them in it
  bool verbose = false;
};

// Device code as bytes: what a disk cache keeps.
using Code = std::vector<std::byte>;

// The threads of one launch.
struct LaunchShape {
  Size3 grid{};                  // threads; not empty
  Size3 group{};                 // threads of a whole threadgroup
  uint32_t work_per_thread = 1;  // see Launch
};
// What one dispatch of the device runs of them.
struct DispatchPart {
  hal::Groups groups{};
  LaunchBlock block{};  // for generated code
};
using DispatchParts = boost::container::small_vector<DispatchPart, 2>;

// All that the kernel layer needs to know of a kind of device: how its code is made, loaded and
// launched. A folder of targets/ has one; make_target() knows them by what devices take.
//
// Thread-safe; no call holds a lock while it compiles. Failures are values: ErrorCode::usage where
// the text does not compile (the message names kernel and variant, shows the author's line and a
// caret), environment where there is no compiler or no room to run it, unsupported for what the
// target cannot do.
class Target {
 public:
  virtual ~Target() = default;

  // The kinds of natives that it takes, the best first. A kernel that has one is not generated.
  virtual std::span<const NativeKind> natives() const noexcept = 0;
  // The text for a call, without running anything. By default there is no such text, and the
  // Failure says which natives to write instead.
  virtual Result<GeneratedKernel> generate(const Definition& definition,
                                           const CallSignature& signature,
                                           const GenerateOptions& options) const;

  // All that decides, besides the job, what compile() makes: compiler, version, options,
  // architecture, environment variables. The same in every process on one machine.
  // EnvironmentError's failure where there is no compiler.
  virtual Result<std::string> version() = 0;
  virtual Result<Code> compile(const CompileJob& job) = 0;
  // As compile() for each; one run of the compiler may serve several.
  virtual std::vector<Result<Code>> compile_all(std::span<const CompileJob* const> jobs);
  // The threads of a group, where the code that compile() made has them in it; the Failure says
  // what of the job contradicts it. None: any size will do.
  virtual Result<std::optional<Size3>> group_size(const CompileJob& job,
                                                  std::span<const std::byte> code) const;
  // A pipeline for the device, which keeps what it needs of the code.
  virtual Result<Ref<hal::Pipeline>> load(hal::Device& device, const CompileJob& job,
                                          std::span<const std::byte> code) = 0;

  // Which dispatches run the threads of a launch. On every launch: cheap. By default natives alone
  // run, in one dispatch of as many groups as have a thread of the grid.
  virtual Failure cut(const Interface& interface, const LaunchShape& shape,
                      DispatchParts& parts) const;
};

// Why kernel text cannot be compiled for such devices here, and what to install; none: it can. May
// load a compiler's library, once.
Failure why_no_bodies(hal::ModuleForm form);

// The one for this device: it makes what the device takes. UnsupportedError where there is none.
std::shared_ptr<Target> make_target(const hal::DeviceInfo& device);

}  // namespace holdfast::kernel
