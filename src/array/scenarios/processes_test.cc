// Several processes and one cache folder, through arrays. The other processes are
// holdfast_kernel_child.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "holdfast/testing/child_program.h"
#include "holdfast/testing/temporary_folder.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

// What the child's graph needs: its two kernels of one name, and the copy that makes its input
// contiguous.
constexpr size_t kKernels = 3;

// Children that share a folder, which is gone with this.
class Children {
 public:
  FILE* start(int rounds, const std::string& environment = {}) const {
    const std::string command =
        fmt::format("{} HOLDFAST_CACHE_DIR='{}' HOLDFAST_DISK_CACHE=1 '{}' {} arrays 2>&1",
                    environment, folder_.path().native(),
                    holdfast::testing::child_program("holdfast_kernel_child").native(), rounds);
    return popen(command.c_str(), "r");  // NOLINT(cert-env33-c): a program of this build
  }
  // What it printed, with its exit status.
  static std::string finish(FILE* child) {
    std::string text;
    std::array<char, 256> buffer{};
    while (fgets(buffer.data(), buffer.size(), child) != nullptr) text += buffer.data();
    return text + fmt::format("status {}", pclose(child));
  }
  // Without what a driver of Vulkan keeps for itself.
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      const bool of_driver = entry.path().extension() == ".pipelines";
      if (entry.is_regular_file() && !of_driver) found.push_back(entry.path());
    }
    return found;
  }

 private:
  testing::TemporaryFolder folder_;
};

std::string told(size_t compiles, size_t disk_hits) {
  return fmt::format("compiles {}, disk hits {}\nstatus 0", compiles, disk_hits);
}

TEST(Scenario, warp_1696_a_second_process_compiles_nothing) {
  const Children with;
  EXPECT_EQ(Children::finish(with.start(1)), told(kKernels, 0));
  EXPECT_EQ(Children::finish(with.start(1)), told(0, kKernels));
  EXPECT_EQ(with.files().size(), kKernels);
}

// cupy#7391: what differs from process to process, and decides no code, is not in the key.
TEST(Scenario, cupy_7391_a_process_with_another_environment_compiles_nothing) {
  const Children with;
  const testing::TemporaryFolder elsewhere;
  EXPECT_EQ(Children::finish(with.start(1)), told(kKernels, 0));
  const std::string folder = elsewhere.path().native();
  for (const std::string& environment :
       {fmt::format("cd '{}' &&", folder), fmt::format("TMPDIR='{}'", folder),
        std::string("LC_ALL=C.UTF-8 LANG=de_DE.UTF-8"), std::string("HOME=/nowhere COLUMNS=33"),
        std::string("HOLDFAST_LOG=kernels GCC_COLORS= UNHEARD_OF=1")}) {
    const std::string said = Children::finish(with.start(1, environment));
    EXPECT_THAT(said, HasSubstr(told(0, kKernels))) << environment;
  }
  EXPECT_EQ(with.files().size(), kKernels);
}

TEST(Scenario, mlir_aie_2621_many_processes_compile_the_same_keys) {
  const Children with;
  std::vector<FILE*> children;
  for (int i = 0; i < 8; ++i) children.push_back(with.start(2));
  std::vector<std::string> said;
  for (FILE* const child : children) said.push_back(Children::finish(child));
  EXPECT_THAT(said, Each(AllOf(HasSubstr("compiles "), HasSubstr("status 0"))));
  EXPECT_EQ(with.files().size(), kKernels) << "one artefact a kernel, and nothing temporary";
  EXPECT_EQ(Children::finish(with.start(1)), told(0, kKernels)) << "and none of them is torn";
}

// Whatever they read or find half written, each result is right, and the next start has repaired
// it.
TEST(Scenario, triton_2688_artefacts_damaged_under_running_processes) {
  const Children with;
  EXPECT_EQ(Children::finish(with.start(1)), told(kKernels, 0));
  const std::vector<fs::path> artefacts = with.files();
  std::vector<FILE*> children;
  for (int i = 0; i < 4; ++i) children.push_back(with.start(4));
  for (uintmax_t size = 0; size < 740; size += 37) {
    for (const fs::path& artefact : artefacts) {
      std::error_code ignored;
      fs::resize_file(artefact, size, ignored);
    }
  }
  std::vector<std::string> said;
  for (FILE* const child : children) said.push_back(Children::finish(child));
  EXPECT_THAT(said, Each(HasSubstr("status 0")));
  EXPECT_THAT(Children::finish(with.start(1)), HasSubstr("status 0"));
  EXPECT_EQ(Children::finish(with.start(1)), told(0, kKernels));
}

}  // namespace
}  // namespace holdfast
