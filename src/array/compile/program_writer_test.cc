#include "holdfast/array/compile/program_writer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "holdfast/array/compile/argument.h"
#include "holdfast/base/ablation.h"
#include "holdfast/creation.h"
#include "holdfast/operation.h"

namespace holdfast::array {
namespace {

// Its commands are written by hand.
class HandWritten final : public Operation {
 public:
  std::string_view name() const noexcept override { return "anything"; }
  void record(Encoder& /*encoder*/) const override {}
};

// Nodes that read some of the arrays before them, and copy pieces of them to their result.
class RandomProgram {
 public:
  RandomProgram(uint32_t seed, int nodes, int arguments, size_t reach = 40)
      : random_(seed), device_(open_device("cpu")) {
    const On on = device_;
    std::vector<Array> values;
    std::vector<Array> placeholders;
    for (int i = 0; i < arguments; ++i) {
      const ArgumentType type(full({length()}, 0.0, float32, device_));
      placeholders.push_back(make_placeholder(type, "an argument", on));
      values.push_back(placeholders.back());
    }
    for (int i = 0; i < nodes; ++i) {
      std::vector<Array> inputs;
      for (auto n = 1 + random_() % 3; n > 0; --n) {
        const size_t back = std::min<size_t>(values.size(), random_() % 4 == 0 ? reach : 6);
        inputs.push_back(values[values.size() - 1 - random_() % back]);
      }
      values.push_back(
          apply(make_ref<const HandWritten>(), inputs, OutputType{{length()}, float32}, on));
    }
    std::vector<Array> results{values.back()};
    for (size_t i = 0; i < reach / 8; ++i) results.push_back(values[random_() % values.size()]);
    trace_ = std::make_unique<Trace>(std::move(placeholders), std::move(results));
    const std::vector<bool> takes(trace_->placeholders.size(), false);
    takes_ = takes;
    capture_ = std::make_unique<Capture>(*trace_, device_.home()->device(), takes_);
    for (const Trace::Step& step : trace_->steps) fill(*step.node);
    for (size_t i = 0; i < trace_->placeholders.size(); ++i) {
      bound_[capture_->memory_of(*trace_->placeholders[i].value()).get()] = {
          SlotSource::Kind::argument, i};
    }
    size_t outputs = 0;
    for (const Array& result : trace_->results) {
      const hal::Allocation* const memory = capture_->memory_of(*result.value()).get();
      if (bound_.contains(memory)) continue;
      bound_[memory] = {SlotSource::Kind::output, outputs++};
    }
  }

  RecordedProgram write() const {
    return write_program(*capture_, *trace_, bound_, *device_.context()->device(), "random");
  }

  // What is wrong with the program, or why it could not be written; empty: nothing.
  std::string fault() const {
    try {
      return fault_of(write());
    } catch (const Error& error) {
      return error.what();
    }
  }
  std::string fault_of(const RecordedProgram& program) const {
    std::vector<Planned> planned;
    for (const RecordedProgram::Segment& segment : program.segments) {
      add_commands(segment, planned);
    }
    size_t index = 0;
    std::map<uint64_t, const hal::Allocation*> owners;  // of the arena's blocks of 256 bytes
    for (size_t step = 0; step < trace_->steps.size(); ++step) {
      for (const hal::Command& command : capture_->commands(step)) {
        const Planned& now = planned.at(index++);
        for (const bool writes : {false, true}) {
          for (size_t i = 0; i < now.uses.size(); ++i) {
            const Use& use = now.uses[i];
            if (use.source.kind != SlotSource::Kind::arena || use.writes != writes) continue;
            const hal::Allocation* const owner = command.bindings()[i].allocation;
            for (uint64_t at = use.range.offset.value / 256; at * 256 < use.range.end().value;
                 ++at) {
              if (writes) owners[at] = owner;
              if (owners[at] == owner) continue;
              return fmt::format("command {} reads bytes that were given out again", index - 1);
            }
          }
        }
      }
    }
    if (index != planned.size()) return "commands are missing";
    return unordered(planned);
  }

 private:
  struct Use {
    SlotSource source;
    ByteRange range;
    bool writes;
  };
  struct Planned {
    std::vector<Use> uses;
    size_t wave;
  };

  int64_t length() { return std::array<int64_t, 4>{64, 64, 200, 1000}[random_() % 4]; }

  void fill(Node& node) {
    const Ref<hal::Allocation> out = capture_->allocate(node.output(0).bytes(), "result");
    capture_->list().fill(hal::Binding::of(out, hal::Access::write), std::byte{0});
    for (const Array& input : node.inputs()) {
      const Ref<hal::Allocation>& in = capture_->memory_of(*input.value());
      const ByteRange part{{}, std::min(in->size(), out->size())};
      capture_->list().copy(hal::Binding::of(in, part, hal::Access::read),
                            hal::Binding::of(out, part, hal::Access::write));
    }
    capture_->set_memory(node.output(0), out);
    capture_->end_step(0);
  }

  static void add_commands(const RecordedProgram::Segment& segment, std::vector<Planned>& planned) {
    size_t wave = planned.empty() ? 0 : planned.back().wave + 1;
    for (const hal::Command& command : segment.program->list()) {
      if (command.kind == hal::CommandKind::barrier) {
        ++wave;
        continue;
      }
      Planned& now = planned.emplace_back(Planned{{}, wave});
      for (const hal::BoundRange& b : command.bindings()) {
        now.uses.push_back(
            {segment.slots.at(static_cast<size_t>(b.slot)), b.range, hal::writes(b.access)});
      }
    }
  }

  static std::string unordered(const std::vector<Planned>& planned) {
    for (size_t i = 0; i < planned.size(); ++i) {
      for (size_t k = i + 1; k < planned.size() && planned[k].wave == planned[i].wave; ++k) {
        for (const Use& a : planned[i].uses) {
          for (const Use& b : planned[k].uses) {
            if (a.source == b.source && (a.writes || b.writes) && a.range.overlaps(b.range)) {
              return fmt::format("no barrier stands between commands {} and {}", i, k);
            }
          }
        }
      }
    }
    return {};
  }

  std::mt19937 random_;
  Device device_;
  std::unique_ptr<Trace> trace_;
  std::vector<bool> takes_;
  std::unique_ptr<Capture> capture_;
  BoundMemory bound_;
};

TEST(ProgramWriter, every_free_comes_after_every_use_and_every_conflict_has_a_barrier) {
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    const RandomProgram random(seed, 120, 3);
    const RecordedProgram program = random.write();
    ASSERT_EQ(random.fault_of(program), "") << "seed " << seed;
    EXPECT_EQ(program.segments.size(), 1U);
    EXPECT_LT(program.arena, 4096_B * 60) << "memory is given out again";
  }
}

TEST(ProgramWriter, more_slots_than_a_program_has_become_several_programs) {
  const RandomProgram random(7, 900, 600, 4000);
  const RecordedProgram program = random.write();
  EXPECT_GT(program.segments.size(), 1U);
  EXPECT_EQ(random.fault_of(program), "");
  for (const RecordedProgram::Segment& segment : program.segments) {
    EXPECT_LE(segment.slots.size(), size_t{hal::kMaxSlots});
  }
}

#ifdef HOLDFAST_ABLATIONS
TEST(ProgramWriter, a_free_before_the_last_use_is_found) {
  const ScopedAblation ablation(Ablation::arena_freed_after_first_reader);
  const RandomProgram random(1, 120, 3);
  EXPECT_NE(random.fault(), "");
}
#endif

}  // namespace
}  // namespace holdfast::array
