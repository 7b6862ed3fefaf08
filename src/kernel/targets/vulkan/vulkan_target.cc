#include "holdfast/kernel/targets/vulkan/vulkan_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "holdfast/base/shown.h"
#include "holdfast/kernel/native.h"
#include "holdfast/kernel/targets/grid_parts.h"
#include "holdfast/kernel/targets/job_failures.h"
#include "holdfast/kernel/targets/vulkan/check_report.h"
#include "holdfast/kernel/targets/vulkan/clang.h"
#include "holdfast/kernel/targets/vulkan/glsl_compiler.h"
#include "holdfast/kernel/targets/vulkan/ir/translate.h"
#include "holdfast/kernel/targets/vulkan/specialization.h"
#include "holdfast/kernel/targets/vulkan/spirv_group_size.h"
#include "holdfast/kernel/targets/vulkan/vulkan_text.h"

namespace holdfast::kernel {

namespace {

// Raised with every change of what the translator makes of the same text.
constexpr int kTranslatorVersion = 6;

constexpr DtypeNames kGlslTypeNames{"bool",     "int8_t", "uint8_t", "int16_t",  "uint16_t",
                                    "int",      "uint",   "int64_t", "uint64_t", "float16_t",
                                    "bfloat16", "float",  "double"};

// Those that are not specialized.
std::vector<Constant> macro_constants(const Native& native, std::vector<Constant> constants) {
  std::erase_if(constants, [&](const Constant& constant) {
    return std::ranges::find(native.constants, constant.name) != native.constants.end();
  });
  return constants;
}

Failure check(const CompileJob& job) {
  if (!job.native) return {};
  if (job.native->kind != NativeKind::glsl && job.native->kind != NativeKind::spirv) {
    return Failure(ErrorCode::unsupported,
                   fmt::format("kernel '{}': a native of kind {} does not run on Vulkan; give it "
                               "one of kind glsl or spirv, or a body",
                               job.kernel, to_string(job.native->kind)));
  }
  return {};
}

Result<hal::SpirvModule> module_of(const CompileJob& job, std::span<const std::byte> code) {
  hal::SpirvModule module;
  if (code.size() % sizeof(uint32_t) != 0) {
    return Failure(ErrorCode::usage,
                   fmt::format("kernel '{}': {} bytes are no SPIR-V, which has words of four",
                               job.kernel, code.size()));
  }
  module.words.resize(code.size() / sizeof(uint32_t));
  if (!code.empty()) std::memcpy(module.words.data(), code.data(), code.size());
  if (!job.native) {
    module.bindings = hal::SpirvBindings::addresses;
    module.threads_at = Bytes{offsetof(LaunchBlock, block)};
    module.binding_lengths = job.code.interface.binding_lengths;
    if (job.code.interface.reports) module.report = check_report_of(job.kernel, module.words);
    return module;
  }
  module.entry_point = job.native->entry_point;
  module.bindings = job.native->reaches;
  auto constants = specialization_of(job.kernel, *job.native, job.constants);
  if (!constants) return constants.failure();
  module.constants = std::move(constants).value();
  return module;
}

Code bytes_of(std::span<const uint32_t> words) {
  const auto bytes = std::as_bytes(words);
  return Code(bytes.begin(), bytes.end());
}

// What the compiler took and Vulkan cannot do, at the author's line where it is known.
Failure refusal_of(const CompileJob& job, const Refusal& refusal) {
  if (refusal.line == 0) {
    return Failure(ErrorCode::unsupported, fmt::format("kernel '{}' cannot run on Vulkan: {}",
                                                       job.kernel, refusal.message));
  }
  // In the words of a compiler, so that the place is found in the same way.
  return compile_failure(job, fmt::format("{}:{}:{}: error: on Vulkan, {}\n", refusal.file,
                                          refusal.line, refusal.column, refusal.message));
}

}  // namespace

VulkanTarget::VulkanTarget(const hal::DeviceInfo& device)
    : device_(device.architecture), max_groups_(device.max_groups) {}

Result<GeneratedKernel> VulkanTarget::generate(const Definition& definition,
                                               const CallSignature& signature,
                                               const GenerateOptions& options) const {
  GenerateOptions own = options;
  own.subgroups = device_.find("simd32") != device_.npos;
  return vulkan_text(definition, signature, own);
}

std::span<const NativeKind> VulkanTarget::natives() const noexcept {
  static constexpr std::array kKinds{NativeKind::spirv, NativeKind::glsl};
  return kKinds;
}

Result<std::string> VulkanTarget::version() {
  const Result<std::shared_ptr<const Clang>> clang = Clang::find();
  return fmt::format("{}; {}; {}; translator {}", glsl_compiler_version(),
                     clang ? clang.value()->version() : "no clang", device_, kTranslatorVersion);
}

Result<Code> VulkanTarget::compile_text(const CompileJob& job) const {
  const Result<std::shared_ptr<const Clang>> clang = Clang::find();
  if (!clang) return named(job, clang.failure());
  const Result<LlvmOutcome> outcome =
      clang.value()->to_llvm({.text = job.code.preamble + job.code.text,
                              .math = job.code.math,
                              .contracts = job.code.contracts});
  if (!outcome) return named(job, outcome.failure());
  if (outcome.value().text.empty()) return compile_failure(job, outcome.value().messages);
  const auto has = [&](std::string_view word) { return device_.find(word) != device_.npos; };
  const Interface& interface = job.code.interface;
  const Translated translated = translate_to_spirv(
      outcome.value().text, {.entry_point = job.code.entry_point,
                             .bindings = static_cast<uint32_t>(interface.bindings.size()),
                             .parameter_bytes = interface.parameter_bytes,
                             .binding_lengths = interface.binding_lengths,
                             .reports = interface.reports,
                             .contracts = job.code.contracts,
                             .fast = job.code.math == MathMode::fast,
                             .keeps_16 = has("nan16"),
                             .keeps_32 = has("nan32"),
                             .keeps_64 = has("nan64"),
                             .keeps_small_32 = has("small32"),
                             .rounds_to_nearest = has("nearest"),
                             .exact_quotients = has("lavapipe"),
                             .fences_meet = has("lavapipe")});
  if (translated.words.empty()) return refusal_of(job, translated.refusal);
  return bytes_of(translated.words);
}

Result<Code> VulkanTarget::compile(const CompileJob& job) {
  if (Failure refused = check(job)) return refused;
  if (!job.native) return compile_text(job);
  if (job.native->kind == NativeKind::spirv) return job.native->module;
  if (job.native->entry_point != "main") {
    return Failure(ErrorCode::usage,
                   fmt::format("kernel '{}': the entry point of GLSL is called main, not {}",
                               job.kernel, shown(job.native->entry_point)));
  }
  const Result<hal::SpirvModule> module = compile_glsl(
      {.name = job.kernel,
       .text = job.native->text,
       .defines = native_macros(macro_constants(*job.native, job.constants), kGlslTypeNames),
       .bindings = job.native->reaches});
  if (!module) return module.failure();
  return bytes_of(module.value().words);
}

Result<std::optional<Size3>> VulkanTarget::group_size(const CompileJob& job,
                                                      std::span<const std::byte> code) const {
  if (Failure refused = check(job)) return refused;
  if (!job.native) return std::optional<Size3>();
  const Result<hal::SpirvModule> module = module_of(job, code);
  if (!module) return module.failure();
  const std::optional<Size3> own =
      spirv_group_size(module.value().words, module.value().entry_point, module.value().constants);
  const std::optional<Size3>& declared = job.native->threadgroup;
  if (own && declared && *own != *declared) {
    return Failure(ErrorCode::usage,
                   fmt::format("kernel '{}': its native {} has groups of {} x {} x {} threads, and "
                               "Native::threadgroup says {} x {} x {}; leave it out, or correct it",
                               job.kernel, to_string(job.native->kind), own->x, own->y, own->z,
                               declared->x, declared->y, declared->z));
  }
  return own ? own : declared;
}

Result<Ref<hal::Pipeline>> VulkanTarget::load(hal::Device& device, const CompileJob& job,
                                              std::span<const std::byte> code) {
  if (Failure refused = check(job)) return refused;
  Result<hal::SpirvModule> module = module_of(job, code);
  if (!module) return module.failure();
  hal::PipelineDesc desc;
  desc.name = job.kernel;
  desc.module = std::move(module).value();
  desc.bindings = static_cast<uint32_t>(job.code.interface.bindings.size());
  desc.parameter_bytes = job.code.interface.parameter_bytes;
  return device.create_pipeline(std::move(desc));
}

Failure VulkanTarget::cut(const Interface& interface, const LaunchShape& shape,
                          DispatchParts& parts) const {
  if (!interface.has_launch_block) return Target::cut(interface, shape, parts);
  const bool in_step = interface.cooperation == Cooperation::barriers;
  return cut_grid(shape, max_groups_, {.x = in_step, .y = in_step, .z = in_step}, parts);
}

}  // namespace holdfast::kernel
