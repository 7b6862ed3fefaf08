#pragma once

#include <span>
#include <string>
#include <vector>

#include "holdfast/base/error.h"

namespace holdfast::kernel {

// NVIDIA's run-time compiler, found and loaded while the program runs; nothing is linked. It needs
// neither a GPU nor a driver. Once loaded it stays for the rest of the process. A value: copies
// share the library.
class NvrtcLibrary {
 public:
  // The first of these names and paths that loads and is recent enough for C++20 (CUDA 12).
  // ErrorCode::environment where there is none, with what to install and what was tried.
  static Result<NvrtcLibrary> load(std::span<const std::string> names);
  // What a process uses: load(nvrtc_names()), once it succeeded. Thread-safe.
  static Result<NvrtcLibrary> of_process();

  const std::string& path() const noexcept { return path_; }
  // "NVRTC 13.0", and the file's size and time, since builds of one version can differ.
  const std::string& version() const noexcept { return version_; }
  // The architectures it compiles for, ascending: 90 for sm_90. Empty where it does not say.
  const std::vector<int>& architectures() const noexcept { return architectures_; }

  // Of nvrtc.h, whose values have not changed since CUDA 7; results are 0 for success.
  using Program = struct NvrtcProgram*;
  struct Calls {
    int (*version)(int* major, int* minor) = nullptr;
    const char* (*error_string)(int result) = nullptr;
    int (*create)(Program*, const char* text, const char* name, int headers,
                  const char* const* header_texts, const char* const* header_names) = nullptr;
    int (*destroy)(Program*) = nullptr;
    int (*compile)(Program, int count, const char* const* options) = nullptr;
    int (*log_size)(Program, size_t*) = nullptr;
    int (*log)(Program, char*) = nullptr;
    int (*ptx_size)(Program, size_t*) = nullptr;
    int (*ptx)(Program, char*) = nullptr;
    int (*cubin_size)(Program, size_t*) = nullptr;
    int (*cubin)(Program, char*) = nullptr;
    // May be missing.
    int (*architecture_count)(int*) = nullptr;
    int (*architectures)(int*) = nullptr;
  };
  const Calls& calls() const noexcept { return calls_; }

 private:
  NvrtcLibrary() = default;
  Calls calls_;
  std::string path_;
  std::string version_;
  std::vector<int> architectures_;
};

// Where NVRTC may be, best first: the folder in HOLDFAST_NVRTC_DIR, where the loader looks,
// $CUDA_HOME, $CUDA_PATH and /usr/local/cuda; in each the newest version that is known.
std::vector<std::string> nvrtc_names();

}  // namespace holdfast::kernel
