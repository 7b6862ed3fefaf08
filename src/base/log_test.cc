#include "holdfast/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <vector>

namespace holdfast::logging {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Topic kTopics[] = {Topic::device,   Topic::memory,  Topic::waits,
                             Topic::shutdown, Topic::kernels, Topic::compile};
static_assert(std::size(kTopics) == kTopicCount);

// Collects messages as "warning memory: text"; starts with all topics off.
class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const Topic topic : kTopics) {
      was_on_.push_back(enabled(topic));
      set_enabled(topic, false);
    }
    before_ = set_sink([this](const Message& m) {
      lines_.push_back(
          fmt::format("{} {}: {}", m.warning ? "warning" : "note", to_string(m.topic), m.text));
    });
  }
  void TearDown() override {
    set_sink(before_);
    for (unsigned i = 0; i < kTopicCount; ++i) set_enabled(kTopics[i], was_on_[i]);
  }
  std::vector<std::string> lines_;

 private:
  std::vector<bool> was_on_;
  Sink before_;
};

std::string printed_by(const std::function<void()>& action) {
  ::testing::internal::CaptureStderr();
  action();
  return ::testing::internal::GetCapturedStderr();
}

TEST_F(LogTest, a_replaced_sink_gets_the_messages_and_stderr_none) {
  EXPECT_EQ(printed_by([] { warn(Topic::memory, "{} of {}", 3, 4); }), "");
  EXPECT_THAT(lines_, ElementsAre("warning memory: 3 of 4"));
}

TEST_F(LogTest, notes_arrive_only_while_their_topic_is_on) {
  note(Topic::waits, "one");
  set_enabled(Topic::waits, true);
  EXPECT_TRUE(enabled(Topic::waits));
  EXPECT_FALSE(enabled(Topic::memory));
  note(Topic::waits, "two");
  note(Topic::memory, "three");
  note_text(Topic::waits, "four");
  set_enabled(Topic::waits, false);
  note(Topic::waits, "five");
  note_text(Topic::waits, "six");
  EXPECT_THAT(lines_, ElementsAre("note waits: two", "note waits: four"));
}

TEST_F(LogTest, warnings_arrive_whatever_topics_are_on) {
  warn(Topic::shutdown, "left {}", "two lists");
  warn_text(Topic::device, "hot");
  EXPECT_THAT(lines_, ElementsAre("warning shutdown: left two lists", "warning device: hot"));
}

TEST_F(LogTest, what_was_asked_for_arrives_whatever_topics_are_on) {
  tell_text(Topic::kernels, "the text");
  EXPECT_THAT(lines_, ElementsAre("note kernels: the text"));
}

TEST_F(LogTest, every_topic_has_a_name_of_its_own) {
  for (const Topic topic : kTopics) warn_text(topic, "x");
  EXPECT_THAT(lines_,
              ElementsAre("warning device: x", "warning memory: x", "warning waits: x",
                          "warning shutdown: x", "warning kernels: x", "warning compile: x"));
}

TEST_F(LogTest, a_sink_that_throws_is_reported_on_stderr_and_not_to_the_caller) {
  const Sink before = set_sink([](const Message&) { throw std::runtime_error("broken sink"); });
  set_enabled(Topic::device, true);
  const std::string printed = printed_by([] {
    EXPECT_NO_THROW(warn(Topic::device, "a"));
    EXPECT_NO_THROW(note(Topic::device, "b"));
  });
  EXPECT_THAT(printed, HasSubstr("sink"));
  set_sink(before);
  warn_text(Topic::device, "after");
  EXPECT_THAT(lines_, ElementsAre("warning device: after"));
}

TEST_F(LogTest, set_sink_gives_back_the_sink_that_was_there) {
  std::vector<std::string> second_lines;
  const Sink first = set_sink([&](const Message& m) { second_lines.emplace_back(m.text); });
  warn_text(Topic::device, "to the second");
  const Sink second = set_sink(first);
  warn_text(Topic::device, "to the first");
  EXPECT_THAT(lines_, ElementsAre("warning device: to the first"));
  ASSERT_TRUE(second);
  second({false, Topic::device, "by hand"});
  EXPECT_THAT(second_lines, ElementsAre("to the second", "by hand"));
}

TEST_F(LogTest, an_empty_sink_restores_one_line_each_on_stderr) {
  set_sink({});
  set_enabled(Topic::memory, true);
  const std::string printed = printed_by([] {
    warn(Topic::device, "first");
    note(Topic::memory, "second");
  });
  EXPECT_THAT(printed, AllOf(HasSubstr("first\n"), HasSubstr("second\n"), HasSubstr("warning")));
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 2);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(LogTest, a_sink_may_replace_itself_since_no_lock_is_held) {
  Sink collect = set_sink({});
  set_sink([&](const Message& m) {
    set_sink(collect);
    warn(Topic::waits, "again: {}", m.text);
  });
  warn_text(Topic::waits, "one");
  EXPECT_THAT(lines_, ElementsAre("warning waits: again: one"));
}

// The variable is read once, so each case needs a process of its own: "threadsafe" starts one.
class LogVariableDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void TearDown() override {
    unsetenv("HOLDFAST_LOG");
    GTEST_FLAG_SET(death_test_style, "fast");
  }
  [[noreturn]] static void note_all() {
    for (const Topic topic : kTopics) note(topic, "{} is on", to_string(topic));
    std::_Exit(0);
  }
};

TEST_F(LogVariableDeathTest, the_variable_switches_on_the_topics_it_names) {
  setenv("HOLDFAST_LOG", "memory, kernels, waits", 1);
  EXPECT_EXIT(note_all(), ::testing::ExitedWithCode(0),
              AllOf(HasSubstr("memory is on"), HasSubstr("waits is on"), HasSubstr("kernels is on"),
                    Not(HasSubstr("device is on")), Not(HasSubstr("shutdown is on"))));
}

TEST_F(LogVariableDeathTest, all_is_every_topic) {
  setenv("HOLDFAST_LOG", "all", 1);
  EXPECT_EXIT(note_all(), ::testing::ExitedWithCode(0),
              AllOf(HasSubstr("memory is on"), HasSubstr("waits is on"), HasSubstr("device is on"),
                    HasSubstr("shutdown is on"), HasSubstr("kernels is on")));
}

TEST_F(LogVariableDeathTest, a_topic_that_does_not_exist_is_told_and_the_others_are_on) {
  setenv("HOLDFAST_LOG", "weather,memory", 1);
  EXPECT_EXIT(note_all(), ::testing::ExitedWithCode(0),
              AllOf(HasSubstr("HOLDFAST_LOG"), HasSubstr("'weather'"), HasSubstr("memory is on"),
                    Not(HasSubstr("waits is on"))));
}

}  // namespace
}  // namespace holdfast::logging
