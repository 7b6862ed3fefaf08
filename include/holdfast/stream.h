#pragma once

#include <optional>
#include <string>

#include "holdfast/device.h"

namespace holdfast::array {
class StreamScope;
}

#pragma GCC visibility push(default)

namespace holdfast {

namespace runtime {
class Stream;
}

// Where nodes record: in order, as if executed one after another. Streams of one device run beside
// each other and wait for each other where their arrays depend on each other. A handle: cheap to
// copy; any thread may use any stream.
class Stream {
 public:
  Device device() const;
  const std::string& name() const noexcept;

  // Submits what was recorded; never waits for the device.
  void flush() const;
  // Waits for all that was recorded here; raises the failure of the last of it.
  void synchronize(const WaitLimit& limit = {}) const;
  // Later work of this stream waits, on the device, for what the other has recorded so far.
  void wait_for(const Stream& other) const;

  friend bool operator==(const Stream& a, const Stream& b) noexcept { return a.state_ == b.state_; }

  // For the other parts of this layer.
  explicit Stream(HiddenRef<array::StreamState> state) noexcept : state_(std::move(state)) {}
  const HiddenRef<array::StreamState>& state() const noexcept { return state_; }
  const Ref<runtime::Stream>& runtime_stream() const noexcept;

 private:
  HiddenRef<array::StreamState> state_;
};

Stream new_stream(const Device& device, std::string name = {});
Stream new_stream(std::string name = {});  // on the default device
// Waits for everything on the default device.
void synchronize();

// Makes a stream the one that this task's nodes go to, for a scope:
//   hf::UseStream scope(s);
// The task's youngest UseStream that still lives counts, in whichever order they go. One that goes
// on another task ends for the task that made it, from that task's next node on; what it kept of
// its stream stays alive then.
class UseStream {
 public:
  explicit UseStream(Stream stream);
  ~UseStream();
  UseStream(const UseStream&) = delete;
  UseStream& operator=(const UseStream&) = delete;

 private:
  HiddenRef<array::StreamScope> scope_;
};

// An optional last argument of everything that builds a node: where it goes. Without one: the
// stream of the innermost UseStream, if it is of the inputs' device (or there are none); else the
// default stream of that device; else of the default device. Decided when the node is built.
class On {
 public:
  On() = default;
  On(const Stream& stream) : stream_(stream.state()) {}
  On(const Device& device) : stream_(device.home()) {}
  const HiddenRef<array::StreamState>& state() const noexcept { return stream_; }

 private:
  HiddenRef<array::StreamState> stream_;
};

}  // namespace holdfast

#pragma GCC visibility pop
