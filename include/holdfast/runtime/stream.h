#pragma once

#include <memory>
#include <span>
#include <string>

#include "holdfast/runtime/context.h"
#include "holdfast/runtime/map.h"
#include "holdfast/runtime/transaction.h"

namespace holdfast::runtime {
class Recorder;
}

#pragma GCC visibility push(default)

namespace holdfast::runtime {

// What users see of a queue: they record into it and it keeps every promise about order and
// lifetime. Recorded commands behave as if executed one after another, in recorded order; across
// streams, as if each binding waited for the last one that conflicts with it. Any thread may use
// any stream. Several streams may share a queue.
//
// Keeps its Context alive. Dropping the last Ref submits what was recorded.
class Stream final : public RefCounted {
 public:
  ~Stream() override;

  const std::string& name() const noexcept;
  const Ref<Context>& context() const noexcept { return context_; }

  // Recording. Each of these is a transaction of one command; begin() opens one of several. Nothing
  // runs before flush(), a wait, or the budget submits the list. Errors: UsageError names the
  // object and the limit; where a binding reads bytes that a failure left bad, its cause is raised.
  // Nothing is recorded then, and the stream stays usable.
  void dispatch(const Ref<hal::Pipeline>& pipeline, std::span<const hal::Binding> bindings,
                const hal::Parameters& parameters, hal::Groups groups, std::string_view label = {});
  void copy(const hal::Binding& from, const hal::Binding& to, std::string_view label = {});
  void fill(const hal::Binding& to, std::byte value, std::string_view label = {});
  void native(hal::NativeCallback callback, std::span<const hal::Binding> bindings,
              std::string_view label = {});
  Transaction begin();

  // Copies bytes of another device's memory, which `source` is a stream of, without blocking the
  // host: in order after what was recorded here and on `source`, both of which are submitted. `to`
  // is written by a list of its own. Where the bytes turn out to be bad, or their device is closed
  // before they could be read, `to` is bad, with that cause. The transfer holds what it reads and
  // keeps the source's Context open until it is over.
  //
  // The host carries the bytes, through memory of both devices that it reaches. `unchanged`, where
  // given, keeps others from writing to `from` for as long as it lives: then no copy is made on the
  // source where the host reaches that memory, and the transfer keeps `unchanged` instead. Waits,
  // accounted, only for the budget of either device.
  void copy_from(Stream& source, const hal::Binding& from, const hal::Binding& to,
                 std::shared_ptr<const void> unchanged = nullptr, std::string_view label = {});

  // Memory that this stream will use first: it may be a range whose last life ends in this stream's
  // open list. OutOfMemoryError says who holds what. Zero bytes are allowed.
  Ref<hal::Allocation> allocate(Bytes size, std::string name = {},
                                hal::MemoryKind kind = hal::MemoryKind::device,
                                const std::source_location& site = std::source_location::current());

  // Submits what was recorded and returns its Point; with nothing recorded, the Point of the last
  // list. Never waits for the device, except for the budget (accounted). Raises what the device
  // refused; that list's results are then poisoned and the stream works on.
  hal::Point flush();
  // Later work of this stream waits for the Point, on the device: the host is never blocked.
  // UsageError for a Point of another device.
  void wait_for(const hal::Point& point, hal::WaitKind kind = hal::WaitKind::data);
  // flush(), then waits for it. Raises the failure of the last list, some of whose results may be
  // good all the same.
  void synchronize(const WaitLimit& limit = {});

  // The data is owned before it returns: the caller may reuse its memory at once.
  void upload(const Ref<hal::Allocation>& to, Bytes offset, std::span<const std::byte> data);
  // Waits for the range's last writer only, on whichever stream, and retires all that is finished.
  // Raises the cause where bytes of the range are bad.
  void readback(const Ref<hal::Allocation>& from, Bytes offset, std::span<std::byte> data,
                const WaitLimit& limit = {});
  // Waits as a readback does, and reads nothing.
  void wait_for(const Ref<hal::Allocation>& written, const WaitLimit& limit = {});
  // What a failed list left in it, as far as that is seen already. Never waits.
  void raise_failure_of(const Ref<hal::Allocation>& written) const;
  // Submits the lists that touch the range; waits for its writers (to read) or for all its users
  // (to write). UsageError for memory that the host cannot reach, and where another map conflicts.
  Map map(const Ref<hal::Allocation>& allocation, ByteRange range, hal::Access access,
          const WaitLimit& limit = {}, std::string name = {});

  // Runs a program after what was recorded so far, as a list of its own.
  hal::Point replay(const Ref<hal::Program>& program, std::span<const hal::Binding> slots,
                    std::span<const std::byte> parameters = {}, std::string_view label = {});

 private:
  friend class Context;
  friend class Transaction;
  Stream(Ref<Context> context, Ref<Recorder> recorder);
  void record(std::span<const PendingCommand> commands);
  void copy_out(const Ref<hal::Allocation>& from, ByteRange range, std::span<std::byte> data,
                const WaitLimit& limit);
  void check_range(const Ref<hal::Allocation>& allocation, ByteRange range, const char* verb) const;
  // Submits what makes the bytes ready for the host: a copy of them in `proof` or, where the host
  // is to read them in place, the mere proof that they are good.
  Ref<hal::Ticket> make_ready(const hal::Binding& from, const Ref<hal::Allocation>& proof,
                              bool in_place, std::string_view label);

  Ref<Context> context_;
  Ref<Recorder> recorder_;
};

}  // namespace holdfast::runtime

#pragma GCC visibility pop
