#include "holdfast/kernel/compilers/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "holdfast/base/env.h"
#include "holdfast/base/sync/annotations.h"
#include "holdfast/base/sync/mutex.h"
#include "holdfast/hal/unique_fd.h"
#include "holdfast/kernel/compilers/descriptors.h"
#include "holdfast/kernel/compilers/per_process.h"

namespace holdfast::kernel {

namespace {

constexpr size_t kMaxOutput = size_t{1} << 20;
// How often a child is asked whether it has ended, where the system cannot tell by itself.
constexpr std::chrono::milliseconds kPollInterval{5};

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
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
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

// The read end of the child's stderr.
class Output {
 public:
  explicit Output(hal::UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const noexcept { return ended_ ? -1 : fd_.get(); }
  void read_some() {
    std::array<char, 4096> part{};
    const ssize_t got = ::read(fd_.get(), part.data(), part.size());
    if (got < 0 && (errno == EINTR)) return;
    if (got <= 0) {
      ended_ = true;
      return;
    }
    text_.append(part.data(), std::min(static_cast<size_t>(got), kMaxOutput - text_.size()));
    read_ += static_cast<size_t>(got);
  }
  // What is there now, and no more: another process may go on writing.
  void drain() {
    int there = 0;
    if (ioctl(fd_.get(), FIONREAD, &there) != 0 || there <= 0) return;
    const size_t end = read_ + static_cast<size_t>(there);
    while (!ended_ && read_ < end) read_some();
  }
  std::string take() { return std::move(text_); }

 private:
  hal::UniqueFd fd_;
  bool ended_ = false;
  size_t read_ = 0;
  std::string text_;
};

// Those that run. While a child is in here, its number is its own: it is reaped under the mutex.
struct Running {
  sync::LeafMutex mutex;  // guards all
  std::vector<pid_t> children HOLDFAST_GUARDED_BY(mutex);
  bool no_more HOLDFAST_GUARDED_BY(mutex) = false;
};
Running& running() {
  static PerProcess<Running> of_process;
  return of_process.get();
}

// Reads until the child has ended: false where the limit came first, and the child was killed.
bool wait_for(pid_t child, Output& output, sync::Duration limit, SubprocessResult& result) {
  const auto take_status = [&](int flags) {
    int status = 0;
    pid_t waited = 0;
    Running& all = running();
    const sync::LeafLock lock(all.mutex);
    do {
      waited = waitpid(child, &status, flags);
    } while (waited < 0 && errno == EINTR);
    if (waited != 0) std::erase(all.children, child);
    if (waited == child && WIFEXITED(status)) result.status = WEXITSTATUS(status);
    if (waited == child && WIFSIGNALED(status)) result.signal = WTERMSIG(status);
    return waited != 0;
  };
  const hal::UniqueFd ended(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  const sync::TimePoint end = sync::now() + limit;
  for (;;) {
    const auto left = std::max(std::chrono::ceil<std::chrono::milliseconds>(end - sync::now()),
                               std::chrono::milliseconds(0));
    std::array<pollfd, 2> events{pollfd{output.fd(), POLLIN, 0}, pollfd{ended.get(), POLLIN, 0}};
    const int ready =
        poll(events.data(), events.size(),
             static_cast<int>((ended ? left : std::min(left, kPollInterval)).count()));
    if (events[0].revents != 0) output.read_some();
    if (events[1].revents != 0 || !ended) {
      if (take_status(WNOHANG)) break;
    }
    // Asked for once more, so that a child that has ended meanwhile, and its number, are not hit.
    if (left.count() == 0 || (ready == 0 && ended)) {
      if (take_status(WNOHANG)) break;
      kill(-child, SIGKILL);
      take_status(0);
      return false;
    }
  }
  output.drain();
  return true;
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
  hal::UniqueFd output_end(ends[0]);
  hal::UniqueFd input(ends[1]);
  output_end = off_standard(std::move(output_end));
  if (!output_end) return refused(errno);
  input = off_standard(std::move(input));
  if (!input) return refused(errno);
  Output output(std::move(output_end));
  pid_t child = 0;
  {
    const SpawnSettings settings(process.folder, input.get());
    const std::vector<char*> arguments = pointers(process.command);
    const std::vector<char*> environment = pointers(process.environment);
    // Under the mutex: nobody misses a child that has been started.
    Running& all = running();
    const sync::LeafLock lock(all.mutex);
    if (all.no_more) {
      return Failure(ErrorCode::closed, fmt::format("'{}' was not started: the process is ending",
                                                    process.command.front()));
    }
    all.children.reserve(all.children.size() + 1);
    const int error = posix_spawn(&child, process.command.front().c_str(), settings.actions(),
                                  settings.attributes(), arguments.data(), environment.data());
    if (error != 0) return refused(error);
    all.children.push_back(child);
  }
  input = hal::UniqueFd();  // so that the output ends with those who write it
  SubprocessResult result;
  if (!wait_for(child, output, process.limit, result)) {
    return Failure(
        ErrorCode::environment,
        fmt::format("'{}' did not end within {} s, and was killed; see what it waits for, or what "
                    "makes it work so long",
                    process.command.front(),
                    std::chrono::duration_cast<std::chrono::seconds>(process.limit).count()));
  }
  result.output = output.take();
  return result;
}

void end_subprocesses() noexcept {
  Running& all = running();
  const sync::LeafLock lock(all.mutex);
  all.no_more = true;
  for (const pid_t child : all.children) {
    // Where the application has its children reaped for it, one that has ended may be gone.
    siginfo_t state{};
    const bool ours =
        waitid(P_PID, static_cast<id_t>(child), &state, WEXITED | WNOHANG | WNOWAIT) == 0;
    if (ours) kill(-child, SIGKILL);
  }
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
  if (name.find('/') != std::string::npos) {
    std::error_code error;
    return runs(name) ? std::filesystem::absolute(name, error).string() : std::string();
  }
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
