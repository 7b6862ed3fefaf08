#version 460
layout(local_size_x = 64) in;
#define IN(k) layout(set = 0, binding = k, std430) readonly buffer In##k { uint in##k[]; };
#define TERM(k) (k + 1) * in##k[i]
IN(0) IN(1) IN(2) IN(3) IN(4)
IN(5) IN(6) IN(7) IN(8) IN(9)
IN(10) IN(11) IN(12) IN(13) IN(14)
IN(15) IN(16) IN(17) IN(18) IN(19)
IN(20) IN(21) IN(22) IN(23) IN(24)
IN(25) IN(26) IN(27) IN(28) IN(29)
layout(set = 0, binding = 30, std430) writeonly buffer Out { uint result[]; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i >= result.length()) return;
  result[i] = TERM(0) + TERM(1) + TERM(2) + TERM(3) + TERM(4) +
              TERM(5) + TERM(6) + TERM(7) + TERM(8) + TERM(9) +
              TERM(10) + TERM(11) + TERM(12) + TERM(13) + TERM(14) +
              TERM(15) + TERM(16) + TERM(17) + TERM(18) + TERM(19) +
              TERM(20) + TERM(21) + TERM(22) + TERM(23) + TERM(24) +
              TERM(25) + TERM(26) + TERM(27) + TERM(28) + TERM(29);
}
