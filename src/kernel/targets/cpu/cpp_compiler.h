#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/kernel/definition.h"

namespace holdfast::kernel {

struct CppOptions {
  bool debug = false;     // not optimized, with symbols
  bool sanitize = false;  // with AddressSanitizer, whose runtime the process has
  friend bool operator==(const CppOptions&, const CppOptions&) = default;
};

// One translation unit, whole.
struct CppUnit {
  std::string text{};
  MathMode math = MathMode::safe;
  // Generated text needs nothing but itself: no headers, no exceptions, no C++ library. Texts of
  // authors may use the standard headers, and are linked as usual. Neither may include files of its
  // own: they could change behind a cache.
  bool generated = true;
  // Whether products and sums may become one operation.
  bool contracts = true;
  // Bytes of the stack that a function's variables may take; 0: as many as it likes. More is an
  // error of the text.
  size_t max_frame = 0;
};

struct CppOutcome {
  std::vector<std::byte> object{};  // a shared object; empty where the text does not compile
  std::string messages{};           // of the compiler
};

// The system's C++ compiler, as a program. Immutable, thread-safe; nothing is locked while it runs.
// The same unit gives the same messages.
class CppCompiler {
 public:
  // $CXX (with arguments, if it has some), else g++, c++ or clang++ on the PATH, else those of
  // add_cpp_compiler: the first that is new enough. Asked what it is once in the life of the
  // process. ErrorCode::environment says what to install.
  static Result<std::shared_ptr<const CppCompiler>> find();

  // All that decides what compile() makes of a unit: the compiler's version and target, the
  // processor that "native" stands for, the flags.
  std::string version(const CppOptions& options) const;
  // ErrorCode::environment where the compiler cannot do its work: no room for its files, killed,
  // not installed whole. What it says of lines of the text is never taken for that.
  Result<CppOutcome> compile(const CppUnit& unit, const CppOptions& options) const;

  // What objects with symbols have in place of the folder they were compiled in, of a length that
  // every folder has room in; whoever keeps such an object writes the folder's name over it.
  static std::string_view folder_placeholder();

 private:
  enum class Family { gcc, clang };
  CppCompiler() = default;
  static Result<std::shared_ptr<const CppCompiler>> probe(std::vector<std::string> command);
  std::vector<std::string> flags(const CppUnit& unit, const CppOptions& options) const;

  std::vector<std::string> command_;
  std::vector<std::string> environment_;
  Family family_ = Family::gcc;
  std::string name_;     // "gcc version 12.2.0 (...)"
  std::string machine_;  // a digest of what it says of itself and of this processor
  // Against instructions of this processor that it makes and its assembler does not take.
  std::vector<std::string> avoided_;
};

}  // namespace holdfast::kernel
