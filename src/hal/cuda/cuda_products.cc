#include "holdfast/hal/cuda/cuda_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "holdfast/base/leave_alive.h"
#include "holdfast/base/log.h"

namespace holdfast::hal {
namespace {

// What NVIDIA recommends as workspace (cublasSetWorkspace), for Hopper and newer GPUs and for
// others.
constexpr Bytes kWorkspace = 32_MiB;
constexpr Bytes kWorkspaceBeforeHopper = 4_MiB;
constexpr int kHopper = 9;

// More is not asked for.
constexpr uint64_t kBestAlignment = 256;

struct ElementTypes {
  int data;
  int compute;
  int scale;
  int64_t bytes;
};
// Products of float32 are computed as such, never as TF32.
ElementTypes types_of(MatrixElement element) {
  switch (element) {
    case MatrixElement::float16: return {lt::CUDA_R_16F, lt::CUBLAS_COMPUTE_32F, lt::CUDA_R_32F, 2};
    case MatrixElement::bfloat16:
      return {lt::CUDA_R_16BF, lt::CUBLAS_COMPUTE_32F, lt::CUDA_R_32F, 2};
    case MatrixElement::float32: return {lt::CUDA_R_32F, lt::CUBLAS_COMPUTE_32F, lt::CUDA_R_32F, 4};
    case MatrixElement::float64: return {lt::CUDA_R_64F, lt::CUBLAS_COMPUTE_64F, lt::CUDA_R_64F, 8};
  }
  return {};
}

const char* name_of(MatrixElement element) {
  switch (element) {
    case MatrixElement::float16: return "float16";
    case MatrixElement::bfloat16: return "bfloat16";
    case MatrixElement::float32: return "float32";
    case MatrixElement::float64: return "float64";
  }
  return "";
}

// "512 x 64 x 128 of float16, 8 times".
std::string describe(const MatrixProduct& product) {
  int64_t count = 1;
  for (const MatrixBatch& axis : product.batch) count *= axis.count;
  return fmt::format("{} x {} x {} of {}{}", product.rows, product.depth, product.columns,
                     name_of(product.element), count > 1 ? fmt::format(", {} times", count) : "");
}

// The largest power of two, up to the best, that all of them are multiples of.
uint64_t common_alignment(std::initializer_list<uint64_t> values) {
  uint64_t bits = kBestAlignment;
  for (const uint64_t value : values) bits |= value;
  return bits & (~bits + 1);
}

// A descriptor of the library's: host memory, which it may outlive.
template <typename Handle>
class Owned {
 public:
  using Destroy = lt::cublasStatus_t (*)(Handle);
  Owned(const CublasLtApi& api, Destroy destroy) : api_(api), destroy_(destroy) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (handle_ == nullptr) return;
    const CublasLtApi::Use use(api_);
    if (use) {
      (void)destroy_(handle_);
    } else {
      leave_alive(std::make_shared<Handle>(handle_));
    }
  }
  Handle get() const noexcept { return handle_; }
  // For the call that makes it.
  Handle* place() noexcept { return &handle_; }

 private:
  const CublasLtApi& api_;
  Destroy destroy_;
  Handle handle_ = nullptr;
};

}  // namespace

// A product in the library's terms. The library's matrices have columns one after another, so it
// computes the transposed product, c' = b' a': what lies in memory as rows of c are its columns.
// Descriptors are host memory alone. Immutable once made.
class CudaProducts::Plan {
 public:
  Plan(const CublasLtApi& api, MatrixProduct product)
      : api_(api), lt_(api.calls()), text_(hal::describe(product)), product_(std::move(product)) {
    // The longest axis is a batch of the library; the others are walked through.
    auto& axes = product_.batch;
    std::erase_if(axes, [](const MatrixBatch& axis) { return axis.count == 1; });
    const auto longest = std::ranges::max_element(axes, {}, &MatrixBatch::count);
    if (longest != axes.end()) {
      batch_ = *longest;
      axes.erase(longest);
    }
    const int64_t bytes = types_of(product_.element).bytes;
    for (MatrixBatch& axis : axes) {
      axis.a *= bytes;
      axis.b *= bytes;
      axis.c *= bytes;
    }
  }

  const std::string& describe() const noexcept { return text_; }
  uint64_t workspace() const noexcept { return chosen_.workspaceSize; }

  lt::cublasStatus_t make(lt::cublasLtHandle_t handle, uint64_t workspace_limit) {
    const ElementTypes types = types_of(product_.element);
    const auto& [rows, columns, depth] = std::tie(product_.rows, product_.columns, product_.depth);
    if (batch_.count > std::numeric_limits<int32_t>::max()) return lt::CUBLAS_STATUS_NOT_SUPPORTED;
    if (const auto status =
            lt_.cublasLtMatmulDescCreate(desc_.place(), types.compute, types.scale)) {
      return status;
    }
    const auto transposed = [&](int attribute, bool is) {
      const int operation = is ? lt::CUBLAS_OP_T : lt::CUBLAS_OP_N;
      return lt_.cublasLtMatmulDescSetAttribute(desc_.get(), attribute, &operation,
                                                sizeof(operation));
    };
    if (const auto status = transposed(lt::CUBLASLT_MATMUL_DESC_TRANSA, product_.b.transposed)) {
      return status;
    }
    if (const auto status = transposed(lt::CUBLASLT_MATMUL_DESC_TRANSB, product_.a.transposed)) {
      return status;
    }
    if (const auto status = lay_out(a_, product_.a, rows, depth, batch_.a)) return status;
    if (const auto status = lay_out(b_, product_.b, depth, columns, batch_.b)) return status;
    if (const auto status = lay_out(c_, {false, columns}, rows, columns, batch_.c)) return status;
    return choose(
        handle,
        {aligned(product_.a.alignment, &MatrixBatch::a),
         aligned(product_.b.alignment, &MatrixBatch::b), aligned(kBestAlignment, &MatrixBatch::c)},
        workspace_limit, chosen_, alignments_);
  }

  // On the stream; the addresses are those of the first matrices.
  lt::cublasStatus_t run(lt::cublasLtHandle_t handle, uint64_t a, uint64_t b, uint64_t c,
                         uint64_t workspace, uint64_t workspace_bytes,
                         lt::cudaStream_t stream) const {
    const lt::cublasLtMatmulHeuristicResult_t* chosen = &chosen_;
    lt::cublasLtMatmulHeuristicResult_t other;
    const Alignments real{aligned(a, &MatrixBatch::a), aligned(b, &MatrixBatch::b),
                          aligned(c, &MatrixBatch::c)};
    // Imported memory begins where it likes.
    if (real.a < alignments_.a || real.b < alignments_.b || real.c < alignments_.c) {
      Alignments asked;
      if (const auto status = choose(handle, real, workspace_bytes, other, asked)) return status;
      chosen = &other;
    }
    return walk(product_.batch, {handle, *chosen, workspace, stream}, a, b, c);
  }

 private:
  struct Alignments {
    uint64_t a = kBestAlignment;
    uint64_t b = kBestAlignment;
    uint64_t c = kBestAlignment;
  };
  struct Call {
    lt::cublasLtHandle_t handle;
    const lt::cublasLtMatmulHeuristicResult_t& chosen;
    uint64_t workspace;
    lt::cudaStream_t stream;
  };

  // Of all matrices that a call begins with.
  uint64_t aligned(uint64_t first, int64_t MatrixBatch::*stride) const {
    uint64_t alignment = common_alignment({first});
    for (const MatrixBatch& axis : product_.batch) {
      alignment = common_alignment({alignment, static_cast<uint64_t>(axis.*stride)});
    }
    return alignment;
  }

  lt::cublasStatus_t lay_out(Owned<lt::cublasLtMatrixLayout_t>& to, const MatrixLayout& how,
                             int64_t rows, int64_t columns, int64_t stride) const {
    if (!how.transposed) std::swap(rows, columns);
    if (const auto status = lt_.cublasLtMatrixLayoutCreate(
            to.place(), types_of(product_.element).data, static_cast<uint64_t>(rows),
            static_cast<uint64_t>(columns), how.pitch)) {
      return status;
    }
    if (batch_.count == 1) return lt::CUBLAS_STATUS_SUCCESS;
    const auto count = static_cast<int32_t>(batch_.count);
    if (const auto status = lt_.cublasLtMatrixLayoutSetAttribute(
            to.get(), lt::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count))) {
      return status;
    }
    return lt_.cublasLtMatrixLayoutSetAttribute(
        to.get(), lt::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride));
  }

  // The best algorithm for matrices aligned like this. The library remembers what it found.
  lt::cublasStatus_t choose(lt::cublasLtHandle_t handle, const Alignments& alignments,
                            uint64_t workspace_limit, lt::cublasLtMatmulHeuristicResult_t& best,
                            Alignments& asked) const {
    Owned<lt::cublasLtMatmulPreference_t> preference(api_, lt_.cublasLtMatmulPreferenceDestroy);
    if (const auto status = lt_.cublasLtMatmulPreferenceCreate(preference.place())) {
      return status;
    }
    const auto set = [&](int attribute, const auto& value) {
      return lt_.cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value,
                                                      sizeof(value));
    };
    if (const auto status = set(lt::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_limit)) {
      return status;
    }
    const std::pair<int, uint64_t> all[] = {
        {lt::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments.b},
        {lt::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments.a},
        {lt::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments.c},
        {lt::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments.c}};
    for (const auto& [attribute, alignment] : all) {
      if (const auto status = set(attribute, static_cast<uint32_t>(alignment))) return status;
    }
    if (types_of(product_.element).bytes == 2) {
      // Else parts of a sum may be added up in two bytes.
      if (const auto status = set(lt::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                  lt::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)) {
        return status;
      }
    }
    int found = 0;
    if (const auto status =
            lt_.cublasLtMatmulAlgoGetHeuristic(handle, desc_.get(), b_.get(), a_.get(), c_.get(),
                                               c_.get(), preference.get(), 1, &best, &found)) {
      return status;
    }
    asked = alignments;
    return found > 0 ? best.state : lt::CUBLAS_STATUS_NOT_SUPPORTED;
  }

  lt::cublasStatus_t walk(std::span<const MatrixBatch> axes, const Call& call, uint64_t a,
                          uint64_t b, uint64_t c) const {
    if (axes.empty()) return multiply(call, a, b, c);
    const MatrixBatch& axis = axes.front();
    for (int64_t i = 0; i < axis.count; ++i) {
      const auto at = [i](uint64_t first, int64_t stride) {
        return first + static_cast<uint64_t>(i * stride);
      };
      if (const auto status =
              walk(axes.subspan(1), call, at(a, axis.a), at(b, axis.b), at(c, axis.c))) {
        return status;
      }
    }
    return lt::CUBLAS_STATUS_SUCCESS;
  }

  lt::cublasStatus_t multiply(const Call& call, uint64_t a, uint64_t b, uint64_t c) const {
    constexpr float kOne = 1;
    constexpr float kZero = 0;
    constexpr double kLongOne = 1;
    constexpr double kLongZero = 0;
    const bool is_long = product_.element == MatrixElement::float64;
    const auto pointer = [](uint64_t address) {
      return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
    };
    return lt_.cublasLtMatmul(
        call.handle, desc_.get(),
        is_long ? static_cast<const void*>(&kLongOne) : static_cast<const void*>(&kOne), pointer(b),
        b_.get(), pointer(a), a_.get(),
        is_long ? static_cast<const void*>(&kLongZero) : static_cast<const void*>(&kZero),
        pointer(c), c_.get(), pointer(c), c_.get(), &call.chosen.algo,
        call.chosen.workspaceSize > 0 ? pointer(call.workspace) : nullptr,
        call.chosen.workspaceSize, call.stream);
  }

  const CublasLtApi& api_;
  const lt::Calls& lt_;
  std::string text_;       // what it is, for people
  MatrixProduct product_;  // of its batch, the axes that are walked through, in bytes
  MatrixBatch batch_;      // the library's own
  Owned<lt::cublasLtMatmulDesc_t> desc_{api_, lt_.cublasLtMatmulDescDestroy};
  Owned<lt::cublasLtMatrixLayout_t> a_{api_, lt_.cublasLtMatrixLayoutDestroy};
  Owned<lt::cublasLtMatrixLayout_t> b_{api_, lt_.cublasLtMatrixLayoutDestroy};
  Owned<lt::cublasLtMatrixLayout_t> c_{api_, lt_.cublasLtMatrixLayoutDestroy};
  lt::cublasLtMatmulHeuristicResult_t chosen_;
  Alignments alignments_;  // that it was chosen for
};

CudaProducts::CudaProducts(const std::shared_ptr<CudaCore>& core,
                           std::shared_ptr<const CublasLtApi> api)
    : CudaObject(core), api_(std::move(api)), lt_(api_->calls()) {}

CudaProducts::~CudaProducts() { give_back(); }

void CudaProducts::destroy_native() noexcept {
  if (handle_ == nullptr) return;
  const CublasLtApi::Use use(*api_);
  // The library's own end, or the context's, takes it along.
  if (!use || core()->is_dead()) return;
  const CudaCore::Current current(*core());
  (void)lt_.cublasLtDestroy(handle_);
}

Result<std::shared_ptr<CudaProducts>> CudaProducts::open(const std::shared_ptr<CudaCore>& core,
                                                         const std::string& path) {
  Result<std::shared_ptr<const CublasLtApi>> api = CublasLtApi::load(path, core->api->version());
  if (!api) return api.failure();
  const CudaCore::Current current(*core);
  if (Failure failure = current.failure()) return failure;
  const std::shared_ptr<CudaProducts> made(new CudaProducts(core, std::move(api).value()));
  int major = 0;
  (void)core->cu.cuDeviceGetAttribute(&major, cu::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                      core->device);
  made->workspace_limit_ = (major >= kHopper ? kWorkspace : kWorkspaceBeforeHopper).value;
  const CublasLtApi::Use use(*made->api_);
  if (!use) return Failure(ErrorCode::closed, "the process is ending");
  if (const auto status = made->lt_.cublasLtCreate(&made->handle_)) {
    made->handle_ = nullptr;
    return Failure(ErrorCode::environment,
                   fmt::format("{} does not start on device '{}': {}", made->describe(), core->name,
                               made->api_->describe(status)));
  }
  return made;
}

std::string CudaProducts::describe() const {
  return fmt::format("{} ({})", api_->version(), api_->path());
}

std::optional<MatrixProducts::Way> CudaProducts::find(const MatrixProduct& product) {
  const CudaCore::Use in_use(*core());
  const CublasLtApi::Use use(*api_);
  if (!in_use || !use) return std::nullopt;
  const CudaCore::Current current(*core());
  if (current.failure()) return std::nullopt;
  auto plan = std::make_shared<Plan>(*api_, product);
  if (const auto status = plan->make(handle_, workspace_limit_)) {
    logging::note(logging::Topic::device, "device '{}': {} does not compute a product, {}: {}",
                  core()->name, api_->version(), plan->describe(), api_->describe(status));
    return std::nullopt;
  }
  const Bytes workspace{plan->workspace()};
  return Way{[self = shared_from_this(), plan = std::shared_ptr<const Plan>(std::move(plan))](
                 const NativeCall& call) { self->run(*plan, call); },
             workspace};
}

void CudaProducts::run(const Plan& plan, const NativeCall& call) const {
  const CublasLtApi::Use use(*api_);
  if (!use) throw ClosedError("the process is ending, and cuBLASLt with it");
  const auto& bindings = call.native_bindings;
  const bool has_workspace = bindings.size() > 3;
  const auto status =
      plan.run(handle_, bindings[0].address, bindings[1].address, bindings[2].address,
               has_workspace ? bindings[3].address : 0, has_workspace ? bindings[3].length : 0,
               static_cast<lt::cudaStream_t>(call.native_stream));
  if (status == lt::CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorCode::execution,
              fmt::format("{} refused a matrix product, {}: {}. HOLDFAST_MATMUL=own computes it "
                          "without the library",
                          describe(), plan.describe(), api_->describe(status)));
}

}  // namespace holdfast::hal
