#version 460
// For more than 120 bytes of parameters: the push constants hold the address of the block.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 64) in;
// How many parameter bytes there are: their number cannot be one of them, since all are stored.
layout(constant_id = 0) const uint kBytes = 4;
layout(buffer_reference, std430, buffer_reference_align = 1) writeonly buffer Store {
  uint8_t at[];
};
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Block {
  Store result;
  uint words[];
};
layout(push_constant, std430) uniform Push { Block block; };

void main() {
  for (uint i = gl_LocalInvocationID.x; i < kBytes; i += gl_WorkGroupSize.x) {
    block.result.at[i] = uint8_t((block.words[i / 4] >> (8 * (i % 4))) & 0xFF);
  }
}
