#include "decode_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <regex>

#include "examples/turboquant_decode.h"
#include "holdfast/base/ablation.h"
#include "holdfast/base/error.h"
#include "holdfast/base/sync/clock.h"
#include "holdfast/base/sync/thread.h"

namespace holdfast::bench {
namespace {

using turboquant::Config;
using turboquant::Model;
using turboquant::Sequence;

constexpr Config kReal{
    .query_heads = 32, .kv_heads = 8, .depth = 128, .key_bits = 4, .value_bits = 4, .growth = 256};
// Kernels that take so little that the host's part of a step shows.
constexpr Config kSmall{
    .query_heads = 1, .kv_heads = 1, .depth = 32, .key_bits = 4, .value_bits = 4, .growth = 32};

struct Load {
  Config config;
  size_t sequences = 1;
  int64_t prompt = 0;
  int64_t steps = 0;
  int64_t rounds = 1;  // sequences one after the other; with a prompt, the same one goes on
  bool keep = false;
};

double seconds_between(sync::TimePoint start, sync::TimePoint end) {
  return std::chrono::duration<double>(end - start).count();
}

// Seconds that all steps of all sequences take, on a device of their own; prompts are encoded
// before.
double decode(const Load& load) {
  const Device device = open_device("cpu");
  std::vector<Stream> streams;
  for (size_t i = 0; i < load.sequences; ++i) streams.push_back(device.new_stream());
  std::optional<Model> model;
  {
    const UseStream scope(streams[0]);
    model.emplace(load.config);
  }
  const Sequence::Options how{.checked = false, .keep = load.keep};
  std::deque<Sequence> sequences;
  for (size_t i = 0; i < load.sequences; ++i) {
    sequences.emplace_back(*model, i + 1, how);
    const UseStream scope(streams[i]);
    if (load.prompt > 0) sequences[i].prefill(load.prompt);
    sequences[i].step();  // compiles
    sequences[i].finish();
    streams[i].synchronize();
  }
  const auto start = sync::now();
  {
    std::vector<sync::Thread> threads;
    for (size_t i = 0; i < load.sequences; ++i) {
      threads.emplace_back("sequence", [&, i] {
        const UseStream scope(streams[i]);
        for (int64_t round = 0; round < load.rounds; ++round) {
          std::optional<Sequence> fresh;
          if (load.prompt == 0) fresh.emplace(*model, i + 1, how);
          Sequence& sequence = fresh ? *fresh : sequences[i];
          for (int64_t t = 0; t < load.steps; ++t) sequence.step();
          sequence.finish();
        }
      });
    }
  }
  const double seconds = seconds_between(start, sync::now());
  sequences.clear();
  return seconds;
}

struct Samples {
  std::vector<double> values;
  double median() const { return sorted()[values.size() / 2]; }
  double least() const { return sorted().front(); }
  double spread() const {
    const std::vector<double> s = sorted();
    return (s[s.size() * 3 / 4] - s[s.size() / 4]) / 2 / median();
  }

 private:
  std::vector<double> sorted() const {
    std::vector<double> s = values;
    std::sort(s.begin(), s.end());
    return s;
  }
};

void append_throughput(std::vector<Row>& rows, size_t sequences, bool brief) {
  Load load{kReal, sequences, brief ? 256 : 1920, brief ? 1 : 16};
  Samples rates;
  for (int i = 0; i < (brief ? 1 : 3); ++i) {
    rates.values.push_back(static_cast<double>(sequences) * static_cast<double>(load.steps) /
                           decode(load));
  }
  Row row{fmt::format("workload3_tokens_{}", sequences),
          "per second",
          rates.median(),
          0,
          rates.spread(),
          fmt::format("{} tokens before, {} steps each; a token is one layer's", load.prompt,
                      load.steps)};
  row.least = rates.least();
  rows.push_back(std::move(row));
}

#ifdef HOLDFAST_ABLATIONS
// The program keeps all arrays itself on both sides, so that nothing goes wrong without retention.
void append_retention(std::vector<Row>& rows, const char* name, Load load, int repetitions) {
  load.keep = true;
  Samples with;
  Samples without;
  for (int i = 0; i < repetitions; ++i) {
    for (const bool retained : {i % 2 == 0, i % 2 != 0}) {
      std::optional<ScopedAblation> memory;
      std::optional<ScopedAblation> kernels;
      if (!retained) {
        memory.emplace(Ablation::bound_not_held);
        kernels.emplace(Ablation::pipelines_not_held);
      }
      const double ns = decode(load) * 1e9 / static_cast<double>(load.rounds * load.steps);
      (retained ? with : without).values.push_back(ns);
    }
  }
  Row row{name,          "ns",
          with.median(), without.median(),
          with.spread(), "a step; reference: without retention, in turn"};
  row.least = with.least();
  row.reference_least = without.least();
  row.reference_spread = without.spread();
  rows.push_back(std::move(row));
}
#endif

}  // namespace

void append_decode_rows(std::vector<Row>& rows, const std::string& filter, bool brief) {
  if (!std::regex_search("workload3", std::regex(filter))) return;
  for (const size_t sequences : {1, 16}) append_throughput(rows, sequences, brief);
#ifdef HOLDFAST_ABLATIONS
  append_retention(rows, "workload3_retention_real", {kReal, 1, brief ? 256 : 1920, brief ? 1 : 8},
                   brief ? 1 : 9);
  append_retention(rows, "workload3_retention_small", {kSmall, 1, 0, 60, brief ? 1 : 100},
                   brief ? 1 : 21);
#endif
}

}  // namespace holdfast::bench
