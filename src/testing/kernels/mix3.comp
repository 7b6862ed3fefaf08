#version 460
// One group. The "mix" of src/runtime/scenarios/random_programs.cc.
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) readonly buffer In { uint8_t source[]; };
layout(set = 0, binding = 1, std430) readonly buffer More { uint8_t more[]; };
layout(set = 0, binding = 2, std430) buffer Out { uint8_t result[]; };
layout(push_constant) uniform Parameters { uint value; };  // its lowest byte

void main() {
  for (uint i = gl_LocalInvocationID.x; i < result.length(); i += gl_WorkGroupSize.x) {
    const uint sum = 2 * uint(result[i]) + 3 * uint(source[i]) + uint(more[i]) + value;
    result[i] = uint8_t(sum & 0xFF);
  }
}
