// The scenarios as tests, and as the program behind ./dev adversary and ./dev ablations.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/error.h"
#include "holdfast/base/sync/clock.h"
#include "holdfast/runtime/scenarios/ablations.h"
#include "holdfast/testing/scenario.h"

namespace holdfast::testing {
namespace {

double seconds_since(sync::TimePoint start) {
  return std::chrono::duration<double>(sync::now() - start).count();
}

// What one process found in its share of the seeds; crosses a pipe as it is.
struct Share {
  uint64_t schedules = 0;
  uint64_t steps = 0;
  uint64_t findings = 0;
};

// Runs `work(share)` in `jobs` processes at once and adds up what they found. A simulation has one
// thread, so more cores mean more processes.
Share in_processes(unsigned jobs, const std::function<Share(unsigned)>& work) {
  struct Child {
    pid_t pid = -1;
    int from = -1;
  };
  std::vector<Child> children;
  std::fflush(stdout);
  for (unsigned i = 0; i < jobs; ++i) {
    int ends[2] = {-1, -1};
    const pid_t pid = pipe(ends) == 0 ? fork() : -1;
    if (pid < 0) {
      std::perror("error: no process for a share of the schedules");
      std::exit(2);
    }
    if (pid == 0) {
      close(ends[0]);
      const Share share = work(i);
      std::fflush(stdout);
      const bool told = write(ends[1], &share, sizeof share) == sizeof share;
      _exit(told ? 0 : 1);
    }
    close(ends[1]);
    children.push_back({pid, ends[0]});
  }
  Share all;
  for (const Child& child : children) {
    Share share;
    const bool told = read(child.from, &share, sizeof share) == sizeof share;
    close(child.from);
    int status = 0;
    waitpid(child.pid, &status, 0);
    // A process that died found something, too.
    if (!told || status != 0) share.findings += 1;
    all.schedules += share.schedules;
    all.steps += share.steps;
    all.findings += share.findings;
  }
  return all;
}

Share explore_scenario(const Scenario& scenario, Family family, const simulation::Seeds& seeds,
                       unsigned jobs) {
  return in_processes(jobs, [&](unsigned job) {
    const uint64_t count = seeds.count / jobs + (job < seeds.count % jobs ? 1 : 0);
    const auto skipped = std::make_shared<std::string>();
    const simulation::Exploration done = simulation::explore(
        as_program(scenario.body, family, skipped), {seeds.first + job, count, jobs}, faults_for);
    if (done.finding) {
      std::printf("%s: %s\n", scenario.name.c_str(), simulation::to_string(*done.finding).c_str());
      std::printf("  with:     --gtest_filter=%s\n", adversary_test(scenario.name, family).c_str());
    }
    if (!skipped->empty() && job == 0) {
      std::printf("%s: skipped: %s\n", scenario.name.c_str(), skipped->c_str());
    }
    return Share{done.schedules, done.steps, done.finding ? 1U : 0U};
  });
}

std::vector<Scenario> matching(const std::string& name) {
  std::vector<Scenario> found;
  for (const Scenario& scenario : scenarios()) {
    if (scenario.name.find(name) != std::string::npos) found.push_back(scenario);
  }
  return found;
}

// Returns the exit status.
int adversary(const std::string& name, Family family, const simulation::Seeds& seeds,
              unsigned jobs) {
  const std::vector<Scenario> chosen = matching(name);
  if (chosen.empty()) {
    std::fprintf(stderr, "error: no scenario is called '%s'; --list shows them\n", name.c_str());
    return 2;
  }
  std::printf("%-72s %10s %8s %12s\n", "scenario", "schedules", "steps", "schedules/s");
  Share all;
  const sync::TimePoint start = sync::now();
  for (size_t i = 0; i < chosen.size(); ++i) {
    simulation::Seeds own = seeds;
    own.count = seeds.count / chosen.size() + (i < seeds.count % chosen.size() ? 1 : 0);
    if (own.count == 0) continue;
    const sync::TimePoint began = sync::now();
    const Share share = explore_scenario(chosen[i], family, own, jobs);
    std::printf("%-72s %10llu %8.0f %12.0f%s\n", chosen[i].name.c_str(),
                static_cast<unsigned long long>(share.schedules),
                static_cast<double>(share.steps) /
                    static_cast<double>(std::max<uint64_t>(share.schedules, 1)),
                static_cast<double>(share.schedules) / seconds_since(began),
                share.findings > 0 ? "  FAILED" : "");
    std::fflush(stdout);
    all.schedules += share.schedules;
    all.steps += share.steps;
    all.findings += share.findings;
  }
  const double took = seconds_since(start);
  std::printf("%llu schedules of %zu scenarios in %.1f s: %.0f schedules/s; %llu violations\n",
              static_cast<unsigned long long>(all.schedules), chosen.size(), took,
              static_cast<double>(all.schedules) / took,
              static_cast<unsigned long long>(all.findings));
  return all.findings > 0 ? 1 : 0;
}

constexpr uint64_t kMostSchedules = 2000;  // before an ablation counts as not found

// Returns the exit status.
int ablations(Family family, const std::string& name, uint64_t clean_schedules) {
  bool good = true;
  size_t tried = 0;
  for (const AblationCase& ablation : ablation_cases()) {
    if (std::string_view(ablation.scenario).find(name) == std::string_view::npos) continue;
    const Kill first = kill(ablation, kMostSchedules, family);
    if (!first.skipped.empty()) {
      std::printf("%s\n  skipped     %s\n\n",
                  std::string(ablation_token(ablation.ablation)).c_str(), first.skipped.c_str());
      continue;
    }
    ++tried;
    const Kill second = kill(ablation, kMostSchedules, family);
    const bool same = first.digest == second.digest && first.sentence == second.sentence;
    good = good && first.killed && same;
    std::printf(
        "%s\n  stands for  %s\n  killed by   %s, %s\n  it says     %s\n  replay      %s\n\n",
        std::string(ablation_token(ablation.ablation)).c_str(), ablation.stands_for,
        ablation.scenario,
        !first.killed ? fmt::format("NOT KILLED in {} schedules", first.schedules).c_str()
        : same        ? fmt::format("schedules needed: {}", first.schedules).c_str()
                      : "NOT THE SAME TWICE",
        first.sentence.c_str(), first.replay_line.c_str());
    std::fflush(stdout);
  }
  uint64_t schedules = 0;
  uint64_t violations = 0;
  for (const Scenario& scenario : matching(name)) {
    const simulation::Exploration done =
        simulation::explore(as_program(scenario.body, family), {1, clean_schedules}, faults_for);
    schedules += done.schedules;
    if (!done.finding) continue;
    ++violations;
    std::printf("%s: %s\n", scenario.name.c_str(), simulation::to_string(*done.finding).c_str());
  }
  std::printf("%zu ablations, %s; with all safeties on: %llu schedules, %llu violations\n", tried,
              good ? "every one killed" : "NOT EVERY ONE KILLED",
              static_cast<unsigned long long>(schedules),
              static_cast<unsigned long long>(violations));
  return good && violations == 0 ? 0 : 1;
}

// One line a scenario: the digest of its first schedules. The same in every build of one source.
int digests(Family family, uint64_t schedules) {
  bool good = true;
  for (const Scenario& scenario : scenarios()) {
    const simulation::Exploration done =
        simulation::explore(as_program(scenario.body, family), {1, schedules}, faults_for);
    std::printf("%016llx %s\n", static_cast<unsigned long long>(done.digest),
                scenario.name.c_str());
    good = good && !done.finding;
  }
  return good ? 0 : 1;
}

int run(int argc, char** argv) {
  CLI::App app(
      "Scenarios of the runtime. Without options: as tests (GoogleTest's own options apply, see "
      "--gtest_help).");
  app.allow_extras();
  std::string name;
  simulation::Seeds seeds;
  unsigned jobs = 2;
  std::string device = "cpu";
  bool list = false;
  bool table = false;
  bool digest = false;
  uint64_t clean = 100;
  app.add_flag("--list", list, "Names the scenarios");
  CLI::Option* schedules =
      app.add_option("--schedules", seeds.count,
                     "Simulates this many schedules in all, under the adversary and validate")
          ->check(CLI::PositiveNumber);
  app.add_option("--scenario", name, "Only scenarios whose name contains this");
  app.add_option("--device", device, "What the scenarios run on: cpu (default), vulkan or cuda")
      ->check(CLI::IsMember({"cpu", "vulkan", "cuda"}));
  app.add_option("--seed", seeds.first, "The first seed");
  app.add_option("--jobs", jobs, "Processes at once")->check(CLI::Range(1U, 64U));
  app.add_flag("--ablations", table, "Takes each safety away and shows what notices");
  app.add_option("--clean", clean, "With --ablations: schedules a scenario with nothing ablated");
  app.add_flag("--digests", digest, "Prints the digest of 20 schedules (or --schedules) of each");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  for (const std::string& extra : app.remaining()) {
    if (extra.starts_with("--gtest_")) continue;
    std::fprintf(stderr, "error: unknown option '%s'; see --help\n", extra.c_str());
    return 2;
  }
  if (list) {
    for (const Scenario& scenario : scenarios()) std::printf("%s\n", scenario.name.c_str());
    return 0;
  }
  const Family family = *family_called(device);
  if (table) return ablations(family, name, clean);
  if (digest) return digests(family, schedules->count() > 0 ? seeds.count : 20);
  if (schedules->count() > 0) return adversary(name, family, seeds, jobs);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace holdfast::testing

int main(int argc, char** argv) {
  // Expectations of a simulated scenario go through GoogleTest, which must know its own options.
  return holdfast::testing::run(argc, argv);
}
