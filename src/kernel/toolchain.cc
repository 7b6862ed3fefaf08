#include "holdfast/kernel/toolchain.h"

#include "holdfast/kernel/compilers/spirv_toolchain.h"
#include "holdfast/kernel/cpu/cpu_toolchain.h"

namespace holdfast::kernel {

std::vector<Result<Code>> Toolchain::compile_all(std::span<const CompileJob* const> jobs) {
  std::vector<Result<Code>> results;
  results.reserve(jobs.size());
  for (const CompileJob* job : jobs) results.push_back(compile(*job));
  return results;
}

Result<std::optional<Size3>> Toolchain::group_size(const CompileJob& job,
                                                   std::span<const std::byte>) const {
  return job.native ? job.native->threadgroup : std::nullopt;
}

std::shared_ptr<Toolchain> make_toolchain(const hal::DeviceInfo& device) {
  switch (device.module_form) {
    case hal::ModuleForm::host_function: return std::make_shared<CpuToolchain>();
    case hal::ModuleForm::spirv: return std::make_shared<SpirvToolchain>();
  }
  throw UnsupportedError("no toolchain for the modules of device '" + device.name + "'");
}

}  // namespace holdfast::kernel
