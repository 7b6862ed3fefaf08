// An operation of one's own, outside of Holdfast: the variance of each row in two dispatches with
// scratch memory between them. What it binds is held until the device is done with it, scratch
// included; there is no way to bind anything else.

#include <holdfast/holdfast.h>

#include <array>
#include <cmath>
#include <cstdio>

namespace hf = holdfast;

class RowVariance final : public hf::Operation {
 public:
  std::string_view name() const noexcept override { return "row_variance"; }

  void record(hf::Encoder& encoder) const override {
    static const hf::Kernel means(
        {.name = "row_means", .inputs = {"x"}, .outputs = {"mean"}, .source = R"(
uint row = thread_position_in_grid.x;
float sum = 0.0f;
for (uint i = 0; i < columns; ++i) sum += x[row * columns + i];
mean[row] = sum / float(columns);
)"});
    static const hf::Kernel squares(
        {.name = "row_squares", .inputs = {"x", "mean"}, .outputs = {"y"}, .source = R"(
uint row = thread_position_in_grid.x;
float sum = 0.0f;
for (uint i = 0; i < columns; ++i) {
  float d = x[row * columns + i] - mean[row];
  sum += d * d;
}
y[row] = sum / float(columns);
)"});
    // Whatever layout the caller's array has, the kernels see rows.
    const hf::Operand x = encoder.contiguous(encoder.input(0));
    const auto rows = static_cast<uint32_t>(x.shape()[0]);
    const std::array columns{hf::Param{"columns", static_cast<uint32_t>(x.shape()[1])}};
    const std::array mean{encoder.scratch({x.shape()[0]}, hf::float32)};
    const std::array inputs{x, mean[0]};
    const std::array outputs{encoder.output(0)};
    encoder.launch(means, {.inputs = std::span(inputs).first(1),
                           .outputs = mean,
                           .grid = {rows, 1, 1},
                           .threadgroup = {64, 1, 1},
                           .params = columns});
    encoder.launch(squares, {.inputs = inputs,
                             .outputs = outputs,
                             .grid = {rows, 1, 1},
                             .threadgroup = {64, 1, 1},
                             .params = columns});
  }
};

// What users of the operation call: it checks, and says shape and dtype of the result.
hf::Array row_variance(const hf::Array& x) {
  if (x.ndim() != 2 || x.dtype() != hf::float32 || x.size() == 0) {
    throw hf::UsageError("row_variance takes a matrix of float32 with elements");
  }
  return hf::apply(hf::make_ref<const RowVariance>(), std::span(&x, 1),
                   hf::OutputType{{x.shape(0)}, hf::float32});
}

int main() {
  const hf::Array x = hf::random_normal({100, 1000}, hf::float32, hf::RandomKey{5});
  // Lazy like any other, on a view, inside a larger graph; nothing but the last array is kept.
  const hf::Array y = row_variance(hf::transpose(hf::transpose(x * 2.0F))) + 1.0F;
  double worst = 0;
  for (const float v : y.to_vector<float>()) worst = std::max(worst, std::abs(v - 5.0));
  std::printf("variance of 2 * normal, plus 1: within %.3f of 5\n", worst);
  // A sample of 1000 has a standard deviation of 4 * sqrt(2 / 1000) = 0.18; of 100 rows none is
  // five of them away.
  const bool right = worst < 0.9;
  std::printf("%s\n", right ? "ok" : "WRONG");
  return right ? 0 : 1;
}
