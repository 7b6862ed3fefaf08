#include "holdfast/kernel/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "holdfast/kernel/scenarios/adding_target_test.h"
#include "holdfast/testing/rig.h"

namespace holdfast::kernel {
namespace {

using ::testing::HasSubstr;

// Adds N; with N = 13 it does not compile.
class Superstitious final : public WrappingTarget {
 public:
  Superstitious() : WrappingTarget(std::make_shared<AddingTarget>()) {}
  Result<Code> compile(const CompileJob& job) override {
    compiles.fetch_add(1);
    if (job.variant.find("N = 13") != std::string::npos) {
      return Failure(ErrorCode::usage, "thirteen is refused");
    }
    return WrappingTarget::compile(job);
  }
  std::atomic<int> compiles{0};
};

class ResolverTest : public ::testing::Test {
 protected:
  KernelRuntime runtime(size_t most) {
    return {rig_.context, {.limits = {.variants = most}, .target = target_, .disk = nullptr}};
  }
  // Whether the variant of N is there.
  const PreparedLaunch* find(KernelRuntime& kernels, int64_t n) {
    const std::array<int64_t, 1> shape{1};
    const std::array inputs{ArrayRef({}, Dtype::float32, shape)};
    const std::array outputs{ArrayRef({}, Dtype::float32, shape)};
    const std::array constants{Constant{"N", n}};
    return resolver_.find(kernels, kernel_,
                          {.inputs = inputs,
                           .outputs = outputs,
                           .grid = {1, 1, 1},
                           .threadgroup = {1, 1, 1},
                           .constants = constants});
  }
  int compiles() const { return target_->compiles.load(); }

  holdfast::testing::Rig rig_;
  std::shared_ptr<Superstitious> target_ = std::make_shared<Superstitious>();
  const Kernel kernel_ =
      Kernel({.name = "k", .inputs = {"a"}, .outputs = {"y"}, .source = "y[0] = a[0] + N;"});
  Resolver resolver_;
};

TEST_F(ResolverTest, what_is_missing_is_noted_once_and_there_after_it_was_resolved) {
  KernelRuntime kernels = runtime(8);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(find(kernels, 1), nullptr);
    EXPECT_EQ(find(kernels, 2), nullptr);
  }
  EXPECT_EQ(resolver_.missing(), 2U);
  EXPECT_FALSE(resolver_.resolve(2));
  EXPECT_EQ(resolver_.missing(), 0U);
  EXPECT_NE(find(kernels, 1), nullptr);
  EXPECT_NE(find(kernels, 2), nullptr);
  EXPECT_NE(find(kernels, 1), find(kernels, 2));
  EXPECT_EQ(compiles(), 2);
}

TEST_F(ResolverTest, what_was_noted_can_be_forgotten) {
  KernelRuntime kernels = runtime(8);
  EXPECT_EQ(find(kernels, 1), nullptr);
  resolver_.forget();
  EXPECT_EQ(resolver_.missing(), 0U);
  EXPECT_FALSE(resolver_.resolve(0));
  EXPECT_EQ(compiles(), 0);
}

TEST_F(ResolverTest, a_failure_is_told_where_it_is_needed_and_not_compiled_again) {
  KernelRuntime kernels = runtime(8);
  EXPECT_EQ(find(kernels, 1), nullptr);
  EXPECT_EQ(find(kernels, 13), nullptr);
  EXPECT_FALSE(resolver_.resolve(1)) << "the second is compiled ahead";
  EXPECT_EQ(compiles(), 2);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(find(kernels, 13), nullptr);
    EXPECT_THAT(resolver_.resolve(1).message(), HasSubstr("thirteen"));
  }
  EXPECT_EQ(compiles(), 2);
}

TEST_F(ResolverTest, a_failure_of_one_alone_is_remembered_too) {
  KernelRuntime kernels = runtime(8);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(find(kernels, 13), nullptr);
    EXPECT_THAT(resolver_.resolve(1).message(), HasSubstr("thirteen"));
  }
  EXPECT_EQ(compiles(), 1);
}

TEST_F(ResolverTest, in_its_scope_a_variant_stays_whatever_the_cache_keeps) {
  KernelRuntime kernels = runtime(1);
  {
    const Resolver::Scope outer(resolver_);
    EXPECT_EQ(find(kernels, 1), nullptr);
    EXPECT_FALSE(resolver_.resolve(1));
    {
      const Resolver::Scope inner(resolver_);
      for (int64_t n = 2; n < 10; ++n) {
        EXPECT_EQ(find(kernels, n), nullptr);
        EXPECT_FALSE(resolver_.resolve(1));
        EXPECT_NE(find(kernels, n), nullptr);
      }
    }
    EXPECT_NE(find(kernels, 1), nullptr);
  }
  EXPECT_EQ(compiles(), 9);
}

TEST_F(ResolverTest, more_than_the_cache_keeps_is_enough) {
  KernelRuntime kernels = runtime(2);
  EXPECT_FALSE(resolver_.has_enough());
  EXPECT_EQ(find(kernels, 1), nullptr);
  EXPECT_FALSE(resolver_.has_enough());
  EXPECT_EQ(find(kernels, 2), nullptr);
  EXPECT_TRUE(resolver_.has_enough());
}

TEST_F(ResolverTest, what_is_known_to_fail_does_not_count_towards_enough) {
  KernelRuntime kernels = runtime(2);
  EXPECT_EQ(find(kernels, 13), nullptr);
  EXPECT_TRUE(resolver_.resolve(1));
  EXPECT_EQ(find(kernels, 13), nullptr);
  EXPECT_EQ(find(kernels, 1), nullptr);
  EXPECT_EQ(resolver_.missing(), 2U);
  EXPECT_FALSE(resolver_.has_enough());
}

TEST_F(ResolverTest, two_devices_have_variants_of_their_own) {
  KernelRuntime kernels = runtime(8);
  KernelRuntime others = runtime(8);
  for (const int64_t n : {1, 2}) EXPECT_EQ(find(kernels, n), nullptr);
  for (const int64_t n : {1, 13}) EXPECT_EQ(find(others, n), nullptr);
  EXPECT_EQ(resolver_.missing(), 4U);
  EXPECT_FALSE(resolver_.resolve(3));
  EXPECT_NE(find(kernels, 1), find(others, 1));
  EXPECT_NE(find(kernels, 2), nullptr);
  EXPECT_EQ(find(others, 13), nullptr);
  EXPECT_THAT(resolver_.resolve(1).message(), HasSubstr("thirteen"));
  EXPECT_EQ(compiles(), 4);
}

}  // namespace
}  // namespace holdfast::kernel
