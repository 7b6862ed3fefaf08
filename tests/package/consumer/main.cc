#include <cstdio>

#include <holdfast/holdfast.h>

int main() {
  std::puts("ok");
  return 0;
}
