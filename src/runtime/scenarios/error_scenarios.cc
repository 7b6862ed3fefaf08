#include <string_view>

#include "holdfast/base/error.h"
#include "holdfast/testing/rig.h"
#include "holdfast/testing/scenario.h"

// Work that fails, and who hears of it.
namespace holdfast::testing {
namespace {

// The call must raise the failure of the kernel 'explode', labelled 'attention'; where a fault was
// injected it may raise that one instead, but it must raise.
void expect_cause(World& world, std::string_view what, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string_view message = error.what();
    const bool named =
        error.code() == ErrorCode::execution && message.find("explode") != message.npos &&
        message.find("attention") != message.npos && message.find("it exploded") != message.npos;
    if (named) return;
    if (world.has_faults()) throw;
    ADD_FAILURE() << what << " raised something else: " << message;
    return;
  }
  ADD_FAILURE() << what << " raised nothing";
}

// mlx#4174: the device fails while it executes. Whoever waits for the results, or for what was made
// of them, gets the error and never silent zeros; what does not depend on them is good.
void fail_while_executing(World& world, bool host_visible) {
  Rig rig(world, {.queues = 2, .helpers = 0, .device_memory_host_visible = host_visible});
  const auto a = rig.stream("a", 0);
  const auto b = rig.stream("b", 1);
  const auto x = a->allocate(256_B, "x");
  const auto y = b->allocate(256_B, "y");
  const auto good = b->allocate(256_B, "good");
  run_explode(rig, *a, x, "attention");
  auto reader = world.task(
      "reader", [&] { expect_cause(world, "reading the result", [&] { bytes_of(*a, x); }); });
  auto dependent = world.task("dependent", [&] {
    put(*b, good, 8);
    expect_cause(world, "reading what was made of it", [&] {
      run_add(rig, *b, x, y, 1);
      bytes_of(*b, y);
    });
  });
  expect_cause(world, "synchronize", [&] { a->synchronize(patient()); });
  reader.join();
  dependent.join();
  // The streams work on, and what is overwritten is good again.
  put(*a, x, 2);
  run_add(rig, *b, x, y, 1);
  EXPECT_EQ(value_of(*b, y), 3);
  put(*b, good, 9);
  EXPECT_EQ(value_of(*b, good), 9);
}

RUNTIME_SCENARIO(mlx_4174_failure_while_executing_is_never_silent_zeros) {
  fail_while_executing(world, true);
}

RUNTIME_SCENARIO(mlx_4174_failure_while_executing_on_a_discrete_device) {
  fail_while_executing(world, false);
}

}  // namespace
}  // namespace holdfast::testing
