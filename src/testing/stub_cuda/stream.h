#pragma once

#include "holdfast/testing/stub_cuda/state.h"

namespace holdfast::stub_cuda {

// The stream of a handle. The handle 1 is the context's legacy default stream; null, which may mean
// another, and the default streams of threads are refused as violations.
CUresult find_stream(State& state, CUstream handle, const char* call,
                     std::shared_ptr<Stream>& stream);

// Puts the operation behind all others of the stream.
void enqueue(State& state, const std::shared_ptr<Stream>& stream,
             std::shared_ptr<Operation> operation);

// Waits until the stream has nothing to do, or its context stopped: that is then the result.
CUresult wait_until_idle(Held& held, const std::shared_ptr<Stream>& stream);

}  // namespace holdfast::stub_cuda
