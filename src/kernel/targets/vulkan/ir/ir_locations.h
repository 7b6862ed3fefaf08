#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "holdfast/kernel/targets/vulkan/ir/ir.h"

namespace holdfast::kernel::ir {

// Where text stands, from the lines of metadata that say so.
class LocationReader {
 public:
  // A line of a module that begins with "!". Others than those of places are passed over.
  void read_line(std::string_view line);
  // Until then values have the number of their place in the text; afterwards that of a Location of
  // the module.
  void resolve(Module& module);

 private:
  struct Scope {
    uint32_t file = 0;
    uint32_t parent = 0;
  };
  struct Place {
    uint32_t line = 0;
    uint32_t column = 0;
    uint32_t scope = 0;
    uint32_t caller = 0;
  };
  LocationId location_of(Module& module, uint32_t number, int depth);

  // By their numbers in the text.
  std::unordered_map<uint32_t, Place> places_;
  std::unordered_map<uint32_t, Scope> scopes_;
  std::unordered_map<uint32_t, std::string> files_;
  std::unordered_map<uint32_t, LocationId> known_;
};

}  // namespace holdfast::kernel::ir
