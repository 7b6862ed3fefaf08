#version 460
// As explode.comp, with a binding before the one it writes.
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 32) in;
layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer Report {
  uint failed;
};
layout(push_constant) uniform Block {
  uvec2 source;  // addresses
  uvec2 result;
  Report report;
};

void main() { report.failed = 1; }
