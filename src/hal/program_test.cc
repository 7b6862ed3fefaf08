#include "holdfast/hal/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "holdfast/hal/cpu/cpu_device.h"

namespace holdfast::hal {
namespace {

// Slots that overlap are found exactly where comparing each with each finds them.
TEST(Program, slots_that_overlap_are_refused_if_one_is_written) {
  const auto device = CpuDevice::open({.queues = 1, .helpers = 0});
  std::vector<Ref<Allocation>> memory;
  for (int i = 0; i < 2; ++i) {
    memory.push_back(
        Allocation::whole(device->create_buffer({64_B, MemoryKind::device, "memory"}).or_raise()));
  }
  constexpr size_t kSlots = 5;
  CommandList list(device->info(), "fills and copies");
  // Slots 0 and 1 are read, the others written.
  for (uint32_t slot = 2; slot < kSlots; ++slot) {
    const ByteRange one{{}, 1_B};
    list.copy(Binding::of_slot(slot % 2, one, Access::read),
              Binding::of_slot(slot, one, Access::write));
  }
  const Ref<Program> program = device->create_program(list).or_raise();
  std::mt19937 random(1);
  int refused = 0;
  constexpr int kRounds = 2000;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Binding> slots;
    for (size_t i = 0; i < kSlots; ++i) {
      const Bytes offset{random() % 60};
      const Bytes length{1 + random() % (64 - offset.value) / (1 + random() % 12)};
      slots.push_back(Binding::of(memory[random() % 2], {offset, length}, Access::read_write));
    }
    bool collide = false;
    for (size_t i = 0; i < kSlots; ++i) {
      for (size_t k = std::max<size_t>(i + 1, 2); k < kSlots; ++k) {
        collide |=
            slots[i].allocation == slots[k].allocation && slots[i].range.overlaps(slots[k].range);
      }
    }
    refused += collide ? 1 : 0;
    if (collide) {
      EXPECT_THROW((void)make_replay(device->info(), program, slots, {}, "replay"), UsageError);
    } else {
      EXPECT_NO_THROW((void)make_replay(device->info(), program, slots, {}, "replay"));
    }
  }
  EXPECT_GT(refused, kRounds / 10);
  EXPECT_LT(refused, kRounds * 99 / 100);
}

}  // namespace
}  // namespace holdfast::hal
