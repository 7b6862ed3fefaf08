#pragma once

#include "holdfast/testing/stub_cuda/state.h"

namespace holdfast::stub_cuda {

// A kernel with its grid and its own copy of the arguments.
struct Launch {
  std::shared_ptr<Function> function;
  Size3 grid;
  Size3 block;
  unsigned shared_bytes = 0;
  std::vector<std::byte> arguments;
};

// Takes the arguments out of `extra`, and checks everything against the limits of the context's
// device.
CUresult make_launch(State& state, const Context& context, const char* call, Launch& launch,
                     void* const* parameters, void* const* extra);

// The module, and the memory that the arguments may point to, are the operation's.
CUresult use_by(State& state, Operation& operation, const Launch& launch);

// All blocks; the first that fails is the result.
CUresult run(const Launch& launch);

}  // namespace holdfast::stub_cuda
