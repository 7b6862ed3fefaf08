#pragma once

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

// The user's side of a queue: users record into a Stream, and it keeps every promise about order
// and lifetime. Recorded commands behave as if executed one after another, in recorded order.
// Across streams, each binding behaves as if it waited for the last one that conflicts with it. Any
// thread may use any stream. Several streams may share a queue.
//
// Keeps its Context alive. Dropping the last Ref submits what was recorded.
class Stream final : public RefCounted {
 public:
  ~Stream() override;

  const std::string& name() const noexcept;
  const Ref<Context>& context() const noexcept { return context_; }

  // Recording. Each call is a transaction of one command; begin() opens a transaction of several.
  // Nothing runs until flush(), a wait, or the budget submits the list. A UsageError names the
  // object and the limit. A binding that reads bytes which a failure left bad raises the cause of
  // that failure. In both cases nothing is recorded, and the stream stays usable.
  void dispatch(const Ref<hal::Pipeline>& pipeline, std::span<const hal::Binding> bindings,
                const hal::Parameters& parameters, hal::Groups groups, std::string_view label = {});
  void copy(const hal::Binding& from, const hal::Binding& to, std::string_view label = {});
  void fill(const hal::Binding& to, std::byte value, std::string_view label = {});
  void native(hal::NativeCallback callback, std::span<const hal::Binding> bindings,
              std::string_view label = {});
  Transaction begin(Transaction::MemoryUser memory_user = Transaction::MemoryUser::transaction);

  // Copies bytes from the memory of another device without blocking the host; `source` is a stream
  // of that device. The copy comes after everything recorded here and on `source`, and both are
  // submitted. A list of its own writes `to`. If the bytes turn out to be bad, or their device is
  // closed before they could be read, `to` is bad, with that cause. The transfer holds what it
  // reads; closing the source's Context waits for it as for work of its own.
  //
  // The host carries the bytes, through memory of both devices that it can reach. With
  // Source::unchanged the caller promises that nobody writes to `from` while it is_read_outside():
  // if the host can reach that memory, no copy is then made on the source. Waits only for the
  // budget of either device; these waits are accounted.
  enum class Source : bool { may_change, unchanged };
  void copy_from(Stream& source, const hal::Binding& from, const hal::Binding& to,
                 Source promise = Source::may_change, std::string_view label = {});

  // Allocates memory that this stream will use first. The range may be one whose last life ends in
  // this stream's open list. OutOfMemoryError says who holds what. Zero bytes are allowed.
  Ref<hal::Allocation> allocate(Bytes size, std::string name = {},
                                hal::MemoryKind kind = hal::MemoryKind::device,
                                const std::source_location& site = std::source_location::current());

  // Submits what was recorded and returns its Point; with nothing recorded, the Point of the last
  // list. Never waits for the device, except for the budget (accounted). Raises the failure if the
  // device refuses the list; its results are then poisoned, and the stream stays usable.
  hal::Point flush();
  // Makes later work of this stream wait for the Point on the device; never blocks the host.
  // UsageError for a Point of another device.
  void wait_for(const hal::Point& point, hal::WaitKind kind = hal::WaitKind::data);
  // Calls flush() and waits for its Point. Raises the failure of the last list; some of the list's
  // results may still be good.
  void synchronize(const WaitLimit& limit = {});

  // Takes over the data before it returns: the caller may reuse its memory at once.
  void upload(const Ref<hal::Allocation>& to, Bytes offset, std::span<const std::byte> data);
  // Waits only for the range's last writer, on any stream, and retires everything that is finished.
  // Raises the cause if bytes of the range are bad.
  void readback(const Ref<hal::Allocation>& from, Bytes offset, std::span<std::byte> data,
                const WaitLimit& limit = {});
  // Waits like a readback, but reads nothing.
  void wait_for(const Ref<hal::Allocation>& written, const WaitLimit& limit = {});
  // Raises the failure that left bytes of `written` bad, if that failure has been seen already.
  // Never waits.
  void raise_failure_of(const Ref<hal::Allocation>& written) const;
  // Submits the lists that touch the range; waits for its writers (to read) or for all its users
  // (to write). UsageError if the host cannot reach the memory, or if another map conflicts.
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
