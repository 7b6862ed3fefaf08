#include "holdfast/testing/rig.h"

#include <embedded/testing_spirv.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "holdfast/base/env.h"
#include "holdfast/base/rounding.h"

namespace holdfast::testing {

using hal::Access;
using hal::Binding;

void Event::set() {
  sync::Lock lock(mutex_);
  set_ = true;
  changed_.notify_all();
}

bool Event::is_set() const {
  sync::Lock lock(mutex_);
  return set_;
}

bool Event::wait() const {
  // In a simulation nobody loses patience: what never happens is a deadlock, and reported.
  const sync::Deadline deadline = sync::Scheduler::current() != nullptr
                                      ? sync::Deadline::never()
                                      : sync::Deadline::after(kPatience);
  sync::Lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return set_; });
}

bool until(const std::function<bool()>& condition) {
  const sync::Deadline deadline = sync::Deadline::after(kPatience);
  for (unsigned attempt = 0; !condition(); ++attempt) {
    if (deadline.passed()) return false;
    sync::relax(attempt);
  }
  return true;
}

bool until_done(const hal::Point& point) {
  return until([&] { return !point.pending(); });
}

Gate::Gate(runtime::Context& context) : timeline_(context.new_host_timeline("gate")) {}

Gate::~Gate() { open(); }

void Gate::open() {
  if (point().pending()) timeline_->signal({1});
}

void Gate::fail(Failure cause) { timeline_->fail({1}, std::move(cause)); }

Slow::Slow(runtime::Context& context, std::byte value) {
  kernel_ = context.create_pipeline(
      {"slow",
       hal::HostFunction([running = running_, released = released_, value](const auto& g) {
         running->set();
         if (!released->wait()) throw std::runtime_error("nobody released the slow kernel");
         std::ranges::fill(g.bindings[0], value);
       }),
       1,
       {}});
}

bool blocks(const std::function<void()>& call) {
  Event done;
  bool interrupted = false;
  sync::Thread thread("blocks", [&] {
    try {
      call();
    } catch (const InterruptedError&) {
      interrupted = true;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "raised instead of blocking: " << error.what();
    }
    done.set();
  });
  const bool ended = until([&] {
    runtime::interrupt_waits();
    return done.is_set();
  });
  EXPECT_TRUE(ended) << "neither returned nor could be interrupted";
  thread.join();
  return interrupted;
}

Rig::Rig(hal::CpuOptions device_options, runtime::Options options) {
  Ref<hal::CpuDevice> innermost = hal::CpuDevice::open(std::move(device_options));
  cpu = innermost.get();
  device = std::move(innermost);
  if (env::flag("HOLDFAST_VALIDATE").value_or(true)) {
    device = hal::ValidateDevice::wrap(std::move(device));
  }
  context = runtime::Context::create(device, options);
}

Rig::Rig(World& world, hal::CpuOptions device_options, runtime::Options options)
    : device(world.open(std::move(device_options))),
      context(runtime::Context::create(device, options)),
      world_(&world) {
  world.attach(context.get());
  // Made now, since tasks share the rig.
  add();
  affine();
  if (family() != Family::cuda) explode();
}

Rig::~Rig() {
  if (world_ != nullptr) world_->detach(context.get());
}

Ref<runtime::Stream> Rig::stream(std::string name, std::optional<uint32_t> queue) {
  if (queue && family() != Family::cpu) *queue %= device->info().queues;
  return context->new_stream({std::move(name), queue});
}

Ref<hal::Pipeline> Rig::add() {
  if (!add_) add_ = context->create_pipeline(test_kernel(family(), "add"));
  return add_;
}

Ref<hal::Pipeline> Rig::affine() {
  if (!affine_) affine_ = context->create_pipeline(test_kernel(family(), "affine"));
  return affine_;
}

Ref<hal::Pipeline> Rig::explode() {
  if (!explode_) explode_ = make_explode("explode", 1);
  return explode_;
}

Ref<hal::Pipeline> Rig::explode_reading() {
  if (!explode_reading_) explode_reading_ = make_explode("explode_reading", 2);
  return explode_reading_;
}

Ref<hal::Pipeline> Rig::make_explode(std::string_view name, uint32_t bindings) {
  hal::Module module =
      hal::HostFunction([](const hal::HostGroup&) { throw std::runtime_error("it exploded"); });
  if (family() == Family::vulkan) {
    const std::span<const uint32_t> words = embedded::testing_spirv(name);
    hal::SpirvModule reporting{{words.begin(), words.end()}};
    reporting.bindings = hal::SpirvBindings::addresses;
    reporting.report = {{4}, [](std::span<const std::byte>) { return std::string("it exploded"); }};
    module = std::move(reporting);
  }
  return context->create_pipeline({std::string(name), std::move(module), bindings, {}});
}

Pages::Pages(size_t at_least) : data_(nullptr), size_{round_up(at_least, kPage)} {
  data_ = std::aligned_alloc(kPage, size_.value);
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_, 0, size_.value);
}

Pages::~Pages() { std::free(data_); }

Binding read_of(const Ref<hal::Allocation>& a) { return Binding::of(a, Access::read); }
Binding write_of(const Ref<hal::Allocation>& a) { return Binding::of(a, Access::write); }
Binding in_place(const Ref<hal::Allocation>& a) { return Binding::of(a, Access::read_write); }
Binding part(const Ref<hal::Allocation>& a, uint64_t offset, uint64_t length, Access access) {
  return Binding::of(a, {{offset}, {length}}, access);
}

void run_add(Rig& rig, runtime::Stream& stream, const Ref<hal::Allocation>& in,
             const Ref<hal::Allocation>& out, uint8_t value, std::string_view label) {
  stream.dispatch(rig.add(), std::array{read_of(in), write_of(out)}, hal::Parameters::of(value),
                  {1, 1, 1}, label);
}

void run_affine(Rig& rig, runtime::Stream& stream, const Binding& at, uint8_t value) {
  stream.dispatch(rig.affine(), {&at, 1}, hal::Parameters::of(value), {1, 1, 1});
}

void run_explode(Rig& rig, runtime::Stream& stream, const Ref<hal::Allocation>& out,
                 std::string_view label) {
  const std::array bindings{write_of(out)};
  if (rig.family() != Family::cuda) {
    return stream.dispatch(rig.explode(), bindings, {}, {1, 1, 1}, label);
  }
  stream.native([](const hal::NativeCall&) { throw std::runtime_error("it exploded"); }, bindings,
                label);
}

void run_slow(const Slow& slow, runtime::Stream& stream, const Ref<hal::Allocation>& out) {
  stream.dispatch(slow.kernel(), std::array{write_of(out)}, {}, {1, 1, 1});
}

std::vector<uint8_t> bytes_of(runtime::Stream& stream, const Ref<hal::Allocation>& from) {
  std::vector<uint8_t> bytes(from->size().value);
  stream.readback(from, {}, std::as_writable_bytes(std::span(bytes)), patient());
  return bytes;
}

int value_of(runtime::Stream& stream, const Ref<hal::Allocation>& from) {
  const std::vector<uint8_t> bytes = bytes_of(stream, from);
  const bool same = std::ranges::all_of(bytes, [&](uint8_t b) { return b == bytes[0]; });
  return same && !bytes.empty() ? bytes[0] : -1;
}

void put(runtime::Stream& stream, const Ref<hal::Allocation>& to, uint8_t value) {
  stream.fill(write_of(to), std::byte{value});
}

}  // namespace holdfast::testing
