#version 460
// out[i] = a[i] + b[i] + bias, 256 elements in one group.
layout(local_size_x = 256) in;
layout(std430, set = 0, binding = 0) readonly buffer A { float a[]; };
layout(std430, set = 0, binding = 1) readonly buffer B { float b[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Parameters { float bias; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  result[i] = a[i] + b[i] + bias;
}
