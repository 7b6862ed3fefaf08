#include "holdfast/array/node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/creation.h"
#include "holdfast/ops.h"

namespace holdfast::array {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

struct NodeTest : ::testing::Test {
  const Array x = full({4}, 1.0);
  Array y = x + 1.0F;
  Node& node = y.value()->node();
};

TEST_F(NodeTest, is_claimed_by_one_at_a_time) {
  EXPECT_EQ(node.state(), NodeState::built);
  ASSERT_TRUE(node.try_claim());
  EXPECT_EQ(node.state(), NodeState::claimed);
  EXPECT_FALSE(node.try_claim());
  node.give_up_claim();
  EXPECT_EQ(node.state(), NodeState::built);
  EXPECT_THAT(node.inputs(), SizeIs(1)) << "as it was";
  EXPECT_EQ(node.describe(), "'add'");
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(4, 2.0F));
  EXPECT_FALSE(node.try_claim()) << "it is over";
}

TEST_F(NodeTest, that_is_over_lets_go_of_its_inputs) {
  const uint32_t users = x.value()->users();
  ASSERT_TRUE(node.try_claim());
  const Failure why(ErrorCode::usage, "because");
  {
    Node::Spent spent;
    node.finish_failed(why, spent);
    EXPECT_THAT(spent.inputs, SizeIs(1));
    EXPECT_TRUE(spent.operation);
    EXPECT_EQ(x.value()->users(), users) << "they are the caller's now";
  }
  EXPECT_EQ(x.value()->users(), users - 1);
  EXPECT_EQ(node.state(), NodeState::failed);
  EXPECT_TRUE(node.is_over());
  EXPECT_EQ(node.failure().message(), "because");
  EXPECT_FALSE(Node::Pin(node)) << "nothing is left to pin";
}

TEST_F(NodeTest, that_is_pinned_keeps_its_inputs_until_the_last_pin_goes) {
  const uint32_t users = x.value()->users();
  {
    const Node::Pin first(node);
    Node::Pin second(node);
    ASSERT_TRUE(first && second);
    ASSERT_TRUE(node.try_claim()) << "pins and claims do not mind each other";
    {
      Node::Spent spent;
      node.finish_failed(Failure(ErrorCode::usage, "because"), spent);
      EXPECT_THAT(spent.inputs, IsEmpty()) << "they are the last pin's";
      EXPECT_FALSE(spent.operation);
    }
    EXPECT_THAT(node.inputs(), SizeIs(1));
    { const Node::Pin gone(std::move(second)); }
    EXPECT_EQ(x.value()->users(), users) << "one pin is left";
  }
  EXPECT_EQ(x.value()->users(), users - 1);
}

TEST_F(NodeTest, that_is_not_over_keeps_its_inputs_when_a_pin_goes) {
  const uint32_t users = x.value()->users();
  { const Node::Pin pin(node); }
  EXPECT_EQ(x.value()->users(), users);
  EXPECT_EQ(node.state(), NodeState::built);
}

TEST_F(NodeTest, has_memory_for_results_that_somebody_has) {
  y.eval();
  const Ref<Node> kept(&node);
  const Ref<hal::Allocation> memory = y.value()->memory();
  EXPECT_EQ(memory->users(), 2U);
  y = Array();
  EXPECT_EQ(memory->users(), 1U) << "gone with its last user, although the node is there";
}

TEST_F(NodeTest, gives_no_memory_to_results_that_nobody_has) {
  const Ref<Node> kept(&node);
  y.eval();
  const Ref<hal::Allocation> memory = y.value()->memory();
  const OutputType type{{4}, float32};
  const Ref<Node> other = Node::make({}, {}, {&type, 1}, kept->stream(), {});
  { const Array user(other->first_user(0)); }
  other->output(0).set_memory(memory);
  EXPECT_EQ(memory->users(), 2U) << "y's, and this one";
}

TEST_F(NodeTest, says_whether_its_memory_may_be_taken) {
  alignas(4096) static float memory[1024] = {};
  EXPECT_FALSE(from_external(memory, float32, {1024}, {}).value()->donatable());
  EXPECT_TRUE(Array(std::vector<float>{1}).value()->donatable());
  synchronize();
}

}  // namespace
}  // namespace holdfast::array
