#include "holdfast/hal/cuda/cuda_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "holdfast/base/sync/mutex.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/testing/stub_cuda.h"
#include "holdfast/testing/temporary_folder.h"
#include "holdfast/testing/variable.h"

namespace holdfast::hal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CudaApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = testing::why_no_stub_cuda(); !why.empty()) GTEST_SKIP() << why;
    testing::stub_cuda_control().reset();
  }
  void TearDown() override {
    if (testing::why_no_stub_cuda().empty()) testing::stub_cuda_control().reset();
  }

  static testing::StubControl& stub() { return testing::stub_cuda_control(); }

  // A name of its own for the stub, under which nobody has loaded it yet.
  std::string new_path() {
    const auto path = folder_.path() / ("driver" + std::to_string(++paths_) + ".so");
    std::filesystem::create_symlink(testing::stub_cuda_path(), path);
    return path.native();
  }
  // The message with which the driver is refused.
  static std::string refused(const std::string& path) {
    const auto loaded = CudaApi::load(path);
    EXPECT_FALSE(loaded.ok());
    if (loaded.ok()) return {};
    EXPECT_EQ(loaded.failure().code(), ErrorCode::environment);
    return loaded.failure().message();
  }

 private:
  testing::TemporaryFolder folder_;
  int paths_ = 0;
};

TEST_F(CudaApiTest, a_loaded_driver_is_initialized_and_has_every_call) {
  const auto api = CudaApi::load(new_path()).or_raise();
  EXPECT_EQ(api->version(), 12080);
#define HOLDFAST_EXPECT_CALL(name, version, parameters) EXPECT_NE(api->calls().name, nullptr);
  HOLDFAST_CUDA_CALLS(HOLDFAST_EXPECT_CALL)
#undef HOLDFAST_EXPECT_CALL
  int count = 0;
  EXPECT_EQ(api->calls().cuDeviceGetCount(&count), cu::CUDA_SUCCESS);
  EXPECT_EQ(count, 1);
}

TEST_F(CudaApiTest, equal_paths_share_one_driver_which_is_initialized_once) {
  const std::string path = new_path();
  const auto first = CudaApi::load(path).or_raise();
  EXPECT_EQ(CudaApi::load(path).or_raise(), first);
  EXPECT_NE(CudaApi::load(new_path()).or_raise(), first);
  EXPECT_EQ(stub().calls("cuInit"), 2U);
}

TEST_F(CudaApiTest, threads_that_load_it_at_once_share_one_driver) {
  const std::string path = new_path();
  sync::Guarded<std::vector<std::shared_ptr<const CudaApi>>> loaded;
  {
    std::vector<sync::Thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back("loads", [&] {
        auto api = CudaApi::load(path).or_raise();
        loaded.lock()->push_back(std::move(api));
      });
    }
  }
  const auto all = loaded.lock();
  ASSERT_EQ(all->size(), 4U);
  EXPECT_THAT(*all, ::testing::Each(all->front()));
}

TEST_F(CudaApiTest, the_environment_names_the_driver) {
  const testing::Variable variable("HOLDFAST_CUDA_DRIVER", "/nowhere/libcuda.so");
  EXPECT_THAT(refused(""), HasSubstr("/nowhere/libcuda.so"));
}

TEST_F(CudaApiTest, a_missing_library_is_named_with_what_to_install) {
  EXPECT_THAT(
      refused("/nowhere/libcuda.so.1"),
      AllOf(HasSubstr("'/nowhere/libcuda.so.1' could not be loaded"),
            HasSubstr("Install NVIDIA's driver 525 or newer"), HasSubstr("HOLDFAST_CUDA_DRIVER")));
}

TEST_F(CudaApiTest, a_library_that_is_no_driver_is_refused) {
  EXPECT_THAT(refused("libm.so.6"), AllOf(HasSubstr("'libm.so.6' is not NVIDIA's driver"),
                                          HasSubstr("driver 525 or newer")));
}

TEST_F(CudaApiTest, an_old_driver_is_told_its_version_and_the_one_that_is_needed) {
  stub().set_driver_version(11080);
  EXPECT_THAT(refused(new_path()), AllOf(HasSubstr("is of CUDA 11.8"), HasSubstr("needs CUDA 12.0"),
                                         HasSubstr("driver 525 or newer")));
}

TEST_F(CudaApiTest, missing_calls_are_named) {
  stub().hide("cuGraphLaunch");
  stub().hide("cuMemFreeAsync");
  stub().hide("cuStreamWriteValue64");
  EXPECT_THAT(refused(new_path()), HasSubstr("of CUDA 12.8, lacks cuMemFreeAsync, cuGraphLaunch."));
}

TEST_F(CudaApiTest, optional_calls_may_be_missing) {
  for (const char* call : {"cuStreamWriteValue64", "cuStreamWaitValue64", "cuGraphAddDependencies",
                           "cuMemPoolTrimTo"}) {
    EXPECT_TRUE(CudaApi::is_optional(call)) << call;
    stub().hide(call);
  }
  EXPECT_FALSE(CudaApi::is_optional("cuGraphLaunch"));
  const auto api = CudaApi::load(new_path()).or_raise();
  EXPECT_EQ(api->calls().cuStreamWriteValue64, nullptr);
  EXPECT_EQ(api->calls().cuStreamWaitValue64, nullptr);
  EXPECT_EQ(api->calls().cuGraphAddDependencies, nullptr);
  EXPECT_EQ(api->calls().cuMemPoolTrimTo, nullptr);
  EXPECT_NE(api->calls().cuGraphLaunch, nullptr);
}

TEST_F(CudaApiTest, the_first_supported_driver_lacks_what_came_later) {
  stub().set_driver_version(12000);
  const auto api = CudaApi::load(new_path()).or_raise();
  EXPECT_EQ(api->version(), 12000);
  EXPECT_EQ(api->calls().cuGraphAddDependencies, nullptr);
}

TEST_F(CudaApiTest, a_driver_that_does_not_start_says_why_and_may_start_later) {
  const std::string path = new_path();
  stub().set_devices({});
  EXPECT_THAT(refused(path),
              AllOf(HasSubstr("does not start: CUDA_ERROR_NO_DEVICE"), HasSubstr("nvidia-smi")));
  stub().reset();
  EXPECT_TRUE(CudaApi::load(path).ok());
}

TEST_F(CudaApiTest, results_have_names_and_texts) {
  const auto api = CudaApi::load(new_path()).or_raise();
  EXPECT_EQ(api->describe(cu::CUDA_ERROR_OUT_OF_MEMORY),
            "CUDA_ERROR_OUT_OF_MEMORY (there is not enough memory)");
  EXPECT_EQ(api->describe(54321), "CUresult 54321");
}

}  // namespace
}  // namespace holdfast::hal
