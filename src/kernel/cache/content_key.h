#pragma once

#include <string>
#include <string_view>

#include "holdfast/base/hash.h"
#include "holdfast/kernel/targets/target.h"

namespace holdfast::kernel {

// All that decides a variant, each part with its length: generated text and options, or the native;
// interface; generator and target versions; the name, under which the pipeline appears in
// reports. The preamble, which no user writes and which is much longer than most texts, stands in
// it as its digest. Two variants are one where these bytes are equal; the digest only finds the
// bucket and the file. The same in every process.
class ContentKey {
 public:
  ContentKey(const CompileJob& job, std::string_view target_version);

  const std::string& bytes() const noexcept { return bytes_; }
  const Digest& digest() const noexcept { return digest_; }
  friend bool operator==(const ContentKey& a, const ContentKey& b) noexcept {
    return a.bytes_ == b.bytes_;
  }

 private:
  std::string bytes_;
  Digest digest_;
};

#ifdef HOLDFAST_ABLATIONS
// While one lives, all keys made anywhere have the same digest: only equality tells them apart.
class ScopedDigestCollision {
 public:
  ScopedDigestCollision();
  ~ScopedDigestCollision();
  ScopedDigestCollision(const ScopedDigestCollision&) = delete;
  ScopedDigestCollision& operator=(const ScopedDigestCollision&) = delete;
};
#endif

}  // namespace holdfast::kernel
