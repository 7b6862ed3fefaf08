#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "holdfast/base/ablation.h"
#include "holdfast/hal/cuda/stub_gpu_test.h"

#ifdef HOLDFAST_ABLATIONS

namespace holdfast::hal {
namespace {

class GraphAblation;
// What shows that a safety of graphs is missing; empty: it is there.
using GraphScenario = std::string (*)(GraphAblation&);

struct GraphAblationCase {
  Ablation ablation;
  const char* stands_for;
  GraphScenario scenario;
  const char* says;  // part of what it then says
};
void PrintTo(const GraphAblationCase& one, std::ostream* out) {
  *out << ablation_token(one.ablation);
}

class GraphAblation : public StubGpu, public ::testing::WithParamInterface<GraphAblationCase> {
 public:
  static std::string values(const StubWords& got, const StubWords& wanted) {
    if (got == wanted) return {};
    return fmt::format("memory is {} and should be {}", got.at(0), wanted.at(0));
  }

  // The driver refuses the parameters of a list whose shape is in flight. Its executable is thrown
  // away, which must not be the one in flight. (New parameters alone would not hurt that one: the
  // driver applies them to later launches.)
  std::string parameters_refused_in_flight() {
    const auto data = uploaded({1});
    run(data, "increment", 1);
    run(data, "increment", 1);
    stub().hold();
    const Point first = start(data, "increment", 1);
    stub().fail("cuGraphExecKernelNodeSetParams", 1, cu::CUDA_ERROR_NOT_PERMITTED);
    const Point second = start(data, "increment", 2);
    stub().fail_no_more();
    stub().release();
    EXPECT_TRUE(stub_reached(first));
    EXPECT_TRUE(stub_reached(second));
    std::string said;
    for (const std::string& violation : stub().take_violations()) said += violation;
    return said;
  }
  std::string the_same_shape_with_other_memory() {
    const auto a = uploaded({1});
    const auto b = uploaded({1});
    run(a, "increment", 1);
    run(a, "increment", 1);
    run(b, "increment", 1);
    return values(read(b), {5});
  }
  std::string the_same_bindings_with_another_kernel() {
    const auto data = uploaded({1});
    run(data, "increment", 1);
    run(data, "increment", 1);
    run(data, "twice", 1);
    run(data, "twice", 1);
    return values(read(data), {9 * 16 * 16});
  }

 private:
  // Four times the kernel, each in so many groups.
  Point start(const Ref<Allocation>& data, const char* kernel, uint32_t groups) {
    auto work = list(kernel);
    for (int i = 0; i < 4; ++i) {
      const uint32_t count = 1;
      work.dispatch(pipeline(kernel), std::array{Binding::of(data, Access::read_write)},
                    Parameters::of(count), {groups, 1, 1});
      work.barrier();
    }
    return submit(work);
  }
  void run(const Ref<Allocation>& data, const char* kernel, uint32_t groups) {
    EXPECT_TRUE(stub_reached(start(data, kernel, groups)));
  }
};

const std::array kGraphCases{
    GraphAblationCase{Ablation::graph_reused_in_flight,
                      "mlx#3347: an object replaced while a list in flight uses it",
                      [](GraphAblation& t) { return t.parameters_refused_in_flight(); },
                      "while a launch of it is in flight"},
    GraphAblationCase{Ablation::graph_keeps_stale_parameters,
                      "quadrants#649: parameters of the last call",
                      [](GraphAblation& t) { return t.the_same_shape_with_other_memory(); },
                      "memory is 4 and should be 5"},
    GraphAblationCase{Ablation::graph_key_without_kernels, "mlx#3832: one key, two kernels",
                      [](GraphAblation& t) { return t.the_same_bindings_with_another_kernel(); },
                      "and should be 2304"},
};
static_assert(std::tuple_size_v<decltype(kGraphCases)> ==
                  kAblationCount - static_cast<size_t>(kFirstGraphAblation),
              "every ablation of graphs has a scenario that kills it");

TEST_P(GraphAblation, is_killed_by_its_scenario_every_time) {
  open();
  const GraphAblationCase& one = GetParam();
  EXPECT_EQ(one.scenario(*this), "");
  std::string said;
  for (int i = 0; i < 3; ++i) {
    drop_device();
    const ScopedAblation off(one.ablation);
    open();
    said = one.scenario(*this);
    EXPECT_THAT(said, ::testing::HasSubstr(one.says));
  }
  fmt::print("{}\n  stands for  {}\n  it says     {}\n\n", ablation_token(one.ablation),
             one.stands_for, said);
}

INSTANTIATE_TEST_SUITE_P(Graphs, GraphAblation, ::testing::ValuesIn(kGraphCases),
                         [](const auto& test) {
                           std::string name(ablation_token(test.param.ablation));
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace holdfast::hal

#endif
