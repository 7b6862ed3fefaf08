#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <optional>

#include "holdfast/base/log.h"
#include "holdfast/runtime/program_recorder.h"
#include "holdfast/testing/rig.h"

// Invariant 14: shutdown is ordinary.
namespace holdfast::runtime {
namespace {

using hal::Access;
using hal::Binding;
using holdfast::testing::Event;
using holdfast::testing::Gate;
using holdfast::testing::Rig;
using holdfast::testing::Slow;
using ::testing::HasSubstr;
namespace t = holdfast::testing;

const hal::CpuOptions kOneQueue{.queues = 1, .helpers = 0};

TEST(Shutdown, close_lets_work_in_flight_finish) {
  Rig rig;
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  Slow slow(*rig.context);
  t::run_slow(slow, *stream, x);
  const hal::Point point = stream->flush();
  ASSERT_TRUE(slow.wait_until_running());
  std::optional<hal::CloseReport> report;
  sync::Thread closer("closer", [&] { report = rig.context->close(); });
  ASSERT_TRUE(t::until([&] { return rig.context->closed(); }));
  slow.release();
  closer.join();
  EXPECT_TRUE(report->clean());
  EXPECT_EQ(point.query(), hal::PointState::reached);
  EXPECT_TRUE(rig.context->close().clean()) << "idempotent";
}

TEST(Shutdown, what_was_not_submitted_is_abandoned) {
  Rig rig;
  const auto stream = rig.stream();
  std::atomic<int> ran{0};
  stream->native([&](const hal::NativeCall&) { ++ran; }, {});
  EXPECT_TRUE(rig.context->close().clean());
  EXPECT_EQ(ran, 0);
}

TEST(Shutdown, a_gate_that_nobody_opens_does_not_keep_it_from_ending) {
  Rig rig(kOneQueue, {.shutdown_bound = std::chrono::milliseconds(1), .reaper = false});
  const auto stream = rig.stream();
  auto x = stream->allocate(64_B);
  const auto never = rig.context->new_host_timeline("never");
  stream->wait_for({never, {1}});
  t::put(*stream, x, 1);
  const hal::Point point = stream->flush();
  x.reset();
  EXPECT_TRUE(rig.context->close().clean()) << "it had not begun, so it could be stopped";
  EXPECT_EQ(point.query(), hal::PointState::failed);
  EXPECT_EQ(point.failure().code(), ErrorCode::closed);
  EXPECT_THROW(rig.context->wait(point), ClosedError);
  EXPECT_EQ(rig.stats().waits_for(WaitReason::shutdown).count, 1U) << "no wait is hidden";
  const MemoryStats left = rig.stats().memory;
  EXPECT_EQ(left.deferred, 0_B) << "nothing can touch it any more";
  EXPECT_EQ(left.device_buffers, 0U) << "so it goes back to the device";
}

TEST(Shutdown, a_kernel_that_does_not_end_is_reported_and_its_memory_left_alone) {
  std::string logged;
  const auto sink = logging::set_sink([&](const logging::Message& m) { logged += m.text; });
  {
    Rig rig(kOneQueue, {.shutdown_bound = std::chrono::milliseconds(1), .reaper = false});
    Slow slow(*rig.context);
    const auto stream = rig.stream("stuck stream");
    const auto x = stream->allocate(64_B);
    t::run_slow(slow, *stream, x);
    stream->flush();
    ASSERT_TRUE(slow.wait_until_running());
    const hal::CloseReport report = rig.context->close();
    EXPECT_EQ(report.lists_left, 1U);
    EXPECT_THAT(report.details, HasSubstr("stuck stream"));
    EXPECT_EQ(rig.context->close().lists_left, 1U) << "the report stays";
  }
  logging::set_sink(sink);
  EXPECT_THAT(logged, HasSubstr("stuck stream"));
}

// Everything that a user may call, by name.
struct Calls {
  Ref<Context> context;
  Ref<Stream> stream;
  Ref<hal::Allocation> x;
  Ref<hal::Pipeline> kernel;
  Ref<hal::Program> program;
  hal::Point point;
  std::vector<std::byte> data = std::vector<std::byte>(8);

  std::vector<std::pair<const char*, std::function<void()>>> all() {
    return {
        {"new_stream", [this] { context->new_stream(); }},
        {"create_pipeline",
         [this] {
           context->create_pipeline({"k", hal::HostFunction([](const auto&) {}), 0, {}});
         }},
        {"Context::allocate", [this] { context->allocate(8_B); }},
        {"import",
         [this] {
           context->import({data.data(), 8_B, {}, "mine"});
         }},
        {"new_host_timeline", [this] { context->new_host_timeline("h"); }},
        {"Context::synchronize", [this] { context->synchronize(); }},
        {"retire", [this] { context->retire(); }},
        {"trim", [this] { context->trim(); }},
        {"set_memory_limit", [this] { context->set_memory_limit({}); }},
        {"dispatch", [this] { stream->dispatch(kernel, std::array{t::in_place(x)}, {}, {}); }},
        {"copy",
         [this] { stream->copy(t::part(x, 0, 8, Access::read), t::part(x, 8, 8, Access::write)); }},
        {"fill", [this] { stream->fill(t::write_of(x), {}); }},
        {"native", [this] { stream->native([](const auto&) {}, {}); }},
        {"commit",
         [this] {
           Transaction transaction = stream->begin();
           transaction.fill(t::write_of(x), {});
           transaction.commit();
         }},
        {"scratch", [this] { stream->begin().scratch(8_B); }},
        {"Stream::allocate", [this] { stream->allocate(8_B); }},
        {"flush", [this] { stream->flush(); }},
        {"wait_for", [this] { stream->wait_for(point); }},
        {"synchronize", [this] { stream->synchronize(); }},
        {"upload", [this] { stream->upload(x, {}, data); }},
        {"readback", [this] { stream->readback(x, {}, data); }},
        {"map",
         [this] {
           stream->map(x, {{}, 8_B}, Access::read);
         }},
        {"replay", [this] { stream->replay(program, std::array{t::write_of(x)}); }},
    };
  }
};

Calls make_calls(Rig& rig) {
  Calls calls;
  calls.context = rig.context;
  calls.stream = rig.stream();
  calls.x = calls.stream->allocate(64_B);
  calls.kernel = rig.explode();
  ProgramRecorder recorder(rig.context, "p");
  recorder.fill(Binding::of_slot(0, {{}, 64_B}, Access::write), std::byte{1});
  calls.program = recorder.seal();
  t::put(*calls.stream, calls.x, 1);
  calls.point = calls.stream->flush();
  return calls;
}

TEST(Shutdown, afterwards_every_call_raises_closed_error) {
  Rig rig(kOneQueue);
  Calls calls = make_calls(rig);
  rig.context->close();
  EXPECT_TRUE(rig.context->closed());
  for (const auto& [name, call] : calls.all()) EXPECT_THROW(call(), ClosedError) << name;
}

TEST(Shutdown, sealing_a_program_afterwards_raises_closed_error) {
  Rig rig(kOneQueue);
  ProgramRecorder recorder(rig.context, "p");
  recorder.fill(Binding::of_slot(0, {{}, 64_B}, Access::write), std::byte{1});
  rig.context->close();
  EXPECT_THROW(recorder.seal(), ClosedError);
}

TEST(Shutdown, a_waiter_is_released_with_the_cause_when_the_context_closes) {
  Rig rig(kOneQueue, {.shutdown_bound = std::chrono::milliseconds(1), .reaper = false});
  const auto stream = rig.stream();
  const auto x = stream->allocate(64_B);
  const auto never = rig.context->new_host_timeline("never");
  stream->wait_for({never, {1}});
  t::put(*stream, x, 1);
  stream->flush();
  Event waiting;
  std::atomic<bool> told{false};
  sync::Thread waiter("waiter", [&] {
    WaitLimit limit = t::patient();
    limit.interrupted = [&] { return waiting.set(), false; };
    std::vector<std::byte> data(64);
    try {
      stream->readback(x, {}, data, limit);
    } catch (const ClosedError&) {
      told = true;
    }
  });
  ASSERT_TRUE(waiting.wait());
  rig.context->close();
  waiter.join();
  EXPECT_TRUE(told);
}

// Longer than any test is allowed to take.
constexpr sync::Duration kUnbounded = std::chrono::hours(24);

// Drops {context, stream, allocation, map, pipeline, program} in the given order.
void drop_in_order(const std::array<int, 6>& order, bool close_first) {
  std::atomic<int> deleted{0};
  std::array<std::byte, 64> mine{};
  {
    // Nothing here can hang, and what a busy machine leaves undone within a bound is never deleted.
    hal::CpuOptions unhurried = kOneQueue;
    unhurried.close_bound = kUnbounded;
    Rig rig(unhurried, {.shutdown_bound = kUnbounded});
    Ref<Stream> stream = rig.stream();
    Ref<hal::Allocation> x = stream->allocate(64_B);
    Ref<hal::Allocation> imported =
        rig.context->import({mine.data(), 64_B, [&] { ++deleted; }, "mine"});
    Ref<hal::Pipeline> kernel = rig.context->create_pipeline(
        {"k",
         hal::HostFunction([](const auto& g) { std::ranges::fill(g.bindings[0], std::byte{1}); }),
         1,
         {}});
    ProgramRecorder recorder(rig.context, "p");
    recorder.dispatch(kernel, std::array{t::write_of(imported)}, {}, {1, 1, 1});
    Ref<hal::Program> program = recorder.seal();
    std::optional<Map> map(stream->map(x, {{}, 32_B}, Access::write));
    for (int i = 0; i < 3; ++i) {
      stream->dispatch(kernel, std::array{t::part(x, 32, 32, Access::write)}, {}, {1, 1, 1});
      stream->replay(program, {});
    }
    stream->dispatch(kernel, std::array{t::part(x, 32, 32, Access::write)}, {}, {1, 1, 1});
    imported.reset();
    rig.device.reset();
    if (close_first) rig.context->close();
    for (const int which : order) {
      switch (which) {
        case 0: rig.context.reset(); break;
        case 1: stream.reset(); break;
        case 2: x.reset(); break;
        case 3: map.reset(); break;
        case 4: kernel.reset(); break;
        default: program.reset(); break;
      }
    }
    recorder = ProgramRecorder(Rig(kOneQueue).context, "lets go of the context");
  }
  ASSERT_EQ(deleted, 1) << "the import's deleter must run exactly once";
}

TEST(Shutdown, drops_are_safe_in_every_order_with_work_in_flight) {
  std::array<int, 6> order{0, 1, 2, 3, 4, 5};
  do {
    ASSERT_NO_FATAL_FAILURE(drop_in_order(order, false)) << ::testing::PrintToString(order);
  } while (std::ranges::next_permutation(order).found);
}

TEST(Shutdown, drops_are_safe_in_every_order_after_close) {
  std::array<int, 6> order{0, 1, 2, 3, 4, 5};
  do {
    ASSERT_NO_FATAL_FAILURE(drop_in_order(order, true)) << ::testing::PrintToString(order);
  } while (std::ranges::next_permutation(order).found);
}

TEST(Shutdown, the_last_context_ref_may_go_inside_a_deleter_that_the_reaper_runs) {
  struct Holder {
    Ref<Context> context;
    Ref<Stream> stream;
  };
  const auto device = hal::CpuDevice::open(kOneQueue);
  auto holder = std::make_shared<Holder>();
  holder->context = Context::create(device, Options{});
  holder->stream = holder->context->new_stream();
  const auto gate = holder->context->new_host_timeline("gate");
  std::vector<std::byte> mine(64);
  Event gone;
  holder->stream->wait_for({gate, {1}});
  {
    const auto imported = holder->context->import({mine.data(), 64_B,
                                                   [holder, &gone] {
                                                     holder->stream.reset();
                                                     holder->context.reset();
                                                     gone.set();
                                                   },
                                                   "mine"});
    t::put(*holder->stream, imported, 1);
  }
  holder->stream->flush();
  holder.reset();
  EXPECT_FALSE(device->lost());
  gate->signal({1});
  EXPECT_TRUE(gone.wait());
  EXPECT_TRUE(device->lost()) << "the context was closed";
}

TEST(Shutdown, a_context_dropped_while_its_kernels_run_on_other_threads_ends_cleanly) {
  for (int i = 0; i < 50; ++i) {
    Rig rig({.queues = 2, .helpers = 0}, {});
    Ref<Context> context = std::move(rig.context);
    std::vector<sync::Thread> threads;
    for (int n = 0; n < 2; ++n) {
      threads.emplace_back("user", [stream = context->new_stream()] {
        for (int k = 0; k < 10; ++k) {
          const auto x = stream->allocate(4_KiB);
          t::put(*stream, x, 1);
          stream->flush();
        }
      });
    }
    context.reset();
    threads.clear();
    EXPECT_TRUE(rig.device->lost()) << "the last stream's end closed it";
  }
}

TEST(Shutdown, in_a_forked_child_calls_are_usage_errors_and_drops_do_nothing) {
  auto rig = std::make_unique<Rig>(kOneQueue, Options{});
  auto calls = std::make_unique<Calls>(make_calls(*rig));
  rig->context->synchronize();
  auto gate = std::make_unique<Gate>(*rig->context);
  calls->stream->wait_for(gate->point());
  t::put(*calls->stream, calls->x, 1);
  calls->point = calls->stream->flush();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);  // a child that hangs is killed, and the test fails
    int wrong = 0;
    auto all = calls->all();
    all.emplace_back("Context::wait", [&] {
      calls->context->wait(calls->point, WaitLimit::after(std::chrono::milliseconds(1)));
    });
    for (const auto& [name, call] : all) {
      try {
        call();
        std::fprintf(stderr, "in the child, %s returned\n", name);
        ++wrong;
      } catch (const UsageError&) {
      } catch (const std::exception& error) {
        std::fprintf(stderr, "in the child, %s raised %s\n", name, error.what());
        ++wrong;
      }
    }
    all.clear();
    calls.reset();
    rig.reset();
    _exit(wrong);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "the child crashed or hung";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "calls with the wrong answer in the child";
  gate->open();
  calls->stream->synchronize(t::patient());
  EXPECT_EQ(t::value_of(*calls->stream, calls->x), 1) << "the parent goes on";
}

}  // namespace
}  // namespace holdfast::runtime
