#include <atomic>

#include "holdfast/array/scenarios/array_kernels_test.h"

// Who waits for a node that another task is recording is woken when that task is done with it,
// however it ends. Under the simulation time stands still until nothing else can happen: a wait
// that had to look again by itself would show.
namespace holdfast {
namespace {

using ::testing::Each;
using testing::Event;
using ::testing::HasSubstr;
using testing::World;

enum class Ends { recorded, failed, interrupted, out_of_memory };

// Blocks the first task that records it until it is let go, and then ends as told.
class Held final : public Operation {
 public:
  Held(Ends ends, Event& claimed, Event& release)
      : ends_(ends), claimed_(claimed), release_(release) {}
  std::string_view name() const noexcept override { return "held"; }
  void record(Encoder& encoder) const override {
    if (calls_.fetch_add(1) == 0) {
      claimed_.set();
      EXPECT_TRUE(release_.wait());
    }
    if (ends_ == Ends::failed) throw UsageError("it does not like it");
    if (ends_ == Ends::interrupted && calls_ == 1) throw InterruptedError("as if by a signal");
    if (ends_ == Ends::out_of_memory && encoder.inputs() == 0 && calls_ <= 8) {
      throw OutOfMemoryError("nothing left");
    }
    encoder.fill_elements(encoder.output(0), 0.0F);
  }

 private:
  const Ends ends_;
  Event& claimed_;
  Event& release_;
  mutable std::atomic<int> calls_{0};
};

void claim_ends(World& world, Ends ends) {
  ArrayRig rig(world);
  Event claimed;
  Event release;
  const Array y =
      apply(make_ref<const Held>(ends, claimed, release), {}, OutputType{{kLength}, float32});
  auto holder = world.task("holder", [&, y] {
    try {
      async_eval(y);
      EXPECT_EQ(ends, Ends::recorded);
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("it does not like it"));
      EXPECT_EQ(ends, Ends::failed);
    } catch (const InterruptedError&) {
      EXPECT_EQ(ends, Ends::interrupted);
    } catch (const OutOfMemoryError&) {
      EXPECT_EQ(ends, Ends::out_of_memory);
    }
  });
  ASSERT_TRUE(claimed.wait());
  const sync::TimePoint begin = sync::now();
  sync::TimePoint released = begin;
  WaitLimit limit;
  limit.interrupted = [&] {
    // Asked when the waiting task looks up for the first time.
    if (!release.is_set()) {
      released = sync::now();
      release.set();
    }
    return false;
  };
  if (ends == Ends::failed) {
    EXPECT_THROW(y.eval(limit), UsageError);
  } else {
    // What another task was refused is tried again here, until it is there or refused here too.
    for (int attempt = 0; attempt < 8 && !y.is_recorded(); ++attempt) {
      try {
        y.eval(limit);
      } catch (const OutOfMemoryError&) {
        EXPECT_EQ(ends, Ends::out_of_memory);
      }
    }
    EXPECT_THAT(y.to_vector<float>(), Each(0.0F));
  }
  EXPECT_TRUE(release.is_set());
  const runtime::WaitStats waited = rig.stats().runtime.waits_for(runtime::WaitReason::recording);
  EXPECT_GE(waited.count, 1U);
  EXPECT_EQ(waited.total.count(), (released - begin).count())
      << "it was not woken, but looked by itself";
  holder.join();
}

class Claims : public ::testing::TestWithParam<Ends> {};

TEST_P(Claims, that_end_wake_whoever_waits_for_them_adversary) {
  const simulation::Program program =
      testing::as_program([](World& world) { claim_ends(world, GetParam()); });
  // No decision but the default ones: time passes only where nothing else can happen.
  const simulation::Variant variant{1, simulation::Deviations::Choices{}, {}};
  const simulation::Result result = simulation::run_variant(program, variant);
  EXPECT_EQ(result.failure, "");
}

INSTANTIATE_TEST_SUITE_P(Scenario, Claims,
                         ::testing::Values(Ends::recorded, Ends::failed, Ends::interrupted,
                                           Ends::out_of_memory),
                         [](const auto& name) {
                           switch (name.param) {
                             case Ends::recorded: return "recorded";
                             case Ends::failed: return "failed";
                             case Ends::interrupted: return "interrupted";
                             default: return "out_of_memory";
                           }
                         });

}  // namespace
}  // namespace holdfast
