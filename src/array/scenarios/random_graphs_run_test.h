#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <span>

#include "holdfast/array/scenarios/array_rig_test.h"
#include "holdfast/array/scenarios/random_graphs_build_test.h"
#include "holdfast/array/scenarios/random_graphs_program_test.h"
#include "holdfast/base/sync/condition.h"
#include "holdfast/compile.h"

namespace holdfast::random_graphs {

using testing::World;

// Arrays that tasks are to drop: those given to a task that only drops, and further users of some
// arrays, for the fault "drop".
class Pile {
 public:
  void add(Array array) {
    const sync::Lock lock(mutex_);
    pile_.push_back(std::move(array));
    changed_.notify_all();
  }
  void drop() {
    std::vector<Array> dropped;
    const sync::Lock lock(mutex_);
    dropped.swap(pile_);
  }
  void close() {
    const sync::Lock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  void drop_until_closed() {
    for (bool last = false; !last;) {
      std::vector<Array> dropped;
      sync::Lock lock(mutex_);
      changed_.wait(lock, [&] { return closing_ || !pile_.empty(); });
      dropped.swap(pile_);
      last = closing_;
      lock.unlock();
    }
  }

 private:
  sync::Mutex mutex_;  // guards pile_ and closing_
  sync::Condition changed_;
  std::vector<Array> pile_;
  bool closing_ = false;
};

// Runs a plan with arrays, every task of it as a task, and compares all that it reads.
class Execution {
 public:
  Execution(World& world, ArrayRig& rig, const Plan& plan, bool reaper, bool compiles)
      : world_(world),
        rig_(rig),
        plan_(plan),
        reaper_(reaper),
        compiles_(compiles),
        handles_(plan.handles) {
    if (world.mode() != World::Mode::adversary) limit_ = testing::patient();
    for (unsigned i = 0; i < plan.streams; ++i) streams_.push_back(new_stream(i));
    world.offer([spares = spares_] { spares->drop(); });
  }

  void run() {
    {
      const sync::Thread dropper =
          world_.task("dropper", [this] { dropped_elsewhere_.drop_until_closed(); });
      std::vector<sync::Thread> tasks;
      for (unsigned task = 1; task < kTasks; ++task) {
        tasks.push_back(world_.task(fmt::format("task {}", task), [this, task] { run(task); }));
      }
      run(0);
      tasks.clear();
      dropped_elsewhere_.close();
    }
    attempt("at the end", [&] { end(); });
  }

 private:
  Stream new_stream(unsigned index) {
    return rig_.device.new_stream(fmt::format("stream {}", index));
  }

  void run(unsigned task) {
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      if (step.task != task) continue;
      wait_for_others(step);
      attempt(fmt::format("step {}: {}", i, to_string(step)), [&] { act(step); });
      for (const Step::In& in : step.in) {
        if (in.moved) handles_[in.handle] = {};
      }
      for (const unsigned handle : step.drops) handles_[handle] = {};
      const sync::Lock lock(mutex_);
      ++over_[task];
      changed_.notify_all();
    }
    attempt("at the end of a task", [&] { let_go_of_map(task); });
  }

  void wait_for_others(const Step& step) {
    sync::Lock lock(mutex_);
    changed_.wait(lock, [&] {
      for (unsigned task = 0; task < kTasks; ++task) {
        if (over_[task] < step.after[task]) return false;
      }
      return true;
    });
  }

  // What it raises is a failure, unless a fault explains it.
  void attempt(const std::string& what, const std::function<void()>& body) {
    world_.run([&] {
      try {
        body();
      } catch (const Error& error) {
        Failure(error.code(), fmt::format("{}: {}", what, error.what())).raise();
      }
    });
  }

  void act(const Step& step) {
    for (const Step::In& in : step.in) {
      if (!handles_[in.handle].has_value()) return;  // what should have made it has failed
    }
    const UseStream scope(streams_[step.stream]);
    switch (step.verb) {
      case Verb::drop: handles_[step.in[0].handle] = {}; return;
      case Verb::drop_elsewhere:
        return dropped_elsewhere_.add(std::move(handles_[step.in[0].handle]));
      case Verb::eval:
      case Verb::async_eval:
      case Verb::async_all:
      case Verb::read:
      case Verb::map:
      case Verb::hold_map: return look(step);
      default: break;
    }
    if (step.out.empty()) return control(step);
    std::vector<Array> made = build(step, arguments(step));
    for (size_t i = 0; i < step.out.size(); ++i) {
      expect_type(made[i], step.shows[i]);
      if (world_.has_faults() && step.out[i] % 4 == 0) spares_->add(made[i]);
      handles_[step.out[i]] = std::move(made[i]);
    }
  }

  std::vector<Array> arguments(const Step& step) {
    std::vector<Array> arrays;
    for (const Step::In& in : step.in) {
      if (in.moved) {
        arrays.push_back(std::move(handles_[in.handle]));
      } else {
        arrays.push_back(handles_[in.handle]);
      }
    }
    return arrays;
  }

  // Nodes and views

  std::vector<Array> build(const Step& step, std::vector<Array> in) {
    if (step.verb == Verb::upload || step.verb == Verb::external) return {from_host(step)};
    if (!compiles_ || in.empty()) return build_step(step, std::move(in));
    return build_compiled(step, in);
  }

  // Twice, so that two replays may be in flight; the results of one are dropped. What was given up
  // is given up with the second call.
  static std::vector<Array> build_compiled(const Step& step, const std::vector<Array>& in) {
    const auto f =
        compile([step](const std::vector<Array>& given) { return build_step(step, given); });
    if (step.value % 2 == 0) async_eval(f(in));
    return f(in);
  }

  Array from_host(const Step& step) {
    const Eager& shows = step.shows[0];
    std::vector<std::byte> bytes(shows.size() * 4);
    for (size_t i = 0; i < shows.size(); ++i) {
      const auto as_float = static_cast<float>(shows[i]);
      const auto as_int = static_cast<int32_t>(shows[i]);
      std::memcpy(bytes.data() + 4 * i,
                  shows.dtype == int32 ? &as_int : static_cast<const void*>(&as_float), 4);
    }
    // Vulkan takes whole pages alone.
    const bool imports = testing::family_of_bodies() != testing::Family::vulkan;
    if (step.verb == Verb::upload || !imports) return {shows.dtype, shows.shape, bytes};
    const auto pages = std::make_shared<testing::Pages>(bytes.size());
    std::memcpy(pages->data(), bytes.data(), bytes.size());
    imports_->fetch_add(1);
    auto deleter = [&world = world_, pages, bytes, alive = imports_] {
      if (std::memcmp(pages->data(), bytes.data(), bytes.size()) != 0) {
        world.fail("external memory was written to");
      }
      alive->fetch_sub(1);
    };
    return from_external(pages->data(), shows.dtype, shows.shape, std::move(deleter));
  }

  // Evaluations

  void look(const Step& step) {
    const std::vector<Array> arrays = arguments(step);
    switch (step.verb) {
      case Verb::eval: return eval(arrays, limit_);
      case Verb::async_eval:
      case Verb::async_all: return async_eval(arrays);
      case Verb::read: return read(arrays[0], step);
      default: break;
    }
    let_go_of_map(step.task);
    held_[step.task] = {arrays[0].map(limit_), &step};
    expect(*held_[step.task].map, step);
    if (step.verb == Verb::map) held_[step.task] = {};
  }

  void read(const Array& array, const Step& step) {
    if (array.dtype() == int32) {
      expect(std::span<const int32_t>(array.to_vector<int32_t>()), step);
    } else {
      expect(std::span<const float>(array.to_vector<float>()), step);
    }
  }
  void let_go_of_map(unsigned task) {
    if (held_[task].map) expect(*held_[task].map, *held_[task].step);
    held_[task] = {};
  }

  void expect(const ArrayMap& map, const Step& step) {
    if (step.shows[0].dtype == int32) return expect(map.values<int32_t>(), step);
    expect(map.values<float>(), step);
  }
  template <typename T>
  void expect(std::span<const T> values, const Step& step) {
    const Eager& shows = step.shows[0];
    for (size_t i = 0; i < shows.size(); ++i) {
      if (static_cast<double>(values[i]) == shows[i]) continue;
      return world_.fail(fmt::format("{}: element {} is {} and should be {}", to_string(step), i,
                                     values[i], shows[i]));
    }
  }
  void expect_type(const Array& array, const Eager& shows) {
    if (array.shape() == shows.shape && array.dtype() == shows.dtype) return;
    world_.fail(fmt::format("an array has shape {} and dtype {}, and should have {} and {}",
                            holdfast::to_string(array.shape()), kernel::to_string(array.dtype()),
                            holdfast::to_string(shows.shape), kernel::to_string(shows.dtype)));
  }

  // All else

  void control(const Step& step) {
    const Device& device = rig_.device;
    const auto choice = static_cast<size_t>(step.value);
    switch (step.verb) {
      case Verb::flush: return streams_[step.stream].flush();
      case Verb::wait_for: return streams_[step.stream].wait_for(streams_[step.other_stream]);
      case Verb::synchronize: return streams_[step.stream].synchronize(limit_);
      case Verb::synchronize_all: return device.synchronize(limit_);
      case Verb::new_stream: streams_[step.stream] = new_stream(step.stream); return;
      case Verb::clear_cache: return device.clear_cache();
      case Verb::cache_limit:
        return device.set_cache_limit(std::array{0_B, 64_B, 4_KiB, 64_MiB}[choice]);
      case Verb::clear_kernels: return device.clear_kernels();
      case Verb::kernel_limits:
        return device.set_kernel_limits({.variants = std::array<size_t, 4>{1, 2, 8, 4096}[choice]});
      case Verb::submit_limits:
        return device.set_submit_limits({.commands = std::array{1U, 2U, 5U, 64U}[choice]});
      default: break;
    }
  }

  // With everything dropped and finished nothing is left.
  void end() {
    spares_->drop();
    handles_.clear();
    streams_.clear();
    rig_.device.synchronize(limit_);
    finish_queues();
    const Ref<runtime::Context>& context = rig_.device.context();
    context->retire();
    const runtime::RuntimeStats now = context->stats();
    // The reaper may be dropping what it has retired.
    if (world_.has_faults() || reaper_ || !world_.failure().empty()) return;
    if (now.memory.live > 0_B) world_.fail("at the end memory is live that nobody uses");
    if (now.memory.deferred > 0_B) world_.fail("at the end memory is deferred");
    if (imports_->load() != 0) world_.fail("at the end external memory was not given back once");
  }
  // Also what streams that are gone have submitted: lists of one queue finish in order.
  void finish_queues() {
    const Ref<runtime::Context>& context = rig_.device.context();
    for (uint32_t queue = 0; queue < context->device()->info().queues; ++queue) {
      const Ref<runtime::Stream> last = context->new_stream({.name = "last", .queue = queue});
      testing::put(*last, last->allocate(64_B), 0);
      last->synchronize(limit_);
    }
  }

  struct HeldMap {
    std::optional<ArrayMap> map;
    const Step* step = nullptr;
  };

  World& world_;
  ArrayRig& rig_;
  const Plan& plan_;
  bool reaper_;
  bool compiles_;
  WaitLimit limit_;
  std::shared_ptr<Pile> spares_ = std::make_shared<Pile>();
  Pile dropped_elsewhere_;
  std::shared_ptr<std::atomic<int>> imports_ = std::make_shared<std::atomic<int>>(0);

  // Steps that conflict in these wait for each other, so no lock is needed.
  std::vector<Array> handles_;
  std::vector<Stream> streams_;
  std::array<HeldMap, kTasks> held_;

  sync::Mutex mutex_;  // guards over_
  sync::Condition changed_;
  std::array<size_t, kTasks> over_{};
};

inline Stats run_program(World& world, const Program& program) {
  ArrayRigOptions options;
  options.device = {
      .queues = program.queues, .helpers = 0, .device_memory_host_visible = program.host_visible};
  options.runtime.reaper = program.reaper;
  options.submit.commands = program.commands;
  if (program.tight) {
    options.runtime.deferred_limit = 1_KiB;
    options.runtime.deferred_objects = 4;
    options.runtime.max_in_flight = 2;
    options.kernels.variants = 2;
  }
  ArrayRig rig(world, options);
  const Plan plan = Model(program).run();
  Execution execution(world, rig, plan, program.reaper, program.compiles);
  execution.run();
  return rig.stats();
}

}  // namespace holdfast::random_graphs
