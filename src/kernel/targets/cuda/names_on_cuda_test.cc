// The bodies that show names of Metal (names_of_metal_test.h) compile as CUDA text, and so do those
// of the relaxed math mode; what they compute is shown on GPUs (bundle/run arrays).

#include "holdfast/kernel/names_of_metal_test.h"

#include "holdfast/kernel/targets/cuda/cuda_target.h"
#include "holdfast/kernel/targets/cuda/nvrtc_test.h"

namespace holdfast::kernel {
namespace {

CompileJob cuda_job_of(const NamedBody& body, MathMode math) {
  const Definition definition{.name = "body",
                              .inputs = {"x"},
                              .in_place = {"y"},
                              .source = body.body,
                              .header = body.header,
                              .math = math};
  const CallSignature signature{.inputs = {{body.dtype, 1}}, .in_place = {{Dtype::float32, 1}}};
  CompileJob job{.kernel = "body"};
  job.code = CudaTarget(hal::DeviceInfo{}).generate(definition, signature, {}).or_raise();
  return job;
}

class NamesOnCuda : public NvrtcTest, public ::testing::WithParamInterface<NamedBody> {};

TEST_P(NamesOnCuda, compile) {
  EXPECT_NE(ptx_of(cuda_job_of(GetParam(), MathMode::safe)).find(".entry"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Bodies, NamesOnCuda, ::testing::ValuesIn(bodies_of_names()),
                         [](const auto& of) { return of.param.name; });

class RelaxedMathOnCuda : public NvrtcTest {};

TEST_F(RelaxedMathOnCuda, divides_by_an_approximation) {
  const NamedBody division{"division", "y[0] = x[0] / x[1];", {0}};
  const std::string safe = ptx_of(cuda_job_of(division, MathMode::safe));
  const std::string relaxed = ptx_of(cuda_job_of(division, MathMode::relaxed));
  EXPECT_NE(safe.find("div.rn"), std::string::npos) << safe;
  EXPECT_EQ(relaxed.find("div.rn"), std::string::npos) << relaxed;
}

}  // namespace
}  // namespace holdfast::kernel
