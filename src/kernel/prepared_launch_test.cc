#include "holdfast/kernel/prepared_launch.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <vector>

namespace holdfast::kernel {
namespace {

// All that a form is made from, to be changed one by one.
struct FormParts {
  Dtype dtype = Dtype::float32;
  std::vector<int64_t> shape{2, 3};
  std::vector<int64_t> strides{3, 1};
  Bytes offset{};
  Size3 grid{6, 1, 1};
  Size3 threadgroup{2, 1, 1};
  std::vector<Constant> constants{{"N", int64_t{1}}};
  std::vector<Param> params{{"a", 1.0F}};
  uint32_t work_per_thread = 1;
  bool keeps_outputs = false;
  std::string_view label{};

  // What `use` makes of the launch.
  auto with_launch(const auto& use) const {
    const std::array x{ArrayRef({}, dtype, shape, strides, offset)};
    const std::array y{ArrayRef({}, Dtype::float32, shape)};
    const Launch launch{.inputs = x,
                        .outputs = y,
                        .grid = grid,
                        .threadgroup = threadgroup,
                        .constants = constants,
                        .params = params,
                        .work_per_thread = work_per_thread,
                        .keeps_outputs = keeps_outputs,
                        .label = label};
    return use(launch);
  }
  LaunchForm form(const Kernel& kernel) const {
    return with_launch([&](const Launch& launch) { return LaunchForm(kernel, launch); });
  }
  bool has(const LaunchForm& form, const Kernel& kernel) const {
    return with_launch([&](const Launch& launch) { return form.is_of(kernel, launch); });
  }
};

Kernel form_kernel() {
  return Kernel({.name = "k", .inputs = {"x"}, .outputs = {"y"}, .source = "y[0] = x[0] + N * a;"});
}

TEST(LaunchForm, differs_where_one_thing_of_the_launch_does) {
  const Kernel kernel = form_kernel();
  const std::vector<std::function<void(FormParts&)>> changes{
      [](FormParts& f) { f.dtype = Dtype::int32; },
      [](FormParts& f) {
        f.shape = {3, 2};
      },
      [](FormParts& f) {
        f.shape = {2, 3, 1}, f.strides = {3, 1, 1};
      },
      [](FormParts& f) {
        f.strides = {1, 2};
      },
      [](FormParts& f) { f.strides.clear(); },
      [](FormParts& f) { f.offset = Bytes{8}; },
      [](FormParts& f) {
        f.grid = {5, 1, 1};
      },
      [](FormParts& f) {
        f.grid = {6, 2, 1};
      },
      [](FormParts& f) {
        f.grid = {6, 1, 2};
      },
      [](FormParts& f) {
        f.threadgroup = {4, 1, 1};
      },
      [](FormParts& f) {
        f.threadgroup = {2, 2, 1};
      },
      [](FormParts& f) {
        f.threadgroup = {2, 1, 2};
      },
      [](FormParts& f) { f.constants[0].value = int64_t{2}; },
      [](FormParts& f) { f.constants[0].value = true; },
      [](FormParts& f) { f.constants[0].name = "M"; },
      [](FormParts& f) { f.constants.clear(); },
      [](FormParts& f) { f.params[0].value = int32_t{1}; },
      [](FormParts& f) { f.params[0].name = "b"; },
      [](FormParts& f) {
        f.params.push_back({"b", 1.0F});
      },
      [](FormParts& f) { f.work_per_thread = 2; },
      [](FormParts& f) { f.keeps_outputs = true; },
  };
  struct Case {
    Kernel kernel;
    FormParts parts;
  };
  std::vector<Case> cases{{kernel, {}}, {form_kernel(), {}}};
  for (const auto& change : changes) change(cases.emplace_back(Case{kernel, {}}).parts);
  for (size_t i = 0; i < cases.size(); ++i) {
    const LaunchForm form = cases[i].parts.form(cases[i].kernel);
    for (size_t j = 0; j < cases.size(); ++j) {
      EXPECT_EQ(cases[j].parts.has(form, cases[j].kernel), i == j) << i << " and " << j;
    }
  }
}

TEST(LaunchForm, is_the_same_whatever_values_and_label) {
  const Kernel kernel = form_kernel();
  FormParts parts;
  parts.params[0].value = 2.0F;
  parts.label = "another";
  EXPECT_TRUE(parts.has(FormParts().form(kernel), kernel));
}

TEST(LaunchForm, tells_long_names_apart_to_their_last_letter) {
  const Kernel kernel = form_kernel();
  FormParts parts;
  parts.constants[0].name = "a_name_of_more_than_one_word";
  FormParts other = parts;
  other.constants[0].name.back() = 'e';
  EXPECT_TRUE(parts.has(parts.form(kernel), kernel));
  EXPECT_FALSE(other.has(parts.form(kernel), kernel));
}

}  // namespace
}  // namespace holdfast::kernel
