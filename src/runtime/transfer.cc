#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "holdfast/base/error.h"
#include "holdfast/hal/host_touch.h"
#include "holdfast/runtime/recorder.h"
#include "holdfast/runtime/stream.h"
#include "holdfast/runtime/transfer_gate.h"

namespace holdfast::runtime {
namespace {

std::string closed_early(std::string_view device, std::string_view why) {
  return fmt::format("device '{}' was closed before a transfer from it was over: {}", device, why);
}

// What a transfer reads, kept by the destination's list until that is over. It keeps no Context
// open: two devices with transfers in both directions would keep each other.
class TransferSource {
 public:
  TransferSource(std::shared_ptr<Core> core, Ref<hal::Allocation> memory, ByteRange range)
      : core_(std::move(core)), memory_(std::move(memory)), range_(range) {
    memory_->begin_outside_read();
  }
  ~TransferSource() { memory_->end_outside_read(); }
  TransferSource(const TransferSource&) = delete;
  TransferSource& operator=(const TransferSource&) = delete;

  Bytes length() const noexcept { return range_.length; }

  // Once the gate is open. ClosedError where the memory may be gone.
  void read(std::span<std::byte> to) const {
    std::optional<Core::HostCopy> copying;
    try {
      copying.emplace(*core_, Core::HostCopy::Of::transfer);
    } catch (const ClosedError& error) {
      throw ClosedError(closed_early(core_->device().info().name, error.what()));
    }
    const hal::HostTouch touch(*memory_, range_, hal::Access::read, "transfer");
    std::memcpy(to.data(), memory_->host_pointer() + range_.offset.value, length().value);
  }

 private:
  std::shared_ptr<Core> core_;
  Ref<hal::Allocation> memory_;
  ByteRange range_;
};

std::shared_ptr<const hal::NativeCallback> as_native(hal::NativeCallback callback) {
  return std::make_shared<const hal::NativeCallback>(std::move(callback));
}

}  // namespace

TransferGate::TransferGate(const std::shared_ptr<Core>& source, hal::Point ready,
                           const hal::Allocation& proof)
    : RelayTimeline(std::move(ready), proof.id(), {{}, proof.size()},
                    fmt::format("transfer from '{}'", source->device().info().name)),
      source_(source),
      device_name_(source->device().info().name) {}

const TransferGate* TransferGate::of(const hal::Point& point) noexcept {
  if (!point.timeline || point.timeline->device()) return nullptr;
  return dynamic_cast<const TransferGate*>(point.timeline.get());
}

Failure TransferGate::failure(hal::TimelineValue value) const {
  Failure cause = RelayTimeline::failure(value);
  if (!cause || cause.code() != ErrorCode::closed) return cause;
  return Failure(ErrorCode::closed, closed_early(device_name_, cause.message()));
}

Ref<hal::Ticket> Stream::make_ready(const hal::Binding& from, const Ref<hal::Allocation>& proof,
                                    bool in_place, std::string_view label) {
  // The proof is bad exactly where bytes of `from` are.
  const std::array bindings{from, hal::Binding::of(proof, hal::Access::write)};
  PendingCommand command{hal::CommandKind::copy, {}, bindings, {}, {}, {}, {}, label};
  if (in_place) {
    command.kind = hal::CommandKind::native;
    command.native = as_native([](const hal::NativeCall&) {});
  }
  Ref<hal::Ticket> ticket;
  recorder_->record({&command, 1}, &ticket);
  context_->core().submit_open_list(*ticket);
  if (ticket->state() == hal::TicketState::abandoned) ticket->failure().raise();
  return ticket;
}

void Stream::copy_from(Stream& source, const hal::Binding& from, const hal::Binding& to,
                       Source promise, std::string_view label) {
  Ref<hal::Allocation> memory(from.allocation);
  source.check_range(memory, from.range, "a transfer");
  check_range(Ref<hal::Allocation>(to.allocation), to.range, "a transfer");
  const Bytes length = from.range.length;
  if (length != to.range.length) {
    throw UsageError(
        fmt::format("a transfer from {} to {} is of {} bytes at one end and of {} at "
                    "the other",
                    from.allocation->describe(), to.allocation->describe(), length.value,
                    to.range.length.value));
  }
  if (length.value == 0) return;
  if (source.context_ == context_) return copy(from, to, label);

  Core& there = source.context_->core();
  Core& here = context_->core();
  here.keep_within_budget_to_flush();
  there.keep_within_budget_to_flush();
  there.make_room_for_transfer(length);

  const bool in_place = promise == Source::unchanged && memory->host_pointer() != nullptr;
  const Ref<hal::Allocation> proof =
      in_place ? source.allocate(Bytes{1}, "proof of a transfer")
               : source.allocate(length, fmt::format("staging for {}", memory->name()),
                                 hal::MemoryKind::readback);
  // Where its own commands run on the host they write to the place itself; elsewhere callbacks run
  // before the commands around them, and what they may write to is memory of their own.
  const bool writes_in_place =
      context_->device()->info().module_form == hal::ModuleForm::host_function;
  Ref<hal::Allocation> staging;
  if (!writes_in_place) {
    staging = allocate(length, fmt::format("staging for {}", to.allocation->name()),
                       hal::MemoryKind::upload);
  }

  hal::Binding read = from;
  read.access = hal::Access::read;
  const auto bytes =
      std::make_shared<const TransferSource>(there.shared_from_this(), in_place ? memory : proof,
                                             in_place ? from.range : ByteRange{{}, length});
  const Ref<hal::Ticket> ready = source.make_ready(read, proof, in_place, label);

  std::byte* const reached = staging ? staging->host_pointer() : nullptr;
  const hal::Binding written = staging ? hal::Binding::of(staging, hal::Access::write)
                                       : hal::Binding{to.allocation, to.range, hal::Access::write};
  const std::array ends{hal::Binding::of(staging, hal::Access::read),
                        hal::Binding{to.allocation, to.range, hal::Access::write}};
  std::vector<PendingCommand> commands;
  commands.push_back({hal::CommandKind::native,
                      {},
                      {&written, 1},
                      {},
                      {},
                      {},
                      as_native([bytes, reached](const hal::NativeCall& call) {
                        bytes->read(reached != nullptr ? std::span(reached, bytes->length().value)
                                                       : call.host_bindings.front());
                      }),
                      label});
  if (staging) commands.push_back({hal::CommandKind::copy, {}, ends, {}, {}, {}, {}, label});
  const auto gate = make_ref<TransferGate>(there.shared_from_this(), ready->point(), *proof);
  const Ref<hal::Ticket> ticket =
      recorder_->submit_alone(commands, {{gate, {1}}, hal::WaitKind::data});
  there.add_reader(here.shared_from_this(), ticket->point(), length);
}

void Core::add_reader(const std::shared_ptr<Core>& reader, const hal::Point& point, Bytes bytes) {
  readers_.lock()->push_back({reader, point, bytes});
}

void Core::make_room_for_transfer(Bytes bytes) {
  const auto fits = [&] {
    Bytes all = bytes;
    const auto readers = readers_.lock();
    for (const Reader& r : *readers) all += r.bytes;
    return readers->empty() || all <= options_.deferred_limit;
  };
  forget_finished_readers();
  while (!fits() && wait_for_reader(WaitReason::budget)) {
  }
}

void Core::forget_finished_readers() {
  std::vector<Reader> finished = *readers_.lock();
  std::erase_if(finished, [](const Reader& r) { return r.point.pending(); });
  if (finished.empty()) return;
  const auto is_finished = [&](const Reader& r) {
    return std::ranges::find(finished, r.point, &Reader::point) != finished.end();
  };
  std::erase_if(*readers_.lock(), is_finished);
  // Their lists hold the memory until they are retired.
  for (const Reader& r : finished) {
    const std::shared_ptr<Core> reader = r.core.lock();
    if (reader && !reader->closed()) reader->retire();
  }
}

bool Core::wait_for_reader(WaitReason reason, const WaitLimit& limit) {
  const std::vector<Reader> all = *readers_.lock();
  const auto may_be_waited_for = [](const Reader& r) {
    if (!r.point.pending()) return true;
    const std::shared_ptr<Core> reader = r.core.lock();
    return reader && !reader->is_gated(r.point);
  };
  const auto oldest = std::ranges::find_if(all, may_be_waited_for);
  if (oldest == all.end()) return false;
  waits_.wait(oldest->point, reason, limit);
  forget_finished_readers();
  return true;
}

}  // namespace holdfast::runtime
