#include "holdfast/base/ablation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "holdfast/base/error.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

class AblationTest : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("HOLDFAST_ABLATE"); }
};

TEST_F(AblationTest, without_the_variable_nothing_is_switched_on) {
  unsetenv("HOLDFAST_ABLATE");
  EXPECT_NO_THROW(read_safety_overrides());
  EXPECT_FALSE(ablated(Ablation::bound_not_held));
  EXPECT_FALSE(ablated(Ablation::fifo_of_three_drains));
  EXPECT_FALSE(ablated(Ablation::drain_every_32_flushes));
}

#ifdef HOLDFAST_ABLATIONS

// Whatever a test switches on, this takes back.
class AblationSwitchTest : public AblationTest {
 protected:
  void SetUp() override { before_ = internal::ablation_bits.exchange(0); }
  void TearDown() override {
    internal::ablation_bits = before_;
    AblationTest::TearDown();
  }

 private:
  uint64_t before_ = 0;
};

TEST_F(AblationSwitchTest, every_token_switches_on_its_ablation_alone) {
  for (unsigned i = 0; i < kAblationCount; ++i) {
    const std::string token(ablation_token(static_cast<Ablation>(i)));
    EXPECT_EQ(token.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos);
    setenv("HOLDFAST_ABLATE", token.c_str(), 1);
    internal::ablation_bits = 0;
    read_safety_overrides();
    for (unsigned k = 0; k < kAblationCount; ++k) {
      EXPECT_EQ(ablated(static_cast<Ablation>(k)), k == i) << token;
    }
  }
}

TEST_F(AblationSwitchTest, several_tokens_switch_on_several) {
  setenv("HOLDFAST_ABLATE", "bound-not-held, drain-every-32-flushes", 1);
  read_safety_overrides();
  EXPECT_TRUE(ablated(Ablation::bound_not_held));
  EXPECT_FALSE(ablated(Ablation::fifo_of_three_drains));
  EXPECT_TRUE(ablated(Ablation::drain_every_32_flushes));
}

TEST_F(AblationSwitchTest, an_unknown_token_is_refused_by_name_with_those_that_exist) {
  setenv("HOLDFAST_ABLATE", "gravity", 1);
  try {
    read_safety_overrides();
    ADD_FAILURE() << "a misspelt token passed";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("HOLDFAST_ABLATE"));
    EXPECT_THAT(error.what(), HasSubstr("gravity"));
    EXPECT_THAT(error.what(), HasSubstr("fifo-of-three-drains"));
  }
}

TEST_F(AblationSwitchTest, a_scope_switches_one_on_and_restores_what_was) {
  {
    const ScopedAblation scope(Ablation::bound_not_held);
    EXPECT_TRUE(ablated(Ablation::bound_not_held));
    EXPECT_FALSE(ablated(Ablation::fifo_of_three_drains));
  }
  EXPECT_FALSE(ablated(Ablation::bound_not_held));
}

TEST_F(AblationSwitchTest, scopes_nest) {
  const ScopedAblation outer(Ablation::bound_not_held);
  {
    const ScopedAblation same(Ablation::bound_not_held);
    const ScopedAblation other(Ablation::fifo_of_three_drains);
    EXPECT_TRUE(ablated(Ablation::fifo_of_three_drains));
  }
  EXPECT_TRUE(ablated(Ablation::bound_not_held)) << "the outer scope still stands";
  EXPECT_FALSE(ablated(Ablation::fifo_of_three_drains));
}

#else

TEST_F(AblationTest, a_build_without_ablations_refuses_the_variable) {
  setenv("HOLDFAST_ABLATE", "bound-not-held", 1);
  EXPECT_THROW(read_safety_overrides(), EnvironmentError);
  static_assert(!ablated(Ablation::bound_not_held));
}

#endif

}  // namespace
}  // namespace holdfast
