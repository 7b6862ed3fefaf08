#include "holdfast/kernel/targets/cpu/cpu_target.h"

#include <embedded/kernel_text.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "holdfast/base/sanitizers.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/hal/cpu/cpu_executor.h"
#include "holdfast/runtime/context.h"
#include "holdfast/runtime/stream.h"
#include "holdfast/testing/temporary_folder.h"
#include "holdfast/testing/variable.h"

namespace holdfast::kernel {
namespace {

using hal::Access;
using hal::Binding;
using holdfast::testing::TemporaryFolder;
using holdfast::testing::Variable;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A kernel as the generator would make it: x is read, y is written, both of floats.
CompileJob job_of(std::string_view body, std::string_view before = "") {
  CompileJob job;
  job.kernel = "k";
  job.variant = "x: float32[1] -> y: float32[1]";
  job.code.preamble = embedded::kernel_text("kernel_abi.h");
  job.code.entry_point = "hf_k";
  job.code.text = std::string(before) + R"(
struct hf_launch { unsigned grid[3], group[3], first_group[3], groups_per_dispatch; };
extern "C" void hf_k(const hf_call* c) {
  const hf_launch& l = *reinterpret_cast<const hf_launch*>(c->parameters);
  const float* __restrict__ x = static_cast<const float*>(c->buffers[0]);
  float* __restrict__ y = static_cast<float*>(c->buffers[1]);
  for (unsigned long g = c->first_group; g < c->end_group; ++g) {
#line 1 "k.metal"
)" + std::string(body) +
                  "\n  }\n}\n";
  job.code.sources = {{"k.metal", std::string(body)}};
  job.code.interface.bindings = {{ArgumentGroup::input, 0, Access::read},
                                 {ArgumentGroup::output, 0, Access::write}};
  job.code.interface.parameter_bytes = {sizeof(LaunchBlock)};
  return job;
}

constexpr const char* kTwice =
    "for (unsigned i = g * l.group[0]; i < (g + 1) * l.group[0] && i < l.grid[0]; ++i)\n"
    "  y[i] = 2 * x[i];";

class CpuTargetTest : public ::testing::Test {
 protected:
  Ref<hal::Pipeline> pipeline_of(const CompileJob& job) {
    const Code code = target_.compile(job).or_raise();
    return target_.load(*context_->device(), job, code).or_raise();
  }
  // y for x = 0, 1, 2, ...; what fails is thrown.
  std::vector<float> run(const Ref<hal::Pipeline>& pipeline, uint32_t count = 100,
                         uint32_t group = 32) {
    std::vector<float> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0.0F);
    const auto x = stream_->allocate({count * 4}, "x");
    const auto y = stream_->allocate({count * 4}, "y");
    stream_->upload(x, {}, std::as_bytes(std::span(numbers)));
    const LaunchBlock block{{count, 1, 1}, {group, 1, 1}, {0, 0, 0}, 2};
    const std::span<const std::byte> bytes = std::as_bytes(std::span(&block, 1));
    stream_->dispatch(pipeline,
                      std::array{Binding::of(x, Access::read), Binding::of(y, Access::write)},
                      bytes.first(pipeline->parameter_bytes().value),
                      {(count + 2 * group - 1) / (2 * group), 1, 1}, "run it");
    stream_->readback(y, {}, std::as_writable_bytes(std::span(numbers)));
    return numbers;
  }
  std::vector<float> run(const CompileJob& job) { return run(pipeline_of(job)); }
  std::string failure_of(const CompileJob& job) {
    try {
      run(job);
    } catch (const Error& error) {
      return error.what();
    }
    return "no failure";
  }
  std::string refusal_of(const CompileJob& job, ErrorCode code = ErrorCode::usage) {
    const Result<Code> compiled = target_.compile(job);
    EXPECT_FALSE(compiled);
    if (compiled) return {};
    EXPECT_EQ(compiled.failure().code(), code);
    return compiled.failure().message();
  }

  CpuTarget target_;
  Ref<runtime::Context> context_ =
      runtime::Context::create(hal::CpuDevice::open({.queues = 1, .helpers = 1}));
  Ref<runtime::Stream> stream_ = context_->new_stream();
};

TEST_F(CpuTargetTest, text_computes) {
  const std::vector<float> result = run(job_of(kTwice));
  for (size_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], 2.0F * static_cast<float>(i));
}

TEST_F(CpuTargetTest, kernels_of_one_name_and_entry_point_run_their_own_code) {
  const auto twice = pipeline_of(job_of(kTwice));
  std::string other(kTwice);
  other.replace(other.find("2 *"), 3, "3 *");
  const auto thrice = pipeline_of(job_of(other));
  EXPECT_EQ(run(twice)[10], 20.0F);
  EXPECT_EQ(run(thrice)[10], 30.0F);
  EXPECT_EQ(run(twice)[10], 20.0F);
}

// Mappings of code that came from memory of ours or, with symbols, from a folder of ours.
size_t kernels_in_the_process() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    const bool ours = line.find("memfd:holdfast:k") != std::string::npos ||
                      line.find("/kernel.so") != std::string::npos;
    if (ours && line.find(" r-x") != std::string::npos) ++count;
  }
  return count;
}

TEST_F(CpuTargetTest, code_leaves_the_process_with_its_last_pipeline) {
  const CompileJob job = job_of(kTwice);
  const size_t before = kernels_in_the_process();
  auto pipeline = pipeline_of(job);
  EXPECT_EQ(run(pipeline)[3], 6.0F);
  EXPECT_GT(kernels_in_the_process(), before);
  pipeline = nullptr;
  context_->trim();
  EXPECT_EQ(kernels_in_the_process(), before);
}

TEST_F(CpuTargetTest, threads_of_a_group_meet_at_barriers) {
  EXPECT_EQ(run(job_of(R"(
    struct Data { const float* x; float* y; unsigned long g; hf_host* host; unsigned n; };
    static __thread float shared[32];
    Data data{x, y, g, c->host, l.grid[0]};
    unsigned threads = l.grid[0] - g * 32; if (threads > 32) threads = 32;
    c->host->run_group(c->host, threads, [](void* p, unsigned t) {
      Data& d = *static_cast<Data*>(p);
      shared[t] = d.x[d.g * 32 + t];
      d.host->barrier(d.host, 8);
      float sum = 0;
      for (unsigned i = 0; i < d.host->items; ++i) sum += shared[i];
      d.y[d.g * 32 + t] = sum;
    }, &data);)")),
            [] {
              std::vector<float> expected(100);
              for (size_t i = 0; i < 100; ++i) {
                const size_t first = i / 32 * 32;
                for (size_t j = first; j < first + 32 && j < 100; ++j) {
                  expected[i] += static_cast<float>(j);
                }
              }
              return expected;
            }());
}

TEST_F(CpuTargetTest, what_a_kernel_raises_fails_the_list_with_kernel_file_line_and_values) {
  EXPECT_THAT(failure_of(job_of(
                  "if (g == 2) c->host->out_of_bounds(c->host, __FILE__, __LINE__, \"x\", 100, "
                  "99);")),
              HasSubstr("kernel 'k', k.metal:1: index 100 is outside 'x', which has 99 elements"));
  EXPECT_THAT(failure_of(job_of("\nif (g == 3) c->host->assertion(c->host, __FILE__, __LINE__, "
                                "\"i < 4\");")),
              HasSubstr("kernel 'k', k.metal:2: the assertion 'i < 4' does not hold"));
  EXPECT_THAT(failure_of(job_of("c->host->run_group(c->host, 8, [](void* p, unsigned t) {\n"
                                "  auto* host = static_cast<hf_host*>(p);\n"
                                "  if (t < 5) host->barrier(host, __LINE__); }, c->host);")),
              HasSubstr("kernel 'k': 3 of 8 threads returned before the barrier at line 3"));
  // And the device goes on.
  EXPECT_EQ(run(job_of(kTwice))[1], 2.0F);
}

TEST_F(CpuTargetTest, an_error_in_the_text_is_shown_at_the_authors_line) {
  const CompileJob job = job_of("float a = x[g];\n\ty[g] = a + foo(a);");
  EXPECT_EQ(refusal_of(job),
            "kernel 'k' (x: float32[1] -> y: float32[1]) does not compile; correct its text:\n"
            "k.metal:2:13: 'foo' was not declared in this scope\n"
            "  |  y[g] = a + foo(a);\n"
            "  |             ^");
  EXPECT_EQ(refusal_of(job), refusal_of(job));
}

TEST_F(CpuTargetTest, both_compilers_are_understood) {
  const Variable cxx("CXX", "clang++-16");
  if (!CppCompiler::find()) GTEST_SKIP() << "no clang++-16 here";
  if (has_address_sanitizer()) {
    // Kernels are compiled with the sanitizer then, whose runtime is a package of its own.
    const TemporaryFolder folder;
    const std::string probe = "clang++-16 -fsanitize=address -fPIC -shared -x c++ /dev/null -o " +
                              (folder.path() / "probe.so").native() + " 2>/dev/null";
    // NOLINTNEXTLINE(concurrency-mt-unsafe,cert-env33-c): a fixed command of a test
    if (std::system(probe.c_str()) != 0) {
      GTEST_SKIP() << "clang++-16 is here without its sanitizer's runtime (libclang-rt-16-dev)";
    }
  }
  EXPECT_EQ(run(job_of(kTwice))[3], 6.0F);
  EXPECT_EQ(refusal_of(job_of("float a = x[g];\n\ty[g] = a + foo(a);")),
            "kernel 'k' (x: float32[1] -> y: float32[1]) does not compile; correct its text:\n"
            "k.metal:2:13: use of undeclared identifier 'foo'\n"
            "  |  y[g] = a + foo(a);\n"
            "  |             ^");
}

// The same with the author's own translation unit.
CompileJob native_of(std::string text, std::string entry = "scale") {
  CompileJob job = job_of("");
  job.code.preamble.clear();
  job.code.text.clear();
  job.code.entry_point = entry;
  job.code.interface.has_launch_block = false;
  job.code.interface.parameter_bytes = {4};
  job.code.sources = {{"scale.cc", text}};
  auto native = std::make_shared<Native>();
  native->kind = NativeKind::cpp;
  native->text = std::move(text);
  native->entry_point = std::move(entry);
  job.native = std::move(native);
  return job;
}

TEST_F(CpuTargetTest, a_native_text_runs_as_it_is) {
  const std::vector<float> result = run(native_of(R"(#include <algorithm>
namespace { constexpr unsigned kGroup = 64; }
extern "C" void scale(const hf_call* call) {
  const float* x = static_cast<const float*>(call->buffers[0]);
  float* y = static_cast<float*>(call->buffers[1]);
  const unsigned long n = *reinterpret_cast<const unsigned*>(call->parameters);
  const unsigned long end = std::min<unsigned long>(n, call->end_group * kGroup);
  for (unsigned long i = call->first_group * kGroup; i < end; ++i) y[i] = 5 * x[i];
}
)"));
  for (size_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], 5.0F * static_cast<float>(i));
}

TEST_F(CpuTargetTest, a_native_text_that_cannot_be_used_is_refused_with_a_sentence) {
  EXPECT_THAT(refusal_of(native_of("extern \"C\" void scale(const hf_call* c) {\n  oops;\n}")),
              HasSubstr("\nscale.cc:2:3: 'oops' was not declared in this scope\n  |   oops;\n"));
  EXPECT_THAT(refusal_of(native_of("int main() {}", "main")), HasSubstr("entry point"));
  EXPECT_THAT(refusal_of(native_of("", "a; b")), HasSubstr("entry point"));
  CompileJob other = native_of("void main() {}");
  auto native = std::make_shared<Native>(*other.native);
  native->kind = NativeKind::glsl;
  other.native = native;
  EXPECT_THAT(refusal_of(other, ErrorCode::unsupported),
              AllOf(HasSubstr("kind glsl does not run on the CPU"), HasSubstr("cpp")));
  // A function that is not there, or goes by another name, shows when it is loaded.
  for (const char* text : {"static int nothing;", "void scale(const hf_call*) {}"}) {
    const CompileJob job = native_of(text, "absent");
    const Code code = target_.compile(job).or_raise();
    const auto loaded = target_.load(*context_->device(), job, code);
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.failure().message(), HasSubstr("kernel 'k' has no entry point"));
  }
  const CompileJob undefined =
      native_of("void missing(); extern \"C\" void scale(const hf_call*) { missing(); }");
  const Code code = target_.compile(undefined).or_raise();
  const auto loaded = target_.load(*context_->device(), undefined, code);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.failure().code(), ErrorCode::usage);
  EXPECT_THAT(loaded.failure().message(),
              AllOf(HasSubstr("undefined symbol"), HasSubstr("missing")));
}

TEST_F(CpuTargetTest, with_symbols_the_texts_lie_beside_the_object_while_it_lives) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("holdfast-test-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  {
    const Variable temporary("TMPDIR", folder.c_str());
    const Variable debug("HOLDFAST_CPU_DEBUG", "1");
    CpuTarget with_symbols;
    EXPECT_NE(with_symbols.version().or_raise(),
              CpuTarget({.compiler = {.debug = false}}).version().or_raise());
    const CompileJob job = job_of(kTwice);
    const Code code = with_symbols.compile(job).or_raise();
    EXPECT_TRUE(std::filesystem::is_empty(folder));
    auto pipeline = with_symbols.load(*context_->device(), job, code).or_raise();
    EXPECT_EQ(run(pipeline)[7], 14.0F);
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) names.push_back(entry.path().filename());
    }
    EXPECT_THAT(names, ::testing::UnorderedElementsAre("kernel.cc", "kernel.so", "k.metal"));
    pipeline = nullptr;
    context_->trim();
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  }
  std::filesystem::remove_all(folder);
}

TEST_F(CpuTargetTest, a_batch_gives_each_its_own_code_or_error) {
  const CompileJob good = job_of(kTwice);
  const CompileJob bad = job_of("oops;");
  std::string other(kTwice);
  other.replace(other.find("2 *"), 3, "3 *");
  const CompileJob thrice = job_of(other);
  const std::array<const CompileJob*, 3> jobs{&good, &bad, &thrice};
  const std::vector<Result<Code>> results = target_.compile_all(jobs);
  ASSERT_EQ(results.size(), 3U);
  ASSERT_TRUE(results[0]);
  ASSERT_FALSE(results[1]);
  ASSERT_TRUE(results[2]);
  EXPECT_EQ(results[1].failure().message(), refusal_of(bad));
  const auto load = [&](const CompileJob& job, const Code& code) {
    return target_.load(*context_->device(), job, code).or_raise();
  };
  EXPECT_EQ(run(load(good, results[0].value()))[3], 6.0F);
  EXPECT_EQ(run(load(thrice, results[2].value()))[3], 9.0F);
}

// A kernel whose threads meet at a barrier and have an array of so many bytes each.
CompileJob job_with_locals(size_t bytes) {
  CompileJob job = job_of(R"(
    struct Data { const float* x; float* y; unsigned long g; hf_host* host; };
    Data data{x, y, g, c->host};
    c->host->run_group(c->host, 2, [](void* p, unsigned t) {
      Data& d = *static_cast<Data*>(p);
      float own[)" + std::to_string(bytes / 4) +
                          R"(];
      for (float& v : own) v = d.x[t];
      asm volatile("" : : "r"(own) : "memory");
      d.host->barrier(d.host, 8);
      d.y[d.g * 32 + t] = own[d.g + t] + 1;
    }, &data);)");
  job.code.interface.cooperation = Cooperation::barriers;
  return job;
}

TEST_F(CpuTargetTest, locals_that_a_threads_stack_does_not_hold_are_refused) {
  EXPECT_EQ(run(job_with_locals(size_t{160} * 1024))[33], 2.0F);
  for (const char* compiler : {"g++", "clang++-16"}) {
    const Variable cxx("CXX", compiler);
    if (!CppCompiler::find()) continue;
    for (const size_t kib : {220, 264, 4096}) {
      EXPECT_THAT(refusal_of(job_with_locals(kib * 1024)),
                  AllOf(HasSubstr("kernel 'k'"), HasSubstr("variables of a thread take"),
                        HasSubstr("threadgroup memory")));
    }
  }
  // A thread of the device has more.
  CompileJob alone = job_with_locals(size_t{220} * 1024);
  alone.code.interface.cooperation = Cooperation::groups;
  EXPECT_TRUE(target_.compile(alone));
}

TEST_F(CpuTargetTest, trouble_with_the_compiler_names_the_kernel) {
  const CompileJob job = job_of(kTwice);
  const Code code = target_.compile(job).or_raise();
  {
    const Variable cxx("CXX", "no-such-compiler");
    EXPECT_THAT(refusal_of(job, ErrorCode::environment),
                AllOf(StartsWith("kernel 'k': "), HasSubstr("no such program")));
  }
  const Variable missing("TMPDIR", "/no/such/folder");
  EXPECT_THAT(refusal_of(job, ErrorCode::environment),
              AllOf(StartsWith("kernel 'k': "), HasSubstr("TMPDIR")));
  CpuTarget with_symbols({.compiler = {.debug = true}});
  for (CpuTarget* target : {&target_, &with_symbols}) {
    const auto loaded = target->load(
        *context_->device(), job, target == &target_ ? std::span(code).first(10) : std::span(code));
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.failure().message(), AllOf(StartsWith("kernel 'k': "), HasSubstr("TMPDIR")));
  }
}

// The kernel is instrumented as well, and reports name the author's file.
TEST(CpuTargetDeathTest, an_index_out_of_bounds_is_reported_at_the_authors_line) {
  if (!has_address_sanitizer()) GTEST_SKIP() << "only AddressSanitizer reports it";
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("holdfast-asan-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  {
    const Variable temporary("TMPDIR", folder.c_str());
    // Without threads, so that the process can fork.
    const auto device = hal::CpuDevice::open({.queues = 1, .helpers = 0, .immediate = true});
    CpuTarget target;
    const CompileJob job = job_of("\ny[1] = x[0];\ny[2] = x[100 + g];");
    const auto pipeline = target.load(*device, job, target.compile(job).or_raise()).or_raise();
    std::vector<float> x(100);
    std::vector<float> y(100);
    const std::array<std::span<std::byte>, 2> bindings{std::as_writable_bytes(std::span(x)),
                                                       std::as_writable_bytes(std::span(y))};
    const LaunchBlock block{{1, 1, 1}, {1, 1, 1}, {0, 0, 0}, 1};
    const auto& run = static_cast<hal::CpuPipeline&>(*pipeline).function();
    EXPECT_DEATH(run({{0, 0, 0}, {1, 1, 1}, bindings, std::as_bytes(std::span(&block, 1))}),
                 "heap-buffer-overflow(.|\n)*k.metal:3");
  }
  std::filesystem::remove_all(folder);
}

TEST(Target, the_device_decides_which) {
  const auto cpu = hal::CpuDevice::open({.queues = 1, .helpers = 0});
  EXPECT_NE(dynamic_cast<CpuTarget*>(make_target(cpu->info()).get()), nullptr);
}

TEST(CpuTargetNative, constants_are_macros_of_its_text) {
  CompileJob job;
  job.kernel = "native";
  job.code.entry_point = "native_entry";
  job.code.interface.has_launch_block = false;
  job.native = std::make_shared<Native>(Native{.kind = NativeKind::cpp,
                                               .text = R"(
static_assert(sizeof(T) == 2 && static_cast<T>(-1) > 0 && sizeof(B) == 2 && YES == 1 && NO == 0 && N == -3);
extern "C" void native_entry(const hf_call*) {}
)",
                                               .entry_point = "native_entry",
                                               .constants = {"NO"}});
  job.constants = {
      {"T", Dtype::uint16}, {"B", Dtype::float16}, {"YES", true}, {"NO", false}, {"N", -3}};
  CpuTarget target;
  EXPECT_TRUE(target.compile(job).ok()) << target.compile(job).failure().message();
  job.constants[4].value = int64_t{3};
  EXPECT_FALSE(target.compile(job).ok());
}

TEST(CpuTargetCut, has_a_group_for_every_thread_of_the_largest_grids) {
  const CpuTarget target;
  const Interface interface;
  for (const Size3& grid : {Size3{0xffffffff, 1, 1}, Size3{1, 0xffffffff, 1}, Size3{1, 1, 1}}) {
    const Size3 group{grid.x == 1 ? 1U : 256U, grid.y == 1 ? 1U : 256U, 1};
    DispatchParts parts;
    ASSERT_FALSE(target.cut(interface, {grid, group, 1}, parts));
    ASSERT_EQ(parts.size(), 1U);
    const uint64_t groups = uint64_t{parts[0].groups.x} * parts[0].block.groups_per_dispatch;
    EXPECT_GE(groups * 256, uint64_t{grid.x} * grid.y) << grid.x << " x " << grid.y;
  }
}

TEST(CpuTargetCut, refuses_more_groups_than_can_be_counted) {
  const CpuTarget target;
  DispatchParts parts;
  EXPECT_THAT(target.cut({}, {{0xffffffff, 0xffffffff, 0xffffffff}, {1, 1, 1}, 1}, parts).message(),
              HasSubstr("2^62"));
}

}  // namespace
}  // namespace holdfast::kernel
