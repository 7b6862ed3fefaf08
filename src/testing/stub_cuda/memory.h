#pragma once

#include "holdfast/testing/stub_cuda/state.h"

namespace holdfast::stub_cuda {

// The live memory that holds this byte; null: none that the driver knows.
std::shared_ptr<Allocation> find_memory(const State& state, uint64_t address);

// Whether the driver knows it as its device's memory, which decides how it is copied.
bool is_device_memory(const State& state, uint64_t address);

// Ends it: nobody finds it any more, and it is inaccessible once nothing in flight uses it.
void forget(State& state, Allocation& allocation);

// Operation `what` touches these bytes. INVALID_VALUE where they exceed their allocation; freed
// memory is a violation. `pageable` becomes true where the driver does not know the memory.
CUresult use(State& state, Operation& operation, uint64_t address, size_t bytes,
             bool* pageable = nullptr);

// A kernel gets this number, which may be a pointer.
void use_if_pointer(State& state, Operation& operation, uint64_t word);

}  // namespace holdfast::stub_cuda
