#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "holdfast/base/error.h"

namespace holdfast::bench {
namespace {

#ifdef NDEBUG
constexpr const char* kBuild = "bench";
#else
constexpr const char* kBuild = "dev";
#endif

std::string number(double value) {
  if (value == 0) return "0";
  if (value >= 1000) return fmt::format("{:.0f}", value);
  return value >= 100 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}

}  // namespace

void print_table(const std::vector<Row>& rows) {
  size_t width = 4;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  fmt::print("{:<{}}  {:>12}  {:>12}  {:>7}  {:>7}  {:<14} {}\n", "name", width, "ours",
             "reference", "ratio", "spread", "unit", "note");
  for (const Row& row : rows) {
    fmt::print("{:<{}}  {:>12}  {:>12}  {:>7}  {:>7}  {:<14} {}\n", row.name, width,
               number(row.ours), row.reference > 0 ? number(row.reference) : "-",
               row.reference > 0 ? fmt::format("{:.2f}", row.ratio()) : "-",
               row.spread > 0 ? fmt::format("{:.0f}%", row.spread * 100) : "-", row.unit, row.note);
  }
}

void write_json(const std::vector<Row>& rows, const std::string& path) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json entry;
    entry["name"] = row.name;
    entry["device"] = row.device;
    entry["build"] = kBuild;
    entry["unit"] = row.unit;
    entry["ours"] = row.ours;
    if (row.reference > 0) {
      entry["reference"] = row.reference;
      entry["ratio"] = row.ratio();
    } else {
      entry["reference"] = nullptr;
      entry["ratio"] = nullptr;
    }
    entry["spread"] = row.spread;
    entry["least"] = row.least;
    entry["reference_least"] = row.reference_least;
    entry["reference_spread"] = row.reference_spread;
    all.push_back(std::move(entry));
  }
  std::ofstream file(path);
  file << all.dump(2) << '\n';
  file.close();
  if (!file) {
    throw EnvironmentError(
        fmt::format("the results could not be written to '{}'; is there room, and "
                    "may you write there?",
                    path));
  }
}

}  // namespace holdfast::bench
