#version 460
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) writeonly buffer Out { uint result[]; };

void main() {
  const uvec3 group = gl_WorkGroupID;
  const uvec3 groups = gl_NumWorkGroups;
  const uint at = 3 * (group.x + groups.x * (group.y + groups.y * group.z));
  result[at] = group.x;
  result[at + 1] = group.y;
  result[at + 2] = group.z;
}
