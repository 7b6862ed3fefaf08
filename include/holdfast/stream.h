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

// Nodes of one stream run as if one after another, in recorded order. Streams of one device run
// concurrently and wait for each other where their arrays depend on each other. A handle: cheap to
// copy; any thread may use any stream.
class Stream {
 public:
  Device device() const;
  const std::string& name() const noexcept;

  // Submits what was recorded; never waits for the device.
  void flush() const;
  // Waits for everything recorded here; raises the failure of the last of it.
  void synchronize(const WaitLimit& limit = {}) const;
  // Makes later work of this stream wait, on the device, for what `other` has recorded so far.
  void wait_for(const Stream& other) const;

  friend bool operator==(const Stream& a, const Stream& b) noexcept { return a.state_ == b.state_; }

  // For other parts of this layer.
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

// Sends this task's nodes to a stream, for a scope:
//   hf::UseStream scope(s);
// The task's newest UseStream that still lives counts; they may be destroyed in any order. One that
// is destroyed on another task stops counting with the next node of the task that made it, and what
// it kept of its stream stays alive.
class UseStream {
 public:
  explicit UseStream(Stream stream);
  ~UseStream();
  UseStream(const UseStream&) = delete;
  UseStream& operator=(const UseStream&) = delete;

 private:
  HiddenRef<array::StreamScope> scope_;
};

// Where a node goes: an optional last argument of everything that builds one. If it is not given,
// the node goes to the innermost UseStream's stream, if that belongs to the inputs' device or there
// are no inputs; else to the default stream of the inputs' device; else to that of the default
// device. Decided when the node is built.
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
