#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <vector>

// What the examples share: a comparison with a reference in double precision.

// The largest distance between the two, divided by the largest absolute value of the reference.
inline double relative_error(std::span<const float> values, std::span<const double> reference) {
  if (values.size() != reference.size()) return INFINITY;
  double largest = 1e-30;
  double distance = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(reference[i]));
    const double d = std::abs(double{values[i]} - reference[i]);
    distance = std::isnan(d) ? INFINITY : std::max(distance, d);
  }
  return distance / largest;
}

// Prints the outcome; whether it is right.
inline bool check(const char* what, double error, double tolerance) {
  const bool right = error <= tolerance;
  std::printf("%-44s relative error %.2e, allowed %.2e: %s\n", what, error, tolerance,
              right ? "ok" : "WRONG");
  return right;
}
