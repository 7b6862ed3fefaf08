// Compared with the toolkit's own header: what src/hal/cuda/cublaslt_api.h says of cuBLASLt's
// binary interface. It compiles, or it is wrong.

#include <cublasLt.h>

#include <cstddef>
#include <type_traits>

#include "holdfast/hal/cuda/cublaslt_api.h"

// NOLINTBEGIN(bugprone-sizeof-expression, bugprone-macro-parentheses): types and names
namespace {

namespace lt = holdfast::hal::lt;

// A parameter or result is passed alike: an enumeration and an int, two pointers.
template <typename A, typename B>
constexpr bool passed_alike() {
  return sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;
}
template <typename R, typename... A, typename S, typename... B>
constexpr bool called_alike(R (*)(A...), S (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B)) {
    return false;
  } else {
    return passed_alike<R, S>() && (passed_alike<A, B>() && ...);
  }
}

#define HOLDFAST_CHECK_CALL(name, result, parameters) \
  static_assert(called_alike(static_cast<decltype(&::name)>(nullptr), lt::Calls{}.name), #name);
HOLDFAST_CUBLASLT_CALLS(HOLDFAST_CHECK_CALL)

#define HOLDFAST_CHECK_VALUE(name) \
  static_assert(static_cast<int>(lt::name) == static_cast<int>(::name), #name);
HOLDFAST_CHECK_VALUE(CUBLAS_STATUS_SUCCESS)
HOLDFAST_CHECK_VALUE(CUBLAS_STATUS_NOT_INITIALIZED)
HOLDFAST_CHECK_VALUE(CUBLAS_STATUS_ALLOC_FAILED)
HOLDFAST_CHECK_VALUE(CUBLAS_STATUS_INVALID_VALUE)
HOLDFAST_CHECK_VALUE(CUBLAS_STATUS_EXECUTION_FAILED)
HOLDFAST_CHECK_VALUE(CUBLAS_STATUS_NOT_SUPPORTED)
HOLDFAST_CHECK_VALUE(CUDA_R_32F)
HOLDFAST_CHECK_VALUE(CUDA_R_64F)
HOLDFAST_CHECK_VALUE(CUDA_R_16F)
HOLDFAST_CHECK_VALUE(CUDA_R_16BF)
HOLDFAST_CHECK_VALUE(CUBLAS_COMPUTE_32F)
HOLDFAST_CHECK_VALUE(CUBLAS_COMPUTE_64F)
HOLDFAST_CHECK_VALUE(CUBLAS_OP_N)
HOLDFAST_CHECK_VALUE(CUBLAS_OP_T)
HOLDFAST_CHECK_VALUE(CUBLASLT_MATMUL_DESC_TRANSA)
HOLDFAST_CHECK_VALUE(CUBLASLT_MATMUL_DESC_TRANSB)
HOLDFAST_CHECK_VALUE(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
HOLDFAST_CHECK_VALUE(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
HOLDFAST_CHECK_VALUE(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
HOLDFAST_CHECK_VALUE(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
HOLDFAST_CHECK_VALUE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
HOLDFAST_CHECK_VALUE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
HOLDFAST_CHECK_VALUE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
HOLDFAST_CHECK_VALUE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
HOLDFAST_CHECK_VALUE(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)

static_assert(sizeof(lt::cublasLtMatmulAlgo_t) == sizeof(::cublasLtMatmulAlgo_t));
static_assert(sizeof(lt::cublasLtMatmulHeuristicResult_t) ==
              sizeof(::cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(lt::cublasLtMatmulHeuristicResult_t, workspaceSize) ==
              offsetof(::cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(lt::cublasLtMatmulHeuristicResult_t, state) ==
              offsetof(::cublasLtMatmulHeuristicResult_t, state));

}  // namespace
// NOLINTEND(bugprone-sizeof-expression, bugprone-macro-parentheses)
