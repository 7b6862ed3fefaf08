#version 460
// For up to 128 bytes of parameters, which are the push constants; store_params_buffer takes more.
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) writeonly buffer Out { uint8_t result[]; };
layout(constant_id = 1) const uint kWords = 1;  // what the parameters have, rounded up
layout(push_constant) uniform Parameters { uint words[kWords]; };

void main() {
  for (uint i = gl_LocalInvocationID.x; i < result.length(); i += gl_WorkGroupSize.x) {
    result[i] = uint8_t((words[i / 4] >> (8 * (i % 4))) & 0xFF);
  }
}
