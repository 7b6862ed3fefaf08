#include "holdfast/hal/adversary/fault_plan.h"

#include <gtest/gtest.h>

#include "holdfast/base/error.h"

namespace holdfast::hal {
namespace {

TEST(FaultPlan, it_reads_what_it_writes) {
  const std::string text =
      "alloc@3+submit@7+command@1+lost@12+compile@6+trim@9+clear@2+limit@5+drop@4";
  EXPECT_EQ(to_string(FaultPlan::parse(text)), text);
  EXPECT_TRUE(FaultPlan::parse("").empty());
}

TEST(FaultPlan, it_hits_its_opportunity_and_no_other) {
  const FaultPlan plan = FaultPlan::parse("alloc@3+submit@7");
  EXPECT_TRUE(plan.hits(FaultKind::alloc, 3));
  EXPECT_FALSE(plan.hits(FaultKind::alloc, 7));
  EXPECT_FALSE(plan.hits(FaultKind::submit, 3));
  EXPECT_TRUE(plan.hits(FaultKind::submit, 7));
}

TEST(FaultPlan, what_cannot_be_read_is_refused) {
  for (const char* bad : {"alloc", "alloc@", "alloc@0", "alloc@x", "alloc@1x", "flood@1",
                          "+alloc@1", "alloc@-1", "@1"}) {
    EXPECT_THROW(FaultPlan::parse(bad), UsageError) << bad;
  }
}

}  // namespace
}  // namespace holdfast::hal
