#include "holdfast/kernel/targets/cuda/cuda_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "holdfast/kernel/cache/content_key.h"
#include "holdfast/kernel/generate/bodies_test.h"
#include "holdfast/kernel/native.h"
#include "holdfast/kernel/scenarios/kernel_rig_test.h"
#include "holdfast/kernel/targets/cuda/nvrtc_test.h"
#include "holdfast/testing/variable.h"

namespace holdfast::kernel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing::World;

hal::DeviceInfo gpu(std::string architecture = "sm_90") {
  hal::DeviceInfo info;
  info.name = "cuda:0";
  info.module_form = hal::ModuleForm::cuda;
  info.architecture = std::move(architecture);
  return info;
}

// A device that makes pipelines, and shows what of.
class PipelineRecorder final : public hal::Device {
 public:
  explicit PipelineRecorder(hal::DeviceInfo info) : Device(std::move(info)) {}

  Result<Ref<hal::Pipeline>> create_pipeline(hal::PipelineDesc desc) override {
    class Made final : public hal::Pipeline {
     public:
      Made(hal::DeviceId device, const hal::PipelineDesc& desc)
          : Pipeline(device, desc.name, desc.bindings, desc.parameter_bytes) {}
    };
    made.push_back(std::move(desc));
    return Ref<hal::Pipeline>(make_ref<Made>(id(), made.back()));
  }
  Result<Ref<hal::Buffer>> create_buffer(const hal::BufferDesc&) override { return none(); }
  Result<Ref<hal::Buffer>> import_buffer(hal::ExternalMemory) override { return none(); }
  Result<Ref<hal::Program>> create_program(hal::CommandList&) override { return none(); }
  Failure lost() const override { return {}; }
  hal::CloseReport close(sync::Deadline) override { return {}; }

  std::vector<hal::PipelineDesc> made;

 private:
  static Failure none() { return Failure(ErrorCode::unsupported, "it only makes pipelines"); }
};

// What the target makes of a job, as the device gets it.
hal::CudaModule module_for(CudaTarget& target, const CompileJob& job, const Code& code) {
  const auto device = make_ref<PipelineRecorder>(gpu());
  const auto pipeline = target.load(*device, job, code);
  EXPECT_TRUE(pipeline.ok());
  EXPECT_EQ(pipeline.value()->bindings(), job.code.interface.bindings.size());
  EXPECT_EQ(pipeline.value()->parameter_bytes(), job.code.interface.parameter_bytes);
  EXPECT_EQ(device->made.at(0).name, job.kernel);
  return std::get<hal::CudaModule>(device->made.at(0).module);
}

const Definition kScaling{
    .name = "scale", .inputs = {"a"}, .outputs = {"y"}, .source = "y[0] = a[0];"};
const CallSignature kScalingCall{.inputs = {{}}, .outputs = {{}}};

CompileJob job_for(const CudaTarget& target, const Definition& definition,
                   const CallSignature& signature = kScalingCall, bool bounds = false) {
  return {.kernel = definition.name,
          .variant = describe(definition, signature),
          .code = target.generate(definition, signature, {bounds}).or_raise()};
}
CompileJob native_job(const Native& native, const CallSignature& signature = kScalingCall) {
  return {.kernel = kScaling.name,
          .variant = describe(kScaling, signature),
          .code = native_interface(kScaling, signature, native),
          .native = std::make_shared<Native>(native),
          .constants = signature.constants};
}

constexpr const char* kPtx = ".version 8.0\n.target sm_90\n.visible .entry own() { ret; }\n";
Native ptx_native() { return {.kind = NativeKind::ptx, .text = kPtx, .entry_point = "own"}; }

TEST(CudaTarget, is_that_of_devices_that_take_its_modules) {
  EXPECT_NE(dynamic_cast<CudaTarget*>(make_target(gpu()).get()), nullptr);
}

TEST(CudaTarget, takes_a_cubin_rather_than_ptx_and_that_rather_than_text) {
  const CudaTarget target(gpu());
  EXPECT_THAT(target.natives(),
              ::testing::ElementsAre(NativeKind::cubin, NativeKind::ptx, NativeKind::cuda));
}

TEST(CudaTarget, modules_of_the_author_stay_as_they_are) {
  CudaTarget target(gpu());
  const Native cubin{.kind = NativeKind::cubin, .module = {std::byte{1}, std::byte{2}}};
  EXPECT_EQ(target.compile(native_job(cubin)).or_raise(), cubin.module);
  EXPECT_EQ(as_text(target.compile(native_job(ptx_native())).or_raise()), std::string(kPtx) + '\0');
}

class CudaTargetOverlap : public NvrtcTest {};

TEST_F(CudaTargetOverlap, is_for_generated_kernels_of_gpus_that_have_grid_control) {
  for (const char* architecture : {"sm_80", "sm_90", "sm_100"}) {
    CudaTarget target(gpu(architecture));
    const CompileJob job = job_for(target, kScaling);
    const Code code = target.compile(job).or_raise();
    EXPECT_EQ(module_for(target, job, code).waits_for_grids,
              std::string_view(architecture) != "sm_80");
    const CompileJob native = native_job(ptx_native());
    EXPECT_FALSE(module_for(target, native, target.compile(native).or_raise()).waits_for_grids);
  }
  EXPECT_FALSE(has_grid_control("compute_89"));
  EXPECT_TRUE(has_grid_control("compute_90"));
  EXPECT_TRUE(has_grid_control("sm_120"));
  EXPECT_FALSE(has_grid_control(""));
}

TEST(CudaTarget, a_native_of_another_kind_is_refused) {
  CudaTarget target(gpu());
  const auto code = target.compile(native_job({.kind = NativeKind::glsl, .text = "x"}));
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.failure().code(), ErrorCode::unsupported);
  EXPECT_THAT(code.failure().message(),
              AllOf(HasSubstr("'scale'"), HasSubstr("glsl"), HasSubstr("cuda, ptx or cubin")));
}

TEST(CudaTarget, native_text_names_its_entry_point) {
  CudaTarget target(gpu());
  for (const char* name : {"main", "two words"}) {
    const auto code =
        target.compile(native_job({.kind = NativeKind::cuda, .text = "x", .entry_point = name}));
    ASSERT_FALSE(code.ok());
    EXPECT_EQ(code.failure().code(), ErrorCode::usage);
    EXPECT_THAT(code.failure().message(), AllOf(HasSubstr(name), HasSubstr("__global__")));
  }
}

TEST(CudaTarget, generated_code_finds_its_block_size_in_its_parameters) {
  CudaTarget target(gpu());
  const CompileJob job = job_for(target, kScaling);
  const hal::CudaModule module = module_for(target, job, {std::byte{7}});
  EXPECT_EQ(module.code, Code{std::byte{7}});
  EXPECT_EQ(module.entry_point, job.code.entry_point);
  EXPECT_EQ(module.threads, (hal::Groups{0, 0, 0}));
  EXPECT_EQ(module.threads_at, Bytes{offsetof(LaunchBlock, block)});
  EXPECT_FALSE(module.binding_lengths);
  EXPECT_TRUE(
      module_for(target, job_for(target, kScaling, kScalingCall, true), {}).binding_lengths);
}

TEST(CudaTarget, a_native_is_loaded_with_its_launch_attributes) {
  CudaTarget target(gpu());
  Native native = ptx_native();
  native.threadgroup = Size3{64, 2, 1};
  native.shared_memory = 100_KiB;
  native.cluster = {2, 1, 1};
  native.cooperative = true;
  const hal::CudaModule module = module_for(target, native_job(native), {});
  EXPECT_EQ(module.entry_point, "own");
  EXPECT_EQ(module.threads, (hal::Groups{64, 2, 1}));
  EXPECT_EQ(module.shared_memory, 100_KiB);
  EXPECT_EQ(module.cluster, (hal::Groups{2, 1, 1}));
  EXPECT_TRUE(module.cooperative);
  EXPECT_FALSE(module.binding_lengths);
}

TEST(CudaTarget, a_native_without_a_size_finds_the_calls_behind_its_params) {
  CudaTarget target(gpu());
  CallSignature signature = kScalingCall;
  EXPECT_EQ(module_for(target, native_job(ptx_native(), signature), {}).threads_at, 0_B);
  signature.params = {{"wide", Dtype::float64}, {"narrow", Dtype::float32}};
  const hal::CudaModule module = module_for(target, native_job(ptx_native(), signature), {});
  EXPECT_EQ(module.threads, (hal::Groups{0, 0, 0}));
  EXPECT_EQ(module.threads_at, 16_B) << "the struct of the params has 16 bytes";
}

TEST(CudaTarget, a_declared_size_is_the_only_one) {
  const CudaTarget target(gpu());
  Native native = ptx_native();
  EXPECT_EQ(target.group_size(native_job(native), {}).or_raise(), std::nullopt);
  native.threadgroup = Size3{64, 2, 1};
  EXPECT_EQ(target.group_size(native_job(native), {}).or_raise(), (Size3{64, 2, 1}));
}

TEST(CudaTarget, whatever_decides_code_or_pipeline_makes_another_key) {
  const auto key = [](const char* architecture, const Native& native) {
    CudaTarget target(gpu(architecture));
    return ContentKey(native_job(native), target.version().or_raise());
  };
  const Native plain = ptx_native();
  EXPECT_EQ(key("sm_90", plain), key("sm_90", plain));
  EXPECT_FALSE(key("sm_90", plain) == key("sm_80", plain));
  for (const auto change :
       {+[](Native& n) { n.shared_memory = 64_KiB; }, +[](Native& n) { n.cluster.z = 2; },
        +[](Native& n) { n.cooperative = true; }, +[](Native& n) { n.threadgroup = Size3{}; }}) {
    Native other = plain;
    change(other);
    EXPECT_FALSE(key("sm_90", plain) == key("sm_90", other));
  }
  const CudaTarget target(gpu());
  EXPECT_FALSE(ContentKey(job_for(target, kScaling, kScalingCall, true), "") ==
               ContentKey(job_for(target, kScaling, kScalingCall, false), ""));
}

// What one thread of a dispatch finds out by the preamble's hf_group.
struct FoundPlace {
  std::array<uint32_t, 3> at{};  // in the grid
  uint32_t index = 0;            // in the threadgroup
  uint32_t number = 0;           // in the block, which decides its warp and lane
};

// The threads of a part that stay.
template <typename Visit>
void each_thread(const DispatchPart& part, const Visit& visit) {
  const LaunchBlock& b = part.block;
  const std::array groups{part.groups.x, part.groups.y, part.groups.z};
  for (uint32_t g = 0; g < groups[0] * groups[1] * groups[2]; ++g) {
    const std::array block_at{g % groups[0], g / groups[0] % groups[1], g / groups[0] / groups[1]};
    std::array<uint32_t, 3> at{};
    std::array<uint32_t, 3> size{};
    for (size_t i = 0; i < 3; ++i) {
      at[i] = (block_at[i] + b.first_group[i]) * b.group[i];
      ASSERT_LT(at[i], b.grid[i]);
      size[i] = std::min(b.grid[i] - at[i], b.group[i]);
    }
    std::vector<FoundPlace> staying;
    uint32_t number = 0;
    for (uint32_t z = 0; z < b.block[2]; ++z) {
      for (uint32_t y = 0; y < b.block[1]; ++y) {
        for (uint32_t x = 0; x < b.block[0]; ++x, ++number) {
          if (x >= size[0] || y >= size[1] || z >= size[2]) continue;
          staying.push_back(
              {{at[0] + x, at[1] + y, at[2] + z}, (z * size[1] + y) * size[0] + x, number});
        }
      }
    }
    ASSERT_EQ(staying.size(), size[0] * size[1] * size[2]) << "the whole group is there";
    for (const FoundPlace& place : staying) visit(place);
  }
}

std::vector<Size3> odd_sizes() {
  std::vector<Size3> sizes;
  for (const uint32_t x : {1U, 3U, 4U, 7U, 8U, 13U}) {
    for (const uint32_t y : {1U, 2U, 5U}) {
      for (const uint32_t z : {1U, 2U, 3U}) sizes.push_back({x, y, z});
    }
  }
  return sizes;
}

// Each thread of each grid runs once. Where they meet at barriers, the threads that stay are the
// first of their block, in the order that the text counts them.
void expect_whole_cover(const CudaTarget& target, const hal::Groups& limit) {
  for (const Cooperation cooperation :
       {Cooperation::none, Cooperation::groups, Cooperation::barriers}) {
    const Interface interface {
      .cooperation = cooperation
    };
    for (const Size3& grid : odd_sizes()) {
      for (const Size3& group : odd_sizes()) {
        SCOPED_TRACE(::testing::Message()
                     << grid.x << ' ' << grid.y << ' ' << grid.z << " in groups of " << group.x
                     << ' ' << group.y << ' ' << group.z << ", " << static_cast<int>(cooperation));
        DispatchParts parts;
        ASSERT_FALSE(target.cut(interface, {grid, group, 1}, parts));
        std::vector<bool> seen(size_t{grid.x} * grid.y * grid.z);
        size_t count = 0;
        for (const DispatchPart& part : parts) {
          ASSERT_TRUE(part.groups.x <= limit.x && part.groups.y <= limit.y &&
                      part.groups.z <= limit.z && part.groups.count() > 0);
          ASSERT_LE(part.block.block[0] * part.block.block[1] * part.block.block[2],
                    group.x * group.y * group.z);
          each_thread(part, [&](const FoundPlace& place) {
            const auto [x, y, z] = place.at;
            const size_t element = (size_t{z} * grid.y + y) * grid.x + x;
            ASSERT_FALSE(seen[element]) << "twice";
            seen[element] = true;
            ++count;
            if (cooperation == Cooperation::barriers) {
              ASSERT_EQ(place.index, place.number);
            }
          });
          if (::testing::Test::HasFatalFailure()) return;
        }
        ASSERT_EQ(count, seen.size());
      }
    }
  }
}

TEST(CudaTargetCut, every_thread_of_a_grid_runs_once) {
  const hal::DeviceInfo info = gpu();
  expect_whole_cover(CudaTarget(info), info.max_groups);
}

TEST(CudaTargetCut, every_thread_runs_once_where_dispatches_are_short) {
  hal::DeviceInfo info = gpu();
  info.max_groups = {4, 2, 1};
  expect_whole_cover(CudaTarget(info), info.max_groups);
}

size_t parts_of(Cooperation cooperation, const Size3& grid, const Size3& group) {
  DispatchParts parts;
  EXPECT_FALSE(CudaTarget(gpu()).cut({.cooperation = cooperation}, {grid, group, 1}, parts));
  return parts.size();
}

TEST(CudaTargetCut, one_dispatch_is_enough_unless_barriers_meet_ragged_blocks) {
  using enum Cooperation;
  EXPECT_EQ(parts_of(none, {100, 100, 100}, {8, 8, 8}), 1U);
  EXPECT_EQ(parts_of(groups, {100, 100, 100}, {8, 8, 8}), 1U);
  EXPECT_EQ(parts_of(barriers, {100, 1, 1}, {32, 1, 1}), 1U);
  EXPECT_EQ(parts_of(barriers, {100, 1, 1}, {32, 8, 1}), 1U);
  EXPECT_EQ(parts_of(barriers, {100, 7, 3}, {32, 1, 1}), 1U);
  EXPECT_EQ(parts_of(barriers, {64, 100, 1}, {32, 8, 1}), 1U);
  EXPECT_EQ(parts_of(barriers, {96, 96, 9}, {8, 8, 2}), 1U);
  EXPECT_EQ(parts_of(barriers, {100, 64, 1}, {32, 8, 1}), 2U);
  EXPECT_EQ(parts_of(barriers, {100, 100, 9}, {32, 8, 2}), 4U);
}

TEST(CudaTargetCut, a_block_has_no_threads_that_no_group_of_the_grid_needs) {
  DispatchParts parts;
  ASSERT_FALSE(CudaTarget(gpu()).cut({}, {{5, 2, 1}, {256, 4, 1}, 1}, parts));
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_THAT(parts[0].block.block, ::testing::ElementsAre(5, 2, 1));
  EXPECT_THAT(parts[0].block.group, ::testing::ElementsAre(256, 4, 1));
}

TEST(CudaTargetCut, the_longest_grids_are_dispatched_in_parts) {
  EXPECT_EQ(parts_of(Cooperation::none, {0xffffffff, 1, 1}, {256, 1, 1}), 1U);
  EXPECT_EQ(parts_of(Cooperation::none, {0xffffffff, 1, 1}, {1, 1, 1}), 3U);
  EXPECT_EQ(parts_of(Cooperation::none, {64, 65536, 1}, {64, 1, 1}), 2U);
  EXPECT_EQ(parts_of(Cooperation::none, {64, 65535 * 8, 1}, {32, 8, 1}), 1U);
  DispatchParts parts;
  ASSERT_FALSE(CudaTarget(gpu()).cut({}, {{1, 200'000, 1}, {1, 1, 1}, 1}, parts));
  uint32_t next = 0;
  for (const DispatchPart& part : parts) {
    EXPECT_EQ(part.block.first_group[1], next);
    EXPECT_LE(part.groups.y, 65535U);
    next += part.groups.y;
  }
  EXPECT_EQ(next, 200'000U);
}

TEST(CudaTargetCut, what_no_number_of_dispatches_runs_is_refused_with_a_sentence) {
  const CudaTarget target(gpu());
  DispatchParts parts;
  for (const Size3& grid : {Size3{1, 0xffffffff, 1}, Size3{1, 0xffffffff, 0xffffffff},
                            Size3{0xffffffff, 0xffffffff, 0xffffffff}}) {
    EXPECT_THAT(target.cut({}, {grid, {1, 1, 1}, 1}, parts).message(),
                HasSubstr("takes more than 1024 dispatches"));
  }
  EXPECT_THAT(target.cut({}, {{1, 1, 100}, {1, 1, 128}, 1}, parts).message(),
              AllOf(HasSubstr("100 threads along z"), HasSubstr("allow 64")));
  EXPECT_FALSE(target.cut({}, {{1, 1, 5}, {1, 1, 128}, 1}, parts)) << "no block has more than 5";
}

// Launches of natives, on a CPU whose kernels are what the GPU would be given.
struct CudaNativeTest : ::testing::Test {
  struct Seen {
    std::vector<std::byte> parameters;
    hal::Groups groups;
  };
  class Loader final : public WrappingTarget {
   public:
    explicit Loader(std::shared_ptr<std::vector<Seen>> seen)
        : WrappingTarget(std::make_shared<CudaTarget>(gpu())), seen_(std::move(seen)) {}
    Result<Ref<hal::Pipeline>> load(hal::Device& device, const CompileJob& job,
                                    std::span<const std::byte>) override {
      const auto run = [seen = seen_](const hal::HostGroup& group) {
        if (group.group.x + group.group.y + group.group.z != 0) return;
        seen->push_back({{group.parameters.begin(), group.parameters.end()}, group.groups});
      };
      return device.create_pipeline({job.kernel, hal::HostFunction(run),
                                     static_cast<uint32_t>(job.code.interface.bindings.size()),
                                     job.code.interface.parameter_bytes});
    }

   private:
    std::shared_ptr<std::vector<Seen>> seen_;
  };

  std::shared_ptr<std::vector<Seen>> seen = std::make_shared<std::vector<Seen>>();
  World world{World::Mode::validate, {}, testing::Family::cpu};
  KernelRig rig{world, {.target = std::make_shared<Loader>(seen), .disk = nullptr}};
  Ref<runtime::Stream> stream = rig.stream("main");

  ~CudaNativeTest() override { EXPECT_EQ(world.failure(), ""); }

  static Kernel kernel(Native native) {
    return Kernel(
        {.name = "own", .inputs = {"a"}, .outputs = {"y"}, .natives = {std::move(native)}});
  }
  void launch(const Kernel& kernel, Size3 grid, Size3 group, std::vector<Param> params = {}) {
    const TestArray a = array_of(*stream, std::vector<float>(64, 1), "a");
    const TestArray y = empty_array(*stream, Dtype::float32, 64, "y");
    const std::array in{a.ref()};
    const std::array out{y.ref()};
    rig.kernels.launch(
        *stream, kernel,
        {.inputs = in, .outputs = out, .grid = grid, .threadgroup = group, .params = params});
    (void)values_of<float>(*stream, y);
  }
  std::string refusal(const Kernel& kernel, Size3 grid, Size3 group) {
    try {
      launch(kernel, grid, group);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "nothing was refused";
  }
};

TEST_F(CudaNativeTest, one_pipeline_runs_in_groups_of_each_calls_size) {
  struct Arguments {
    double wide;
    float narrow;
    uint32_t padding;
    uint32_t threads[3];
  };
  const Kernel own = kernel(ptx_native());
  const std::vector<Param> params{{"wide", Scalar::of_float64(2.5)}, {"narrow", 1.5F}};
  launch(own, {100, 3, 1}, {32, 2, 1}, params);
  launch(own, {100, 3, 1}, {8, 1, 1}, params);
  EXPECT_EQ(rig.kernels.stats().compiles, 1U);
  ASSERT_EQ(seen->size(), 2U);
  Arguments first{};
  ASSERT_EQ(seen->at(0).parameters.size(), sizeof first);
  std::memcpy(&first, seen->at(0).parameters.data(), sizeof first);
  EXPECT_EQ(first.wide, 2.5);
  EXPECT_EQ(first.narrow, 1.5F);
  EXPECT_THAT(first.threads, ::testing::ElementsAre(32, 2, 1));
  EXPECT_EQ(seen->at(0).groups, (hal::Groups{4, 2, 1}));
  std::memcpy(&first, seen->at(1).parameters.data(), sizeof first);
  EXPECT_THAT(first.threads, ::testing::ElementsAre(8, 1, 1));
  EXPECT_EQ(seen->at(1).groups, (hal::Groups{13, 3, 1}));
}

TEST_F(CudaNativeTest, the_struct_of_the_params_is_padded_to_eight) {
  Native native = ptx_native();
  native.threadgroup = Size3{32, 1, 1};
  launch(kernel(native), {32, 1, 1}, {32, 1, 1},
         {{"wide", Scalar::of_float64(2.5)}, {"narrow", 1.5F}});
  ASSERT_EQ(seen->size(), 1U);
  EXPECT_EQ(seen->at(0).parameters.size(), 16U);
}

TEST_F(CudaNativeTest, a_call_of_another_size_than_the_declared_is_refused) {
  Native native = ptx_native();
  native.threadgroup = Size3{32, 1, 1};
  EXPECT_THAT(refusal(kernel(native), {64, 1, 1}, {64, 1, 1}),
              HasSubstr("its native has groups of 32 x 1 x 1 threads"));
}

TEST_F(CudaNativeTest, the_groups_of_a_call_fill_its_clusters) {
  Native native = ptx_native();
  native.cluster = {2, 1, 1};
  launch(kernel(native), {128, 1, 1}, {32, 1, 1});
  EXPECT_EQ(seen->at(0).groups, (hal::Groups{4, 1, 1}));
  EXPECT_THAT(refusal(kernel(native), {96, 1, 1}, {32, 1, 1}),
              AllOf(HasSubstr("'own'"), HasSubstr("clusters of 2 x 1 x 1 groups"),
                    HasSubstr("the grid has 3 x 1 x 1")));
}

TEST_F(CudaNativeTest, a_group_that_is_too_deep_is_refused) {
  EXPECT_THAT(refusal(kernel(ptx_native()), {1, 1, 5}, {1, 1, 128}),
              HasSubstr("128 threads along z"));
}

class CudaTargetCompile : public NvrtcTest {};

TEST_F(CudaTargetCompile, kernel_text_becomes_a_cubin_for_the_gpu) {
  for (const char* architecture : {"sm_80", "sm_90"}) {
    CudaTarget target(gpu(architecture));
    EXPECT_THAT(target.version().or_raise(), HasSubstr(architecture));
    const Code code = target.compile(job_for(target, kScaling)).or_raise();
    EXPECT_THAT(as_text(code), StartsWith("\x7f"
                                          "ELF"));
  }
}

TEST_F(CudaTargetCompile, a_gpu_that_nvrtc_does_not_know_gets_ptx) {
  const int newest = NvrtcLibrary::of_process().value().architectures().back();
  CudaTarget target(gpu("sm_999"));
  const CompileJob job = job_for(target, kScaling);
  EXPECT_THAT(as_text(target.compile(job).or_raise()),
              AllOf(HasSubstr(".target sm_" + std::to_string(newest)),
                    HasSubstr(".entry " + job.code.entry_point)));
  EXPECT_THAT(target.version().or_raise(), HasSubstr("compute_" + std::to_string(newest)));
}

TEST_F(CudaTargetCompile, an_error_stands_at_the_authors_line) {
  CudaTarget target(gpu());
  Definition wrong = kScaling;
  wrong.source = "uint i = 0;\ny[i] = b[i];";
  const auto body = target.compile(job_for(target, wrong));
  ASSERT_FALSE(body.ok());
  EXPECT_EQ(body.failure().code(), ErrorCode::usage);
  EXPECT_THAT(body.failure().message(),
              AllOf(HasSubstr("kernel 'scale' (a: float32[1] -> y: float32[1])"),
                    HasSubstr("scale:2:8: identifier \"b\" is undefined")));
  const auto native = target.compile(native_job(
      {.kind = NativeKind::cuda,
       .text = "extern \"C\" __global__ void own(const float* a, float* y) {\n  y[q] = 1;\n}\n",
       .entry_point = "own"}));
  ASSERT_FALSE(native.ok());
  EXPECT_THAT(native.failure().message(), HasSubstr("scale:2:5: identifier \"q\" is undefined"));
}

TEST_F(CudaTargetCompile, native_text_has_the_constants_and_the_gpus_own_instructions) {
  CudaTarget target(gpu("sm_90"));
  CallSignature signature = kScalingCall;
  signature.constants = {{"N", int64_t{-3}},
                         {"YES", true},
                         {"T", Dtype::float16},
                         {"B", Dtype::bfloat16},
                         {"W", Dtype::uint64}};
  const Native native{.kind = NativeKind::cuda,
                      .text = R"(#include <cuda_bf16.h>
#include <cuda_fp16.h>
static_assert(N == -3 && YES == 1 && sizeof(T) == 2 && sizeof(B) == 2 && sizeof(W) == 8);
extern "C" __global__ void own(const float* a, float* y) {
  asm volatile("wgmma.fence.sync.aligned;");
  y[threadIdx.x] = a[threadIdx.x] + float(T(2));
}
)",
                      .entry_point = "own"};
  const auto code = target.compile(native_job(native, signature));
  EXPECT_TRUE(code.ok()) << code.failure().message();
  signature.constants[0].value = int64_t{3};
  EXPECT_FALSE(target.compile(native_job(native, signature)).ok());
}

TEST_F(CudaTargetCompile, an_error_in_a_native_names_its_file) {
  CudaTarget target(gpu());
  Definition in_file = kScaling;
  in_file.file = "kernels/own.cu";
  const Native native{.kind = NativeKind::cuda, .text = "\nwrong", .entry_point = "own"};
  CompileJob job = native_job(native);
  job.code = native_interface(in_file, kScalingCall, native);
  const auto code = target.compile(job);
  ASSERT_FALSE(code.ok());
  EXPECT_THAT(code.failure().message(), HasSubstr("kernels/own.cu:2"));
}

TEST_F(CudaTargetCompile, debuggers_see_lines_where_that_is_asked_for) {
  CudaTarget plain(gpu("sm_999"));
  const testing::Variable debug("HOLDFAST_CUDA_DEBUG", "1");
  CudaTarget shown(gpu("sm_999"));
  EXPECT_NE(plain.version().or_raise(), shown.version().or_raise());
  Definition in_file = kScaling;
  in_file.file = "my_scale.metal";
  EXPECT_THAT(as_text(plain.compile(job_for(plain, in_file)).or_raise()),
              Not(HasSubstr("my_scale.metal")));
  EXPECT_THAT(as_text(shown.compile(job_for(shown, in_file)).or_raise()),
              HasSubstr("my_scale.metal"));
}

TEST(CudaTarget, without_nvrtc_modules_still_load_and_text_says_what_to_install) {
  if (NvrtcLibrary::of_process()) GTEST_SKIP() << "NVRTC is here";
  CudaTarget target(gpu());
  EXPECT_TRUE(target.version().ok());
  EXPECT_TRUE(target.compile(native_job(ptx_native())).ok());
  const auto code = target.compile(job_for(target, kScaling));
  ASSERT_FALSE(code.ok());
  EXPECT_THAT(code.failure().message(),
              AllOf(HasSubstr("'scale'"), HasSubstr("Install the CUDA toolkit")));
}

}  // namespace
}  // namespace holdfast::kernel
