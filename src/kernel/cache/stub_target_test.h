#pragma once

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/kernel/cache/variant_cache.h"
#include "holdfast/kernel/targets/cpu/cpu_target.h"
#include "holdfast/kernel/targets/wrapping_target_test.h"

namespace holdfast::kernel {

// A stub, for tests and benchmarks of the cache alone: nothing is compiled. A text "N" makes a
// kernel with one binding that fills it with the byte N; a text "error ..." does not compile; a
// text "unloadable" compiles to what does not load. Thread-safe.
class StubTarget : public WrappingTarget {
 public:
  StubTarget() : WrappingTarget(std::make_shared<CpuTarget>()) {}

  // Called inside each compile, with no lock held.
  std::function<void(const CompileJob&)> on_compile{};
  std::string version_text = "stub 1";
  Failure no_version{};

  std::atomic<uint64_t> compiles{0};
  std::atomic<uint64_t> batches{0};
  std::atomic<uint64_t> loads{0};

  Result<std::string> version() override {
    if (no_version) return no_version;
    return version_text;
  }
  Result<Code> compile(const CompileJob& job) override {
    ++batches;
    return compile_one(job);
  }
  std::vector<Result<Code>> compile_all(std::span<const CompileJob* const> jobs) override {
    ++batches;
    std::vector<Result<Code>> codes;
    codes.reserve(jobs.size());
    for (const CompileJob* job : jobs) codes.push_back(compile_one(*job));
    return codes;
  }
  Result<Ref<hal::Pipeline>> load(hal::Device& device, const CompileJob& job,
                                  std::span<const std::byte> code) override {
    ++loads;
    const std::string_view text(reinterpret_cast<const char*>(code.data()), code.size());
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) {
      return Failure(ErrorCode::environment,
                     fmt::format("kernel '{}': '{}' does not load", job.kernel, text));
    }
    const auto fill = [byte = static_cast<std::byte>(value)](const hal::HostGroup& group) {
      std::ranges::fill(group.bindings[0], byte);
    };
    return device.create_pipeline({job.kernel, hal::HostFunction(fill), 1, {}});
  }

 private:
  Result<Code> compile_one(const CompileJob& job) {
    ++compiles;
    if (on_compile) on_compile(job);
    if (job.code.text.starts_with("error")) {
      return Failure(ErrorCode::usage,
                     fmt::format("kernel '{}' does not compile: {}", job.kernel, job.code.text));
    }
    const auto bytes = std::as_bytes(std::span(job.code.text));
    return Code(bytes.begin(), bytes.end());
  }
};

inline CompileJob stub_job(std::string text, std::string kernel = "stub") {
  CompileJob job;
  job.kernel = std::move(kernel);
  job.variant = "the only one";
  job.code.text = std::move(text);
  job.code.entry_point = "run";
  job.code.interface.bindings = {{ArgumentGroup::output, 0, hal::Access::write}};
  job.code.interface.has_launch_block = false;
  return job;
}

inline VariantCache::MakeJob making(std::string text, std::string kernel = "stub") {
  return [text = std::move(text), kernel = std::move(kernel)]() -> Result<CompileJob> {
    return stub_job(text, kernel);
  };
}

// A signature for each number.
inline SignatureKey signature_of(int64_t number) {
  return SignatureKey(CallSignature{.constants = {{"N", number}}});
}

}  // namespace holdfast::kernel
