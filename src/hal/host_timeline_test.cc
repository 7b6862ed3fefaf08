#include "holdfast/hal/host_timeline.h"

#include <gtest/gtest.h>

#include <set>

#include "holdfast/base/sync/thread.h"
#include "holdfast/simulation/explore.h"

namespace holdfast::hal {
namespace {

TEST(HostTimeline, a_query_is_explored_before_and_after_the_signal_of_another_task) {
  std::set<PointState> seen;
  simulation::Exhaustive driver;
  do {
    const simulation::Outcome outcome = simulation::simulate(driver, [&] {
      const auto timeline = make_ref<HostTimeline>(DeviceId{}, "gate");
      sync::Thread other("other", [&] { timeline->signal({1}); });
      seen.insert(timeline->query({1}));
      other.join();
    });
    ASSERT_EQ(outcome.ending, simulation::Ending::finished) << outcome.report;
  } while (driver.next());
  EXPECT_EQ(seen, (std::set{PointState::pending, PointState::reached}));
}

}  // namespace
}  // namespace holdfast::hal
