#pragma once

namespace holdfast {

// What the library was compiled with. Tests ask here: they may be compiled without.
bool has_address_sanitizer() noexcept;
bool has_thread_sanitizer() noexcept;
inline bool has_sanitizer() noexcept { return has_address_sanitizer() || has_thread_sanitizer(); }

}  // namespace holdfast
