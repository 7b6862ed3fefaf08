#include "holdfast/kernel/cache/signature_key.h"

#include <gtest/gtest.h>

#include <vector>

namespace holdfast::kernel {
namespace {

CallSignature whole_call() {
  return {.inputs = {{Dtype::float16, 2}, {Dtype::float32, 1}},
          .outputs = {{Dtype::float32, 2}},
          .in_place = {{Dtype::int32, 0}},
          .constants = {{"T", Dtype::float16}, {"N", int64_t{768}}, {"fast", true}},
          .params = {{"eps", Dtype::float32}}};
}

TEST(SignatureKey, equal_signatures_have_equal_keys_and_hashes) {
  EXPECT_EQ(SignatureKey(whole_call()), SignatureKey(whole_call()));
  EXPECT_EQ(SignatureKey(whole_call()).hash(), SignatureKey(whole_call()).hash());
}

TEST(SignatureKey, built_in_parts_it_is_the_same) {
  SignatureKey key;
  key.add_counts(2, 1, 1, 3, 1);
  key.add(Dtype::float16, 2);
  key.add(Dtype::float32, 1);
  key.add(Dtype::float32, 2);
  key.add(Dtype::int32, 0);
  key.add("T", ConstantValue(Dtype::float16));
  key.add("N", ConstantValue(int64_t{768}));
  key.add("fast", ConstantValue(true));
  key.add("eps", Dtype::float32);
  EXPECT_EQ(key, SignatureKey(whole_call()));
}

TEST(SignatureKey, whatever_differs_makes_another_key) {
  std::vector<CallSignature> all{whole_call()};
  const auto with = [&](auto change) {
    all.push_back(whole_call());
    change(all.back());
  };
  with([](CallSignature& s) { s.inputs[0].dtype = Dtype::bfloat16; });
  with([](CallSignature& s) { s.inputs[0].rank = 3; });
  with([](CallSignature& s) { std::swap(s.inputs[0], s.inputs[1]); });
  with([](CallSignature& s) { s.outputs[0].rank = 1; });
  with([](CallSignature& s) { s.in_place.clear(); });
  with([](CallSignature& s) { s.outputs.push_back(s.in_place[0]), s.in_place.clear(); });
  with([](CallSignature& s) { s.constants[0].value = Dtype::float32; });
  with([](CallSignature& s) { s.constants[1].value = int64_t{769}; });
  with([](CallSignature& s) { s.constants[1].value = int64_t{-768}; });
  with([](CallSignature& s) { s.constants[1].name = "M"; });
  with([](CallSignature& s) { s.constants[2].value = false; });
  with([](CallSignature& s) { s.constants[2].value = int64_t{1}; });
  with([](CallSignature& s) { s.constants[2].value = Dtype::int8; });
  with([](CallSignature& s) { s.params[0].dtype = Dtype::float64; });
  with([](CallSignature& s) { s.params[0].name = "epsilon"; });
  with([](CallSignature& s) { s.params.clear(); });
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t k = 0; k < all.size(); ++k) {
      EXPECT_EQ(SignatureKey(all[i]) == SignatureKey(all[k]), i == k) << i << " and " << k;
    }
  }
}

// The bytes of a dtype and of a count can be made part of a name.
TEST(SignatureKey, a_name_cannot_pretend_to_be_two_parts) {
  const auto bytes = [](uint64_t number) {
    return std::string(reinterpret_cast<const char*>(&number), sizeof number);
  };
  const CallSignature two{.params = {{"a", Dtype::int8}, {"b", Dtype::int8}}};
  for (const std::string& name :
       {"a" + bytes(1) + "b", "a" + bytes(1) + bytes(1) + "b", std::string("ab")}) {
    EXPECT_FALSE(SignatureKey(CallSignature{.params = {{name, Dtype::int8}}}) == SignatureKey(two));
    EXPECT_FALSE(SignatureKey(CallSignature{.params = {{name, Dtype::int8}, {"", Dtype::int8}}}) ==
                 SignatureKey(two));
  }
}

TEST(SignatureKey, a_signature_of_any_length_has_a_key) {
  CallSignature longer;
  for (int i = 0; i < 100; ++i) {
    longer.constants.push_back({"constant_with_a_long_name_" + std::to_string(i), int64_t{i}});
  }
  CallSignature other = longer;
  EXPECT_EQ(SignatureKey(longer), SignatureKey(other));
  other.constants[99].value = int64_t{0};
  EXPECT_FALSE(SignatureKey(longer) == SignatureKey(other));
}

}  // namespace
}  // namespace holdfast::kernel
