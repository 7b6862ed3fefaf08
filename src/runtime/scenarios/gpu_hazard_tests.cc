#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "holdfast/base/ablation.h"
#include "holdfast/runtime/scenarios/ablations.h"
#include "holdfast/testing/rig.h"

// The hazards on a GPU whose dispatches overlap: with a safety missing its results are wrong. Where
// they cannot be, because a device runs one thing after another, the validator reports it.

#ifdef HOLDFAST_ABLATIONS

namespace holdfast::testing {
namespace {

using hal::Access;

constexpr int kRepetitions = 20;
constexpr uint32_t kRounds = 60'000;  // 0.2 ms or more: longer than it takes to submit
constexpr uint64_t kSize = 4096;
constexpr uint8_t kOld = 5;
constexpr uint8_t kNew = 99;

// A program that goes wrong where one safety is missing, with a kernel that takes its time.
class Attempt {
 public:
  explicit Attempt(World& world)
      : rig_(world),
        slow_(rig_.context->create_pipeline(test_kernel(world.family(), "slow_add"))),
        set_(rig_.context->create_pipeline(test_kernel(world.family(), "set"))) {}

  // Whether what it read was right.
  bool run(Ablation missing) {
    bool right = false;
    switch (missing) {
      case Ablation::war_ignored: right = overwrite_what_is_read(); break;
      case Ablation::hazards_by_view: right = read_through_another_view(); break;
      case Ablation::cross_queue_reuse_unordered: right = reuse_what_another_queue_reads(); break;
      case Ablation::range_recycled_at_death: right = reuse_what_died_in_flight(); break;
      case Ablation::host_access_not_ordered: right = read_back(); break;
      default: ADD_FAILURE() << "no program for " << ablation_token(missing); break;
    }
    rig_.context->synchronize(patient());
    return right;
  }

 private:
  void add_slowly(runtime::Stream& stream, const hal::Binding& in, const hal::Binding& out) const {
    stream.dispatch(slow_, std::array{in, out}, hal::Parameters::of(SlowAdd{1, kRounds}),
                    {1, 1, 1});
  }
  void set(runtime::Stream& stream, const Ref<hal::Allocation>& to, uint8_t value) const {
    stream.dispatch(set_, std::array{write_of(to)}, hal::Parameters::of(value), {1, 1, 1});
  }
  // Some memory with the old value, and nothing in flight.
  Ref<hal::Allocation> ready(runtime::Stream& stream, const char* name,
                             hal::MemoryKind kind = hal::MemoryKind::device) const {
    auto memory = stream.allocate({kSize}, name, kind);
    set(stream, memory, kOld);
    stream.synchronize(patient());
    return memory;
  }

  bool overwrite_what_is_read() {
    const auto stream = rig_.stream("main", 0);
    const auto g = ready(*stream, "g");
    const auto out = ready(*stream, "out");
    add_slowly(*stream, read_of(g), write_of(out));
    set(*stream, g, kNew);
    return value_of(*stream, out) == kOld + 1;
  }

  bool read_through_another_view() {
    const auto stream = rig_.stream("main", 0);
    const auto in = ready(*stream, "in");
    const auto a = ready(*stream, "a");
    const auto out = ready(*stream, "out");
    add_slowly(*stream, read_of(in), write_of(a));
    stream->dispatch(rig_.add(),
                     std::array{part(a, kSize / 2, kSize / 2, Access::read),
                                part(out, 0, kSize / 2, Access::write)},
                     hal::Parameters::of(uint8_t{1}), {1, 1, 1});
    const std::vector<uint8_t> bytes = bytes_of(*stream, out);
    return std::all_of(bytes.begin(), bytes.begin() + kSize / 2,
                       [](uint8_t b) { return b == kOld + 2; });
  }

  bool reuse_what_another_queue_reads() {
    const auto a = rig_.stream("a", 0);
    const auto b = rig_.stream("b", 1);
    auto x = ready(*a, "x");
    const auto out = ready(*b, "out");
    // Held up for certain, as by a queue that has much to do.
    Gate gate(*rig_.context);
    b->wait_for(gate.point());
    add_slowly(*b, read_of(x), write_of(out));
    b->flush();
    x.reset();
    const auto next = a->allocate({kSize}, "next");
    set(*a, next, kNew);
    EXPECT_TRUE(until_done(a->flush()));
    gate.open();
    return value_of(*b, out) == kOld + 1;
  }

  bool reuse_what_died_in_flight() {
    const auto a = rig_.stream("a", 0);
    const auto b = rig_.stream("b", 1);
    auto x = ready(*a, "x");
    const auto out = ready(*a, "out");
    Gate gate(*rig_.context);
    a->wait_for(gate.point());
    add_slowly(*a, read_of(x), write_of(out));
    a->flush();
    x.reset();
    const auto next = b->allocate({kSize}, "next");
    set(*b, next, kNew);
    EXPECT_TRUE(until_done(b->flush()));
    gate.open();
    return value_of(*a, out) == kOld + 1;
  }

  bool read_back() {
    const auto stream = rig_.stream("main", 0);
    const auto in = ready(*stream, "in");
    // Memory that the host reads itself, on every device.
    const auto out = ready(*stream, "out", hal::MemoryKind::readback);
    add_slowly(*stream, read_of(in), write_of(out));
    stream->flush();
    return value_of(*stream, out) == kOld + 1;
  }

  Rig rig_;
  Ref<hal::Pipeline> slow_;
  Ref<hal::Pipeline> set_;
};

struct Seen {
  int wrong = 0;        // results
  std::string report;   // of the validator; empty: none
  bool driver = false;  // whether the validation layers or the stub driver complained
};

Seen look(Ablation program, Family gpu) {
  Seen seen;
  {
    World world(World::Mode::plain, {}, gpu);
    world.run([&] {
      Attempt attempt(world);
      for (int i = 0; i < kRepetitions; ++i) seen.wrong += attempt.run(program) ? 0 : 1;
    });
    EXPECT_EQ(world.failure(), "");
  }
  // Of a host that raced and won there is nothing to report.
  for (int i = 0; i < kRepetitions && seen.report.empty(); ++i) {
    World world(World::Mode::validate, {}, gpu);
    world.run([&] { Attempt(world).run(program); });
    seen.report = world.failure();
  }
  seen.driver = !take_complaints(gpu).empty();
  return seen;
}

// By number: GoogleTest prints the parameter in the test's name.
class GpuHazards : public ::testing::TestWithParam<unsigned> {
 protected:
  explicit GpuHazards(Family gpu) : gpu_(gpu) {}
  void SetUp() override {
    if (const std::string why = why_no(gpu_); !why.empty()) GTEST_SKIP() << why;
    const bool across_queues = missing() == Ablation::cross_queue_reuse_unordered ||
                               missing() == Ablation::range_recycled_at_death;
    if (across_queues && limited_queues(2) < 2) GTEST_SKIP() << "one queue has an order";
  }

  void expect_shown() const {
    const auto cases = ablation_cases();
    const auto found = std::ranges::find(cases, missing(), &AblationCase::ablation);
    ASSERT_NE(found, cases.end());
    Seen seen;
    {
      const ScopedAblation ablation(missing());
      seen = look(missing(), gpu_);
    }
    std::printf("| ablation | safeties | wrong results | validator reports | %s |\n",
                gpu_ == Family::vulkan ? "layers report" : "stub driver reports");
    print("one missing", seen);
    EXPECT_TRUE(seen.wrong > 0 || !seen.report.empty());
    // Anything else that goes wrong proves nothing about this safety.
    if (!seen.report.empty()) {
      EXPECT_THAT(seen.report, ::testing::HasSubstr(found->says));
    }
  }
  void expect_not_shown() const {
    const Seen seen = look(missing(), gpu_);
    print("all on", seen);
    EXPECT_EQ(seen.wrong, 0);
    EXPECT_EQ(seen.report, "");
    EXPECT_FALSE(seen.driver);
  }

 private:
  static Ablation missing() { return static_cast<Ablation>(GetParam()); }
  static void print(const char* what, const Seen& seen) {
    std::printf("| %s | %s | %d of %d | %s | %s |\n",
                std::string(ablation_token(missing())).c_str(), what, seen.wrong, kRepetitions,
                seen.report.empty() ? "no" : "yes", seen.driver ? "yes" : "no");
    std::fflush(stdout);
  }

  Family gpu_;
};

class VulkanHazards : public GpuHazards {
 protected:
  VulkanHazards() : GpuHazards(Family::vulkan) {}
};
class CudaHazards : public GpuHazards {
 protected:
  CudaHazards() : GpuHazards(Family::cuda) {}
};

TEST_P(VulkanHazards, show_in_results_or_in_a_report) { expect_shown(); }
TEST_P(VulkanHazards, do_not_show_with_all_safeties_on) { expect_not_shown(); }
TEST_P(CudaHazards, show_in_results_or_in_a_report) { expect_shown(); }
TEST_P(CudaHazards, do_not_show_with_all_safeties_on) { expect_not_shown(); }

const auto kHazards = ::testing::Values(
    static_cast<unsigned>(Ablation::war_ignored), static_cast<unsigned>(Ablation::hazards_by_view),
    static_cast<unsigned>(Ablation::cross_queue_reuse_unordered),
    static_cast<unsigned>(Ablation::range_recycled_at_death),
    static_cast<unsigned>(Ablation::host_access_not_ordered));

std::string hazard_name(const ::testing::TestParamInfo<unsigned>& test) {
  std::string name(ablation_token(static_cast<Ablation>(test.param)));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ablations, VulkanHazards, kHazards, hazard_name);
INSTANTIATE_TEST_SUITE_P(Ablations, CudaHazards, kHazards, hazard_name);

}  // namespace
}  // namespace holdfast::testing

#endif
