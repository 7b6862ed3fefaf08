#version 460
// For up to 120 bytes of parameters, which make a block of 128 with the address of the binding;
// store_params_buffer_addresses takes more.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 64) in;
// How many parameter bytes there are: their number cannot be one of them, since all are stored.
layout(constant_id = 0) const uint kBytes = 4;
layout(constant_id = 1) const uint kWords = 1;  // the same, rounded up
layout(buffer_reference, std430, buffer_reference_align = 1) writeonly buffer Store {
  uint8_t at[];
};
layout(push_constant, std430) uniform Block {
  Store result;
  uint words[kWords];
};

void main() {
  for (uint i = gl_LocalInvocationID.x; i < kBytes; i += gl_WorkGroupSize.x) {
    result.at[i] = uint8_t((words[i / 4] >> (8 * (i % 4))) & 0xFF);
  }
}
