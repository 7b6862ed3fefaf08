// Runs every benchmark of the project and prints one table. A benchmark named X has two sides,
// X/ours and X/reference, which run interleaved in this one process; a benchmark without a
// reference is named X/ours alone.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "decode_rows.h"
#include "holdfast/base/error.h"
#include "operation_rows.h"
#include "report.h"
#include "workload_rows.h"

namespace holdfast::bench {
namespace {

// Keeps the time of every repetition, by benchmark.
class Collector final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      // What this machine cannot run says so, once, and has no row.
      if (run.error_occurred && run.error_message.rfind("skipped: ", 0) == 0) {
        if (skipped_.insert(run.error_message).second) {
          fmt::print(stderr, "{}: {}\n", run.benchmark_name(), run.error_message);
        }
        continue;
      }
      if (run.error_occurred) {
        throw Error(ErrorCode::execution,
                    fmt::format("benchmark {}: {}", run.benchmark_name(), run.error_message));
      }
      if (run.run_type != Run::RT_Iteration) continue;
      std::string name = run.run_name.function_name;
      if (!run.run_name.args.empty()) name += "/" + run.run_name.args;
      if (samples_.find(name) == samples_.end()) order_.push_back(name);
      double value = run.GetAdjustedRealTime();
      // A benchmark that does several things an iteration says how many; one that measures a share,
      // or memory, says that.
      const auto per = run.counters.find("per");
      if (per != run.counters.end()) value /= per->second.value;
      for (const auto& [counter, unit] : {std::pair("percent", "%"), std::pair("bytes", "B")}) {
        const auto measured = run.counters.find(counter);
        if (measured == run.counters.end()) continue;
        value = measured->second.value;
        units_[name] = unit;
      }
      samples_[name].push_back(value);
      if (!run.report_label.empty()) devices_[name] = run.report_label;
      if (live_) fmt::print(stderr, "\r  {} measurements, last {:<50}", ++count_, name);
    }
  }
  void Finalize() override {
    if (live_) fmt::print(stderr, "\r{:<90}\r", "");
  }

  std::vector<Row> rows() const {
    std::vector<Row> rows;
    for (const std::string& name : order_) {
      const auto slash = name.find("/ours");
      if (slash == std::string::npos) continue;
      Row row;
      row.name = name.substr(0, slash) + name.substr(slash + 5);
      const auto unit = units_.find(name);
      row.unit = unit != units_.end() ? unit->second : "ns";
      if (const auto device = devices_.find(name); device != devices_.end()) {
        row.device = device->second;
      }
      const Summary ours = summary(samples_.at(name));
      row.ours = ours.median;
      row.least = ours.least;
      row.spread = ours.spread;
      const auto reference =
          samples_.find(name.substr(0, slash) + "/reference" + name.substr(slash + 5));
      if (reference != samples_.end()) {
        const Summary theirs = summary(reference->second);
        row.reference = theirs.median;
        row.reference_least = theirs.least;
        row.reference_spread = theirs.spread;
      }
      rows.push_back(std::move(row));
    }
    // They ran in random order.
    std::sort(rows.begin(), rows.end(),
              [](const Row& a, const Row& b) { return natural(a.name) < natural(b.name); });
    return rows;
  }

 private:
  struct Summary {
    double median = 0;
    double least = 0;
    double spread = 0;
  };
  static Summary summary(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    const double median = samples[samples.size() / 2];
    const double middle = samples[samples.size() * 3 / 4] - samples[samples.size() / 4];
    return {median, samples.front(), median > 0 ? middle / 2 / median : 0};
  }
  // "x/100" after "x/20".
  static std::pair<std::string, long> natural(const std::string& name) {
    const auto slash = name.rfind('/');
    if (slash == std::string::npos) return {name, 0};
    return {name.substr(0, slash), std::strtol(name.c_str() + slash + 1, nullptr, 10)};
  }

  std::map<std::string, std::vector<double>> samples_;
  std::map<std::string, std::string> devices_;  // where it is not the CPU
  std::map<std::string, std::string> units_;    // of those that are no times
  std::set<std::string> skipped_;
  std::vector<std::string> order_;
  size_t count_ = 0;
  bool live_ = isatty(STDERR_FILENO) != 0;
};

const Row* find(const std::vector<Row>& rows, const std::string& name) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

// Rows that are differences of others: what holding costs, and its share of an empty dispatch.
void add_derived_rows(std::vector<Row>& rows) {
  const auto difference = [&](const std::string& source, const std::string& name,
                              const char* note) {
    const Row* row = find(rows, source);
    if (row == nullptr || row->reference == 0) return;
    Row derived{name, "ns", std::max(0.0, row->ours - row->reference), 0, row->spread, note};
    rows.push_back(derived);
  };
  difference("bind_repeated", "hold_repeated", "bind_repeated with holds minus without");
  difference("bind_first", "hold_first", "bind_first with holds minus without");
  const Row* hold = find(rows, "hold_repeated");
  const Row* empty = find(rows, "empty_dispatch");
  if (hold != nullptr && empty != nullptr) {
    rows.push_back({"hold_share_of_an_empty_dispatch", "%", hold->ours / empty->ours * 100, 0, 0,
                    "hold_repeated over empty_dispatch"});
  }
  const Row* few = find(rows, "hazard_prior/10");
  if (few == nullptr) return;
  const double base = few->ours;
  for (Row& row : rows) {
    if (row.name.rfind("hazard_prior/", 0) == 0) {
      row.reference = base;
      row.note = "per binding; reference: with 10 prior dispatches";
    }
  }
}

int run(int argc, char** argv) {
  CLI::App app(
      "Holdfast's benchmarks: one table, each row against a reference measured in the same run");
  std::string json;
  std::string filter = ".*";
  bool brief = false;
  app.add_option("--json", json, "also write the rows to this file");
  app.add_option("--filter", filter, "only benchmarks whose name matches this regular expression");
  app.add_flag("--short", brief,
               "fewer repetitions and launches: to check that it works, not to measure");
  CLI11_PARSE(app, argc, argv);

  std::vector<std::string> words{argv[0], "--benchmark_filter=" + filter,
                                 fmt::format("--benchmark_repetitions={}", brief ? 2 : 9),
                                 fmt::format("--benchmark_min_time={}", brief ? "0.01" : "0.05"),
                                 "--benchmark_enable_random_interleaving=true"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  Collector collector;
  benchmark::RunSpecifiedBenchmarks(&collector);
  std::vector<Row> rows = collector.rows();
  add_derived_rows(rows);
  append_operation_rows(rows, filter, brief);
  append_decode_rows(rows, filter, brief);
  append_workload_rows(rows, filter, brief);
  print_table(rows);
  if (!json.empty()) write_json(rows, json);
  return 0;
}

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  try {
    return holdfast::bench::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
