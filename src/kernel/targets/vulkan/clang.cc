#include "holdfast/kernel/targets/vulkan/clang.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <map>

#include "holdfast/base/env.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/kernel/compilers/per_process.h"
#include "holdfast/kernel/compilers/private_folder.h"
#include "holdfast/kernel/compilers/subprocess.h"
#include "holdfast/kernel/compilers/words.h"
#include "holdfast/kernel/diagnostics.h"

namespace holdfast::kernel {
namespace {

constexpr std::string_view kClangSource = "kernel.cc";
constexpr std::string_view kClangOutcome = "kernel.ll";

// The first whose text has pointers without types.
constexpr unsigned kOldestForVulkan = 16;
constexpr const char* kInstallClang =
    "install one, for example with: apt-get install clang-16, or pip install ziglang, or set "
    "HOLDFAST_CLANG to one";

// Text for no device in particular: its layout is what the translator counts on. Nothing is
// vectorized, since devices have threads for that (clang 16 does it at -O2 all the same unless LLVM
// itself is told); loops may last for ever; all functions that can be are inlined, since pointers
// into variables cannot be passed.
constexpr std::array kClangOptions{"-x",
                                   "c++",
                                   "--target=spir64",
                                   "-std=c++20",
                                   "-nostdinc",
                                   "-nostdinc++",
                                   "-fno-exceptions",
                                   "-fno-rtti",
                                   "-fno-threadsafe-statics",
                                   "-fno-strict-aliasing",
                                   "-fno-math-errno",
                                   "-fno-trapping-math",
                                   "-fno-finite-loops",
                                   "-fno-vectorize",
                                   "-fno-slp-vectorize",
                                   "-mllvm",
                                   "-vectorize-slp=false",
                                   "-fno-builtin-memset",
                                   "-fno-builtin-memcpy",
                                   "-fno-builtin-memmove",
                                   "-fno-builtin-printf",
                                   "-fno-stack-protector",
                                   "-O2",
                                   "-gline-tables-only",
                                   "-Xclang",
                                   "-fconvergent-functions",
                                   "-Xclang",
                                   "-fnative-half-type",
                                   "-Xclang",
                                   "-fnative-half-arguments-and-returns",
                                   "-mllvm",
                                   "-inline-threshold=1000000",
                                   "-ferror-limit=20",
                                   "-fno-color-diagnostics",
                                   "-fno-caret-diagnostics",
                                   "-Wno-unused-command-line-argument",
                                   "-Werror=return-type",
                                   "-S",
                                   "-emit-llvm"};
constexpr std::array kOfRelaxedMath{"-fassociative-math", "-freciprocal-math", "-fno-signed-zeros"};

struct KnownClangs {
  sync::LeafMutex mutex;  // guards compilers
  std::map<std::string, std::shared_ptr<const Clang>> compilers HOLDFAST_GUARDED_BY(mutex);
};
KnownClangs& known_clangs() {
  static PerProcess<KnownClangs> of_process;
  return of_process.get();
}

}  // namespace

Result<std::shared_ptr<const Clang>> Clang::probe(std::vector<std::string> command) {
  Subprocess process{command, "/", tool_environment()};
  for (const char* argument : {"-v", "--target=spir64", "-E", "-x", "c++", "/dev/null"}) {
    process.command.emplace_back(argument);
  }
  Result<SubprocessResult> result = run(process);
  if (!result) return result.failure();
  std::shared_ptr<Clang> compiler(new Clang());
  constexpr std::string_view kMark = "clang version ";
  std::string_view output = result.value().output;
  const size_t at = output.find(kMark);
  if (at == output.npos) {
    return Failure(ErrorCode::environment,
                   fmt::format("'{}' is no clang; {}", fmt::join(command, " "), kInstallClang));
  }
  output.remove_prefix(at);
  compiler->name_ = take_line(output);
  unsigned major = 0;
  const char* const begin = compiler->name_.data() + kMark.size();
  (void)std::from_chars(begin, compiler->name_.data() + compiler->name_.size(), major);
  if (major < kOldestForVulkan) {
    return Failure(
        ErrorCode::environment,
        fmt::format("'{}' is too old to compile kernels for Vulkan: {}; clang {} is "
                    "needed: {}",
                    fmt::join(command, " "), compiler->name_, kOldestForVulkan, kInstallClang));
  }
  compiler->command_ = std::move(command);
  compiler->environment_ = process.environment;
  return std::shared_ptr<const Clang>(compiler);
}

Result<std::shared_ptr<const Clang>> Clang::find() {
  const std::string wanted = env::text("HOLDFAST_CLANG").value_or("");
  const std::string key = fmt::format("{}\n{}", wanted, env::text("PATH").value_or(""));
  KnownClangs& cache = known_clangs();
  {
    const sync::LeafLock lock(cache.mutex);
    if (const auto found = cache.compilers.find(key); found != cache.compilers.end()) {
      return found->second;
    }
  }
  std::vector<std::vector<std::string>> candidates;
  if (!wanted.empty()) {
    candidates.push_back(words_of(wanted));
  } else {
    for (const char* name : {"clang++-19", "clang++-16", "clang++-18", "clang++-17", "clang++-20",
                             "clang++-21", "clang++-22", "clang++"}) {
      candidates.push_back({name});
    }
    candidates.push_back({"python-zig", "clang"});
    candidates.push_back({"zig", "clang"});
  }
  Failure refused;
  for (std::vector<std::string>& candidate : candidates) {
    if (candidate.empty()) continue;
    const std::string path = find_program(candidate.front());
    if (path.empty()) continue;
    candidate.front() = path;
    Result<std::shared_ptr<const Clang>> found = probe(std::move(candidate));
    if (found) {
      const sync::LeafLock lock(cache.mutex);
      return cache.compilers.emplace(key, found.value()).first->second;
    }
    if (!refused) refused = found.failure();
  }
  if (refused) return refused;
  if (!wanted.empty()) {
    return Failure(ErrorCode::environment,
                   fmt::format("HOLDFAST_CLANG is '{}', and there is no such program; {}", wanted,
                               kInstallClang));
  }
  return Failure(ErrorCode::environment,
                 fmt::format("kernel text for Vulkan needs clang, and none is on the PATH; {}",
                             kInstallClang));
}

std::string Clang::version() const {
  return fmt::format("{}; {}; {}", name_, fmt::join(command_.begin() + 1, command_.end(), " "),
                     fmt::join(kClangOptions, " "));
}

Result<LlvmOutcome> Clang::to_llvm(const LlvmUnit& unit) const {
  Result<PrivateFolder> made = PrivateFolder::make("compile a kernel");
  if (!made) return made.failure();
  const PrivateFolder folder = std::move(made).value();
  if (Failure full = folder.write(kClangSource, unit.text)) return full;
  Subprocess process{command_, folder.path(), environment_};
  process.command.insert(process.command.end(), kClangOptions.begin(), kClangOptions.end());
  if (unit.math == MathMode::fast) process.command.emplace_back("-ffast-math");
  if (unit.math == MathMode::relaxed) {
    process.command.insert(process.command.end(), kOfRelaxedMath.begin(), kOfRelaxedMath.end());
  }
  process.command.emplace_back(unit.contracts ? "-ffp-contract=fast" : "-ffp-contract=off");
  process.command.insert(process.command.end(),
                         {"-o", std::string(kClangOutcome), std::string(kClangSource)});
  Result<SubprocessResult> run_of = run(process);
  if (!run_of) return run_of.failure();
  SubprocessResult& result = run_of.value();
  LlvmOutcome outcome;
  outcome.messages = std::move(result.output);
  const bool failed = result.signal != 0 || result.status.value_or(0) != 0;
  if (failed) {
    // What is wrong with the text has a place in it.
    const bool of_text = outcome.messages.find(": error: ") != std::string::npos ||
                         outcome.messages.find(": fatal error: ") != std::string::npos;
    if (result.signal == 0 && of_text) return outcome;
    std::string_view said = outcome.messages;
    while (said.ends_with('\n')) said.remove_suffix(1);
    return Failure(
        ErrorCode::environment,
        fmt::format("the compiler '{}' could not finish ({}); make room in TMPDIR and in "
                    "memory, and see that all of it is installed{}{}",
                    command_.front(),
                    result.signal != 0 ? fmt::format("signal {}", result.signal)
                                       : "it does not say why in the text",
                    said.empty() ? "" : ". It said:\n", said));
  }
  Result<std::string> text = folder.read(kClangOutcome);
  if (!text) return text.failure();
  outcome.text = std::move(text).value();
  return outcome;
}

}  // namespace holdfast::kernel
