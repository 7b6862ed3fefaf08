#include "holdfast/stream.h"

#include <atomic>
#include <memory>

#include "holdfast/array/current_stream.h"
#include "holdfast/array/stream_state.h"
#include "holdfast/base/leave_alive.h"

namespace holdfast {
namespace array {

// What a UseStream puts onto the stack of its task. Kept by the UseStream and by the scope above
// it.
class StreamScope final : public RefCounted {
 public:
  StreamScope(Stream stream_of, Ref<StreamScope> below_of)
      : stream(std::move(stream_of)), below(std::move(below_of)) {}
  const Stream stream;
  const Ref<StreamScope> below;
  const void* const task = sync::this_task();
  std::atomic<bool> ended = false;
};

namespace {

constinit const sync::TaskLocalPointer<StreamScope> innermost;

// The task's youngest scope that has not ended; those above it leave the stack. Null: there is
// none.
StreamScope* current_scope() noexcept {
  StreamScope* top = innermost.get();
  if (top == nullptr || !top->ended.load(std::memory_order_acquire)) return top;
  while (top != nullptr && top->ended.load(std::memory_order_acquire)) top = top->below.get();
  innermost.set(top);
  return top;
}

}  // namespace

const Stream* current_stream() noexcept {
  const StreamScope* const top = current_scope();
  return top != nullptr ? &top->stream : nullptr;
}

}  // namespace array

Device Stream::device() const { return Device(state_->home()); }
const std::string& Stream::name() const noexcept { return state_->stream()->name(); }
void Stream::flush() const { state_->flush(); }
void Stream::synchronize(const WaitLimit& limit) const { state_->stream()->synchronize(limit); }
void Stream::wait_for(const Stream& other) const {
  state_->stream()->wait_for(other.state_->stream()->flush(), hal::WaitKind::order);
}
const Ref<runtime::Stream>& Stream::runtime_stream() const noexcept { return state_->stream(); }

Stream new_stream(const Device& device, std::string name) {
  return device.new_stream(std::move(name));
}
Stream new_stream(std::string name) { return default_device().new_stream(std::move(name)); }
void synchronize() { default_device().synchronize(); }

UseStream::UseStream(Stream stream)
    : scope_(make_ref<array::StreamScope>(std::move(stream),
                                          Ref<array::StreamScope>(array::current_scope()))) {
  array::innermost.set(scope_.get());
}

UseStream::~UseStream() {
  scope_->ended.store(true, std::memory_order_release);
  // Its task looks at it once more, if it still runs: nobody can tell when.
  if (scope_->task != sync::this_task()) {
    leave_alive(std::make_shared<Ref<array::StreamScope>>(scope_.ref()));
  }
  (void)array::current_scope();
}

}  // namespace holdfast
