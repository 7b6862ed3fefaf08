#include "holdfast/kernel/cache/content_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "holdfast/base/ablation.h"
#include "holdfast/kernel/cache/stub_target_test.h"

namespace holdfast::kernel {
namespace {

using ::testing::HasSubstr;

CompileJob whole() {
  CompileJob job = stub_job("the text", "norm");
  job.code.preamble = "the preamble";
  job.code.interface.fields = {{FieldKind::shape, 0, 2, {40}, {8}}};
  job.code.interface.parameter_bytes = {48};
  return job;
}
CompileJob with_native() {
  CompileJob job = whole();
  Native native;
  native.kind = NativeKind::glsl;
  native.text = "void main() {}";
  native.module = {std::byte{1}, std::byte{2}};
  job.native = std::make_shared<const Native>(native);
  return job;
}

TEST(ContentKey, the_same_content_has_the_same_key) {
  EXPECT_EQ(ContentKey(whole(), "gcc 12"), ContentKey(whole(), "gcc 12"));
  EXPECT_EQ(ContentKey(whole(), "gcc 12").digest(), ContentKey(whole(), "gcc 12").digest());
  EXPECT_EQ(ContentKey(with_native(), "gcc 12"), ContentKey(with_native(), "gcc 12"));
}

TEST(ContentKey, what_only_people_read_is_no_part_of_it) {
  CompileJob job = whole();
  job.variant = "another description";
  job.verbose = true;
  job.code.sources = {{"file.metal", "the body"}};
  EXPECT_EQ(ContentKey(job, "gcc 12"), ContentKey(whole(), "gcc 12"));
}

TEST(ContentKey, whatever_decides_the_code_makes_another_key) {
  std::vector<ContentKey> all;
  all.emplace_back(whole(), "gcc 12");
  all.emplace_back(whole(), "gcc 13");
  const auto with = [&](auto change) {
    CompileJob job = whole();
    change(job);
    all.emplace_back(job, "gcc 12");
  };
  with([](CompileJob& j) { j.kernel = "norm2"; });
  with([](CompileJob& j) { j.code.text = "another"; });
  with([](CompileJob& j) { j.code.preamble = "another"; });
  with([](CompileJob& j) { j.code.entry_point = "another"; });
  with([](CompileJob& j) { j.code.math = MathMode::fast; });
  with([](CompileJob& j) { j.code.interface.bindings[0].index = 1; });
  with([](CompileJob& j) { j.code.interface.bindings[0].group = ArgumentGroup::in_place; });
  with([](CompileJob& j) { j.code.interface.bindings[0].access = hal::Access::read; });
  with([](CompileJob& j) { j.code.interface.fields.clear(); });
  with([](CompileJob& j) { j.code.interface.fields[0].kind = FieldKind::strides; });
  with([](CompileJob& j) { j.code.interface.fields[0].index = 1; });
  with([](CompileJob& j) { j.code.interface.fields[0].count = 3; });
  with([](CompileJob& j) { j.code.interface.fields[0].offset = {44}; });
  with([](CompileJob& j) { j.code.interface.fields[0].size = {16}; });
  with([](CompileJob& j) { j.code.interface.parameter_bytes = {56}; });
  with([](CompileJob& j) { j.code.interface.has_launch_block = true; });
  with([](CompileJob& j) { j.code.interface.cooperation = Cooperation::barriers; });
  with([](CompileJob& j) { j.code.interface.binding_lengths = true; });
  with([](CompileJob& j) { j.code.interface.cluster = {2, 1, 1}; });
  with([](CompileJob& j) { j.code.interface.cluster = {1, 2, 1}; });
  with([](CompileJob& j) { j.code.interface.cluster = {1, 1, 2}; });
  with([](CompileJob& j) { j.code.interface.waits_for_grids = true; });
  with([](CompileJob& j) { j.code.interface.reports = true; });
  with([](CompileJob& j) { j.code.contracts = false; });
  with([](CompileJob& j) { j.native = with_native().native; });
  with([](CompileJob& j) { j.constants = {{"N", int64_t{1}}}; });
  with([](CompileJob& j) { j.constants = {{"N", int64_t{2}}}; });
  with([](CompileJob& j) { j.constants = {{"N", true}}; });
  with([](CompileJob& j) { j.constants = {{"M", int64_t{1}}}; });
  const auto with_other_native = [&](auto change) {
    CompileJob job = whole();
    Native native = *with_native().native;
    change(native);
    job.native = std::make_shared<const Native>(native);
    all.emplace_back(job, "gcc 12");
  };
  with_other_native([](Native& n) { n.kind = NativeKind::cpp; });
  with_other_native([](Native& n) { n.text = "void main() { }"; });
  with_other_native([](Native& n) { n.module.pop_back(); });
  with_other_native([](Native& n) { n.entry_point = "start"; });
  with_other_native([](Native& n) { n.bindings = {"x", "y"}; });
  with_other_native([](Native& n) { n.constants = {"N"}; });
  with_other_native([](Native& n) { n.threadgroup = Size3{1, 1, 1}; });
  with_other_native([](Native& n) { n.threadgroup = Size3{2, 1, 1}; });
  with_other_native([](Native& n) { n.threadgroup = Size3{1, 2, 1}; });
  with_other_native([](Native& n) { n.threadgroup = Size3{1, 1, 2}; });
  with_other_native([](Native& n) { n.shared_memory = 1_KiB; });
  with_other_native([](Native& n) { n.cluster = {2, 1, 1}; });
  with_other_native([](Native& n) { n.cooperative = true; });
  with_other_native([](Native& n) { n.reaches = hal::SpirvBindings::addresses; });
  // A native's file name is not in its text, and __FILE__ shows it.
  CompileJob in_a_file = with_native();
  in_a_file.code.sources = {{"a.cc", ""}};
  all.emplace_back(in_a_file, "gcc 12");
  in_a_file.code.sources = {{"b.cc", ""}};
  all.emplace_back(in_a_file, "gcc 12");
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t k = 0; k < all.size(); ++k) {
      EXPECT_EQ(all[i] == all[k], i == k) << i << " and " << k;
      EXPECT_EQ(all[i].digest() == all[k].digest(), i == k) << i << " and " << k;
    }
  }
}

TEST(ContentKey, moving_bytes_from_a_field_to_its_neighbour_makes_another_key) {
  CompileJob a = whole();
  a.code.entry_point = "run1";
  a.code.text = "2";
  CompileJob b = whole();
  b.code.entry_point = "run";
  b.code.text = "12";
  EXPECT_FALSE(ContentKey(a, "") == ContentKey(b, ""));
  CompileJob c = whole();
  c.kernel = "";
  EXPECT_FALSE(ContentKey(c, "norm") == ContentKey(whole(), ""));
}

TEST(ContentKey, it_is_the_same_in_another_process) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that starts anew
  const std::string here = to_string(ContentKey(whole(), "gcc 12").digest());
  EXPECT_EXIT(
      {
        std::fprintf(stderr, "%s", to_string(ContentKey(whole(), "gcc 12").digest()).c_str());
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), HasSubstr(here));
}

#ifdef HOLDFAST_ABLATIONS
TEST(ContentKey, keys_whose_digests_collide_are_still_told_apart) {
  const ScopedDigestCollision collide;
  CompileJob other = whole();
  other.code.text = "another";
  const ContentKey a(whole(), "gcc 12");
  const ContentKey b(other, "gcc 12");
  EXPECT_EQ(a.digest(), b.digest());
  EXPECT_FALSE(a == b);
}
#endif

}  // namespace
}  // namespace holdfast::kernel
