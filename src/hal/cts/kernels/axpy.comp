#version 460
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 1, std430) buffer Y { float y[]; };
layout(push_constant) uniform Parameters {
  float a;
  uint n;
};

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i >= n) return;
  // Two roundings, as on the host: a fused multiply-add has one.
  precise const float sum = y[i] + a * x[i];
  y[i] = sum;
}
