#include "holdfast/kernel/compilers/added.h"

#include <utility>

#include "holdfast/base/sync/process.h"

namespace holdfast::kernel {
namespace {

struct Added {
  std::vector<std::vector<std::string>> cpp;
  std::vector<std::string> nvrtc;
};

// Left alive: a thread may compile while the process ends.
sync::ProcessGuarded<Added>& added() {
  static auto& all = *new sync::ProcessGuarded<Added>();
  return all;
}

}  // namespace

void add_cpp_compiler(std::vector<std::string> command) {
  added().lock()->cpp.push_back(std::move(command));
}
void add_nvrtc_folder(std::string folder) { added().lock()->nvrtc.push_back(std::move(folder)); }

std::vector<std::vector<std::string>> added_cpp_compilers() { return added().lock()->cpp; }
std::vector<std::string> added_nvrtc_folders() { return added().lock()->nvrtc; }

}  // namespace holdfast::kernel
