#include "holdfast/testing/rig.h"
#include "holdfast/testing/scenario.h"

// What the first refused submission means, in every schedule: somebody hears of it.

namespace holdfast::testing {
namespace {

void never_fails_with_the_first_submit_refused(const ScenarioBody& body) {
  const simulation::Exploration done = simulation::explore(
      as_program(body), {1, 500}, [](uint64_t) { return std::vector<std::string>{"submit@1"}; });
  if (done.finding) ADD_FAILURE() << simulation::to_string(*done.finding);
}

TEST(RefusedSubmit, synchronize_raises_it_although_another_streams_need_submitted_the_list) {
  never_fails_with_the_first_submit_refused([](World& world) {
    Rig rig(world);
    const auto a = rig.stream("a", 0);
    const auto x = a->allocate(256_B, "x");
    a->fill(write_of(x), std::byte{5});
    const auto reader = world.task("reader", [&] {
      const auto b = rig.stream("b", 1);
      const auto y = b->allocate(256_B, "y");
      run_add(rig, *b, x, y, 1);
      b->flush();
    });
    a->synchronize();
    try {
      EXPECT_EQ(value_of(*a, x), 5);
    } catch (const Error& error) {
      ADD_FAILURE() << "synchronize said that all was well, but: " << error.what();
    }
  });
}

TEST(RefusedSubmit, a_readback_that_shares_the_transfer_list_raises_it_or_is_right) {
  never_fails_with_the_first_submit_refused([](World& world) {
    Rig rig(world, discrete());
    const auto read = [&](uint8_t value) {
      const auto stream = rig.stream();
      const auto x = stream->allocate(256_B, "x");
      stream->fill(write_of(x), std::byte{value});
      EXPECT_EQ(value_of(*stream, x), value);
    };
    const auto other = world.task("other", [&] { read(2); });
    read(1);
  });
}

TEST(RefusedSubmit, context_synchronize_raises_it_although_the_stream_is_dropped_meanwhile) {
  never_fails_with_the_first_submit_refused([](World& world) {
    Rig rig(world);
    auto a = rig.stream("a", 0);
    const auto x = a->allocate(256_B, "x");
    put(*a, x, 5);
    const auto dropper = world.task("dropper", [&] { a.reset(); });
    rig.context->synchronize();
  });
}

}  // namespace
}  // namespace holdfast::testing
