#pragma once

#include <string>
#include <vector>

namespace holdfast::bench {

// One line of the table and of the JSON file. Smaller is better unless the unit says "per second".
struct Row {
  std::string name;
  std::string unit;
  double ours = 0;
  double reference = 0;  // zero: there is none
  double spread = 0;  // of ours: half the range of the middle repetitions, as a share of the median
  std::string note;   // what the reference is, or a count that belongs to the row
  std::string device = "cpu";
  // Of repetitions; zero where there were none.
  double least = 0;
  double reference_least = 0;
  double reference_spread = 0;

  double ratio() const { return reference > 0 ? ours / reference : 0; }
};

void print_table(const std::vector<Row>& rows);
// [{name, device, build, unit, ours, reference, ratio, spread, least, reference_least,
// reference_spread}]; null where there is no reference. Raises EnvironmentError where the file
// cannot be written.
void write_json(const std::vector<Row>& rows, const std::string& path);

}  // namespace holdfast::bench
