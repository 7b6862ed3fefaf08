// A forked child is refused what its parent made, may release it, and can open a device of its own.
#define _POSIX_C_SOURCE 200809L
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static const int64_t shape[] = {1000};

static void child(hf_array* lazy, hf_array* computed, hf_device* parents) {
  float values[1000];
  REFUSED(hf_eval(&lazy, 1, HF_FOREVER), HF_ERROR_USAGE, "fork");
  REFUSED(hf_array_read(computed, HF_FOREVER, values, sizeof values), HF_ERROR_USAGE, "fork");
  REFUSED(hf_device_synchronize(parents, HF_FOREVER), HF_ERROR_USAGE, "fork");
  hf_array_release(lazy);
  hf_array_release(computed);
  hf_device_release(parents);
  hf_array* mine = NULL;
  OK(hf_full(shape, 0, 7, HF_INT32, NULL, &mine));
  SHOWS(mine, "array(7, dtype=int32)");
}

int main(void) {
  hf_array *lazy = NULL, *computed = NULL;
  hf_device* device = NULL;
  OK(hf_ones(shape, 1, HF_FLOAT32, NULL, &computed));
  OK(hf_eval(&computed, 1, HF_FOREVER));
  OK(hf_binary(HF_ADD, hf_of(computed), hf_number(hf_int32(1)), NULL, &lazy));
  OK(hf_array_device(computed, &device));
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    child(lazy, computed, device);
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(hf_eval(&lazy, 1, HF_FOREVER));
  hf_array_release(lazy);
  hf_array_release(computed);
  hf_device_release(device);
  puts("the child was refused");
  return 0;
}
