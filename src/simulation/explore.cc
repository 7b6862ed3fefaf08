#include "holdfast/simulation/explore.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "holdfast/base/error.h"

namespace holdfast::simulation {
namespace {

constexpr size_t kShownSteps = 60;

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(at), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// What kind of failure it is: its first words, without names and numbers.
std::string shape_of(const std::string& failure) {
  constexpr size_t kWords = 48;
  std::string shape;
  bool quoted = false;
  for (const char c : failure) {
    if (c == '\'') quoted = !quoted;
    if (c == '\n' || shape.size() == kWords) break;
    if (!quoted && (c < '0' || c > '9')) shape += c;
  }
  return shape;
}

class Shrinker {
 public:
  Shrinker(const Program& program, uint64_t max_runs) : program_(program), left_(max_runs) {}

  // Whether the variant fails too; it is then the best so far.
  bool fails(const Variant& variant) {
    if (left_ == 0) return false;
    --left_;
    ++runs_;
    Result result = run_variant(program_, variant);
    if (result.failure.empty()) return false;
    // Something else that goes wrong as well is another finding.
    if (shape_.empty()) shape_ = shape_of(result.failure);
    if (shape_of(result.failure) != shape_) return false;
    best_ = variant;
    // Only what really decided something.
    best_.schedule = result.outcome.choices;
    return true;
  }

  void drop_faults() {
    for (size_t i = best_.faults.size(); i-- > 0;) {
      Variant without = best_;
      without.faults.erase(without.faults.begin() + static_cast<std::ptrdiff_t>(i));
      fails(without);
    }
  }

  // Larger pieces first.
  void drop_decisions() {
    for (size_t piece = best_.schedule->size(); piece > 0; piece /= 2) {
      for (size_t begin = 0; begin < best_.schedule->size();) {
        Variant without = best_;
        auto from = std::next(without.schedule->begin(), static_cast<std::ptrdiff_t>(begin));
        auto to = std::next(
            from, static_cast<std::ptrdiff_t>(std::min(piece, without.schedule->size() - begin)));
        without.schedule->erase(from, to);
        const size_t before = best_.schedule->size();
        // A run may decide otherwise elsewhere; only fewer decisions are progress.
        const Variant kept = best_;
        if (!fails(without)) {
          begin += piece;
        } else if (best_.schedule->size() >= before) {
          best_ = kept;
          begin += piece;
        }
        if (left_ == 0) return;
      }
    }
  }

  const Variant& best() const { return best_; }
  uint64_t runs() const { return runs_; }

 private:
  const Program& program_;
  uint64_t left_;
  uint64_t runs_ = 0;
  std::string shape_;
  Variant best_;
};

}  // namespace

Variant parse_variant(std::string_view text) {
  Variant variant;
  for (const std::string& word : split(text, ',')) {
    const std::string_view w = word;
    if (w.starts_with("seed=")) {
      const std::string_view number = w.substr(5);
      const auto [end, error] =
          std::from_chars(number.data(), number.data() + number.size(), variant.seed);
      if (!number.empty() && error == std::errc() && end == number.data() + number.size()) continue;
    } else if (w.starts_with("faults=")) {
      variant.faults = split(w.substr(7), '+');
      continue;
    } else if (w.starts_with("schedule=")) {
      variant.schedule = parse_choices(w.substr(9));
      continue;
    }
    throw UsageError(
        fmt::format("'{}' cannot be read: a run is given by seed=N, faults=alloc@N+... and "
                    "schedule=N.N+..., separated by commas",
                    word));
  }
  return variant;
}

std::string to_string(const Variant& variant) {
  std::string text = variant.schedule ? "schedule=" + to_string(*variant.schedule)
                                      : fmt::format("seed={}", variant.seed);
  if (!variant.faults.empty()) text += fmt::format(",faults={}", fmt::join(variant.faults, "+"));
  return text;
}

std::string replay_line(const Variant& variant) {
  return "HOLDFAST_ADVERSARY=" + to_string(variant);
}

Result run_variant(const Program& program, const Variant& variant, bool trace) {
  if (variant.schedule) {
    Deviations driver(*variant.schedule);
    return program(driver, variant.faults, trace);
  }
  SeededDriver driver(variant.seed);
  return program(driver, variant.faults, trace);
}

Finding shrink(const Program& program, const Variant& failing, uint64_t max_runs) {
  Shrinker shrinker(program, max_runs);
  Finding finding;
  finding.found = failing;
  if (!shrinker.fails(failing)) {
    // It does not fail twice: the program is not the same every time.
    finding.shortest = failing;
    finding.result.failure = "it failed once and not again: the program does not repeat itself";
    finding.repeats = false;
    return finding;
  }
  shrinker.drop_faults();
  shrinker.drop_decisions();
  finding.shortest = shrinker.best();
  finding.shrink_runs = shrinker.runs();
  finding.result = run_variant(program, finding.shortest, true);
  return finding;
}

std::string to_string(const Finding& finding) {
  std::string text = fmt::format("{}\n  replay:   {}\n  shortest: {}\n", finding.result.failure,
                                 replay_line(finding.found), replay_line(finding.shortest));
  const auto& trace = finding.result.outcome.trace;
  const size_t skipped = trace.size() > kShownSteps ? trace.size() - kShownSteps : 0;
  text += fmt::format("  its last steps{}:\n",
                      skipped > 0 ? fmt::format(" ({} before them)", skipped) : "");
  for (size_t i = skipped; i < trace.size(); ++i) text += fmt::format("    {}\n", trace[i]);
  return text;
}

Exploration explore(const Program& program, const Seeds& seeds,
                    const std::function<std::vector<std::string>(uint64_t seed)>& faults_for) {
  Exploration done;
  for (uint64_t i = 0; i < seeds.count; ++i) {
    const uint64_t seed = seeds.first + i * seeds.stride;
    const Variant variant{seed, {}, faults_for(seed)};
    const Result result = run_variant(program, variant);
    ++done.schedules;
    done.steps += result.outcome.steps;
    done.digest = done.digest * 0x9E3779B97F4A7C15ULL + result.outcome.digest;
    if (result.failure.empty()) continue;
    done.finding = shrink(program, variant);
    if (done.finding->result.failure.empty()) done.finding->result.failure = result.failure;
    break;
  }
  return done;
}

}  // namespace holdfast::simulation
