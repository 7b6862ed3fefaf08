#pragma once

// The version of these headers; CMake reads it here.
#define HOLDFAST_VERSION_MAJOR 0
#define HOLDFAST_VERSION_MINOR 1
#define HOLDFAST_VERSION_PATCH 0

#if defined(__cplusplus) && __cplusplus >= 201703L
namespace holdfast {

inline constexpr int kVersionMajor = HOLDFAST_VERSION_MAJOR;
inline constexpr int kVersionMinor = HOLDFAST_VERSION_MINOR;
inline constexpr int kVersionPatch = HOLDFAST_VERSION_PATCH;

}  // namespace holdfast
#endif
