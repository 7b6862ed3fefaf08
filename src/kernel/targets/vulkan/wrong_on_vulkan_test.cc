// Ways to be wrong on Vulkan, each with all that its author is told: golden/NAME.txt.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <regex>

#include "holdfast/hal/vulkan/spirv_check.h"
#include "holdfast/kernel/generate/golden_test.h"
#include "holdfast/kernel/language_rig_test.h"
#include "holdfast/kernel/targets/vulkan/clang.h"
#include "holdfast/kernel/targets/vulkan/vulkan_target.h"
#include "holdfast/testing/temporary_folder.h"
#include "holdfast/testing/variable.h"
#include "holdfast/testing/vulkan.h"

namespace holdfast::kernel {
namespace {

struct WrongBody {
  std::string name;
  std::string body;
  std::string header{};
  Dtype dtype = Dtype::uint32;  // of x and y
  Size3 threadgroup{32, 1, 1};
  std::vector<Param> params{};
  bool atomic = false;
};

void expect_told(const std::string& name, const std::string& message) {
  expect_golden_text(std::filesystem::path(__FILE__).parent_path() / "golden" / (name + ".txt"),
                     message + "\n");
}

// The text so often, with "{}" for the number of each.
std::string repeated(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    std::string one = text;
    for (size_t at = 0; (at = one.find("{}")) != one.npos;) one.replace(at, 2, std::to_string(i));
    all += one;
  }
  return all;
}

std::vector<Param> params_called_p(int count) {
  std::vector<Param> params;
  for (int i = 0; i < count; ++i) params.push_back({"p" + std::to_string(i), 1.0});
  return params;
}

const std::vector<WrongBody>& wrong_bodies() {
  static const std::vector<WrongBody> all{
      // What clang has against the text.
      {.name = "name_not_declared",
       .body = "uint i = thread_position_in_grid.x;\ny[i] = x[i] * facter;\n"},
      {.name = "error_in_header",
       .body = "y[0] = scaled(x[0]);",
       .header = "\nuint scaled(uint v) {\n  return v * scale;\n}\n"},
      {.name = "error_in_template",
       .body = "y[0] = half_of(x[0]);\nfloat4 v;\ny[1] = half_of(&v);",
       .header = "template <typename V>\nV half_of(V v) { return v / 2; }\n"},
      {.name = "wrong_number_of_arguments", .body = "y[0] = clamp(x[0], 1u);"},
      {.name = "write_to_an_input", .body = "y[0] = 1;\n  x[0] = y[0];"},
      {.name = "unknown_swizzle", .body = "float2 v = float2(1, 2);\ny[0] = uint(v.z);"},
      {.name = "semicolon_missing", .body = "uint i = x[0]\ny[0] = i;"},
      {.name = "header_of_the_host", .body = "y[0] = 0;", .header = "#include <vector>\n"},
      {.name = "integer_of_128_bits",
       .body = "unsigned __int128 wide = x[0];\ny[0] = uint((wide * wide) >> 64);"},
      {.name = "array_of_variable_length",
       .body = "uint n = x[0];\nuint seen[n];\nfor (uint i = 0; i < n; ++i) seen[i] = x[i];\n"
               "y[0] = seen[x[1]];"},
      {.name = "goto_past_a_variable",
       .body = "if (x[0] > 1) goto done;\nconst uint v = x[1];\ny[0] = v;\ndone:\ny[1] = 1;"},
      {.name = "exception", .body = "if (x[0] == 0) throw 1;\ny[0] = 1;"},
      {.name = "type_at_run_time",
       .body =
           "Base base;\nconst Base* at = &base;\ny[0] = dynamic_cast<const More*>(at) != nullptr;",
       .header = "struct Base { virtual int f() const { return 1; } };\nstruct More : Base {};\n"},
      // What clang takes and Vulkan has not.
      {.name = "recursion",
       .body = "y[0] = ways(x[0], x[1]);",
       .header = "uint ways(uint n, uint v) {\n  if (n < 2) return v;\n"
                 "  return ways(n - 1, v * 3) ^ ways(n - 2, v + 1);\n}\n"},
      {.name = "function_pointer",
       .body = "uint (*const steps[2])(uint) = {up, down};\ny[0] = steps[x[0] & 1](x[1]);",
       .header = "uint up(uint v) { return v + 1; }\nuint down(uint v) { return v - 1; }\n"},
      {.name = "virtual_function",
       .body = "Twice twice;\nThrice thrice;\n"
               "const Step* step = x[0] & 1 ? static_cast<const Step*>(&twice) : &thrice;\n"
               "y[0] = step->of(x[1]);",
       .header = "struct Step { virtual uint of(uint v) const = 0; };\n"
                 "struct Twice : Step { uint of(uint v) const override { return 2 * v; } };\n"
                 "struct Thrice : Step { uint of(uint v) const override { return 3 * v; } };\n"},
      {.name = "assembly", .body = "uint v = x[0];\nasm volatile(\"nop\");\ny[0] = v;"},
      {.name = "address_of_a_label",
       .body = "static const void* const to[] = {&&one, &&two};\ngoto *to[x[0] & 1];\n"
               "one: y[0] = 1; return;\ntwo: y[0] = 2;"},
      {.name = "printing", .body = "uint v = x[0];\nprintf(\"%u\\n\", v);\ny[0] = v;"},
      {.name = "function_of_the_host",
       .body = "y[0] = uint(lgammaf(float(x[0])));",
       .header = "extern \"C\" float lgammaf(float);\n"},
      {.name = "memory_of_the_host",
       .body = "uint* room = new uint[x[0]];\nroom[x[1]] = 2;\ny[0] = room[x[2]];"},
      {.name = "copy_of_unknown_size", .body = "__builtin_memcpy(y, x, x[0] * 4);"},
      {.name = "pointer_to_a_variable_in_a_buffer",
       .body = "uint own[4] = {1, 2, 3, 4};\n"
               "device uint** kept = reinterpret_cast<device uint**>(y);\n"
               "kept[0] = &own[x[0] & 3];\nkept[1] = &own[x[1] & 3];\n"
               "y[x[2]] = *kept[x[3] & 1];"},
      {.name = "atomics_of_two_widths",
       .body = "threadgroup ushort halves[64];\n"
               "halves[thread_position_in_grid.x] = ushort(x[0]);\n"
               "threadgroup_barrier(mem_flags::mem_threadgroup);\n"
               "auto word = reinterpret_cast<threadgroup atomic_uint*>(halves);\n"
               "atomic_fetch_add_explicit(word, 1u, memory_order_relaxed);\n"
               "threadgroup_barrier(mem_flags::mem_threadgroup);\n"
               "y[thread_position_in_grid.x] = halves[0];",
       .threadgroup = {32, 1, 1}},
      // What the launch asks for.
      {.name = "too_much_threadgroup_memory",
       .body = "threadgroup uint tile[1 << 20];\nuint i = thread_position_in_grid.x;\n"
               "tile[i] = x[i];\nthreadgroup_barrier(mem_flags::mem_threadgroup);\n"
               "y[i] = tile[x[i] & 31];"},
      {.name = "threadgroup_too_large", .body = "y[0] = 1;", .threadgroup = {4096, 1, 1}},
      {.name = "threadgroup_too_deep", .body = "y[0] = 1;", .threadgroup = {1, 1, 65536}},
      {.name = "too_many_params",
       .body = "y[0] = uint(0" + repeated(1100, " + p{}") + ");",
       .params = params_called_p(1100)},
  };
  return all;
}

// Bodies of a kernel with an input x and an output y, on Vulkan.
class WrongOnVulkan : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = testing::why_no_vulkan(); !why.empty()) GTEST_SKIP() << why;
    const auto clang = Clang::find();
    if (!clang) GTEST_SKIP() << clang.failure().message();
  }

  static std::string told(KernelRig& rig, const WrongBody& wrong) {
    const auto stream = rig.stream("main");
    const Bytes bytes = size_of(wrong.dtype) * 32;
    const TestArray x{stream->allocate(bytes, "x"), wrong.dtype, {32}};
    const TestArray y{stream->allocate(bytes, "y"), wrong.dtype, {32}};
    stream->upload(x.memory, {}, std::vector<std::byte>(bytes.value));
    const std::array inputs{x.ref()};
    const std::array outputs{y.ref()};
    try {
      rig.kernels.launch(*stream,
                         Kernel({.name = "body",
                                 .inputs = {"x"},
                                 .outputs = {"y"},
                                 .source = wrong.body,
                                 .header = wrong.header,
                                 .atomic_outputs = wrong.atomic}),
                         {.inputs = inputs,
                          .outputs = outputs,
                          .grid = {32, 1, 1},
                          .threadgroup = wrong.threadgroup,
                          .params = wrong.params});
      (void)values_of<uint32_t>(*stream, y);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing is wrong";
  }
};

TEST_F(WrongOnVulkan, authors_are_told_what_is_wrong_where_and_what_to_do) {
  World world(World::Mode::plain, {}, testing::Family::vulkan);
  KernelRig rig(world);
  for (const WrongBody& wrong : wrong_bodies()) {
    SCOPED_TRACE(wrong.name);
    // How much memory there is for threadgroups differs from device to device.
    static const std::regex has("this device has [0-9]+");
    expect_told(wrong.name, std::regex_replace(told(rig, wrong), has, "this device has 32768"));
  }
}

// What a device lacks is known before anything runs.
TEST_F(WrongOnVulkan, a_kernel_that_needs_what_the_device_lacks_names_it) {
  using hal::VulkanFeatures;
  VulkanFeatures all;
  all.storage_8bit = all.storage_16bit = all.float16 = all.int8 = all.int16 = all.int64 = true;
  all.float64 = all.int64_atomics = all.buffer_addresses = true;
  all.max_group_size = {1024, 1024, 64};
  all.max_group_threads = 1024;
  all.max_shared_bytes = 32768;
  struct Lacking {
    WrongBody body;
    std::function<void(VulkanFeatures&)> without;
  };
  const std::vector<Lacking> lacking{
      {{.name = "no_double", .body = "y[0] = x[0] * 3;", .dtype = Dtype::float64},
       [](VulkanFeatures& f) { f.float64 = false; }},
      {{.name = "no_half", .body = "y[0] = x[0] * x[1];", .dtype = Dtype::float16},
       [](VulkanFeatures& f) { f.float16 = false; }},
      {{.name = "no_storage_of_two_bytes", .body = "y[0] = x[0];", .dtype = Dtype::int16},
       [](VulkanFeatures& f) { f.storage_16bit = f.int16 = false; }},
      {{.name = "no_storage_of_bytes", .body = "y[0] = x[0];", .dtype = Dtype::uint8},
       [](VulkanFeatures& f) { f.storage_8bit = f.int8 = false; }},
      {{.name = "no_wide_atomics",
        .body = "atomic_fetch_add_explicit(&y[0], ulong(x[0]), memory_order_relaxed);",
        .dtype = Dtype::uint64,
        .atomic = true},
       [](VulkanFeatures& f) { f.int64_atomics = false; }},
      {{.name = "no_addresses", .body = "y[0] = x[0];"},
       [](VulkanFeatures& f) { f.buffer_addresses = false; }},
      {{.name = "no_wide_integers", .body = "y[0] = x[0];", .dtype = Dtype::int64},
       [](VulkanFeatures& f) { f.int64 = false; }},
  };
  VulkanTarget target{hal::DeviceInfo{}};
  for (const auto& [wrong, without] : lacking) {
    SCOPED_TRACE(wrong.name);
    const Definition definition{.name = "body",
                                .inputs = {"x"},
                                .outputs = {"y"},
                                .source = wrong.body,
                                .atomic_outputs = wrong.atomic};
    const CallSignature signature{.inputs = {{wrong.dtype, 1}}, .outputs = {{wrong.dtype, 1}}};
    CompileJob job{.kernel = "body", .code = target.generate(definition, signature, {}).or_raise()};
    const Code code = target.compile(job).or_raise();
    hal::SpirvModule module{.bindings = hal::SpirvBindings::addresses};
    module.words.resize(code.size() / sizeof(uint32_t));
    std::memcpy(module.words.data(), code.data(), code.size());
    const hal::PipelineDesc desc{"body", module, 2, job.code.interface.parameter_bytes};
    if (const Failure refused = hal::check_spirv(desc, all)) ADD_FAILURE() << refused.message();
    VulkanFeatures fewer = all;
    without(fewer);
    const Failure refused = hal::check_spirv(desc, fewer);
    expect_told(wrong.name, refused ? refused.message() : "nothing is wrong");
  }
}

// A program that says what a compiler says of itself.
std::string fake_compiler(const testing::TemporaryFolder& folder, const std::string& says) {
  const std::filesystem::path path = folder.path() / "fake-clang";
  std::ofstream(path) << "#!/bin/sh\necho '" << says << "' >&2\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST_F(WrongOnVulkan, who_has_no_clang_is_told_what_to_install) {
  const testing::TemporaryFolder folder;
  World world(World::Mode::plain, {}, testing::Family::vulkan);
  KernelRig rig(world);
  int tried = 0;  // what was compiled before is not compiled again
  const auto told_with = [&](const char* path, const char* clang) {
    const testing::Variable on_path("PATH", path);
    const testing::Variable named("HOLDFAST_CLANG", clang);
    std::string message =
        told(rig, {.name = {}, .body = fmt::format("y[0] = x[0] + {};", ++tried)});
    for (size_t at = 0; (at = message.find(folder.path())) != message.npos;) {
      message.replace(at, std::string(folder.path()).size(), "FOLDER");
    }
    return message;
  };
  const std::string nowhere = folder.path() / "nothing";
  expect_told("no_clang", told_with(nowhere.c_str(), nullptr));
  expect_told("no_such_clang", told_with(nowhere.c_str(), "clang++-99"));
  expect_told("not_a_clang",
              told_with(nowhere.c_str(), fake_compiler(folder, "g++ (GCC) 12").c_str()));
  const std::string old = fake_compiler(folder, "Debian clang version 14.0.6");
  expect_told("old_clang", told_with(nowhere.c_str(), old.c_str()));
}

}  // namespace
}  // namespace holdfast::kernel
