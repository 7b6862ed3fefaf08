#include "holdfast/array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "holdfast/creation.h"
#include "holdfast/hal/device.h"
#include "holdfast/ops.h"
#include "holdfast/runtime/context.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

TEST(ExternalArrays, at_a_misaligned_address_are_refused_and_given_back) {
  alignas(64) static std::array<std::byte, 256> memory{};
  for (const Dtype dtype : {float16, float32, int64, float64}) {
    const uint64_t size = size_of(dtype).value;
    for (uint64_t by = 1; by < size; ++by) {
      int deleted = 0;
      EXPECT_THAT(
          [&] {
            (void)from_external(
                memory.data() + by, dtype, {4}, [&] { ++deleted; }, "weights");
          },
          ThrowsMessage<UsageError>(AllOf(HasSubstr("'weights'"), HasSubstr("aligned to"),
                                          HasSubstr(std::to_string(size)),
                                          HasSubstr(kernel::to_string(dtype)))))
          << by;
      EXPECT_EQ(deleted, 1);
    }
  }
}

TEST(ExternalArrays, at_any_address_that_their_dtype_allows_are_used) {
  alignas(64) static std::array<float, 16> memory{0, 1, 2, 3, 4};
  const Array x = from_external(memory.data() + 1, float32, {4}, {});
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT((x + 1.0F).to_vector<float>(), ElementsAre(2, 3, 4, 5));
  const Array bytes =
      from_external(reinterpret_cast<std::byte*>(memory.data()) + 7, uint8, {1}, {});
  EXPECT_EQ(bytes.size(), 1);
  (void)bytes.to_vector<uint8_t>();
  synchronize();
}

TEST(ExternalArrays, of_no_bytes_and_of_absurd_shapes_are_given_back) {
  float memory[4] = {};
  int deleted = 0;
  const auto count = [&] { ++deleted; };
  EXPECT_THROW((void)from_external(memory, float32, {0}, count), UsageError);
  EXPECT_EQ(deleted, 1);
  EXPECT_THROW((void)from_external(memory, float32, {-1}, count), UsageError);
  EXPECT_EQ(deleted, 2);
  EXPECT_THROW((void)from_external(nullptr, float32, {4}, count), UsageError);
  EXPECT_EQ(deleted, 3);
}

TEST(Arrays, of_wrong_counts_are_refused) {
  EXPECT_THAT(
      [] {
        Array(std::vector<float>{1, 2, 3}, {2, 2});
      },
      ThrowsMessage<UsageError>(
          AllOf(HasSubstr("(2, 2)"), HasSubstr("4 elements"), HasSubstr("3 were given"))));
  EXPECT_THROW(Array(std::vector<float>{}, {}), UsageError);
}

TEST(Arrays, without_elements_are_read_and_mapped) {
  const Array x(std::vector<float>{}, {0, 3});
  EXPECT_THAT(x.to_vector<float>(), IsEmpty());
  const ArrayMap map = x.map();
  EXPECT_THAT(map.values<float>(), IsEmpty());
  EXPECT_THAT((x + 1.0F).to_vector<float>(), IsEmpty());
  EXPECT_THAT(copy(transpose(x)).to_vector<float>(), IsEmpty());
}

TEST(Arrays, copy_their_bytes_in_row_major_order_whatever_their_dtype) {
  const Array x(std::vector<int16_t>{1, 2, 3, 4}, {2, 2});
  std::array<int16_t, 4> to{};
  transpose(x).copy_to(std::as_writable_bytes(std::span(to)));
  EXPECT_THAT(to, ElementsAre(1, 3, 2, 4));
  EXPECT_THAT([&] { x.copy_to(std::as_writable_bytes(std::span(to).first(3))); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("8 bytes"), HasSubstr("room for 6"))));
}

TEST(Arrays, are_read_as_their_dtype_alone) {
  const Array x(std::vector<float>{1, 2});
  EXPECT_THAT([&] { (void)x.to_vector<int32_t>(); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("int32"), HasSubstr("float32"))));
  EXPECT_THAT([&] { (void)x.item<float>(); }, ThrowsMessage<UsageError>(HasSubstr("2 elements")));
  if (!default_device().context()->device()->info().device_memory_host_visible) {
    GTEST_SKIP() << "the host does not reach this device's memory";
  }
  const ArrayMap map = x.map();
  EXPECT_THROW((void)map.values<int32_t>(), UsageError);
  EXPECT_EQ(x.shape(-1), 2);
  EXPECT_THROW((void)x.shape(1), UsageError);
  EXPECT_THROW((void)x.shape(-2), UsageError);
}

TEST(Arrays, map_shows_the_elements_of_a_view_at_its_offset) {
  if (!default_device().context()->device()->info().device_memory_host_visible) {
    GTEST_SKIP() << "the host does not reach this device's memory";
  }
  const Array x(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3});
  const ArrayMap row = index(x, 1).map();
  EXPECT_THAT(row.values<float>(), ElementsAre(3, 4, 5));
  const ArrayMap last = index(index(x, 1), -1).map();
  EXPECT_THAT(last.values<float>(), ElementsAre(5));
  const ArrayMap backwards = slice(x, {{.step = -1}, {.start = 1}}).map();
  EXPECT_THAT(backwards.values<float>(), ElementsAre(4, 5, 1, 2));
}

TEST(Arrays, keep_the_first_name_they_are_given) {
  const Array x(std::vector<float>{1, 2});
  EXPECT_EQ(x.name(), "");
  EXPECT_EQ(index(x.set_name("first"), 0).name(), "first");
  x.set_name("second");
  EXPECT_EQ(x.name(), "first");
}

TEST(Arrays, through_a_layout_outside_their_memory_are_refused) {
  const Array x = zeros({4});
  EXPECT_THAT(
      [&] {
        (void)x.with_layout({{2}, {1}, 3});
      },
      ThrowsMessage<UsageError>(HasSubstr("3 to 4 of an array that has 4")));
  EXPECT_THROW((void)x.with_layout({{2}, {-1}, 0}), UsageError);
  EXPECT_THROW((void)x.with_layout({{1}, {1}, int64_t{1} << 62}), UsageError);
  EXPECT_THROW((void)x.with_layout({{2}, {int64_t{1} << 62}, int64_t{1} << 62}), UsageError);
  EXPECT_THAT(x.with_layout({{2}, {3}, 0}).to_vector<float>(), ElementsAre(0, 0));
}

TEST(Arrays, without_elements_lie_nowhere_however_far_their_layout_is) {
  const Array x = zeros({4});
  const Array none = x.with_layout({{0}, {1}, int64_t{1} << 62});
  EXPECT_EQ(none.layout().offset, 0);
  EXPECT_THAT(none.to_vector<float>(), IsEmpty());
  EXPECT_THAT((none + 1.0F).to_vector<float>(), IsEmpty());
  const ArrayMap map = none.map();
  EXPECT_THAT(map.values<float>(), IsEmpty());
}

}  // namespace
}  // namespace holdfast
