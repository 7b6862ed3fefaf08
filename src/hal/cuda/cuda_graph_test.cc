#include "holdfast/hal/cuda/cuda_graph.h"

#include <gmock/gmock.h>
#include <rapidcheck.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>

#include "holdfast/hal/cuda/cuda_queue.h"
#include "holdfast/hal/cuda/stub_gpu_test.h"
#include "holdfast/hal/program.h"
#include "holdfast/testing/temporary_folder.h"

// Lists as graphs: which are, how executables are reused, and that nobody can tell from the memory.

namespace holdfast::hal {
namespace {

// As cuda_graph.cc has them.
constexpr size_t kGraphsOfOneShape = 16;
constexpr size_t kGraphsOfAQueue = 64;
constexpr size_t kGraphNodesOfAQueue = 16384;

class CudaGraphTest : public StubGpu {
 protected:
  void SetUp() override {
    StubGpu::SetUp();
    if (!IsSkipped()) open();
  }

  static uint64_t made() { return stub().calls("cuGraphInstantiateWithFlags"); }
  static uint64_t launched() { return stub().calls("cuGraphLaunch"); }
  static uint64_t kernels_launched() { return stub().calls("cuLaunchKernel"); }
  static uint64_t set() {
    return stub().calls("cuGraphExecKernelNodeSetParams") +
           stub().calls("cuGraphExecMemcpyNodeSetParams") +
           stub().calls("cuGraphExecMemsetNodeSetParams");
  }

  // Four kernels, one after another.
  CommandList chain(const Ref<Allocation>& data, uint32_t addend = 1) {
    CommandList work = list("chain");
    for (int i = 0; i < 4; ++i) {
      affine(work, data, 2, addend);
      work.barrier();
    }
    return work;
  }
  // What a chain makes of a word.
  static uint32_t chained(uint32_t word, uint32_t addend = 1) {
    for (int i = 0; i < 4; ++i) word = 2 * word + addend;
    return word;
  }
  // One of many shapes: the bits of `number` choose the kernels.
  CommandList shaped(uint32_t number, const Ref<Allocation>& data, uint32_t nodes = 8) {
    CommandList work = list("shaped");
    for (uint32_t i = 0; i < nodes; ++i) {
      apply(work, (number >> (i % 8) & 1) != 0 ? "twice" : "increment", data);
      work.barrier();
    }
    return work;
  }
  void run(CommandList&& work, size_t on = 0) {
    EXPECT_TRUE(stub_reached(submit(work, {}, on)));
    queue(on)->retire();
  }
};

// Which lists

TEST_F(CudaGraphTest, a_shape_is_learned_at_the_second_list_and_hit_afterwards) {
  const auto data = uploaded({1});
  const CudaQueue::Counts before = static_cast<const CudaQueue&>(*queue(0)).counts();
  run(chain(data));
  EXPECT_EQ(made(), 0U);
  EXPECT_EQ(kernels_launched(), 4U);
  run(chain(data));
  EXPECT_EQ(made(), 1U);
  EXPECT_EQ(launched(), 1U);
  for (int i = 0; i < 8; ++i) run(chain(data));
  EXPECT_EQ(made(), 1U);
  EXPECT_EQ(launched(), 9U);
  EXPECT_EQ(kernels_launched(), 4U);
  const CudaQueue::Counts counts = static_cast<const CudaQueue&>(*queue(0)).counts() - before;
  EXPECT_EQ(counts.lists, 10U);
  EXPECT_DOUBLE_EQ(counts.hit_rate(), 0.8);
  uint32_t expected = 1;
  for (int i = 0; i < 10; ++i) expected = chained(expected);
  EXPECT_EQ(read(data), StubWords{expected});
}

// The driver looks memory up when a node is set; another at the same address is not it.
TEST_F(CudaGraphTest, an_executable_with_copies_does_not_outlive_memory_that_it_had) {
  alignas(4096) static std::array<uint32_t, 1024> page{};
  const auto data = uploaded({0, 0, 0, 0});
  constexpr uint32_t kRounds = 8;
  for (uint32_t round = 1; round <= kRounds; ++round) {
    page.fill(round);
    {
      const auto imported = Allocation::whole(
          device().import_buffer({page.data(), {sizeof(page)}, {}, "page"}).or_raise());
      CommandList work = list("copies");
      for (uint64_t i = 0; i < 4; ++i) {
        work.copy(imported, {{4 * i}, 4_B}, data, {{4 * i}, 4_B});
      }
      run(std::move(work));
    }
    EXPECT_EQ(read(data), StubWords(4, round));
    EXPECT_EQ(stub().violations(), std::vector<std::string>{});
  }
  EXPECT_GT(launched(), 0U);
}

TEST_F(CudaGraphTest, an_executable_of_kernels_alone_does_not_mind_what_memory_goes) {
  const auto data = uploaded({1});
  for (int i = 0; i < 6; ++i) {
    (void)uploaded({7});  // freed with its buffer
    run(chain(data));
  }
  EXPECT_EQ(made(), 1U);
}

TEST_F(CudaGraphTest, each_queue_has_executables_of_its_own) {
  const auto a = uploaded({1});
  const auto b = uploaded({1});
  for (int i = 0; i < 3; ++i) {
    run(chain(a), 0);
    run(chain(b), 1);
  }
  EXPECT_EQ(made(), 2U);
  EXPECT_EQ(launched(), 4U);
  EXPECT_EQ(read(a), read(b));
}

TEST_F(CudaGraphTest, short_and_very_long_lists_are_launched_command_by_command) {
  const auto data = uploaded({0});
  for (const uint32_t nodes : {3U, 1025U}) {
    for (int i = 0; i < 3; ++i) run(shaped(0, data, nodes));
  }
  EXPECT_EQ(made(), 0U);
  EXPECT_EQ(read(data), StubWords{3 * (3 + 1025)});
  for (int i = 0; i < 2; ++i) run(shaped(0, data, 1024));
  EXPECT_EQ(made(), 1U);
  EXPECT_EQ(stub().latest_graph().nodes, 1024U);
}

TEST_F(CudaGraphTest, commands_without_anything_to_do_are_no_nodes) {
  const auto data = uploaded({1});
  const auto work = [&](uint32_t addend) {
    CommandList made_list = chain(data, addend);
    const AffineOfStub parameters{2, 0, 1};
    made_list.dispatch(pipeline("affine"), std::array{Binding::of(data, Access::read_write)},
                       Parameters::of(parameters), {0, 1, 1});
    made_list.fill(data, {}, std::byte{1});
    return made_list;
  };
  run(work(1));
  run(work(2));
  run(work(3));
  EXPECT_EQ(made(), 1U);
  EXPECT_EQ(stub().latest_graph().nodes, 4U);
  EXPECT_EQ(read(data), StubWords{chained(chained(chained(1), 2), 3)});
}

TEST_F(CudaGraphTest, natives_and_launch_attributes_take_the_plain_way) {
  const auto data = uploaded({1});
  int called = 0;
  for (int i = 0; i < 3; ++i) {
    CommandList with_native = chain(data);
    with_native.native([&](const NativeCall&) { ++called; }, {});
    run(std::move(with_native));
  }
  EXPECT_EQ(called, 3);
  CudaModule module = stub_kernel("affine");
  module.cooperative = true;
  const auto cooperative = device().create_pipeline({"cooperative", module, 1, {12}}).or_raise();
  for (int i = 0; i < 3; ++i) {
    CommandList with_attribute = chain(data);
    const AffineOfStub parameters{1, 0, 1};
    with_attribute.dispatch(cooperative, std::array{Binding::of(data, Access::read_write)},
                            Parameters::of(parameters), {1, 1, 1});
    run(std::move(with_attribute));
  }
  EXPECT_EQ(made(), 0U);
  EXPECT_EQ(stub().calls("cuLaunchKernelEx"), 3U);
}

TEST_F(CudaGraphTest, without_graphs_there_are_none) {
  drop_device();
  CudaOptions plain = options();
  plain.graphs = false;
  open(plain);
  const auto data = uploaded({1});
  for (int i = 0; i < 3; ++i) run(chain(data));
  EXPECT_EQ(made(), 0U);
}

// What is set

TEST_F(CudaGraphTest, parameters_are_set_only_where_they_have_changed) {
  const auto a = uploaded(StubWords(64, 1), "a");
  const auto b = uploaded(StubWords(64, 1), "b");
  struct Varied {
    uint32_t addend = 1;
    std::byte fill{1};
    uint64_t copied = 64;
    Groups groups{1, 1, 1};
  };
  const auto work = [&](const Varied& varied) {
    CommandList varying = list("varying");
    varying.fill(b, {{}, {64}}, varied.fill);
    varying.barrier();
    varying.copy(b, {{}, {varied.copied}}, a, {{}, {varied.copied}});
    varying.barrier();
    affine(varying, a, 3, varied.addend);
    varying.barrier();
    const AffineOfStub parameters{1, 1, 64};
    varying.dispatch(pipeline("affine"), std::array{Binding::of(b, Access::read_write)},
                     Parameters::of(parameters), varied.groups);
    return varying;
  };
  const auto sets_for = [&](const Varied& varied) {
    const uint64_t before = set();
    run(work(varied));
    return set() - before;
  };
  run(work({}));
  EXPECT_EQ(sets_for({}), 0U);  // made with them
  EXPECT_EQ(made(), 1U);
  EXPECT_EQ(sets_for({}), 0U);
  EXPECT_EQ(sets_for({.addend = 2}), 1U);
  EXPECT_EQ(sets_for({.addend = 2}), 0U);
  EXPECT_EQ(stub().calls("cuGraphExecKernelNodeSetParams"), 1U);
  EXPECT_EQ(sets_for({.addend = 2, .fill = std::byte{2}}), 1U);
  EXPECT_EQ(stub().calls("cuGraphExecMemsetNodeSetParams"), 1U);
  EXPECT_EQ(sets_for({.addend = 2, .fill = std::byte{2}, .copied = 32}), 1U);
  EXPECT_EQ(stub().calls("cuGraphExecMemcpyNodeSetParams"), 1U);
  EXPECT_EQ(sets_for({.addend = 2, .fill = std::byte{2}, .copied = 32, .groups = {2, 1, 1}}), 1U);
  EXPECT_EQ(sets_for({}), 4U);
  EXPECT_EQ(made(), 1U);
}

TEST_F(CudaGraphTest, a_graph_that_refuses_parameters_goes_and_its_list_is_launched_plainly) {
  const auto data = uploaded({1});
  for (int i = 0; i < 3; ++i) run(chain(data));
  EXPECT_EQ(stub().live()["executable graph"], 1U);
  stub().fail("cuGraphExecKernelNodeSetParams", 2, cu::CUDA_ERROR_NOT_PERMITTED);
  const auto before = kernels_launched();
  run(chain(data, 5));
  EXPECT_EQ(kernels_launched(), before + 4);
  EXPECT_EQ(stub().live().count("executable graph"), 0U);
  run(chain(data, 6));
  EXPECT_EQ(stub().live()["executable graph"], 1U);
  const uint32_t expected = chained(chained(chained(chained(chained(1))), 5), 6);
  EXPECT_EQ(read(data), StubWords{expected});
}

TEST_F(CudaGraphTest, replays_of_a_program_share_an_executable) {
  auto steps = list("steps");
  for (uint32_t i = 0; i < 4; ++i) {
    const std::array bindings{Binding::of_slot(0, {{}, 4_B}, Access::read_write)};
    steps.dispatch(pipeline("affine"), bindings,
                   Parameters::of_replay({{i * sizeof(AffineOfStub)}, {sizeof(AffineOfStub)}}),
                   {1, 1, 1});
    steps.barrier();
  }
  const auto program = device().create_program(steps).or_raise();
  std::vector<Ref<Allocation>> datas;
  for (uint32_t i = 0; i < 5; ++i) {
    datas.push_back(uploaded({i}));
    const std::array<AffineOfStub, 4> parameters{{{2, i, 1}, {3, i, 1}, {i, 1, 1}, {1, 0, 1}}};
    const std::array slots{Binding::of(datas[i], Access::read_write)};
    run(make_replay(device().info(), program, slots, std::as_bytes(std::span(parameters)),
                    "replay"));
  }
  EXPECT_EQ(made(), 1U);
  EXPECT_EQ(launched(), 4U);
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(read(datas[i]), StubWords{((i * 2 + i) * 3 + i) * i + 1});
  }
}

TEST_F(CudaGraphTest, copies_from_the_host_and_from_the_device_are_different_shapes) {
  const auto device_memory = uploaded(StubWords(4, 7));
  const auto host_memory = words(4, "host", MemoryKind::upload);
  std::memset(host_memory->host_pointer(), 3, 16);
  std::vector<Ref<Allocation>> targets;
  for (int i = 0; i < 6; ++i) {
    auto work = list("copies");
    const auto& from = i % 2 == 0 ? device_memory : host_memory;
    const auto& target = targets.emplace_back(words(4, "target"));
    work.copy(from, {{}, 16_B}, target, {{}, 16_B});
    for (int k = 0; k < 3; ++k) {
      work.barrier();
      affine(work, target, 1, 1);
    }
    run(std::move(work));
  }
  EXPECT_EQ(made(), 2U);
  EXPECT_EQ(launched(), 4U);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(read(targets[i]), StubWords(4, i % 2 == 0 ? 10 : 0x03030306));
  }
}

// Executables in flight

TEST_F(CudaGraphTest, an_executable_belongs_to_one_list_until_its_point_is_seen) {
  const auto data = uploaded({1});
  run(chain(data));
  const auto plain = kernels_launched();
  stub().hold();
  std::vector<Point> points;
  uint32_t expected = chained(1);
  for (uint32_t i = 0; i < kGraphsOfOneShape; ++i) {
    CommandList work = chain(data, i);
    points.push_back(submit(work));
    expected = chained(expected, i);
    EXPECT_EQ(made(), i + 1);
  }
  EXPECT_EQ(kernels_launched(), plain);
  // Beyond the bound nothing waits.
  for (uint32_t i = 0; i < 3; ++i) {
    CommandList work = chain(data, i);
    points.push_back(submit(work));
    expected = chained(expected, i);
  }
  EXPECT_EQ(made(), kGraphsOfOneShape);
  EXPECT_EQ(kernels_launched(), plain + 3 * 4);
  for (const Point& point : points) EXPECT_EQ(point.query(), PointState::pending);
  stub().release();
  for (const Point& point : points) EXPECT_TRUE(stub_reached(point));
  EXPECT_EQ(read(data), StubWords{expected});
  // Now all are free.
  for (int i = 0; i < 3; ++i) run(chain(data));
  EXPECT_EQ(made(), kGraphsOfOneShape);
  EXPECT_EQ(kernels_launched(), plain + 3 * 4);
}

TEST_F(CudaGraphTest, executables_in_flight_are_never_evicted) {
  const auto data = uploaded({0});
  constexpr uint32_t kShapes = 8;
  for (uint32_t shape = 0; shape < kShapes; ++shape) run(shaped(shape, data));
  stub().hold();
  std::vector<Point> points;
  for (uint32_t i = 0; i < 12; ++i) {
    for (uint32_t shape = 0; shape < kShapes; ++shape) {
      CommandList work = shaped(shape, data);
      points.push_back(submit(work));
    }
  }
  EXPECT_EQ(made(), kGraphsOfAQueue);
  EXPECT_EQ(stub().calls("cuGraphExecDestroy"), 0U);
  stub().release();
  for (const Point& point : points) EXPECT_TRUE(stub_reached(point));
}

TEST_F(CudaGraphTest, executables_are_bounded_and_the_least_recently_used_go_first) {
  const auto data = uploaded({0});
  constexpr uint32_t kShapes = 100;
  for (uint32_t shape = 0; shape < kShapes; ++shape) {
    for (int i = 0; i < 2; ++i) run(shaped(shape, data));
    run(shaped(0, data));  // used all the time
    EXPECT_LE(stub().live()["executable graph"], kGraphsOfAQueue);
  }
  EXPECT_EQ(stub().live()["executable graph"], kGraphsOfAQueue);
  const auto before = made();
  run(shaped(0, data));
  for (uint32_t shape = kShapes - kGraphsOfAQueue + 1; shape < kShapes; ++shape) {
    run(shaped(shape, data));
  }
  EXPECT_EQ(made(), before);
  run(shaped(1, data));
  EXPECT_EQ(made(), before + 1);
}

TEST_F(CudaGraphTest, nodes_are_bounded_too) {
  const auto data = uploaded({0});
  constexpr uint32_t kNodes = 1000;
  constexpr uint32_t kShapes = kGraphNodesOfAQueue / kNodes + 2;
  for (uint32_t shape = 0; shape < kShapes; ++shape) {
    for (int i = 0; i < 2; ++i) run(shaped(shape, data, kNodes));
    EXPECT_LE(stub().live()["executable graph"] * kNodes, kGraphNodesOfAQueue);
  }
  EXPECT_EQ(made(), kShapes);
}

TEST_F(CudaGraphTest, an_executable_keeps_its_kernels_and_goes_when_nobody_wants_them) {
  const auto data = uploaded({1});
  run(chain(data));  // loads the fixture's kernel
  const auto modules = stub().live()["module"];
  auto kernel = make_pipeline("twice");
  for (int i = 0; i < 2; ++i) {
    auto work = list("of one kernel");
    for (int k = 0; k < 4; ++k) {
      apply(work, kernel, data);
      work.barrier();
    }
    run(std::move(work));
  }
  EXPECT_EQ(stub().live()["executable graph"], 1U);
  kernel.reset();
  EXPECT_EQ(stub().live()["module"], modules + 1);
  // The next that is made takes it along.
  run(chain(data));
  EXPECT_EQ(stub().live()["executable graph"], 1U);
  EXPECT_EQ(stub().live()["module"], modules);
}

TEST_F(CudaGraphTest, executables_go_with_the_device) {
  const auto data = uploaded({1});
  const auto other = CudaDevice::open(options()).or_raise();
  for (int i = 0; i < 3; ++i) run(chain(data));
  EXPECT_EQ(stub().live()["executable graph"], 1U);
  EXPECT_EQ(stub().live()["graph"], 1U);
  EXPECT_TRUE(device().close(stub_patience()).clean());
  EXPECT_EQ(stub().live().count("executable graph"), 0U);
  EXPECT_EQ(stub().live().count("graph"), 0U);
}

// Waves

TEST_F(CudaGraphTest, a_chain_has_an_edge_for_each_barrier) {
  const auto data = uploaded({1});
  for (int i = 0; i < 2; ++i) run(chain(data));
  EXPECT_EQ(stub().latest_graph(), (stub_cuda::StubGraphShape{4, 3, 1}));
}

TEST_F(CudaGraphTest, a_wide_wave_has_eight_lanes) {
  constexpr size_t kWide = 20;
  std::vector<Ref<Allocation>> datas;
  for (uint32_t i = 0; i < kWide; ++i) datas.push_back(uploaded({i}));
  for (int round = 0; round < 3; ++round) {
    auto work = list("waves");
    for (int wave = 0; wave < 2; ++wave) {
      for (const auto& data : datas) affine(work, data, 3, 1);
      work.barrier();
      work.barrier();  // without effect
    }
    run(std::move(work));
  }
  constexpr size_t kLanes = CudaGraph::kLanes;
  static_assert(kLanes == 8);
  EXPECT_EQ(stub().latest_graph(),
            (stub_cuda::StubGraphShape{2 * kWide, 2 * (kWide - kLanes) + kLanes * kLanes, kLanes}));
  for (uint32_t i = 0; i < kWide; ++i) {
    uint32_t expected = i;
    for (int k = 0; k < 6; ++k) expected = 3 * expected + 1;
    EXPECT_EQ(read(datas[i]), StubWords{expected});
  }
}

TEST_F(CudaGraphTest, waves_are_part_of_the_shape) {
  const auto data = uploaded({1, 1, 1, 1});
  const auto parts = [&](bool apart) {
    auto work = list("parts");
    for (uint64_t i = 0; i < 4; ++i) {
      const AffineOfStub parameters{2, 0, 1};
      work.dispatch(pipeline("affine"),
                    std::array{Binding::of(data, {{4 * i}, 4_B}, Access::read_write)},
                    Parameters::of(parameters), {1, 1, 1});
      if (apart) work.barrier();
    }
    return work;
  };
  for (int i = 0; i < 2; ++i) run(parts(false));
  EXPECT_EQ(stub().latest_graph(), (stub_cuda::StubGraphShape{4, 0, 4}));
  for (int i = 0; i < 2; ++i) run(parts(true));
  EXPECT_EQ(made(), 2U);
  EXPECT_EQ(stub().latest_graph(), (stub_cuda::StubGraphShape{4, 3, 1}));
}

// Programmatic edges

class ProgrammaticEdges : public CudaGraphTest {
 protected:
  // affine, by a module that says whether it waits, and does or does not.
  Ref<Pipeline> kernel(bool says_so, bool waits) {
    CudaModule module = stub_kernel("affine", waits ? "waits 8 12" : "8 12");
    module.waits_for_grids = says_so;
    return device().create_pipeline({"affine", module, 1, {sizeof(AffineOfStub)}}).or_raise();
  }
  static void add(CommandList& to, const Ref<Pipeline>& kernel, const Ref<Allocation>& data) {
    const AffineOfStub parameters{2, 1, 1};
    to.dispatch(kernel, std::array{Binding::of(data, Access::read_write)},
                Parameters::of(parameters), {1, 1, 1});
  }
  // What so many of them make of a word.
  static uint32_t after(uint32_t word, int kernels) {
    for (int i = 0; i < kernels; ++i) word = 2 * word + 1;
    return word;
  }
  // A chain of the kernels, from zero on. The second list is the first that is a graph.
  StubWords run_chain(const std::vector<Ref<Pipeline>>& kernels, int lists = 4) {
    const auto data = uploaded({1});
    for (int i = 0; i < lists; ++i) {
      CommandList work = list("chain");
      work.fill(data, {{}, 4_B}, std::byte{0});
      for (const auto& each : kernels) {
        work.barrier();
        add(work, each, data);
      }
      run(std::move(work));
    }
    return read(data);
  }
};

TEST_F(ProgrammaticEdges, join_a_kernel_that_waits_to_the_one_kernel_before_it) {
  const auto waiting = kernel(true, true);
  const auto plain = kernel(false, false);
  // The fill is no kernel, and `plain` does not wait.
  EXPECT_EQ(run_chain({waiting, waiting, plain, waiting}), StubWords{after(0, 4)});
  EXPECT_EQ(stub().latest_graph(), (stub_cuda::StubGraphShape{5, 4, 1, 2}));
}

TEST_F(ProgrammaticEdges, are_what_single_launches_of_kernels_that_wait_have_too) {
  const auto data = uploaded({1});
  const auto launches = [&](const Ref<Pipeline>& with) {
    const uint64_t before = stub().calls("cuLaunchKernelEx");
    CommandList work = list("one");
    add(work, with, data);
    run(std::move(work));
    return stub().calls("cuLaunchKernelEx") - before;
  };
  EXPECT_EQ(launches(kernel(true, true)), 1U);
  EXPECT_EQ(launches(kernel(false, false)), 0U);
  EXPECT_EQ(read(data), StubWords{after(1, 2)});
}

TEST_F(ProgrammaticEdges, are_for_no_kernel_that_does_not_wait) {
  EXPECT_EQ(run_chain(std::vector(4, kernel(false, false))), StubWords{after(0, 4)});
  EXPECT_EQ(stub().latest_graph().programmatic, 0U);
  // Such an edge would let it begin too early.
  EXPECT_NE(run_chain(std::vector(4, kernel(true, false)), 2), StubWords{after(0, 4)});
  EXPECT_EQ(stub().latest_graph().programmatic, 3U);
}

TEST_F(ProgrammaticEdges, join_no_kernel_that_has_several_before_it) {
  const auto waiting = kernel(true, true);
  std::vector<Ref<Allocation>> datas;
  for (uint32_t i = 0; i < 2; ++i) datas.push_back(uploaded({i}));
  for (int i = 0; i < 3; ++i) {
    CommandList work = list("waves");
    for (int wave = 0; wave < 3; ++wave) {
      for (const auto& data : datas) add(work, waiting, data);
      work.barrier();
    }
    run(std::move(work));
  }
  EXPECT_EQ(stub().latest_graph(), (stub_cuda::StubGraphShape{6, 8, 2, 0}));
  for (uint32_t i = 0; i < 2; ++i) EXPECT_EQ(read(datas[i]), StubWords{after(i, 9)});
}

TEST_F(ProgrammaticEdges, are_full_ones_where_the_driver_has_none) {
  drop_device();
  stub().hide("cuGraphAddDependencies");
  // Entry points are looked up once for each path.
  const testing::TemporaryFolder folder;
  CudaOptions old = options();
  old.driver = (folder.path() / "driver.so").native();
  std::filesystem::create_symlink(testing::stub_cuda_path(), old.driver);
  open(old);
  EXPECT_EQ(run_chain(std::vector(4, kernel(true, true))), StubWords{after(0, 4)});
  EXPECT_EQ(stub().latest_graph(), (stub_cuda::StubGraphShape{5, 4, 1, 0}));
}

// Random lists

struct RandomCommand {
  enum class Kind { affine, blend, copy, fill } kind = Kind::affine;
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t value = 0;
  bool barrier = false;  // before it, needed or not
};

std::ostream& operator<<(std::ostream& out, const RandomCommand& c) {
  return out << (c.barrier ? "barrier, " : "") << static_cast<int>(c.kind) << " " << c.from
             << " to " << c.to << " by " << c.value;
}

constexpr uint32_t kRandomBuffers = 5;
constexpr size_t kRandomWords = 3;
using RandomMemory = std::vector<StubWords>;

rc::Gen<RandomCommand> any_random_command() {
  using Kind = RandomCommand::Kind;
  return rc::gen::build<RandomCommand>(
      rc::gen::set(&RandomCommand::kind,
                   rc::gen::element(Kind::affine, Kind::blend, Kind::copy, Kind::fill)),
      rc::gen::set(&RandomCommand::from, rc::gen::inRange(0U, kRandomBuffers)),
      rc::gen::set(&RandomCommand::to, rc::gen::inRange(0U, kRandomBuffers)),
      rc::gen::set(&RandomCommand::value, rc::gen::inRange(0U, 250U)),
      rc::gen::set(&RandomCommand::barrier,
                   rc::gen::map(rc::gen::inRange(0, 8), [](int x) { return x == 0; })));
}

// What a command reads besides `to`.
bool reads_from(const RandomCommand& c) {
  return c.kind == RandomCommand::Kind::blend || c.kind == RandomCommand::Kind::copy;
}

// The commands on the host, one after another. `turn` varies what is not part of the shape.
void run_on_host(const std::vector<RandomCommand>& commands, uint32_t turn, RandomMemory& memory) {
  for (const RandomCommand& c : commands) {
    const uint32_t value = c.value + turn;
    for (size_t i = 0; i < kRandomWords; ++i) {
      uint32_t& to = memory[c.to][i];
      const uint32_t from = memory[c.from][i];
      switch (c.kind) {
        case RandomCommand::Kind::affine: to = to * 3 + value; break;
        case RandomCommand::Kind::blend: to = 31 * to + from + value; break;
        case RandomCommand::Kind::copy: to = from; break;
        case RandomCommand::Kind::fill: to = (value & 0xff) * 0x01010101U; break;
      }
    }
  }
}

class RandomGraphs : public CudaGraphTest {
 protected:
  // A barrier where two commands of a wave touch the same bytes, and where one was chosen.
  CommandList recorded(const std::vector<RandomCommand>& commands, uint32_t turn,
                       const std::vector<Ref<Allocation>>& buffers) {
    CommandList work = list("random");
    std::set<uint32_t> read_here;
    std::set<uint32_t> written_here;
    for (const RandomCommand& c : commands) {
      const bool conflicts = written_here.contains(c.to) || read_here.contains(c.to) ||
                             (reads_from(c) && written_here.contains(c.from));
      if (conflicts || c.barrier) {
        work.barrier();
        read_here.clear();
        written_here.clear();
      }
      written_here.insert(c.to);
      if (reads_from(c)) read_here.insert(c.from);
      const ByteRange all{{}, buffers[c.to]->size()};
      const uint32_t value = c.value + turn;
      switch (c.kind) {
        case RandomCommand::Kind::affine: affine(work, buffers[c.to], 3, value); break;
        case RandomCommand::Kind::blend: blend(work, buffers[c.from], buffers[c.to], value); break;
        case RandomCommand::Kind::copy: work.copy(buffers[c.from], all, buffers[c.to], all); break;
        case RandomCommand::Kind::fill:
          work.fill(buffers[c.to], all, static_cast<std::byte>(value & 0xff));
          break;
      }
    }
    return work;
  }
};

TEST_F(RandomGraphs, leave_the_same_memory_as_commands_one_by_one) {
  uint64_t lists = 0;
  const auto property = [&] {
    auto commands = *rc::gen::container<std::vector<RandomCommand>>(any_random_command());
    for (RandomCommand& c : commands) {
      if (reads_from(c) && c.from == c.to) c.from = (c.to + 1) % kRandomBuffers;
    }
    RandomMemory content;
    std::vector<Ref<Allocation>> buffers;
    for (uint32_t i = 0; i < kRandomBuffers; ++i) {
      content.emplace_back(kRandomWords, i + 1);
      buffers.push_back(uploaded(content.back()));
    }
    std::vector<Point> points;
    // Learned, made, used again: the later ones without waiting.
    for (uint32_t turn = 0; turn < 5; ++turn) {
      run_on_host(commands, turn, content);
      CommandList work = recorded(commands, turn, buffers);
      points.push_back(submit(work));
      if (turn < 2) RC_ASSERT(stub_reached(points.back()));
      ++lists;
    }
    for (const Point& point : points) RC_ASSERT(stub_reached(point));
    queue()->retire();
    for (uint32_t i = 0; i < kRandomBuffers; ++i) RC_ASSERT(read(buffers[i]) == content[i]);
  };
  EXPECT_TRUE(rc::check("graphs leave the same memory", property));
  // Else it shows nothing.
  EXPECT_GT(launched(), lists / 3);
}

}  // namespace
}  // namespace holdfast::hal
