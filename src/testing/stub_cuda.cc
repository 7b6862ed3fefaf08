#include "holdfast/testing/stub_cuda.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "holdfast/base/env.h"
#include "holdfast/base/error.h"

namespace holdfast::testing {
namespace {

constinit std::atomic<StubControl*> loaded_stub{nullptr};

class StubListener final : public ::testing::EmptyTestEventListener {
  // NOLINTBEGIN(readability-identifier-naming): names of GoogleTest
  void OnTestEnd(const ::testing::TestInfo&) override { fail_for_violations(); }
  void OnTestIterationEnd(const ::testing::UnitTest&, int) override { fail_for_violations(); }
  // NOLINTEND(readability-identifier-naming)

  static void fail_for_violations() {
    StubControl* const stub = loaded_stub.load();
    if (stub == nullptr) return;
    for (const std::string& text : stub->take_violations()) {
      ADD_FAILURE() << "the stub CUDA driver: " << text;
    }
  }
};

const bool kListeningToStub = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new StubListener);
  return true;
}();

Result<StubControl*> load_stub() {
  if (StubControl* const stub = loaded_stub.load()) return stub;
  const std::string path = stub_cuda_path();
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Failure(ErrorCode::environment,
                   fmt::format("the stub CUDA driver '{}' could not be loaded ({}); build the "
                               "target holdfast_stub_cuda, or name its file in HOLDFAST_STUB_CUDA",
                               path, dlerror()));
  }
  using Find = StubControl* (*)();
  const auto find = reinterpret_cast<Find>(dlsym(library, "holdfast_stub_cuda_control"));
  if (find == nullptr) {
    return Failure(
        ErrorCode::environment,
        fmt::format("'{}' is not the stub CUDA driver; name it in HOLDFAST_STUB_CUDA", path));
  }
  StubControl* const stub = find();
  loaded_stub.store(stub);
  return stub;
}

}  // namespace

std::string stub_cuda_path() {
  if (auto named = env::text("HOLDFAST_STUB_CUDA")) return *named;
  std::error_code ignored;
  return (std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() /
          "libholdfast_stub_cuda.so")
      .native();
}

std::string why_no_stub_cuda() {
  if (env::text("HOLDFAST_STUB_CUDA")) return {};
  const auto loaded = load_stub();
  return loaded ? std::string() : loaded.failure().message();
}

StubControl& stub_cuda_control() { return *load_stub().or_raise(); }

std::string stub_cuda_module(const std::vector<std::string>& kernels) {
  std::string image = "holdfast stub module\n";
  for (const std::string& kernel : kernels) image += kernel + "\n";
  return image;
}

}  // namespace holdfast::testing
