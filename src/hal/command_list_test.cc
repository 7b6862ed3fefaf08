#include "holdfast/hal/command_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>

#include "holdfast/base/error.h"
#include "holdfast/base/range_test.h"
#include "holdfast/hal/cpu/cpu_device.h"
#include "holdfast/hal/program.h"

// What a list is as data. What devices do with it, and what they refuse, is in the conformance
// suite.

namespace holdfast::hal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CommandListTest : public ::testing::Test {
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
  Ref<Pipeline> pipeline(uint32_t bindings, Bytes parameters) {
    const HostFunction nothing = [](const HostGroup&) {};
    return device_->create_pipeline({"kernel", nothing, bindings, parameters}).or_raise();
  }
  CommandList list(std::string name = "list") { return {device_->info(), std::move(name)}; }
  static std::vector<CommandKind> kinds(const CommandList& list) {
    std::vector<CommandKind> all;
    for (const Command& command : list) all.push_back(command.kind);
    return all;
  }

  Ref<CpuDevice> device_ = CpuDevice::open(small());
  Ref<Allocation> a_ = memory("a");
  Ref<Allocation> b_ = memory("b");
};

TEST_F(CommandListTest, a_new_list_is_empty_and_has_an_open_ticket_of_its_own) {
  const auto first = list("step 3");
  const auto second = list();
  EXPECT_TRUE(first.empty());
  EXPECT_EQ(first.begin(), first.end());
  EXPECT_EQ(first.ticket()->state(), TicketState::open);
  EXPECT_EQ(first.ticket()->list(), first.id());
  EXPECT_NE(first.id(), second.id());
  EXPECT_NE(first.ticket()->lane(), second.ticket()->lane());
  EXPECT_EQ(first.describe(), "list 'step 3' (id " + std::to_string(first.id().value) + ")");
}

TEST_F(CommandListTest, commands_are_visited_in_recorded_order_with_marks_and_barriers) {
  auto work = list();
  work.mark_birth(*a_);
  work.fill(a_, range(0, 8), std::byte{1});
  work.barrier();
  work.copy(a_, range(0, 8), b_, range(8, 8));
  work.native([](const NativeCall&) {}, {});
  work.dispatch(pipeline(0, {}), {}, {}, {1, 1, 1});
  work.mark_death(a_->id(), a_->buffer()->id(), range(0, 8));
  EXPECT_THAT(kinds(work), ElementsAre(CommandKind::birth, CommandKind::fill, CommandKind::barrier,
                                       CommandKind::copy, CommandKind::native,
                                       CommandKind::dispatch, CommandKind::death));
  EXPECT_EQ(work.command_count(), 4U) << "marks and barriers do not count";
  EXPECT_EQ(work.barrier_count(), 1U);
}

TEST_F(CommandListTest, a_dispatch_is_recorded_with_all_it_was_given) {
  const auto kernel = pipeline(2, 5_B);
  std::array<std::byte, 5> parameters{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                                      std::byte{5}};
  auto work = list();
  work.dispatch(
      kernel,
      std::array{Binding::of(a_, range(4, 8), Access::read), Binding::of(b_, Access::read_write)},
      Parameters(parameters), {3, 4, 5}, "my label");
  parameters.fill({});  // the list has a copy
  const Command& command = *work.begin();
  EXPECT_EQ(command.pipeline, kernel.get());
  EXPECT_EQ(command.groups, (Groups{3, 4, 5}));
  EXPECT_EQ(command.label(), "my label");
  ASSERT_EQ(command.parameters().size(), 5U);
  EXPECT_EQ(command.parameters()[4], std::byte{5});
  ASSERT_EQ(command.bindings().size(), 2U);
  EXPECT_EQ(command.bindings()[0].allocation, a_.get());
  EXPECT_EQ(command.bindings()[0].id, a_->id());
  EXPECT_EQ(command.bindings()[0].range, range(4, 8));
  EXPECT_EQ(command.bindings()[0].access, Access::read);
  EXPECT_EQ(command.bindings()[1].range, range(0, 1024));
  EXPECT_EQ(command.bindings()[1].access, Access::read_write);
}

TEST_F(CommandListTest, parameters_of_any_size_are_recorded_with_the_label_behind_them) {
  auto work = list();
  std::vector<std::byte> parameters;
  for (uint8_t size = 0; size <= 40; ++size) {
    work.dispatch(pipeline(0, Bytes{size}), {}, Parameters(parameters), {1, 1, 1}, "label");
    parameters.push_back(std::byte{size});
  }
  size_t size = 0;
  for (const Command& command : work) {
    ASSERT_EQ(command.parameters().size(), size);
    EXPECT_TRUE(std::equal(parameters.begin(), parameters.begin() + static_cast<ptrdiff_t>(size),
                           command.parameters().begin()));
    EXPECT_EQ(command.label(), "label");
    ++size;
  }
}

TEST_F(CommandListTest, parameters_are_the_commands_own_or_those_of_the_replay) {
  auto steps = list();
  const std::array own{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  const auto kernel = pipeline(0, 4_B);
  steps.dispatch(kernel, {}, Parameters(own), {1, 1, 1});
  steps.dispatch(kernel, {}, Parameters::of_replay(range(2, 4)), {1, 1, 1});
  const Ref<Program> program = device_->create_program(steps).or_raise();
  const std::array given{std::byte{10}, std::byte{11}, std::byte{12},
                         std::byte{13}, std::byte{14}, std::byte{15}};
  const auto replay = make_replay(device_->info(), program, {}, given, "replay");
  auto command = program->list().begin();
  EXPECT_THAT(replay.parameters_of(*command),
              ElementsAre(std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}));
  ++command;
  EXPECT_THAT(replay.parameters_of(*command),
              ElementsAre(std::byte{12}, std::byte{13}, std::byte{14}, std::byte{15}));
}

TEST_F(CommandListTest, each_fault_of_a_dispatch_has_words_of_its_own) {
  const auto stranger = CpuDevice::open(small());
  const auto foreign =
      Allocation::whole(stranger->create_buffer({1_KiB, MemoryKind::device, "foreign"}).or_raise());
  const auto kernel = pipeline(1, 4_B);
  const std::array<std::byte, 4> parameters{};
  Groups too_many = device_->info().max_groups;
  const bool limited = too_many.z < UINT32_MAX;
  if (limited) ++too_many.z;
  const Binding good = Binding::of(a_, Access::read);
  Binding both = good;
  both.slot = 3;
  struct Case {
    Ref<Pipeline> kernel;
    std::vector<Binding> bindings;
    Parameters parameters;
    Groups groups;
    const char* words;
  };
  std::vector<Case> cases{
      {nullptr, {good}, Parameters(parameters), {1, 1, 1}, "no kernel was given"},
      {stranger->create_pipeline({"kernel", HostFunction([](const HostGroup&) {}), 1, 4_B})
           .or_raise(),
       {good},
       Parameters(parameters),
       {1, 1, 1},
       "belongs to another device"},
      {kernel, {good, good}, Parameters(parameters), {1, 1, 1}, "it was given 2 and 4"},
      {kernel, {good}, {}, {1, 1, 1}, "it was given 1 and 0"},
      {kernel, {good}, Parameters::of_replay({kMaxBytes, 4_B}), {1, 1, 1}, "beyond 64 bits"},
      {kernel, {both}, Parameters(parameters), {1, 1, 1}, "names both"},
      {kernel, {Binding{}}, Parameters(parameters), {1, 1, 1}, "names no allocation"},
      {kernel,
       {Binding::of_slot(kMaxSlots, range(0, 4), Access::read)},
       Parameters(parameters),
       {1, 1, 1},
       "numbered below 256"},
      {kernel,
       {Binding::of(foreign, Access::read)},
       Parameters(parameters),
       {1, 1, 1},
       "binding 0, allocation 'foreign'"},
      {kernel,
       {Binding::of(a_, range(1000, 25), Access::read)},
       Parameters(parameters),
       {1, 1, 1},
       "asks for 25 bytes from byte 1000"}};
  if (limited) cases.push_back({kernel, {good}, Parameters(parameters), too_many, "limit is"});
  auto work = list();
  for (const Case& c : cases) {
    const auto refused = [&](const auto& call) {
      try {
        call();
        ADD_FAILURE() << "not refused: " << c.words;
      } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), HasSubstr(c.words));
        EXPECT_THAT(error.what(), HasSubstr("'here' in list 'list'"));
      }
    };
    refused([&] { work.dispatch(c.kernel, c.bindings, c.parameters, c.groups, "here"); });
    refused([&] { work.check_dispatch(c.kernel, c.bindings, c.parameters, c.groups, "here"); });
  }
  EXPECT_EQ(work.begin(), work.end());
}

TEST_F(CommandListTest, a_copy_reads_its_source_and_writes_its_destination_whatever_was_said) {
  auto work = list();
  work.copy(Binding::of(a_, range(0, 8), Access::read_write),
            Binding::of(b_, range(8, 8), Access::read));
  const auto bindings = work.begin()->bindings();
  ASSERT_EQ(bindings.size(), 2U);
  EXPECT_EQ(bindings[0].access, Access::read);
  EXPECT_EQ(bindings[1].access, Access::write);
}

TEST_F(CommandListTest, marks_tell_of_lives_and_hold_nothing) {
  auto work = list();
  work.mark_birth(*a_);
  work.mark_death(b_->id(), b_->buffer()->id(), range(16, 32));
  auto mark = work.begin();
  EXPECT_TRUE(mark->is_mark());
  EXPECT_EQ(mark->mark().allocation, a_->id());
  EXPECT_EQ(mark->mark().buffer, a_->buffer()->id());
  EXPECT_EQ(mark->mark().range, range(0, 1024));
  EXPECT_EQ(mark->label(), "a");
  ++mark;
  EXPECT_EQ(mark->mark().allocation, b_->id());
  EXPECT_EQ(mark->mark().range, range(16, 32));
  EXPECT_EQ(work.holds().size(), 0U);
  EXPECT_TRUE(work.empty());
}

TEST_F(CommandListTest, records_survive_the_growth_of_the_list) {
  auto work = list();
  for (uint32_t i = 0; i < 2000; ++i) {
    work.fill(a_, range(i % 1000, 1), static_cast<std::byte>(i), std::to_string(i));
  }
  uint32_t i = 0;
  for (const Command& command : work) {
    ASSERT_EQ(command.label(), std::to_string(i));
    ASSERT_EQ(command.fill_value, static_cast<std::byte>(i));
    ASSERT_EQ(command.bindings()[0].range, range(i % 1000, 1));
    ++i;
  }
  EXPECT_EQ(i, 2000U);
  EXPECT_EQ(work.holds().size(), 1U);
}

TEST_F(CommandListTest, room_reserved_is_enough_for_what_is_recorded) {
  auto work = list();
  work.reserve(100, 200, 100 * 10);
  work.barrier();
  const Command* first = &*work.begin();
  for (int i = 0; i < 99; ++i) {
    work.copy(a_, range(0, 8), b_, range(8, 8), "0123456789");
    work.barrier();
  }
  EXPECT_EQ(&*work.begin(), first) << "nothing was moved";
}

TEST_F(CommandListTest, a_refused_call_has_recorded_and_held_nothing) {
  auto work = list();
  const auto beyond = Binding::of(b_, range(1000, 100), Access::write);
  EXPECT_THROW(work.copy(Binding::of(a_, range(0, 100), Access::read), beyond), UsageError);
  EXPECT_THROW(work.fill(beyond, std::byte{}), UsageError);
  EXPECT_THROW(work.dispatch(pipeline(2, {}), std::array{Binding::of(a_, Access::read), beyond}, {},
                             {1, 1, 1}),
               UsageError);
  EXPECT_EQ(work.begin(), work.end());
  EXPECT_EQ(work.command_count(), 0U);
  EXPECT_EQ(work.holds().size(), 0U);
  EXPECT_EQ(a_->holds(), 0U);
}

TEST_F(CommandListTest, a_refused_native_command_keeps_no_callback) {
  auto work = list();
  work.abandon({});
  const auto captured = std::make_shared<int>(0);
  EXPECT_THROW(work.native([captured](const NativeCall&) {}, {}), UsageError);
  EXPECT_EQ(captured.use_count(), 1);
}

TEST_F(CommandListTest, every_native_command_has_its_own_callback) {
  auto work = list();
  int called = 0;
  work.native([&](const NativeCall&) { called = 1; }, {});
  work.native([&](const NativeCall&) { called = 2; }, {});
  auto command = work.begin();
  work.native_callback (*command)({});
  EXPECT_EQ(called, 1);
  work.native_callback (*++command)({});
  EXPECT_EQ(called, 2);
}

TEST_F(CommandListTest, a_list_is_a_user_of_what_it_binds_only_if_told_to) {
  auto holder = list();
  holder.fill(a_, range(0, 8), std::byte{});
  EXPECT_EQ(a_->users(), 1U);
  {
    auto user = list();
    user.keep_users();
    user.fill(a_, range(0, 8), std::byte{});
    EXPECT_EQ(a_->users(), 2U);
  }
  EXPECT_EQ(a_->users(), 1U);
}

TEST_F(CommandListTest, only_slots_and_replay_parameters_need_a_replay) {
  auto plain = list();
  plain.fill(a_, range(0, 8), std::byte{});
  EXPECT_FALSE(plain.needs_replay());
  auto slots = list();
  slots.fill(Binding::of_slot(3, range(0, 8), Access::write), std::byte{});
  EXPECT_TRUE(slots.needs_replay());
  EXPECT_EQ(slots.begin()->bindings()[0].slot, 3);
  EXPECT_EQ(slots.begin()->bindings()[0].allocation, nullptr);
  auto parameters = list();
  parameters.dispatch(pipeline(0, 4_B), {}, Parameters::of_replay(range(8, 4)), {1, 1, 1});
  EXPECT_TRUE(parameters.needs_replay());
  EXPECT_EQ(parameters.begin()->replay_parameters(), range(8, 4));
}

TEST_F(CommandListTest, a_copy_within_one_slot_must_not_overlap_and_is_refused_by_its_number) {
  auto work = list();
  try {
    work.copy(Binding::of_slot(7, range(0, 8), Access::read),
              Binding::of_slot(7, range(4, 8), Access::write), "shift");
    ADD_FAILURE() << "was recorded";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("slot 7"));
    EXPECT_THAT(error.what(), HasSubstr("shift"));
  }
  work.copy(Binding::of_slot(7, range(0, 8), Access::read),
            Binding::of_slot(8, range(4, 8), Access::write));
  EXPECT_EQ(work.command_count(), 1U);
}

TEST_F(CommandListTest, every_kind_of_command_has_a_name) {
  std::vector<std::string> names;
  for (const auto kind :
       {CommandKind::dispatch, CommandKind::copy, CommandKind::fill, CommandKind::barrier,
        CommandKind::native, CommandKind::birth, CommandKind::death}) {
    names.emplace_back(to_string(kind));
  }
  EXPECT_THAT(names,
              ElementsAre("dispatch", "copy", "fill", "barrier", "native", "birth", "death"));
}

TEST_F(CommandListTest, pipelines_that_other_lists_bind_too_are_held_once_by_each) {
  const std::array pipelines{pipeline(0, 0_B), pipeline(0, 0_B)};
  {
    std::array lists{list("first"), list("second")};
    for (int i = 0; i < 5; ++i) {
      for (CommandList& to : lists) {
        for (const auto& p : pipelines) to.dispatch(p, {}, {}, {1, 1, 1});
      }
    }
    for (const auto& p : pipelines) EXPECT_EQ(p->holds(), 2U);
    CommandList moved = std::move(lists[0]);
    moved.dispatch(pipelines[0], {}, {}, {1, 1, 1});
    EXPECT_EQ(pipelines[0]->holds(), 2U);
  }
  for (const auto& p : pipelines) EXPECT_EQ(p->holds(), 0U);
}

}  // namespace
}  // namespace holdfast::hal
