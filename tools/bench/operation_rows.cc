#include "operation_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <regex>

#include "holdfast/base/sync/clock.h"
#include "holdfast/creation.h"
#include "holdfast/device.h"
#include "holdfast/eval.h"
#include "holdfast/hal/device.h"
#include "holdfast/ops.h"
#include "holdfast/runtime/context.h"
#include "holdfast/views.h"

namespace holdfast::bench {
namespace {

// Builds the arrays of one evaluation; called again for each.
using Build = std::function<std::vector<Array>()>;

struct Prepared {
  Build build;
  double bytes = 0;  // read and written at least, by one evaluation
  double flops = 0;  // instead, where arithmetic is what limits it
  double count = 1;  // operations of one evaluation
};

struct Case {
  std::string operation;
  Dtype dtype;
  Shape shape;
  std::function<Prepared(const Case&, const Device&)> prepare;

  std::string family() const {
    return fmt::format("operation/{}/{}", operation, kernel::to_string(dtype));
  }
  std::string name() const {
    return fmt::format("{}/{}", family(), fmt::join(shape.begin(), shape.end(), "x"));
  }
};

double bytes_of(const Array& array) { return static_cast<double>(array.nbytes().value); }

// Uniform numbers in a dtype that random numbers may not have.
Array numbers(const Shape& shape, Dtype dtype, const Device& device, uint64_t key = 1) {
  Array made = random_uniform(shape, float32, RandomKey{key}, device);
  if (dtype == bool_) {
    made = made < 0.5F;
  } else if (dtype != float32) {
    made = astype(made, dtype);
  }
  return eval(made), made;
}

// Positions in a random order that is the same on every run.
Array shuffled(int64_t count, int64_t below, const Device& device) {
  std::vector<int32_t> positions(static_cast<size_t>(below));
  std::iota(positions.begin(), positions.end(), 0);
  std::shuffle(positions.begin(), positions.end(), std::mt19937(1));
  positions.resize(static_cast<size_t>(count));
  return Array(positions, {count}, {}, device);
}

// An operation of one array of the case's shape, which moves it and its result.
auto unary(std::function<Array(const Array&)> of) {
  return [of = std::move(of)](const Case& c, const Device& device) {
    const Array a = numbers(c.shape, c.dtype, device);
    const Array result = of(a);
    return Prepared{[=] { return std::vector{of(a)}; }, bytes_of(a) + bytes_of(result)};
  };
}

// Of one array, which is read twice.
auto with_itself(std::function<Array(const Array&)> of) {
  return [of = std::move(of)](const Case& c, const Device& device) {
    const Array a = numbers(c.shape, c.dtype, device);
    return Prepared{[=] { return std::vector{of(a)}; }, 3 * bytes_of(a)};
  };
}

Prepared add_two(const Case& c, const Device& device) {
  const Array a = numbers(c.shape, c.dtype, device);
  const Array b = numbers(c.shape, c.dtype, device, 2);
  return {[=] { return std::vector{a + b}; }, 3 * bytes_of(a)};
}

// A row or a column added to all.
Prepared add_broadcast(const Case& c, const Device& device, const Shape& other) {
  const Array a = numbers(c.shape, c.dtype, device);
  const Array b = numbers(other, c.dtype, device, 2);
  return {[=] { return std::vector{a + b}; }, 2 * bytes_of(a) + bytes_of(b)};
}
Prepared add_row(const Case& c, const Device& device) {
  return add_broadcast(c, device, {c.shape[1]});
}
Prepared add_column(const Case& c, const Device& device) {
  return add_broadcast(c, device, {c.shape[0], 1});
}

Prepared choose(const Case& c, const Device& device) {
  const Array condition = numbers(c.shape, bool_, device, 3);
  const Array a = numbers(c.shape, c.dtype, device);
  const Array b = numbers(c.shape, c.dtype, device, 2);
  return {[=] { return std::vector{where(condition, a, b)}; },
          bytes_of(condition) + 3 * bytes_of(a)};
}

Prepared join(const Case& c, const Device& device, int64_t axis) {
  const Array a = numbers(c.shape, c.dtype, device);
  const Array b = numbers(c.shape, c.dtype, device, 2);
  return {[=] { return std::vector{concatenate({a, b}, axis)}; }, 4 * bytes_of(a)};
}

// Half of the rows, or of the elements of one axis, in random order.
Prepared take_half(const Case& c, const Device& device) {
  const Array a = numbers(c.shape, c.dtype, device);
  const Array positions = shuffled(c.shape[0] / 2, c.shape[0], device);
  return {[=] { return std::vector{take(a, positions, 0)}; }, bytes_of(a) + bytes_of(positions)};
}

// Half of the rows are updated, each once.
Prepared update_half(const Case& c, const Device& device, Update how) {
  auto a = std::make_shared<Array>(numbers(c.shape, c.dtype, device));
  const Array positions = shuffled(c.shape[0] / 2, c.shape[0], device);
  const Array updates = numbers({c.shape[0] / 2, c.shape[1]}, c.dtype, device, 2);
  return {[=] {
            *a = scatter(std::move(*a), positions, updates, 0, how);
            return std::vector{*a};
          },
          (how == Update::set ? 2 : 3) * bytes_of(updates) + bytes_of(positions)};
}

// Rows, columns of the result, inner length.
Prepared multiply_matrices(const Case& c, const Device& device) {
  const Array a = numbers({c.shape[0], c.shape[2]}, c.dtype, device);
  const Array b = numbers({c.shape[2], c.shape[1]}, c.dtype, device, 2);
  const auto n = static_cast<double>(c.shape[0] * c.shape[1] * c.shape[2]);
  return {[=] { return std::vector{matmul(a, b)}; }, 0, 2 * n};
}

// The same for 4-bit weights: several of them in turn, so that no cache has what comes next.
Prepared multiply_quantized(const Case& c, const Device& device) {
  const Array x = numbers({c.shape[0], c.shape[2]}, c.dtype, device);
  const int64_t weights_bytes = c.shape[1] * c.shape[2] / 2;
  const int64_t count = std::clamp<int64_t>((int64_t{256} << 20) / weights_bytes, 2, 16);
  std::vector<std::vector<Array>> weights;
  double bytes = 0;
  for (int64_t i = 0; i < count; ++i) {
    weights.push_back(
        quantize(numbers({c.shape[1], c.shape[2]}, c.dtype, device, static_cast<uint64_t>(i) + 2)));
    for (const Array& part : weights.back()) {
      eval(part);
      bytes += bytes_of(part);
    }
    bytes += bytes_of(x) + static_cast<double>(c.shape[0] * c.shape[1]) *
                               static_cast<double>(size_of(c.dtype).value);
  }
  return {[=] {
            std::vector<Array> results;
            for (const auto& w : weights) {
              results.push_back(quantized_matmul(x, w[0], w[1], w[2]));
            }
            return results;
          },
          bytes, 0, static_cast<double>(count)};
}

// Shapes for a GPU with gigabytes a millisecond; each length is cut by `smaller` elsewhere.
std::vector<Case> cases(int64_t smaller) {
  const auto long_of = [&](int64_t n) {
    return std::max<int64_t>(n / smaller, std::min<int64_t>(n, 64));
  };
  constexpr int64_t kMany = int64_t{1} << 20;
  std::vector<Case> all;
  const auto add = [&](const char* operation, Dtype dtype, int64_t rows, int64_t columns,
                       std::function<Prepared(const Case&, const Device&)> prepare) {
    all.push_back({operation, dtype, {long_of(rows), long_of(columns)}, std::move(prepare)});
  };
  const auto rows_of = [](auto reduce) {
    return unary([=](const Array& a) { return reduce(a, Reduce{{1}}); });
  };
  const auto sum_of = [](const Array& a, const Reduce& how) { return sum(a, how); };
  const auto max_of = [](const Array& a, const Reduce& how) { return max(a, how); };

  for (const Dtype dtype : {float32, float16}) {
    const int64_t rows = dtype == float32 ? 8192 : 16384;
    add("add", dtype, rows, 8192, add_two);
    add("multiply_scalar", dtype, rows, 8192, unary([](const Array& a) { return a * 1.5F; }));
    add("exp", dtype, rows, 8192, unary([](const Array& a) { return exp(a); }));
    add("add_row", dtype, rows, 8192, add_row);
    add("add_column", dtype, rows, 8192, add_column);
    add("transpose", dtype, rows, 8192,
        unary([](const Array& a) { return contiguous(transpose(a)); }));
    add("slice", dtype, rows, 8192, unary([](const Array& a) {
          return contiguous(slice(a, {{}, {.start = 64}}));
        }));
    add("slice_odd", dtype, rows, 8192, unary([](const Array& a) {
          return contiguous(slice(a, {{}, {.start = 1, .stop = -2}}));
        }));
    add("sum_all", dtype, 2 * rows, 8192, unary([](const Array& a) { return sum(a); }));
    add("sum_rows", dtype, 2 * rows, 8192, rows_of(sum_of));
    add("max_rows", dtype, 2 * rows, 8192, rows_of(max_of));
    add("softmax", dtype, rows, 8192, unary([](const Array& a) { return softmax(a); }));
    add("argmax_rows", dtype, 2 * rows, 8192, unary([](const Array& a) { return argmax(a, 1); }));
  }
  for (const int64_t side : {4096, 8192, 16384}) {
    add("add_transposed", float32, side, side,
        with_itself([](const Array& a) { return a + transpose(a); }));
  }
  // Far larger than a cache on a CPU, too, where lengths are a quarter of these.
  for (const Dtype dtype : {float32, float16, bfloat16}) {
    constexpr int64_t kSide = 16384;
    add("add", dtype, kSide, kSide, add_two);
    add("exp", dtype, kSide, kSide, unary([](const Array& a) { return exp(a); }));
    add("softmax", dtype, kSide, kSide, unary([](const Array& a) { return softmax(a); }));
  }
  add("add_transposed", float16, 16384, 16384,
      with_itself([](const Array& a) { return a + transpose(a); }));
  add("astype_float16", float32, 16384, 8192,
      unary([](const Array& a) { return astype(a, float16); }));
  add("where", float32, 8192, 8192, choose);
  add("max_all", float32, 16384, 8192, unary([](const Array& a) { return max(a); }));
  add("argmax_all", float32, 16384, 8192, unary([](const Array& a) { return argmax(a); }));
  // Many short rows and few long ones; some of lengths that no vector divides.
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>(8 * kMany, 16), {kMany, 128}, {2560, 50257}, {16, 8 * kMany}}) {
    add("sum_rows", float32, rows, columns, rows_of(sum_of));
    add("argmax_rows", float32, rows, columns, unary([](const Array& a) { return argmax(a, 1); }));
  }
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>(4 * kMany, 16),
                                      {kMany / 2, 128},
                                      {65536, 1024},
                                      {16384, 4096},
                                      {2048, 32768},
                                      {1280, 50257},
                                      {16, 4 * kMany}}) {
    add("softmax", float32, rows, columns, unary([](const Array& a) { return softmax(a); }));
  }
  add("softmax", float16, 2560, 50257, unary([](const Array& a) { return softmax(a); }));
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>(16384, 8192), {128, kMany}, {8 * kMany, 16}}) {
    add("sum_columns", float32, rows, columns, unary([](const Array& a) { return sum(a, {{0}}); }));
  }
  add("softmax_columns", float32, 8192, 8192, unary([](const Array& a) { return softmax(a, 0); }));
  add("take_rows", float32, kMany, 256, take_half);
  add("take_rows", float16, kMany, 512, take_half);
  add("take", float32, 32 * kMany, 1, take_half);
  add("scatter_rows", float32, kMany, 256,
      [](const Case& c, const Device& d) { return update_half(c, d, Update::set); });
  add("scatter_add_rows", float32, kMany, 256,
      [](const Case& c, const Device& d) { return update_half(c, d, Update::add); });
  add("concatenate_rows", float32, 8192, 8192,
      [](const Case& c, const Device& d) { return join(c, d, 0); });
  add("concatenate_columns", float32, 8192, 8192,
      [](const Case& c, const Device& d) { return join(c, d, 1); });
  for (const int64_t rows : {1, 2, 4, 16}) {
    for (const int64_t side : {8192, 16384}) {
      all.push_back(
          {"quantized_matmul", float16, {rows, long_of(side), long_of(side)}, multiply_quantized});
    }
  }
  for (const int64_t n : {2048, 4004, 4096, 8192}) {
    const int64_t side = long_of(n);
    all.push_back({"matmul", float32, {side, side, side}, multiply_matrices});
  }
  const int64_t side = long_of(4096);
  all.push_back({"matmul", float16, {side, side, side}, multiply_matrices});
  return all;
}

// Seconds of one evaluation, of `times` that are submitted one after the other.
double timed(const Build& build, const Device& device, int times) {
  device.synchronize();
  const auto start = sync::now();
  for (int i = 0; i < times; ++i) {
    const std::vector<Array> arrays = build();
    async_eval(arrays);
  }
  device.synchronize();
  return std::chrono::duration<double>(sync::now() - start).count() / times;
}

// Evaluations of one measurement: enough for the host's share of it not to matter.
int times_of(const Build& build, const Device& device, double seconds) {
  timed(build, device, 1);  // compiles, and makes memory
  const double once = timed(build, device, 2);
  return static_cast<int>(std::clamp(seconds / once, 1.0, 2000.0));
}

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}
double spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const double half = (values[values.size() * 3 / 4] - values[values.size() / 4]) / 2;
  return half / values[values.size() / 2];
}

Row measure(const Case& c, const Device& device, bool brief) {
  const Prepared prepared = c.prepare(c, device);
  std::optional<Build> reference;
  if (prepared.flops == 0) {
    const auto half = std::max<int64_t>(static_cast<int64_t>(prepared.bytes / 8), 1);
    const Array a = numbers({half}, float32, device);
    reference = [=] { return std::vector{copy(a)}; };
  }
  const double seconds = brief ? 0.001 : 0.02;
  const int times = times_of(prepared.build, device, seconds);
  const int copies = reference ? times_of(*reference, device, seconds) : 0;
  std::vector<double> ours;
  std::vector<double> theirs;
  for (int round = 0; round < (brief ? 2 : 9); ++round) {
    ours.push_back(timed(prepared.build, device, times));
    if (reference) theirs.push_back(timed(*reference, device, copies));
  }
  Row row;
  row.name = c.name();
  row.unit = "ns";
  row.device = device.name();
  row.ours = middle(ours) * 1e9 / prepared.count;
  row.spread = spread(ours);
  if (!reference) {
    row.note = fmt::format("{:.2f} TFLOP/s", prepared.flops / middle(ours) / 1e12);
    return row;
  }
  row.reference = middle(theirs) * 1e9 / prepared.count;
  row.note =
      fmt::format("{:.1f} MiB, {:.1f} GB/s, {:.0f} % of a copy ({:.1f} GB/s)",
                  prepared.bytes / prepared.count / (1 << 20), prepared.bytes / middle(ours) / 1e9,
                  100 * middle(theirs) / middle(ours), prepared.bytes / middle(theirs) / 1e9);
  return row;
}

}  // namespace

void append_operation_rows(std::vector<Row>& rows, const std::string& filter, bool brief) {
  const std::regex wanted(filter);
  const auto is_wanted = [&](const Case& c) { return std::regex_search(c.family(), wanted); };
  const std::vector<Case> largest = cases(1);
  if (std::none_of(largest.begin(), largest.end(), is_wanted)) return;

  // Results are dropped faster than they are computed, on purpose: the host never waits.
  DeviceOptions options;
  options.runtime.deferred_limit = Bytes(uint64_t{1} << 40);
  const Device device = open_device(default_device().name(), options);
  const bool is_gpu = device.context()->device()->info().thread_style == ThreadStyle::many_weak;
  const bool live = isatty(STDERR_FILENO) != 0;
  for (const Case& c : cases(brief ? 64 : is_gpu ? 1 : 4)) {
    if (!is_wanted(c)) continue;
    if (live) fmt::print(stderr, "\r  {:<90}", c.name());
    rows.push_back(measure(c, device, brief));
    device.clear_cache();
    if (live) fmt::print(stderr, "\r{:<92}\r", "");
  }
}

}  // namespace holdfast::bench
