#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/bytes.h"
#include "holdfast/base/error.h"
#include "holdfast/kernel/targets/vulkan/ir/spirv_builder.h"

namespace holdfast::kernel {

struct TranslateOptions {
  std::string entry_point{};
  uint32_t bindings = 0;
  Bytes parameter_bytes{};
  bool binding_lengths = false;  // the entry point takes the bytes of each binding, too
  bool reports = false;          // the launch gives the address of a report behind these
  bool contracts = true;         // products and sums may become one operation
  bool fast = false;             // numbers may be taken for finite, and zeros for unsigned
  // Whether the device keeps infinities, NaNs and signed zeros of floats of 16, 32 and 64 bits
  // where it is told to.
  bool keeps_16 = false;
  bool keeps_32 = false;
  bool keeps_64 = false;
  bool keeps_small_32 = false;     // floats of 32 bits that are too small to be normal
  bool rounds_to_nearest = false;  // every width, where it is told to
  // Whether its own quotients and square roots are exact to half a unit in the last place, and fma
  // is not: it rounds the product.
  bool exact_quotients = false;
  // Whether OpMemoryBarrier is a barrier of the group there, in which threads are lost where others
  // have ended.
  bool fences_meet = false;
};

// What is wrong with a kernel's text that its compiler took: with the author's place, if known.
struct Refusal {
  std::string message{};
  std::string file{};
  uint32_t line = 0;
  uint32_t column = 0;
};
struct Translated {
  SpirvWords words{};  // empty where it was refused
  Refusal refusal{};
};

// LLVM's text of a kernel, as clang makes it for spir64, to SPIR-V for Vulkan 1.2.
//
// The entry point takes a pointer for each binding, perhaps the bytes of each, then a pointer to
// the parameters; how the module finds them: hal::SpirvModule, with SpirvBindings::addresses. The
// group's size are the specialization constants 0 to 2. Functions whose names begin with hf_spirv_
// are those of the preamble: vulkan_base.h, vulkan_simd.h or vulkan_simd_native.h, and
// vulkan_atomic.h.
//
// Any text gives a module or a refusal, in time that grows with its length.
Translated translate_to_spirv(std::string_view llvm_text, const TranslateOptions& options);

}  // namespace holdfast::kernel
