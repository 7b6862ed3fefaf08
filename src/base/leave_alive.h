#pragma once

#include <memory>

namespace holdfast {

// Keeps an object until the process ends: for what a device, or a thread that could not be stopped,
// may still touch. Thread-safe.
void leave_alive(std::shared_ptr<void> object);

}  // namespace holdfast
