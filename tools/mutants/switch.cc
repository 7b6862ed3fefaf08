#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "mutant.h"

namespace holdfast::mutants {

// Constant-initialized: constructors of other files' globals may ask before they run.
uint32_t active = 0;
std::atomic<uint8_t>* reached = nullptr;
uint32_t reached_size = 0;

namespace {

[[noreturn]] void give_up(const char* what, const char* file) {
  std::fprintf(stderr, "mutants: %s '%s'\n", what, file);
  std::abort();
}

void map_reached(const char* file) {
  const int descriptor = ::open(file, O_RDWR | O_CLOEXEC);
  struct stat status = {};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0) give_up("cannot open", file);
  const size_t size = static_cast<size_t>(status.st_size);
  void* bytes = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (bytes == MAP_FAILED) give_up("cannot map", file);
  reached = static_cast<std::atomic<uint8_t>*>(bytes);
  reached_size = static_cast<uint32_t>(size);
}

// Before every constructor without a priority.
[[gnu::constructor(101)]] void read_environment() {
  if (const char* number = std::getenv("HOLDFAST_MUTANT")) {
    active = static_cast<uint32_t>(std::strtoul(number, nullptr, 10));
  }
  if (const char* file = std::getenv("HOLDFAST_MUTANT_REACHED")) map_reached(file);
}

}  // namespace
}  // namespace holdfast::mutants
