#include "holdfast/kernel/targets/cpu/cpu_target.h"

#include <embedded/kernel_text.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "holdfast/base/env.h"
#include "holdfast/base/rounding.h"
#include "holdfast/base/sanitizers.h"
#include "holdfast/base/shown.h"
#include "holdfast/kernel/generate/usage.h"
#include "holdfast/kernel/native.h"
#include "holdfast/kernel/targets/cpu/cpu_text.h"
#include "holdfast/kernel/targets/cpu/loaded_kernel.h"
#include "holdfast/kernel/targets/job_failures.h"

namespace holdfast::kernel {

namespace {

// Threads that one group of the device runs: enough that calling it costs little beside them, few
// enough that several host threads share a grid (bench row cpu_kernel).
constexpr uint64_t kThreadsPerDispatch = 16384;
// The same where threads are fibers, each of which costs much more.
constexpr uint64_t kFibersPerDispatch = 512;

constexpr DtypeNames kCppTypeNames{
    "bool", "signed char",   "unsigned char", "short",  "unsigned short", "int",   "unsigned",
    "long", "unsigned long", "_Float16",      "__bf16", "float",          "double"};

// The whole translation unit. Only the entry point can be seen from outside, whoever defines it.
std::string unit_text(const CompileJob& job) {
  std::string text = fmt::format(
      "struct hf_call;\nextern \"C\" __attribute__((visibility(\"default\"))) void {}(const "
      "hf_call*);\n",
      job.code.entry_point);
  if (!job.native) return text + job.code.preamble + job.code.text;
  const std::string& file = job.code.sources.empty() ? job.kernel : job.code.sources[0].file;
  text += embedded::kernel_text("kernel_abi.h");
  for (const auto& [name, value] : native_macros(job.constants, kCppTypeNames)) {
    text += fmt::format("\n#define {} {}", name, value);
  }
  return text + "\n" + line_directive(1, file) + job.native->text;
}

// Of a fiber's stack, what the host needs to raise what a kernel does wrong, and the functions of
// the C library that a kernel calls.
constexpr size_t kHostStackBytes = size_t{48} * 1024;
constexpr size_t kMaxFrame = FiberGroup::kStackBytes - kHostStackBytes;

Failure check_native(const CompileJob& job) {
  if (job.native->kind != NativeKind::cpp) {
    return Failure(ErrorCode::unsupported,
                   fmt::format("kernel '{}': a native of kind {} does not run on the CPU; give it "
                               "one of kind cpp, or a body",
                               job.kernel, to_string(job.native->kind)));
  }
  if (!is_identifier(job.code.entry_point) || job.code.entry_point == "main") {
    return Failure(ErrorCode::usage,
                   fmt::format("kernel '{}': the entry point of its native is {}; name a "
                               "function extern \"C\" void NAME(const hf_call*) of the text",
                               job.kernel, shown(job.code.entry_point)));
  }
  return {};
}

// With symbols, in a folder of its own: beside the object lie the texts that debuggers show.
Result<std::shared_ptr<const SharedObject>> load_with_symbols(const CompileJob& job,
                                                              std::span<const std::byte> code) {
  Result<PrivateFolder> made = PrivateFolder::make("keep a kernel's symbols");
  if (!made) return named(job, made.failure());
  PrivateFolder folder = std::move(made).value();
  if (Failure full = folder.write("kernel.cc", unit_text(job))) return named(job, full);
  for (const SourceText& source : job.code.sources) {
    // A path leads a debugger to the author's own file.
    const bool is_name = source.file.find('/') == std::string::npos && source.file != "." &&
                         source.file != ".." && !source.file.starts_with("kernel.");
    if (!is_name || source.file.empty()) continue;
    if (Failure full = folder.write(source.file, source.text)) return named(job, full);
  }
  Code bytes(code.begin(), code.end());
  const auto placeholder = std::as_bytes(std::span(CppCompiler::folder_placeholder()));
  std::string path = folder.path();
  if (path.size() <= placeholder.size()) {
    path.resize(placeholder.size(), '/');
    for (auto at = bytes.begin();;) {
      at = std::search(at, bytes.end(), placeholder.begin(), placeholder.end());
      if (at == bytes.end()) break;
      at = std::copy_n(std::as_bytes(std::span(path)).begin(), path.size(), at);
    }
  }
  return SharedObject::load_in(std::move(folder), job.kernel, bytes);
}

}  // namespace

CppOptions CpuTarget::Options::default_options() {
  CppOptions options;
  options.debug = env::flag("HOLDFAST_CPU_DEBUG").value_or(false);
  options.sanitize = has_address_sanitizer();
  return options;
}

CpuTarget::CpuTarget() : CpuTarget(Options{}) {}
CpuTarget::CpuTarget(Options options) : options_(options) {}

std::span<const NativeKind> CpuTarget::natives() const noexcept {
  static constexpr std::array kKinds{NativeKind::cpp};
  return kKinds;
}

Result<GeneratedKernel> CpuTarget::generate(const Definition& definition,
                                            const CallSignature& signature,
                                            const GenerateOptions& options) const {
  return cpu_text(definition, signature, options);
}

Failure CpuTarget::cut(const Interface& interface, const LaunchShape& shape,
                       DispatchParts& parts) const {
  if (!interface.has_launch_block) return Target::cut(interface, shape, parts);
  const Size3& grid = shape.grid;
  const Size3& group = shape.group;
  const uint64_t x = ceil_div<uint64_t>(grid.x, group.x);
  const uint64_t y = ceil_div<uint64_t>(grid.y, group.y);
  const uint64_t z = ceil_div<uint64_t>(grid.z, group.z);
  uint64_t total = 0;
  if (__builtin_mul_overflow(x * y, z, &total) || total > (uint64_t{1} << 62)) {
    return Failure(ErrorCode::usage, "a grid of more than 2^62 threadgroups");
  }
  const bool on_fibers = interface.cooperation == Cooperation::barriers;
  const uint64_t threads =
      (on_fibers ? kFibersPerDispatch : kThreadsPerDispatch) / std::max(shape.work_per_thread, 1U);
  const uint64_t group_threads = uint64_t{group.x} * group.y * group.z;
  const uint64_t each = std::clamp<uint64_t>(
      std::max(threads / group_threads, ceil_div<uint64_t>(total, 0x7fffffff)), 1, 0xffffffff);
  parts.push_back({{static_cast<uint32_t>(ceil_div(total, each)), 1, 1},
                   {{grid.x, grid.y, grid.z},
                    {group.x, group.y, group.z},
                    {0, 0, 0},
                    static_cast<uint32_t>(each),
                    {}}});
  return {};
}

Result<std::string> CpuTarget::version() {
  const Result<std::shared_ptr<const CppCompiler>> compiler = CppCompiler::find();
  if (!compiler) return compiler.failure();
  return fmt::format("{}; frames up to {}", compiler.value()->version(options_.compiler),
                     kMaxFrame);
}

Result<Code> CpuTarget::compile(const CompileJob& job) {
  if (job.native) {
    if (Failure refused = check_native(job)) return refused;
  }
  const Result<std::shared_ptr<const CppCompiler>> compiler = CppCompiler::find();
  if (!compiler) return named(job, compiler.failure());
  const bool on_fibers = job.code.interface.cooperation == Cooperation::barriers;
  const CppUnit unit{.text = unit_text(job),
                     .math = job.code.math,
                     .generated = job.native == nullptr,
                     .contracts = job.code.contracts,
                     .max_frame = on_fibers ? kMaxFrame : 0};
  Result<CppOutcome> outcome = compiler.value()->compile(unit, options_.compiler);
  if (!outcome) return named(job, outcome.failure());
  if (outcome.value().object.empty()) return compile_failure(job, outcome.value().messages);
  return std::move(outcome.value().object);
}

Result<Ref<hal::Pipeline>> CpuTarget::load(hal::Device& device, const CompileJob& job,
                                           std::span<const std::byte> code) {
  const bool with_symbols = options_.compiler.debug || options_.compiler.sanitize;
  Result<std::shared_ptr<const SharedObject>> object =
      with_symbols ? load_with_symbols(job, code) : SharedObject::load(job.kernel, code);
  if (!object) return object.failure();
  void* const entry = object.value()->find(job.code.entry_point);
  if (entry == nullptr) {
    return Failure(ErrorCode::usage,
                   fmt::format("kernel '{}' has no entry point {}: define it in its text, as "
                               "extern \"C\" void NAME(const hf_call*)",
                               job.kernel, shown(job.code.entry_point)));
  }
  const auto kernel = std::make_shared<const LoadedKernel>(
      job.kernel, job.code.interface, std::move(object).value(),
      reinterpret_cast<LoadedKernel::Entry>(entry), fibers_);
  hal::PipelineDesc desc;
  desc.name = job.kernel;
  desc.module = hal::HostFunction([kernel](const hal::HostGroup& group) { kernel->run(group); });
  desc.bindings = static_cast<uint32_t>(job.code.interface.bindings.size());
  desc.parameter_bytes = job.code.interface.parameter_bytes;
  return device.create_pipeline(std::move(desc));
}

}  // namespace holdfast::kernel
