#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace holdfast {

// 128 bits of content hash: the same on every machine and in every process.
struct Digest {
  std::array<uint64_t, 2> words{};
  friend auto operator<=>(const Digest&, const Digest&) = default;
};
// 32 hexadecimal digits.
std::string to_string(const Digest& digest);

// Hashes a sequence of fields. Each field is prefixed by its length, so that ("ab", "c") and
// ("a", "bc") differ. A hash finds; equality of the content decides.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  Hasher& add(std::span<const std::byte> field);
  Hasher& add(std::string_view field) { return add(std::as_bytes(std::span(field))); }
  Hasher& add(uint64_t field);
  Digest digest() const;

 private:
  // Eight bytes, little-endian, without a length.
  void add_raw(uint64_t field);
  struct State;
  std::unique_ptr<State> state_;
};

Digest digest_of(std::span<const std::byte> content);

}  // namespace holdfast
