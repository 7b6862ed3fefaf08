#pragma once

#include <memory>
#include <optional>
#include <string>

#include "holdfast/hal/cuda/cublaslt_api.h"
#include "holdfast/hal/cuda/cuda_core.h"
#include "holdfast/hal/matrix_products.h"

namespace holdfast::hal {

// Matrix products of cuBLASLt. One handle serves all queues: the stream, the workspace and the
// algorithm are arguments of each call, and the library lets threads share a handle that way. All
// that can be found out beforehand is when a product is recorded: submitting it makes one call for
// each matrix of the axes that the library does not take as one batch, and neither allocates device
// memory nor waits. (The driver may wait where it loads a kernel of the library for the first
// time.)
class CudaProducts final : public MatrixProducts,
                           public CudaObject,
                           public std::enable_shared_from_this<CudaProducts> {
 public:
  // `path`: see CublasLtApi::load. With the core in use.
  static Result<std::shared_ptr<CudaProducts>> open(const std::shared_ptr<CudaCore>& core,
                                                    const std::string& path);
  ~CudaProducts() override;

  std::optional<Way> find(const MatrixProduct& product) override;

  // "cuBLASLt 13.1.0 (/usr/local/cuda/lib64/libcublasLt.so.13)".
  std::string describe() const;

 private:
  class Plan;
  CudaProducts(const std::shared_ptr<CudaCore>& core, std::shared_ptr<const CublasLtApi> api);
  void destroy_native() noexcept override;
  void run(const Plan& plan, const NativeCall& call) const;

  std::shared_ptr<const CublasLtApi> api_;
  const lt::Calls& lt_;
  lt::cublasLtHandle_t handle_ = nullptr;
  uint64_t workspace_limit_ = 0;
};

}  // namespace holdfast::hal
