#version 460
#extension GL_EXT_buffer_reference : require
// As add.comp, by addresses.
layout(local_size_x = 256) in;
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer In { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer Out { float at[]; };
layout(push_constant) uniform Block {
  In a;
  In b;
  Out result;
  float bias;
};

void main() {
  const uint i = gl_GlobalInvocationID.x;
  result.at[i] = a.at[i] + b.at[i] + bias;
}
