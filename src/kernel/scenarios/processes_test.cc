// Several processes and one cache folder. The other processes are holdfast_kernel_child.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/testing/child_program.h"
#include "holdfast/testing/temporary_folder.h"

namespace holdfast::kernel {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

struct Child {
  FILE* output = nullptr;
};

// Children that share a folder, which is gone with this.
class Children {
 public:
  // What it prints, with its exit status.
  Child start(int rounds) const {
    const std::string command = fmt::format(
        "HOLDFAST_CACHE_DIR='{}' HOLDFAST_DISK_CACHE=1 '{}' {} 2>&1", folder_.path().native(),
        holdfast::testing::child_program("holdfast_kernel_child").native(), rounds);
    return {popen(command.c_str(), "r")};  // NOLINT(cert-env33-c): a program of this build
  }
  static std::string finish(Child child) {
    std::string text;
    std::array<char, 256> buffer{};
    while (fgets(buffer.data(), buffer.size(), child.output) != nullptr) text += buffer.data();
    return text + fmt::format("status {}", pclose(child.output));
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file()) found.push_back(entry.path());
    }
    return found;
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST(KernelScenario, warp_1696_a_second_process_compiles_nothing) {
  const Children with;
  EXPECT_EQ(Children::finish(with.start(1)), "compiles 1, disk hits 0\nstatus 0");
  EXPECT_EQ(Children::finish(with.start(1)), "compiles 0, disk hits 1\nstatus 0");
  EXPECT_EQ(with.files().size(), 1U);
}

TEST(KernelScenario, mlir_aie_2621_many_processes_compile_the_same_key) {
  const Children with;
  for (int round = 0; round < 3; ++round) {
    std::vector<Child> children;
    for (int i = 0; i < 8; ++i) children.push_back(with.start(4));
    std::vector<std::string> said;
    for (const Child child : children) said.push_back(Children::finish(child));
    EXPECT_THAT(said, Each(AllOf(HasSubstr("compiles "), HasSubstr("status 0"))));
    EXPECT_EQ(with.files().size(), 1U) << "one artefact, and nothing temporary";
    fs::remove_all(with.files().front());
  }
}

// Whatever they read or find half written, each result is right.
TEST(KernelScenario, triton_2688_an_artefact_damaged_under_running_processes) {
  const Children with;
  EXPECT_EQ(Children::finish(with.start(1)), "compiles 1, disk hits 0\nstatus 0");
  std::vector<Child> children;
  for (int i = 0; i < 4; ++i) children.push_back(with.start(8));
  const fs::path artefact = with.files().front();
  for (uintmax_t size = 0; size < 740; size += 37) {
    std::error_code ignored;
    fs::resize_file(artefact, size, ignored);
  }
  std::vector<std::string> said;
  for (const Child child : children) said.push_back(Children::finish(child));
  EXPECT_THAT(said, Each(HasSubstr("status 0")));
  EXPECT_EQ(Children::finish(with.start(1)).find("status 0") != std::string::npos, true);
}

}  // namespace
}  // namespace holdfast::kernel
