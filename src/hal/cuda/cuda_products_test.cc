#include "holdfast/hal/cuda/cuda_products.h"

#include <array>
#include <bit>
#include <cstring>

#include "holdfast/base/log.h"
#include "holdfast/base/sync/thread.h"
#include "holdfast/hal/cuda/cuda_resources.h"
#include "holdfast/hal/cuda/stub_gpu_test.h"
#include "holdfast/testing/variable.h"

// The products of cuBLASLt, on the stub driver and its library.

namespace holdfast::hal {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// What is noted of topic device while it lives.
class DeviceNotes {
 public:
  DeviceNotes() {
    logging::set_enabled(logging::Topic::device, true);
    before_ = logging::set_sink(
        [this](const logging::Message& message) { *said_.lock() += std::string(message.text); });
  }
  ~DeviceNotes() {
    logging::set_sink(before_);
    logging::set_enabled(logging::Topic::device, false);
  }
  std::string text() { return *said_.lock(); }

 private:
  sync::Guarded<std::string> said_;
  logging::Sink before_;
};

size_t bytes_of(MatrixElement element) {
  switch (element) {
    case MatrixElement::float32: return 4;
    case MatrixElement::float64: return 8;
    default: return 2;
  }
}

// Two-byte floats of numbers that they have exactly; float16 has no subnormal ones here.
uint16_t short_of(MatrixElement element, double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  if (element == MatrixElement::bfloat16 || value == 0) return static_cast<uint16_t>(bits >> 16);
  return static_cast<uint16_t>(((bits >> 16) & 0x8000U) |
                               (((bits >> 13) - (112U << 10)) & 0x7fffU));
}
double value_of(MatrixElement element, uint16_t bits) {
  const uint32_t wide = bits;
  if (element == MatrixElement::bfloat16 || (wide & 0x7fffU) == 0) {
    return std::bit_cast<float>(wide << 16);
  }
  return std::bit_cast<float>((wide & 0x8000U) << 16 | (((wide & 0x7fffU) + (112U << 10)) << 13));
}

void put(MatrixElement element, std::byte* to, double value) {
  const auto copy = [to](auto rounded) { std::memcpy(to, &rounded, sizeof(rounded)); };
  switch (element) {
    case MatrixElement::float32: return copy(static_cast<float>(value));
    case MatrixElement::float64: return copy(value);
    default: return copy(short_of(element, value));
  }
}

double get(MatrixElement element, const std::byte* from) {
  const auto as = [from](auto value) {
    std::memcpy(&value, from, sizeof(value));
    return value;
  };
  switch (element) {
    case MatrixElement::float32: return as(0.0F);
    case MatrixElement::float64: return as(0.0);
    default: return value_of(element, as(uint16_t{0}));
  }
}

// Small whole numbers: their products are exact in every type.
double element_of(int64_t at, int64_t salt) { return static_cast<double>((at * 7 + salt) % 5 - 2); }

class CudaProductsTest : public StubGpu {
 protected:
  static CudaOptions with_library(std::string path = testing::stub_cuda_path()) {
    CudaOptions chosen = options();
    chosen.matrix_library = std::move(path);
    return chosen;
  }
  void open_with_library() {
    open(with_library());
    ASSERT_NE(device().matrix_products(), nullptr);
  }

  // The elements of a matrix operand, and what one of them is.
  struct Side {
    MatrixLayout layout;
    int64_t rows;
    int64_t columns;
    int64_t place(int64_t row, int64_t column) const {
      return layout.transposed ? column * layout.pitch + row : row * layout.pitch + column;
    }
  };
  static Side a_of(const MatrixProduct& p) { return {p.a, p.rows, p.depth}; }
  static Side b_of(const MatrixProduct& p) { return {p.b, p.depth, p.columns}; }

  // Matrices one after another, as many elements as any axis of the batch reaches.
  static int64_t elements_of(const Side& side, const std::vector<MatrixBatch>& batch,
                             int64_t MatrixBatch::*stride) {
    int64_t last = side.place(side.rows - 1, side.columns - 1);
    for (const MatrixBatch& axis : batch) last += (axis.count - 1) * axis.*stride;
    return last + 1;
  }
  static StubWords filled(MatrixElement element, int64_t count, int64_t salt, size_t shift = 0) {
    const size_t size = bytes_of(element);
    StubWords words((shift + static_cast<size_t>(count) * size + 3) / 4);
    auto* const bytes = reinterpret_cast<std::byte*>(words.data()) + shift;
    for (int64_t i = 0; i < count; ++i) {
      put(element, bytes + static_cast<size_t>(i) * size, element_of(i, salt));
    }
    return words;
  }

  struct Bound {
    Ref<Allocation> a;
    Ref<Allocation> b;
    Ref<Allocation> c;
    Ref<Allocation> workspace;
    MatrixProducts::Way way;
    void record(CommandList& to) const {
      std::vector<Binding> bindings{Binding::of(a, Access::read), Binding::of(b, Access::read),
                                    Binding::of(c, Access::write)};
      if (workspace) bindings.push_back(Binding::of(workspace, Access::write));
      to.native(way.callback, bindings, "the product");
    }
  };
  static int64_t results_of(const MatrixProduct& p) {
    int64_t count = p.rows * p.columns;
    for (const MatrixBatch& axis : p.batch) count *= axis.count;
    return count;
  }
  Bound bind(const MatrixProduct& p) {
    Bound bound;
    bound.a = uploaded(filled(p.element, elements_of(a_of(p), p.batch, &MatrixBatch::a), 1), "a");
    bound.b = uploaded(filled(p.element, elements_of(b_of(p), p.batch, &MatrixBatch::b), 2), "b");
    bound.c = words((static_cast<size_t>(results_of(p)) * bytes_of(p.element) + 3) / 4, "c");
    auto way = device().matrix_products()->find(p);
    if (!way) throw UsageError("no way to compute it");
    bound.way = std::move(*way);
    if (bound.way.workspace > 0_B) {
      bound.workspace = words(bound.way.workspace.value / 4, "workspace");
    }
    return bound;
  }

  // What is there after the point, compared with the definition.
  void expect_right(const MatrixProduct& p, const Bound& bound, const Point& after) {
    const StubWords got = read(bound.c, after);
    const auto* const bytes = reinterpret_cast<const std::byte*>(got.data());
    std::vector<MatrixBatch> axes = p.batch;
    while (axes.size() < 2) axes.push_back({});
    const Side a = a_of(p);
    const Side b = b_of(p);
    for (int64_t x = 0; x < axes[0].count; ++x) {
      for (int64_t y = 0; y < axes[1].count; ++y) {
        for (int64_t i = 0; i < p.rows; ++i) {
          for (int64_t j = 0; j < p.columns; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < p.depth; ++k) {
              sum += element_of(x * axes[0].a + y * axes[1].a + a.place(i, k), 1) *
                     element_of(x * axes[0].b + y * axes[1].b + b.place(k, j), 2);
            }
            const int64_t at = x * axes[0].c + y * axes[1].c + i * p.columns + j;
            ASSERT_EQ(get(p.element, bytes + static_cast<size_t>(at) * bytes_of(p.element)), sum)
                << i << ", " << j << " of " << x << ", " << y;
          }
        }
      }
    }
  }
  void expect_computed(const MatrixProduct& p) {
    const Bound bound = bind(p);
    auto commands = list("product");
    bound.record(commands);
    const Point point = submit(commands);
    ASSERT_TRUE(stub_reached(point));
    expect_right(p, bound, point);
  }

  static MatrixProduct plain(MatrixElement element = MatrixElement::float32) {
    return {.element = element,
            .rows = 3,
            .columns = 5,
            .depth = 4,
            .a = {.pitch = 4},
            .b = {.pitch = 5}};
  }
};

TEST_F(CudaProductsTest, a_driver_that_was_named_comes_without_a_library) {
  open();
  EXPECT_EQ(device().matrix_products(), nullptr);
}

TEST_F(CudaProductsTest, there_are_none_where_the_library_is_missing) {
  DeviceNotes notes;
  open(with_library("/nowhere/libcublasLt.so.13"));
  EXPECT_EQ(device().matrix_products(), nullptr);
  EXPECT_EQ(device().matrix_products(), nullptr);
  EXPECT_THAT(notes.text(), HasSubstr("matrix products are our own: cuBLASLt was not found"));
  EXPECT_THAT(notes.text(), HasSubstr("HOLDFAST_CUBLAS_DIR"));
  EXPECT_THAT(notes.text(), HasSubstr("tried /nowhere/libcublasLt.so.13"));
}

TEST_F(CudaProductsTest, there_are_none_where_the_library_lacks_a_call) {
  DeviceNotes notes;
  open(with_library("libm.so.6"));
  EXPECT_EQ(device().matrix_products(), nullptr);
  EXPECT_THAT(notes.text(), HasSubstr("libm.so.6 lacks cublasLtGetVersion, "));
  EXPECT_THAT(notes.text(), HasSubstr(", cublasLtMatmul"));
}

TEST_F(CudaProductsTest, there_are_none_where_the_library_does_not_start) {
  DeviceNotes notes;
  open(with_library());
  stub().fail("cublasLtCreate", 1, lt::CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(device().matrix_products(), nullptr);
  EXPECT_THAT(notes.text(), HasSubstr("CUBLAS_STATUS_NOT_INITIALIZED (1)"));
}

TEST_F(CudaProductsTest, the_log_names_the_library) {
  DeviceNotes notes;
  open_with_library();
  EXPECT_THAT(notes.text(), HasSubstr("matrix products are those of cuBLASLt 12.8.0 ("));
}

TEST_F(CudaProductsTest, every_element_and_every_transposed_view_is_computed) {
  open_with_library();
  for (const MatrixElement element : {MatrixElement::float16, MatrixElement::bfloat16,
                                      MatrixElement::float32, MatrixElement::float64}) {
    for (const bool a : {false, true}) {
      for (const bool b : {false, true}) {
        MatrixProduct p = plain(element);
        // With room between rows or columns.
        p.a = {.transposed = a, .pitch = 7};
        p.b = {.transposed = b, .pitch = 6};
        ASSERT_NO_FATAL_FAILURE(expect_computed(p)) << a << b;
      }
    }
  }
}

TEST_F(CudaProductsTest, matrices_of_one_row_or_column_are_computed) {
  open_with_library();
  for (const int64_t rows : {1, 3}) {
    for (const int64_t columns : {1, 4}) {
      for (const int64_t depth : {1, 5}) {
        ASSERT_NO_FATAL_FAILURE(expect_computed({.rows = rows,
                                                 .columns = columns,
                                                 .depth = depth,
                                                 .a = {.pitch = depth},
                                                 .b = {.pitch = columns}}));
      }
    }
  }
}

TEST_F(CudaProductsTest, batches_of_any_axes_are_computed_with_as_few_calls_as_possible) {
  open_with_library();
  MatrixProduct p = plain();
  const auto calls = [&] {
    const uint64_t before = stub().calls("cublasLtMatmul");
    expect_computed(p);
    return stub().calls("cublasLtMatmul") - before;
  };
  p.batch = {{.count = 6, .a = 12, .b = 20, .c = 15}};
  EXPECT_EQ(calls(), 1);
  // The same b for all; the same a for all.
  p.batch = {{.count = 6, .a = 12, .b = 0, .c = 15}};
  EXPECT_EQ(calls(), 1);
  p.batch = {{.count = 6, .a = 0, .b = 20, .c = 15}};
  EXPECT_EQ(calls(), 1);
  // Each a with each b: the longer axis is the library's, wherever it stands.
  p.batch = {{.count = 2, .a = 12, .b = 0, .c = 45}, {.count = 3, .a = 0, .b = 20, .c = 15}};
  EXPECT_EQ(calls(), 2);
  p.batch = {{.count = 3, .a = 12, .b = 0, .c = 30}, {.count = 2, .a = 0, .b = 20, .c = 15}};
  EXPECT_EQ(calls(), 2);
}

TEST_F(CudaProductsTest, a_kernel_sees_the_product_of_what_the_kernel_before_it_wrote) {
  open_with_library();
  // 1 x 1: c = a * b, all powers of two. Adding one to the exponent doubles a float.
  const MatrixProduct p{.rows = 1, .columns = 1, .depth = 1, .a = {.pitch = 1}, .b = {.pitch = 1}};
  const auto one = std::bit_cast<uint32_t>(1.0F);
  constexpr uint32_t kTwice = uint32_t{1} << 23;
  const auto a = uploaded({one});
  const auto b = uploaded({one});
  const auto c = words(1);
  const auto way = device().matrix_products()->find(p);
  ASSERT_TRUE(way);
  auto commands = list("chain");
  affine(commands, a, 1, kTwice);
  commands.barrier();
  commands.native(way->callback,
                  std::array{Binding::of(a, Access::read), Binding::of(b, Access::read),
                             Binding::of(c, Access::write)},
                  "the product");
  commands.barrier();
  affine(commands, c, 1, kTwice);
  stub().hold();
  const Point point = submit(commands);
  // Nothing has run, and nobody has waited.
  EXPECT_TRUE(point.pending());
  EXPECT_EQ(stub().synchronising_calls(), 0);
  stub().release();
  ASSERT_TRUE(stub_reached(point));
  EXPECT_EQ(read(c, point), StubWords{std::bit_cast<uint32_t>(4.0F)});
}

TEST_F(CudaProductsTest, long_sums_have_a_workspace_which_products_of_other_queues_leave_alone) {
  open_with_library();
  MatrixProduct p = plain();
  p.depth = 80;
  p.a.pitch = 80;
  const Bound first = bind(p);
  const Bound second = bind(p);
  ASSERT_GT(first.way.workspace, 0_B);
  std::vector<Point> points;
  for (size_t i = 0; i < 20; ++i) {
    auto commands = list("product");
    (i % 2 == 0 ? first : second).record(commands);
    points.push_back(submit(commands, {}, i % 2));
  }
  for (const Point& point : points) ASSERT_TRUE(stub_reached(point));
  expect_right(p, first, points[18]);
  expect_right(p, second, points[19]);
}

TEST_F(CudaProductsTest, imported_memory_may_begin_anywhere) {
  open_with_library();
  MatrixProduct p = plain();
  p.depth = 80;
  p.a.pitch = 80;
  // Without the workspace that the product would have had in aligned memory.
  for (const bool with_workspace : {true, false}) {
    Bound bound = bind(p);
    const auto whole = uploaded(filled(p.element, 240, 1, 4), "others' memory");
    const auto* const buffer = dynamic_cast<const CudaBuffer*>(whole->buffer().get());
    ASSERT_NE(buffer, nullptr);
    const uint64_t address = buffer->address() + 4;
    bound.a = Allocation::whole(device()
                                    .import_buffer({.data = stub_cuda::pointer_of<void>(address),
                                                    .size = Bytes{240 * sizeof(float)},
                                                    .name = "a part of it",
                                                    .on_device = true})
                                    .or_raise());
    if (!with_workspace) bound.workspace = nullptr;
    auto commands = list("product");
    bound.record(commands);
    const Point point = submit(commands);
    ASSERT_TRUE(stub_reached(point));
    expect_right(p, bound, point);
  }
}

TEST_F(CudaProductsTest, a_product_that_the_library_does_not_take_is_left_to_others) {
  open_with_library();
  const MatrixProduct p = [] {
    MatrixProduct batched = plain();
    batched.batch = {{.count = 2, .a = 12, .b = 20, .c = 15}};
    return batched;
  }();
  for (const char* call :
       {"cublasLtMatmulDescCreate", "cublasLtMatmulDescSetAttribute", "cublasLtMatrixLayoutCreate",
        "cublasLtMatrixLayoutSetAttribute", "cublasLtMatmulPreferenceCreate",
        "cublasLtMatmulPreferenceSetAttribute", "cublasLtMatmulAlgoGetHeuristic"}) {
    DeviceNotes notes;
    stub().fail(call, 1, lt::CUBLAS_STATUS_NOT_SUPPORTED);
    EXPECT_FALSE(device().matrix_products()->find(p)) << call;
    EXPECT_THAT(notes.text(), HasSubstr("3 x 4 x 5 of float32, 2 times: "
                                        "CUBLAS_STATUS_NOT_SUPPORTED (15)"))
        << call;
    EXPECT_FALSE(stub().live().contains("cuBLASLt descriptor")) << call;
  }
  EXPECT_TRUE(device().matrix_products()->find(p));
}

TEST_F(CudaProductsTest, a_product_that_the_library_refuses_fails_its_list_and_no_other) {
  open_with_library();
  const MatrixProduct p = plain();
  const Bound bound = bind(p);
  stub().fail("cublasLtMatmul", 1, lt::CUBLAS_STATUS_EXECUTION_FAILED);
  auto commands = list("refused");
  bound.record(commands);
  const Point point = submit(commands);
  ASSERT_TRUE(stub_failed(point));
  const std::string said = point.failure().message();
  EXPECT_THAT(said, HasSubstr("labelled 'the product'"));
  EXPECT_THAT(said, HasSubstr("refused a matrix product, 3 x 4 x 5 of float32: "
                              "CUBLAS_STATUS_EXECUTION_FAILED (13)"));
  EXPECT_THAT(said, HasSubstr("HOLDFAST_MATMUL=own"));
  auto again = list("again");
  bound.record(again);
  const Point later = submit(again);
  ASSERT_TRUE(stub_reached(later));
  expect_right(p, bound, later);
}

TEST_F(CudaProductsTest, one_handle_serves_all_queues_and_threads_and_ends_with_the_device) {
  open(with_library());
  std::vector<MatrixProducts*> found(4);
  {
    std::vector<sync::Thread> threads;
    for (MatrixProducts*& one : found) {
      threads.emplace_back("asks", [this, &one] { one = device().matrix_products(); });
    }
    for (sync::Thread& thread : threads) thread.join();
  }
  for (MatrixProducts* one : found) EXPECT_EQ(one, found[0]);
  EXPECT_EQ(stub().live()["cuBLASLt handle"], 1);
  const MatrixProduct p = plain();
  std::optional<Bound> bound = bind(p);
  for (const size_t on : {size_t{0}, size_t{1}}) {
    auto commands = list("product");
    bound->record(commands);
    ASSERT_TRUE(stub_reached(submit(commands, {}, on)));
  }
  const Ref<CudaDevice> closed = device_ref();
  closed->close(stub_patience());
  EXPECT_FALSE(stub().live().contains("cuBLASLt handle"));
  EXPECT_FALSE(closed->matrix_products()->find(p));
  bound.reset();
  EXPECT_FALSE(stub().live().contains("cuBLASLt descriptor"));
}

TEST_F(CudaProductsTest, a_closed_device_has_none) {
  open(with_library());
  device().close(stub_patience());
  EXPECT_EQ(device().matrix_products(), nullptr);
  EXPECT_EQ(stub().calls("cublasLtCreate"), 0);
}

TEST_F(CudaProductsTest, a_lost_device_fails_its_products_and_ends_without_the_library) {
  open_with_library();
  const Bound bound = bind(plain());
  auto commands = list("after the end");
  bound.record(commands);
  stub().lose(0, cu::CUDA_ERROR_ILLEGAL_ADDRESS);
  const auto submitted = queue()->submit(commands);
  if (submitted) {
    EXPECT_TRUE(stub_failed(submitted.value()));
  } else {
    EXPECT_EQ(submitted.failure().code(), ErrorCode::device_lost);
  }
}

TEST(CublasLtNames, are_of_versions_that_the_driver_serves) {
  const holdfast::testing::Variable own("HOLDFAST_CUBLAS_DIR", "/my/blas");
  const holdfast::testing::Variable nvrtc("HOLDFAST_NVRTC_DIR", "/my/nvrtc");
  const holdfast::testing::Variable home("CUDA_HOME", nullptr);
  const holdfast::testing::Variable path("CUDA_PATH", nullptr);
  EXPECT_EQ(
      cublaslt_names(13000),
      (std::vector<std::string>{
          "/my/blas/libcublasLt.so.13", "/my/blas/libcublasLt.so.12", "/my/nvrtc/libcublasLt.so.13",
          "/my/nvrtc/libcublasLt.so.12", "libcublasLt.so.13", "libcublasLt.so.12",
          "/usr/local/cuda/lib64/libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.12"}));
  EXPECT_THAT(cublaslt_names(12040), Not(Contains(HasSubstr(".so.13"))));
  EXPECT_THAT(cublaslt_names(12040), Not(IsEmpty()));
}

}  // namespace
}  // namespace holdfast::hal
