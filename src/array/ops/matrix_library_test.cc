#include "holdfast/array/ops/matrix_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "holdfast/array/ops/numeric_test.h"
#include "holdfast/compile.h"
#include "holdfast/creation.h"
#include "holdfast/device.h"
#include "holdfast/eval.h"
#include "holdfast/hal/adversary/adversary_device.h"
#include "holdfast/hal/cuda/cublaslt_api.h"
#include "holdfast/hal/cuda/cuda_device.h"
#include "holdfast/hal/validate/validate_device.h"
#include "holdfast/ops.h"
#include "holdfast/stream.h"
#include "holdfast/testing/stub_cuda.h"
#include "holdfast/testing/variable.h"
#include "holdfast/views.h"

// matmul on a CUDA device over the stub driver, whose library computes: no kernel of ours can run
// there.

namespace holdfast {
namespace {

using numeric::array_of;
using numeric::values_of;
using ::testing::HasSubstr;

// Small whole numbers, whose products are exact in every dtype.
double number(int64_t at, int64_t salt) { return static_cast<double>((at * 7 + salt) % 5 - 2); }
Array numbers(const Shape& shape, int64_t salt, Dtype dtype) {
  std::vector<double> all;
  for (int64_t i = 0; i < elements(shape); ++i) all.push_back(number(i, salt));
  return array_of(all, shape, dtype);
}
// Left and right factors.
constexpr int64_t kLeft = 1;
constexpr int64_t kRight = 2;
Array left_of(const Shape& shape, Dtype dtype = float32) { return numbers(shape, kLeft, dtype); }
Array right_of(const Shape& shape, Dtype dtype = float32) { return numbers(shape, kRight, dtype); }

// What a view of numbers shows, stretched to a shape. Views are not read through the device, which
// would need a kernel.
std::vector<double> shown(const Array& view, const Shape& shape, int64_t salt) {
  const Layout layout = broadcast_to(view, shape).layout();
  std::vector<double> all;
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t n = elements(shape); n > 0; --n) {
    int64_t at = layout.offset;
    for (size_t i = 0; i < index.size(); ++i) at += index[i] * layout.strides[i];
    all.push_back(number(at, salt));
    for (size_t i = index.size(); i-- > 0;) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
  }
  return all;
}

class MatrixLibraryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = testing::why_no_stub_cuda(); !why.empty()) GTEST_SKIP() << why;
    stub().reset();
    before_ = default_device();
    use({.matmul = MatmulBy::library});
  }
  void TearDown() override {
    if (!before_) return;
    set_default_device(*before_);
    before_.reset();
    stub().fail_no_more();
  }
  static testing::StubControl& stub() { return testing::stub_cuda_control(); }

  static hal::CudaOptions stub_options() {
    hal::CudaOptions cuda;
    cuda.driver = testing::stub_cuda_path();
    cuda.queues = 2;
    cuda.matrix_library = testing::stub_cuda_path();
    return cuda;
  }
  static void use(const DeviceOptions& options, const hal::CudaOptions& cuda = stub_options()) {
    set_default_device(Device(hal::CudaDevice::open(cuda).or_raise(), options));
  }
  static uint64_t calls() { return stub().calls("cublasLtMatmul"); }

  // The product of views of left_of() and right_of() by the library, with this many calls and no
  // copy of an input, compared with the definition.
  static void expect_product(const Array& a, const Array& b, uint64_t in_calls = 1) {
    const uint64_t calls_before = calls();
    const uint64_t copies_before = stats().hidden_copies;
    const Array got = matmul(a, b);
    got.eval();
    EXPECT_EQ(calls() - calls_before, in_calls);
    EXPECT_EQ(stats().hidden_copies, copies_before);
    const Shape batch(got.shape().span().first(got.ndim() - 2));
    const int64_t rows = got.shape(-2);
    const int64_t columns = got.shape(-1);
    const int64_t depth = a.shape(-1);
    const auto stretched = [&](int64_t r, int64_t c) {
      Shape full = batch;
      full.push_back(r);
      full.push_back(c);
      return full;
    };
    const std::vector<double> left = shown(a, stretched(rows, depth), kLeft);
    const std::vector<double> right = shown(b, stretched(depth, columns), kRight);
    const std::vector<double> values = values_of(got);
    size_t at = 0;
    for (int64_t n = 0; n < elements(batch); ++n) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j, ++at) {
          double sum = 0;
          for (int64_t k = 0; k < depth; ++k) {
            sum += left[static_cast<size_t>((n * rows + i) * depth + k)] *
                   right[static_cast<size_t>((n * depth + k) * columns + j)];
          }
          ASSERT_EQ(values.at(at), sum) << "element " << at << " of " << to_string(got.shape());
        }
      }
    }
  }

 private:
  std::optional<Device> before_;
};

TEST_F(MatrixLibraryTest, compiled_functions_call_the_library_in_every_replay) {
  const auto f = compile(
      [](const Array& a, const Array& b, const Array& c) { return matmul(matmul(a, b), c); });
  const Array a = left_of({8, 8});
  const Array b = right_of({8, 16});
  const Array c = left_of({16, 8});
  const std::vector<double> expected = values_of(matmul(matmul(a, b), c));
  for (int round = 0; round < 3; ++round) {
    const uint64_t before = calls();
    EXPECT_EQ(values_of(f(a, b, c)), expected);
    EXPECT_EQ(calls() - before, 2U);
  }
  EXPECT_EQ(stats().replays, 3U);
  EXPECT_EQ(stats().calls_not_compiled, 0U);
}

TEST_F(MatrixLibraryTest, computes_every_floating_dtype) {
  for (const Dtype dtype : {float32, float16, bfloat16, float64}) {
    expect_product(left_of({6, 7}, dtype), right_of({7, 5}, dtype));
  }
}

TEST_F(MatrixLibraryTest, computes_transposed_views_without_a_copy) {
  const Array a = left_of({6, 7});
  const Array b = right_of({7, 5});
  const Array at = transpose(left_of({7, 6}));
  const Array bt = transpose(right_of({5, 7}));
  expect_product(at, b);
  expect_product(a, bt);
  expect_product(at, bt);
}

TEST_F(MatrixLibraryTest, computes_parts_of_matrices_without_a_copy) {
  // Rows with room between them, columns with room between them, and offsets of any alignment.
  for (const Dtype dtype : {float32, float16}) {
    const Array left = left_of({20, 30}, dtype);
    const Array right = right_of({20, 30}, dtype);
    const Array a = slice(left, {{.start = 3, .stop = 9}, {.start = 1, .stop = 8}});
    expect_product(a, slice(right, {{.start = 2, .stop = 9}, {.start = 5, .stop = 10}}));
    expect_product(a, transpose(slice(right, {{.start = 2, .stop = 7}, {.start = 5, .stop = 12}})));
  }
}

TEST_F(MatrixLibraryTest, computes_batches_and_stretched_batches) {
  expect_product(left_of({4, 6, 7}), right_of({4, 7, 5}));
  // One a for all b.
  expect_product(left_of({6, 7}), right_of({4, 7, 5}));
  // All a meet one b: they are one long matrix where they lie like one, a batch where not.
  expect_product(left_of({4, 6, 7}), right_of({7, 5}));
  expect_product(transpose(left_of({7, 4, 6}), {1, 2, 0}), right_of({7, 5}));
  // Each a meets each b: a call for each a.
  expect_product(left_of({2, 1, 6, 7}), right_of({1, 3, 7, 5}), 2);
  // Heads of attention: [batch, length, heads, depth] seen as [batch, heads, length, depth].
  const Array q = transpose(left_of({2, 6, 3, 8}), {0, 2, 1, 3});
  const Array k = transpose(right_of({2, 6, 3, 8}), {0, 2, 3, 1});
  expect_product(q, k, 2);
}

TEST_F(MatrixLibraryTest, computes_vectors) {
  EXPECT_EQ(values_of(matmul(left_of({3}), right_of({3}))).size(), 1);
  expect_product(left_of({1, 7}), right_of({7, 1}));
  expect_product(left_of({6, 1}), right_of({1, 5}));
}

TEST_F(MatrixLibraryTest, holds_a_workspace_of_its_own_for_long_sums) {
  // Long enough for the stub to want one; it reports others who touch it meanwhile.
  const Array a = left_of({6, 100});
  const Array b = right_of({100, 5});
  expect_product(a, b);
  std::vector<Array> all;
  const Stream other = default_device().new_stream("other");
  for (int i = 0; i < 20; ++i) {
    all.push_back(matmul(a, b));
    all.push_back(matmul(a, b, other));
  }
  eval(all);
  const std::vector<double> first = values_of(all[0]);
  for (const Array& one : all) EXPECT_EQ(values_of(one), first);
}

TEST_F(MatrixLibraryTest, a_chain_of_products_is_in_order) {
  // Powers of a permutation.
  const Array turn = array_of({0, 1, 0, 0, 0, 1, 1, 0, 0}, {3, 3}, float32);
  Array power = turn;
  for (int i = 0; i < 3; ++i) power = matmul(power, turn);
  EXPECT_EQ(values_of(power), values_of(turn));
}

TEST_F(MatrixLibraryTest, is_there_under_the_validator_and_the_adversary) {
  hal::CudaOptions immediate = stub_options();
  immediate.immediate = true;
  for (const bool hostile : {false, true}) {
    Ref<hal::Device> device =
        hal::CudaDevice::open(hostile ? immediate : stub_options()).or_raise();
    if (hostile) device = hal::AdversaryDevice::wrap(device, {.seed = 7});
    device = hal::ValidateDevice::wrap(std::move(device));
    set_default_device(Device(std::move(device), {.matmul = MatmulBy::library}));
    const Stream other = default_device().new_stream("other");
    // Scratch dies and is given out again.
    for (int i = 0; i < 5; ++i) {
      expect_product(left_of({6, 100}), transpose(right_of({5, 100})));
      const Array on_another = matmul(left_of({6, 100}), right_of({100, 6}), other);
      EXPECT_EQ(values_of(matmul(on_another, on_another)),
                values_of(matmul(on_another, on_another, other)));
    }
  }
}

TEST_F(MatrixLibraryTest, a_product_that_the_library_refuses_fails_its_array_alone) {
  const Array a = left_of({6, 7});
  const Array b = right_of({7, 5});
  eval(a, b);
  stub().fail("cublasLtMatmul", 1, hal::lt::CUBLAS_STATUS_EXECUTION_FAILED);
  const Array bad = matmul(a, b);
  try {
    (void)values_of(bad);
    FAIL() << "the product was computed";
  } catch (const ExecutionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'matmul'"));
    EXPECT_THAT(error.what(), HasSubstr("6 x 7 x 5 of float32"));
    EXPECT_THAT(error.what(), HasSubstr("CUBLAS_STATUS_EXECUTION_FAILED (13)"));
  }
  expect_product(a, b);
}

// Our own kernels cannot run on the stub, so asking for them fails; what counts is that the library
// was not asked.
TEST_F(MatrixLibraryTest, is_left_alone_where_our_own_kernel_is_wanted) {
  const auto expect_own = [](const Array& a, const Array& b) {
    EXPECT_THROW((void)values_of(matmul(a, b)), Error);
    EXPECT_EQ(calls(), 0);
  };
  {
    SCOPED_TRACE("switched off");
    use({.matmul = MatmulBy::own});
    expect_own(left_of({6, 7}), right_of({7, 5}));
    EXPECT_EQ(stub().calls("cublasLtCreate"), 0);
  }
  {
    SCOPED_TRACE("too small, so not even loaded");
    use({.matmul = std::nullopt});
    expect_own(left_of({6, 7}), right_of({7, 5}));
    EXPECT_EQ(stub().calls("cublasLtCreate"), 0);
  }
  {
    SCOPED_TRACE("no library");
    hal::CudaOptions without = stub_options();
    without.matrix_library = std::nullopt;
    use({.matmul = MatmulBy::library}, without);
    expect_own(left_of({6, 7}), right_of({7, 5}));
  }
  {
    SCOPED_TRACE("a library that does not start");
    stub().fail("cublasLtCreate", 1, hal::lt::CUBLAS_STATUS_NOT_INITIALIZED);
    use({.matmul = MatmulBy::library});
    expect_own(left_of({6, 7}), right_of({7, 5}));
  }
  {
    SCOPED_TRACE("a product that the library does not take");
    use({.matmul = MatmulBy::library});
    stub().fail("cublasLtMatmulAlgoGetHeuristic", 1, hal::lt::CUBLAS_STATUS_NOT_SUPPORTED, 10);
    expect_own(left_of({6, 7}), right_of({7, 5}));
    stub().fail_no_more();
  }
  {
    SCOPED_TRACE("two dtypes");
    use({.matmul = MatmulBy::library});
    expect_own(left_of({6, 7}, float16), right_of({7, 5}, float32));
  }
}

TEST_F(MatrixLibraryTest, large_products_are_its_own_unless_told_otherwise) {
  use({.matmul = std::nullopt});
  // 2^25 multiplications; of ones, which the stub adds up quickly enough.
  const Array a = array_of(std::vector<double>(size_t{1} << 13, 1.0), {16, 512}, float32);
  const Array b = array_of(std::vector<double>(size_t{1} << 21, 1.0), {512, 4096}, float32);
  const Array got = matmul(a, b);
  got.eval();
  EXPECT_EQ(calls(), 1);
  const std::vector<double> values = values_of(got);
  EXPECT_EQ(values, std::vector<double>(values.size(), 512.0));
}

TEST(MatmulBy, is_read_from_the_environment) {
  {
    const testing::Variable unset("HOLDFAST_MATMUL", nullptr);
    EXPECT_EQ(DeviceOptions().matmul, std::nullopt);
  }
  {
    const testing::Variable own("HOLDFAST_MATMUL", "Own");
    EXPECT_EQ(DeviceOptions().matmul, MatmulBy::own);
  }
  {
    const testing::Variable library("HOLDFAST_MATMUL", "library");
    EXPECT_EQ(DeviceOptions().matmul, MatmulBy::library);
  }
  const testing::Variable wrong("HOLDFAST_MATMUL", "yes");
  EXPECT_THAT([] { (void)DeviceOptions(); },
              ::testing::ThrowsMessage<EnvironmentError>(
                  HasSubstr("HOLDFAST_MATMUL holds 'yes'; it may hold own or library")));
}

}  // namespace
}  // namespace holdfast
