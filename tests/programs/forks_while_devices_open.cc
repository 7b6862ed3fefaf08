// Forks, again and again, while other threads load and unload kernels and ask the Vulkan loader.
// Every child opens a CPU device of its own, loads a kernel there and computes; it is refused
// Vulkan, which its parent has in use. No child hangs.
#include <holdfast/base/sanitizers.h>
#include <holdfast/hal/devices.h>
#include <holdfast/holdfast.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace hf = holdfast;

namespace {

constexpr int kForks = 60;
constexpr unsigned kChildSeconds = 300;  // a child that hangs is killed after so long

std::atomic<bool> enough{false};
std::atomic<int> loaded{0};
std::atomic<int> asked{0};

// On a device of its own, which forgets its kernels with the device: the compiler's result comes
// from the disk cache, and is loaded anew.
float compute() {
  const hf::Device own(hf::hal::open_device("cpu").or_raise());
  const hf::Array x = hf::full({64}, 1.0, hf::float32, own);
  return hf::add(x, 2.0F).to_vector<float>().back();
}

void load_kernels() {
  while (!enough.load()) {
    if (compute() != 3.0F) std::abort();
    loaded.fetch_add(1);
    loaded.notify_all();
  }
}

void ask_the_loader() {
  while (!enough.load()) {
    // Nothing else keeps the instance: drivers are loaded and unloaded.
    (void)hf::devices();
    asked.fetch_add(1);
    asked.notify_all();
  }
}

int in_child() {
  alarm(kChildSeconds);
  try {
    if (compute() != 3.0F) return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "in a child: %s\n", error.what());
    return 3;
  }
  const auto refused = hf::hal::open_device("vulkan");
  if (refused.ok()) return 4;
  return refused.failure().message().find("fork") != std::string::npos ? 0 : 5;
}

}  // namespace

int main() {
  if (holdfast::has_thread_sanitizer()) {
    std::puts("skipped: ThreadSanitizer starts no thread in a child of a process that had some");
    return 77;
  }
  std::vector<std::thread> threads;
  for (const auto body : {load_kernels, load_kernels, ask_the_loader}) {
    threads.emplace_back(body);
  }
  for (int seen = loaded.load(); seen < 2; seen = loaded.load()) loaded.wait(seen);
  for (int seen = asked.load(); seen < 1; seen = asked.load()) asked.wait(seen);
  int wrong = 0;
  for (int i = 0; i < kForks && wrong == 0; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(in_child());
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      std::fprintf(stderr, "child %d: wait status 0x%x\n", i, status);
      ++wrong;
    }
  }
  enough = true;
  for (std::thread& thread : threads) thread.join();
  return wrong;
}
