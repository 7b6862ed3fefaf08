#include "holdfast/kernel/compilers/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <system_error>

#include "holdfast/base/env.h"
#include "holdfast/hal/unique_fd.h"

namespace holdfast::kernel {

namespace {

constexpr size_t kMaxOutput = size_t{1} << 20;

class SpawnSettings {
 public:
  SpawnSettings(const std::string& folder, int output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
    posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str());
    // Threads of ours block signals, which a program would inherit.
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* actions() const noexcept { return &actions_; }
  const posix_spawnattr_t* attributes() const noexcept { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& s : strings) result.push_back(const_cast<char*>(s.c_str()));
  result.push_back(nullptr);
  return result;
}

void read_all(int from, std::string& to) {
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t got = ::read(from, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    to.append(part.data(), std::min(static_cast<size_t>(got), kMaxOutput - to.size()));
  }
}

}  // namespace

Result<SubprocessResult> run(const Subprocess& process) {
  const auto refused = [&](int error) {
    return Failure(ErrorCode::environment,
                   fmt::format("cannot run '{}': {}", process.command.front(),
                               std::generic_category().message(error)));
  };
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return refused(errno);
  const hal::UniqueFd output(ends[0]);
  hal::UniqueFd input(ends[1]);
  pid_t child = 0;
  {
    const SpawnSettings settings(process.folder, input.get());
    const std::vector<char*> arguments = pointers(process.command);
    const std::vector<char*> environment = pointers(process.environment);
    const int error = posix_spawn(&child, process.command.front().c_str(), settings.actions(),
                                  settings.attributes(), arguments.data(), environment.data());
    if (error != 0) return refused(error);
  }
  input = hal::UniqueFd();  // the child's end alone is open, so that the output ends with it
  SubprocessResult result;
  read_all(output.get(), result.output);
  int status = 0;
  pid_t waited = 0;
  do {
    waited = waitpid(child, &status, 0);
  } while (waited < 0 && errno == EINTR);
  if (waited == child && WIFEXITED(status)) result.status = WEXITSTATUS(status);
  if (waited == child && WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

std::vector<std::string> tool_environment() {
  static constexpr std::array<std::string_view, 20> kLeftOut{"LC_ALL",
                                                             "LANG",
                                                             "LANGUAGE",
                                                             "TMPDIR",
                                                             "TMP",
                                                             "TEMP",
                                                             "CPATH",
                                                             "C_INCLUDE_PATH",
                                                             "CPLUS_INCLUDE_PATH",
                                                             "LIBRARY_PATH",
                                                             "COMPILER_PATH",
                                                             "GCC_EXEC_PREFIX",
                                                             "GCC_COLORS",
                                                             "GCC_URLS",
                                                             "DEPENDENCIES_OUTPUT",
                                                             "SUNPRO_DEPENDENCIES",
                                                             "LD_PRELOAD",
                                                             "CCC_OVERRIDE_OPTIONS",
                                                             "LD_RUN_PATH",
                                                             "SOURCE_DATE_EPOCH"};
  std::vector<std::string> result{"LC_ALL=C", "TMPDIR=."};
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const std::string_view name = variable.substr(0, variable.find('='));
    if (std::ranges::find(kLeftOut, name) == kLeftOut.end()) result.emplace_back(variable);
  }
  return result;
}

std::string find_program(const std::string& name) {
  const auto runs = [](const std::string& path) {
    struct stat status {};
    return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
           access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) return runs(name) ? name : std::string();
  const std::string path = env::text("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  std::string_view rest = path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const std::string_view folder = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    // A relative folder would be looked up in whichever one the program runs.
    if (!folder.starts_with('/')) continue;
    if (std::string found = fmt::format("{}/{}", folder, name); runs(found)) return found;
  }
  return {};
}

}  // namespace holdfast::kernel
