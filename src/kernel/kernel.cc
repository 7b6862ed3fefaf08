#include "holdfast/kernel/kernel.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "holdfast/base/shown.h"
#include "holdfast/kernel/generate/tokens.h"

namespace holdfast {
namespace {

using kernel::ArgumentGroup;
using kernel::Definition;

std::string read_source(const Definition& definition) {
  const auto refuse = [&](const std::string& why) {
    throw EnvironmentError(fmt::format("kernel {}: its file {} cannot be read: {}",
                                       shown(definition.name), shown(definition.file, 256), why));
  };
  // Opening a folder succeeds; reading it does not.
  if (std::error_code ignored; std::filesystem::is_directory(definition.file, ignored)) {
    refuse("it is a folder");
  }
  std::ifstream file(definition.file, std::ios::binary);
  if (!file.is_open()) refuse(std::generic_category().message(errno));
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) refuse("reading it failed");
  return text;
}

}  // namespace

Kernel::Kernel(Definition definition) {
  if (definition.source.empty() && !definition.file.empty()) {
    definition.source = read_source(definition);
  }
  kernel::check(definition).raise_if_any();
  auto content = std::make_shared<Content>();
  kernel::Names names = kernel::names_in(definition.source);
  names.identifiers.merge(kernel::names_in(definition.header).identifiers);
  for (const auto* group : {&definition.inputs, &definition.in_place, &definition.outputs}) {
    for (const std::string& name : *group) {
      content->uses_rank.push_back(names.identifiers.contains(name + "_shape") ||
                                   names.identifiers.contains(name + "_strides") ||
                                   names.identifiers.contains(name + "_ndim"));
    }
  }
  content->definition = std::move(definition);
  content_ = std::move(content);
}

bool Kernel::uses_rank(ArgumentGroup group, size_t index) const {
  const Definition& d = content_->definition;
  if (group != ArgumentGroup::input) index += d.inputs.size();
  if (group == ArgumentGroup::output) index += d.in_place.size();
  return content_->uses_rank.at(index);
}

}  // namespace holdfast
