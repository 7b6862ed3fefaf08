#version 460
// One group.
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) buffer Data { uint8_t data[]; };
layout(push_constant) uniform Parameters { uint value; };  // its lowest byte

void main() {
  for (uint i = gl_LocalInvocationID.x; i < data.length(); i += gl_WorkGroupSize.x) {
    data[i] = uint8_t((2 * uint(data[i]) + value) & 0xFF);
  }
}
