#include "holdfast/array/npy_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "holdfast/base/error.h"

namespace holdfast::array {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string dictionary(const std::string& descr, const std::string& shape) {
  return "{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + ", }";
}

TEST(NpyHeader, is_read_as_numpy_writes_it) {
  EXPECT_EQ(parse_npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n"),
            (NpyHeader{float32, false, {3, 4}}));
  EXPECT_EQ(parse_npy_header("{'descr': '|b1', 'fortran_order': True, 'shape': (5,), }"),
            (NpyHeader{bool_, true, {5}}));
  EXPECT_EQ(parse_npy_header(dictionary("'<i8'", "()")), (NpyHeader{int64, false, {}}));
}

TEST(NpyHeader, is_read_as_python_would_read_it) {
  const NpyHeader expected{uint16, false, {2, 3}};
  for (const char* text :
       {"{'descr':'<u2','fortran_order':False,'shape':(2,3)}",
        "{\"shape\": (2, 3,), \"fortran_order\": False, \"descr\": \"<u2\"}",
        "\n {\t'shape' : ( 2 , 3 ) , 'descr' : '=u2' , 'fortran_order' : False , } \r\n",
        "{'descr': 'u2', 'fortran_order': False, 'shape': (2L, 3L), }"}) {
    EXPECT_EQ(parse_npy_header(text), expected) << text;
  }
}

TEST(NpyHeader, has_every_dtype_that_the_format_has) {
  for (unsigned i = 0; i < kernel::kDtypes; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    if (dtype == bfloat16) continue;
    const NpyHeader header{dtype, i % 2 == 0, {7, 1}};
    const std::string beginning = npy_beginning(header);
    EXPECT_EQ(parse_npy_header(std::string_view(beginning).substr(10)), header);
  }
}

TEST(NpyHeader, is_written_to_the_byte_as_numpy_writes_it) {
  const std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  EXPECT_EQ(npy_beginning({float32, false, {2, 3}}),
            std::string("\x93NUMPY\x01\x00\x76\x00", 10) + text + std::string(58, ' ') + "\n");
  for (const Shape& shape : {Shape{}, Shape{1}, Shape::filled(8, 2147483647)}) {
    EXPECT_EQ(npy_beginning({int8, false, shape}).size() % 64, 0U);
  }
}

TEST(NpyHeader, byte_order_matters_to_more_than_one_byte) {
  EXPECT_EQ(parse_npy_header(dictionary("'>i1'", "()")).dtype, int8);
  EXPECT_THAT(
      [] { parse_npy_header(dictionary("'>f4'", "()")); },
      ThrowsMessage<UsageError>(HasSubstr("big-endian dtype '>f4'; save it little-endian")));
}

TEST(NpyHeader, dtypes_that_arrays_do_not_have_are_refused_by_name) {
  for (const char* descr :
       {"<c8", "<f16", "<U3", "|S4", "<V2", "<M8[ns]", "", "<", "f", "b2", "i3"}) {
    EXPECT_THAT([&] { parse_npy_header(dictionary("'" + std::string(descr) + "'", "(1,)")); },
                ThrowsMessage<UsageError>(HasSubstr("'" + std::string(descr) + "'")))
        << descr;
  }
  EXPECT_THAT([] { parse_npy_header(dictionary("'|O'", "(1,)")); },
              ThrowsMessage<UsageError>(HasSubstr("Python objects")));
  EXPECT_THAT([] { parse_npy_header(dictionary("[('a', '<f4')]", "(1,)")); },
              ThrowsMessage<UsageError>(HasSubstr("structured")));
}

TEST(NpyHeader, what_is_in_a_message_cannot_disturb_a_terminal) {
  try {
    parse_npy_header(dictionary("'\x1b[2J" + std::string(5000, 'x') + "'", "(1,)"));
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()).find('\x1b'), std::string::npos);
    EXPECT_LT(std::string(error.what()).size(), 300U);
  }
}

TEST(NpyHeader, more_than_eight_dimensions_are_refused) {
  EXPECT_EQ(parse_npy_header(dictionary("'<f4'", "(1, 1, 1, 1, 1, 1, 1, 1)")).shape.size(), 8U);
  EXPECT_THAT([] { parse_npy_header(dictionary("'<f4'", "(1, 1, 1, 1, 1, 1, 1, 1, 1)")); },
              ThrowsMessage<UsageError>(HasSubstr("9 dimensions")));
  std::string many = "(";
  for (int i = 0; i < 10000; ++i) many += "1,";
  EXPECT_THROW(parse_npy_header(dictionary("'<f4'", many + ")")), UsageError);
}

TEST(NpyHeader, everything_else_is_refused) {
  const std::string good = dictionary("'<f4'", "(2,)");
  ASSERT_NO_THROW(parse_npy_header(good));
  // Each cut short, wherever that is.
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_THROW(parse_npy_header(good.substr(0, length)), UsageError) << length;
  }
  // A NUL in any place but those of a string, where the dtype or key is unknown then.
  for (size_t at = 0; at <= good.size(); ++at) {
    std::string text = good;
    text.insert(at, 1, '\0');
    EXPECT_THROW(parse_npy_header(text), UsageError) << at;
  }
  for (const char* shape : {"(-1,)",
                            "(2)",
                            "2",
                            "[2]",
                            "(2 3)",
                            "(,)",
                            "(2,,)",
                            "(2,",
                            "(2.0,)",
                            "(0x2,)",
                            "(1_0,)",
                            "(02,)",
                            "(+2,)",
                            "(True,)",
                            "(None,)",
                            "None",
                            "(99999999999999999999,)",
                            "('2',)",
                            "((2,),)",
                            "(2,)*3",
                            "(2LL,)",
                            "()()"}) {
    EXPECT_THROW(parse_npy_header(dictionary("'<f4'", shape)), UsageError) << shape;
  }
  for (const char* descr : {"<f4", "'<f4", "'<f4\"", "'<f\\x34'", "b'<f4'", "'<f4' 'x'", "None",
                            "4", "('<f4', (2,))", "'<f4\n'", "'''<f4'''"}) {
    EXPECT_THROW(parse_npy_header(dictionary(descr, "(2,)")), UsageError) << descr;
  }
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[]"), good + "x", good + good, "#" + good,
        "{" + good + "}", "{, " + good.substr(1), good.substr(0, good.size() - 1) + ", }",
        good.substr(0, good.size() - 1) + "'descr': '<f4', }",
        good.substr(0, good.size() - 1) + "'more': 1, }",
        std::string("{'descr': '<f4', 'shape': (2,), }"),
        std::string("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }"),
        std::string("{'descr': '<f4', 'fortran_order': Falsey, 'shape': (2,), }"),
        std::string("{'descr': '<f4' 'fortran_order': False, 'shape': (2,), }"),
        std::string("{'descr' '<f4', 'fortran_order': False, 'shape': (2,), }"),
        std::string("{1: '<f4', 'fortran_order': False, 'shape': (2,), }"), std::string(60000, '{'),
        std::string(60000, '(')}) {
    EXPECT_THROW(parse_npy_header(text), UsageError) << text.substr(0, 80);
  }
  EXPECT_THAT([] { parse_npy_header("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }"); },
              ThrowsMessage<UsageError>(HasSubstr("where True or False belongs")));
}

}  // namespace
}  // namespace holdfast::array
