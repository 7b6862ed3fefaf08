#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Numbers { float at[]; };
layout(push_constant, std430) uniform Block {
  Numbers x;
  Numbers y;
  float a;
  uint n;
};

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i >= n) return;
  // Two roundings, as on the host: a fused multiply-add has one.
  precise const float sum = y.at[i] + a * x.at[i];
  y.at[i] = sum;
}
