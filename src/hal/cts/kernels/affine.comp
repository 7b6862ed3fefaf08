#version 460
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) buffer Data { uint data[]; };
layout(push_constant) uniform Parameters {
  uint multiplier;
  uint addend;
};

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < data.length()) data[i] = data[i] * multiplier + addend;
}
