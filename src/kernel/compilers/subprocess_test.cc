#include "holdfast/kernel/compilers/subprocess.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "holdfast/hal/unique_fd.h"
#include "holdfast/kernel/compilers/private_folder.h"

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
