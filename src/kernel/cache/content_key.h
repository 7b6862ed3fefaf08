#pragma once

#include <string>
#include <string_view>

#include "holdfast/base/hash.h"
#include "holdfast/kernel/toolchain.h"

namespace holdfast::kernel {

// All that decides the code of a variant, each part with its length: generated text and options,
// or the native; interface; generator and toolchain versions. Two variants are one where these
// bytes are equal; the digest only finds the bucket and the file. The same in every process.
class ContentKey {
 public:
  ContentKey(const CompileJob& job, std::string_view toolchain_version);

  const std::string& bytes() const noexcept { return bytes_; }
  const Digest& digest() const noexcept { return digest_; }
  friend bool operator==(const ContentKey& a, const ContentKey& b) noexcept {
    return a.bytes_ == b.bytes_;
  }

 private:
  std::string bytes_;
  Digest digest_;
};

}  // namespace holdfast::kernel
