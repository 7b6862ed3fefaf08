#include "holdfast/base/hash.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace holdfast {

struct Hasher::State {
  XXH3_state_t xxh;
};

std::string to_string(const Digest& digest) {
  return fmt::format("{:016x}{:016x}", digest.words[1], digest.words[0]);
}

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::add(std::span<const std::byte> field) {
  add_raw(field.size());
  XXH3_128bits_update(&state_->xxh, field.data(), field.size());
  return *this;
}

Hasher& Hasher::add(uint64_t field) {
  add_raw(sizeof field);
  add_raw(field);
  return *this;
}

void Hasher::add_raw(uint64_t field) {
  std::array<unsigned char, 8> little{};
  for (unsigned i = 0; i < 8; ++i) little.at(i) = static_cast<unsigned char>(field >> (8 * i));
  XXH3_128bits_update(&state_->xxh, little.data(), little.size());
}

Digest Hasher::digest() const {
  const XXH128_hash_t h = XXH3_128bits_digest(&state_->xxh);
  return Digest{{h.low64, h.high64}};
}

Digest digest_of(std::span<const std::byte> content) {
  const XXH128_hash_t h = XXH3_128bits(content.data(), content.size());
  return Digest{{h.low64, h.high64}};
}

}  // namespace holdfast
