// Decoding over a key-value cache that is compressed to a few bits (TurboQuant): sequences beside
// each other, each on a thread and a stream of its own. Caches grow in steps and drop what they
// outgrow while earlier steps still read it; each step drops its arrays as soon as the next one is
// scheduled. Nothing is kept alive by the program, and nothing waits but for outputs that are read.
//
//   encode: y = H(sign * v / |v|) / sqrt(D); codes of y's coordinates, packed; |v|
//   attend: s_t = |k_t| q' . centroids(k_t), q' = H(sign * q / sqrt(D)) / sqrt(D);
//           softmax; sum of |v_t| centroids(v_t), rotated back
//
// Every step is compared with a reference in double precision that has the same codebook, and with
// attention without compression.

#include <holdfast/holdfast.h>

#include <unistd.h>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "turboquant_decode.h"

namespace hf = holdfast;

namespace {

using turboquant::Config;
using turboquant::Model;
using turboquant::Sequence;

struct Options {
  Config config;
  int64_t sequences = 4;
  int64_t prompt = 0;    // tokens before the first step
  int64_t tokens = 150;  // steps
  int64_t in_flight = 4;
  bool check = true;
  bool keep = false;
  int64_t soak = 0;  // seconds
  int64_t seed = 1;
};

const char* const kUsage = R"(usage: turboquant [OPTION...]
  --sequences N      sequences that decode beside each other (4)
  --prompt N         tokens of each before its first step (0)
  --tokens N         steps of each (150)
  --query-heads N    (4)      --kv-heads N    (2)      --depth N       (64)
  --key-bits N       (4)      --value-bits N  (3)      --growth N      tokens (32)
  --in-flight N      steps that are scheduled before the oldest is read (4)
  --real             32 query heads, 8 kv heads, depth 128, 4 bits, growth 256
  --no-check         do not compare with the references
  --keep             keep every array of a step until its output was read, as a program must where
                     nothing is retained for it (HOLDFAST_ABLATE=bound-not-held)
  --soak SECONDS     sequences of random lengths that are dropped at random, while caches are cleared
                     and limits change; memory over time as CSV
  --seed N           (1)
HOLDFAST_DEVICE names the device.
)";

// False, with a message, for what is no option.
bool parse(int argc, char** argv, Options& options) {
  Config& config = options.config;
  config.value_bits = 3;  // values that lie in two words
  int64_t key_bits = config.key_bits;
  int64_t value_bits = config.value_bits;
  const std::map<std::string, int64_t*> numbers{
      {"--sequences", &options.sequences}, {"--prompt", &options.prompt},
      {"--tokens", &options.tokens},       {"--query-heads", &config.query_heads},
      {"--kv-heads", &config.kv_heads},    {"--depth", &config.depth},
      {"--key-bits", &key_bits},           {"--value-bits", &value_bits},
      {"--growth", &config.growth},        {"--in-flight", &options.in_flight},
      {"--soak", &options.soak},           {"--seed", &options.seed}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = numbers.find(word);
    if (word == "--real") {
      config.query_heads = 32;
      config.kv_heads = 8;
      config.depth = 128;
      config.growth = 256;
      key_bits = value_bits = 4;
    } else if (word == "--no-check") {
      options.check = false;
    } else if (word == "--keep") {
      options.keep = true;
    } else if (number != numbers.end() && i + 1 < argc) {
      char* end = nullptr;
      *number->second = std::strtoll(argv[++i], &end, 10);
      if (*end != '\0') {
        std::fprintf(stderr, "turboquant: %s takes a number, not '%s'\n", word.c_str(), argv[i]);
        return false;
      }
    } else {
      std::fprintf(stderr, "turboquant: '%s' is no option, or its number is missing\n%s",
                   word.c_str(), kUsage);
      return false;
    }
  }
  config.key_bits = static_cast<int>(key_bits);
  config.value_bits = static_cast<int>(value_bits);
  const bool power = config.depth >= 32 && (config.depth & (config.depth - 1)) == 0;
  const bool bits = key_bits >= 1 && key_bits <= 8 && value_bits >= 1 && value_bits <= 8;
  const bool heads = config.kv_heads >= 1 && config.query_heads % config.kv_heads == 0;
  if (!power || !bits || !heads || config.query_heads < 1 || config.growth < 1 ||
      options.sequences < 1 || options.tokens < 1 || options.prompt < 0 || options.in_flight < 0) {
    std::fprintf(stderr,
                 "turboquant: depth is a power of two from 32 on, bits are 1 to 8, query heads a "
                 "multiple of kv heads, and there is at least one token and one sequence\n");
    return false;
  }
  return true;
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Runs `body(i)` on a thread for each stream, which is then the thread's own. False, with a
// message, where one of them ends with an error.
bool beside_each_other(const std::vector<hf::Stream>& streams,
                       const std::function<void(size_t)>& body) {
  std::atomic<bool> right = true;
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < streams.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        const hf::UseStream scope(streams[i]);
        body(i);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", streams[i].name().c_str(), error.what());
        right = false;
      }
    });
  }
  threads.clear();  // joins them
  return right;
}

std::vector<hf::Stream> make_streams(int64_t count) {
  std::vector<hf::Stream> streams;
  for (int64_t i = 0; i < count; ++i) {
    streams.push_back(hf::new_stream("sequence " + std::to_string(i)));
  }
  return streams;
}

// The centroids of 128 dimensions that the workload was described with. They are not quite the
// best: ours must be close to them, and distort less.
bool check_codebooks() {
  struct Known {
    int bits;
    double distance;
    std::vector<double> centroids;  // the positive ones
  };
  const std::vector<Known> all{
      {2, 5e-5, {.03998, .13302}},
      {3, 2e-4, {.02156, .06648, .11801, .18829}},
      {4, 2e-3, {.01108, .03351, .05679, .08158, .10882, .14024, .17934, .23639}}};
  const turboquant::Density density(128);
  bool right = true;
  for (const Known& known : all) {
    std::vector<double> symmetric = known.centroids;
    for (const double c : known.centroids) symmetric.insert(symmetric.begin(), -c);
    const turboquant::Codebook book = turboquant::make_codebook(128, known.bits);
    double distance = 0;
    for (size_t i = 0; i < symmetric.size(); ++i) {
      distance = std::max(distance, std::abs(book.centroids[i] - symmetric[i]));
    }
    const double theirs = turboquant::distortion_of(density, 128, symmetric);
    const bool good = distance <= known.distance && book.distortion <= theirs;
    std::printf("codebook of %d bits: distortion %.6f, of the known one %.6f, distance %.5f: %s\n",
                known.bits, book.distortion, theirs, distance, good ? "ok" : "WRONG");
    right &= good;
  }
  return right;
}

void print_waits(const hf::Stats& stats) {
  std::printf("waits:");
  bool any = false;
  for (size_t i = 0; i < stats.runtime.waits.size(); ++i) {
    const hf::WaitStats& waits = stats.runtime.waits[i];
    if (waits.count == 0) continue;
    std::printf("%s %s %llu (%.1f ms)", any ? "," : "",
                hf::to_string(static_cast<hf::WaitReason>(i)),
                static_cast<unsigned long long>(waits.count),
                std::chrono::duration<double, std::milli>(waits.total).count());
    any = true;
  }
  std::printf("%s\n", any ? "" : " none");
}

int decode(const Options& options) {
  bool right = check_codebooks();
  const Model model(options.config);
  const std::vector<hf::Stream> streams = make_streams(options.sequences);
  const Sequence::Options how{.checked = options.check,
                              .in_flight = static_cast<size_t>(options.in_flight),
                              .keep = options.keep};
  std::deque<Sequence> sequences;
  for (int64_t i = 0; i < options.sequences; ++i) {
    sequences.emplace_back(model, static_cast<uint64_t>(options.seed * 1000 + i), how);
  }
  if (options.prompt > 0) {
    right &= beside_each_other(streams, [&](size_t i) {
      sequences[i].prefill(options.prompt);
      streams[i].synchronize();
    });
  }
  const auto start = Clock::now();
  right &= beside_each_other(streams, [&](size_t i) {
    for (int64_t t = 0; t < options.tokens; ++t) sequences[i].step();
    sequences[i].finish();
  });
  const double seconds = seconds_since(start);
  Sequence::Findings all;
  for (const Sequence& sequence : sequences) all.add(sequence.findings());
  right &= all.all_right();

  const hf::Stats stats = hf::stats();
  std::printf("%lld sequences on %s, prompts of %lld tokens: %lld steps each, %.1f tokens/s\n",
              static_cast<long long>(options.sequences), hf::default_device().name().c_str(),
              static_cast<long long>(options.prompt), static_cast<long long>(options.tokens),
              static_cast<double>(options.sequences * options.tokens) / seconds);
  std::printf(
      "peak memory %s, at most %s waiting for the device; %llu hidden copies, %llu donated\n",
      hf::to_string(stats.peak_memory()).c_str(),
      hf::to_string(stats.runtime.memory.deferred_peak).c_str(),
      static_cast<unsigned long long>(stats.hidden_copies),
      static_cast<unsigned long long>(stats.donated));
  print_waits(stats);
  std::printf("%lld steps checked: %lld wrong (largest relative error %.2e, allowed %.2e),\n",
              static_cast<long long>(all.checked), static_cast<long long>(all.wrong),
              all.worst_error, turboquant::kTolerance);
  std::printf(
      "  %lld inaccurate (error of the compression at most %.2f of the expected one, "
      "allowed %.2f): %s\n",
      static_cast<long long>(all.inaccurate), all.worst_ratio, turboquant::kErrorBound,
      right ? "ok" : "WRONG");
  return right ? 0 : 1;
}

// Resident memory of this process; 0 where the system does not tell.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  int64_t resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// What goes on around the sequences; any thread may do it at any time.
void disturb(std::mt19937_64& random) {
  const hf::Device device = hf::default_device();
  switch (random() % 6) {
    case 0: device.clear_cache(); break;
    case 1: device.clear_kernels(); break;
    case 2: device.set_cache_limit(hf::Bytes{(random() % 4) << 20}); break;
    case 3: device.set_kernel_limits({.variants = 1 + random() % 8}); break;
    case 4: device.set_memory_limit(hf::Bytes{(1 + random() % 8) << 20}); break;
    default: device.set_memory_limit({}); break;
  }
}

int soak(const Options& options) {
  const Model model(options.config);
  const auto start = Clock::now();
  std::atomic<int64_t> wrong{0};
  std::atomic<int64_t> checked{0};
  std::atomic<int64_t> sequences{0};
  std::atomic<int64_t> refused{0};
  std::atomic<int64_t> next_line{0};
  std::printf(
      "second,sequences,steps_checked,wrong,refused,live,deferred,pooled,reserved,resident,"
      "kernel_variants\n");
  const auto sample = [&] {
    const auto now = static_cast<int64_t>(seconds_since(start));
    int64_t due = next_line;
    if (now < due || !next_line.compare_exchange_strong(due, now + 1)) return;
    const hf::Stats stats = hf::stats();
    const auto bytes = [](hf::Bytes b) { return static_cast<long long>(b.value); };
    std::printf("%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%zu\n",
                static_cast<long long>(now), static_cast<long long>(sequences),
                static_cast<long long>(checked), static_cast<long long>(wrong),
                static_cast<long long>(refused), bytes(stats.runtime.memory.live),
                bytes(stats.runtime.memory.deferred), bytes(stats.runtime.memory.pooled),
                bytes(stats.runtime.memory.reserved), static_cast<long long>(resident_bytes()),
                stats.kernels.variants);
    std::fflush(stdout);
  };
  const bool right = beside_each_other(make_streams(options.sequences), [&](size_t i) {
    std::mt19937_64 random(static_cast<uint64_t>(options.seed) * 1000 + i);
    while (seconds_since(start) < static_cast<double>(options.soak)) {
      Sequence sequence(model, random(), {.checked = options.check, .in_flight = random() % 8});
      const auto steps = static_cast<int64_t>(1 + random() % 160);
      try {
        if (random() % 2 == 0) sequence.prefill(static_cast<int64_t>(1 + random() % 130));
        for (int64_t t = 0; t < steps; ++t) {
          sequence.step();
          if (random() % 40 == 0) disturb(random);
          if (random() % 100 == 0) break;
          sample();
        }
        // One in three is dropped with its steps in flight.
        if (random() % 3 == 0) sequence.abandon();
        sequence.finish();
      } catch (const hf::OutOfMemoryError&) {
        ++refused;  // a limit was set below what all sequences need at once
      }
      ++sequences;
      checked += sequence.findings().checked;
      wrong += sequence.findings().wrong + sequence.findings().inaccurate;
    }
  });
  return right && wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
    std::printf("%s", kUsage);
    return 0;
  }
  Options options;
  if (!parse(argc, argv, options)) return 2;
  try {
    return options.soak > 0 ? soak(options) : decode(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "turboquant: %s\n", error.what());
    return 1;
  }
}
