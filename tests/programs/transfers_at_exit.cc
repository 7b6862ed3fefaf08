// Leaves main while arrays are on their way between two devices, which were opened in either order:
// some arrive, and some wait for what never happens. Each process must end by itself, with status
// 0.
#include <holdfast/holdfast.h>
#include <holdfast/runtime.h>
#include <holdfast/testing/child_process.h>

#include <optional>
#include <vector>

namespace hf = holdfast;

namespace {

// Made before any device is opened, so destroyed after all of them were closed.
std::optional<hf::Array> arrived;
std::optional<hf::Array> not_evaluated;
std::vector<hf::Array> on_the_way;
hf::Ref<hf::hal::HostTimeline> never_signalled;

hf::Device open(const char* name) {
  return hf::Device(hf::hal::open_device(name).or_raise(),
                    {.runtime = {.shutdown_bound = std::chrono::milliseconds(200)}});
}

int leave_transfers(const char* first, const char* second, bool backwards) {
  const hf::Device one = open(first);
  const hf::Device two = open(second);
  const hf::Device& from = backwards ? two : one;
  const hf::Device& to = backwards ? one : two;
  const std::vector<float> values(4096, 1.0F);
  arrived = hf::Array(values, {4096}, "", from).to(to);
  if (arrived->to_vector<float>() != values) return 1;
  not_evaluated = arrived->to(from);
  for (int i = 0; i < 64; ++i) {
    on_the_way.push_back(hf::Array(values, {4096}, "", from).to(to));
    hf::async_eval(on_the_way.back());
    on_the_way.push_back(on_the_way.back().to(from));
    hf::async_eval(on_the_way.back());
  }
  never_signalled = from.context()->new_host_timeline("never");
  from.default_stream().runtime_stream()->wait_for({never_signalled, {1}});
  for (int i = 0; i < 4; ++i) {
    on_the_way.push_back(hf::zeros({4096}, hf::float32, from).to(to));
    hf::async_eval(on_the_way.back());
  }
  return 0;
}

}  // namespace

int main() {
  std::vector<holdfast::testing::ProcessCase> cases;
  for (const char* second :
       {"cpu", "adversary(cpu)", "validate(adversary(cpu))", "vulkan", "validate(vulkan)"}) {
    for (const bool backwards : {false, true}) {
      cases.push_back({std::string(second) + (backwards ? ", backwards" : ""),
                       [=] { return leave_transfers("cpu", second, backwards); }});
    }
  }
  return holdfast::testing::run_in_children(cases);
}
