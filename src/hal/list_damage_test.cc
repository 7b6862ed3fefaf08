#include "holdfast/hal/list_damage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

#include "holdfast/base/range_test.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/hal/host_timeline.h"
#include "holdfast/hal/program.h"

// What a failure in a list, or in what it waits for, makes of the list. Nothing runs here.

namespace holdfast::hal {
namespace {

const Failure kCause(ErrorCode::execution, "cause");
const Failure kOther(ErrorCode::execution, "other");

class ListDamageTest : public ::testing::Test {
 protected:
  static CpuOptions small() {
    CpuOptions options;
    options.queues = 1;
    options.helpers = 0;
    return options;
  }
  Ref<Allocation> memory(std::string name) {
    return Allocation::whole(
        device_->create_buffer({1_KiB, MemoryKind::device, std::move(name)}).or_raise());
  }
  static Binding read(const Ref<Allocation>& a, ByteRange bytes = range(0, 64)) {
    return Binding::of(a, bytes, Access::read);
  }
  static Binding write(const Ref<Allocation>& a, ByteRange bytes = range(0, 64)) {
    return Binding::of(a, bytes, Access::write);
  }
  static Binding update(const Ref<Allocation>& a, ByteRange bytes = range(0, 64)) {
    return Binding::of(a, bytes, Access::read_write);
  }
  // A command of the list, behind a barrier.
  void add(std::initializer_list<Binding> bindings) {
    list_.native([](const NativeCall&) {}, std::vector<Binding>(bindings));
    list_.barrier();
  }
  const Work& work() { return work_; }
  Wait& wait(WaitKind kind) {
    waits_.push_back({{timeline_, {waits_.size() + 1}}, kind});
    work_.waits = waits_;
    return waits_.back();
  }
  void awaits(uint32_t index, const Ref<Allocation>& a, ByteRange bytes, bool answers = false) {
    awaited_.push_back({index, answers, a->id(), bytes});
    work_.awaited = awaited_;
  }
  static std::shared_ptr<const Damage> bad(const Ref<Allocation>& a, ByteRange bytes,
                                           const Failure& cause = kCause) {
    Damage damage;
    damage.add(a->id(), bytes, cause);
    return std::make_shared<const Damage>(damage);
  }
  // Runs the list in recorded order; the commands of these numbers fail. Which ones ran.
  std::vector<size_t> run(ListDamage& damage, const std::map<size_t, Failure>& failing = {}) {
    std::vector<size_t> ran;
    size_t index = 0;
    for (const Command& command : list_) {
      if (command.is_mark() || command.kind == CommandKind::barrier) continue;
      if (damage.enter(command)) {
        ran.push_back(index);
        const auto fails = failing.find(index);
        if (fails != failing.end()) damage.fail(command, fails->second);
      }
      ++index;
    }
    return ran;
  }

  Ref<CpuDevice> device_ = CpuDevice::open(small());
  Ref<HostTimeline> timeline_ = make_ref<HostTimeline>(DeviceId{}, "timeline");
  Ref<Allocation> x_ = memory("x");
  Ref<Allocation> y_ = memory("y");
  Ref<Allocation> z_ = memory("z");
  CommandList list_{device_->info(), "list"};
  std::vector<Wait> waits_;
  std::vector<AwaitedBytes> awaited_;
  Work work_{&list_, nullptr, {}, {}, nullptr, {}};
};

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(ListDamageTest, a_list_in_which_nothing_fails_ends_well) {
  add({write(x_)});
  ListDamage damage(work());
  EXPECT_THAT(run(damage), ElementsAre(0));
  EXPECT_FALSE(damage.finish());
}

TEST_F(ListDamageTest, a_failed_command_damages_what_it_writes_and_what_its_readers_write) {
  add({write(x_)});
  add({read(x_), write(y_, range(100, 10))});
  add({read(y_, range(105, 1)), update(z_, range(0, 8))});
  add({write(z_, range(8, 8))});
  ListDamage damage(work());
  EXPECT_THAT(run(damage, {{0, kCause}}), ElementsAre(0, 3)) << "readers of bad bytes do not run";
  const ListFailure failure = damage.finish();
  EXPECT_EQ(failure.cause, kCause);
  EXPECT_EQ(failure.damage->find(x_->id(), range(63, 1)), kCause);
  EXPECT_EQ(failure.damage->find(y_->id(), range(100, 1)), kCause);
  EXPECT_EQ(failure.damage->find(z_->id(), range(0, 8)), kCause);
  EXPECT_FALSE(failure.damage->find(y_->id(), range(0, 100)));
  EXPECT_FALSE(failure.damage->find(z_->id(), range(8, 8)));
}

TEST_F(ListDamageTest, readers_of_bytes_beside_the_bad_ones_run) {
  add({write(x_, range(0, 32))});
  add({read(x_, range(32, 32)), write(y_)});
  ListDamage damage(work());
  EXPECT_THAT(run(damage, {{0, kCause}}), ElementsAre(0, 1));
  EXPECT_FALSE(damage.finish().damage->find(y_->id(), range(0, 64)));
}

TEST_F(ListDamageTest,
       what_the_list_overwrites_itself_is_good_and_the_list_has_failed_all_the_same) {
  add({write(x_)});
  add({write(x_)});
  add({read(x_), write(y_)});
  ListDamage damage(work());
  EXPECT_THAT(run(damage, {{0, kCause}}), ElementsAre(0, 1, 2));
  const ListFailure failure = damage.finish();
  EXPECT_EQ(failure.cause, kCause);
  EXPECT_TRUE(failure.damage->empty());
}

TEST_F(ListDamageTest, each_dependant_has_the_cause_of_what_it_depends_on_and_the_list_the_first) {
  add({write(x_)});
  add({write(y_)});
  add({read(y_), write(z_)});
  ListDamage damage(work());
  run(damage, {{0, kCause}, {1, kOther}});
  const ListFailure failure = damage.finish();
  EXPECT_EQ(failure.cause, kCause);
  EXPECT_EQ(failure.damage->find(x_->id(), range(0, 64)), kCause);
  EXPECT_EQ(failure.damage->find(z_->id(), range(0, 64)), kOther);
}

TEST_F(ListDamageTest, the_first_command_in_recorded_order_gives_the_cause_whichever_failed_first) {
  add({write(x_)});
  add({write(y_)});
  ListDamage damage(work());
  std::vector<const Command*> commands;
  for (const Command& command : list_) {
    if (command.kind != CommandKind::barrier) commands.push_back(&command);
  }
  damage.fail(*commands[1], kOther);
  damage.fail(*commands[0], kCause);
  EXPECT_EQ(damage.finish().cause, kCause);
}

TEST_F(ListDamageTest, another_life_of_the_same_bytes_is_not_damaged) {
  const auto next = Allocation::whole(x_->buffer());
  add({write(x_)});
  add({write(next)});
  add({read(next), write(y_)});
  ListDamage damage(work());
  EXPECT_THAT(run(damage, {{0, kCause}}), ElementsAre(0, 1, 2));
  const ListFailure failure = damage.finish();
  EXPECT_EQ(failure.damage->find(x_->id(), range(0, 64)), kCause) << "of the first life";
  EXPECT_FALSE(failure.damage->find(next->id(), range(0, 64)));
}

TEST_F(ListDamageTest, commands_that_read_what_a_wait_left_bad_do_not_run_and_others_do) {
  wait(WaitKind::data);
  add({read(x_, range(0, 8)), write(y_)});
  add({read(x_, range(8, 8)), write(z_)});
  ListDamage damage(work());
  damage.wait_failed(0, {kOther, bad(x_, range(0, 8))});
  EXPECT_FALSE(damage.forbids_all());
  EXPECT_THAT(run(damage), ElementsAre(1));
  const ListFailure failure = damage.finish();
  EXPECT_EQ(failure.cause, kCause) << "the byte's, not the Point's";
  EXPECT_EQ(failure.damage->find(y_->id(), range(0, 64)), kCause);
  EXPECT_FALSE(failure.damage->find(z_->id(), range(0, 64)));
  EXPECT_FALSE(failure.damage->find(x_->id(), range(0, 64))) << "that is the other list's";
}

TEST_F(ListDamageTest, a_list_that_meets_no_bad_byte_of_a_failed_wait_ends_well) {
  wait(WaitKind::data);
  add({read(x_, range(8, 8)), write(y_)});
  add({write(x_, range(0, 8))});
  add({read(x_, range(0, 8)), write(z_)});
  ListDamage damage(work());
  damage.wait_failed(0, {kCause, bad(x_, range(0, 8))});
  EXPECT_THAT(run(damage), ElementsAre(0, 1, 2));
  EXPECT_FALSE(damage.finish());
}

TEST_F(ListDamageTest, an_order_wait_hands_nothing_on) {
  wait(WaitKind::order);
  add({read(x_), write(y_)});
  ListDamage damage(work());
  damage.wait_failed(0, {kCause, bad(x_, range(0, 64))});
  damage.wait_failed(0, {kCause, nullptr});
  EXPECT_FALSE(damage.forbids_all());
  EXPECT_THAT(run(damage), ElementsAre(0));
  EXPECT_FALSE(damage.finish());
}

TEST_F(ListDamageTest, of_a_wait_that_names_bytes_only_these_count) {
  wait(WaitKind::data);
  awaits(0, x_, range(8, 8));
  add({read(x_, range(0, 8)), write(y_)});
  add({read(x_, range(8, 8)), write(z_)});
  ListDamage healed(work());
  healed.wait_failed(0, {kCause, bad(x_, range(0, 8))});
  EXPECT_THAT(run(healed), ElementsAre(0, 1)) << "somebody has overwritten them since";
  EXPECT_FALSE(healed.finish());
  ListDamage hit(work());
  hit.wait_failed(0, {kCause, bad(x_, range(0, 16))});
  EXPECT_THAT(run(hit), ElementsAre(0));
}

TEST_F(ListDamageTest, of_a_wait_that_names_bytes_all_of_them_are_bad_where_nobody_can_tell) {
  wait(WaitKind::data);
  awaits(0, x_, range(8, 8));
  add({read(x_, range(0, 8)), write(y_)});
  add({read(x_, range(8, 8)), write(z_)});
  ListDamage damage(work());
  damage.wait_failed(0, {kCause, nullptr});
  EXPECT_FALSE(damage.forbids_all());
  EXPECT_THAT(run(damage), ElementsAre(0));
  EXPECT_EQ(damage.finish().damage->find(z_->id(), range(0, 1)), kCause);
}

TEST_F(ListDamageTest, where_neither_wait_nor_failure_names_bytes_nothing_may_run) {
  wait(WaitKind::data);
  add({write(y_)});
  ListDamage damage(work());
  damage.wait_failed(0, {kCause, nullptr});
  EXPECT_TRUE(damage.forbids_all());
  const ListFailure failure = damage.finish();
  EXPECT_EQ(failure.cause, kCause);
  EXPECT_EQ(failure.damage, nullptr) << "all that it writes";
}

TEST_F(ListDamageTest,
       a_list_that_answers_for_bytes_hands_their_damage_on_unless_it_overwrites_them) {
  wait(WaitKind::data);
  awaits(0, x_, range(0, 64), true);
  add({write(x_, range(0, 8))});
  ListDamage damage(work());
  damage.wait_failed(0, {kOther, bad(x_, range(0, 16))});
  EXPECT_THAT(run(damage), ElementsAre(0));
  const ListFailure failure = damage.finish();
  EXPECT_EQ(failure.cause, kCause);
  EXPECT_FALSE(failure.damage->find(x_->id(), range(0, 8)));
  EXPECT_EQ(failure.damage->find(x_->id(), range(8, 8)), kCause);
}

TEST_F(ListDamageTest, the_slots_of_a_replay_name_what_they_are_bound_to) {
  CommandList steps(device_->info(), "steps");
  steps.native([](const NativeCall&) {},
               std::array{Binding::of_slot(0, range(0, 16), Access::write)});
  steps.barrier();
  steps.native([](const NativeCall&) {},
               std::array{Binding::of_slot(0, range(8, 8), Access::read),
                          Binding::of_slot(1, range(0, 16), Access::write)});
  const auto program = device_->create_program(steps).or_raise();
  const CommandList replay =
      make_replay(device_->info(), program,
                  std::array{update(x_, range(64, 16)), write(y_, range(32, 16))}, {}, "replay");
  const Work replayed{&replay, nullptr, {}, {}, nullptr, {}};
  ListDamage damage(replayed);
  bool is_first = true;
  for (const Command& command : program->list()) {
    if (command.kind != CommandKind::native) continue;
    EXPECT_EQ(damage.enter(command), is_first);
    if (std::exchange(is_first, false)) damage.fail(command, kCause);
  }
  const ListFailure failure = damage.finish();
  EXPECT_EQ(failure.damage->find(x_->id(), range(64, 16)), kCause);
  EXPECT_FALSE(failure.damage->find(x_->id(), range(0, 64)));
  EXPECT_EQ(failure.damage->find(y_->id(), range(32, 16)), kCause);
  EXPECT_FALSE(failure.damage->find(y_->id(), range(0, 32)));
}

// Random lists, of which random commands fail and which inherit random damage, in any order that
// barriers allow, against a computation byte by byte in recorded order.
TEST_F(ListDamageTest, any_legal_order_gives_the_bytes_that_a_simple_computation_gives) {
  std::mt19937 random(7);
  const std::array memory{x_, y_, z_};
  constexpr uint64_t kBytes = 48;
  for (int round = 0; round < 400; ++round) {
    CommandList list(device_->info(), "random");
    std::vector<std::vector<Binding>> wave;
    const auto conflicts = [&](const std::vector<Binding>& next) {
      for (const auto& before : wave) {
        for (const Binding& a : before) {
          for (const Binding& b : next) {
            if (a.allocation == b.allocation && a.range.overlaps(b.range) &&
                (writes(a.access) || writes(b.access))) {
              return true;
            }
          }
        }
      }
      return false;
    };
    for (uint64_t n = 1 + random() % 12; n > 0; --n) {
      std::vector<Binding> bindings;
      for (uint64_t b = 1 + random() % 3; b > 0; --b) {
        const uint64_t begin = random() % kBytes;
        const ByteRange bytes = range(begin, 1 + random() % std::min<uint64_t>(kBytes - begin, 16));
        const auto access = static_cast<Access>(1 + random() % 3);
        bindings.push_back(Binding::of(memory[random() % 3], bytes, access));
      }
      if (conflicts(bindings)) {
        list.barrier();
        wave.clear();
      }
      wave.push_back(bindings);
      list.native([](const NativeCall&) {}, bindings);
    }
    std::vector<std::vector<const Command*>> waves(1);
    std::set<const Command*> failing;
    for (const Command& command : list) {
      if (command.kind == CommandKind::barrier) {
        waves.emplace_back();
        continue;
      }
      waves.back().push_back(&command);
      if (random() % 6 == 0) failing.insert(&command);
    }
    Damage before;
    std::map<std::pair<ResourceId, uint64_t>, bool> inherited;
    if (random() % 2 == 0) {
      const ByteRange bytes = range(random() % kBytes, 1 + random() % 8);
      const auto& a = memory[random() % 3];
      before.add(a->id(), bytes, kOther);
      for (uint64_t b = bytes.offset.value; b < bytes.end().value; ++b) inherited[{a->id(), b}];
    }

    // Byte by byte: bad, and whether by this list.
    std::map<std::pair<ResourceId, uint64_t>, bool> expected = inherited;
    bool any = false;
    for (const auto& each : waves) {
      for (const Command* command : each) {
        const auto bytes_of = [&](bool (*wanted)(Access), const auto& visit) {
          for (const BoundRange& bound : command->bindings()) {
            if (!wanted(bound.access)) continue;
            for (uint64_t b = bound.range.offset.value; b < bound.range.end().value; ++b) {
              visit(std::pair{bound.id, b});
            }
          }
        };
        bool is_bad = failing.contains(command);
        bytes_of(reads, [&](const auto& byte) { is_bad = is_bad || expected.contains(byte); });
        any = any || is_bad;
        bytes_of(writes, [&](const auto& byte) {
          if (is_bad) {
            expected[byte] = true;
          } else {
            expected.erase(byte);
          }
        });
      }
    }
    std::erase_if(expected, [](const auto& entry) { return !entry.second; });

    const std::vector<Wait> waits{{{timeline_, {1}}, WaitKind::data}};
    const Work random_work{&list, nullptr, {}, waits, nullptr, {}};
    ListDamage damage(random_work);
    if (!before.empty()) {
      damage.wait_failed(0, {kOther, std::make_shared<const Damage>(before)});
    }
    for (auto& each : waves) {
      std::vector<const Command*> run;
      for (const Command* command : each) {
        if (damage.enter(*command)) run.push_back(command);
      }
      std::ranges::shuffle(run, random);
      for (const Command* command : run) {
        if (failing.contains(command)) damage.fail(*command, kCause);
      }
    }
    const ListFailure failure = damage.finish();
    ASSERT_EQ(static_cast<bool>(failure), any) << "round " << round;
    std::map<std::pair<ResourceId, uint64_t>, bool> found;
    if (failure) {
      failure.damage->visit_all([&](ResourceId id, ByteRange bytes, const Failure&) {
        for (uint64_t b = bytes.offset.value; b < bytes.end().value; ++b) found[{id, b}] = true;
      });
    }
    ASSERT_EQ(found, expected) << "round " << round;
  }
}

}  // namespace
}  // namespace holdfast::hal
