#include "holdfast/hal/cts/cts.h"
#include "holdfast/testing/effort.h"

// Dispatches: bindings, parameters, grids.

namespace holdfast::hal::cts {

namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

}  // namespace

TEST_P(Cts, parameters_up_to_four_kibibytes_arrive_whole) {
  for (const size_t size : {4U, 8U, 12U, 124U, 128U, 132U, 252U, 256U, 260U, 1024U, 4092U, 4096U}) {
    const ByteVector expected = pattern(size, static_cast<uint32_t>(size));
    const auto out = buffer({size}, "out");
    const auto kernel = make_pipeline("store_params", {size});
    auto work = list();
    const std::vector bindings{Binding::of(out, Access::write)};
    work.dispatch(kernel, bindings, Parameters(expected), {1, 1, 1});
    ASSERT_TRUE(reached(submit(queue(), work)));
    EXPECT_EQ(read_bytes(out), expected) << size << " bytes";
  }
}

TEST_P(Cts, parameters_of_odd_length_arrive_whole) {
  for (const size_t size : {1U, 2U, 3U, 5U, 127U, 129U, 4095U}) {
    const ByteVector expected = pattern(size, 50);
    const auto out = buffer({size}, "out");
    const auto kernel = make_pipeline("store_params", {size});
    auto work = list();
    const std::vector bindings{Binding::of(out, Access::write)};
    work.dispatch(kernel, bindings, Parameters(expected), {1, 1, 1});
    ASSERT_TRUE(reached(submit(queue(), work)));
    EXPECT_EQ(read_bytes(out), expected) << size << " bytes";
  }
}

TEST_P(Cts, every_dispatch_has_parameters_of_its_own) {
  constexpr uint64_t kDispatches = 64;
  constexpr uint64_t kBytes = kMaxParameterBytes.value;
  const auto out = buffer({kDispatches * kBytes}, "out");
  const auto kernel = make_pipeline("store_params", kMaxParameterBytes);
  const Gate closed = gate();
  ByteVector expected;
  // The same memory for all: what was recorded is a copy.
  ByteVector parameters;
  auto work = list();
  for (uint64_t i = 0; i < kDispatches; ++i) {
    parameters = pattern(kBytes, static_cast<uint32_t>(i * 77));
    expected.insert(expected.end(), parameters.begin(), parameters.end());
    const std::vector bindings{Binding::of(out, range(i * kBytes, kBytes), Access::write)};
    work.dispatch(kernel, bindings, Parameters(parameters), {1, 1, 1});
  }
  const Point point = submit(queue(), work, {closed.data()});
  std::ranges::fill(parameters, std::byte{0xdd});
  closed.open();
  EXPECT_TRUE(reached(point));
  EXPECT_TRUE(read_bytes(out) == expected);
}

TEST_P(Cts, parameters_over_the_limit_are_refused_by_name) {
  const Bytes too_many = kMaxParameterBytes + 1_B;
  const auto made = device().create_pipeline(
      {"greedy", GetParam().module("store_params", too_many), 1, too_many});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.failure().code(), ErrorCode::usage);
  EXPECT_THAT(made.failure().message(), HasSubstr("greedy"));
  EXPECT_THAT(made.failure().message(),
              AnyOf(HasSubstr(to_string(kMaxParameterBytes)), HasSubstr("4096")));

  const auto out = buffer({8_KiB}, "out");
  const auto kernel = make_pipeline("store_params", kMaxParameterBytes, "modest");
  const ByteVector parameters(kMaxParameterBytes.value + 1);
  auto work = list();
  const std::vector bindings{Binding::of(out, Access::write)};
  EXPECT_THAT(message_of_refusal([&] {
                work.dispatch(kernel, bindings, Parameters(parameters), {1, 1, 1}, "big one");
              }),
              AnyOf(HasSubstr("modest"), HasSubstr("big one")));
  EXPECT_TRUE(work.empty());
  EXPECT_EQ(work.holds().size(), 0U);
}

TEST_P(Cts, parameters_of_another_length_than_the_pipelines_are_refused_by_name) {
  const auto data = uploaded(Words(4), "data");
  auto work = list();
  const uint32_t too_short = 1;
  EXPECT_THAT(message_of_refusal([&] {
                dispatch(work, "affine", {Binding::of(data, Access::read_write)},
                         Parameters::of(too_short), {1, 1, 1});
              }),
              HasSubstr("affine"));
  EXPECT_THROW(dispatch(work, "increment", {Binding::of(data, Access::read_write)},
                        Parameters::of(too_short), {1, 1, 1}),
               UsageError);
  EXPECT_THROW(dispatch(work, "store", {Binding::of(data, Access::write)}, {}, {1, 1, 1}),
               UsageError);
  EXPECT_TRUE(work.empty());
}

TEST_P(Cts, a_dispatch_has_up_to_31_bindings) {
  constexpr size_t kElements = 130;
  std::vector<Binding> bindings;
  std::vector<Ref<Allocation>> inputs;
  Words expected(kElements);
  for (uint32_t k = 0; k < 30; ++k) {
    const Words content = counting(kElements, k * 1000);
    inputs.push_back(uploaded(content, "input " + std::to_string(k)));
    bindings.push_back(Binding::of(inputs.back(), Access::read));
    for (size_t i = 0; i < kElements; ++i) expected[i] += (k + 1) * content[i];
  }
  const auto out = words(kElements, "out");
  bindings.push_back(Binding::of(out, Access::write));
  auto work = list();
  dispatch(work, "sum31", bindings, {}, groups_for(kElements));
  EXPECT_EQ(work.holds().size(), 32U) << "31 allocations and the pipeline";
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(out), expected);
}

TEST_P(Cts, more_bindings_than_31_are_refused_by_name) {
  const auto made =
      device().create_pipeline({"octopus", GetParam().module("sum31", {}), kMaxBindings + 1, {}});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.failure().code(), ErrorCode::usage);
  EXPECT_THAT(made.failure().message(), AllOf(HasSubstr("octopus"), HasSubstr("31")));
}

TEST_P(Cts, another_number_of_bindings_than_the_pipelines_is_refused_by_name) {
  const auto data = uploaded(Words(4), "data");
  const Binding binding = Binding::of(data, Access::read_write);
  auto work = list();
  EXPECT_THAT(message_of_refusal([&] {
                dispatch(work, "increment", {}, {}, {1, 1, 1});
              }),
              HasSubstr("increment"));
  EXPECT_THROW(dispatch(work, "increment", {binding, binding}, {}, {1, 1, 1}), UsageError);
  EXPECT_THROW(dispatch(work, "sum31", std::vector(32, binding), {}, {1, 1, 1}), UsageError);
  EXPECT_TRUE(work.empty());
  EXPECT_EQ(work.holds().size(), 0U);
}

TEST_P(Cts, one_range_may_be_bound_twice_to_be_read) {
  const auto data = uploaded(counting(64), "data");
  const auto out = words(64, "out");
  std::vector<Binding> bindings(30, Binding::of(data, Access::read));
  bindings.push_back(Binding::of(out, Access::write));
  auto work = list();
  dispatch(work, "sum31", bindings, {}, groups_for(64));
  EXPECT_TRUE(reached(submit(queue(), work)));
  Words expected = counting(64);
  for (uint32_t& x : expected) x *= 30 * 31 / 2;
  EXPECT_EQ(read(out), expected);
}

TEST_P(Cts, a_kernel_sees_the_bound_range_and_no_more) {
  const uint64_t step = std::max<uint64_t>(device().info().buffer_alignment.value, 256);
  const uint64_t n = step / 4;
  const auto data = uploaded(Words(4 * n), "data");
  auto work = list();
  // More groups than the range has elements for: its end must hold them.
  dispatch(work, "increment", {Binding::of(data, range(step, step + 4), Access::read_write)}, {},
           groups_for(4 * n));
  EXPECT_TRUE(reached(submit(queue(), work)));
  Words expected(4 * n);
  std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(n), n + 1, 1);
  EXPECT_EQ(read(data), expected);
}

TEST_P(Cts, every_group_of_a_grid_runs_exactly_once) {
  for (const Groups grid :
       {Groups{1, 1, 1}, Groups{5, 3, 2}, Groups{1, 1, 70}, Groups{1, 70, 1},
        Groups{testing::shortened(20000U), 1, 1}, Groups{33, 31, testing::shortened(30U) - 1}}) {
    const auto out = uploaded(Words(3 * grid.count(), 0xffffffffU), "out");
    const auto counts = uploaded(Words(grid.count() * kGroupElements), "counts");
    auto work = list();
    dispatch(work, "write_group_ids", {Binding::of(out, Access::write)}, {}, grid);
    if (grid.y == 1 && grid.z == 1) {
      dispatch(work, "increment", {Binding::of(counts, Access::read_write)}, {}, grid);
    }
    ASSERT_TRUE(reached(submit(queue(), work)));
    Words expected;
    for (uint32_t z = 0; z < grid.z; ++z) {
      for (uint32_t y = 0; y < grid.y; ++y) {
        for (uint32_t x = 0; x < grid.x; ++x) expected.insert(expected.end(), {x, y, z});
      }
    }
    EXPECT_TRUE(read(out) == expected);
    if (grid.y == 1 && grid.z == 1) {
      EXPECT_TRUE(read(counts) == Words(grid.count() * kGroupElements, 1));
    }
  }
}

TEST_P(Cts, a_dispatch_without_groups_does_nothing_and_resolves) {
  const auto data = uploaded(Words(64, 5), "data");
  auto work = list();
  for (const Groups grid : {Groups{0, 1, 1}, Groups{1, 0, 1}, Groups{1, 1, 0}, Groups{0, 0, 0}}) {
    dispatch(work, "increment", {Binding::of(data, Access::read_write)}, {}, grid);
    work.barrier();
  }
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(data), Words(64, 5));
}

TEST_P(Cts, a_dispatch_without_groups_still_holds_its_place_among_the_others) {
  const auto data = uploaded(Words(64, 5), "data");
  auto work = list();
  affine(work, data, 2, 0);
  work.barrier();
  dispatch(work, "increment", {Binding::of(data, Access::read_write)}, {}, {0, 1, 1});
  work.barrier();
  affine(work, data, 1, 1);
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(data), Words(64, 11));
}

TEST_P(Cts, floating_point_kernels_compute) {
  constexpr uint32_t kElements = 1000;
  std::vector<float> x(kElements);
  std::vector<float> y(kElements);
  for (uint32_t i = 0; i < kElements; ++i) {
    x[i] = static_cast<float>(i);
    y[i] = static_cast<float>(2 * i);
  }
  const auto in = uploaded(std::as_bytes(std::span(x)), "x");
  const auto out = uploaded(std::as_bytes(std::span(y)), "y");
  auto work = list();
  dispatch(work, "axpy", {Binding::of(in, Access::read), Binding::of(out, Access::read_write)},
           Parameters::of(AxpyParameters{0.5F, kElements - 1}), groups_for(kElements));
  EXPECT_TRUE(reached(submit(queue(), work)));
  const ByteVector bytes = read_bytes(out);
  std::vector<float> result(kElements);
  std::memcpy(result.data(), bytes.data(), bytes.size());
  for (uint32_t i = 0; i + 1 < kElements; ++i) ASSERT_EQ(result[i], y[i] + 0.5F * x[i]) << i;
  EXPECT_EQ(result.back(), y.back()) << "n is a parameter, not the length of the range";
}

TEST_P(Cts, pipelines_of_one_name_run_their_own_code) {
  const auto one = make_pipeline("increment", {}, "same name");
  const auto two = make_pipeline("copy_u32", {}, "same name");
  EXPECT_NE(one->id(), two->id());
  const auto a = uploaded(Words(64, 10), "a");
  const auto b = words(64, "b");
  auto work = list();
  const std::vector in_place{Binding::of(a, Access::read_write)};
  work.dispatch(one, in_place, {}, groups_for(64));
  work.barrier();
  const std::vector from_to{Binding::of(a, Access::read), Binding::of(b, Access::write)};
  work.dispatch(two, from_to, {}, groups_for(64));
  EXPECT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(b), Words(64, 11));
}

TEST_P(Cts, one_pipeline_serves_all_queues_at_once) {
  std::vector<Ref<Allocation>> data;
  for (size_t i = 0; i < device().queues().size(); ++i)
    data.push_back(uploaded(Words(4096), "data"));
  const Gate closed = gate();
  std::vector<Point> points;
  for (uint32_t round = 0; round < 10; ++round) {
    for (uint32_t i = 0; i < data.size(); ++i) {
      auto work = list();
      affine(work, data[i], 3, i + round);
      points.push_back(submit(queue(i), work, {closed.data()}));
    }
  }
  closed.open();
  for (const Point& point : points) ASSERT_TRUE(reached(point));
  for (uint32_t i = 0; i < data.size(); ++i) {
    uint32_t expected = 0;
    for (uint32_t round = 0; round < 10; ++round) expected = expected * 3 + i + round;
    EXPECT_EQ(read(data[i]), Words(4096, expected));
  }
}

TEST_P(Cts, a_dispatch_sees_nothing_of_the_parameters_before_it) {
  // The last has the first word of the one before, and a zero where that has nothing.
  const std::vector<Words> each{{1, 5}, {1}, {1, 0}};
  const auto out = buffer({8}, "out");
  auto work = list();
  for (const Words& parameters : each) {
    const Bytes size{parameters.size() * sizeof(uint32_t)};
    const std::vector bindings{Binding::of(out, {{}, size}, Access::write)};
    work.dispatch(make_pipeline("store_params", size), bindings,
                  Parameters(std::as_bytes(std::span(parameters))), {1, 1, 1});
    work.barrier();
  }
  ASSERT_TRUE(reached(submit(queue(), work)));
  EXPECT_EQ(read(out), (Words{1, 0}));
}

TEST_P(Cts, parameters_that_grow_and_shrink_in_one_list_arrive_whole) {
  constexpr uint64_t kDispatches = 300;
  constexpr uint64_t kSlot = 256;  // every device's alignment
  const std::vector<uint64_t> sizes{1, 3, 4, 5, 7, 8, 12, 16, 20, 124, 127, 128, 132, 200};
  std::map<uint64_t, Ref<Pipeline>> kernels;
  for (const uint64_t size : sizes) kernels[size] = make_pipeline("store_params", {size});
  const auto out = uploaded(Words(kDispatches * kSlot / 4, 0), "out");
  ByteVector expected(kDispatches * kSlot);
  auto work = list();
  uint32_t random = 1;
  ByteVector last;
  for (uint64_t i = 0; i < kDispatches; ++i) {
    random = mix_element(random, 1);
    const uint64_t size = sizes[(random >> 16) % sizes.size()];
    // Mostly the ones before, cut or continued with zeros: what is left over from an earlier
    // dispatch then looks like what is wanted.
    ByteVector parameters(size);
    random = mix_element(random, 1);
    if (random % 4 != 0) std::copy_n(last.begin(), std::min(size, last.size()), parameters.begin());
    if (random % 4 < 2) parameters[(random >> 16) % size] = static_cast<std::byte>(random >> 30);
    last = parameters;
    std::ranges::copy(parameters, expected.begin() + static_cast<std::ptrdiff_t>(i * kSlot));
    const std::vector bindings{Binding::of(out, range(i * kSlot, size), Access::write)};
    work.dispatch(kernels[size], bindings, Parameters(parameters), {1, 1, 1});
  }
  ASSERT_TRUE(reached(submit(queue(), work)));
  EXPECT_TRUE(read_bytes(out) == expected);
}

}  // namespace holdfast::hal::cts
