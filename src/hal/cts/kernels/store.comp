#version 460
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) writeonly buffer Out { uint result[]; };
layout(push_constant) uniform Parameters { uint value; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < result.length()) result[i] = value;
}
