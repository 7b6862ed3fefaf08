#include "holdfast/kernel/targets/cpu/cpp_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "holdfast/base/env.h"
#include "holdfast/base/hash.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/kernel/compilers/added.h"
#include "holdfast/kernel/compilers/per_process.h"
#include "holdfast/kernel/compilers/private_folder.h"
#include "holdfast/kernel/compilers/subprocess.h"
#include "holdfast/kernel/compilers/words.h"
#include "holdfast/kernel/diagnostics.h"

namespace holdfast::kernel {

namespace {

constexpr std::string_view kSource = "kernel.cc";
constexpr std::string_view kObject = "kernel.so";
constexpr std::string_view kIncluded = "included";

// The first of each that has _Float16 in C++.
constexpr unsigned kOldestGcc = 12;
constexpr unsigned kOldestClang = 15;
constexpr const char* kInstall =
    "install one, for example with: apt-get install g++, or in Python pip install "
    "holdfast[compiler]; or set CXX to one";

// For all units. Kernels reinterpret memory; floating point is as on GPUs: no errno, no traps. The
// unwind tables let the host's exceptions through.
constexpr std::array kCommonOptions{"-std=c++20",
                                    "-shared",
                                    "-fPIC",
                                    "-pipe",
                                    "-march=native",
                                    "-fvisibility=hidden",
                                    "-fno-strict-aliasing",
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-fasynchronous-unwind-tables",
                                    "-fno-stack-protector",
                                    "-Werror=return-type",
                                    "-Wl,--build-id=none",
                                    "-Wl,-Bsymbolic",
                                    "-Wl,--as-needed"};
constexpr std::array kOfGcc{"-fno-gnu-unique",  // unique symbols keep an object loaded for good
                            "-fno-use-linker-plugin",
                            "-fmax-errors=20",
                            "-fno-diagnostics-color",
                            "-fno-diagnostics-show-caret",
                            "-fdiagnostics-column-unit=byte"};
constexpr std::array kOfClang{"-ferror-limit=20", "-fno-color-diagnostics",
                              "-fno-caret-diagnostics"};
constexpr std::array kOfGenerated{"-nostdinc", "-fno-exceptions", "-fno-rtti",
                                  "-fno-threadsafe-statics"};

constexpr std::array kOfRelaxedMath{"-fassociative-math", "-freciprocal-math", "-fno-signed-zeros"};

// How a compiler says that the processor computes with halves.
constexpr std::string_view kHalfInstructions = "-mavx512fp16";
constexpr std::string_view kHalfTrial = R"(
extern "C" void f(const _Float16* __restrict__ x, _Float16* __restrict__ y, unsigned n) {
  for (unsigned i = 0; i < n; ++i) y[i] = x[i] > _Float16(0) ? x[i] : _Float16(0);
}
)";

template <size_t kCount>
void append(std::vector<std::string>& to, const std::array<const char*, kCount>& flags) {
  to.insert(to.end(), flags.begin(), flags.end());
}

// The line that says the version, and its first number.
bool find_version(std::string_view output, std::string_view mark, std::string& line,
                  unsigned& major) {
  while (!output.empty()) {
    const std::string_view candidate = take_line(output);
    const size_t at = candidate.find(mark);
    if (at == std::string_view::npos) continue;
    const std::string_view number = candidate.substr(at + mark.size());
    if (std::from_chars(number.data(), number.data() + number.size(), major).ec != std::errc()) {
      continue;
    }
    line = candidate;
    while (line.ends_with(' ')) line.pop_back();
    return true;
  }
  return false;
}

// What a unit includes beside itself, from the compiler's list for make; empty where nothing.
std::string included_by(const PrivateFolder& folder) {
  const Result<std::string> list = folder.read(kIncluded);
  if (!list) return {};
  const size_t colon = list.value().find(':');
  if (colon == std::string::npos) return {};
  for (const std::string& word : words_of(list.value().substr(colon + 1))) {
    if (word != kSource && word != "\\") return word;
  }
  return {};
}

// Whether the line begins with a file and the number of a line in it, and so may repeat words of
// the text.
bool has_place(std::string_view line) {
  for (size_t at = line.find(':'); at != std::string_view::npos; at = line.find(':', at + 1)) {
    const size_t end = line.find_first_not_of("0123456789", at + 1);
    if (end != std::string_view::npos && end != at + 1 && line[end] == ':') return true;
  }
  return false;
}

enum class Trouble { none, room, installation };

// What keeps the compiler from its work, by what it says; none where it has something against the
// text.
Trouble find_trouble(std::string_view messages) {
  static constexpr std::array<std::string_view, 9> kRoom{
      "No space left on device",  "Disk quota exceeded", "Read-only file system",
      "Cannot allocate memory",   "out of memory",       "virtual memory exhausted",
      "Killed signal terminated", "signal 9 [Killed]",   "command: Killed"};
  static constexpr std::array<std::string_view, 7> kInstallation{
      "cannot execute",
      "cannot find",
      "unable to execute command: Executable",
      "Permission denied",
      "while loading shared libraries",
      "unrecognized command-line option",
      "unknown argument"};
  const auto says = [](std::string_view line, const auto& marks) {
    return std::ranges::any_of(marks, [&](std::string_view mark) { return has(line, mark); });
  };
  Trouble found = Trouble::none;
  while (!messages.empty()) {
    const std::string_view line = take_line(messages);
    if (has_place(line)) {
      // The compiler proper names the line it has come to when nobody takes what it writes.
      if (has(line, " error: ") && !has(line, "fatal error: error writing to ")) {
        return Trouble::none;
      }
    } else if (says(line, kRoom)) {
      found = Trouble::room;
    } else if (found == Trouble::none && says(line, kInstallation)) {
      found = Trouble::installation;
    }
  }
  return found;
}

Failure unfinished(const std::string& compiler, Trouble trouble, int signal,
                   std::string_view said) {
  std::string why = "no room";
  if (signal != 0) why = fmt::format("signal {}", signal);
  std::string_view advice = "make room in TMPDIR and in memory, then try again";
  if (trouble == Trouble::installation) {
    why = "something of it is missing";
    advice =
        "see that all of it is installed, for example with: apt-get install g++, that PATH leads "
        "to its programs, and that CXX is right";
  }
  while (said.ends_with('\n')) said.remove_suffix(1);
  return Failure(ErrorCode::environment,
                 fmt::format("the compiler '{}' could not finish ({}); {}{}{}", compiler, why,
                             advice, said.empty() ? "" : ". It said:\n", said));
}

struct Known {
  sync::LeafMutex mutex;  // guards compilers
  std::map<std::string, std::shared_ptr<const CppCompiler>> compilers HOLDFAST_GUARDED_BY(mutex);
};
Known& known() {
  static PerProcess<Known> of_process;
  return of_process.get();
}

}  // namespace

Result<std::shared_ptr<const CppCompiler>> CppCompiler::probe(std::vector<std::string> command) {
  // Says its version, and the flags that it would give to the compiler proper.
  Subprocess process{command, "/", tool_environment()};
  for (const char* argument : {"-march=native", "-###", "-E", "-x", "c++", "/dev/null"}) {
    process.command.emplace_back(argument);
  }
  Result<SubprocessResult> result = run(process);
  if (!result) return result.failure();
  const std::string& output = result.value().output;
  std::shared_ptr<CppCompiler> compiler(new CppCompiler());
  unsigned major = 0;
  unsigned oldest = kOldestGcc;
  if (find_version(output, "clang version ", compiler->name_, major)) {
    compiler->family_ = Family::clang;
    oldest = kOldestClang;
  } else if (!find_version(output, "gcc version ", compiler->name_, major)) {
    return Failure(ErrorCode::environment,
                   fmt::format("'{}' is no compiler of the families g++ and clang++; {}",
                               fmt::join(command, " "), kInstall));
  }
  if (major < oldest) {
    return Failure(
        ErrorCode::environment,
        fmt::format("'{}' is too old to compile kernels: {}; g++ {} or clang++ {} is needed: {}",
                    fmt::join(command, " "), compiler->name_, kOldestGcc, kOldestClang, kInstall));
  }
  compiler->machine_ = to_string(Hasher().add(output).digest());
  compiler->command_ = std::move(command);
  compiler->environment_ = process.environment;
  if (compiler->family_ == Family::gcc && has(output, kHalfInstructions)) {
    // g++ 12 vectorises this to instructions that no assembler takes; older assemblers know none.
    const Result<CppOutcome> outcome = compiler->compile({std::string(kHalfTrial)}, {});
    if (!outcome || outcome.value().object.empty()) {
      compiler->avoided_.emplace_back("-mno-avx512fp16");
    }
  }
  return std::shared_ptr<const CppCompiler>(compiler);
}

Result<std::shared_ptr<const CppCompiler>> CppCompiler::find() {
  const std::string wanted = env::text("CXX").value_or("");
  const std::vector<std::vector<std::string>> added = added_cpp_compilers();
  const std::string key =
      fmt::format("{}\n{}\n{}", wanted, env::text("PATH").value_or(""), added.size());
  Known& cache = known();
  {
    sync::LeafLock lock(cache.mutex);
    if (const auto found = cache.compilers.find(key); found != cache.compilers.end()) {
      return found->second;
    }
  }
  std::vector<std::vector<std::string>> candidates{{"g++"}, {"c++"}, {"clang++"}};
  candidates.insert(candidates.end(), added.begin(), added.end());
  if (!wanted.empty()) candidates = {words_of(wanted)};
  Failure refused;
  for (std::vector<std::string>& candidate : candidates) {
    if (candidate.empty()) continue;
    const std::string path = find_program(candidate.front());
    if (path.empty()) continue;
    candidate.front() = path;
    Result<std::shared_ptr<const CppCompiler>> found = probe(std::move(candidate));
    if (found) {
      sync::LeafLock lock(cache.mutex);
      return cache.compilers.emplace(key, found.value()).first->second;
    }
    if (!refused) refused = found.failure();
  }
  if (refused) return refused;
  if (!wanted.empty()) {
    return Failure(ErrorCode::environment,
                   fmt::format("CXX is '{}', and there is no such program; {}", wanted, kInstall));
  }
  return Failure(ErrorCode::environment,
                 fmt::format("kernels for the CPU need a C++ compiler, and none of g++, c++ and "
                             "clang++ is on the PATH; {}",
                             kInstall));
}

std::vector<std::string> CppCompiler::flags(const CppUnit& unit, const CppOptions& options) const {
  std::vector<std::string> result;
  append(result, kCommonOptions);
  if (family_ == Family::gcc) {
    append(result, kOfGcc);
  } else {
    append(result, kOfClang);
  }
  result.insert(result.end(), avoided_.begin(), avoided_.end());
  if (unit.generated) append(result, kOfGenerated);
  if (unit.max_frame != 0) {
    if (family_ == Family::gcc) {
      result.push_back(fmt::format("-Werror=frame-larger-than={}", unit.max_frame));
    } else {
      result.push_back(fmt::format("-Wframe-larger-than={}", unit.max_frame));
      result.emplace_back("-Werror=frame-larger-than");
    }
    // Frames of several functions may still be too much together: they must meet the page below.
    result.emplace_back("-fstack-clash-protection");
  }
  if (unit.math == MathMode::fast) result.emplace_back("-ffast-math");
  if (unit.math == MathMode::relaxed) append(result, kOfRelaxedMath);
  // Behind -ffast-math, which decides it too.
  result.emplace_back(unit.contracts ? "-ffp-contract=fast" : "-ffp-contract=off");
  if (options.debug) {
    result.insert(result.end(), {"-O0", "-g", "-fno-omit-frame-pointer"});
  } else if (options.sanitize) {
    result.insert(result.end(), {"-O1", "-g1", "-fno-omit-frame-pointer"});
  } else {
    result.insert(result.end(), {"-O3", "-Wl,-s"});
  }
  if (options.sanitize) result.emplace_back("-fsanitize=address");
  // Without the start files, -ffast-math does not change how the whole process rounds.
  if (unit.generated || unit.math == MathMode::fast) result.emplace_back("-nostartfiles");
  return result;
}

std::string CppCompiler::version(const CppOptions& options) const {
  std::vector<std::string> all;
  for (const bool generated : {true, false}) {
    for (const std::string& flag : flags({.generated = generated}, options)) all.push_back(flag);
  }
  return fmt::format("{}; {}; {}; {}", name_, fmt::join(command_, " "), machine_,
                     fmt::join(all, " "));
}

Result<CppOutcome> CppCompiler::compile(const CppUnit& unit, const CppOptions& options) const {
  Result<PrivateFolder> made = PrivateFolder::make("compile a kernel");
  if (!made) return made.failure();
  const PrivateFolder folder = std::move(made).value();
  if (Failure full = folder.write(kSource, unit.text)) return full;

  Subprocess process{command_, folder.path(), environment_};
  for (std::string& flag : flags(unit, options)) process.command.push_back(std::move(flag));
  if (options.debug || options.sanitize) {
    process.command.push_back(
        fmt::format("-fdebug-prefix-map={}={}", folder.path(), folder_placeholder()));
  }
  process.command.insert(process.command.end(), {"-MMD", "-MF", std::string(kIncluded), "-o",
                                                 std::string(kObject), std::string(kSource)});
  if (unit.generated) {
    process.command.emplace_back("-nodefaultlibs");
    // Zig's clang would first build its C++ library, which takes a minute.
    if (family_ == Family::clang) process.command.emplace_back("-nostdlib++");
    // The sanitizer's functions are the process's own.
    if (!options.sanitize) process.command.emplace_back("-Wl,-z,defs");
    process.command.insert(process.command.end(), {"-lm", "-lc", "-lgcc"});
  }
  Result<SubprocessResult> run_of = run(process);
  if (!run_of) return run_of.failure();
  SubprocessResult& result = run_of.value();
  // Without a status, what it said has to tell.
  const Trouble trouble = result.signal != 0               ? Trouble::room
                          : result.status.value_or(1) != 0 ? find_trouble(result.output)
                                                           : Trouble::none;
  if (trouble != Trouble::none)
    return unfinished(command_.front(), trouble, result.signal, result.output);
  CppOutcome outcome;
  outcome.messages = std::move(result.output);
  if (result.status.value_or(0) != 0) return outcome;
  if (const std::string file = included_by(folder); !file.empty()) {
    outcome.messages = fmt::format(
        "error: the text includes the file '{}', which may change without anybody noticing; put "
        "what it needs of it into the text",
        file);
    return outcome;
  }
  // The status may have been taken by the application; the object alone tells then.
  const Result<std::string> object = folder.read(kObject);
  if (!object) return result.status ? object.failure() : Result<CppOutcome>(std::move(outcome));
  const auto bytes = std::as_bytes(std::span(object.value()));
  outcome.object.assign(bytes.begin(), bytes.end());
  return outcome;
}

std::string_view CppCompiler::folder_placeholder() {
  static const std::string placeholder = "/holdfast-kernel-" + std::string(1024, '-');
  return placeholder;
}

}  // namespace holdfast::kernel
