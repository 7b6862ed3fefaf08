// Linked into each test program of the mutants build: writes a line to the file HOLDFAST_MUTANT_LOG
// names when a test starts and when it ends, so that a crash or a hang has a test's name; and,
// where marks are recorded, the mutants whose places the test reached.
//
//   start SUITE.TEST
//   end SUITE.TEST passed|failed|skipped MILLISECONDS FILE NUMBER...
//
// What was reached before the first test stands in a line "before NUMBER...".

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "mutant.h"

namespace holdfast::mutants {
namespace {

// Also takes the marks away, for the next test.
std::string take_reached() {
  std::string numbers;
  for (uint32_t i = 0; reached != nullptr && i < reached_size; ++i) {
    if (reached[i].exchange(0, std::memory_order_relaxed) != 0) numbers += " " + std::to_string(i);
  }
  return numbers;
}

class Recorder : public ::testing::EmptyTestEventListener {
 public:
  explicit Recorder(const char* file) : file_(std::fopen(file, "ae")) {
    if (file_ == nullptr) {
      std::perror(file);
      std::abort();
    }
  }

  void OnTestIterationStart(const ::testing::UnitTest& /*test*/, int /*iteration*/) override {
    write("before" + take_reached());
  }
  void OnTestStart(const ::testing::TestInfo& test) override { write("start " + name(test)); }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    const ::testing::TestResult& result = *test.result();
    const char* outcome = result.Skipped() ? "skipped" : result.Passed() ? "passed" : "failed";
    write("end " + name(test) + " " + outcome + " " + std::to_string(result.elapsed_time()) + " " +
          test.file() + take_reached());
  }

 private:
  static std::string name(const ::testing::TestInfo& test) {
    return std::string(test.test_suite_name()) + "." + test.name();
  }
  void write(const std::string& line) {
    std::fprintf(file_, "%s\n", line.c_str());
    std::fflush(file_);
  }

  std::FILE* file_;
};

[[maybe_unused]] const bool registered = [] {
  if (const char* file = std::getenv("HOLDFAST_MUTANT_LOG")) {
    ::testing::UnitTest::GetInstance()->listeners().Append(new Recorder(file));
  }
  return true;
}();

}  // namespace
}  // namespace holdfast::mutants
