#include "holdfast/array/stream.h"

#include "holdfast/array/current_stream.h"

namespace holdfast {
namespace {
constinit const sync::TaskLocalPointer<const Stream> innermost;
}  // namespace

const Stream* array::current_stream() noexcept { return innermost.get(); }

Device Stream::device() const { return Device(state_->home()); }
const std::string& Stream::name() const noexcept { return state_->stream()->name(); }
void Stream::flush() const { state_->flush(); }
void Stream::synchronize(const runtime::WaitLimit& limit) const {
  state_->stream()->synchronize(limit);
}
void Stream::wait_for(const Stream& other) const {
  state_->stream()->wait_for(other.state_->stream()->flush(), hal::WaitKind::order);
}
const Ref<runtime::Stream>& Stream::runtime_stream() const noexcept { return state_->stream(); }

Stream new_stream(const Device& device, std::string name) {
  return device.new_stream(std::move(name));
}
Stream new_stream(std::string name) { return default_device().new_stream(std::move(name)); }
void synchronize() { default_device().synchronize(); }

UseStream::UseStream(Stream stream) : stream_(std::move(stream)), before_(innermost.get()) {
  innermost.set(&stream_);
}
UseStream::~UseStream() { innermost.set(before_); }

}  // namespace holdfast
