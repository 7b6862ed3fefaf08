#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Numbers { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Block {
  Numbers source[30];
  Numbers result;
  uint n;  // elements of each binding
};
// The block has more than 128 bytes.
layout(push_constant, std430) uniform Push { Block block; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i >= block.n) return;
  uint sum = 0;
  for (uint k = 0; k < 30; ++k) sum += (k + 1) * block.source[k].at[i];
  block.result.at[i] = sum;
}
