#include "holdfast/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string_view>

namespace holdfast {
namespace {

constexpr ErrorCode kAllCodes[] = {
    ErrorCode::usage,     ErrorCode::unsupported, ErrorCode::out_of_memory,
    ErrorCode::execution, ErrorCode::device_lost, ErrorCode::closed,
    ErrorCode::timeout,   ErrorCode::interrupted, ErrorCode::environment,
};

template <typename Expected>
void expect_raises(ErrorCode code) {
  try {
    Failure(code, "the reason").raise();
  } catch (const Expected& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_STREQ(error.what(), "the reason");
  } catch (...) {
    ADD_FAILURE() << to_string(code) << " raised another type";
  }
}

TEST(Error, every_code_raises_the_type_that_belongs_to_it) {
  expect_raises<UsageError>(ErrorCode::usage);
  expect_raises<UnsupportedError>(ErrorCode::unsupported);
  expect_raises<OutOfMemoryError>(ErrorCode::out_of_memory);
  expect_raises<ExecutionError>(ErrorCode::execution);
  expect_raises<DeviceLostError>(ErrorCode::device_lost);
  expect_raises<ClosedError>(ErrorCode::closed);
  expect_raises<TimeoutError>(ErrorCode::timeout);
  expect_raises<InterruptedError>(ErrorCode::interrupted);
  expect_raises<EnvironmentError>(ErrorCode::environment);
}

TEST(Error, every_code_is_caught_as_an_error_with_its_code) {
  for (const ErrorCode code : kAllCodes) {
    try {
      Failure(code, "why").raise();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
    }
  }
}

TEST(Error, every_code_has_a_name_of_its_own) {
  std::set<std::string_view> names;
  for (const ErrorCode code : kAllCodes) names.insert(to_string(code));
  EXPECT_EQ(names.size(), std::size(kAllCodes));
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(Failure, a_default_failure_is_none) {
  const Failure none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none, Failure());
  EXPECT_NO_THROW(none.raise_if_any());
}

TEST(Failure, it_carries_code_and_message) {
  const Failure failure(ErrorCode::timeout, "too long");
  EXPECT_TRUE(failure);
  EXPECT_EQ(failure.code(), ErrorCode::timeout);
  EXPECT_EQ(failure.message(), "too long");
  EXPECT_THROW(failure.raise_if_any(), TimeoutError);
}

TEST(Failure, copies_name_the_same_cause) {
  const Failure failure(ErrorCode::usage, "words");
  const Failure copy = failure;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(copy, failure);
  EXPECT_EQ(&copy.message(), &failure.message());
}

TEST(Failure, equal_words_are_not_one_cause) {
  EXPECT_NE(Failure(ErrorCode::usage, "words"), Failure(ErrorCode::usage, "words"));
  EXPECT_NE(Failure(ErrorCode::usage, "words"), Failure());
}

TEST(Failure, a_copy_outlives_the_original) {
  auto original = std::make_unique<Failure>(ErrorCode::closed, "gone");
  const Failure copy = *original;
  original.reset();
  EXPECT_EQ(copy.message(), "gone");
}

TEST(Result, a_value_is_ok_and_has_no_failure) {
  Result<int> result(7);
  EXPECT_TRUE(result.ok());
  EXPECT_TRUE(result);
  EXPECT_EQ(result.value(), 7);
  EXPECT_FALSE(result.failure());
  result.value() = 8;
  EXPECT_EQ(std::as_const(result).value(), 8);
  EXPECT_EQ(std::move(result).or_raise(), 8);
}

TEST(Result, a_failure_is_not_ok_and_is_raised_with_its_type) {
  const Failure why(ErrorCode::out_of_memory, "full");
  Result<int> result(why);
  EXPECT_FALSE(result.ok());
  EXPECT_FALSE(result);
  EXPECT_EQ(result.failure(), why);
  EXPECT_THROW(std::move(result).or_raise(), OutOfMemoryError);
}

TEST(Result, a_value_that_can_only_be_moved_comes_out_whole) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  const std::unique_ptr<int> out = std::move(result).or_raise();
  ASSERT_TRUE(out);
  EXPECT_EQ(*out, 5);
  Result<std::unique_ptr<int>> second(std::make_unique<int>(6));
  EXPECT_EQ(*std::move(second).value(), 6);
}

}  // namespace
}  // namespace holdfast
