#version 460
// Reports that it has failed.
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 32) in;
layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer Report {
  uint failed;
};
layout(push_constant) uniform Block {
  uvec2 result;  // an address
  Report report;
};

void main() { report.failed = 1; }
