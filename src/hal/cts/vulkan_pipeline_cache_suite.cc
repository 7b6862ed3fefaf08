#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "holdfast/base/log.h"
#include "holdfast/hal/cts/vulkan_cts.h"
#include "holdfast/testing/variable.h"

// Compiled pipelines on disk: a file for each device and driver, in the cache folder.

namespace holdfast::hal::cts {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

using holdfast::testing::Variable;

class VulkanPipelineCache : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = testing::why_no_vulkan(); !why.empty()) GTEST_SKIP() << why;
    std::string pattern = (fs::temp_directory_path() / "holdfast-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    logging::set_sink([this](const logging::Message& message) {
      if (message.warning) warnings_.emplace_back(message.text);
    });
  }
  void TearDown() override {
    logging::set_sink({});
    fs::remove_all(folder_);
  }

  // Opens a device, makes a kernel and closes the device.
  void use_a_device() {
    const Variable on("HOLDFAST_DISK_CACHE", "1");
    const Variable where("HOLDFAST_CACHE_DIR", folder_.c_str());
    make_a_kernel();
  }
  static void make_a_kernel() {
    const auto device = testing::open_vulkan({.queues = 1}).or_raise();
    const auto made = device->create_pipeline({"increment", spirv_of("increment"), 1, {}});
    EXPECT_TRUE(made.ok()) << made.failure().message();
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path());
    return found;
  }
  static std::string content(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path folder_;
  std::vector<std::string> warnings_;
};

TEST_F(VulkanPipelineCache, is_written_when_the_device_closes_and_private_to_the_user) {
  use_a_device();
  ASSERT_EQ(files().size(), 1U);
  EXPECT_THAT(files()[0].filename().string(), HasSubstr("vulkan-"));
  EXPECT_EQ(fs::status(files()[0]).permissions() & (fs::perms::group_all | fs::perms::others_all),
            fs::perms::none);
  use_a_device();
  EXPECT_EQ(files().size(), 1U);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(VulkanPipelineCache, that_is_damaged_is_reported_and_replaced) {
  use_a_device();
  ASSERT_EQ(files().size(), 1U);
  const std::string good = content(files()[0]);
  std::string bad = good;
  bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 0x10);
  std::ofstream(files()[0], std::ios::binary | std::ios::trunc) << bad;
  use_a_device();
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr(files()[0].string()));
  EXPECT_EQ(content(files()[0]).size(), good.size());
  use_a_device();
  EXPECT_EQ(warnings_.size(), 1U) << "not replaced";
}

TEST_F(VulkanPipelineCache, is_not_there_where_it_is_turned_off) {
  {
    const Variable off("HOLDFAST_DISK_CACHE", "0");
    const Variable where("HOLDFAST_CACHE_DIR", folder_.c_str());
    make_a_kernel();
  }
  EXPECT_TRUE(files().empty());
}

TEST_F(VulkanPipelineCache, that_cannot_be_written_costs_nobody_anything) {
  std::ofstream(folder_ / "file") << "in the way";
  const Variable on("HOLDFAST_DISK_CACHE", "1");
  const Variable where("HOLDFAST_CACHE_DIR", (folder_ / "file" / "folder").c_str());
  make_a_kernel();
  EXPECT_EQ(files().size(), 1U);
}

}  // namespace
}  // namespace holdfast::hal::cts
