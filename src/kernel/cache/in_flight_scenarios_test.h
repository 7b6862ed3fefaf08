#pragma once

#include <ostream>
#include <span>

#include "holdfast/testing/scenario.h"

// What a cache of kernels must not do to those who use it, each as a program that runs on any
// World, and under the adversary in any schedule.

namespace holdfast::kernel {

struct CacheScenario {
  const char* name;
  void (*body)(testing::World& world);
};
std::span<const CacheScenario> cache_scenarios();
// For GoogleTest, which would print bytes.
inline void PrintTo(const CacheScenario& scenario, std::ostream* out) { *out << scenario.name; }

}  // namespace holdfast::kernel
