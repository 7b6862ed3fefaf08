#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <numeric>

#include "holdfast/base/sync/thread.h"
#include "holdfast/creation.h"
#include "holdfast/eval.h"
#include "holdfast/hal/adversary/adversary_device.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/operation.h"
#include "holdfast/ops.h"
#include "holdfast/testing/rig.h"
#include "holdfast/testing/vulkan.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::Gate;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::patient;
using ::testing::ThrowsMessage;

Device open_transfer_device(const std::string& kind, runtime::Options options = {}) {
  if (kind == "cpu") return Device(hal::open_device("cpu").or_raise(), {.runtime = options});
  if (kind == "discrete") {
    return Device(hal::CpuDevice::open(testing::discrete()), {.runtime = options});
  }
  if (kind == "vulkan") {
    hal::VulkanOptions vulkan;
    vulkan.queues = 2;
    return Device(testing::open_vulkan(vulkan).or_raise(), {.runtime = options});
  }
  return Device(hal::open_device(kind).or_raise(), {.runtime = options});
}

std::vector<float> counted(int64_t length) {
  std::vector<float> values(static_cast<size_t>(length));
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

struct TransferPair {
  std::string from;
  std::string to;
};
std::ostream& operator<<(std::ostream& out, const TransferPair& pair) {
  return out << pair.from << " to " << pair.to;
}

class TransferRoundTrip : public ::testing::TestWithParam<TransferPair> {
 protected:
  void SetUp() override {
    const bool vulkan = GetParam().from == "vulkan" || GetParam().to == "vulkan";
    if (const std::string why = testing::why_no_vulkan(); vulkan && !why.empty()) {
      GTEST_SKIP() << why;
    }
    from.emplace(open_transfer_device(GetParam().from));
    to.emplace(open_transfer_device(GetParam().to));
  }

  template <typename T>
  void expect_moved(const std::vector<T>& values, const Shape& shape) {
    const Array x(values, shape, "x", *from);
    const Array moved = x.to(*to);
    EXPECT_EQ(moved.device(), *to);
    EXPECT_EQ(moved.shape(), shape);
    EXPECT_EQ(moved.dtype(), x.dtype());
    EXPECT_EQ(moved.name(), "x");
    EXPECT_EQ(moved.template to_vector<T>(patient()), values);
    EXPECT_EQ(moved.to(*from).template to_vector<T>(patient()), values) << "and back";
    EXPECT_EQ(x.template to_vector<T>(patient()), values) << "the source stays";
  }

  std::optional<Device> from;
  std::optional<Device> to;
};

TEST_P(TransferRoundTrip, keeps_the_elements_of_every_dtype) {
  expect_moved<float>({1.5F, -2, 3}, {3});
  expect_moved<double>({1.5, -2, 3, 4}, {2, 2});
  expect_moved<Float16>({Float16(1.5F), Float16(-2.0F)}, {2});
  expect_moved<int8_t>({1, -2, 3}, {3, 1});
  expect_moved<uint8_t>({1, 2, 255}, {3});
  expect_moved<int32_t>({1, -2, 3}, {3});
  expect_moved<int64_t>({int64_t{1} << 40, -2}, {2});
  expect_moved<float>(counted(100'000), {100, 1000});
}

TEST_P(TransferRoundTrip, keeps_scalars_and_arrays_without_elements) {
  EXPECT_EQ(Array(7, *from).to(*to).item<int32_t>(patient()), 7);
  const Array none = Array(std::vector<float>(), {0, 4}, "", *from).to(*to);
  EXPECT_EQ(none.shape(), (Shape{0, 4}));
  none.eval(patient());
  EXPECT_THAT(none.to(*from).to_vector<float>(patient()), IsEmpty());
}

TEST_P(TransferRoundTrip, keeps_what_views_show) {
  const Array x(counted(12), {3, 4}, "", *from);
  const auto whole = [](const Array& of) { return of.to_vector<float>(patient()); };
  EXPECT_THAT(whole(slice(x, {{.start = 1, .stop = 2}}).to(*to)), ElementsAre(4, 5, 6, 7));
  if (GetParam().from == "vulkan" || GetParam().to == "vulkan") {
    // No device of Vulkan makes copies of views yet: back on the CPU they are read.
    const Array there = transpose(x).to(*to);
    EXPECT_EQ(there.shape(), (Shape{4, 3}));
    return;
  }
  EXPECT_THAT(whole(transpose(x).to(*to)), ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
  EXPECT_THAT(whole(slice(x, {{}, {.start = 3, .stop = 4}}).to(*to)), ElementsAre(3, 7, 11));
  EXPECT_THAT(whole(broadcast_to(slice(x, {{.start = 2, .stop = 3}}), {2, 4}).to(*to)),
              ElementsAre(8, 9, 10, 11, 8, 9, 10, 11));
}

// A thousand transfers, which nobody waits for, move 16 MiB.
TEST_P(TransferRoundTrip, is_flat_in_memory) {
  const runtime::Options options{.deferred_limit = 1_MiB};
  from.emplace(open_transfer_device(GetParam().from, options));
  to.emplace(open_transfer_device(GetParam().to, options));
  const std::vector<float> values = counted(4096);
  Array last;
  for (int i = 0; i < 1000; ++i) {
    last = Array(values, {4096}, "", *from).to(*to);
    async_eval(last);
  }
  EXPECT_EQ(last.to_vector<float>(patient()), values);
  for (const Device& device : {*from, *to}) {
    device.synchronize(patient());
    device.context()->retire();
    const runtime::MemoryStats memory = device.stats().runtime.memory;
    EXPECT_LE(memory.live_peak.value, (4_MiB).value) << device.name();
    EXPECT_LE(memory.deferred_peak.value, (4_MiB).value) << device.name();
  }
  to->context()->retire();
  from->context()->retire();
  EXPECT_LE(from->stats().active_memory().value, (64_KiB).value);
  EXPECT_LE(to->stats().active_memory().value, (64_KiB).value);
}

INSTANTIATE_TEST_SUITE_P(
    Transfer, TransferRoundTrip,
    ::testing::Values(TransferPair{"cpu", "cpu"}, TransferPair{"discrete", "cpu"},
                      TransferPair{"cpu", "discrete"}, TransferPair{"cpu", "adversary(cpu,seed=7)"},
                      TransferPair{"adversary(cpu,seed=8)", "cpu"},
                      TransferPair{"validate(adversary(cpu,seed=9))",
                                   "validate(adversary(cpu,seed=10))"},
                      TransferPair{"cpu", "vulkan"}, TransferPair{"vulkan", "cpu"},
                      TransferPair{"vulkan", "vulkan"},
                      TransferPair{"vulkan", "adversary(cpu,seed=11)"}),
    [](const auto& tested) { return fmt::format("pair_{}", tested.index); });

TEST(Transfer, to_its_own_device_is_the_array_itself) {
  const Array x(counted(4));
  EXPECT_EQ(x.to(x.device()).value(), x.value());
  EXPECT_EQ(to_device(x, x.device()).value(), x.value());
}

TEST(Transfer, is_a_node_of_the_stream_in_use_on_the_destination) {
  const Device from = open_transfer_device("cpu");
  const Device to = open_transfer_device("cpu");
  const Array x(counted(4), {4}, "", from);
  EXPECT_EQ(x.to(to).stream(), to.default_stream());
  const Stream s = to.new_stream("s");
  const UseStream scope(s);
  EXPECT_EQ(x.to(to).stream(), s);
}

TEST(Transfer, of_a_node_that_failed_before_it_was_recorded_raises_its_failure) {
  const Device from = open_transfer_device("cpu");
  const Device to = open_transfer_device("cpu");
  class Refuses final : public Operation {
   public:
    std::string_view name() const noexcept override { return "refuses"; }
    void record(Encoder&) const override { throw UsageError("it will not"); }
  };
  const Array x = apply(make_ref<const Refuses>(), {}, OutputType{{4}, float32}, from);
  const Array y = x.to(to);
  EXPECT_THAT([&] { async_eval(y); }, ThrowsMessage<UsageError>(HasSubstr("it will not")));
  EXPECT_THROW((void)y.to_vector<float>(), UsageError);
}

// A source whose list is held up by a gate, on its way to another device.
struct TransferInFlight {
  explicit TransferInFlight(const std::string& from_kind, const std::string& to_kind,
                            runtime::Options options = {})
      : from(open_transfer_device(from_kind, options)),
        to(open_transfer_device(to_kind, options)),
        gate(*from.context()) {
    from.default_stream().runtime_stream()->wait_for(gate.point());
    moved = ones_of_bytes(from).to(to);
    async_eval(moved);
  }
  // Filled on the device, also on one that compiles no kernels.
  static Array ones_of_bytes(const Device& on) {
    class FillOnes final : public Operation {
     public:
      std::string_view name() const noexcept override { return "fill_ones"; }
      void record(Encoder& encoder) const override {
        encoder.fill(encoder.output(0), std::byte{1});
      }
    };
    return apply(make_ref<const FillOnes>(), {}, OutputType{{4096}, uint8}, on);
  }

  Device from;
  Device to;
  Gate gate;
  Array moved;
};

const runtime::Options kShortShutdown{.shutdown_bound = std::chrono::milliseconds(50)};

TEST(Transfer, in_flight_is_over_before_its_source_device_closes) {
  TransferInFlight t("cpu", "cpu");
  t.gate.open();
  t.from = t.to;
  EXPECT_THAT(t.moved.to_vector<uint8_t>(patient()), Each(1));
}

class TransferWith : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string why = testing::why_no_vulkan();
    if (std::string_view(GetParam()) == "vulkan" && !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(TransferWith, a_gated_source_arrives_when_the_gate_opens) {
  for (const bool source : {true, false}) {
    TransferInFlight t(source ? GetParam() : "cpu", source ? "cpu" : GetParam());
    EXPECT_EQ(t.from.stats().runtime.wait_count() + t.to.stats().runtime.wait_count(), 0U);
    EXPECT_THROW(t.moved.eval(WaitLimit::after({})), TimeoutError);
    t.gate.open();
    EXPECT_THAT(t.moved.to_vector<uint8_t>(patient()), Each(1));
  }
}

TEST_P(TransferWith, closing_the_source_fails_what_waits_for_it) {
  TransferInFlight t(GetParam(), "cpu", kShortShutdown);
  t.from.context()->close();
  EXPECT_THAT([&] { (void)t.moved.to_vector<uint8_t>(patient()); },
              ThrowsMessage<ClosedError>(HasSubstr("was closed before a transfer")));
  EXPECT_THAT(TransferInFlight::ones_of_bytes(t.to).to_vector<uint8_t>(patient()), Each(1));
}

// The bytes are ready, and nobody has read them when their device goes.
TEST_P(TransferWith, closing_the_source_before_it_was_read_fails_what_reads_it) {
  const Device from = open_transfer_device("cpu", kShortShutdown);
  const Device to = open_transfer_device(GetParam());
  Gate gate(*to.context());
  to.default_stream().runtime_stream()->wait_for(gate.point());
  const Array moved = TransferInFlight::ones_of_bytes(from).to(to);
  async_eval(moved);
  from.synchronize(patient());
  from.context()->close();
  gate.open();
  EXPECT_THAT([&] { (void)moved.to_vector<uint8_t>(patient()); },
              ThrowsMessage<Error>(HasSubstr("was closed before a transfer")));
}

TEST_P(TransferWith, closing_the_destination_leaves_the_source_at_work) {
  TransferInFlight t("cpu", GetParam(), kShortShutdown);
  t.to.context()->close();
  EXPECT_THROW((void)t.moved.to_vector<uint8_t>(patient()), ClosedError);
  t.gate.open();
  EXPECT_THAT(TransferInFlight::ones_of_bytes(t.from).to_vector<uint8_t>(patient()), Each(1));
}

TEST_P(TransferWith, closing_both_in_either_order_ends) {
  for (const bool source_first : {true, false}) {
    TransferInFlight t("cpu", GetParam(), kShortShutdown);
    const Device& first = source_first ? t.from : t.to;
    const Device& second = source_first ? t.to : t.from;
    first.context()->close();
    second.context()->close();
    EXPECT_THROW((void)t.moved.to_vector<uint8_t>(patient()), ClosedError);
  }
}

INSTANTIATE_TEST_SUITE_P(Transfer, TransferWith,
                         ::testing::Values("cpu", "discrete", "adversary(cpu,seed=3)", "vulkan"),
                         [](const auto& tested) { return fmt::format("device_{}", tested.index); });

TEST(Transfer, to_a_closed_device_is_refused) {
  const Device to = open_transfer_device("cpu");
  to.context()->close();
  EXPECT_THROW((void)Array(counted(4)).to(to), ClosedError);
}

// More than the budget allows at once: the host waits, accounted, for the oldest ones, and never
// for those that wait for the host.
TEST(Transfer, holds_no_more_of_its_source_than_the_budget) {
  const runtime::Options small{.deferred_limit = 64_KiB};
  const Device from = open_transfer_device("discrete", small);
  const Device to = open_transfer_device("cpu", small);
  std::vector<Array> moved;
  for (int i = 0; i < 64; ++i) {
    moved.push_back(full({4096}, i, float32, from).to(to));
    async_eval(moved.back());
  }
  for (int i = 0; i < 64; ++i) {
    EXPECT_THAT(moved[static_cast<size_t>(i)].to_vector<float>(patient()),
                Each(static_cast<float>(i)));
  }
  from.synchronize(patient());
  // Staging of the budget, one more, and what is being made.
  EXPECT_LE(from.stats().runtime.memory.live_peak.value, (64_KiB + 64_KiB).value);

  Gate gate(*from.context());
  from.default_stream().runtime_stream()->wait_for(gate.point());
  for (int i = 0; i < 64; ++i) {
    moved[static_cast<size_t>(i)] = full({4096}, -i, float32, from).to(to);
    async_eval(moved[static_cast<size_t>(i)]);
  }
  gate.open();
  for (int i = 0; i < 64; ++i) {
    EXPECT_THAT(moved[static_cast<size_t>(i)].to_vector<float>(patient()),
                Each(static_cast<float>(-i)));
  }
}

// Threads that move parts of one graph in both directions.
TEST(Transfer, of_overlapping_graphs_by_several_threads) {
  const Device from = open_transfer_device("cpu");
  const Device to = open_transfer_device("discrete");
  for (int round = 0; round < 20; ++round) {
    const Array x = full({256}, round, float32, from);
    const Array there = (x + x).to(to);
    const Array back = (there + there).to(from);
    std::vector<sync::Thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back("mover", [&, i] {
        const Array& own = i % 2 == 0 ? there : back;
        const float expected = static_cast<float>(round * (i % 2 == 0 ? 2 : 4));
        EXPECT_THAT(own.to_vector<float>(patient()), Each(expected));
        EXPECT_THAT((back + back).to(to).to_vector<float>(patient()),
                    Each(static_cast<float>(round * 8)));
      });
    }
    for (sync::Thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace holdfast
