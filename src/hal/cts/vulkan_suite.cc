#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <random>
#include <stdexcept>

#include "holdfast/hal/cts/cts.h"
#include "holdfast/hal/cts/vulkan_cts.h"

// What only Vulkan devices have: SPIR-V of all kinds, bindings by address, limits of bindings, and
// losing the device.

namespace holdfast::hal::cts {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kVulkanElements = 1000;

SpirvModule by_address(std::string_view kernel, Bytes parameter_bytes,
                       std::vector<SpirvModule::Constant> constants = {}) {
  SpirvModule module = spirv_of(kernel, parameter_bytes);
  module.bindings = SpirvBindings::addresses;
  module.constants = std::move(constants);
  return module;
}

// The number of a constant that store_params_addresses and its like have: how many bytes there are.
SpirvModule::Constant byte_count(uint64_t bytes) { return {0, bytes, 4}; }

template <typename... T>
ByteVector packed(const T&... values) {
  ByteVector bytes;
  const auto append = [&](std::span<const std::byte> more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
  };
  (append(bytes_of(values)), ...);
  return bytes;
}

}  // namespace

// SPIR-V

TEST_P(CtsVulkan, a_specialization_constant_changes_the_kernel) {
  if (!has_addresses()) GTEST_SKIP() << "no buffer addresses";
  const ByteVector parameters = pattern(16, 3);
  // One module, two pipelines: each keeps its own.
  const auto four =
      device()
          .create_pipeline(
              {"four", by_address("store_params_addresses", {16}, {byte_count(4)}), 1, {16}})
          .or_raise();
  const auto nine =
      device()
          .create_pipeline(
              {"nine", by_address("store_params_addresses", {16}, {byte_count(9)}), 1, {16}})
          .or_raise();
  for (const auto& [kernel, bytes] : {std::pair{four, 4}, std::pair{nine, 9}}) {
    const auto out = uploaded(ByteVector(16, std::byte{0xcc}), "out");
    auto work = list();
    const std::vector bindings{Binding::of(out, Access::write)};
    work.dispatch(kernel, bindings, Parameters(parameters), {1, 1, 1});
    ASSERT_TRUE(reached(submit(queue(), work)));
    ByteVector expected(16, std::byte{0xcc});
    std::copy_n(parameters.begin(), bytes, expected.begin());
    EXPECT_EQ(read_bytes(out), expected) << kernel->name();
  }
}

TEST_P(CtsVulkan, words_that_are_no_spirv_are_refused_by_name) {
  SpirvModule good = spirv_of("increment");
  const auto refused = [&](std::vector<uint32_t> words) {
    SpirvModule module;
    module.words = std::move(words);
    const auto made = device().create_pipeline({"broken", std::move(module), 1, {}});
    EXPECT_FALSE(made.ok());
    if (!made.ok()) {
      EXPECT_THAT(made.failure().message(), HasSubstr("broken"));
    }
  };
  refused({});
  refused({0x07230203});
  refused({1, 2, 3, 4, 5});
  std::vector<uint32_t> words = good.words;
  words[0] = 0;  // the magic number
  refused(words);
  words = good.words;
  words.resize(words.size() / 2);
  refused(words);
  words = good.words;
  words.push_back(0);
  refused(words);
  EXPECT_TRUE(device().create_pipeline({"good", std::move(good), 1, {}}).ok());
}

// What a validator lets through a driver must survive, and nothing else may reach it.
TEST_P(CtsVulkan, no_module_however_broken_does_worse_than_be_refused) {
  const SpirvModule good = spirv_of("affine");
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    SpirvModule module = good;
    uint32_t& word = module.words[random() % module.words.size()];
    switch (random() % 4) {
      case 0: word = 0; break;
      case 1: word = 0xffffffffU; break;
      case 2: word ^= 1U << (random() % 32); break;
      default: word = static_cast<uint32_t>(random() % module.words.size()); break;
    }
    (void)device().create_pipeline({"mutant", std::move(module), 1, {8}});
  }
  EXPECT_FALSE(device().lost());
  EXPECT_NO_THROW(uploaded(Words(4), "still works"));
}

TEST_P(CtsVulkan, an_entry_point_that_is_not_there_is_refused_by_name) {
  SpirvModule module = spirv_of("increment");
  module.entry_point = "nonesuch";
  const auto made = device().create_pipeline({"plus one", std::move(module), 1, {}});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.failure().message(), AllOf(HasSubstr("plus one"), HasSubstr("nonesuch")));
}

TEST_P(CtsVulkan, a_capability_that_the_device_lacks_is_refused_by_name) {
  SpirvModule module = spirv_of("increment");
  constexpr uint32_t kOpCapability = (2U << 16) | 17U;
  constexpr uint32_t kGeometry = 2;  // never for compute
  constexpr std::ptrdiff_t kHeaderWords = 5;
  module.words.insert(module.words.begin() + kHeaderWords, {kOpCapability, kGeometry});
  const auto made = device().create_pipeline({"sculptor", std::move(module), 1, {}});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.failure().code(), ErrorCode::unsupported);
  EXPECT_THAT(made.failure().message(), AllOf(HasSubstr("sculptor"), HasSubstr("Geometry")));
}

TEST_P(CtsVulkan, a_module_that_declares_more_than_was_promised_is_refused_by_name) {
  const auto fewer_bindings = device().create_pipeline({"two", spirv_of("copy_u32"), 1, {}});
  ASSERT_FALSE(fewer_bindings.ok());
  EXPECT_THAT(fewer_bindings.failure().message(), HasSubstr("two"));
  const auto fewer_parameters = device().create_pipeline({"eight", spirv_of("affine"), 1, {4}});
  ASSERT_FALSE(fewer_parameters.ok());
  EXPECT_THAT(fewer_parameters.failure().message(), HasSubstr("eight"));
}

TEST_P(CtsVulkan, a_module_for_another_kind_of_device_is_refused) {
  const auto made =
      device().create_pipeline({"host code", HostFunction([](const HostGroup&) {}), 0, {}});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.failure().code(), ErrorCode::unsupported);
  EXPECT_THAT(made.failure().message(), HasSubstr("host code"));
}

// Bindings

TEST_P(CtsVulkan, kernels_by_address_compute_what_those_by_descriptor_do) {
  if (!has_addresses()) GTEST_SKIP() << "no buffer addresses";
  const uint32_t n = kVulkanElements;
  const auto increment_there = address_pipeline("increment_addresses", 1, {4});
  const auto affine_there = address_pipeline("affine_addresses", 1, {12});
  const auto axpy_there = address_pipeline("axpy_addresses", 2, {8});
  const auto here = uploaded(counting(n, 7), "by descriptor");
  const auto there = uploaded(counting(n, 7), "by address");
  auto work = list();
  increment(work, here);
  work.barrier();
  affine(work, here, 3, 5);
  const std::vector bound{Binding::of(there, Access::read_write)};
  work.dispatch(increment_there, bound, Parameters(packed(n)), groups_for(n));
  work.barrier();
  work.dispatch(affine_there, bound, Parameters(packed(AffineParameters{3, 5}, n)), groups_for(n));
  ASSERT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(there), read(here));

  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 0.25F);
  const auto in = uploaded(std::as_bytes(std::span(x)), "x");
  const auto y_here = uploaded(std::as_bytes(std::span(x)), "y by descriptor");
  const auto y_there = uploaded(std::as_bytes(std::span(x)), "y by address");
  const AxpyParameters parameters{1.5F, n};
  auto more = list();
  dispatch(more, "axpy", {Binding::of(in, Access::read), Binding::of(y_here, Access::read_write)},
           Parameters::of(parameters), groups_for(n));
  const std::vector both{Binding::of(in, Access::read), Binding::of(y_there, Access::read_write)};
  more.dispatch(axpy_there, both, Parameters::of(parameters), groups_for(n));
  ASSERT_TRUE(reached(submit(queue(), more)));
  EXPECT_EQ(read_bytes(y_there), read_bytes(y_here));
}

TEST_P(CtsVulkan, kernels_by_address_see_ranges_at_any_element) {
  if (!has_addresses()) GTEST_SKIP() << "no buffer addresses";
  const auto kernel = address_pipeline("increment_addresses", 1, {4});
  const auto data = uploaded(Words(64), "data");
  auto work = list();
  const std::vector bound{Binding::of(data, range(20, 12), Access::read_write)};
  work.dispatch(kernel, bound, Parameters(packed(uint32_t{3})), {1, 1, 1});
  ASSERT_TRUE(reached(submit(queue(), work)));
  Words expected(64);
  std::fill_n(expected.begin() + 5, 3, 1);
  EXPECT_EQ(read(data), expected);
}

TEST_P(CtsVulkan, blocks_of_addresses_and_parameters_of_any_size_arrive_whole) {
  if (!has_addresses()) GTEST_SKIP() << "no buffer addresses";
  // The address has eight bytes: up to 120 the block is in push constants.
  for (const size_t size : {1U, 4U, 116U, 119U, 120U, 121U, 124U, 128U, 256U, 1023U, 4096U}) {
    const ByteVector expected = pattern(size, static_cast<uint32_t>(size));
    const auto out = buffer({size}, "out");
    SpirvModule module =
        by_address(size <= 120 ? "store_params_addresses" : "store_params_buffer_addresses", {size},
                   {byte_count(size)});
    const auto kernel =
        device().create_pipeline({"store", std::move(module), 1, {size}}).or_raise();
    auto work = list();
    const std::vector bindings{Binding::of(out, Access::write)};
    work.dispatch(kernel, bindings, Parameters(expected), {1, 1, 1});
    ASSERT_TRUE(reached(submit(queue(), work)));
    EXPECT_EQ(read_bytes(out), expected) << size << " bytes";
  }
}

TEST_P(CtsVulkan, thirty_one_bindings_by_address_compute) {
  if (!has_addresses()) GTEST_SKIP() << "no buffer addresses";
  const auto kernel = address_pipeline("sum31_addresses", 31, {4});
  const uint32_t n = 130;
  std::vector<Ref<Allocation>> inputs;
  std::vector<Binding> bindings;
  Words expected(n);
  for (uint32_t k = 0; k < 30; ++k) {
    const Words content = counting(n, k * 1000);
    inputs.push_back(uploaded(content, "input"));
    bindings.push_back(Binding::of(inputs.back(), Access::read));
    for (size_t i = 0; i < n; ++i) expected[i] += (k + 1) * content[i];
  }
  // Two dispatches of one list: each has a block of its own.
  const auto out = words(n, "out");
  const auto half = words(n / 2, "half");
  auto work = list();
  bindings.push_back(Binding::of(out, Access::write));
  work.dispatch(kernel, bindings, Parameters(packed(n)), groups_for(n));
  bindings.back() = Binding::of(half, Access::write);
  work.dispatch(kernel, bindings, Parameters(packed(n / 2)), groups_for(n / 2));
  ASSERT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(out), expected);
  expected.resize(n / 2);
  EXPECT_EQ(read(half), expected);
}

TEST_P(CtsVulkan, a_binding_at_an_offset_that_kernels_cannot_reach_is_refused_when_recorded) {
  const auto data = uploaded(Words(256), "data");
  const uint64_t alignment = pipeline("increment")->binding_limits().alignment.value;
  if (alignment <= 4) GTEST_SKIP() << "kernels reach every element";
  const ByteRange odd = range(alignment / 2, 64);
  auto work = list();
  EXPECT_THAT(message_of_refusal([&] {
                dispatch(work, "increment", {Binding::of(data, odd, Access::read_write)}, {},
                         {1, 1, 1}, "my label");
              }),
              AllOf(HasSubstr("increment"), HasSubstr("multiple of " + std::to_string(alignment))));
  EXPECT_TRUE(work.empty());
  EXPECT_EQ(work.holds().size(), 0U);

  // A slot's offset is known when it is bound.
  auto steps = list("steps");
  const std::vector slot{Binding::of_slot(0, range(0, 64), Access::read_write)};
  steps.dispatch(pipeline("increment"), slot, {}, {1, 1, 1});
  const auto program = device().create_program(steps).or_raise();
  EXPECT_THAT(
      message_of_refusal([&] { replay(program, {Binding::of(data, odd, Access::read_write)}); }),
      AllOf(HasSubstr("steps"), HasSubstr("multiple of " + std::to_string(alignment))));
  auto good = replay(program, {Binding::of(data, range(alignment, 64), Access::read_write)});
  EXPECT_TRUE(reached(submit(queue(), good)));
}

TEST_P(CtsVulkan, a_binding_longer_than_kernels_can_reach_is_refused_when_recorded) {
  const Bytes limit = pipeline("increment")->binding_limits().length;
  const Bytes size = limit + 64_B;
  if (limit.value > size.value || size > device().info().max_buffer) {
    GTEST_SKIP() << "kernels reach every buffer";
  }
  const auto made = device().create_buffer({size, MemoryKind::device, "vast"});
  if (!made.ok()) GTEST_SKIP() << made.failure().message();
  const auto vast = Allocation::whole(made.value());
  auto work = list();
  EXPECT_THAT(message_of_refusal([&] {
                dispatch(work, "increment", {Binding::of(vast, Access::read_write)}, {}, {1, 1, 1});
              }),
              AllOf(HasSubstr("increment"), HasSubstr(to_string(limit))));
  EXPECT_TRUE(work.empty());
  // A part of it is as good as any.
  const uint64_t last = size.value - 256;
  work.fill(vast, range(last, 256), std::byte{1});
  work.barrier();
  dispatch(work, "increment", {Binding::of(vast, range(last, 256), Access::read_write)}, {},
           {1, 1, 1});
  const auto out = words(64, "out");
  work.barrier();
  work.copy(vast, range(last, 256), out, range(0, 256));
  ASSERT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(out), Words(64, 0x01010102U));
}

// Copies and fills

TEST_P(CtsVulkan, fills_of_every_residue_and_short_length_touch_nothing_else) {
  constexpr uint64_t kSlot = 64;
  constexpr uint64_t kLengths = 18;
  ByteVector expected = pattern(8 * kLengths * kSlot, 1);
  const auto data = uploaded(expected, "data");
  auto work = list();
  for (uint64_t i = 0; i < 8 * kLengths; ++i) {
    const uint64_t at = i * kSlot + 16 + i % 8;
    const uint64_t length = i / 8;
    const auto value = static_cast<std::byte>(0x40 + i);
    work.fill(data, range(at, length), value);
    std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(at), length, value);
  }
  ASSERT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read_bytes(data), expected);
}

TEST_P(CtsVulkan, copies_of_every_residue_and_short_length_touch_nothing_else) {
  constexpr uint64_t kSlot = 64;
  constexpr uint64_t kLengths = 18;
  constexpr uint64_t kCopies = 8 * 8 * kLengths;
  const ByteVector source = pattern(kCopies * kSlot, 2);
  ByteVector expected = pattern(kCopies * kSlot, 3);
  const auto from = uploaded(source, "from");
  const auto to = uploaded(expected, "to");
  auto work = list();
  for (uint64_t i = 0; i < kCopies; ++i) {
    const uint64_t in = i * kSlot + 16 + i % 8;
    const uint64_t out = i * kSlot + 16 + i / 8 % 8;
    const uint64_t length = i / 64;
    work.copy(from, range(in, length), to, range(out, length));
    std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(in), length,
                expected.begin() + static_cast<std::ptrdiff_t>(out));
  }
  ASSERT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read_bytes(to), expected);
  EXPECT_EQ(read_bytes(from), source);
}

// Memory

TEST_P(CtsVulkan, memory_that_is_no_whole_page_is_not_imported_and_deleted_once) {
  for (const bool shifted : {true, false}) {
    Imported mine;
    ExternalMemory memory = external(Words(2048), "crumbs", mine);
    if (shifted) {
      memory.data = static_cast<std::byte*>(memory.data) + 64;
      memory.size = {4096};
    } else {
      memory.size = {4096 + 64};
    }
    const auto refused = device().import_buffer(std::move(memory));
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.failure().message(), HasSubstr("crumbs"));
    EXPECT_TRUE(mine.deletions->reaches(1));
    EXPECT_EQ(mine.deletions->value(), 1);
  }
}

TEST_P(CtsVulkan, memory_is_limited_as_the_options_say) {
  VulkanOptions options;
  options.memory = 1_MiB;
  const auto limited = testing::open_vulkan(options).or_raise();
  EXPECT_EQ(limited->info().memory, 1_MiB);
  EXPECT_GE(limited->info().max_group_threads, 128U) << "what Vulkan promises everywhere";
  EXPECT_FALSE(limited->create_buffer({2_MiB, MemoryKind::device, "too large"}).ok());
  auto one = limited->create_buffer({512_KiB, MemoryKind::device, "one"}).or_raise();
  const auto over = limited->create_buffer({768_KiB, MemoryKind::device, "over"});
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.failure().code(), ErrorCode::out_of_memory);
  EXPECT_THAT(over.failure().message(),
              AllOf(HasSubstr("over"), HasSubstr("512.0 KiB of 1.0 MiB are in use")));
  one.reset();
  EXPECT_TRUE(limited->create_buffer({768_KiB, MemoryKind::device, "again"}).ok());
}

// Programs

TEST_P(CtsVulkan, a_program_in_flight_many_times_keeps_slots_and_parameters_apart) {
  constexpr uint32_t kReplays = 300;
  constexpr size_t kArrays = 8;
  constexpr ByteRange kAll{{}, {64 * 4}};
  auto steps = list("steps");
  const std::vector slot{Binding::of_slot(0, kAll, Access::read_write)};
  steps.dispatch(pipeline("affine"), slot, Parameters::of_replay(range(0, 8)), {1, 1, 1});
  steps.barrier();
  steps.dispatch(pipeline("affine"), slot, Parameters::of_replay(range(8, 8)), {1, 1, 1});
  const auto program = device().create_program(steps).or_raise();

  // Each array belongs to one queue, so its replays have an order.
  std::vector<Ref<Allocation>> arrays;
  Words expected(kArrays);
  for (uint32_t i = 0; i < kArrays; ++i) {
    arrays.push_back(uploaded(Words(64, i), "array"));
    expected[i] = i;
  }
  std::mt19937 random(5);
  for (const bool gated : {false, true}) {
    const Gate closed = gate();
    std::vector<Point> points;
    for (uint32_t i = 0; i < kReplays; ++i) {
      const size_t array = random() % kArrays;
      // Few distinct parameters: what was recorded for one replay may serve another.
      const AffineParameters first{2 + static_cast<uint32_t>(random() % 2), 1};
      const AffineParameters second{5, static_cast<uint32_t>(random() % 3)};
      auto one =
          replay(program, {Binding::of(arrays[array], Access::read_write)}, packed(first, second));
      points.push_back(submit(queue(array % device().queues().size()), one,
                              gated ? std::vector{closed.data()} : std::vector<Wait>()));
      uint32_t& value = expected[array];
      value = (value * first.multiplier + first.addend) * second.multiplier + second.addend;
    }
    closed.open();
    for (const Point& point : points) ASSERT_TRUE(reached(point));
  }
  for (size_t i = 0; i < kArrays; ++i) EXPECT_EQ(read(arrays[i]), Words(64, expected[i])) << i;
}

TEST_P(CtsVulkan, a_program_goes_with_replays_in_flight) {
  const auto data = uploaded(Words(64, 1), "data");
  auto steps = list("steps");
  increment(steps, data);
  auto program = device().create_program(steps).or_raise();
  const Gate closed = gate();
  Point last;
  for (int i = 0; i < 5; ++i) {
    auto one = replay(program, {});
    last = submit(queue(), one, {closed.data()});
  }
  program.reset();
  closed.open();
  ASSERT_TRUE(reached(last));
  EXPECT_EQ(read(data), Words(64, 6));
}

// Devices

TEST_P(CtsVulkan, two_devices_work_beside_each_other_and_one_outlives_the_other) {
  Ref<Device> other = open_another();
  const auto here = uploaded(Words(64, 1), "here");
  const auto kernel =
      other->create_pipeline({"increment", GetParam().module("increment", {}), 1, {}}).or_raise();
  auto there =
      Allocation::whole(other->create_buffer({{256}, MemoryKind::readback, "there"}).or_raise());
  const Gate closed = gate();
  std::vector<Point> points;
  for (int i = 0; i < 20; ++i) {
    auto work = list();
    increment(work, here);
    points.push_back(submit(queue(), work, {closed.data()}));
    CommandList beside(other->info(), "beside");
    const std::vector bindings{Binding::of(there, Access::read_write)};
    if (i == 0) {
      beside.fill(there, range(0, 256), std::byte{0});
    } else {
      beside.dispatch(kernel, bindings, {}, {1, 1, 1});
    }
    points.push_back(submit(other->queues()[0], beside, {closed.data()}));
  }
  closed.open();
  for (const Point& point : points) ASSERT_TRUE(reached(point));
  const auto* mapped = reinterpret_cast<const uint32_t*>(there->host_pointer());
  EXPECT_EQ(Words(mapped, mapped + 64), Words(64, 19));
  there.reset();
  other.reset();
  EXPECT_EQ(read(here), Words(64, 21));
}

TEST_P(CtsVulkan, a_lost_device_fails_everything_pending_with_the_cause) {
  if (GetParam().name.find("adversary") != std::string::npos) {
    GTEST_SKIP() << "what is pending is not the inner device's";
  }
  const Gate closed = gate();
  Imported data = imported(Words(64));
  Imported unlucky = imported(Words(64), "unlucky");
  std::vector<Point> points;
  for (const Ref<Queue>& each : device().queues()) {
    for (int i = 0; i < 2; ++i) {
      auto work = list();
      // Queues share nothing that is written.
      work.copy(data.allocation, range(0, 4), unlucky.allocation,
                range(8 * each->index() + 4 * static_cast<uint64_t>(i), 4));
      points.push_back(submit(each, work, {closed.data()}));
    }
  }
  data.allocation.reset();
  auto late = list("late");
  auto steps = list("steps");
  const Failure cause(ErrorCode::device_lost, "fell off the bus");
  vulkan().lose(cause);
  for (const Point& point : points) EXPECT_TRUE(failed_with(point, cause));
  EXPECT_EQ(device().lost(), cause);
  const auto refused = queue()->submit(late);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code(), ErrorCode::device_lost);
  EXPECT_EQ(late.ticket()->state(), TicketState::open);
  EXPECT_FALSE(device().create_buffer({{64}, MemoryKind::device, "late"}).ok());
  EXPECT_FALSE(device().create_pipeline({"late", GetParam().module("increment", {}), 1, {}}).ok());
  EXPECT_FALSE(device().create_program(steps).ok());
  Imported too_late;
  EXPECT_FALSE(device().import_buffer(external(Words(64), "too late", too_late)).ok());
  EXPECT_TRUE(too_late.deletions->reaches(1));
  EXPECT_EQ(data.deletions->value(), 0) << "nobody has retired";
  for (const Ref<Queue>& each : device().queues()) EXPECT_EQ(each->retire().size(), 2U);
  EXPECT_TRUE(data.deletions->reaches(1));
  EXPECT_TRUE(device().close(patience()).clean());
  EXPECT_EQ(unlucky.words[0], 0U) << "nothing of it ran";
}

TEST_P(CtsVulkan, lists_that_the_driver_has_finish_before_a_lost_device_fails_them) {
  if (GetParam().name.find("adversary") != std::string::npos) {
    GTEST_SKIP() << "what is pending is not the inner device's";
  }
  Imported data = imported(Words(1024));
  std::vector<Point> points;
  for (int i = 0; i < 20; ++i) {
    auto work = list();
    increment(work, data.allocation);
    points.push_back(submit(queue(), work));
  }
  vulkan().lose(Failure(ErrorCode::device_lost, "fell off the bus"));
  uint32_t reached_lists = 0;
  for (const Point& point : points) {
    ASSERT_TRUE(resolved(point));
    if (point.query() == PointState::reached) ++reached_lists;
  }
  // Once all are resolved nothing touches the memory any more.
  const Words now(data.words, data.words + 1024);
  EXPECT_EQ(now, Words(1024, now[0]));
  EXPECT_GE(now[0], reached_lists);
}

INSTANTIATE_TEST_SUITE_P(VulkanDevices, CtsVulkan, ::testing::ValuesIn(vulkan_devices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace holdfast::hal::cts
