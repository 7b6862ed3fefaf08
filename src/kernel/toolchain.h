#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
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

// How kernel text becomes a pipeline of one kind of device. Thread-safe; no call holds a lock while
// it compiles. Failures are values: ErrorCode::usage where the text does not compile (the message
// names kernel and variant, shows the author's line and a caret), environment where there is no
// compiler or no room to run it.
class Toolchain {
 public:
  virtual ~Toolchain() = default;

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
};

// For the device's kind of module: CPU, or Vulkan (native GLSL and SPIR-V alone).
std::shared_ptr<Toolchain> make_toolchain(const hal::DeviceInfo& device);

}  // namespace holdfast::kernel
