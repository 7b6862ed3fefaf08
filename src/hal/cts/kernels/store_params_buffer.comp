#version 460
// For more than 128 bytes of parameters: they are a buffer, at the binding after the last.
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) writeonly buffer Out { uint8_t result[]; };
layout(set = 0, binding = 1, std430) readonly buffer Parameters { uint words[]; };

void main() {
  for (uint i = gl_LocalInvocationID.x; i < result.length(); i += gl_WorkGroupSize.x) {
    result[i] = uint8_t((words[i / 4] >> (8 * (i % 4))) & 0xFF);
  }
}
