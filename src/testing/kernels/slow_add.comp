#version 460
// One group. Takes its time before it reads: see SlowAdd in src/testing/kernels.h.
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) readonly buffer In { uint8_t source[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Out { uint8_t result[]; };
layout(push_constant) uniform Parameters {
  uint value;   // its lowest byte
  uint rounds;  // up to 65,535: lavapipe skips further iterations of a loop
};

void main() {
  uint x = 0;
  for (uint round = 0; round < rounds; ++round) x = x * 1664525 + 1013904223;
  // Zero, since every round changes the lowest bit; but no compiler knows, so that none reads early.
  const uint zero = (x ^ rounds) & 1;
  for (uint i = gl_LocalInvocationID.x; i < result.length(); i += gl_WorkGroupSize.x) {
    result[i] = uint8_t((uint(source[i + zero]) + value) & 0xFF);
  }
}
