#pragma once

#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/id.h"
#include "holdfast/kernel/definition.h"
#include "holdfast/kernel/interface.h"

namespace holdfast::kernel {

struct KernelTag {};
using KernelId = Id<KernelTag>;  // of a Kernel object; never reused

// A checked definition with an identity of its own: cheap to copy, immutable, thread-safe.
class Kernel {
 public:
  // UsageError says what is wrong with the definition; EnvironmentError where its file cannot be
  // read. Nothing is compiled.
  explicit Kernel(Definition definition);

  KernelId id() const noexcept { return content_->id; }
  const Definition& definition() const noexcept { return content_->definition; }
  const std::string& name() const noexcept { return content_->definition.name; }

  // Whether its code depends on the rank of the argument, beyond its being zero.
  bool uses_rank(ArgumentGroup group, size_t index) const;

 private:
  struct Content {
    KernelId id = KernelId::next();
    Definition definition;
    std::vector<bool> uses_rank;  // inputs, in_place, outputs
  };
  std::shared_ptr<const Content> content_;
};

}  // namespace holdfast::kernel
