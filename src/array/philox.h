#pragma once

#include <array>
#include <cstdint>

namespace holdfast::array {

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; 2011): a
// keyed bijection of 128-bit counters whose results look random. The kernels of random.cc have the
// same function.
using PhiloxCounter = std::array<uint32_t, 4>;
constexpr PhiloxCounter philox4x32(PhiloxCounter counter, uint64_t key) noexcept {
  auto low = static_cast<uint32_t>(key);
  auto high = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ low, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ high, static_cast<uint32_t>(a)};
    low += 0x9E3779B9;
    high += 0xBB67AE85;
  }
  return counter;
}

// The last word of the counter says what numbers are for, so that one key serves all of it.
enum class RandomUse : uint32_t { uniform = 0, normal = 1, split = 2 };

// Of block i of that use: four words.
constexpr PhiloxCounter random_words(uint64_t key, uint64_t i, RandomUse use) noexcept {
  return philox4x32(
      {static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, static_cast<uint32_t>(use)},
      key);
}

}  // namespace holdfast::array
