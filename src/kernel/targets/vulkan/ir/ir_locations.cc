#include "holdfast/kernel/targets/vulkan/ir/ir_locations.h"

#include <charconv>
#include <system_error>
#include <utility>

namespace holdfast::kernel::ir {
namespace {

// Of scopes in scopes, and of calls in calls.
constexpr int kMostPlaces = 64;

// The number behind the key, which may be a reference; 0 where there is none.
uint32_t number_behind(std::string_view line, std::string_view key) {
  const size_t at = line.find(key);
  if (at == line.npos) return 0;
  std::string_view rest = line.substr(at + key.size());
  if (rest.starts_with('!')) rest.remove_prefix(1);
  uint32_t value = 0;
  (void)std::from_chars(rest.data(), rest.data() + rest.size(), value);
  return value;
}

}  // namespace

void LocationReader::read_line(std::string_view line) {
  uint32_t number = 0;
  const char* const end = line.data() + line.size();
  if (line.size() < 2 || std::from_chars(line.data() + 1, end, number).ec != std::errc()) return;
  if (line.find("!DILocation(") != line.npos) {
    places_[number] = {number_behind(line, "line: "), number_behind(line, "column: "),
                       number_behind(line, "scope: "), number_behind(line, "inlinedAt: ")};
  } else if (line.find("!DIFile(") != line.npos) {
    constexpr std::string_view kKey = "filename: \"";
    const size_t at = line.find(kKey);
    if (at == line.npos) return;
    const std::string_view rest = line.substr(at + kKey.size());
    files_[number] = rest.substr(0, rest.find('"'));
  } else if (line.find("!DISubprogram(") != line.npos ||
             line.find("!DILexicalBlock") != line.npos) {
    scopes_[number] = {number_behind(line, "file: "), number_behind(line, "scope: ")};
  }
}

LocationId LocationReader::location_of(Module& module, uint32_t number, int depth) {
  const auto place = places_.find(number);
  if (place == places_.end() || depth > kMostPlaces) return 0;
  if (const auto known = known_.find(number); known != known_.end()) return known->second;
  const LocationId caller = location_of(module, place->second.caller, depth + 1);
  Location made{.line = place->second.line, .column = place->second.column, .caller = caller};
  uint32_t scope = place->second.scope;
  for (int i = 0; i < kMostPlaces; ++i) {
    const auto it = scopes_.find(scope);
    if (it == scopes_.end()) break;
    if (const auto file = files_.find(it->second.file); file != files_.end()) {
      made.file = file->second;
      break;
    }
    scope = it->second.parent;
  }
  const auto id = static_cast<LocationId>(module.locations.size());
  module.locations.push_back(std::move(made));
  return known_[number] = id;
}

void LocationReader::resolve(Module& module) {
  for (Value& value : module.values) {
    if (value.location != 0) value.location = location_of(module, value.location, 0);
  }
}

}  // namespace holdfast::kernel::ir
