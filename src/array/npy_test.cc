#include "holdfast/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "holdfast/array/host_bytes.h"
#include "holdfast/array/npy_header.h"
#include "holdfast/base/error.h"
#include "holdfast/testing/temporary_folder.h"
#include "holdfast/views.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void put(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

size_t entries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A file of version 1 with that dictionary.
std::string file_of(const std::string& dictionary, const std::string& data) {
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(dictionary.size() & 0xff);
  text += static_cast<char>(dictionary.size() >> 8);
  return text + dictionary + data;
}

class Npy : public ::testing::Test {
 protected:
  testing::TemporaryFolder folder;
  const std::string path = folder.path() / "x.npy";

  template <Element T>
  void expect_same_after_a_file(const std::vector<T>& values) {
    const Array before(std::span<const T>(values), {2, 3});
    save_npy(path, before);
    const Array after = load_npy(path);
    EXPECT_EQ(after.dtype(), before.dtype());
    EXPECT_EQ(after.shape(), before.shape());
    EXPECT_EQ(after.to_vector<T>(), values);
  }
};

TEST_F(Npy, every_dtype_comes_back_as_it_was) {
  expect_same_after_a_file<int8_t>({-128, -1, 0, 1, 2, 127});
  expect_same_after_a_file<uint8_t>({0, 1, 2, 3, 128, 255});
  expect_same_after_a_file<int16_t>({-32768, -1, 0, 1, 2, 32767});
  expect_same_after_a_file<uint16_t>({0, 1, 2, 3, 4, 65535});
  expect_same_after_a_file<int32_t>({INT32_MIN, -1, 0, 1, 2, INT32_MAX});
  expect_same_after_a_file<uint32_t>({0, 1, 2, 3, 4, UINT32_MAX});
  expect_same_after_a_file<int64_t>({INT64_MIN, -1, 0, 1, 2, INT64_MAX});
  expect_same_after_a_file<uint64_t>({0, 1, 2, 3, 4, UINT64_MAX});
  expect_same_after_a_file<Float16>(
      {Float16(0.1F), Float16(-2), Float16(65504), Float16(6e-8F), Float16(0), Float16(1e9F)});
  expect_same_after_a_file<float>({0.1F, -2, 3e38F, 1e-45F, 0, INFINITY});
  expect_same_after_a_file<double>({0.1, -2, 1e308, 5e-324, 0, -INFINITY});
  save_npy(path, Array({true, false, true}, {3}));
  EXPECT_EQ(load_npy(path).to_vector<bool>(), (std::vector<bool>{true, false, true}));
}

TEST_F(Npy, a_file_is_to_the_byte_what_numpy_writes) {
  save_npy(path, Array({1, 2, 3, 4, 5, 6}, {2, 3}));
  EXPECT_EQ(text_of(path),
            array::npy_beginning({int32, false, {2, 3}}) + raw<int32_t>({1, 2, 3, 4, 5, 6}));
}

TEST_F(Npy, scalars_and_arrays_without_elements_come_back) {
  save_npy(path, Array(2.5F));
  EXPECT_EQ(load_npy(path).shape(), Shape{});
  EXPECT_EQ(load_npy(path).item<float>(), 2.5F);
  save_npy(path, Array(std::vector<float>{}, {4, 0, 3}));
  EXPECT_EQ(load_npy(path).shape(), (Shape{4, 0, 3}));
  EXPECT_EQ(load_npy(path).dtype(), float32);
}

TEST_F(Npy, views_are_saved_in_their_own_order) {
  const Array x({1, 2, 3, 4, 5, 6}, {2, 3});
  save_npy(path, slice(transpose(x), {{.step = -2}}));
  EXPECT_EQ(load_npy(path).shape(), (Shape{2, 2}));
  EXPECT_THAT(load_npy(path).to_vector<int32_t>(), ElementsAre(3, 6, 1, 4));
}

TEST_F(Npy, a_column_major_file_is_a_transposed_view) {
  put(path, array::npy_beginning({int32, true, {2, 3}}) + raw<int32_t>({1, 4, 2, 5, 3, 6}));
  const Array x = load_npy(path);
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  EXPECT_EQ(x.strides(), (Strides{1, 2}));
  EXPECT_THAT(x.to_vector<int32_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(Npy, versions_two_and_three_have_longer_lengths) {
  const std::string dictionary = "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n";
  for (const char version : {'\x02', '\x03'}) {
    std::string text = "\x93NUMPY";
    text += {version, '\0', static_cast<char>(dictionary.size()), '\0', '\0', '\0'};
    put(path, text + dictionary + raw<int32_t>({7, 8}));
    EXPECT_THAT(load_npy(path).to_vector<int32_t>(), ElementsAre(7, 8));
  }
}

TEST_F(Npy, what_follows_the_array_is_ignored) {
  put(path, array::npy_beginning({int8, false, {2}}) + "\x01\x02 and more");
  EXPECT_THAT(load_npy(path).to_vector<int8_t>(), ElementsAre(1, 2));
}

TEST_F(Npy, any_byte_but_zero_is_true) {
  put(path, array::npy_beginning({bool_, false, {4}}) + std::string("\x00\x01\x02\xff", 4));
  std::vector<unsigned> bytes;
  for (const std::byte b : array::host_bytes(load_npy(path)))
    bytes.push_back(std::to_integer<unsigned>(b));
  EXPECT_THAT(bytes, ElementsAre(0, 1, 1, 1));
}

TEST_F(Npy, an_array_is_named_after_its_file) {
  save_npy(path, Array(1));
  EXPECT_EQ(load_npy(path).name(), "x.npy");
}

TEST_F(Npy, files_that_are_no_array_are_refused_by_name) {
  const std::string tail = "', 'fortran_order': False, 'shape': ";
  const auto shaped = [&](const std::string& shape) {
    return file_of("{'descr': '<f4" + tail + shape + "}", "12345678");
  };
  const std::pair<std::string, const char*> files[] = {
      {"", "truncated"},
      {"\x93NUM", "truncated"},
      {std::string("\x93NUMPY\x01\x00", 8), "truncated"},
      {"PK\x03\x04 an npz archive", "does not begin as one"},
      {std::string("\x93NUMPY\x00\x00\x10\x00", 10), "version 0"},
      {std::string("\x93NUMPY\x04\x00\x10\x00", 10), "version 4"},
      {std::string("\x93NUMPY\x01\x00\xff\xff{", 11), "a header of 65535 bytes"},
      {std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{", 13), "a header of 4294967295 bytes"},
      {std::string("\x93NUMPY\x02\x00\x01\x00\x01\x00", 12) + std::string(70000, ' '),
       "a header of 65537 bytes"},
      {file_of("", ""), "damaged"},
      {file_of("{'descr': '>f4" + tail + "(2,)}", "12345678"), "big-endian"},
      {file_of("{'descr': '|O" + tail + "(2,)}", "12345678"), "Python objects"},
      {file_of("{'descr': '<c8" + tail + "(1,)}", "12345678"), "dtype '<c8'"},
      {shaped("(3,)"), "8 B of data where an array of shape (3,) and dtype float32 has 12 B"},
      {shaped("(2147483647,)"), "truncated"},
      {shaped("(2147483648,)"), "length 2147483648"},
      {shaped("(9223372036854775807,)"), "length 9223372036854775807"},
      {shaped("(2147483647, 2147483647)"), "more elements than any memory"},
      {shaped("(65536, 65536, 65536, 65536)"), "more elements than any memory"},
      {shaped("(-2,)"), "damaged"},
      {shaped("(1, 1, 1, 1, 1, 1, 1, 1, 2)"), "9 dimensions"},
      {shaped(std::string("(2,)\0", 5)), "damaged"},
  };
  for (const auto& [text, why] : files) {
    put(path, text);
    EXPECT_THAT([&] { load_npy(path); },
                ThrowsMessage<UsageError>(AllOf(HasSubstr("'" + path + "'"), HasSubstr(why))))
        << why;
  }
}

TEST_F(Npy, lengths_that_are_absurd_beside_a_zero_load) {
  put(path, array::npy_beginning({float32, true, {2147483647, 2147483647, 2147483647, 0}}));
  EXPECT_EQ(load_npy(path).size(), 0);
}

TEST_F(Npy, files_that_cannot_be_read_are_told_apart_from_damaged_ones) {
  EXPECT_THAT([&] { load_npy(path); },
              ThrowsMessage<EnvironmentError>(AllOf(HasSubstr(path), HasSubstr("No such file"))));
  EXPECT_THROW(load_npy(folder.path()), EnvironmentError);
  // Nobody will ever write to it.
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THROW(load_npy(path), EnvironmentError);
}

TEST(NpyFuzz, any_damage_to_a_file_gives_an_array_or_a_usage_error) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() / "x.npy";
  const std::string good =
      array::npy_beginning({float32, false, {2, 3}}) + raw<float>({1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(rc::check([&] {
    std::string text = good;
    const int changes = *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(1, 4));
    for (int i = 0; i < changes && !text.empty(); ++i) {
      // Mostly where it matters: before the padding.
      const size_t at = *rc::gen::resize(
          rc::kNominalSize, rc::gen::inRange<size_t>(0, std::min<size_t>(text.size(), 75)));
      const auto with = *rc::gen::oneOf(rc::gen::arbitrary<char>(),
                                        rc::gen::element('0', '9', '(', ')', ',', '\'', '<', '8'));
      switch (*rc::gen::element(0, 1, 2, 3)) {
        case 0: text[at] = with; break;
        case 1: text.insert(at, 1, with); break;
        case 2: text.erase(at, 1); break;
        default: text.resize(at * 2 < text.size() ? at * 2 : at); break;
      }
    }
    put(path, text);
    try {
      const Array x = load_npy(path);
      RC_ASSERT(x.nbytes().value <= text.size());
    } catch (const UsageError& error) {
      RC_ASSERT(std::string_view(error.what()).find(path) != std::string_view::npos);
    }
  }));
}

TEST_F(Npy, bfloat16_is_refused_with_what_to_do) {
  EXPECT_THAT([&] { save_npy(path, Array(BFloat16(1))); },
              ThrowsMessage<UsageError>(HasSubstr("astype(float32)")));
  EXPECT_EQ(entries(folder.path()), 0U);
}

TEST_F(Npy, a_file_is_replaced_and_nothing_is_left_beside_it) {
  save_npy(path, Array({1, 2, 3}, {3}));
  save_npy(path, Array({4}, {1}));
  EXPECT_THAT(load_npy(path).to_vector<int32_t>(), ElementsAre(4));
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST_F(Npy, a_link_stays_a_link) {
  const fs::path real = folder.path() / "real.npy";
  save_npy(real, Array(1));
  fs::create_symlink(real, path);
  save_npy(path, Array(2));
  EXPECT_TRUE(fs::is_symlink(path));
  EXPECT_EQ(load_npy(real).item<int32_t>(), 2);
}

TEST_F(Npy, what_cannot_be_written_leaves_all_as_it_was) {
  EXPECT_THAT([&] { save_npy(folder.path() / "no" / "x.npy", Array(1)); },
              ThrowsMessage<EnvironmentError>(HasSubstr("No such file")));
  fs::create_directory(path);
  EXPECT_THROW(save_npy(path, Array(1)), EnvironmentError);
  EXPECT_THROW(save_npy("", Array(1)), EnvironmentError);
  EXPECT_EQ(entries(folder.path()), 1U);
  EXPECT_EQ(entries(path), 0U);
}

TEST_F(Npy, a_write_that_runs_out_of_room_leaves_the_old_file_and_no_litter) {
  save_npy(path, Array(7));
  const Array large(std::vector<double>(10'000), {100, 100});
  large.eval();
  // A limit on the size of files stands for a full disk.
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit whole{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &whole), 0);
  const rlimit small{4096, whole.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(save_npy(path, large), EnvironmentError);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &whole), 0);
  std::signal(SIGXFSZ, before);

  EXPECT_EQ(load_npy(path).item<int32_t>(), 7);
  EXPECT_EQ(entries(folder.path()), 1U);
}

}  // namespace
}  // namespace holdfast
