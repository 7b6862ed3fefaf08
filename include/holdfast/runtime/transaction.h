#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "holdfast/hal/command.h"

namespace holdfast::hal {
class CommandList;
}
namespace holdfast::runtime {
struct PendingCommand;
}

#pragma GCC visibility push(default)

namespace holdfast::runtime {

class Stream;

// The commands of one operation: commit() records all of them or none. Until then the transaction
// is a user of everything that it names, so no memory can die under it. It stays a user of a few
// pipelines, for the next operation, until it goes. Belongs to one task.
class Transaction {
 public:
  // Who keeps the memory that commands name from dying before commit() or roll_back().
  enum class MemoryUser : bool {
    transaction,
    caller  // which is a user of all of it anyway, and saves counting it again
  };
  Transaction(Transaction&&) noexcept;
  Transaction& operator=(Transaction&&) noexcept;
  // Rolls back what was not committed.
  ~Transaction();

  // Each checks its arguments at once (UsageError; the transaction stays usable). Bindings,
  // parameters and labels are copied.
  void dispatch(const Ref<hal::Pipeline>& pipeline, std::span<const hal::Binding> bindings,
                const hal::Parameters& parameters, hal::Groups groups, std::string_view label = {});
  void copy(const hal::Binding& from, const hal::Binding& to, std::string_view label = {});
  void fill(const hal::Binding& to, std::byte value, std::string_view label = {});
  void native(hal::NativeCallback callback, std::span<const hal::Binding> bindings,
              std::string_view label = {});
  // Memory for this transaction only. It dies at commit, and the next request may get its range. It
  // lives longer if the caller keeps the Ref.
  Ref<hal::Allocation> scratch(Bytes size, std::string name = "scratch");

  // Records everything in the stream's open list. When it throws, nothing was recorded. Afterwards
  // the transaction is empty and can be used again.
  void commit();
  // Adds everything to a list of the caller's, in order and without barriers, and stays as it is.
  // For programs. When it throws, some of it may be there.
  void append_to(hal::CommandList& list);
  // Drops what was not committed; the transaction can be used again.
  void roll_back() noexcept;
  bool empty() const noexcept;

 private:
  friend class Stream;
  Transaction(Ref<Stream> stream, MemoryUser memory_user);
  void add(PendingCommand command);
  const Ref<hal::Pipeline>& keep(const Ref<hal::Pipeline>& pipeline);
  // Lets the commands borrow from the storage below, which does not move any more.
  void settle();

  Ref<Stream> stream_;
  MemoryUser memory_user_;
  std::vector<PendingCommand> commands_;
  // What the commands borrow, one after the other. Kept when the transaction is used again, so that
  // recording costs no allocation.
  std::vector<hal::Binding> bindings_;
  std::vector<std::byte> parameters_;
  std::string labels_;
  std::vector<Ref<hal::Allocation>> users_;
  std::deque<Ref<hal::Pipeline>> pipelines_;  // each once; they do not move
};

}  // namespace holdfast::runtime

#pragma GCC visibility pop
