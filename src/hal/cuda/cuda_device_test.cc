#include "holdfast/hal/cuda/cuda_device.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <span>

#include "holdfast/base/sync/clock.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/cuda/stub_gpu_test.h"
#include "holdfast/hal/devices.h"
#include "holdfast/testing/temporary_folder.h"
#include "holdfast/testing/variable.h"

// Which device is opened, and what it says of itself and of kernels.

namespace holdfast::hal {
namespace {

using namespace cu;  // NOLINT(google-build-using-namespace): the driver's names
using ::testing::AllOf;
using ::testing::HasSubstr;

class CudaDeviceTest : public StubGpu {
 protected:
  // The failure with which it is refused.
  static Failure refused(const CudaOptions& with) {
    const auto opened = CudaDevice::open(with);
    EXPECT_FALSE(opened.ok());
    return opened.ok() ? Failure(ErrorCode::usage, "opened") : opened.failure();
  }
  static CudaOptions selecting(const char* device) {
    CudaOptions options = StubGpu::options();
    options.device = device;
    return options;
  }
  // The description of the device that the selector opens.
  static std::string opened(const char* selector) {
    return CudaDevice::open(selecting(selector)).or_raise()->info().description;
  }
  Failure refused(const PipelineDesc& desc) {
    const auto made = device().create_pipeline(desc);
    EXPECT_FALSE(made.ok());
    return made.ok() ? Failure(ErrorCode::usage, "made") : made.failure();
  }
  static void set_three_devices() {
    stub().set_devices(
        {{"NVIDIA Alpha"},
         {"GRID Virtual", 4 << 20, {{CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0}}},
         {"NVIDIA H200", 8 << 20}});
  }
};

// Which one

TEST_F(CudaDeviceTest, says_what_the_driver_says_of_it) {
  stub().set_devices({{"NVIDIA Alpha",
                       uint64_t{3} << 30,
                       {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8},
                        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 6},
                        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 46},
                        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 512},
                        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 0}}}});
  CudaOptions plain;
  plain.driver = testing::stub_cuda_path();
  const auto made = CudaDevice::open(plain).or_raise();
  const DeviceInfo& info = made->info();
  EXPECT_EQ(info.name, "cuda:0");
  EXPECT_THAT(info.description, AllOf(HasSubstr("NVIDIA Alpha"), HasSubstr("8.6"),
                                      HasSubstr("46 multiprocessors"), HasSubstr("3.0 GiB")));
  EXPECT_EQ(info.architecture, "sm_86");
  EXPECT_EQ(info.queues, 8U);
  EXPECT_EQ(info.copy_queues, 0U);
  EXPECT_EQ(made->queues().size(), 8U);
  EXPECT_EQ(info.max_group_threads, 512U);
  EXPECT_EQ(info.memory, Bytes{uint64_t{3} << 30});
  EXPECT_EQ(info.module_form, ModuleForm::cuda);
}

TEST_F(CudaDeviceTest, has_a_queue_for_copies_where_the_gpu_has_engines_for_them) {
  CudaOptions plain = options();
  plain.copy_queues.reset();
  open(plain);
  EXPECT_EQ(device().info().copy_queues, 1U);
  ASSERT_EQ(device().queues().size(), 3U);
  auto copies = list("copies");
  const auto data = words(4);
  copies.fill(data, {{}, data->size()}, std::byte{1});
  EXPECT_TRUE(stub_reached(submit(copies, {}, 2)));
  auto computes = list("computes");
  affine(computes, data, 2, 0);
  const auto refused = queue(2)->submit(computes);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code(), ErrorCode::usage);
  EXPECT_THAT(refused.failure().message(),
              AllOf(HasSubstr("'computes'"), HasSubstr("copies and fills alone")));
  EXPECT_TRUE(stub_reached(submit(computes)));
}

TEST_F(CudaDeviceTest, is_selected_by_index_and_by_a_part_of_its_name) {
  set_three_devices();
  EXPECT_THAT(opened(""), HasSubstr("NVIDIA Alpha"));
  EXPECT_THAT(opened("0"), HasSubstr("NVIDIA Alpha"));
  EXPECT_THAT(opened("2"), HasSubstr("NVIDIA H200"));
  EXPECT_THAT(opened("h200"), HasSubstr("NVIDIA H200"));
  EXPECT_THAT(opened("nvidia h"), HasSubstr("NVIDIA H200"));
  EXPECT_EQ(CudaDevice::open(selecting("h200")).or_raise()->info().name, "cuda:2");
}

TEST_F(CudaDeviceTest, that_is_unknown_is_refused_with_those_there_are) {
  set_three_devices();
  for (const char* selector : {"3", "radeon", "00"}) {
    const Failure failure = refused(selecting(selector));
    EXPECT_EQ(failure.code(), ErrorCode::usage);
    EXPECT_THAT(failure.message(),
                AllOf(HasSubstr(std::string("'") + selector + "'"),
                      HasSubstr("cuda:0 (NVIDIA Alpha), cuda:1 (GRID Virtual), cuda:2 (NVIDIA "
                                "H200)")));
  }
}

TEST_F(CudaDeviceTest, that_cannot_be_used_is_listed_and_refused_with_why) {
  set_three_devices();
  const auto listed = list_cuda_devices(testing::stub_cuda_path());
  ASSERT_EQ(listed.size(), 3U);
  EXPECT_EQ(listed[0].name, "cuda:0");
  EXPECT_EQ(listed[0].missing, "");
  EXPECT_EQ(listed[1].name, "cuda:1");
  EXPECT_THAT(listed[1].missing, HasSubstr("no memory pools; update it"));
  EXPECT_THAT(listed[1].description,
              AllOf(HasSubstr("GRID Virtual"), HasSubstr("cannot be used: its driver has no")));
  const Failure failure = refused(selecting("1"));
  EXPECT_EQ(failure.code(), ErrorCode::unsupported);
  EXPECT_THAT(failure.message(),
              AllOf(HasSubstr("'cuda:1' (GRID Virtual)"), HasSubstr("no memory pools; update it")));
}

TEST_F(CudaDeviceTest, the_first_that_can_be_used_is_opened_by_default) {
  stub().set_devices({{"Old", 4 << 20, {{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0}}}, {"New"}});
  EXPECT_EQ(CudaDevice::open(options()).or_raise()->info().name, "cuda:1");
}

TEST_F(CudaDeviceTest, where_none_can_be_used_each_has_its_reason) {
  stub().set_devices(
      {{"Old", 4 << 20, {{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0}}},
       {"GRID Virtual", 4 << 20, {{CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0}}}});
  const Failure failure = refused(options());
  EXPECT_EQ(failure.code(), ErrorCode::unsupported);
  EXPECT_THAT(failure.message(),
              AllOf(HasSubstr("cuda:0 (Old): it has no unified addresses"),
                    HasSubstr("cuda:1 (GRID Virtual): its driver has no memory pools")));
}

TEST_F(CudaDeviceTest, that_the_driver_does_not_describe_keeps_its_number) {
  set_three_devices();
  stub().fail("cuDeviceGetName", 1, CUDA_ERROR_NOT_PERMITTED, 2);
  const auto listed = list_cuda_devices(testing::stub_cuda_path());
  ASSERT_EQ(listed.size(), 3U);
  EXPECT_THAT(listed[0].missing,
              AllOf(HasSubstr("CUDA_ERROR_NOT_PERMITTED"), HasSubstr("nvidia-smi")));
  EXPECT_THAT(listed[2].description, HasSubstr("NVIDIA H200"));
  EXPECT_EQ(listed[2].name, "cuda:2");
}

TEST_F(CudaDeviceTest, that_does_not_tell_its_limits_is_refused) {
  // After those of the list.
  for (const uint64_t nth : {6, 9, 12}) {
    stub().fail("cuDeviceGetAttribute", nth, CUDA_ERROR_NOT_PERMITTED);
    const auto opened = CudaDevice::open(options());
    stub().fail_no_more();
    if (opened.ok()) {
      EXPECT_EQ(opened.value()->info().max_group_threads, 1024U);
      EXPECT_EQ(opened.value()->info().architecture, "sm_90");
      EXPECT_GT(opened.value()->info().max_groups.x, 0U);
    } else {
      EXPECT_THAT(opened.failure().message(), HasSubstr("CUDA_ERROR_NOT_PERMITTED"));
    }
  }
}

TEST_F(CudaDeviceTest, without_any_the_reason_is_listed_and_given) {
  EXPECT_TRUE(CudaApi::load(testing::stub_cuda_path()).ok());
  stub().set_devices({});
  const Failure failure = refused(options());
  EXPECT_EQ(failure.code(), ErrorCode::environment);
  EXPECT_THAT(failure.message(), AllOf(HasSubstr("lists no GPU"), HasSubstr("nvidia-smi"),
                                       HasSubstr("CUDA_VISIBLE_DEVICES")));
  const auto listed = list_cuda_devices(testing::stub_cuda_path());
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_THAT(listed[0].missing, HasSubstr("lists no GPU"));
}

TEST_F(CudaDeviceTest, a_missing_library_is_listed_and_refused_with_what_to_install) {
  CudaOptions missing = options();
  missing.driver = "/nowhere/libcuda.so.1";
  EXPECT_THAT(refused(missing).message(), HasSubstr("Install NVIDIA's driver 525 or newer"));
  const auto listed = list_cuda_devices("/nowhere/libcuda.so.1");
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].name, "cuda");
  EXPECT_THAT(listed[0].missing, HasSubstr("Install NVIDIA's driver 525 or newer"));
}

TEST_F(CudaDeviceTest, an_old_driver_and_missing_entry_points_are_refused_by_name) {
  const testing::TemporaryFolder folder;
  int count = 0;
  // A name under which nobody has loaded it yet.
  const auto with_new_path = [&] {
    const auto path = folder.path() / ("driver" + std::to_string(++count) + ".so");
    std::filesystem::create_symlink(testing::stub_cuda_path(), path);
    CudaOptions with = options();
    with.driver = path.native();
    return with;
  };
  stub().set_driver_version(11080);
  EXPECT_THAT(refused(with_new_path()).message(),
              AllOf(HasSubstr("is of CUDA 11.8"), HasSubstr("driver 525 or newer")));
  stub().set_driver_version(12000);
  stub().hide("cuMemPoolCreate");
  EXPECT_THAT(refused(with_new_path()).message(), HasSubstr("lacks cuMemPoolCreate"));
  stub().reset();
  // Without what may be missing, it works.
  for (const char* call : {"cuStreamWriteValue64", "cuStreamWaitValue64", "cuGraphAddDependencies",
                           "cuMemPoolTrimTo", "cuFuncGetParamInfo"}) {
    stub().hide(call);
  }
  open(with_new_path());
  const auto data = uploaded({1, 2, 3});
  auto work = list();
  affine(work, data, 2, 1);
  const Point done = submit(work, {}, 1);
  EXPECT_EQ(read(data, done), (StubWords{3, 5, 7}));
}

TEST_F(CudaDeviceTest, the_registry_opens_it_by_name) {
  const testing::Variable driver("HOLDFAST_CUDA_DRIVER", testing::stub_cuda_path().c_str());
  set_three_devices();
  // Whatever HOLDFAST_VALIDATE puts around it.
  EXPECT_THAT(open_device("cuda").or_raise()->info().name, HasSubstr("cuda:0"));
  EXPECT_THAT(open_device("cuda:h200").or_raise()->info().name, HasSubstr("cuda:2"));
  const auto unknown = open_device("cuda:radeon");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.failure().message(), HasSubstr("cuda:2 (NVIDIA H200)"));
}

// Memory

TEST_F(CudaDeviceTest, memory_is_counted_and_refused_by_name_beyond_its_limit) {
  CudaOptions small = options();
  small.memory = 1_MiB;
  open(small);
  const auto most = device().create_buffer({1000_KiB, MemoryKind::device, "most"}).or_raise();
  const auto refused = device().create_buffer({100_KiB, MemoryKind::device, "activations"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code(), ErrorCode::out_of_memory);
  EXPECT_THAT(refused.failure().message(),
              AllOf(HasSubstr("'activations'"), HasSubstr("'cuda:0'"), HasSubstr("in use")));
}

TEST_F(CudaDeviceTest, memory_that_the_driver_has_not_is_asked_for_again_after_what_is_free) {
  open();
  stub().fail("cuMemAllocFromPoolAsync", 1, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_TRUE(device().create_buffer({4_KiB, MemoryKind::device, "retried"}).ok());
  EXPECT_EQ(stub().calls("cuMemPoolTrimTo"), 1U);
  stub().fail("cuMemAllocFromPoolAsync", 1, CUDA_ERROR_OUT_OF_MEMORY, 2);
  const auto refused = device().create_buffer({4_KiB, MemoryKind::device, "weights"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code(), ErrorCode::out_of_memory);
  EXPECT_THAT(refused.failure().message(), AllOf(HasSubstr("'weights'"), HasSubstr("4.0 KiB"),
                                                 HasSubstr("CUDA_ERROR_OUT_OF_MEMORY")));
  EXPECT_FALSE(device().lost());
}

TEST_F(CudaDeviceTest, imports_share_a_registration_and_end_it_with_the_last) {
  open();
  alignas(4096) static std::array<std::byte, 8192> memory;
  int deleted = 0;
  const auto import = [&](size_t offset, size_t bytes) {
    return device().import_buffer({&memory[offset], {bytes}, [&] { ++deleted; }, "external"});
  };
  auto whole = import(0, 8192).or_raise();
  auto part = import(4096, 4096).or_raise();
  EXPECT_EQ(stub().calls("cuMemHostRegister"), 1U);
  whole.reset();
  EXPECT_EQ(deleted, 1);
  EXPECT_EQ(stub().calls("cuMemHostUnregister"), 0U);
  part.reset();
  EXPECT_EQ(deleted, 2);
  EXPECT_EQ(stub().calls("cuMemHostUnregister"), 1U);
  // Overlapping in part cannot be told to the driver.
  part = import(4096, 4096).or_raise();
  const auto refused = import(0, 8192);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.failure().message(),
              AllOf(HasSubstr("'external'"), HasSubstr("import all of it at once")));
  EXPECT_EQ(deleted, 3);
}

TEST_F(CudaDeviceTest, imports_in_one_page_share_its_registration) {
  open();
  alignas(4096) static std::array<std::byte, 4096> page;
  auto first = device().import_buffer({page.data(), 64_B, {}, "first"}).or_raise();
  auto second = device().import_buffer({page.data() + 64, 64_B, {}, "second"}).or_raise();
  EXPECT_EQ(stub().calls("cuMemHostRegister"), 1U);
  first.reset();
  EXPECT_EQ(stub().calls("cuMemHostUnregister"), 0U);
  second.reset();
  EXPECT_EQ(stub().calls("cuMemHostUnregister"), 1U);
}

TEST_F(CudaDeviceTest, an_import_on_two_devices_is_known_until_both_are_done_with_it) {
  open();
  const Ref<CudaDevice> another = CudaDevice::open(options()).or_raise();
  alignas(4096) static std::array<std::byte, 4096> page;
  auto here = device().import_buffer({page.data(), {page.size()}, {}, "here"}).or_raise();
  auto there = another->import_buffer({page.data(), {page.size()}, {}, "there"}).or_raise();
  EXPECT_EQ(stub().calls("cuMemHostRegister"), 1U);
  here.reset();
  EXPECT_EQ(stub().calls("cuMemHostUnregister"), 0U);
  there.reset();
  EXPECT_EQ(stub().calls("cuMemHostUnregister"), 1U);
}

TEST_F(CudaDeviceTest, memory_that_others_registered_is_imported_and_stays_registered) {
  open();
  alignas(4096) static std::array<std::byte, 4096> memory;
  const Calls& calls = CudaApi::load(testing::stub_cuda_path()).or_raise()->calls();
  ASSERT_EQ(calls.cuCtxPushCurrent(static_cast<CUcontext>(device().context())), CUDA_SUCCESS);
  ASSERT_EQ(calls.cuMemHostRegister(memory.data(), memory.size(), 0), CUDA_SUCCESS);
  auto imported = device().import_buffer({memory.data(), {4096}, {}, "theirs"}).or_raise();
  imported.reset();
  EXPECT_EQ(stub().live()["registered memory"], 1U);
  EXPECT_EQ(calls.cuMemHostUnregister(memory.data()), CUDA_SUCCESS);
  CUcontext popped = nullptr;
  EXPECT_EQ(calls.cuCtxPopCurrent(&popped), CUDA_SUCCESS);
}

// Kernels

TEST_F(CudaDeviceTest, kernels_that_declare_other_arguments_are_refused_with_both) {
  open();
  struct Case {
    const char* declares;
    uint32_t bindings;
    Bytes parameters;
    bool fits;
  };
  for (const auto& [declares, bindings, parameters, fits] :
       {Case{"8 12", 1, {12}, true},      // as they come
        Case{"8", 1, {12}, true},         // no parameters taken
        Case{"8 4", 1, {12}, true},       // some
        Case{"16 8", 2, {8}, true},       // a structure of pointers
        Case{"8 16", 1, {12}, false},     // more parameters than there are
        Case{"8 4 4", 1, {8}, false},     // several values
        Case{"4 8", 1, {8}, false},       // no pointer
        Case{"8", 2, {0}, false},         // too few pointers
        Case{"8 8 8", 2, {0}, false}}) {  // too many
    PipelineDesc desc{"odd", stub_kernel("affine", declares), bindings, parameters};
    SCOPED_TRACE(declares);
    if (fits) {
      EXPECT_TRUE(device().create_pipeline(desc).ok());
      continue;
    }
    const Failure failure = refused(desc);
    EXPECT_EQ(failure.code(), ErrorCode::usage);
    EXPECT_THAT(failure.message(), AllOf(HasSubstr("kernel 'odd' declares"),
                                         HasSubstr("it must take " + std::to_string(bindings))));
  }
  EXPECT_EQ(stub().live().count("module"), 0U);
}

TEST_F(CudaDeviceTest, a_kernel_whose_arguments_cannot_be_asked_is_refused_not_called_wrongly) {
  open();
  stub().fail("cuFuncGetParamInfo", 1, CUDA_ERROR_NOT_PERMITTED);
  // Without bindings, arguments that are unknown look like none.
  const Failure failure = refused({"odd", stub_kernel("affine", "12"), 0, {12}});
  EXPECT_THAT(failure.message(), AllOf(HasSubstr("the arguments of kernel 'odd'"),
                                       HasSubstr("CUDA_ERROR_NOT_PERMITTED")));
}

TEST_F(CudaDeviceTest, kernels_that_exceed_the_gpu_are_refused_with_the_limit) {
  open();
  PipelineDesc desc = described("affine");
  auto& module = std::get<CudaModule>(desc.module);
  module.threads = {1024, 2, 1};
  EXPECT_THAT(refused(desc).message(),
              AllOf(HasSubstr("groups of 2048 threads"), HasSubstr("the 1024 that device")));
  module.threads = {32, 1, 1};
  module.shared_memory = 228_KiB;
  EXPECT_EQ(refused(desc).code(), ErrorCode::unsupported);
  EXPECT_THAT(refused(desc).message(),
              AllOf(HasSubstr("228.0 KiB"), HasSubstr("the 227.0 KiB that device 'cuda:0' has")));
  module.shared_memory = 227_KiB;
  EXPECT_TRUE(device().create_pipeline(desc).ok());
  module.threads = {0, 0, 0};
  module.threads_at = {4};
  EXPECT_THAT(refused(desc).message(), HasSubstr("neither how many threads"));
  module.threads_at = {0};
  EXPECT_TRUE(device().create_pipeline(desc).ok());
}

TEST_F(CudaDeviceTest, code_that_the_driver_refuses_is_named_with_its_reason) {
  open();
  PipelineDesc desc = described("affine");
  auto& module = std::get<CudaModule>(desc.module);
  const auto code = [&](std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    module.code.assign(bytes.begin(), bytes.end());
  };
  code("\177ELF");
  EXPECT_EQ(refused(desc).code(), ErrorCode::unsupported);
  EXPECT_THAT(refused(desc).message(),
              AllOf(HasSubstr("kernel 'affine' cannot be loaded"), HasSubstr("NO_BINARY_FOR_GPU")));
  code("holdfast broken ptx\n");
  EXPECT_EQ(refused(desc).code(), ErrorCode::usage);
  EXPECT_THAT(refused(desc).message(), HasSubstr("INVALID_PTX"));
  code("");
  EXPECT_THAT(refused(desc).message(), HasSubstr("its module is empty"));
  desc = described("affine");
  std::get<CudaModule>(desc.module).entry_point = "absent";
  EXPECT_THAT(refused(desc).message(), HasSubstr("has no entry point 'absent'"));
  EXPECT_THAT(refused({"host", HostFunction([](const HostGroup&) {}), 0, {}}).message(),
              HasSubstr("runs CUDA code"));
}

TEST_F(CudaDeviceTest, groups_chosen_by_the_dispatch_are_refused_by_name_where_too_large) {
  open();
  struct Chosen {
    uint32_t x, y, z, count;
  };
  stub().register_kernel("chosen", [](const testing::StubLaunch& launch) {
    const auto [x, y, z, count] = launch.argument<Chosen>(8);
    auto* const out = stub_cuda::pointer_of<uint32_t>(launch.argument<uint64_t>(0));
    const bool right = launch.block.x == x && launch.block.y == y && launch.block.z == z;
    for (uint32_t i = 0; i < count; ++i) out[i] = right ? x : 0;
    return CUDA_SUCCESS;
  });
  CudaModule module = stub_kernel("chosen", "8 16");
  module.threads = {0, 0, 0};
  const auto kernel = device().create_pipeline({"chosen", module, 1, {16}}).or_raise();
  const auto data = words(4);
  const auto dispatched = [&](uint32_t threads) {
    auto work = list("chosen groups");
    const Chosen chosen{threads, 2, 1, 4};
    work.dispatch(kernel, std::array{Binding::of(data, Access::write)}, Parameters::of(chosen),
                  {1, 1, 1});
    return queue()->submit(work);
  };
  EXPECT_TRUE(stub_reached(dispatched(512).or_raise()));
  EXPECT_EQ(read(data), StubWords(4, 512));
  const auto refused = dispatched(1024);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code(), ErrorCode::usage);
  EXPECT_THAT(refused.failure().message(),
              AllOf(HasSubstr("kernel 'chosen' with 1 x 1 x 1 groups of 1024 x 2 x 1 threads"),
                    HasSubstr("'chosen groups'")));
  EXPECT_TRUE(stub_reached(dispatched(64).or_raise()));
}

struct ManyArguments {
  std::array<uint8_t, kMaxParameterBytes.value> bytes;
};

TEST_F(CudaDeviceTest, all_31_bindings_and_4_kib_of_parameters_arrive) {
  open();
  stub().register_kernel("everything", [](const testing::StubLaunch& launch) {
    const auto parameters = launch.argument<ManyArguments>(16 * kMaxBindings);
    for (uint32_t i = 0; i < kMaxBindings; ++i) {
      auto* const out = stub_cuda::pointer_of<uint32_t>(launch.argument<uint64_t>(8 * i));
      const auto length = launch.argument<uint64_t>(8 * (kMaxBindings + i));
      uint32_t sum = static_cast<uint32_t>(length);
      for (const uint8_t byte : parameters.bytes) sum += byte;
      *out = sum + i;
    }
    return CUDA_SUCCESS;
  });
  std::string declares;
  for (uint32_t i = 0; i < 2 * kMaxBindings; ++i) declares += "8 ";
  CudaModule module = stub_kernel("everything", declares + "4096");
  module.binding_lengths = true;
  const PipelineDesc desc{"everything", module, kMaxBindings, kMaxParameterBytes};
  const auto kernel = device().create_pipeline(desc).or_raise();
  std::vector<Ref<Allocation>> outs;
  std::vector<Binding> bindings;
  for (uint32_t i = 0; i < kMaxBindings; ++i) {
    outs.push_back(words(1 + i));
    bindings.push_back(Binding::of(outs.back(), Access::write));
  }
  ManyArguments parameters{};
  uint32_t sum = 0;
  for (size_t i = 0; i < parameters.bytes.size(); ++i) {
    sum += parameters.bytes[i] = static_cast<uint8_t>(i * 7);
  }
  // As launches, then as a graph.
  for (int round = 0; round < 3; ++round) {
    auto work = list();
    for (int i = 0; i < 4; ++i) {
      work.dispatch(kernel, bindings, Parameters::of(parameters), {1, 1, 1});
      work.barrier();
    }
    EXPECT_TRUE(stub_reached(submit(work)));
    for (uint32_t i = 0; i < kMaxBindings; ++i) EXPECT_EQ(read(outs[i])[0], sum + 4 * (1 + i) + i);
  }
  EXPECT_GT(stub().calls("cuGraphLaunch"), 0U);
  EXPECT_THAT(refused({"over", module, kMaxBindings + 1, {}}).message(), HasSubstr("31"));
}

TEST_F(CudaDeviceTest, more_arguments_than_an_older_driver_passes_are_refused_with_the_newer) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "driver.so";
  std::filesystem::create_symlink(testing::stub_cuda_path(), path);
  stub().set_driver_version(12000);
  CudaOptions old = options();
  old.driver = path.native();
  open(old);
  const Failure failure = refused({"many", stub_kernel("affine"), 1, kMaxParameterBytes});
  EXPECT_EQ(failure.code(), ErrorCode::unsupported);
  EXPECT_THAT(failure.message(), AllOf(HasSubstr("4104 bytes of arguments"),
                                       HasSubstr("drivers since CUDA 12.1 (530)")));
}

// Lists

TEST_F(CudaDeviceTest, a_context_that_cannot_be_made_current_refuses_the_list_alone) {
  open();
  const auto data = uploaded({1, 2});
  auto work = list("unlucky");
  affine(work, data, 3, 0);
  stub().fail("cuCtxPushCurrent", 1, CUDA_ERROR_NOT_PERMITTED);
  const auto refused = queue()->submit(work);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.failure().message(), HasSubstr("CUDA_ERROR_NOT_PERMITTED"));
  EXPECT_FALSE(device().lost());
  EXPECT_TRUE(stub_reached(submit(work)));
  EXPECT_EQ(read(data), (StubWords{3, 6}));
}

TEST_F(CudaDeviceTest, a_list_of_which_a_later_command_is_refused_ends_as_a_failed_one) {
  CudaOptions plain = options();
  plain.graphs = false;
  open(plain);
  const auto data = uploaded({1, 2});
  auto work = list("half done");
  affine(work, data, 2, 0);
  work.barrier();
  affine(work, data, 2, 1);
  stub().fail("cuLaunchKernel", 2, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  const Point point = submit(work);
  ASSERT_TRUE(stub_failed(point));
  EXPECT_EQ(point.failure().code(), ErrorCode::execution);
  EXPECT_THAT(point.failure().message(),
              AllOf(HasSubstr("kernel 'affine'"), HasSubstr("'half done'"),
                    HasSubstr("LAUNCH_OUT_OF_RESOURCES")));
  EXPECT_FALSE(device().lost());
  auto dependant = list("dependant");
  affine(dependant, data, 1, 1);
  EXPECT_TRUE(stub_failed(submit(dependant, {{point, WaitKind::data}}, 1)));
  EXPECT_EQ(read(data), (StubWords{2, 4}));
}

class CudaCounter : public StubGpu, public ::testing::WithParamInterface<bool> {};

TEST_P(CudaCounter, whose_write_is_refused_is_written_by_the_host) {
  CudaOptions with = options();
  with.stream_memory_operations = GetParam();
  open(with);
  const char* const call = GetParam() ? "cuStreamWriteValue64" : "cuMemsetD32Async";
  const auto data = uploaded({1});
  for (int i = 0; i < 3; ++i) {
    auto work = list();
    affine(work, data, 2, 0);
    stub().fail(call, 1, CUDA_ERROR_NOT_PERMITTED);
    const Point point = submit(work);
    EXPECT_EQ(point.query(), PointState::reached);
    auto next = list();
    affine(next, data, 1, 1);
    EXPECT_TRUE(stub_reached(submit(next)));
  }
  EXPECT_EQ(read(data), StubWords{15});
  EXPECT_FALSE(device().lost());
}

TEST_P(CudaCounter, that_nobody_can_write_loses_the_device_and_nothing_hangs) {
  CudaOptions with = options();
  with.stream_memory_operations = GetParam();
  open(with);
  const auto data = uploaded({1});
  const auto other = uploaded({1});  // nothing orders the two lists
  auto before = list("before");
  affine(before, data, 2, 0);
  stub().hold();
  const Point pending = submit(before, {}, 1);
  stub().fail(GetParam() ? "cuStreamWriteValue64" : "cuMemsetD32Async", 1,
              CUDA_ERROR_NOT_PERMITTED);
  stub().fail("cuStreamSynchronize", 1, CUDA_ERROR_NOT_PERMITTED);
  auto work = list("work");
  affine(work, other, 2, 0);
  const auto refused = queue()->submit(work);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code(), ErrorCode::device_lost);
  EXPECT_THAT(refused.failure().message(), HasSubstr("can neither be asked nor waited for"));
  EXPECT_TRUE(stub_failed(pending));
  stub().release();
  stub().drain();
}

TEST_P(CudaCounter, of_lists_that_pile_up_is_written_aside_and_in_order) {
  CudaOptions with = options();
  with.stream_memory_operations = GetParam();
  open(with);
  const auto data = uploaded({1});
  const auto add_one = [&] {
    auto work = list();
    affine(work, data, 1, 1);
    return submit(work);
  };
  const auto events = [&] { return stub().calls("cuEventRecord"); };
  const uint64_t before = events();
  EXPECT_TRUE(stub_reached(add_one()));
  EXPECT_EQ(events(), before);
  stub().hold();
  std::vector<Point> piled;
  for (int i = 0; i < 12; ++i) piled.push_back(add_one());
  EXPECT_EQ(events() > before, GetParam());
  EXPECT_EQ(piled.front().query(), PointState::pending);
  stub().release();
  for (const Point& point : piled) EXPECT_TRUE(stub_reached(point));
  EXPECT_EQ(read(data), StubWords{14});
  // Whatever was written aside has been: the stream itself writes again.
  const uint64_t after = events();
  EXPECT_TRUE(stub_reached(add_one()));
  EXPECT_EQ(events(), after);
  EXPECT_EQ(read(data), StubWords{15});
}

TEST_F(CudaDeviceTest, a_counter_whose_write_aside_is_refused_is_written_by_the_host) {
  open();
  const auto data = uploaded({1});
  for (const char* call : {"cuEventCreate", "cuStreamCreate", "cuEventRecord", "cuStreamWaitEvent",
                           "cuStreamWriteValue64"}) {
    stub().hold();
    std::vector<Point> piled;
    // The fifth is the first that is written aside.
    for (int i = 0; i < 4; ++i) {
      auto work = list();
      affine(work, data, 1, 1);
      piled.push_back(submit(work));
    }
    stub().fail(call, 1, CUDA_ERROR_NOT_PERMITTED);
    const uint64_t before = stub().calls(call);
    sync::Thread other("release", [&] {
      while (stub().calls(call) == before) sync::nap(std::chrono::milliseconds(1));
      stub().release();
    });
    auto work = list();
    affine(work, data, 1, 1);
    piled.push_back(submit(work));
    other.join();
    for (const Point& point : piled) EXPECT_TRUE(stub_reached(point)) << call;
    stub().fail_no_more();
  }
  EXPECT_EQ(read(data), StubWords{26});
  EXPECT_FALSE(device().lost());
}

INSTANTIATE_TEST_SUITE_P(Streams, CudaCounter, ::testing::Bool(), [](const auto& test) {
  return test.param ? "with_memory_operations" : "without";
});

}  // namespace
}  // namespace holdfast::hal
