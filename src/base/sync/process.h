#pragma once

#include <cstdint>
#include <functional>

namespace holdfast::sync {

// How many forks lie between the first process and this one. Threads do not survive a fork, so
// an object that has some remembers its generation and refuses to work in another. One relaxed
// load.
uint32_t fork_generation() noexcept;

// Runs `action` when main returns or exit() is called; not after _exit() or a signal. Actions run
// in reverse order of registration, on the exiting thread, while other threads may still run.
void at_exit(std::function<void()> action);

}  // namespace holdfast::sync
