#include "holdfast/hal/cts/cts.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "holdfast/base/rounding.h"

namespace holdfast::hal::cts {

// For hangs alone: a sanitizer on a busy machine takes a hundred times what a device takes.
sync::Deadline patience() { return sync::Deadline::after(std::chrono::minutes(10)); }

ByteVector pattern(size_t size, uint32_t seed) {
  ByteVector result(size);
  for (size_t i = 0; i < size; ++i) {
    result[i] = static_cast<std::byte>(mix_element(static_cast<uint32_t>(i) + seed, 2) >> 24);
  }
  return result;
}

void fail_the_test(const Violation& violation) {
  if (!violation.is_note()) ADD_FAILURE() << to_string(violation.kind) << ": " << violation.message;
}

void Counter::add() {
  sync::Lock lock(mutex_);
  ++count_;
  changed_.notify_all();
}

int Counter::value() const {
  sync::Lock lock(mutex_);
  return count_;
}

bool Counter::reaches(int count, sync::Deadline deadline) const {
  sync::Lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [&] { return count_ >= count; });
}

Words counting(size_t count, uint32_t first) {
  Words result(count);
  std::iota(result.begin(), result.end(), first);
  return result;
}

namespace {

PointState wait_for(const Point& point) {
  return point.timeline ? point.timeline->wait(point.value, patience()) : PointState::reached;
}

std::string state_of(const Point& point, PointState state) {
  std::string text = to_string(point) + " is " + to_string(state);
  if (const Failure failure = point.failure()) text += ": " + failure.message();
  return text;
}

::testing::AssertionResult has_state(const Point& point, PointState wanted, PointState state) {
  auto result = state == wanted ? ::testing::AssertionSuccess() : ::testing::AssertionFailure();
  return result << state_of(point, state);
}

}  // namespace

::testing::AssertionResult reached(const Point& point) {
  return has_state(point, PointState::reached, wait_for(point));
}

::testing::AssertionResult failed(const Point& point) {
  const PointState state = wait_for(point);
  if (state == PointState::failed && !point.failure()) {
    return ::testing::AssertionFailure() << to_string(point) << " failed without a cause";
  }
  return has_state(point, PointState::failed, state);
}

::testing::AssertionResult failed_with(const Point& point, const Failure& cause) {
  auto result = failed(point);
  if (result && point.failure() != cause) {
    return ::testing::AssertionFailure()
           << state_of(point, PointState::failed) << "; not the cause '" << cause.message() << "'";
  }
  return result;
}

::testing::AssertionResult resolved(const Point& point) {
  const PointState state = wait_for(point);
  if (state == PointState::pending) {
    return ::testing::AssertionFailure() << state_of(point, state);
  }
  return ::testing::AssertionSuccess() << state_of(point, state);
}

::testing::AssertionResult pending(const Point& point) {
  return has_state(point, PointState::pending, point.query());
}

std::string message_of_refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "refused with another error: " << error.what();
    return {};
  }
  ADD_FAILURE() << "not refused";
  return {};
}

void Cts::SetUp() {
  const std::string_view full = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string name(full.substr(0, full.find('/')));
  if (GetParam().unsupported.contains(name)) {
    GTEST_SKIP() << "device '" << GetParam().name << "' does not support " << name;
  }
  if (const std::string why = GetParam().missing ? GetParam().missing() : ""; !why.empty()) {
    GTEST_SKIP() << why;
  }
  device_ = GetParam().open().or_raise();
}

void Cts::TearDown() {
  // A test that went wrong may have left lists waiting.
  for (const auto& gate : gates_) {
    gate->fail_all_pending(Failure(ErrorCode::closed, "the test is over"));
  }
  drop_device();
}

void Cts::drop_device() {
  pipelines_.clear();
  device_.reset();
}

Gate Cts::gate(std::string name) {
  gates_.push_back(device_->create_host_timeline(std::move(name)).or_raise());
  return {gates_.back()};
}

Ref<Allocation> Cts::buffer(Bytes size, std::string name, MemoryKind kind) {
  return Allocation::whole(device_->create_buffer({size, kind, std::move(name)}).or_raise());
}

Ref<Allocation> Cts::uploaded(std::span<const std::byte> content, std::string name) {
  const Bytes size{content.size()};
  const auto staging = buffer(size, "upload of " + name, MemoryKind::upload);
  auto result = buffer(size, std::move(name));
  std::ranges::copy(content, staging->host_pointer());
  auto copy = list("upload");
  copy.copy(staging, {{}, size}, result, {{}, size});
  EXPECT_TRUE(reached(submit(queue(), copy)));
  queue()->retire();
  return result;
}

ByteVector Cts::read_bytes(const Ref<Allocation>& from) {
  const ByteRange all{{}, from->size()};
  const auto staging = buffer(from->size(), "readback", MemoryKind::readback);
  auto copy = list("readback");
  copy.copy(from, all, staging, all);
  EXPECT_TRUE(reached(submit(queue(), copy)));
  queue()->retire();
  return {staging->host_pointer(), staging->host_pointer() + from->size().value};
}

Words Cts::read(const Ref<Allocation>& from) {
  const ByteVector bytes = read_bytes(from);
  Words result(bytes.size() / sizeof(uint32_t));
  std::memcpy(result.data(), bytes.data(), result.size() * sizeof(uint32_t));
  return result;
}

ExternalMemory external(const Words& content, std::string name, Imported& out) {
  // Whole pages, which is what devices can use in place.
  constexpr size_t kPage = 4096;
  const size_t bytes = round_up(content.size() * sizeof(uint32_t), kPage);
  void* memory = std::aligned_alloc(kPage, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, bytes);
  std::memcpy(memory, content.data(), content.size() * sizeof(uint32_t));
  out.words = static_cast<uint32_t*>(memory);
  out.deletions = std::make_shared<Counter>();
  return {memory,
          {bytes},
          [memory, deletions = out.deletions] {
            // A second call must reach the test's own check.
            if (deletions->value() == 0) std::free(memory);
            deletions->add();
          },
          std::move(name)};
}

Imported Cts::imported(const Words& content, std::string name) {
  Imported result;
  auto buffer = device_->import_buffer(external(content, std::move(name), result)).or_raise();
  result.allocation = Allocation::whole(std::move(buffer));
  return result;
}

Ref<Pipeline> Cts::make_pipeline(std::string_view kernel, Bytes parameter_bytes,
                                 std::string_view name) {
  const auto* interface = std::ranges::find(kKernels, kernel, &KernelInterface::name);
  if (interface == std::end(kKernels)) throw UsageError("no kernel '" + std::string(kernel) + "'");
  return device_
      ->create_pipeline({std::string(name.empty() ? kernel : name),
                         GetParam().module(kernel, parameter_bytes), interface->bindings,
                         parameter_bytes})
      .or_raise();
}

Ref<Pipeline> Cts::make_pipeline(std::string_view kernel) {
  const auto* interface = std::ranges::find(kKernels, kernel, &KernelInterface::name);
  return make_pipeline(kernel,
                       interface == std::end(kKernels) ? Bytes{} : interface->parameter_bytes);
}

const Ref<Pipeline>& Cts::pipeline(std::string_view kernel) {
  auto& result = pipelines_[std::string(kernel)];
  if (!result) result = make_pipeline(kernel);
  return result;
}

void Cts::dispatch(CommandList& to, std::string_view kernel, const std::vector<Binding>& bindings,
                   const Parameters& parameters, Groups groups, std::string_view label) {
  to.dispatch(pipeline(kernel), bindings, parameters, groups, label);
}

namespace {
Groups groups_of(const Ref<Allocation>& data) {
  return groups_for(data->size().value / sizeof(uint32_t));
}
}  // namespace

void Cts::increment(CommandList& to, const Ref<Allocation>& data) {
  dispatch(to, "increment", {Binding::of(data, Access::read_write)}, {}, groups_of(data));
}

void Cts::store(CommandList& to, const Ref<Allocation>& data, uint32_t value) {
  dispatch(to, "store", {Binding::of(data, Access::write)}, Parameters::of(value), groups_of(data));
}

void Cts::affine(CommandList& to, const Ref<Allocation>& data, uint32_t multiplier,
                 uint32_t addend) {
  const AffineParameters parameters{multiplier, addend};
  dispatch(to, "affine", {Binding::of(data, Access::read_write)}, Parameters::of(parameters),
           groups_of(data));
}

void Cts::mix(CommandList& to, const Ref<Allocation>& in, const Ref<Allocation>& out,
              uint32_t rounds) {
  dispatch(to, "mix", {Binding::of(in, Access::read), Binding::of(out, Access::write)},
           Parameters::of(rounds), groups_of(out));
}

Point Cts::failed_point(const Ref<Queue>& queue, const Failure& cause) {
  const Gate failing = gate("failing");
  failing.fail(cause);
  auto doomed = list("doomed");
  Point point = submit(queue, doomed, {failing.data()});
  EXPECT_TRUE(failed_with(point, cause));
  return point;
}

INSTANTIATE_TEST_SUITE_P(AllDevices, Cts, ::testing::ValuesIn(registered_devices()),
                         [](const auto& test) { return test.param.name; });

}  // namespace holdfast::hal::cts
