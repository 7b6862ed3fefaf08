#include <atomic>
#include <cstring>
#include <tuple>
#include <utility>

#include "holdfast/kernel/float16.h"
#include "holdfast/testing/stub_cuda/calls.h"
#include "holdfast/testing/stub_cuda/memory.h"
#include "holdfast/testing/stub_cuda/stream.h"

// cuBLASLt without a GPU: products in host memory, in the stream's turn. It reports what the
// library leaves undefined: a workspace that is missing, misaligned or used by others meanwhile,
// matrices that are less aligned than the algorithm was chosen for, a handle of another context.

// NOLINTBEGIN(readability-identifier-naming): the library's names.

namespace holdfast::stub_cuda {

using namespace hal::lt;

namespace {

struct Layout {
  int type = 0;
  uint64_t rows = 0;
  uint64_t columns = 0;
  int64_t pitch = 0;
  int32_t count = 1;
  int64_t stride = 0;
};
struct Desc {
  int compute = 0;
  int scale = 0;
  int transposed_a = CUBLAS_OP_N;
  int transposed_b = CUBLAS_OP_N;
};
struct Preference {
  uint64_t workspace = 0;
  uint32_t a = 256;
  uint32_t b = 256;
  uint32_t c = 256;
  uint32_t d = 256;
  uint32_t reductions = 7;
};
// What an algorithm holds.
struct Algorithm {
  uint64_t mark = kMark;
  uint64_t workspace = 0;
  uint64_t a = 0;
  uint64_t b = 0;
  uint64_t d = 0;
  static constexpr uint64_t kMark = 0x6c745f616c676f;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

// Sums of this many products and more are parted, for which partial sums are kept.
constexpr uint64_t kPartedDepth = 64;
constexpr uint64_t kPartedWorkspace = 4096;

size_t size_of(int type) {
  switch (type) {
    case CUDA_R_32F: return 4;
    case CUDA_R_64F: return 8;
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    default: return 0;
  }
}

double load(int type, const std::byte* from) {
  const auto as = [from](auto value) {
    std::memcpy(&value, from, sizeof(value));
    return value;
  };
  switch (type) {
    case CUDA_R_32F: return as(0.0F);
    case CUDA_R_64F: return as(0.0);
    case CUDA_R_16F: return static_cast<float>(as(kernel::Float16()));
    default: return static_cast<float>(as(kernel::BFloat16()));
  }
}

void store(int type, std::byte* to, double value) {
  const auto put = [to](auto rounded) { std::memcpy(to, &rounded, sizeof(rounded)); };
  switch (type) {
    case CUDA_R_32F: return put(static_cast<float>(value));
    case CUDA_R_64F: return put(value);
    case CUDA_R_16F: return put(kernel::Float16(static_cast<float>(value)));
    default: return put(kernel::BFloat16(static_cast<float>(value)));
  }
}

// Element (row, column) of matrix `at`, in the library's order: columns one after another.
size_t place(const Layout& layout, int32_t at, uint64_t row, uint64_t column) {
  const int64_t element =
      at * layout.stride + static_cast<int64_t>(column) * layout.pitch + static_cast<int64_t>(row);
  return static_cast<size_t>(element) * size_of(layout.type);
}

size_t bytes_of(const Layout& layout) {
  return place(layout, layout.count - 1, layout.rows - 1, layout.columns - 1) +
         size_of(layout.type);
}

struct Product {
  Desc desc;
  Layout a;
  Layout b;
  Layout d;
  uint64_t rows() const { return d.rows; }
  uint64_t columns() const { return d.columns; }
  uint64_t depth() const { return desc.transposed_a == CUBLAS_OP_T ? a.rows : a.columns; }
};

cublasStatus_t check(const Product& p) {
  const bool wide = p.d.type == CUDA_R_64F;
  const bool types = p.a.type == p.b.type && p.b.type == p.d.type && size_of(p.d.type) != 0 &&
                     p.desc.compute == (wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F) &&
                     p.desc.scale == (wide ? CUDA_R_64F : CUDA_R_32F);
  if (!types) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const Layout* layout : {&p.a, &p.b, &p.d}) {
    if (layout->rows == 0 || layout->columns == 0 || layout->count != p.d.count ||
        layout->pitch < static_cast<int64_t>(layout->rows)) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  if (p.d.count > 1 && p.d.stride < static_cast<int64_t>(p.d.columns) * p.d.pitch) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto turned = [](int operation, const Layout& layout) {
    return operation == CUBLAS_OP_T ? std::pair(layout.columns, layout.rows)
                                    : std::pair(layout.rows, layout.columns);
  };
  return turned(p.desc.transposed_a, p.a) == std::pair(p.rows(), p.depth()) &&
                 turned(p.desc.transposed_b, p.b) == std::pair(p.depth(), p.columns())
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_INVALID_VALUE;
}

void multiply(const Product& p, const std::byte* a, const std::byte* b, std::byte* d) {
  const auto value = [](const Layout& layout, const std::byte* first, int32_t at, int operation,
                        uint64_t row, uint64_t column) {
    if (operation == CUBLAS_OP_T) std::swap(row, column);
    return load(layout.type, first + place(layout, at, row, column));
  };
  for (int32_t at = 0; at < p.d.count; ++at) {
    for (uint64_t j = 0; j < p.columns(); ++j) {
      for (uint64_t i = 0; i < p.rows(); ++i) {
        double sum = 0;
        for (uint64_t k = 0; k < p.depth(); ++k) {
          sum += value(p.a, a, at, p.desc.transposed_a, i, k) *
                 value(p.b, b, at, p.desc.transposed_b, k, j);
        }
        store(p.d.type, d + place(p.d, at, i, j), sum);
      }
    }
  }
}

// A call after the driver's end, or that a test has planned to fail.
cublasStatus_t begin(const char* call) {
  {
    const Held held;
    if (held->has_shut_down) {
      violation(*held, "{} was called after the driver has shut down", call);
      return CUBLAS_STATUS_NOT_INITIALIZED;
    }
  }
  return planned_failure(call);
}

template <typename T, typename Handle>
cublasStatus_t make(const char* call, Handle* to, const T& value) {
  if (const cublasStatus_t planned = begin(call)) return planned;
  if (to == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *to = reinterpret_cast<Handle>(new T(value));  // NOLINT(cppcoreguidelines-owning-memory)
  ++Held()->blas_descriptors;
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T, typename Handle>
cublasStatus_t destroy(const char* call, Handle handle) {
  const cublasStatus_t planned = begin(call);
  delete reinterpret_cast<T*>(handle);  // NOLINT(cppcoreguidelines-owning-memory)
  --Held()->blas_descriptors;
  return planned;
}

template <typename T, typename Handle>
T& object(Handle handle) {
  return *reinterpret_cast<T*>(handle);
}

template <typename T>
cublasStatus_t set(T& to, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t enter_with(State& state, cublasLtHandle_t handle, const char* call,
                          std::shared_ptr<Blas>& blas) {
  std::shared_ptr<Context> context;
  if (enter(state, context) != CUDA_SUCCESS) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (find(state, state.blas, handle, call, blas) != CUDA_SUCCESS) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  if (blas->context == context) return CUBLAS_STATUS_SUCCESS;
  violation(state, "{} was given a handle of another context than the current one", call);
  return CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t check_use(State& state, const Algorithm& algorithm, uint64_t a, uint64_t b,
                         uint64_t d, uint64_t workspace, size_t workspace_bytes) {
  const std::tuple<const char*, uint64_t, uint64_t> all[] = {
      {"A", a, algorithm.a}, {"B", b, algorithm.b}, {"D", d, algorithm.d}};
  for (const auto& [matrix, address, alignment] : all) {
    if (address % alignment == 0) continue;
    violation(state, "cublasLtMatmul was given {} at {:#x}, with an algorithm for multiples of {}",
              matrix, address, alignment);
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (algorithm.workspace == 0) return CUBLAS_STATUS_SUCCESS;
  if (workspace_bytes < algorithm.workspace || workspace == 0 || workspace % 256 != 0) {
    violation(state, "cublasLtMatmul was given {} bytes of workspace at {:#x}, and needs {}",
              workspace_bytes, workspace, algorithm.workspace);
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

// Nobody else may use the workspace meanwhile: it is full of marks, and they stay.
class Marked {
 public:
  Marked(uint64_t address, uint64_t bytes)
      : words_(pointer_of<uint64_t>(address)), count_(bytes / sizeof(uint64_t)) {
    for (size_t i = 0; i < count_; ++i) std::atomic_ref(words_[i]).store(mark());
  }
  void check() const {
    for (size_t i = 0; i < count_; ++i) {
      if (std::atomic_ref(words_[i]).load() == mark()) continue;
      const Held held;
      violation(*held, "the workspace of a product was written to while it was computed");
      return;
    }
  }

 private:
  uint64_t mark() const { return reinterpret_cast<uint64_t>(this); }
  uint64_t* words_;
  size_t count_;
};

cublasStatus_t matmul(cublasLtHandle_t handle, const Product& product, uint64_t a, uint64_t b,
                      uint64_t d, const cublasLtMatmulAlgo_t* chosen, uint64_t workspace,
                      size_t workspace_bytes, CUstream stream) {
  constexpr const char* kCall = "cublasLtMatmul";
  const Held held;
  std::shared_ptr<Blas> blas;
  if (const cublasStatus_t status = enter_with(*held, handle, kCall, blas)) return status;
  if (const cublasStatus_t status = check(product)) return status;
  std::shared_ptr<Stream> on;
  if (find_stream(*held, stream, kCall, on) != CUDA_SUCCESS || on->context != blas->context) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  Algorithm algorithm;
  algorithm.mark = 0;
  if (chosen != nullptr) std::memcpy(&algorithm, chosen->data, sizeof(algorithm));
  if (algorithm.mark != Algorithm::kMark) return CUBLAS_STATUS_INVALID_VALUE;
  if (const cublasStatus_t status =
          check_use(*held, algorithm, a, b, d, workspace, workspace_bytes)) {
    return status;
  }
  auto operation = std::make_shared<Operation>();
  operation->what = kCall;
  const std::pair<uint64_t, size_t> used[] = {{a, bytes_of(product.a)},
                                              {b, bytes_of(product.b)},
                                              {d, bytes_of(product.d)},
                                              {workspace, algorithm.workspace}};
  for (const auto& [address, bytes] : used) {
    if (bytes > 0 && use(*held, *operation, address, bytes) != CUDA_SUCCESS) {
      violation(*held, "cublasLtMatmul would touch {} bytes at {:#x}, which are not all memory",
                bytes, address);
      return CUBLAS_STATUS_EXECUTION_FAILED;
    }
  }
  ++blas->users;
  operation->run = [=, bytes = algorithm.workspace] {
    const Marked marked(workspace, bytes);
    multiply(product, pointer_of<std::byte>(a), pointer_of<std::byte>(b), pointer_of<std::byte>(d));
    marked.check();
    return CUDA_SUCCESS;
  };
  operation->done = [blas] { --blas->users; };
  enqueue(*held, on, std::move(operation));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

#pragma GCC visibility push(default)

extern "C" size_t cublasLtGetVersion() { return 120800; }

extern "C" const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return nullptr;
  }
}

extern "C" cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (const cublasStatus_t planned = begin(__func__)) return planned;
  const Held held;
  auto blas = std::make_shared<Blas>();
  if (handle == nullptr || enter(*held, blas->context) != CUDA_SUCCESS) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  *handle = held->blas.add(std::move(blas));
  return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (const cublasStatus_t planned = begin(__func__)) return planned;
  const Held held;
  std::shared_ptr<Blas> blas;
  if (const cublasStatus_t status = enter_with(*held, handle, __func__, blas)) return status;
  if (blas->users > 0) violation(*held, "cublasLtDestroy while a product is in flight");
  count_if_synchronising(*held, *blas->context, __func__);
  held->blas.remove(handle);
  return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, int compute_type,
                                                   int scale_type) {
  return make(__func__, desc, Desc{compute_type, scale_type});
}
extern "C" cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return destroy<Desc>(__func__, desc);
}
extern "C" cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, int attribute,
                                                         const void* value, size_t bytes) {
  if (const cublasStatus_t planned = begin(__func__)) return planned;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(object<Desc>(desc).transposed_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(object<Desc>(desc).transposed_b, value, bytes);
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
}

extern "C" cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, int type,
                                                     uint64_t rows, uint64_t columns,
                                                     int64_t pitch) {
  return make(__func__, layout, Layout{type, rows, columns, pitch});
}
extern "C" cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy<Layout>(__func__, layout);
}
extern "C" cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                           int attribute, const void* value,
                                                           size_t bytes) {
  if (const cublasStatus_t planned = begin(__func__)) return planned;
  auto& to = object<Layout>(layout);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return set(to.count, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return set(to.stride, value, bytes);
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
}

extern "C" cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return make(__func__, preference, Preference());
}
extern "C" cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy<Preference>(__func__, preference);
}
extern "C" cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference, int attribute, const void* value, size_t bytes) {
  if (const cublasStatus_t planned = begin(__func__)) return planned;
  auto& to = object<Preference>(preference);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return set(to.workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return set(to.reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return set(to.a, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return set(to.b, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return set(to.c, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return set(to.d, value, bytes);
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
}

extern "C" cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t /*c*/, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t* results,
    int* found) {
  if (const cublasStatus_t planned = begin(__func__)) return planned;
  const Held held;
  std::shared_ptr<Blas> blas;
  if (const cublasStatus_t status = enter_with(*held, handle, __func__, blas)) return status;
  if (wanted < 1 || results == nullptr || found == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Product product{object<Desc>(desc), object<Layout>(a), object<Layout>(b),
                        object<Layout>(d)};
  if (const cublasStatus_t status = check(product)) return status;
  const auto& wishes = object<Preference>(preference);
  if (size_of(product.d.type) == 2 && wishes.reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) {
    violation(*held, "a product of two-byte elements may be summed up in two bytes");
  }
  Algorithm algorithm;
  if (product.depth() >= kPartedDepth && wishes.workspace >= kPartedWorkspace) {
    algorithm.workspace = kPartedWorkspace;
  }
  algorithm.a = wishes.a;
  algorithm.b = wishes.b;
  algorithm.d = wishes.d;
  *results = {};
  std::memcpy(results->algo.data, &algorithm, sizeof(algorithm));
  results->workspaceSize = algorithm.workspace;
  results->state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

extern "C" cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                         const void* alpha, const void* a,
                                         cublasLtMatrixLayout_t a_layout, const void* b,
                                         cublasLtMatrixLayout_t b_layout, const void* beta,
                                         const void* c, cublasLtMatrixLayout_t /*c_layout*/,
                                         void* d, cublasLtMatrixLayout_t d_layout,
                                         const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                                         size_t workspace_bytes, cudaStream_t stream) {
  if (const cublasStatus_t planned = begin(__func__)) return planned;
  const Product product{object<Desc>(desc), object<Layout>(a_layout), object<Layout>(b_layout),
                        object<Layout>(d_layout)};
  const auto scale = [&](const void* value) {
    return load(product.desc.scale, static_cast<const std::byte*>(value));
  };
  if (c != d || scale(alpha) != 1 || scale(beta) != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto address = [](const void* pointer) { return reinterpret_cast<uint64_t>(pointer); };
  return matmul(handle, product, address(a), address(b), address(d), algorithm, address(workspace),
                workspace_bytes, stream);
}

#pragma GCC visibility pop

}  // namespace holdfast::stub_cuda

// NOLINTEND(readability-identifier-naming)
