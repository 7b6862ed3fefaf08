#include "holdfast/kernel/targets/cuda/nvrtc.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>

#include "holdfast/kernel/compilers/words.h"
#include "holdfast/kernel/native.h"
#include "holdfast/kernel/targets/cuda/nvrtc_log.h"

namespace holdfast::kernel {

namespace {

constexpr int kInvalidOption = 5;     // NVRTC_ERROR_INVALID_OPTION
constexpr int kCompilationError = 6;  // NVRTC_ERROR_COMPILATION

constexpr DtypeNames kCudaTypeNames{
    "bool",     "signed char", "unsigned char",      "short",  "unsigned short", "int",
    "unsigned", "long long",   "unsigned long long", "__half", "__nv_bfloat16",  "float",
    "double"};

bool is_ptx(const CudaOptions& options) { return options.architecture.starts_with("compute_"); }

// Where CUDA's headers lie, by the place of NVRTC: a toolkit's, one for several targets, those of
// NVIDIA's wheels for Python, the system's. With the C++ library that some of them include.
std::vector<std::string> header_folders(const std::string& nvrtc) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path lib = fs::canonical(nvrtc, none).parent_path();
  const fs::path wheels = lib.parent_path().parent_path();
  std::vector<std::string> found;
  for (const fs::path& folder : {lib.parent_path(), wheels.parent_path(), wheels / "cuda_runtime",
                                 fs::path("/usr/local/cuda")}) {
    const fs::path headers = folder / "include";
    if (!fs::exists(headers / "cuda_fp16.h", none)) continue;
    found.push_back(headers.string());
    // Wheels of a runtime alone come without it; a toolkit's serves as well.
    for (const fs::path& library : {headers, headers / "cccl", wheels / "cuda_cccl" / "include",
                                    fs::path("/usr/local/cuda/include/cccl")}) {
      if (!fs::exists(library / "nv" / "target", none)) continue;
      if (library != headers) found.push_back(library.string());
      break;
    }
    break;
  }
  return found;
}

std::vector<std::string> arguments(const CompileJob& job, const CudaOptions& options,
                                   const NvrtcLibrary& library) {
  std::vector<std::string> result = {"--gpu-architecture=" + options.architecture, "--std=c++20",
                                     "--disable-warnings"};
  if (options.debug) result.emplace_back("--generate-line-info");
  if (!job.native) {
    // Functions of headers say nothing of where they run.
    result.emplace_back("--device-as-default-execution-space");
    result.emplace_back("--device-int128");
  }
  if (job.code.math == MathMode::fast) result.emplace_back("--use_fast_math");
  if (job.code.math == MathMode::relaxed) {
    result.insert(result.end(), {"--prec-div=false", "--prec-sqrt=false"});
  }
  // Behind --use_fast_math, which decides it too.
  if (!job.code.contracts) result.emplace_back("--fmad=false");
  if (!job.native) return result;
  for (const auto& [name, value] : native_macros(job.constants, kCudaTypeNames)) {
    result.push_back(fmt::format("--define-macro={}={}", name, value));
  }
  for (const std::string& folder : header_folders(library.path())) {
    result.push_back("--include-path=" + folder);
  }
  return result;
}

class Program {
 public:
  Program(const NvrtcLibrary& library, const std::string& text, const std::string& name)
      : calls_(library.calls()) {
    result_ = calls_.create(&program_, text.c_str(), name.c_str(), 0, nullptr, nullptr);
  }
  ~Program() {
    if (program_ != nullptr) calls_.destroy(&program_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int compile(const std::vector<std::string>& options) {
    if (result_ != 0) return result_;
    std::vector<const char*> given;
    for (const std::string& option : options) given.push_back(option.c_str());
    return result_ = calls_.compile(program_, static_cast<int>(given.size()), given.data());
  }
  std::string log() const {
    std::string text;
    size_t size = 0;  // with the closing zero
    if (program_ == nullptr || calls_.log_size(program_, &size) != 0 || size < 2) return text;
    text.resize(size);
    if (calls_.log(program_, text.data()) != 0) return {};
    text.resize(size - 1);
    return text;
  }
  Code code(bool ptx) {
    Code bytes;
    size_t size = 0;
    result_ = (ptx ? calls_.ptx_size : calls_.cubin_size)(program_, &size);
    if (result_ != 0) return bytes;
    bytes.resize(size);
    auto* const data = reinterpret_cast<char*>(bytes.data());
    result_ = (ptx ? calls_.ptx : calls_.cubin)(program_, data);
    return bytes;
  }
  int result() const noexcept { return result_; }

 private:
  const NvrtcLibrary::Calls& calls_;
  NvrtcLibrary::Program program_ = nullptr;
  int result_ = 0;
};

Failure failure_of(const CompileJob& job, const CudaOptions& options, const NvrtcLibrary& library,
                   std::span<const SourceText> sources, const Program& program) {
  if (program.result() == kCompilationError) {
    auto errors = read_nvrtc_log(program.log(), sources);
    if (errors.empty()) {
      const std::string log = program.log();
      errors.push_back({.message = log.empty() ? "NVRTC does not say why" : log});
    }
    return Failure(ErrorCode::usage, describe_errors(job.kernel, job.variant, errors));
  }
  if (program.result() == kInvalidOption) {
    return Failure(ErrorCode::environment,
                   fmt::format("{} cannot compile kernel '{}' for the architecture '{}'; install a "
                               "CUDA toolkit that knows it: {}",
                               library.version(), job.kernel, options.architecture, program.log()));
  }
  return Failure(ErrorCode::environment,
                 fmt::format("{} ({}) failed to compile kernel '{}': {}; {}", library.version(),
                             library.path(), job.kernel,
                             library.calls().error_string(program.result()), program.log()));
}

// "sm_90", "compute_100a".
bool is_architecture(std::string_view text) {
  const size_t digits = text.starts_with("sm_") ? 3 : text.starts_with("compute_") ? 8 : 0;
  if (digits == 0 || text.size() == digits || text.size() > digits + 4) return false;
  return std::ranges::all_of(text.substr(digits),
                             [](char c) { return (c >= '0' && c <= '9') || c == 'a' || c == 'f'; });
}

// Of "sm_90".
std::optional<int> number_of(std::string_view gpu) {
  if (!is_architecture(gpu) || !gpu.starts_with("sm_")) return std::nullopt;
  gpu.remove_prefix(3);
  uint32_t number = 0;
  if (!take_number(gpu, number)) return std::nullopt;
  return static_cast<int>(number);
}

}  // namespace

std::string architecture_for(std::string_view gpu, std::span<const int> known) {
  const std::optional<int> number = number_of(gpu);
  if (!number || known.empty() || std::ranges::find(known, *number) != known.end()) {
    return std::string(gpu);
  }
  const auto later = std::ranges::upper_bound(known, *number);
  if (later == known.begin()) return std::string(gpu);
  return fmt::format("compute_{}", *std::prev(later));
}

std::string with_own_instructions(const std::string& architecture) {
  constexpr int kFirst = 90;
  const std::optional<int> number = number_of(architecture);
  const bool plain = architecture.find_last_not_of("0123456789") == architecture.find('_');
  return number && plain && *number >= kFirst ? architecture + "a" : architecture;
}

bool has_grid_control(std::string_view architecture) {
  constexpr uint32_t kFirst = 90;
  architecture.remove_prefix(std::min(architecture.find('_') + 1, architecture.size()));
  uint32_t number = 0;
  return take_number(architecture, number) && number >= kFirst;
}

namespace {

// What messages about a native's text call it.
const std::string& job_file(const CompileJob& job) {
  return job.code.sources.empty() ? job.kernel : job.code.sources[0].file;
}

// Text whose author names its parts: each begins behind a line `#line 1 "NAME"`.
std::vector<SourceText> parts_of(std::string_view text, const std::string& file) {
  constexpr std::string_view kMark = "#line 1 \"";
  std::vector<SourceText> parts{{.file = file, .text = {}}};
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    if (line.starts_with(kMark)) {
      const std::string_view name = line.substr(kMark.size());
      parts.push_back({.file = std::string(name.substr(0, name.find('"'))), .text = {}});
    } else {
      parts.back().text += line;
    }
  }
  if (parts.front().text.empty() && parts.size() > 1) parts.erase(parts.begin());
  return parts;
}

}  // namespace

Result<Code> compile_cuda(const CompileJob& job, const CudaOptions& options,
                          const NvrtcLibrary& library) {
  if (!is_architecture(options.architecture)) {
    return Failure(ErrorCode::usage, fmt::format("'{}' is no architecture of a GPU; they are named "
                                                 "sm_90 or compute_90",
                                                 options.architecture));
  }
  const std::string text = job.native ? job.native->text : job.code.preamble + job.code.text;
  if (text.size() > kMaxCudaBytes) {
    return Failure(ErrorCode::usage,
                   fmt::format("the CUDA text of kernel '{}' has {} bytes, more than the {} that "
                               "are compiled; split it into several kernels",
                               job.kernel, text.size(), kMaxCudaBytes));
  }
  if (text.find('\0') != std::string::npos) {
    return Failure(ErrorCode::usage, fmt::format("the text of kernel '{}' has a zero byte; it is "
                                                 "no text",
                                                 job.kernel));
  }
  std::vector<SourceText> native;
  if (job.native) {
    native = parts_of(text, job_file(job));
  }
  const std::span<const SourceText> sources = job.native ? native : job.code.sources;
  Program program(library, text, job.native ? job_file(job) : "holdfast");
  if (program.compile(arguments(job, options, library)) != 0) {
    return failure_of(job, options, library, sources, program);
  }
  Code code = program.code(is_ptx(options));
  if (program.result() != 0) return failure_of(job, options, library, sources, program);
  return code;
}

Result<Code> compile_cuda(const CompileJob& job, const CudaOptions& options) {
  const Result<NvrtcLibrary> library = NvrtcLibrary::of_process();
  if (!library) return library.failure();
  return compile_cuda(job, options, library.value());
}

Result<std::string> cuda_compiler_version(const CudaOptions& options) {
  const Result<NvrtcLibrary> library = NvrtcLibrary::of_process();
  if (!library) return library.failure();
  return fmt::format("{}; {}{}", library.value().version(), options.architecture,
                     options.debug ? ", line info" : "");
}

}  // namespace holdfast::kernel
