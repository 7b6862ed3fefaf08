#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Numbers { uint at[]; };
layout(push_constant, std430) uniform Block {
  Numbers data;
  uint n;  // elements of the binding
};

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < n) data.at[i] += 1;
}
