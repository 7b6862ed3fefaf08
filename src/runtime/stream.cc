#include "holdfast/runtime/stream.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "holdfast/base/error.h"
#include "holdfast/base/log.h"
#include "holdfast/hal/host_touch.h"
#include "holdfast/runtime/core.h"
#include "holdfast/runtime/recorder.h"

namespace holdfast::runtime {

Stream::Stream(Ref<Context> context, Ref<Recorder> recorder)
    : context_(std::move(context)), recorder_(std::move(recorder)) {}

Stream::~Stream() {
  Core& core = context_->core();
  if (core.forked()) return;
  try {
    if (!core.closed()) recorder_->flush().or_raise();
  } catch (const std::exception& error) {
    logging::warn(logging::Topic::device,
                  "stream '{}' was dropped and could not submit its last list: {}", name(),
                  error.what());
  }
  recorder_->abandon(Failure(
      ErrorCode::closed, fmt::format("stream '{}' was dropped before it submitted it", name())));
  core.remove_recorder(*recorder_);
}

const std::string& Stream::name() const noexcept { return recorder_->name(); }

void Stream::record(std::span<const PendingCommand> commands) {
  context_->core().check_usable();
  context_->core().keep_within_budget();
  recorder_->record(commands);
}

void Stream::dispatch(const Ref<hal::Pipeline>& pipeline, std::span<const hal::Binding> bindings,
                      const hal::Parameters& parameters, hal::Groups groups,
                      std::string_view label) {
  const PendingCommand command{
      hal::CommandKind::dispatch, &pipeline, bindings, parameters, groups, {}, {}, label};
  record({&command, 1});
}

void Stream::copy(const hal::Binding& from, const hal::Binding& to, std::string_view label) {
  std::array ends{from, to};
  ends[0].access = hal::Access::read;
  ends[1].access = hal::Access::write;
  const PendingCommand command{hal::CommandKind::copy, {}, ends, {}, {}, {}, {}, label};
  record({&command, 1});
}

void Stream::fill(const hal::Binding& to, std::byte value, std::string_view label) {
  hal::Binding target = to;
  target.access = hal::Access::write;
  const PendingCommand command{hal::CommandKind::fill, {}, {&target, 1}, {}, {}, value, {}, label};
  record({&command, 1});
}

void Stream::native(hal::NativeCallback callback, std::span<const hal::Binding> bindings,
                    std::string_view label) {
  if (!callback) throw UsageError("a native command was given an empty callback");
  const PendingCommand command{hal::CommandKind::native,
                               {},
                               bindings,
                               {},
                               {},
                               {},
                               std::make_shared<const hal::NativeCallback>(std::move(callback)),
                               label};
  record({&command, 1});
}

Transaction Stream::begin(Transaction::MemoryUser memory_user) {
  return {Ref<Stream>(this), memory_user};
}

Ref<hal::Allocation> Stream::allocate(Bytes size, std::string name, hal::MemoryKind kind,
                                      const std::source_location& site) {
  return context_->core().allocate(recorder_.get(), size, std::move(name), kind, site);
}

hal::Point Stream::flush() {
  context_->core().check_usable();
  context_->core().keep_within_budget_to_flush();
  return recorder_->flush().or_raise();
}

void Stream::wait_for(const hal::Point& point, hal::WaitKind kind) {
  recorder_->wait_for({point, kind});
}

void Stream::wait_for(const Ref<hal::Allocation>& written, const WaitLimit& limit) {
  const ByteRange all{{}, written ? written->size() : Bytes{}};
  check_range(written, all, "a wait");
  context_->core().wait_for_writers(*written, all, WaitReason::point, limit);
}

void Stream::raise_failure_of(const Ref<hal::Allocation>& written) const {
  const ByteRange all{{}, written ? written->size() : Bytes{}};
  check_range(written, all, "a look");
  context_->core().raise_poison(*written, all);
}

void Stream::synchronize(const WaitLimit& limit) {
  const hal::Point point = recorder_->flush().or_raise();
  const hal::PointState state =
      context_->core().waits().wait(point, WaitReason::synchronize, limit);
  context_->core().retire();
  if (state == hal::PointState::failed) point.failure().raise();
}

void Stream::check_range(const Ref<hal::Allocation>& allocation, ByteRange range,
                         const char* verb) const {
  context_->core().check_usable();
  if (!allocation) {
    throw UsageError(fmt::format(
        "{} on stream '{}' was given no allocation (was its Ref moved from?)", verb, name()));
  }
  if (allocation->device() != context_->device()->id()) {
    throw UsageError(fmt::format("{} on stream '{}': {} belongs to another device", verb, name(),
                                 allocation->describe()));
  }
  if (!range.fits_in(allocation->size())) {
    throw UsageError(
        fmt::format("{} on stream '{}': {} bytes from byte {} do not lie in {}, which has "
                    "{} bytes",
                    verb, name(), range.length.value, range.offset.value, allocation->describe(),
                    allocation->size().value));
  }
}

void Stream::upload(const Ref<hal::Allocation>& to, Bytes offset, std::span<const std::byte> data) {
  const ByteRange range{offset, Bytes{data.size()}};
  check_range(to, range, "an upload");
  if (data.empty()) return;
  Core& core = context_->core();
  // Memory that the host reaches and nobody is using needs no detour. Imported memory may have
  // users we do not see, whom this stream was told to wait for.
  if (to->host_pointer() != nullptr && (!to->buffer()->is_imported() || recorder_->is_idle())) {
    const Core::HostCopy copying(core);
    hal::AccessHistory::HostAccess access{range, hal::Access::write, "upload", false, 0};
    if (core.try_begin_host_access(*to, access)) {
      {
        const hal::HostTouch touch(*to, range, hal::Access::write, "upload");
        std::memcpy(to->host_pointer() + offset.value, data.data(), data.size());
      }
      core.end_host_access(*to, access);
      return;
    }
  }
  const Ref<hal::Allocation> staging =
      allocate(range.length, fmt::format("staging for {}", to->name()), hal::MemoryKind::upload);
  {
    const Core::HostCopy copying(core);
    const hal::HostTouch touch(*staging, {{}, range.length}, hal::Access::write, "upload");
    std::memcpy(staging->host_pointer(), data.data(), data.size());
  }
  copy(hal::Binding::of(staging, {{}, range.length}, hal::Access::read),
       hal::Binding::of(to, range, hal::Access::write), "upload");
}

void Stream::readback(const Ref<hal::Allocation>& from, Bytes offset, std::span<std::byte> data,
                      const WaitLimit& limit) {
  const ByteRange range{offset, Bytes{data.size()}};
  check_range(from, range, "a readback");
  if (data.empty()) return;
  Core& core = context_->core();
  hal::AccessHistory::HostAccess access{range, hal::Access::read, "readback", false, 0};
  core.begin_host_access(*from, access, WaitReason::readback, limit);
  try {
    if (from->host_pointer() != nullptr) {
      const Core::HostCopy copying(core);
      const hal::HostTouch touch(*from, range, hal::Access::read, "readback");
      std::memcpy(data.data(), from->host_pointer() + offset.value, data.size());
    } else {
      copy_out(from, range, data, limit);
    }
  } catch (...) {
    core.end_host_access(*from, access, false);
    throw;
  }
  core.end_host_access(*from, access);
}

// Through memory that the host reaches. The writers have finished, so the copy waits for nothing
// and holds nobody up who shares its queue.
void Stream::copy_out(const Ref<hal::Allocation>& from, ByteRange range, std::span<std::byte> data,
                      const WaitLimit& limit) {
  Core& core = context_->core();
  const Ref<hal::Allocation> staging =
      core.allocate(nullptr, range.length, fmt::format("staging for {}", from->name()),
                    hal::MemoryKind::readback);
  const Ref<hal::Ticket> ticket =
      core.submit_transfer(hal::Binding::of(from, range, hal::Access::read),
                           hal::Binding::of(staging, {{}, range.length}, hal::Access::write));
  const hal::PointState state = core.waits().wait(ticket->point(), WaitReason::readback, limit);
  core.retire();
  // The Point of a list that others share may fail for their sake.
  if (state == hal::PointState::failed) core.raise_poison(*staging, {{}, range.length});
  const Core::HostCopy copying(core);
  const hal::HostTouch touch(*staging, {{}, range.length}, hal::Access::read, "readback");
  std::memcpy(data.data(), staging->host_pointer(), data.size());
}

Map Stream::map(const Ref<hal::Allocation>& allocation, ByteRange range, hal::Access access,
                const WaitLimit& limit, std::string map_name) {
  check_range(allocation, range, "a map");
  if (allocation->host_pointer() == nullptr) {
    throw UsageError(
        fmt::format("{} cannot be mapped: the host does not reach {} memory on this device; "
                    "use upload and readback, or allocate upload or readback memory",
                    allocation->describe(), hal::to_string(allocation->buffer()->kind())));
  }
  if (map_name.empty()) map_name = fmt::format("map of {}", allocation->name());
  hal::AccessHistory::HostAccess host{range, access, std::move(map_name), true, 0};
  context_->core().begin_host_access(*allocation, host, WaitReason::map, limit);
  return {context_, allocation, std::move(host)};
}

hal::Point Stream::replay(const Ref<hal::Program>& program, std::span<const hal::Binding> slots,
                          std::span<const std::byte> parameters, std::string_view label) {
  context_->core().check_usable();
  context_->core().keep_within_budget_to_flush();
  return recorder_->replay(program, slots, parameters, label).or_raise();
}

}  // namespace holdfast::runtime
