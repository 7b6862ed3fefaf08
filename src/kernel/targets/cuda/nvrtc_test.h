#pragma once

#include <gtest/gtest.h>

#include <string>

#include "holdfast/base/env.h"
#include "holdfast/kernel/targets/cuda/nvrtc.h"

namespace holdfast::kernel {

// Tests that compile CUDA text are skipped where there is no NVRTC, and fail where it was there
// when the tests were configured (HOLDFAST_REQUIRE_NVRTC).
class NvrtcTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Result<NvrtcLibrary> library = NvrtcLibrary::of_process();
    if (library) return;
    if (env::flag("HOLDFAST_REQUIRE_NVRTC").value_or(false)) {
      FAIL() << library.failure().message();
    }
    GTEST_SKIP() << "no NVRTC here: " << library.failure().message();
  }
};

inline std::string as_text(const Code& code) {
  return std::string(reinterpret_cast<const char*>(code.data()), code.size());
}

// The PTX of a job, or a failed test.
inline std::string ptx_of(const CompileJob& job, const std::string& architecture = "compute_90") {
  const Result<Code> code = compile_cuda(job, {.architecture = architecture});
  if (!code) {
    ADD_FAILURE() << code.failure().message() << "\n" << job.code.text;
    return {};
  }
  return as_text(code.value());
}

}  // namespace holdfast::kernel
