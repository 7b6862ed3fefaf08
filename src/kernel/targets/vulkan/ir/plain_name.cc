#include "holdfast/kernel/targets/vulkan/ir/plain_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace holdfast::kernel::ir {

std::string plain_name(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  std::string_view text = name;
  if (readable) text = readable.get();
  text = text.substr(0, text.find('('));
  for (const std::string_view ours : {"hf_language::hf_user::", "hf_language::"}) {
    if (text.starts_with(ours)) text.remove_prefix(ours.size());
  }
  return std::string(text);
}

}  // namespace holdfast::kernel::ir
