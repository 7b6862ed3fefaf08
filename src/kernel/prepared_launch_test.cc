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

  LaunchForm form(const Kernel& kernel) const {
    const std::array x{ArrayRef({}, dtype, shape, strides, offset)};
    const std::array y{ArrayRef({}, Dtype::float32, shape)};
    LaunchForm form;
    form.assign(kernel, {.inputs = x,
                         .outputs = y,
                         .grid = grid,
                         .threadgroup = threadgroup,
                         .constants = constants,
                         .params = params,
                         .work_per_thread = work_per_thread,
                         .keeps_outputs = keeps_outputs,
                         .label = label});
    return form;
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
  std::vector<LaunchForm> forms{FormParts().form(kernel), FormParts().form(form_kernel())};
  for (const auto& change : changes) {
    FormParts parts;
    change(parts);
    forms.push_back(parts.form(kernel));
  }
  for (size_t i = 0; i < forms.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(forms[i] == forms[j]) << i << " and " << j;
  }
}

TEST(LaunchForm, is_the_same_whatever_values_label_and_earlier_use) {
  const Kernel kernel = form_kernel();
  FormParts parts;
  parts.params[0].value = 2.0F;
  parts.label = "another";
  EXPECT_TRUE(parts.form(kernel) == FormParts().form(kernel));
  // One that had a longer form before.
  FormParts longer;
  longer.constants.push_back({"a_name_of_more_than_one_word", int64_t{~0}});
  LaunchForm reused = longer.form(kernel);
  const std::vector<int64_t> shape{2, 3};
  const std::array y{ArrayRef({}, Dtype::float32, shape)};
  LaunchForm fresh;
  const std::vector<Constant> constants = FormParts().constants;
  const Launch launch{.outputs = y, .constants = constants};
  reused.assign(kernel, launch);
  fresh.assign(kernel, launch);
  EXPECT_TRUE(reused == fresh);
}

}  // namespace
}  // namespace holdfast::kernel
