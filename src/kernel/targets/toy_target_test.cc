// A target that follows the steps of CONTRIBUTING.md, for an imaginary device: its language has one
// statement, "y = a * 3", and its dispatches have four groups at most. Its modules are host
// functions, so the CPU device stands for the imaginary one.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <charconv>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "holdfast/base/rounding.h"
#include "holdfast/kernel/generate/usage.h"
#include "holdfast/kernel/scenarios/kernel_rig_test.h"
#include "holdfast/kernel/targets/target.h"

namespace holdfast::kernel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::World;

// Text: the statement, with nothing around it.
void write_toy(const Definition& definition, const CallSignature&, const GenerateOptions&,
               const Usage&, GeneratedKernel& kernel) {
  kernel.entry_point = "toy";
  kernel.text = definition.source;
}

struct Statement {
  char operation = 0;
  float number = 0;
};
std::optional<Statement> parsed(std::string_view text) {
  if (!text.starts_with("y = a ") || text.size() < 9) return std::nullopt;
  Statement statement{text[6], 0};
  if (statement.operation != '*' && statement.operation != '+') return std::nullopt;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + 8, end, statement.number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return statement;
}

class ToyTarget final : public Target {
 public:
  static constexpr uint32_t kMostGroups = 4;

  std::span<const NativeKind> natives() const noexcept override { return {}; }
  Result<GeneratedKernel> generate(const Definition& definition, const CallSignature& signature,
                                   const GenerateOptions& options) const override {
    return kernel::generate(definition, signature, options, write_toy);
  }
  Result<std::string> version() override { return std::string("toy 1"); }
  Result<Code> compile(const CompileJob& job) override {
    if (!parsed(job.code.text)) {
      return Failure(ErrorCode::usage,
                     fmt::format("kernel '{}' ({}): '{}' is no statement of the toy language",
                                 job.kernel, job.variant, job.code.text));
    }
    const auto bytes = std::as_bytes(std::span(job.code.text));
    return Code(bytes.begin(), bytes.end());
  }
  Result<Ref<hal::Pipeline>> load(hal::Device& device, const CompileJob& job,
                                  std::span<const std::byte> code) override {
    const std::string_view text(reinterpret_cast<const char*>(code.data()), code.size());
    const std::optional<Statement> found = parsed(text);
    if (!found) return Failure(ErrorCode::environment, "not the code of a toy");
    const auto run = [statement = *found](const hal::HostGroup& group) {
      const auto block = group.parameter<LaunchBlock>();
      const uint32_t first = (group.group.x + block.first_group[0]) * block.group[0];
      const uint32_t last = std::min(first + block.group[0], block.grid[0]);
      for (uint32_t i = first; i < last; ++i) {
        const float a = group.binding<float>(0)[i];
        if (a < 0) throw std::runtime_error("toys cannot be owed");
        group.binding<float>(1)[i] =
            statement.operation == '*' ? a * statement.number : a + statement.number;
      }
    };
    return device.create_pipeline({job.kernel, hal::HostFunction(run),
                                   static_cast<uint32_t>(job.code.interface.bindings.size()),
                                   job.code.interface.parameter_bytes});
  }
  Failure cut(const Interface&, const LaunchShape& shape, DispatchParts& parts) const override {
    if (shape.grid.y != 1 || shape.grid.z != 1) {
      return Failure(ErrorCode::unsupported, "toys have one dimension");
    }
    const uint32_t groups = ceil_div(shape.grid.x, shape.group.x);
    for (uint32_t first = 0; first < groups; first += kMostGroups) {
      parts.push_back({{std::min(kMostGroups, groups - first), 1, 1},
                       {{shape.grid.x, 1, 1}, {shape.group.x, 1, 1}, {first, 0, 0}, 1}});
    }
    return {};
  }
};

struct ToyTest : ::testing::Test {
  World world{World::Mode::validate, {}, testing::Family::cpu};
  KernelRig rig{world, {.target = std::make_shared<ToyTarget>(), .disk = nullptr}};
  Ref<runtime::Stream> stream = rig.stream("main");

  ~ToyTest() override { EXPECT_EQ(world.failure(), ""); }

  static Kernel kernel(std::string body) {
    return Kernel({.name = "toy", .inputs = {"a"}, .outputs = {"y"}, .source = std::move(body)});
  }
  void launch(const Kernel& kernel, const TestArray& a, const TestArray& y, Size3 grid) {
    const std::array in{a.ref()};
    const std::array out{y.ref()};
    rig.kernels.launch(*stream, kernel,
                       {.inputs = in, .outputs = out, .grid = grid, .threadgroup = {8, 1, 1}});
  }
  std::string refusal(const Kernel& kernel, Size3 grid = {4, 1, 1}) {
    const TestArray a = array_of(*stream, std::vector<float>(64, 1), "a");
    const TestArray y = empty_array(*stream, Dtype::float32, 64, "y");
    try {
      launch(kernel, a, y, grid);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  }
};

TEST_F(ToyTest, its_kernels_run_in_as_many_dispatches_as_it_cuts_a_grid_into) {
  for (const uint32_t length : {1U, 8U, 31U, 32U, 33U, 100U}) {
    std::vector<float> values(length);
    std::iota(values.begin(), values.end(), 0.0F);
    const TestArray a = array_of(*stream, values, "a");
    const TestArray y = empty_array(*stream, Dtype::float32, length, "y");
    const uint64_t before = rig.stats().commands;
    launch(kernel("y = a * 3"), a, y, {length, 1, 1});
    EXPECT_EQ(rig.stats().commands - before, ceil_div(ceil_div(length, 8U), 4U)) << length;
    for (float& v : values) v *= 3;
    EXPECT_EQ(values_of<float>(*stream, y), values) << length;
  }
}

TEST_F(ToyTest, what_one_part_left_bad_no_later_part_heals) {
  std::vector<float> values(100, 1);
  values[3] = -1;
  const TestArray a = array_of(*stream, values, "a");
  const TestArray y = empty_array(*stream, Dtype::float32, 100, "y");
  launch(kernel("y = a * 3"), a, y, {100, 1, 1});
  EXPECT_THAT([&] { (void)values_of<float>(*stream, y); },
              ::testing::ThrowsMessage<Error>(HasSubstr("toys cannot be owed")));
}

TEST_F(ToyTest, its_variants_are_cached_like_any_others) {
  const TestArray a = array_of(*stream, std::vector<float>(8, 1), "a");
  const TestArray y = empty_array(*stream, Dtype::float32, 8, "y");
  const Kernel plus = kernel("y = a + 1");
  for (int i = 0; i < 3; ++i) launch(plus, a, y, {8, 1, 1});
  EXPECT_EQ(rig.kernels.stats().compiles, 1U);
  EXPECT_EQ(values_of<float>(*stream, y), std::vector<float>(8, 2));
}

TEST_F(ToyTest, what_it_refuses_is_told_with_the_kernel) {
  EXPECT_THAT(refusal(kernel("y = sin(a)")),
              AllOf(HasSubstr("'toy'"), HasSubstr("no statement of the toy language")));
  EXPECT_THAT(refusal(kernel("y = a * 3"), {4, 2, 1}),
              AllOf(HasSubstr("'toy'"), HasSubstr("toys have one dimension")));
}

TEST_F(ToyTest, a_kernel_without_a_body_is_refused) {
  const Kernel native({.name = "native",
                       .inputs = {"a"},
                       .outputs = {"y"},
                       .natives = {{.kind = NativeKind::glsl, .text = "void main() {}"}}});
  EXPECT_THAT(refusal(native), HasSubstr("it has no body, and none of its natives is for this"));
}

}  // namespace
}  // namespace holdfast::kernel
