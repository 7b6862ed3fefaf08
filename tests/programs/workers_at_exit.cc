// Leaves main while threads go on evaluating that catch nothing. What they are told when their
// device is closed ends them alone: each process must end by itself, with status 0.
#include <holdfast/base/sanitizers.h>
#include <holdfast/holdfast.h>
#include <holdfast/testing/child_process.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace hf = holdfast;

namespace {

std::atomic<int> evaluated{0};
std::atomic<int> ended_well{0};

// Made before any device is opened, so destroyed after all of them were closed. Its threads come to
// an end by nothing but what they are told then.
struct Pool {
  std::vector<std::thread> workers;
  ~Pool() {
    for (std::thread& worker : workers) worker.join();
    if (ended_well.load() == 0) return;
    std::fputs("a worker returned\n", stderr);
    std::_Exit(1);
  }
} pool;

void evaluate_for_ever(const std::string& device) {
  const hf::Device on = hf::device(device);
  const hf::Stream mine = on.new_stream("mine");
  const hf::UseStream scope(mine);
  const std::vector<float> values(1 << 16, 1.0F);
  // The operations are written in the kernel language, which is not compiled for Vulkan.
  const bool computes = device.find("vulkan") == std::string::npos;
  hf::Array x(values, {1 << 16}, "x", on);
  for (int i = 0;; ++i) {
    if (computes) x = hf::add(x, 1.0F);
    if (computes && i % 8 != 0) {
      hf::async_eval(x);
    } else if (x.to_vector<float>().size() != values.size()) {
      std::_Exit(1);
    }
    if (!computes) x = hf::Array(values, {1 << 16}, "x", on);
    evaluated.fetch_add(1);
    evaluated.notify_all();
  }
}

void wait_for_evaluations() {
  for (int seen = evaluated.load(); seen < 20; seen = evaluated.load()) evaluated.wait(seen);
}

int joined_by_a_static(const std::string& device) {
  (void)hf::device(device);
  for (int i = 0; i < 2; ++i) {
    pool.workers.emplace_back([device] {
      evaluate_for_ever(device);
      ended_well.fetch_add(1);
    });
  }
  wait_for_evaluations();
  return 0;
}

int detached(const std::string& device) {
  (void)hf::device(device);
  for (int i = 0; i < 2; ++i) std::thread(evaluate_for_ever, device).detach();
  wait_for_evaluations();
  return 0;
}

int exit_called_by_a_worker(const std::string& device) {
  (void)hf::device(device);
  std::thread([] {
    wait_for_evaluations();
    std::exit(0);
  }).detach();
  evaluate_for_ever(device);
  return 1;
}

}  // namespace

int main() {
  if (holdfast::has_sanitizer()) {
    std::fputs("skipped: what an ended thread had is never freed, and no sanitizer sees it end\n",
               stderr);
    return 77;
  }
  std::vector<holdfast::testing::ProcessCase> cases;
  for (const char* device : {"cpu", "vulkan"}) {
    const auto add = [&](const char* name, int (*run)(const std::string&)) {
      cases.push_back({std::string(name) + " on " + device, [=] { return run(device); }});
    };
    add("workers that a static joins", joined_by_a_static);
    add("detached workers", detached);
    add("exit() by another thread than main's", exit_called_by_a_worker);
  }
  return holdfast::testing::run_in_children(cases);
}
