#include "holdfast/base/hash.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

namespace holdfast {
namespace {

std::vector<std::byte> pattern(size_t size) {
  std::vector<std::byte> content(size);
  for (size_t i = 0; i < size; ++i) content[i] = static_cast<std::byte>(i * 7 + 3);
  return content;
}

// Digests outlive the process (caches on disk), so these constants never change.
TEST(Hash, digests_are_the_same_on_every_machine_and_in_every_process) {
  EXPECT_EQ(to_string(digest_of({})), "99aa06d3014798d86001c324468d497f")
      << "the published XXH3-128 of nothing";
  EXPECT_EQ(to_string(digest_of(pattern(1000))), "6bcc7eff62da44c26c4f14bd97bd9e82");
  EXPECT_EQ(to_string(Hasher().add("ab").add("c").digest()), "f2eda2708bcfd51cc05c0ee4c9f60440");
}

TEST(Hash, text_is_32_hexadecimal_digits_with_leading_zeros) {
  EXPECT_EQ(to_string(Digest{{0x1, 0xab}}), "00000000000000ab0000000000000001");
}

TEST(Hash, one_changed_bit_changes_the_digest) {
  std::vector<std::byte> content = pattern(300);
  std::set<Digest> seen{digest_of(content)};
  for (std::byte& b : content) {
    b ^= std::byte{1};
    EXPECT_TRUE(seen.insert(digest_of(content)).second);
    b ^= std::byte{1};
  }
}

TEST(Hash, equal_sequences_of_fields_have_equal_digests) {
  const auto content = pattern(5000);
  Hasher a;
  Hasher b;
  a.add("name").add(uint64_t{3}).add(content);
  b.add("name").add(uint64_t{3}).add(content);
  EXPECT_EQ(a.digest(), b.digest());
}

TEST(Hash, fields_are_told_apart_by_their_lengths) {
  const Digest ab_c = Hasher().add("ab").add("c").digest();
  EXPECT_NE(ab_c, Hasher().add("a").add("bc").digest());
  EXPECT_NE(ab_c, Hasher().add("abc").digest());
  EXPECT_NE(ab_c, Hasher().add("c").add("ab").digest());
  EXPECT_NE(Hasher().digest(), Hasher().add("").digest());
  EXPECT_NE(Hasher().add("").digest(), Hasher().add("").add("").digest());
}

TEST(Hash, a_number_is_a_field_with_a_length_of_its_own) {
  const uint64_t number = 0x1122334455667788;
  std::array<std::byte, sizeof number> bytes{};
  std::memcpy(bytes.data(), &number, sizeof number);
  EXPECT_NE(Hasher().add(uint64_t{sizeof number}).add(number).digest(),
            Hasher().add(bytes).digest())
      << "two numbers, and one field of eight bytes";
}

TEST(Hash, asking_for_the_digest_does_not_disturb_what_is_added_later) {
  Hasher asked;
  asked.add("first");
  const Digest halfway = asked.digest();
  EXPECT_EQ(halfway, asked.digest());
  asked.add("second");
  EXPECT_EQ(asked.digest(), Hasher().add("first").add("second").digest());
  EXPECT_NE(asked.digest(), halfway);
}

TEST(Hash, a_moved_hasher_goes_on_where_it_was) {
  Hasher from;
  from.add("first");
  Hasher to = std::move(from);
  to.add("second");
  EXPECT_EQ(to.digest(), Hasher().add("first").add("second").digest());
  Hasher assigned;
  assigned.add("other");
  assigned = std::move(to);
  EXPECT_EQ(assigned.digest(), Hasher().add("first").add("second").digest());
}

TEST(Hash, text_and_its_bytes_are_the_same_field) {
  const std::string_view text = "kernel";
  EXPECT_EQ(Hasher().add(text).digest(), Hasher().add(std::as_bytes(std::span(text))).digest());
}

}  // namespace
}  // namespace holdfast
