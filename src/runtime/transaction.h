#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "holdfast/runtime/encoder.h"

namespace holdfast::runtime {

class Stream;

// What one operation records: all of it, by commit(), or nothing. Until then it is a user of
// everything that it names, so its memory cannot die under it. Belongs to one task.
class Transaction {
 public:
  Transaction(Transaction&&) noexcept;
  Transaction& operator=(Transaction&&) noexcept;
  // Without commit(): rolled back, nothing was recorded.
  ~Transaction();

  // Each checks its arguments at once (UsageError; the transaction stays usable). Bindings,
  // parameters and labels are copied.
  void dispatch(const Ref<hal::Pipeline>& pipeline, std::span<const hal::Binding> bindings,
                const hal::Parameters& parameters, hal::Groups groups, std::string_view label = {});
  void copy(const hal::Binding& from, const hal::Binding& to, std::string_view label = {});
  void fill(const hal::Binding& to, std::byte value, std::string_view label = {});
  void native(hal::NativeCallback callback, std::span<const hal::Binding> bindings,
              std::string_view label = {});
  // Memory for this transaction only: it dies at commit, and its range serves the next one that
  // asks. It lives longer where the Ref is kept.
  Ref<hal::Allocation> scratch(Bytes size, std::string name = "scratch");

  // Records everything in the stream's open list. When it throws, nothing was recorded. Afterwards
  // the transaction is empty and can be used again.
  void commit();
  bool empty() const noexcept { return commands_.empty(); }

 private:
  friend class Stream;
  explicit Transaction(Ref<Stream> stream);
  void add(PendingCommand command);
  void reset() noexcept;

  Ref<Stream> stream_;
  std::vector<PendingCommand> commands_;
  // Stable storage for what the commands borrow.
  std::deque<std::vector<hal::Binding>> bindings_;
  std::deque<std::vector<std::byte>> parameters_;
  std::deque<std::string> labels_;
  std::vector<Ref<hal::Allocation>> users_;
};

}  // namespace holdfast::runtime
