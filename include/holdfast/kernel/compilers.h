#pragma once

#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace holdfast::kernel {

// Compilers that come with a package, such as a wheel of Python's, and that nothing in the
// environment leads to. They are used only where the usual places have none, in the order in which
// they were added. Call these before the first kernel is compiled. Thread-safe.

// A g++ or clang++ for CPU kernels, as a program's path and its first arguments: {".../zig",
// "c++"}.
void add_cpp_compiler(std::vector<std::string> command);
// A folder with NVRTC (libnvrtc.so.12 or later), for CUDA kernels.
void add_nvrtc_folder(std::string folder);

}  // namespace holdfast::kernel

#pragma GCC visibility pop
