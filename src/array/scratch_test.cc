#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/array.h"
#include "holdfast/base/error.h"
#include "holdfast/operation.h"

namespace holdfast {
namespace {

// Asks for scratch of that many bytes and notes its shape; writes ones as its output.
class Scratches final : public Operation {
 public:
  Scratches(Bytes bytes, Shape& shape) : bytes_(bytes), shape_(shape) {}
  std::string_view name() const noexcept override { return "scratches"; }
  void record(Encoder& encoder) const override {
    shape_ = encoder.scratch(bytes_).shape();
    encoder.fill(encoder.output(0), std::byte{1});
  }

 private:
  Bytes bytes_;
  Shape& shape_;
};

Shape shape_of_scratch(Bytes bytes) {
  Shape shape;
  const Array x = apply(make_ref<const Scratches>(bytes, shape), {}, OutputType{{4}, Dtype::uint8});
  EXPECT_EQ(x.to_vector<uint8_t>(), std::vector<uint8_t>(4, 1));
  return shape;
}

TEST(Scratch, of_up_to_two_gibibytes_has_one_axis) {
  EXPECT_EQ(shape_of_scratch(0_B), (Shape{0}));
  EXPECT_EQ(shape_of_scratch(1000_B), (Shape{1000}));
  EXPECT_EQ(shape_of_scratch(2_GiB - 1_B), (Shape{2147483647}));
}

TEST(Scratch, above_two_gibibytes_has_rows_and_wastes_less_than_one_byte_for_each) {
  for (const Bytes bytes : {2_GiB, 2_GiB + 1_B}) {
    const Shape shape = shape_of_scratch(bytes);
    ASSERT_EQ(shape.size(), 2U);
    const auto given = static_cast<uint64_t>(elements(shape));
    EXPECT_GE(given, bytes.value);
    EXPECT_LT(given, bytes.value + 2);
  }
}

TEST(Results, for_which_there_is_no_room_are_named_after_their_operation) {
  class Greedy final : public Operation {
   public:
    std::string_view name() const noexcept override { return "greedy"; }
    void record(Encoder& encoder) const override { (void)encoder.output(0); }
  };
  const Array x = apply(make_ref<const Greedy>(), {}, OutputType{{1 << 30, 1 << 17}, Dtype::uint8});
  EXPECT_THAT([&] { x.eval(); },
              ::testing::ThrowsMessage<OutOfMemoryError>(::testing::HasSubstr("for 'greedy'")));
}

}  // namespace
}  // namespace holdfast
