#include "holdfast/simulation/explore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/base/error.h"
#include "holdfast/base/sync/thread.h"

namespace holdfast::simulation {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> no_faults(uint64_t) { return {}; }

// Fails where the second task gets between the first one's two steps, whatever else happens.
Result torn(Driver& driver, const std::vector<std::string>&, bool trace) {
  Result result;
  result.outcome = simulate(driver,
                            [&] {
                              int value = 0;
                              sync::Thread bystander("bystander", [] {
                                for (int i = 0; i < 5; ++i) sync::switch_point("nothing");
                              });
                              sync::Thread writer("writer", [&] {
                                value = 1;
                                sync::switch_point("half way");
                                value = 2;
                              });
                              sync::Thread reader("reader", [&] {
                                if (value == 1) result.failure = "it saw half of it";
                              });
                            },
                            {}, {.trace = trace});
  return result;
}

// Fails under one of its faults, in every schedule.
Result fragile(Driver& driver, const std::vector<std::string>& faults, bool) {
  Result result;
  result.outcome =
      simulate(driver, [] { sync::Thread other("other", [] { sync::switch_point("nothing"); }); });
  for (const std::string& fault : faults) {
    if (fault == "flood@2") result.failure = "it cannot swim";
  }
  return result;
}

TEST(Explore, a_race_is_found_and_its_seed_finds_it_again) {
  const Exploration done = explore(torn, {1, 1000}, no_faults);
  ASSERT_TRUE(done.finding);
  EXPECT_EQ(done.finding->result.failure, "it saw half of it");
  EXPECT_EQ(run_variant(torn, done.finding->found).failure, "it saw half of it");
}

TEST(Explore, what_was_found_is_shortened_and_still_fails) {
  const Exploration done = explore(torn, {1, 1000}, no_faults);
  ASSERT_TRUE(done.finding);
  const Result original = run_variant(torn, done.finding->found);
  EXPECT_LE(done.finding->shortest.schedule->size(), original.outcome.choices.size());
  EXPECT_LE(done.finding->shortest.schedule->size(), 3U) << replay_line(done.finding->shortest);
  EXPECT_EQ(run_variant(torn, done.finding->shortest).failure, "it saw half of it");
}

TEST(Explore, faults_that_do_not_matter_are_left_out) {
  const Finding finding = shrink(fragile, {7, {}, {"rain@1", "flood@2", "storm@3"}});
  EXPECT_EQ(finding.shortest.faults, std::vector<std::string>{"flood@2"});
  EXPECT_TRUE(finding.shortest.schedule->empty()) << "the default schedule fails as well";
}

TEST(Explore, the_report_has_the_failure_the_lines_and_the_steps) {
  const Exploration done = explore(torn, {1, 1000}, no_faults);
  ASSERT_TRUE(done.finding);
  const std::string report = to_string(*done.finding);
  EXPECT_THAT(report, HasSubstr("it saw half of it"));
  EXPECT_THAT(report, HasSubstr("replay:   HOLDFAST_ADVERSARY=seed="));
  EXPECT_THAT(report, HasSubstr("shortest: HOLDFAST_ADVERSARY=schedule="));
  EXPECT_THAT(report, HasSubstr("task 'reader'"));
}

TEST(Explore, the_same_seeds_give_the_same_digest) {
  EXPECT_EQ(explore(fragile, {1, 50}, no_faults).digest,
            explore(fragile, {1, 50}, no_faults).digest);
  EXPECT_NE(explore(fragile, {1, 50}, no_faults).digest,
            explore(fragile, {2, 50}, no_faults).digest);
}

TEST(Explore, a_program_that_does_not_repeat_itself_is_called_that) {
  int runs = 0;
  const Program fickle = [&](Driver& driver, const std::vector<std::string>&, bool) {
    Result result;
    result.outcome = simulate(driver, [] {});
    if (++runs == 1) result.failure = "once";
    return result;
  };
  const Exploration done = explore(fickle, {1, 10}, no_faults);
  ASSERT_TRUE(done.finding);
  EXPECT_THAT(done.finding->result.failure, HasSubstr("does not repeat itself"));
}

TEST(Variant, its_line_is_read_back_and_is_safe_in_a_shell) {
  for (const char* text : {"seed=7", "seed=7,faults=alloc@3+submit@7", "schedule=12.1+40.2",
                           "schedule=default,faults=lost@1"}) {
    const Variant variant = parse_variant(text);
    EXPECT_EQ(to_string(variant), text);
    const std::string line = replay_line(variant);
    EXPECT_EQ(line.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
                                     "0123456789=,.+@"),
              std::string::npos)
        << line;
  }
}

TEST(Variant, what_cannot_be_read_is_refused) {
  for (const char* bad : {"seed", "seed=", "seed=x", "seed=1x", "mood=bad", "schedule=", "7"}) {
    EXPECT_THROW(parse_variant(bad), UsageError) << bad;
  }
}

}  // namespace
}  // namespace holdfast::simulation
