#include "holdfast/kernel/targets/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "holdfast/base/rounding.h"

namespace holdfast::kernel {

Result<GeneratedKernel> Target::generate(const Definition&, const CallSignature&,
                                         const GenerateOptions&) const {
  std::vector<std::string_view> kinds;
  for (const NativeKind kind : natives()) kinds.emplace_back(to_string(kind));
  return Failure(ErrorCode::unsupported,
                 fmt::format("kernel text is not compiled for it; give the kernel a native of kind "
                             "{}",
                             fmt::join(kinds, " or ")));
}

std::vector<Result<Code>> Target::compile_all(std::span<const CompileJob* const> jobs) {
  std::vector<Result<Code>> results;
  results.reserve(jobs.size());
  for (const CompileJob* job : jobs) results.push_back(compile(*job));
  return results;
}

Result<std::optional<Size3>> Target::group_size(const CompileJob& job,
                                                std::span<const std::byte>) const {
  return job.native ? job.native->threadgroup : std::nullopt;
}

Failure Target::cut(const Interface& interface, const LaunchShape& shape,
                    DispatchParts& parts) const {
  if (interface.has_launch_block) {
    return Failure(ErrorCode::unsupported, "no generated code runs on it");
  }
  const auto along = [](uint32_t threads, uint32_t each) {
    return static_cast<uint32_t>(ceil_div<uint64_t>(threads, each));
  };
  const auto& [grid, group, work] = shape;
  parts.push_back(
      {{along(grid.x, group.x), along(grid.y, group.y), along(grid.z, group.z)}, LaunchBlock{}});
  return {};
}

}  // namespace holdfast::kernel
