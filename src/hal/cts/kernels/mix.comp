#version 460
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) readonly buffer In { uint source[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Out { uint result[]; };
// Up to 65,535: lavapipe skips further iterations of a loop.
layout(push_constant) uniform Parameters { uint rounds; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  const uint n = result.length();
  if (i >= n) return;
  uint x = source[n - 1 - i];
  for (uint round = 0; round < rounds; ++round) x = x * 1664525 + 1013904223;
  result[i] = x;
}
