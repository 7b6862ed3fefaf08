#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "holdfast/c/call.h"

namespace holdfast::c {
namespace {

using ::testing::HasSubstr;
using ::testing::StrEq;

template <typename F>
hf_status failing(F body) {
  return call("hf_something", body);
}

TEST(LastError, every_code_has_a_status_of_its_own) {
  const std::pair<ErrorCode, hf_status> codes[] = {
      {ErrorCode::usage, HF_ERROR_USAGE},
      {ErrorCode::unsupported, HF_ERROR_UNSUPPORTED},
      {ErrorCode::out_of_memory, HF_ERROR_OUT_OF_MEMORY},
      {ErrorCode::execution, HF_ERROR_EXECUTION},
      {ErrorCode::device_lost, HF_ERROR_DEVICE_LOST},
      {ErrorCode::closed, HF_ERROR_CLOSED},
      {ErrorCode::timeout, HF_ERROR_TIMEOUT},
      {ErrorCode::interrupted, HF_ERROR_INTERRUPTED},
      {ErrorCode::environment, HF_ERROR_ENVIRONMENT}};
  for (const auto& [code, status] : codes) {
    EXPECT_EQ(failing([&] { Failure(code, "words").raise(); }), status);
    EXPECT_EQ(hf_last_status(), status);
    EXPECT_THAT(hf_last_error(), StrEq("words"));
    EXPECT_STREQ(hf_status_name(status), to_string(code));
  }
}

TEST(LastError, exceptions_of_others_have_statuses_too) {
  EXPECT_EQ(failing([] { throw std::bad_alloc(); }), HF_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(hf_last_error(), HasSubstr("no memory"));
  EXPECT_EQ(failing([] { throw std::length_error("too long"); }), HF_ERROR_UNKNOWN);
  EXPECT_THAT(hf_last_error(), StrEq("hf_something: too long"));
  EXPECT_EQ(failing([] { throw 7; }), HF_ERROR_UNKNOWN);
  EXPECT_NE(hf_last_error()[0], '\0');
}

TEST(LastError, an_argument_error_names_the_function) {
  EXPECT_EQ(failing([] { throw ArgumentError("x is NULL"); }), HF_ERROR_USAGE);
  EXPECT_THAT(hf_last_error(), StrEq("hf_something: x is NULL"));
}

TEST(LastError, words_of_any_length_are_kept_until_the_next_failure) {
  for (const size_t length : {0, 1, 511, 512, 513, 5000, 3}) {
    const std::string words(length, 'w');
    EXPECT_EQ(failing([&] { throw UsageError(words); }), HF_ERROR_USAGE);
    EXPECT_EQ(failing([] {}), HF_OK);
    EXPECT_EQ(hf_last_error(), words);
  }
}

}  // namespace
}  // namespace holdfast::c
