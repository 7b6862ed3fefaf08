// Bodies with each clang that is known to work: the first one found is what all other tests use.

#include <gtest/gtest.h>

#include <cctype>

#include "holdfast/base/env.h"
#include "holdfast/kernel/compilers/subprocess.h"
#include "holdfast/kernel/targets/vulkan/bodies_of_arrays_test.h"
#include "holdfast/kernel/targets/vulkan/bodies_of_groups_test.h"
#include "holdfast/kernel/targets/vulkan/bodies_of_statements_test.h"
#include "holdfast/testing/variable.h"

namespace holdfast::kernel {
namespace {

struct KnownClang {
  const char* name;
  const char* package;  // what has it
};

class EveryClang : public ::testing::TestWithParam<KnownClang> {
 protected:
  // As HOLDFAST_CLANG takes it; empty: it is not here. HOLDFAST_TEST_ZIG may name zig itself.
  static std::string command_of(const KnownClang& clang) {
    if (std::string_view(clang.name) != "ziglang") return find_program(clang.name);
    if (const auto zig = env::text("HOLDFAST_TEST_ZIG")) return *zig + " clang";
    for (const char* program : {"python-zig", "zig"}) {
      if (const std::string path = find_program(program); !path.empty()) return path + " clang";
    }
    return {};
  }

  static void expect_agreement(const std::vector<ComparedBody>& bodies) {
    const std::string command = command_of(GetParam());
    if (command.empty()) {
      GTEST_SKIP() << GetParam().name << " is not here; " << GetParam().package << " has it";
    }
    const testing::Variable chosen("HOLDFAST_CLANG", command.c_str());
    if (const std::string why = why_no_bodies_on_vulkan(); !why.empty()) GTEST_SKIP() << why;
    fmt::print("{}\n", Clang::find().or_raise()->version().substr(0, 60));
    for (const ComparedBody& body : bodies) {
      const auto cpu = outcome_of(body, testing::Family::cpu);
      EXPECT_EQ(difference(body, cpu, outcome_of(body, testing::Family::vulkan)), "") << body.name;
    }
  }
};

TEST_P(EveryClang, compiles_some_bodies_that_agree_with_the_cpu) {
  const std::vector<ComparedBody> groups = bodies_of_groups();
  expect_agreement({groups.at(1), groups.at(5), bodies_of_statements().at(0)});
}

TEST_P(EveryClang, compiles_all_bodies_that_agree_with_the_cpu_nightly) {
  for (const auto& some : {bodies_of_arrays(), bodies_of_groups(), bodies_of_statements()}) {
    expect_agreement(some);
  }
}

std::string name_of_clang(const ::testing::TestParamInfo<KnownClang>& test) {
  std::string name = test.param.name;
  std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
  return name;
}
INSTANTIATE_TEST_SUITE_P(, EveryClang,
                         ::testing::Values(KnownClang{"clang++-16", "Debian's clang-16"},
                                           KnownClang{"clang++-19", "Debian's clang-19"},
                                           KnownClang{"ziglang", "Python's package ziglang"}),
                         name_of_clang);

}  // namespace
}  // namespace holdfast::kernel
