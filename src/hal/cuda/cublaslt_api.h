#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/hal/cuda/cuda_api.h"

// NVIDIA's cuBLASLt, as far as Holdfast calls it, by its own names: types and values are those of
// the library's binary interface, the same in CUDA 12 and 13. No header of a toolkit is needed;
// tests/cuda_abi compares with it where there is one.
namespace holdfast::hal::lt {

// NOLINTBEGIN(readability-identifier-naming,bugprone-macro-parentheses): the library's names.

using cublasStatus_t = int;
inline constexpr cublasStatus_t CUBLAS_STATUS_SUCCESS = 0;
inline constexpr cublasStatus_t CUBLAS_STATUS_NOT_INITIALIZED = 1;
inline constexpr cublasStatus_t CUBLAS_STATUS_ALLOC_FAILED = 3;
inline constexpr cublasStatus_t CUBLAS_STATUS_INVALID_VALUE = 7;
inline constexpr cublasStatus_t CUBLAS_STATUS_EXECUTION_FAILED = 13;
inline constexpr cublasStatus_t CUBLAS_STATUS_NOT_SUPPORTED = 15;

using cublasLtHandle_t = struct cublasLtContext*;
using cublasLtMatmulDesc_t = struct cublasLtMatmulDescOpaque*;
using cublasLtMatrixLayout_t = struct cublasLtMatrixLayoutOpaque*;
using cublasLtMatmulPreference_t = struct cublasLtMatmulPreferenceOpaque*;
using cudaStream_t = cu::CUstream;

// cudaDataType_t, cublasComputeType_t, cublasOperation_t.
inline constexpr int CUDA_R_32F = 0;
inline constexpr int CUDA_R_64F = 1;
inline constexpr int CUDA_R_16F = 2;
inline constexpr int CUDA_R_16BF = 14;
inline constexpr int CUBLAS_COMPUTE_32F = 68;
inline constexpr int CUBLAS_COMPUTE_64F = 70;
inline constexpr int CUBLAS_OP_N = 0;
inline constexpr int CUBLAS_OP_T = 1;

// Attributes.
inline constexpr int CUBLASLT_MATMUL_DESC_TRANSA = 3;
inline constexpr int CUBLASLT_MATMUL_DESC_TRANSB = 4;
inline constexpr int CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5;
inline constexpr int CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6;
inline constexpr int CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1;
inline constexpr int CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3;
inline constexpr int CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5;
inline constexpr int CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6;
inline constexpr int CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7;
inline constexpr int CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8;

// cublasLtReductionScheme_t: partial sums are kept in the type that is computed in.
inline constexpr uint32_t CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2;

struct cublasLtMatmulAlgo_t {
  uint64_t data[8] = {};
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize = 0;
  cublasStatus_t state = CUBLAS_STATUS_NOT_INITIALIZED;
  float wavesCount = 0;
  int reserved[4] = {};
};
static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96);

// X(name, result, parameters)
// clang-format off
#define HOLDFAST_CUBLASLT_CALLS(X)                                                                \
  X(cublasLtGetVersion, size_t, ())                                                               \
  X(cublasLtGetStatusName, const char*, (cublasStatus_t status))                                  \
  X(cublasLtCreate, cublasStatus_t, (cublasLtHandle_t* handle))                                   \
  X(cublasLtDestroy, cublasStatus_t, (cublasLtHandle_t handle))                                   \
  X(cublasLtMatmulDescCreate, cublasStatus_t,                                                     \
    (cublasLtMatmulDesc_t* desc, int compute_type, int scale_type))                               \
  X(cublasLtMatmulDescDestroy, cublasStatus_t, (cublasLtMatmulDesc_t desc))                       \
  X(cublasLtMatmulDescSetAttribute, cublasStatus_t,                                               \
    (cublasLtMatmulDesc_t desc, int attribute, const void* value, size_t bytes))                  \
  X(cublasLtMatrixLayoutCreate, cublasStatus_t,                                                   \
    (cublasLtMatrixLayout_t* layout, int type, uint64_t rows, uint64_t columns, int64_t pitch))   \
  X(cublasLtMatrixLayoutDestroy, cublasStatus_t, (cublasLtMatrixLayout_t layout))                 \
  X(cublasLtMatrixLayoutSetAttribute, cublasStatus_t,                                             \
    (cublasLtMatrixLayout_t layout, int attribute, const void* value, size_t bytes))              \
  X(cublasLtMatmulPreferenceCreate, cublasStatus_t, (cublasLtMatmulPreference_t* preference))     \
  X(cublasLtMatmulPreferenceDestroy, cublasStatus_t, (cublasLtMatmulPreference_t preference))     \
  X(cublasLtMatmulPreferenceSetAttribute, cublasStatus_t,                                         \
    (cublasLtMatmulPreference_t preference, int attribute, const void* value, size_t bytes))      \
  X(cublasLtMatmulAlgoGetHeuristic, cublasStatus_t,                                               \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,                \
     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,                \
     cublasLtMatmulPreference_t preference, int wanted,                                           \
     cublasLtMatmulHeuristicResult_t* results, int* found))                                       \
  X(cublasLtMatmul, cublasStatus_t,                                                               \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,        \
     cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,             \
     const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,                   \
     cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,     \
     size_t workspace_bytes, cudaStream_t stream))
// clang-format on

struct Calls {
#define HOLDFAST_CUBLASLT_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  HOLDFAST_CUBLASLT_CALLS(HOLDFAST_CUBLASLT_MEMBER)
#undef HOLDFAST_CUBLASLT_MEMBER
};

// NOLINTEND(readability-identifier-naming,bugprone-macro-parentheses)

}  // namespace holdfast::hal::lt

namespace holdfast::hal {

// cuBLASLt, found and loaded while the program runs; nothing is linked. Once loaded it stays for
// the rest of the process.
class CublasLtApi {
 public:
  // The library at this path; empty: the first of cublaslt_names() that loads. The same for equal
  // paths. ErrorCode::environment where there is none, or one that lacks a call, with what to
  // install.
  static Result<std::shared_ptr<const CublasLtApi>> load(const std::string& path,
                                                         int driver_version);

  // Every call of the library but its first is made inside a scope that has one. None is made any
  // more, and `false` says so, once the process has begun to end: the library's own exit handlers
  // run before ours.
  class Use {
   public:
    explicit Use(const CublasLtApi& api) noexcept;
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    explicit operator bool() const noexcept { return entered_; }

   private:
    const CublasLtApi& api_;
    bool entered_;
  };

  const lt::Calls& calls() const noexcept { return calls_; }
  const std::string& path() const noexcept { return path_; }
  // "cuBLASLt 13.0.2".
  std::string version() const;
  // "CUBLAS_STATUS_NOT_SUPPORTED (15)".
  std::string describe(lt::cublasStatus_t status) const;

 private:
  CublasLtApi();
  static void end_all() noexcept;
  void end() const noexcept;

  lt::Calls calls_;
  std::string path_;
  uint32_t generation_;                      // of the process that loaded it
  mutable std::atomic<uint32_t> inside_{0};  // twice the Uses, and one once the process ends
};

// Where cuBLASLt may be, best first: the folder in HOLDFAST_CUBLAS_DIR, the one in
// HOLDFAST_NVRTC_DIR, where the loader looks, $CUDA_HOME, $CUDA_PATH and /usr/local/cuda; in each
// the newest version that the driver serves.
std::vector<std::string> cublaslt_names(int driver_version);

}  // namespace holdfast::hal
