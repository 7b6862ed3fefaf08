#include "holdfast/base/never_destroyed.h"

#include <gtest/gtest.h>

#include <string>

namespace holdfast {
namespace {

struct Counted {
  explicit Counted(int* alive_of) : alive(alive_of) { ++*alive; }
  ~Counted() { --*alive; }
  int* alive;
};

TEST(NeverDestroyed, keeps_what_it_made_beyond_its_own_end) {
  int alive = 0;
  { const NeverDestroyed<Counted> kept(&alive); }
  EXPECT_EQ(alive, 1);
}

TEST(NeverDestroyed, is_used_as_what_it_keeps) {
  static NeverDestroyed<std::string> text(3, 'x');
  const std::string& same = text;
  EXPECT_EQ(same, "xxx");
  text.get() += "y";
  EXPECT_EQ(same, "xxxy");
}

}  // namespace
}  // namespace holdfast
