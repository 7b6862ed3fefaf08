#version 460
// One group.
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) writeonly buffer Out { uint8_t result[]; };
layout(push_constant) uniform Parameters { uint value; };  // its lowest byte

void main() {
  for (uint i = gl_LocalInvocationID.x; i < result.length(); i += gl_WorkGroupSize.x) {
    result[i] = uint8_t(value & 0xFF);
  }
}
