// The C API, called from C: all of it, right and wrong.
//   holdfast_c_test           every test
//   holdfast_c_test WORD      those whose names contain the word
//   holdfast_c_test -GROUP    all but those of a group
#include "check.h"

static const struct {
  const char* name;
  const test* tests;
} groups[] = {{"base", base_tests},       {"arrays", array_tests},   {"ops", op_tests},
              {"kernels", kernel_tests},  {"devices", device_tests}, {"dlpack", dlpack_tests},
              {"hostile", hostile_tests}, {"abi", abi_tests}};

int main(int argc, char** argv) {
  const char* const given = argc > 1 ? argv[1] : "";
  const char* const left_out = given[0] == '-' ? given + 1 : "";
  const char* const wanted = given[0] == '-' ? "" : given;
  int count = 0;
  for (size_t i = 0; i < sizeof groups / sizeof groups[0]; ++i) {
    if (strcmp(groups[i].name, left_out) == 0) continue;
    for (const test* one = groups[i].tests; one->name != NULL; ++one) {
      if (strstr(one->name, wanted) == NULL) continue;
      one->run();
      ++count;
    }
  }
  printf("%d tests passed\n", count);
  return count != 0 ? 0 : 1;
}
