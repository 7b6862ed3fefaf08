#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/kernel/definition.h"

namespace holdfast::kernel {

struct LlvmUnit {
  std::string text{};
  MathMode math = MathMode::safe;
  bool contracts = true;  // whether products and sums may become one operation
};

struct LlvmOutcome {
  std::string text{};      // LLVM's, optimized; empty where the unit does not compile
  std::string messages{};  // of the compiler
};

// clang, as a program: it reads kernels for Vulkan. Immutable, thread-safe; nothing is locked while
// it runs.
class Clang {
 public:
  // $HOLDFAST_CLANG (with arguments, if it has some), else clang++ of the versions that are known
  // to work on the PATH, else the one of the Python package ziglang: the first that is new enough.
  // Asked what it is once in the life of the process. ErrorCode::environment says what to install.
  static Result<std::shared_ptr<const Clang>> find();

  // All that decides what to_llvm() makes of a unit: version and options.
  std::string version() const;
  // ErrorCode::environment where it cannot do its work.
  Result<LlvmOutcome> to_llvm(const LlvmUnit& unit) const;

 private:
  Clang() = default;
  static Result<std::shared_ptr<const Clang>> probe(std::vector<std::string> command);

  std::vector<std::string> command_;
  std::vector<std::string> environment_;
  std::string name_;  // "clang version 16.0.6"
};

}  // namespace holdfast::kernel
