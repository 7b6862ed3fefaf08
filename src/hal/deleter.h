#pragma once

#include <functional>
#include <string_view>

namespace holdfast::hal {

// Calls the deleter of external memory, if there is one, and lets go of it. What it throws is
// logged as a warning of topic memory, with the memory's name, and goes no further: it runs
// wherever the last list happens to be dropped, where nobody could answer. Not under a lock.
void run_deleter(std::function<void()>& deleter, std::string_view name) noexcept;

}  // namespace holdfast::hal
