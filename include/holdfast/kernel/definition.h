#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/hal/module.h"

#pragma GCC visibility push(default)

namespace holdfast::kernel {

// Threads along each axis: of a grid, or of a threadgroup.
struct Size3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
  constexpr bool empty() const noexcept { return x == 0 || y == 0 || z == 0; }
  friend bool operator==(const Size3&, const Size3&) = default;
};

enum class ArgumentGroup : uint8_t { input, in_place, output };

// What math functions and the optimizer may do. Fast: as -ffast-math; the body sees __FAST_MATH__.
// Relaxed: sums may be regrouped, quotients be products with an inverse, and the sign of zero is
// lost, but infinities and NaN are what they are.
enum class MathMode : uint8_t { safe, fast, relaxed };

// Text or a finished module for one kind of device: existing code, or what the kernel language
// cannot express. Devices that take it use it instead of the body.
enum class NativeKind : uint8_t { cpp, cuda, glsl, spirv, ptx, cubin };
const char* to_string(NativeKind kind);

struct Native {
  NativeKind kind = NativeKind::glsl;
  std::string text{};               // cpp, cuda, glsl, ptx
  std::vector<std::byte> module{};  // spirv, cubin
  std::string entry_point = "main";
  // Arguments by name, in the order of the module's binding indices, each once. Empty: inputs,
  // in_place, outputs.
  std::vector<std::string> bindings{};
  hal::SpirvBindings reaches = hal::SpirvBindings::descriptors;  // glsl, spirv
  // glsl, spirv: names of the specialization constants with the ids 0, 1, ... Text sees the other
  // constants of a call as macros: 0 and 1 for bool, the type's name for a dtype.
  std::vector<std::string> constants{};
  // The threads of one group; a call's threadgroup must be the same. For glsl and spirv it is read
  // from the module and may be left out here. For other kinds, a size that is left out is not
  // checked; cuda, ptx and cubin then run in groups of the call's size.
  std::optional<Size3> threadgroup{};
  // cuda, ptx, cubin: how it is launched.
  Bytes shared_memory{};     // of each group, besides what the code declares: extern __shared__
  hal::Groups cluster{};     // groups that run together; the call's groups are a multiple of it
  bool cooperative = false;  // all groups run at once, and may wait for one another
};

// A kernel as its author writes it: plain data. The body is the inside of a function, in the
// language of docs/kernels.md, and sees its arguments by these names. Each input, in_place and
// output `x` is a pointer to its elements (a 0-d input: a plain value), and `x_shape`, `x_strides`
// and `x_ndim` exist if the body uses them as whole identifiers.
struct Definition {
  std::string name{};
  std::vector<std::string> inputs{};
  std::vector<std::string> outputs{};
  std::vector<std::string> in_place{};  // read and written
  std::string source{};                 // the body
  std::string header{};                 // before it, at namespace scope: helpers, templates, macros
  bool atomic_outputs = false;          // outputs are pointers to atomic<T>
  MathMode math = MathMode::safe;
  // The file that has the body; it is read if `source` is empty. Messages and debuggers name it.
  std::string file{};
  std::vector<Native> natives{};
  // For calls with arrays: inputs that are not row-contiguous are copied first, unless the call
  // says otherwise (see holdfast::KernelCall). Launches take arrays as they lie.
  bool ensure_row_contiguous = true;
  bool verbose = false;  // generated text is logged when it is compiled (topic kernels)
};

// What is wrong with a definition, as a sentence: a name that is not an identifier, is reserved or
// is given twice; no output; no body; too many arguments; a native with unknown bindings. Cheap;
// nothing is compiled.
Failure check(const Definition& definition);

// Whether kernel text must not use this name: keywords, names that the language defines, and
// everything that begins with hf_ or with two underscores.
bool is_reserved(std::string_view name);
bool is_identifier(std::string_view name);

}  // namespace holdfast::kernel

#pragma GCC visibility pop
