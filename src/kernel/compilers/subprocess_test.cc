#include "holdfast/kernel/compilers/subprocess.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <memory>

#include "holdfast/hal/unique_fd.h"
#include "holdfast/kernel/compilers/private_folder.h"
#include "holdfast/testing/temporary_folder.h"
#include "holdfast/testing/variable.h"

namespace holdfast::kernel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Subprocess shell(const std::string& text) {
  return {{"/bin/sh", "-c", text}, "/", tool_environment()};
}

TEST(Subprocess, its_status_its_signal_and_what_it_says_come_back) {
  const SubprocessResult exits = run(shell("echo words >&2; echo dropped; exit 3")).or_raise();
  EXPECT_EQ(exits.status, 3);
  EXPECT_EQ(exits.output, "words\n");
  const SubprocessResult killed = run(shell("kill -9 $$")).or_raise();
  EXPECT_EQ(killed.status, std::nullopt);
  EXPECT_EQ(killed.signal, 9);
}

TEST(Subprocess, a_mebibyte_of_its_output_is_kept) {
  const SubprocessResult result =
      run(shell("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo >&2")).or_raise();
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.output, std::string(size_t{1} << 20, 'x'));
}

// Until it goes, standard input is a pipe into which nobody writes.
class SilentInput {
 public:
  SilentInput() : before_(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    const hal::UniqueFd read_end(ends[0]);
    writer_ = hal::UniqueFd(ends[1]);
    EXPECT_EQ(dup2(read_end.get(), STDIN_FILENO), STDIN_FILENO);
  }
  ~SilentInput() {
    if (before_) {
      dup2(before_.get(), STDIN_FILENO);
    } else {
      close(STDIN_FILENO);
    }
  }
  SilentInput(const SilentInput&) = delete;
  SilentInput& operator=(const SilentInput&) = delete;

 private:
  hal::UniqueFd before_;
  hal::UniqueFd writer_;
};

TEST(Subprocess, its_output_is_read_while_standard_input_has_nothing_to_say) {
  const SilentInput silent;
  Subprocess process = shell("head -c 300000 /dev/zero | tr '\\0' x >&2");
  process.limit = std::chrono::seconds(20);
  EXPECT_EQ(run(process).or_raise().output, std::string(300000, 'x'));
}

TEST(Subprocess, what_it_leaves_behind_is_not_waited_for) {
  const PrivateFolder folder = PrivateFolder::make("test").or_raise();
  const std::string fifo = folder.file("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  // The one left behind has the output open until this is closed.
  const hal::UniqueFd until(open(fifo.c_str(), O_RDWR | O_CLOEXEC));
  const SubprocessResult result =
      run(shell("cat " + fifo + " & echo words >&2; exit 4")).or_raise();
  EXPECT_EQ(result.status, 4);
  EXPECT_EQ(result.output, "words\n");
}

TEST(Subprocess, one_that_closes_its_output_is_waited_for) {
  const PrivateFolder folder = PrivateFolder::make("test").or_raise();
  Subprocess process = shell("exec 2>&-; head -c 3000000 /dev/zero > big; exit 5");
  process.folder = folder.path();
  EXPECT_EQ(run(process).or_raise().status, 5);
  EXPECT_EQ(std::filesystem::file_size(folder.file("big")), 3000000U);
}

TEST(Subprocess, past_its_limit_it_is_killed_with_a_message) {
  Subprocess process = shell("while :; do :; done");
  process.limit = sync::Duration::zero();
  const Result<SubprocessResult> result = run(process);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.failure().code(), ErrorCode::environment);
  EXPECT_THAT(result.failure().message(),
              AllOf(HasSubstr("'/bin/sh' did not end within 0 s"), HasSubstr("killed")));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

TEST(Subprocess, a_program_that_cannot_be_started_is_named) {
  const Result<SubprocessResult> result = run({{"/no/such/program"}, "/", {}});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.failure().message(), HasSubstr("cannot run '/no/such/program'"));
}

TEST(Subprocess, a_relative_path_to_a_program_becomes_absolute) {
  const std::string relative = std::filesystem::relative("/bin/sh");
  ASSERT_FALSE(relative.starts_with('/'));
  const std::string found = find_program(relative);
  EXPECT_TRUE(found.starts_with('/')) << found;
  EXPECT_EQ(run({{found, "-c", "exit 6"}, "/", {}}).or_raise().status, 6);
  EXPECT_EQ(find_program("no/such/program"), "");
}

TEST(Subprocess, its_environment_has_nothing_that_changes_what_a_compiler_makes) {
  const std::vector<const char*> left_out{"LC_ALL",
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
  std::vector<std::unique_ptr<testing::Variable>> set;
  for (const char* name : left_out) {
    set.push_back(std::make_unique<testing::Variable>(name, "/from/the/user"));
  }
  const testing::Variable kept("HOLDFAST_TEST_KEPT", "yes");
  const std::vector<std::string> environment = tool_environment();
  EXPECT_THAT(environment, ::testing::Not(::testing::Contains(HasSubstr("/from/the/user"))));
  EXPECT_THAT(environment, AllOf(::testing::Contains("LC_ALL=C"), ::testing::Contains("TMPDIR=."),
                                 ::testing::Contains("HOLDFAST_TEST_KEPT=yes")));
}

TEST(Subprocess, a_program_is_a_file_that_can_be_executed_in_an_absolute_folder_of_the_path) {
  const PrivateFolder folder = PrivateFolder::make("test").or_raise();
  const PrivateFolder second = PrivateFolder::make("test").or_raise();
  folder.write("plain", std::string_view("text")).raise_if_any();
  ASSERT_EQ(mkdir(folder.file("folder").c_str(), 0700), 0);
  for (const PrivateFolder* at : {&folder, &second}) {
    at->write("tool", std::string_view("#!/bin/sh\n")).raise_if_any();
    ASSERT_EQ(chmod(at->file("tool").c_str(), 0700), 0);
  }
  const std::string relative = std::filesystem::relative(second.path());
  const testing::Variable path("PATH",
                               (relative + "::" + folder.path() + ":" + second.path()).c_str());
  EXPECT_EQ(find_program("tool"), folder.file("tool")) << "the first, and no relative folder";
  EXPECT_EQ(find_program("plain"), "");
  EXPECT_EQ(find_program("folder"), "");
  EXPECT_EQ(find_program("absent"), "");
  EXPECT_EQ(find_program(folder.file("plain")), "");
}

TEST(PrivateFolder, only_the_user_enters_it_and_reads_its_files) {
  const PrivateFolder folder = PrivateFolder::make("test").or_raise();
  folder.write("file", std::string_view("a long text")).raise_if_any();
  folder.write("file", std::string_view("short")).raise_if_any();
  EXPECT_EQ(folder.read("file").or_raise(), "short");
  struct stat status {};
  ASSERT_EQ(stat(folder.path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0700U);
  ASSERT_EQ(stat(folder.file("file").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  const auto missing = folder.read("missing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.failure().code(), ErrorCode::environment);
  EXPECT_THAT(missing.failure().message(), HasSubstr(folder.path()));
  EXPECT_TRUE(folder.write("no/such/folder", std::string_view("x")));
}

TEST(PrivateFolder, assigning_another_removes_each_when_its_owner_goes) {
  std::string first;
  std::string second;
  {
    PrivateFolder a = PrivateFolder::make("test").or_raise();
    first = a.path();
    {
      PrivateFolder b = PrivateFolder::make("test").or_raise();
      second = b.path();
      a = std::move(b);
    }
    EXPECT_FALSE(std::filesystem::exists(first));
    EXPECT_TRUE(std::filesystem::exists(second));
  }
  EXPECT_FALSE(std::filesystem::exists(second));
}

TEST(PrivateFolder, folders_of_other_names_and_those_in_use_are_not_swept) {
  const holdfast::testing::TemporaryFolder place;
  const auto made = [&](const std::string& name) {
    std::filesystem::create_directory(place.path() / name);
    return place.path() / name;
  };
  const auto stale = made("holdfast-kernel-abcdef");
  std::filesystem::create_directory(stale / "inside");
  const std::vector<std::filesystem::path> others{
      made("holdfast-kernel-abcdefg"), made("holdfast-kernel-abcde"), made("holdfast-abcdef"),
      made("Holdfast-kernel-abcdef")};
  const auto link = place.path() / "holdfast-kernel-linked";
  std::filesystem::create_directory_symlink(others[0], link);
  const testing::Variable temporary("TMPDIR", place.path().c_str());
  const PrivateFolder folder = PrivateFolder::make("test").or_raise();
  EXPECT_FALSE(std::filesystem::exists(stale));
  for (const auto& other : others) EXPECT_TRUE(std::filesystem::exists(other)) << other;
  EXPECT_TRUE(std::filesystem::is_symlink(link));
}

TEST(PrivateFolder, a_forked_child_leaves_the_parents_files) {
  PrivateFolder folder = PrivateFolder::make("test").or_raise();
  const std::string path = folder.path();
  const pid_t child = fork();
  if (child == 0) {
    {
      const PrivateFolder dropped = std::move(folder);
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::exists(path));
  { const PrivateFolder dropped = std::move(folder); }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace holdfast::kernel
