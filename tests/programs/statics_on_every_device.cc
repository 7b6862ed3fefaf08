// Leaves main with arrays in statics, on every kind of device: they are dropped after their device
// was closed. Each process must end by itself, with status 0.
#include <holdfast/holdfast.h>
#include <holdfast/testing/child_process.h>

#include <optional>

namespace hf = holdfast;

namespace {

// Made before any device is opened, so destroyed after all of them were closed.
std::optional<hf::Array> made;
std::optional<hf::Array> view;
std::optional<hf::Array> computed;
std::optional<hf::Array> not_computed;

int leave_arrays(const std::string& device) {
  const hf::Device on = hf::device(device);
  made = hf::Array(std::vector<float>(4096, 1.0F), {4096}, "made", on);
  view = hf::reshape(*made, {64, 64});
  if (view->to_vector<float>().back() != 1.0F) return 1;
  not_computed = hf::add(*made, 1.0F);
  // The operations are written in the kernel language, which is not compiled for Vulkan.
  if (device.find("vulkan") != std::string::npos) return 0;
  computed = hf::add(*made, 1.0F);
  return computed->to_vector<float>().back() == 2.0F ? 0 : 1;
}

}  // namespace

int main() {
  std::vector<holdfast::testing::ProcessCase> cases;
  for (const char* device : {"cpu", "validate(cpu)", "adversary(cpu)", "validate(adversary(cpu))",
                             "vulkan", "adversary(vulkan)", "validate(adversary(vulkan))"}) {
    cases.push_back({device, [=] { return leave_arrays(device); }});
  }
  return holdfast::testing::run_in_children(cases);
}
